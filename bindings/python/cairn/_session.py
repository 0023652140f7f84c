# SPDX-License-Identifier: BSD-3-Clause
"""Sessions and handles of checkpoints."""
import asyncio
import concurrent.futures
import ctypes
import select
import threading
from ctypes import byref

from . import _declarations as d
from ._arrays import block_of
from ._library import ALLGATHER, Damaged, Error, NotFound, check, lib, load
from ._rendezvous import rendezvous_of

LEVELS = {"captured": d.CAIRN_CAPTURED, "local": d.CAIRN_LOCAL, "protected": d.CAIRN_PROTECTED,
          "persistent": d.CAIRN_PERSISTENT}

CAPTURES = {"now": 0, "lazy": d.CAIRN_LAZY, "stream": d.CAIRN_STREAM_ORDERED}


def level_of(level):
    try:
        return LEVELS.get(level) or LEVELS[{v: k for k, v in LEVELS.items()}[level]]
    except KeyError:
        raise ValueError(f"level {level!r} is none of {', '.join(LEVELS)}") from None


def names_of(regions):
    if regions is None:
        return None
    names = [r.encode() for r in regions]
    return (ctypes.c_char_p * (len(names) + 1))(*names, None)


def setting(key, value):
    if isinstance(value, bool):
        value = "on" if value else "off"
    return f"{key}={value}".encode()


class _Future(concurrent.futures.Future):
    """Of a checkpoint: asking for the result speeds up the flush."""

    def result(self, timeout=None):
        if not self.done():
            self.checkpoint._hasten(self.level)
        return super().result(timeout)


class Checkpoint:
    """A checkpoint that this session took. Await it, or use wait, done and future."""

    def __init__(self, session, name, version):
        self.session, self.name, self.version = session, name, version

    def __repr__(self):
        return f"<Checkpoint {self.name}@{self.version}>"

    def done(self, level="persistent"):
        """Has it reached the level? Raises if it never will."""
        reached = ctypes.c_int()
        self.session._call("cairn_test", self.name.encode(), self.version, level_of(level),
                           byref(reached))
        return bool(reached.value)

    def wait(self, level="persistent", timeout=None):
        """Waits for the level, at most timeout seconds (default: the key wait_timeout). Calls of
        other threads on the session wait as long; futures do not."""
        ms = d.CAIRN_WAIT_CONFIG if timeout is None else max(0, int(timeout * 1000))
        self.session._call("cairn_wait", self.name.encode(), self.version, level_of(level), ms)
        return self

    def future(self, level="persistent"):
        """A concurrent.futures.Future whose result is this handle."""
        return self.session._watch(self, level_of(level))

    def _hasten(self, level):
        """Tells the flush that somebody waits."""
        try:
            self.wait(level, 0.001)
        except (Error, RuntimeError):
            pass  # the future tells

    def __await__(self):
        self._hasten("persistent")
        return asyncio.wrap_future(self.future()).__await__()

    @property
    def stats(self):
        """bytes, copy_seconds, blocked_seconds, persistent_seconds; levels, the names of all levels
        reached; level, the number of the highest."""
        s = d.cairn_stats(size=ctypes.sizeof(d.cairn_stats))
        self.session._call("cairn_stats", self.name.encode(), self.version, byref(s))
        return {"bytes": s.bytes, "level": s.level, "copy_seconds": s.copy_seconds,
                "blocked_seconds": s.blocked_seconds, "persistent_seconds": s.persistent_seconds,
                "levels": {name for name, level in LEVELS.items() if s.levels >> level & 1}}


