# SPDX-License-Identifier: BSD-3-Clause
import array
import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cairn


def test_the_declarations_are_those_of_the_headers():
    script = Path(__file__).parent.parent / "make_declarations.py"
    subprocess.run([sys.executable, script, "--check"], check=True)


def test_arrays_come_back(place):
    a = np.arange(1000, dtype="f8").reshape(10, 100)
    b = array.array("i", range(50))
    c = bytearray(b"hello")
    half = np.arange(8, dtype="f2")
    with cairn.Session(place / "ck") as s:
        s.protect("a", a)
        s.protect("b", b)
        s.protect("c", c)
        s.protect("half", half)
        assert s.restart("run") is None
        handle = s.checkpoint("run", 1)
        a += 1
        handle.wait()
        assert handle.done("captured") and handle.stats["bytes"] == 8000 + 200 + 5 + 16
        assert handle.stats["levels"] == {"captured", "local", "protected", "persistent"}
        s.checkpoint("run", 2, level="persistent").wait("protected")
        assert s.versions("run") == [1, 2]
        with pytest.raises(cairn.Error):
            s.checkpoint("run", 3, protect="xor9")
    with cairn.Session(place / "ck") as s:
        a[:] = 0
        b[0] = 99
        c[:] = b"xxxxx"
        half[:] = 0
        for name, data in dict(a=a, b=b, c=c, half=half).items():
            s.protect(name, data)
        assert s.restart("run") == 2
        assert (a == np.arange(1000).reshape(10, 100) + 1).all()
        assert list(b) == list(range(50)) and c == b"hello" and (half == np.arange(8)).all()
        s.restore("run", 1)
        assert a[0, 0] == 0
        assert s.region_info("run", 1, "a")[1] == (10, 100)
        assert s.stored_regions("run", 1) == ["a", "b", "c", "half"]


def test_a_lazy_checkpoint(place):
    a = np.arange(1 << 20, dtype="f8")
    with cairn.Session(place / "ck") as s:
        s.protect("a", a)
        for version in range(1, 4):
            a[:] = version
            handle = s.checkpoint("run", version, capture="lazy")
            s.source_free()
            a[:] = -1
        s.checkpoint("run", 4, capture="stream")  # host memory: like any other
        handle.wait()
        for version in range(1, 4):
            s.restore("run", version)
            assert (a == version).all()
        s.source_free()
        with pytest.raises(ValueError, match="capture"):
            s.checkpoint("run", 5, capture="later")


def test_errors_are_exceptions(place):
    with cairn.Session(place / "ck") as s:
        with pytest.raises(cairn.InvalidArgument, match="region"):
            s.protect("", np.zeros(1))
        with pytest.raises(ValueError, match="read-only"):
            s.protect("x", b"constant")
        with pytest.raises(ValueError, match="contiguous"):
            s.protect("x", np.zeros((4, 4))[:, ::2])
        with pytest.raises(TypeError, match="holds no array"):
            s.protect("x", object())
        a = np.zeros(10)
        s.protect("a", a)
        s.checkpoint("run", 1).wait()
        s.protect("a", np.zeros(11))
        with pytest.raises(cairn.Mismatch) as caught:
            s.restore("run", 1)
        assert caught.value.name == "CAIRN_EMISMATCH"
    with pytest.raises(RuntimeError, match="closed"):
        s.checkpoint("run", 2)


def test_futures_and_await(place):
    async def train(s):
        return await s.checkpoint("run", 2)

    with cairn.Session(place / "ck") as s:
        s.protect("a", np.zeros(1000))
        assert s.checkpoint("run", 1).future().result(60).version == 1
        assert asyncio.run(train(s)).version == 2


