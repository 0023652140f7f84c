# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints of training jobs: Checkpointer, and storage for torch.distributed.checkpoint.

    ck = cairn.torch.Checkpointer("/lustre/me/ck", model=model, optimizer=optimizer)
    step = ck.load() or 0
    for step in range(step + 1, last + 1):
        train()
        if step % 100 == 0:
            ck.save(step)
    ck.close()
"""
import functools
import io
import pickle
import random
import types
import warnings
import weakref

import torch

from . import _declarations as d
from ._arrays import TORCH, block_of
from ._library import Error, NotFound
from ._session import Session

META, RANDOM = "cairn.meta", "cairn.random"  # the regions of a rank with what is no tensor
KINDS = {kind: getattr(torch, name) for name, kind in TORCH.items() if hasattr(torch, name)}


class _Tensor:
    """Stands for a tensor in the pickled structure of a state."""

    def __init__(self, region, shape):
        self.region, self.shape = region, tuple(shape)

    def __reduce__(self):
        return _Tensor, (self.region, self.shape)


_SAFE = {("collections", "OrderedDict"), ("collections", "deque"), ("builtins", "set"),
         ("builtins", "frozenset"), ("builtins", "complex"), ("builtins", "slice"),
         ("builtins", "bytearray"), ("_codecs", "encode"),
         ("numpy.core.multiarray", "_reconstruct"), ("numpy.core.multiarray", "scalar"),
         ("numpy._core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "scalar"),
         ("numpy", "ndarray"), ("numpy", "dtype"), ("torch", "Size"), ("torch", "device"),
         (__name__, "_Tensor")}


class _SafeUnpickler(pickle.Unpickler):
    def find_class(self, module, name):
        is_dtype = module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        if not is_dtype and (module, name) not in _SAFE:
            raise pickle.UnpicklingError(
                f"the checkpoint holds an object of {module}.{name}; load(weights_only=False) "
                "loads it, if you trust the checkpoint")
        return super().find_class(module, name)


_PLAIN = (torch.Tensor, torch.nn.Parameter)  # types of tensors that are memory and nothing else


def _is_same(a, b):
    """Of plain tensors with one address: are they the same memory, such as tied weights?"""
    return (a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride()
            and a.device == b.device)


def _flatten(value, path, tensors, seen=None):
    """Replaces tensors by their regions, depth first; tensors: region -> tensor. With seen (address ->
    region, tensor) a tensor that comes again gets the region it has."""
    if isinstance(value, torch.Tensor):
        address = value.data_ptr() if seen is not None and type(value) in _PLAIN else 0
        if address and address in seen and _is_same(value, seen[address][1]):
            return _Tensor(seen[address][0], value.shape)
        region = path if len(path.encode()) < d.CAIRN_MAX_NAME else f"tensor.{len(tensors)}"
        while region in tensors or region.startswith("cairn."):
            region += "'"
        tensors[region] = value
        if address:
            seen.setdefault(address, (region, value))
        return _Tensor(region, value.shape)
    if isinstance(value, dict):
        flat = {k: _flatten(v, f"{path}.{k}" if path else str(k), tensors, seen)
                for k, v in value.items()}
        if type(value).__name__ != "OrderedDict":
            return flat
        flat = type(value)(flat)
        flat.__dict__.update(vars(value))  # the versions of the modules
        return flat
    if type(value) in (list, tuple):
        return type(value)(_flatten(v, f"{path}.{i}", tensors, seen) for i, v in enumerate(value))
    return value


def _unflatten(value, tensors):
    if isinstance(value, _Tensor):
        tensor = tensors[value.region]
        return tensor if tuple(tensor.shape) == value.shape else tensor.reshape(value.shape)
    if isinstance(value, dict):
        for k in value:
            value[k] = _unflatten(value[k], tensors)
        return value
    if type(value) in (list, tuple):
        return type(value)(_unflatten(v, tensors) for v in value)
    return value


def _is_dtensor(tensor):
    return hasattr(tensor, "to_local") and hasattr(tensor, "device_mesh")


def _is_shards(tensor):
    """A ShardedTensor, as the sharded state of the older FSDP."""
    return hasattr(tensor, "local_shards")


def _is_sharded(tensor):
    return _is_dtensor(tensor) or _is_shards(tensor)


def _local_of(tensor):
    if _is_shards(tensor):
        shards = tensor.local_shards()
        if len(shards) > 1:
            raise TypeError(f"a ShardedTensor with {len(shards)} shards in one process")
        return shards[0].tensor.detach() if shards else torch.empty(
            (0,) * len(tensor.size()), dtype=tensor.dtype)
    return (tensor.to_local() if _is_dtensor(tensor) else tensor).detach()


class _Part:
    """A tensor as memory: the whole, or this rank's block of a sharded one."""

    def __init__(self, tensor, fixed=(), is_saved=False):
        """fixed: addresses of memory that does not change before the next step of an optimizer.
        is_saved: of a block that several ranks hold alike, only this rank's share."""
        self.tensor, self.global_shape, self.offset = tensor, None, None
        local = _local_of(tensor)
        self.is_fixed = local.data_ptr() in fixed
        if _is_sharded(tensor):
            local = local.reshape(1) if local.dim() == 0 else local
            self.global_shape, self.offset = _place_of(tensor, local)
            if is_saved and _is_dtensor(tensor):
                local = self._share(local)
        self.copy = None
        if not local.is_contiguous():
            self.copy, local = local, local.contiguous()
        self.local, self.key = local, None
        # A later save takes this part again if the tensor is the same memory still, which this
        # reference keeps from being given to another tensor.
        self.address = local.data_ptr() if self.copy is None and type(tensor) in _PLAIN else 0

    def is_still(self, tensor):
        return (self.address and type(tensor) in _PLAIN and tensor.data_ptr() == self.address
                and tensor.shape == self.local.shape and tensor.dtype == self.local.dtype
                and tensor.is_contiguous())

    def _share(self, local):
        number, ranks = 0, 1  # of this rank among those that hold the block
        mesh = self.tensor.device_mesh
        where = mesh.get_coordinate()
        for i, placement in enumerate(self.tensor.placements):
            if type(placement).__name__ == "Replicate" and where is not None:
                number = number * mesh.size(i) + where[i]
                ranks *= mesh.size(i)
        rows = local.shape[0]
        first, end = rows * number // ranks, rows * (number + 1) // ranks
        self.offset = (self.offset[0] + first, *self.offset[1:])
        return local[first:end]

    def keep(self):
        """Makes a copy of memory that may change while it is read in the background."""
        if self.copy is None and not self.is_fixed:
            self.local, self.address = self.local.clone(), 0

    def write_back(self):
        if self.copy is not None:
            self.copy.copy_(self.local)


