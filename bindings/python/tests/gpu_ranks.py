#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Several processes with a newer PyTorch than the other tests have: DTensors, FSDP2, ShardedTensors
and torch.distributed.checkpoint. Gloo; the tensors are on the CPU, and on one GPU where a case says
so. What four ranks save is loaded by four, by two, by three and by one.

usage: gpu_ranks.py [DIRECTORY [CASE ...]]    CAIRNPY_LIBDIR names the folder of libcairn
"""
import os
import pathlib
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
ROWS, COLUMNS = 10, 6


def whole(number=0):
    import torch
    return torch.arange(ROWS * COLUMNS, dtype=torch.float32).reshape(ROWS, COLUMNS) + 1000 * number


def size_of(version):
    """Bytes of the regions that hold tensors, all blocks counted."""
    return sum(r["bytes"] for r in version.info["regions"] if not r["region"].startswith("cairn."))


class Ranks:
    def __init__(self, directory, phase):
        import torch.distributed as dist
        # Through a file: another process may take the port that torchrun found free.
        rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        dist.init_process_group("gloo", init_method=f"file://{directory}.{phase}-{ranks}", rank=rank,
                                world_size=ranks)
        self.directory, self.dist = directory, dist
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()

    def checkpointer(self, **parts):
        import cairn.torch
        return cairn.torch.Checkpointer(self.directory, ranks_per_node=1, **parts)

    def version(self, step=1):
        import cairn
        return cairn.open_store(self.directory)["train"][step]


def placed(mesh, placements, number):
    from torch.distributed.tensor import distribute_tensor
    return distribute_tensor(whole(number), mesh, placements)


def case_dtensor(r, is_first):
    """Uneven shards, columns, replicas, and both at once on a mesh of two dimensions."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    mesh = init_device_mesh("cpu", (r.ranks,))
    kinds = [(mesh, [Shard(0)]), (mesh, [Shard(1)]), (mesh, [Replicate()])]
    if r.ranks % 2 == 0:
        flat = init_device_mesh("cpu", (2, r.ranks // 2))
        kinds += [(flat, [Replicate(), Shard(0)]), (flat, [Shard(1), Replicate()])]
    else:
        kinds += [(mesh, [Shard(0)]), (mesh, [Replicate()])]
    state = {str(i): placed(m, p, i) for i, (m, p) in enumerate(kinds)}
    state["plain"] = whole(7)
    state["few"] = torch.tensor(3.0)
    with r.checkpointer(state=state) as ck:
        if is_first:
            ck.save(1).wait()
        for tensor in state.values():
            local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
            local.zero_()
        assert ck.load() == 1
        for i in range(len(kinds)):
            assert torch.equal(state[str(i)].full_tensor(), whole(i)), i
        assert torch.equal(state["plain"], whole(7)) and state["few"].item() == 3.0
        if is_first and r.rank == 0:  # each once, although two or four ranks hold some of them
            assert size_of(r.version()) == 6 * ROWS * COLUMNS * 4 + 4, size_of(r.version())


def fsdp_model():
    import torch
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(7, 33), torch.nn.ReLU(), torch.nn.Linear(33, 5))


def case_fsdp2(r, is_first):
    """The state of a sharded model and its optimizer, in a fresh optimizer on any number of ranks.
    Gradients are set by hand, so that the steps do not depend on the number of ranks."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    model = fsdp_model()
    mesh = init_device_mesh("cpu", (r.ranks,))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def step(n):
        for i, p in enumerate(model.parameters()):
            p.grad = torch.full_like(p, 0.1 * (i + 1) + n)
        optimizer.step()

    def full():
        moments = [optimizer.state[p]["exp_avg"] for p in model.parameters()]
        return [t.full_tensor().clone() for t in [*model.parameters(), *moments]]

    keep = pathlib.Path(f"{r.directory}.expected")
    with r.checkpointer(model=model, optimizer=optimizer) as ck:
        if is_first:
            for n in range(3):
                step(n)
            ck.save(1)
            for n in range(3, 6):
                step(n)
            if r.rank == 0:
                torch.save(full(), keep)
            else:
                full()
            ck.wait()
            return
        assert ck.load() == 1
        state = optimizer.state[next(iter(model.parameters()))]
        assert hasattr(state["exp_avg"], "to_local")
        for n in range(3, 6):
            step(n)
        for got, expected in zip(full(), torch.load(keep)):
            assert torch.equal(got, expected)


def case_sharded_tensor(r, is_first):
    """The older kind of sharded tensor."""
    import torch
    from torch.distributed._shard import sharded_tensor as st
    from torch.distributed._shard.metadata import ShardMetadata
    first, end = ROWS * r.rank // r.ranks, ROWS * (r.rank + 1) // r.ranks
    local = whole()[first:end].clone()
    meta = ShardMetadata([first, 0], [end - first, COLUMNS], f"rank:{r.rank}/cpu")
    state = {"w": st.init_from_local_shards([st.Shard(local, meta)], ROWS, COLUMNS)}
    with r.checkpointer(state=state) as ck:
        if is_first:
            ck.save(1).wait()
        local.zero_()
        assert ck.load() == 1
        assert torch.equal(local, whole()[first:end])


def dcp_state(r, fill):
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard
    mesh = init_device_mesh("cpu", (r.ranks,))
    state = {"sharded": placed(mesh, [Shard(0)], 1), "plain": whole(2), "step": 17 if fill else 0,
             "half": torch.full((9,), 1.5, dtype=torch.bfloat16)}
    if not fill:
        state["sharded"].to_local().zero_()
        state["plain"].zero_()
        state["half"].zero_()
    return state


def case_dcp(r, is_first):
    """dcp.save, dcp.async_save and dcp.load."""
    import torch
    import torch.distributed.checkpoint as dcp

    import cairn.dcp
    storage = cairn.dcp.Storage(r.directory, ranks_per_node=1)
    if is_first:
        state = dcp_state(r, True)
        dcp.save(state, storage_writer=storage.writer(1))
        writer = storage.writer(2)
        future = dcp.async_save(state, storage_writer=writer)
        state["plain"].add_(1)  # captured before
        future = getattr(future, "upload_completion", future)
        future.result()
        assert writer.handle.done("persistent")
    for step in (1, 2, None):
        state = dcp_state(r, False)
        dcp.load(state, storage_reader=storage.reader(step))
        assert torch.equal(state["sharded"].full_tensor(), whole(1)), step
        assert torch.equal(state["plain"], whole(2)), step
        assert torch.equal(state["half"], torch.full((9,), 1.5, dtype=torch.bfloat16)), step
        assert state["step"] == 17
    storage.close()
    if is_first and r.rank == 0:
        written = sum(x["bytes"] for x in r.version().info["regions"]
                      if x["region"].startswith("item."))
        assert 2 * ROWS * COLUMNS * 4 + 18 <= written < 2 * ROWS * COLUMNS * 4 + 2000, written


def case_one_gpu(r, is_first):
    """All ranks on one GPU share its memory (device_cache = auto), and hold the same state."""
    import torch
    device = "cuda" if torch.cuda.is_available() else "cpu"
    n = 1 << 22
    state = {"alike": torch.arange(n, device=device, dtype=torch.float32)}  # sums are exact
    expected = state["alike"].clone()
    with r.checkpointer(state=state, device_cache="auto") as ck:
        if is_first:
            for step in range(1, 4):
                ck.save(step)
                state["alike"].add_(1)
            ck.wait()
            expected.add_(2)
        state["alike"].zero_()
        assert ck.load() == 3
        if is_first:
            assert torch.equal(state["alike"], expected)
            if r.rank == 0:
                assert size_of(r.version(3)) == 4 * n, size_of(r.version(3))
        else:
            assert torch.equal(state["alike"], expected.add_(2))


def start(case, phase, ranks, directory):
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "-r", "1", "-t", "1",
         "--log_dir", f"{directory}.log", "--nproc_per_node", str(ranks), __file__, "--worker", case,
         phase, directory],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=150, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        print(done.stdout)
    return done.returncode == 0


NEEDS = {"dtensor": "import torch.distributed.tensor", "dcp": "import torch.distributed.tensor",
         "fsdp2": "from torch.distributed.fsdp import fully_shard",
         "sharded_tensor": "import torch.distributed._shard.sharded_tensor"}


def run(case, directory):
    """Returns whether it failed."""
    try:
        exec(NEEDS.get(case, ""))
    except (ImportError, ValueError) as error:  # ValueError: PyTorch 1.13 on Python 3.11
        print(f"skipped {case}: {error}", flush=True)
        return False
    for i, n in enumerate([4, 4, 2, 3, 1]):
        good = start(case, "first" if i == 0 else "again", n, directory)
        print(f"{'ok     ' if good else 'FAILED '} {case} {'saved' if i == 0 else 'loaded'} by {n}",
              flush=True)
        if not good:
            return True
    return False


def main():
    if sys.argv[1:2] == ["--worker"]:
        case, phase, directory = sys.argv[2:]
        r = Ranks(directory, phase)
        globals()[f"case_{case}"](r, phase == "first")
        r.dist.destroy_process_group()
        return 0
    cases = sys.argv[2:] or [name[5:] for name in globals() if name.startswith("case_")]
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as directory:
        with ThreadPoolExecutor(max(1, os.cpu_count() // 4)) as pool:
            return sum(pool.map(lambda case: run(case, f"{directory}/{case}"), cases))


if __name__ == "__main__":
    sys.exit(main())