def test_close_completes_futures(place):
    with cairn.Session(place / "ck") as s:
        s.protect("a", np.zeros(1000))
        future = s.checkpoint("run", 1).future()
    assert future.result(0).version == 1
    with pytest.raises(cairn.Error):
        with cairn.Session(place / "ck", fresh=True, on_failure="continue",
                           free_reserve_bytes="1000T", wait_timeout="200ms") as s:
            s.protect("a", np.zeros(1000))
            future = s.checkpoint("run", 2).future()
    assert isinstance(future.exception(0), cairn.Error)


GIL = """
import threading
for key in ("CAIRN_SHM_DIR", "CAIRN_RUN_DIR"):
    os.environ[key] = args[0]
meetings = [cairn.FileRendezvous(args[0] + "/pair", i, 2, timeout=600) for i in (0, 1)]
sessions, problems = [None, None], []

def one(i):
    try:
        with cairn.Session(args[0] + "/ck", comm=meetings[i], ranks_per_node=1) as s:
            a = np.full(1000, float(i))
            s.protect("a", a)
            s.checkpoint("run", 1).wait()
            a[:] = -1
            s.restore("run", 1)
            assert (a == i).all()
    except BaseException as error:
        problems.append(error)

threads = [threading.Thread(target=one, args=(i,)) for i in (0, 1)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert not problems, problems
"""


def test_every_call_releases_the_gil(place, job):
    """Two ranks are threads of one process: a collective call that held the GIL would wait for the
    other one forever."""
    assert job(GIL, 1, place) == [0]


class OnlyDLPack:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_arrays_through_dlpack(place):
    a, b = np.arange(24, dtype="i2").reshape(2, 3, 4), np.arange(5.0)
    with cairn.Session(place / "ck") as s:
        s.protect("a", OnlyDLPack(a))
        s.protect("b", OnlyDLPack(b[1:4]))
        s.checkpoint("run", 1)
        assert s.region_info("run", 1, "a")[:2] == (3, (2, 3, 4))
        a[:], b[:] = 0, 9
        s.restore("run", 1)
        assert (a.reshape(-1) == np.arange(24)).all() and list(b) == [9, 1, 2, 3, 9]
        with pytest.raises(ValueError, match="contiguous"):
            s.protect("c", OnlyDLPack(a[:, :, ::2]))


JOB = """
n = 1000
first, end = n * rank // ranks, n * (rank + 1) // ranks
t = np.zeros(end - first)
with cairn.Session(args[0], comm=meeting, ranks_per_node=1) as s:
    s.protect("t", t, global_shape=(n,), offset=(first,))
    step = s.restart("heat") or 0
    if step:
        assert (t == step * 1000 + np.arange(first, end)).all()
    for step in range(step + 1, step + 4):
        t[:] = step * 1000 + np.arange(first, end)
        s.checkpoint("heat", step)
"""


def test_a_job_restarts_on_another_number_of_processes(place, job):
    assert job(JOB, 3, place / "ck") == [0, 0, 0]
    assert job(JOB, 2, place / "ck") == [0, 0]
    version = cairn.open_store(place / "ck")["heat"][6]
    assert version.info["ranks"] == 2
    assert (np.asarray(version["t"]) == 6000 + np.arange(1000)).all()
    assert (version["t"][10:20] == 6010 + np.arange(10)).all()
    assert version["t"][-1] == 6999
    assert (version["t"][100:110:3] == 6100 + np.arange(0, 10, 3)).all()
    assert (version["t"].of_rank(1)[:5] == 6500 + np.arange(5)).all()


def test_files_of_a_rendezvous(place, job):
    """The blobs with the secret do not stay; a second attempt must not read those of the first."""
    script = """
with cairn.Session(args[0], comm=meeting, ranks_per_node=1) as s:
    assert (s.rank, s.ranks) == (rank, ranks)
"""
    assert job(script, 2, place / "ck") == [0, 0]
    left = sorted(p.name for p in (place / "meeting1").iterdir())
    rounds = {name.split(".")[1] for name in left}
    assert len(rounds) == 1 and "0" not in rounds, left
    with pytest.raises(FileExistsError, match="before"):
        cairn.FileRendezvous(place / "meeting1", 0, 2)
    (place / "open").mkdir(mode=0o755)
    with pytest.raises(PermissionError, match="chmod 700"):
        cairn.FileRendezvous(place / "open", 0, 2)