def _place_of(tensor, local):
    """Global shape of a sharded tensor, and the offset of this rank's block."""
    if _is_shards(tensor):
        shards = tensor.local_shards()
        return tuple(tensor.size()), tuple(shards[0].metadata.shard_offsets) if shards else (
            0,) * len(tensor.size())
    whole = tuple(tensor.shape) or (1,)
    shape, offset, mesh = list(whole), [0] * len(whole), tensor.device_mesh
    where = mesh.get_coordinate()
    if where is None:  # this rank is not in the mesh
        return whole, tuple(offset)
    kinds = [type(p).__name__ for p in tensor.placements]
    # FSDP2 divides what tensor parallelism has divided before.
    for i in sorted(range(len(kinds)), key=lambda i: kinds[i] == "_StridedShard"):
        p = tensor.placements[i]
        if kinds[i] == "Replicate":
            continue
        if kinds[i] not in ("Shard", "_StridedShard"):
            raise TypeError(f"a tensor with placement {p} cannot be saved: reduce it first")
        rows = -(-shape[p.dim] // mesh.size(i))
        first = min(rows * where[i], shape[p.dim])
        offset[p.dim] += first
        shape[p.dim] = min(rows, shape[p.dim] - first)
    if tuple(shape) != tuple(local.shape):
        raise TypeError(f"a tensor with placements {tensor.placements} cannot be saved: its block "
                        f"is {tuple(local.shape)}, not {tuple(shape)}")
    return whole, tuple(offset)


def _random_state():
    state = {"python": random.getstate(), "torch": bytes(torch.get_rng_state().tolist())}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda"] = [bytes(s.tolist()) for s in torch.cuda.get_rng_state_all()]
    try:
        import numpy
        kind, keys, *rest = numpy.random.get_state()
        state["numpy"] = (kind, keys.tolist(), *rest)
    except ImportError:
        pass
    return state


def _bytes_of(data):
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _set_random_state(state):
    random.setstate(state["python"])
    torch.set_rng_state(_bytes_of(state["torch"]))
    if "cuda" in state and torch.cuda.is_available():
        states = state["cuda"][:torch.cuda.device_count()]
        torch.cuda.set_rng_state_all([_bytes_of(s) for s in states])
    if "numpy" in state:
        import numpy
        kind, keys, *rest = state["numpy"]
        numpy.random.set_state((kind, numpy.array(keys, "u4"), *rest))


def _before_step(optimizer, checkpointer):
    """Makes each step of the optimizer wait until the tensors have been read."""
    held = weakref.ref(checkpointer)

    def hook(*_):
        alive = held()
        if alive is not None and alive.session.is_open:
            alive._free()

    if hasattr(optimizer, "register_step_pre_hook"):  # from PyTorch 2.0 on
        optimizer.register_step_pre_hook(hook)
        return
    step = optimizer.step

    @functools.wraps(step)
    def waiting_step(_, *arguments, **keywords):
        hook()
        return step(*arguments, **keywords)

    optimizer.step = types.MethodType(waiting_step, optimizer)


class Batches:
    """Iterates over a DataLoader and knows its place in it: a part of a checkpoint.

        batches = cairn.torch.Batches(loader)
        ck = cairn.torch.Checkpointer(directory, model=model, batches=batches)
        ck.load()
        while batches.epoch < epochs:
            for batch in batches:        # after a load, the rest of the epoch
                ...

    The order of the rest is that of the interrupted epoch. The batches before it are read and
    skipped. A loader with a state_dict of its own needs no Batches."""

    def __init__(self, loader):
        self.loader, self.epoch, self.batch, self._start = loader, 0, 0, None

    def _generator(self):
        return getattr(self.loader, "generator", None) or torch.default_generator

    def __iter__(self):
        if hasattr(getattr(self.loader, "sampler", None), "set_epoch"):
            self.loader.sampler.set_epoch(self.epoch)
        generator, before = self._generator(), _random_state()
        if self.batch > 0:
            generator.set_state(_bytes_of(self._start))
        else:
            self._start = bytes(generator.get_state().tolist())
        rest = iter(self.loader)
        if self.batch > 0:
            for _ in range(self.batch):
                next(rest, None)
            _set_random_state(before)
        for batch in rest:
            self.batch += 1
            yield batch
        self.epoch, self.batch = self.epoch + 1, 0

    def __len__(self):
        return len(self.loader)

    def state_dict(self):
        return {"epoch": self.epoch, "batch": self.batch, "start": self._start}

    def load_state_dict(self, state):
        self.epoch, self.batch, self._start = state["epoch"], state["batch"], state["start"]


class Checkpointer:
    """Saves and loads whatever has state_dict and load_state_dict, given by name.

    Tensors become regions under their names; the rest is pickled into one small region. In a job of
    several processes (torch.distributed is initialized) plain tensors are held alike by all ranks,
    as data-parallel training has them, and written once; DTensors (FSDP2, tensor parallelism) are
    blocks of global arrays, which another number of processes can load. replicated=False keeps the
    plain tensors of each rank apart. Random states are kept for each rank.

    capture says when save reads the tensors: "now", before it returns; "lazy", in the background,
    while the next step of an optimizer waits if need be; "stream", on the GPU, while its current
    stream waits.
    """

    def __init__(self, directory, name="train", comm=None, replicated=True, random_state=True,
                 capture="now", **parts):
        keys = {k: parts.pop(k) for k in list(parts)
                if not hasattr(parts[k], "state_dict") and not isinstance(parts[k], dict)}
        if not parts:
            raise ValueError("name what is to be saved: Checkpointer(dir, model=..., optimizer=...)")
        if comm is None and torch.distributed.is_available() and torch.distributed.is_initialized():
            comm = "torch"
        self.name, self.parts, self.random_state = name, parts, random_state
        self.session = Session(directory, comm=comm, **keys)
        self.replicated = replicated and self.session.ranks > 1
        self.capture, self._protected, self._held = capture, {}, {}
        self._is_checked = False
        if capture == "lazy":
            for optimizer in self._optimizers():
                _before_step(optimizer, self)

    # What is saved ------------------------------------------------------------------------------

    def _state(self):
        return {key: part.state_dict() if hasattr(part, "state_dict") else part
                for key, part in self.parts.items()}

    def _optimizers(self):
        return [p for p in self.parts.values() if isinstance(p, torch.optim.Optimizer)]

    def _fixed(self):
        """Where the tensors lie that only an optimizer's step changes."""
        tensors = [t for o in self._optimizers() for group in o.param_groups
                   for t in group["params"]]
        tensors += [t for o in self._optimizers() for state in o.state.values()
                    for t in state.values() if isinstance(t, torch.Tensor)]
        return {(t if type(t) in _PLAIN else _local_of(t)).data_ptr() for t in tensors}

    def _free(self):
        """Waits until a lazy save has read the tensors. Training continues if it has failed."""
        try:
            self.session.source_free()
        except Error as error:
            warnings.warn(f"a checkpoint failed: {error}")

    def _protect(self, region, part, replicated):
        if part.key is not None and self._protected.get(region) is part.key:
            return
        if part.local.numel() == 0 and part.global_shape is None:
            shape, pointer = (0,), None
        else:
            block = block_of(part.local)
            shape, pointer = block.shape or (1,), block.pointer
        whole = part.global_shape is not None
        replicated = replicated and not whole
        key = (pointer, shape, part.local.dtype, part.global_shape, part.offset, replicated)
        if self._protected.get(region) != key:
            self.session.protect(region, part.local, global_shape=part.global_shape if whole else None,
                                 offset=part.offset, replicated=replicated)
            self._protected[region] = key
        part.key = self._protected[region]

    def _protect_all(self, parts):
        for region in set(self._protected) - set(parts):
            self.session.unprotect(region)
            del self._protected[region]
        for region, part in parts.items():
            self._protect(region, part, self.replicated)

    def _name_stream(self, parts):
        devices = {p.local.device for p in parts.values() if p.local.is_cuda}
        for device in devices:
            self.session.gpu_stream(torch.cuda.current_stream(device))

    # Saving -------------------------------------------------------------------------------------

    def save(self, step):
        """Collective. Captures the state and returns a handle; training may continue at once."""
        tensors = {}
        structure = _flatten(self._state(), "", tensors, {})
        is_lazy = self.capture == "lazy"
        fixed = self._fixed() if is_lazy else ()
        parts = {}
        for region, tensor in tensors.items():
            part = self._held.get(region)
            if part is None or not part.is_still(tensor) or (is_lazy and part.address not in fixed):
                part = _Part(tensor, fixed, True)
                if is_lazy:
                    part.keep()
            parts[region] = part
        parts.update(self._own_part(META, structure))
        self._warn_of_objects(structure)
        if self.random_state:
            parts.update(self._own_part(RANDOM, _random_state()))
        self._protect_all(parts)
        self._name_stream(parts)
        self._held = parts
        return self.session.checkpoint(self.name, step, capture=self.capture)

    def _warn_of_objects(self, structure):
        """Of the first save: better than at the load."""
        if not self._is_checked:
            self._is_checked = True
            try:
                _SafeUnpickler(io.BytesIO(pickle.dumps(structure, protocol=4))).load()
            except pickle.UnpicklingError as error:
                warnings.warn(str(error))

    def _own_part(self, region, value):
        """What is this rank's own, as a global array, so that any rank can read it."""
        data = bytearray(pickle.dumps(value, protocol=4))
        part = _Part(torch.frombuffer(data, dtype=torch.uint8))
        part.global_shape, part.offset = (len(data),), (0,)
        return {f"{region}.{self.session.rank}": part}

    # Loading ------------------------------------------------------------------------------------

    def load(self, step=None, weights_only=True):
        """Collective. Loads the newest good step, or this one, and returns it; None if there is
        none. With weights_only (the default) nothing that is pickled can run code."""
        self._protect_all({})
        self._held = {}  # the memory of tensors that load_state_dict replaces
        if step is None:
            step = self.session.find(self.name, verify=True)
            if step is None:
                return None
        else:
            self.session.find_version(self.name, step)
        own = self.session.rank if self.session.rank < self.session.ranks_of(self.name, step) else 0
        meta = self._read(step, f"{META}.{own}")
        loads = pickle.loads if not weights_only else \
            lambda data: _SafeUnpickler(io.BytesIO(data)).load()
        structure = loads(meta)
        self._load_tensors(step, structure)
        self._load_random(step, loads)
        return step

    def _stored(self, step, region):
        """Type and shape of a region: this rank's, or of whichever rank has it."""
        ranks = self.session.ranks_of(self.name, step)
        for rank in (self.session.rank % ranks, *range(ranks)):
            try:
                kind, shape, whole, _ = self.session.region_info(self.name, step, region, rank)
                return kind, whole or shape, whole
            except NotFound:
                continue
        raise NotFound(d.CAIRN_ENOENT, f"{self.name}@{step} has no region '{region}'")

    def _restore(self, step, parts):
        """Restores these regions alone."""
        self._protect_all({})
        for region, part in parts.items():
            whole = self._stored(step, region)[2]
            if part.global_shape is None and whole is not None:
                part.global_shape, part.offset = whole, (0,) * len(whole)
                part.local = part.local.reshape(whole)
            self._protect(region, part, False)
        self.session.restore(self.name, step, list(parts))
        for part in parts.values():
            part.write_back()
        self._protect_all({})

    def _read(self, step, region):
        kind, shape, _ = self._stored(step, region)
        part = _Part(torch.empty(shape, dtype=KINDS[kind]))
        self._restore(step, {region: part})
        return part.local.numpy().tobytes()

    def _templates(self):
        """Parameters by the first part of the names of their optimizer state. A fresh optimizer
        has no state yet; what is loaded shall lie as the parameter does."""
        return {f"{key}.state.{i}": p for key, part in self.parts.items()
                if isinstance(part, torch.optim.Optimizer)
                for i, p in enumerate(p for group in part.param_groups for p in group["params"])}

    def _load_tensors(self, step, structure):
        live, templates = {}, self._templates()
        _flatten(self._state(), "", live)
        wanted = {}
        _regions_of(structure, wanted)
        parts, fresh = {}, {}
        for region in wanted:
            kind, shape, whole = self._stored(step, region)
            tensor = live.get(region)
            owner, _, what = region.rpartition(".")
            if tensor is None and owner in templates and what != "step":
                tensor = torch.empty_like(templates[owner].detach(), dtype=KINDS[kind])
            fits = tensor is not None and TORCH.get(str(tensor.dtype)[6:]) == kind and (
                tuple(tensor.shape) or (1,)) == tuple(shape)
            if not fits:
                tensor = torch.empty(shape, dtype=KINDS[kind])
            parts[region] = _Part(tensor)
            fresh[region] = tensor
        if parts:
            self._restore(step, parts)
            if any(p.local.is_cuda for p in parts.values()):
                torch.cuda.synchronize()
        state = _unflatten(structure, fresh)
        for key, part in self.parts.items():
            if key not in state:
                raise KeyError(f"{self.name}@{step} has no '{key}', it has {sorted(state)}")
            if hasattr(part, "load_state_dict"):
                part.load_state_dict(state[key])
            else:
                part.clear()
                part.update(state[key])

    def _load_random(self, step, loads):
        region = f"{RANDOM}.{self.session.rank}"
        if not self.random_state:
            return
        try:
            self._stored(step, region)
        except NotFound:
            return  # a new rank: it keeps the state that it was given
        _set_random_state(loads(self._read(step, region)))

    # The rest -----------------------------------------------------------------------------------

    def steps(self):
        """The steps that are on the file system."""
        return self.session.versions(self.name)

    def replay(self, steps, weights_only=True):
        """Loads the steps one after another, and prefetches those to come."""
        steps = list(steps)
        self.session.prefetch(self.name, steps)
        for step in steps:
            yield self.load(step, weights_only)

    def wait(self, timeout=None):
        """Waits until every saved step is on the file system."""
        self.session.wait_all("persistent", timeout)

    def close(self):
        self.session.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return self.session.__exit__(*error)


def _regions_of(value, found):
    if isinstance(value, _Tensor):
        found[value.region] = True
    elif isinstance(value, dict):
        for v in value.values():
            _regions_of(v, found)
    elif type(value) in (list, tuple):
        for v in value:
            _regions_of(v, found)