class Session:
    """A session of one process, or of all processes of a job (comm).

    comm is None for a single process, "torch" after torch.distributed.init_process_group, a
    communicator of mpi4py, or an object with rank, size and allgather(bytes). Further keywords are
    configuration keys: Session(persistent="/lustre/me/ck", keep_last=3).
    """

    def __init__(self, persistent=None, *, comm=None, config_file=None, **keys):
        if persistent is not None:
            keys["persistent"] = persistent
        settings = [setting(key, value) for key, value in keys.items()]
        self._settings = (ctypes.c_char_p * (len(settings) + 1))(*settings, None)
        options = d.cairn_options(ctypes.sizeof(d.cairn_options),
                                  config_file.encode() if config_file else None, self._settings)
        self._lock = threading.RLock()
        self._owners, self._watched, self._watcher = {}, [], None
        self._handle = ctypes.c_void_p()
        self._open(rendezvous_of(comm), options)
        self.rank = lib.cairn_rank(self._handle)
        self.ranks = lib.cairn_ranks(self._handle)

    def _open(self, meeting, options):
        if meeting is None:
            return check(lib.cairn_open(byref(options), byref(self._handle)))
        problem = []

        def allgather(_, data, size, out):
            try:
                blobs = meeting.allgather(ctypes.string_at(data, size))
                ctypes.memmove(out, b"".join(blobs), size * meeting.size)
                return 0
            except BaseException as error:  # must not cross the C frames
                problem.append(error)
                return 1

        ucx = load("libcairn_ucx")
        ucx.cairn_open_ucx.restype = ctypes.c_int
        code = ucx.cairn_open_ucx(
            ctypes.c_int(meeting.rank), ctypes.c_int(meeting.size), ALLGATHER(allgather), None,
            byref(options), byref(self._handle))
        if problem:
            raise problem[0]
        return check(code)

    def _call(self, function, *arguments):
        with self._lock:
            if not self._handle:
                raise RuntimeError("the session is closed")
            check(getattr(lib, function)(self._handle, *arguments))

    @property
    def is_open(self):
        return bool(self._handle)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.close()
        else:
            try:
                self.close()
            except Error:
                pass  # the first error counts

    def close(self):
        """Waits until every checkpoint is persistent; then nothing is left to save."""
        with self._lock:
            if self._handle:
                self._end_watching()
            handle, self._handle = self._handle, None
            self._owners.clear()
            if handle:
                check(lib.cairn_close(handle))

    # Regions ------------------------------------------------------------------------------------

    def protect(self, region, array, global_shape=None, offset=None,
                replicated=False, type=None):
        """Registers an array under a name, where it lies. It must stay at its place until it is
        protected again or unprotected; the session keeps a reference to it. replicated: all ranks
        hold it alike; it is written once and restored to all."""
        block = block_of(array)
        shape = block.shape or (1,)
        a = d.cairn_array(size=ctypes.sizeof(d.cairn_array),
                          type=block.kind if type is None else type, ndims=len(shape))
        if len(shape) > d.CAIRN_MAX_DIMS:
            raise ValueError(f"{len(shape)} dimensions; Cairn has {d.CAIRN_MAX_DIMS}")
        for i, n in enumerate(shape):
            a.dims[i] = n
            if global_shape is not None:
                a.global_dims[i] = global_shape[i]
                a.offset[i] = offset[i] if offset is not None else 0
        if replicated and global_shape is not None:
            raise ValueError("replicated data has no place in a global array")
        function = "cairn_protect_replicated" if replicated else "cairn_protect_array"
        self._call(function, region.encode(), block.pointer, byref(a))
        self._owners[region] = block

    def unprotect(self, region):
        self._call("cairn_unprotect", region.encode())
        self._owners.pop(region, None)

    @property
    def regions(self):
        return list(self._owners)

    def gpu_stream(self, stream):
        """Names the stream that computes the data: its number, or an object with cuda_stream."""
        stream = getattr(stream, "cuda_stream", stream)
        self._call("cairn_gpu_stream", ctypes.c_void_p(stream if stream else 1))

    # Checkpoints --------------------------------------------------------------------------------

    def checkpoint(self, name, version, regions=None, *, level=None, protect=None, capture="now"):
        """Collective. Captures the regions and returns a handle; the arrays may change then. level
        and protect are those of cairn_checkpoint_options; None: as configured.

        capture="lazy" reads the arrays in the background: do not change them before source_free().
        capture="stream" makes the stream of gpu_stream wait for the copy, not the caller."""
        if capture not in CAPTURES:
            raise ValueError(f"capture {capture!r} is none of {', '.join(CAPTURES)}")
        options = d.cairn_checkpoint_options(
            ctypes.sizeof(d.cairn_checkpoint_options), names_of(regions),
            d.CAIRN_LEVEL_NONE if level is None else level_of(level), CAPTURES[capture],
            None if protect is None else protect.encode())
        self._call("cairn_checkpoint_with", name.encode(), version, byref(options))
        return Checkpoint(self, name, version)

    def source_free(self):
        """Waits until the arrays of a lazy checkpoint have been read and may change."""
        self._call("cairn_source_free")

    def wait_all(self, level="persistent", timeout=None):
        ms = d.CAIRN_WAIT_CONFIG if timeout is None else max(0, int(timeout * 1000))
        self._call("cairn_wait_all", level_of(level), ms)

    def restart(self, name, regions=None):
        """Collective. Restores the newest good version and returns its number; None if there is
        none. Any other trouble raises: do not start over then."""
        found = ctypes.c_int64()
        try:
            self._call("cairn_restart", name.encode(), names_of(regions), byref(found))
        except NotFound:
            return None
        return found.value

    def find(self, name, not_newer_than=d.CAIRN_NEWEST, verify=False):
        """Collective. The newest version that every rank can read, or None. With verify all its
        data is read first, and damaged versions are passed over."""
        found, damage = ctypes.c_int64(), None
        while True:
            try:
                self._call("cairn_find", name.encode(), not_newer_than, byref(found))
            except NotFound:
                if damage is not None:
                    raise damage from None
                return None
            if not verify:
                return found.value
            try:
                self.verify(name, found.value)
                return found.value
            except Damaged as e:
                damage, not_newer_than = e, found.value - 1

    def restore(self, name, version, regions=None, old_rank=None):
        if old_rank is None:
            self._call("cairn_restore", name.encode(), version, names_of(regions))
        else:
            self._call("cairn_restore_from", name.encode(), version, old_rank, names_of(regions))

    def find_version(self, name, version):
        """Collective. Looks at a version; raises if it is missing or incomplete."""
        self._call("cairn_find_version", name.encode(), version)

    def verify(self, name, version):
        """Collective. Reads all data of a version in the store; raises if any is damaged."""
        self._call("cairn_verify", name.encode(), version)

    def versions(self, name):
        """The committed versions, ascending."""
        n, room = ctypes.c_size_t(), 64
        while True:
            found = (ctypes.c_int64 * room)()
            self._call("cairn_list", name.encode(), found, room, byref(n))
            if n.value <= room:
                return sorted(found[:n.value])
            room = n.value

    def region_info(self, name, version, region, old_rank=d.CAIRN_OWN_RANK):
        """Type, shape, global shape (or None) and offset of a stored region."""
        a = d.cairn_array(size=ctypes.sizeof(d.cairn_array))
        self._call("cairn_region_info", name.encode(), version, old_rank, region.encode(), byref(a))
        n = a.ndims
        whole = tuple(a.global_dims[:n]) if a.global_dims[0] else None
        return a.type, tuple(a.dims[:n]), whole, tuple(a.offset[:n])

    def ranks_of(self, name, version):
        """How many ranks wrote a version."""
        info = d.cairn_version_info(size=ctypes.sizeof(d.cairn_version_info))
        self._call("cairn_version_info", name.encode(), version, byref(info))
        return info.ranks

    def stored_regions(self, name, version, old_rank=d.CAIRN_OWN_RANK):
        """Names of the regions in the shard of a rank."""
        a = d.cairn_array(size=ctypes.sizeof(d.cairn_array))
        text = ctypes.create_string_buffer(d.CAIRN_MAX_NAME)
        found = []
        try:
            while True:
                self._call("cairn_region_at", name.encode(), version, old_rank, len(found), text,
                           len(text), byref(a))
                found.append(text.value.decode())
        except NotFound:
            return found

    def remove(self, name, version):
        self._call("cairn_remove", name.encode(), version)

    def should_checkpoint(self, name):
        yes = ctypes.c_int()
        self._call("cairn_should_checkpoint", name.encode(), byref(yes))
        return bool(yes.value)

    def should_stop(self):
        yes = ctypes.c_int()
        self._call("cairn_should_stop", byref(yes))
        return bool(yes.value)

    def prefetch(self, name, versions):
        """Announces versions that will be restored, in this order, and brings them close."""
        for version in versions:
            self._call("cairn_prefetch_enqueue", name.encode(), version)
        self._call("cairn_prefetch_start")

    # Futures ------------------------------------------------------------------------------------

    def _watch(self, checkpoint, level):
        future = _Future()
        future.checkpoint, future.level = checkpoint, level
        future.set_running_or_notify_cancel()
        with self._lock:
            self._watched.append((checkpoint, level, future))
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch_all, daemon=True,
                                                 name="cairn-watch")
                self._watcher.start()
        return future

    def _look(self):
        """Completes what is done; false when nothing is left to watch."""
        with self._lock:
            watched, self._watched = self._watched, []
            ended = []
            for checkpoint, level, future in watched:
                try:
                    if checkpoint.done(level):
                        ended.append((future.set_result, checkpoint))
                    else:
                        self._watched.append((checkpoint, level, future))
                except Exception as error:
                    ended.append((future.set_exception, error))
            if not self._watched:
                self._watcher = None
            goes_on = self._watcher is not None
        for end, value in ended:  # without the lock: this runs callbacks
            end(value)
        return goes_on

    def _watch_all(self):
        poll = select.poll()
        with self._lock:
            fd = lib.cairn_event_fd(self._handle) if self._handle else -1
        if fd >= 0:
            poll.register(fd, select.POLLIN)
        while self._look():
            poll.poll(50)

    def _end_watching(self):
        """Waits for what futures stand for, so that each learns how its checkpoint ended."""
        watched, self._watched = self._watched, []
        for checkpoint, level, future in watched:
            try:
                future.set_result(checkpoint.wait(level))
            except Exception as error:
                future.set_exception(error)