KILLED = """
t = np.zeros(100)
s = cairn.Session(args[0], comm=meeting, ranks_per_node=1)
s.protect("t", t)
s.checkpoint("heat", 1).wait()
meeting.allgather(b"")
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    s.restart("heat")
except cairn.PeerFailed as error:
    assert "rank 1 (process" in str(error), error
    sys.stdout.flush()
    os._exit(7)
"""


def test_a_dead_rank_is_named(place, job):
    assert job(KILLED, 3, place / "ck") == [7, -signal.SIGKILL, 7]


def test_a_store_is_read_without_a_session(place):
    a = np.arange(24, dtype="i4").reshape(4, 6)
    with cairn.Session(place / "ck") as s:
        s.protect("a", a)
        s.checkpoint("run", 3).wait()
    store = cairn.open_store(place / "ck")
    assert list(store) == ["run"] and list(store["run"]) == [3]
    region = store["run"].newest["a"]
    assert (np.asarray(region) == a).all() and region.dtype == a.dtype
    assert (region[1:3, ::2] == a[1:3, ::2]).all() and (region[..., 5] == a[..., 5]).all()
    with pytest.raises(KeyError):
        store["run"][4]
    with pytest.raises(IndexError):
        region[9]


def test_a_version_becomes_a_file_and_back(place):
    from cairn import files
    w, h = np.arange(12, dtype="f4").reshape(3, 4), np.arange(6, dtype="u2")
    with cairn.Session(place / "ck") as s:
        s.protect("model.w", w)
        s.protect("model.h", h, type=14)  # bits of bf16
        s.protect("other", np.zeros(3))
        s.checkpoint("run", 3).wait()
    for suffix in ("safetensors", "npz"):
        path = place / f"model.{suffix}"
        assert sorted(files.export_version(place / "ck", "run", 3, path, "model.")) == ["h", "w"]
        back = f"back-{suffix}"
        files.import_version(path, place / "ck", back, 1, "model.")
        version = cairn.open_store(place / "ck")[back][1]
        assert (version["model.w"][:] == w).all() and (version["model.h"][:] == h).all()
        assert version["model.w"].type == "f32"
    assert version.name == "back-npz" and version["model.h"].type == "u16"
    data = (place / "model.safetensors").read_bytes()
    assert b'"dtype": "BF16"' in data and data.endswith(w.tobytes())
    (place / "cut.safetensors").write_bytes(data[:-5])
    with pytest.raises(ValueError, match="outside the file"):
        files.import_version(place / "cut.safetensors", place / "ck", "cut", 1)
    with pytest.raises(KeyError, match="begins with"):
        files.export_version(place / "ck", "run", 3, place / "x.npz", "nothing.")
    program = [os.environ["CAIRNPY_PROGRAM"], "--dir", place / "ck"]
    env = {**os.environ, "CAIRN_PYTHON": sys.executable}

    def run(*words, status=0):
        done = subprocess.run([*program, *map(str, words)], capture_output=True, text=True, env=env)
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    assert "3 regions" in run("export", "run", "--to", place / "all.npz")
    assert "2 regions" in run("export", "run@3", "--to", place / "m.npz", "--prefix", "model.")
    assert "2 regions" in run("import", place / "m.npz", "--to", "m@5", "--prefix", "x.")
    assert (cairn.open_store(place / "ck")["m"][5]["x.w"][:] == w).all()
    assert "--to" in run("export", "run@3", status=2)
    assert "no version" in run("import", place / "m.npz", "--to", "m", status=2)
    env["CAIRN_PYTHON"] = "/nowhere/python3"
    assert "CAIRN_PYTHON" in run("export", "run", "--to", place / "all.npz", status=1)
