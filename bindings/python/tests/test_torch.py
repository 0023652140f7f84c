# SPDX-License-Identifier: BSD-3-Clause
import collections
import json
import signal

import pytest
import torch

import cairn.torch


def make(seed=1):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def train(model, optimizer, steps):
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(torch.randn(4, 8)) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_a_run_continues_bit_for_bit(place):
    model, optimizer = make()
    expected = train(model, optimizer, 20)

    model, optimizer = make()
    with cairn.torch.Checkpointer(place / "ck", model=model, optimizer=optimizer) as ck:
        assert ck.load() is None
        assert train(model, optimizer, 12) == expected[:12]
        ck.save(12)
        train(model, optimizer, 3)  # changes everything after the capture

    model, optimizer = make(seed=99)
    with cairn.torch.Checkpointer(place / "ck", model=model, optimizer=optimizer) as ck:
        assert ck.load() == 12
        assert train(model, optimizer, 8) == expected[12:]
        assert ck.steps() == [12]


def make_with_statistics(seed=1):
    """A model whose forward pass changes what is saved."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(8, 600), torch.nn.BatchNorm1d(600),
                                torch.nn.Linear(600, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 3, gamma=0.5)


@pytest.mark.parametrize("capture", ["lazy", "stream"])
def test_a_deferred_capture_continues_bit_for_bit(place, capture):
    def steps(n):
        losses = []
        for _ in range(n):
            losses += train(model, optimizer, 1)
            scheduler.step()
        return losses

    model, optimizer, scheduler = make_with_statistics()
    expected = steps(20)
    model, optimizer, scheduler = make_with_statistics()
    parts = dict(model=model, optimizer=optimizer, scheduler=scheduler)
    with cairn.torch.Checkpointer(place / "ck", capture=capture, keep_last=0, **parts) as ck:
        for step in range(1, 15):
            steps(1)
            ck.save(step)  # every step: each step of the optimizer waits for one
    steps(1)  # the hook outlives the session
    for saved in (14, 9, 2):
        model, optimizer, scheduler = make_with_statistics(seed=5)
        parts = dict(model=model, optimizer=optimizer, scheduler=scheduler)
        with cairn.torch.Checkpointer(place / "ck", capture=capture, fresh=True, **parts) as ck:
            assert ck.load(saved) == saved
            assert steps(20 - saved) == expected[saved:]


def test_a_step_waits_for_a_lazy_capture(place):
    """The hook calls source_free before the optimizer changes anything."""
    model, optimizer = make()
    with cairn.torch.Checkpointer(place / "ck", capture="lazy", model=model,
                                  optimizer=optimizer) as ck:
        seen = []
        free = ck.session.source_free

        def source_free():
            free()
            seen.append(model[0].weight.detach().clone())

        ck.session.source_free = source_free
        before = model[0].weight.detach().clone()
        ck.save(1)
        train(model, optimizer, 1)
        assert len(seen) == 1 and torch.equal(seen[0], before)
        assert not torch.equal(model[0].weight, before)


def test_a_lazy_capture_that_fails_does_not_end_the_training(place):
    model, optimizer = make()
    with cairn.torch.Checkpointer(place / "ck", capture="lazy", model=model, optimizer=optimizer,
                                  on_failure="continue") as ck:
        def fail():
            raise cairn.Error(-3, "it changed too early")

        ck.save(1).wait()
        ck.session.source_free = fail
        with pytest.warns(UserWarning, match="too early"):
            train(model, optimizer, 1)


def test_all_types_and_odd_tensors(place):
    types = [torch.bfloat16, torch.float16, torch.float64, torch.bool, torch.int64, torch.uint8,
             torch.complex64]
    state = {str(t): torch.arange(7).to(t) for t in types}
    state.update(scalar=torch.tensor(3.5), empty=torch.empty(0, 4),
                 transposed=torch.arange(6.0).reshape(2, 3).t(),
                 nested={"list": [torch.ones(2), "text", (1, None)]},
                 others=[collections.deque([1], 3), collections.Counter("aab"), torch.bfloat16])
    others = state["others"]
    copy = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in state.items()}
    with cairn.torch.Checkpointer(place / "ck", state=state) as ck:
        ck.save(1)
    back = {}
    with cairn.torch.Checkpointer(place / "ck", state=back) as ck:
        assert ck.load() == 1
    for key, value in copy.items():
        if isinstance(value, torch.Tensor):
            assert back[key].dtype == value.dtype and back[key].shape == value.shape, key
            assert torch.equal(back[key], value), key
    assert torch.equal(back["nested"]["list"][0], torch.ones(2))
    assert back["nested"]["list"][1:] == ["text", (1, None)]
    assert back["others"] == others and type(others[0]) is type(back["others"][0])


def test_tied_weights_are_written_once(place):
    def tied(seed):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Embedding(5, 4), torch.nn.Linear(4, 5, bias=False))
        model[1].weight = model[0].weight
        return model

    model = tied(1)
    with cairn.torch.Checkpointer(place / "ck", model=model, random_state=False) as ck:
        ck.save(1)
    version = cairn.open_store(place / "ck")["train"][1]
    assert [name for name in version if name.startswith("model.")] == ["model.0.weight"]
    apart = torch.nn.Sequential(torch.nn.Embedding(5, 4), torch.nn.Linear(4, 5, bias=False))
    for other in (tied(2), apart):
        with cairn.torch.Checkpointer(place / "ck", model=other) as ck:
            assert ck.load() == 1
        assert torch.equal(other[0].weight, model[0].weight)
        assert torch.equal(other[1].weight, model[0].weight)
    assert apart[0].weight is not apart[1].weight


def test_a_save_takes_again_what_lies_where_it_was(place, monkeypatch):
    looked = []
    block_of = cairn.torch.block_of
    monkeypatch.setattr(cairn.torch, "block_of", lambda t: looked.append(t) or block_of(t))
    state = {str(i): torch.full((3, 3), float(i)) for i in range(50)}
    with cairn.torch.Checkpointer(place / "ck", state=state, keep_last=0) as ck:
        ck.save(1)
        del looked[:]
        for tensor in state.values():
            tensor += 100
        ck.save(2)
        assert len(looked) == 2  # what is pickled
        state["7"] = torch.full((3, 3), -1.0)  # elsewhere
        state["8"].t_()[0, 2] = 5  # the same memory, read in another order
        copy = {k: v.clone() for k, v in state.items()}
        ck.save(3)
        for tensor in state.values():
            tensor.zero_()
        assert ck.load(3) == 3
        assert all(torch.equal(state[k], v) for k, v in copy.items())
        assert ck.load(2) == 2 and torch.equal(state["7"], torch.full((3, 3), 107.0))


class Versioned(torch.nn.Linear):
    _version = 3

    def _load_from_state_dict(self, state, prefix, metadata, *more):
        self.loaded = metadata.get("version")
        super()._load_from_state_dict(state, prefix, metadata, *more)


def test_modules_learn_the_version_of_their_state(place):
    with cairn.torch.Checkpointer(place / "ck", model=Versioned(2, 2)) as ck:
        ck.save(1)
    model = Versioned(2, 2)
    with cairn.torch.Checkpointer(place / "ck", model=model) as ck:
        assert ck.load() == 1
    assert model.loaded == 3


class Evil:
    def __reduce__(self):
        return print, ("run by the checkpoint",)


def test_nothing_in_a_checkpoint_runs(place):
    with cairn.torch.Checkpointer(place / "ck", state={"evil": Evil()}) as ck:
        with pytest.warns(UserWarning, match="weights_only=False"):
            ck.save(1)
    with cairn.torch.Checkpointer(place / "ck", state={}) as ck:
        with pytest.raises(Exception, match="weights_only=False"):
            ck.load()


def test_a_tensor_that_grows(place):
    state = {"x": torch.zeros(4)}
    with cairn.torch.Checkpointer(place / "ck", state=state) as ck:
        ck.save(1)
        state["x"] = torch.arange(9.0)
        ck.save(2).wait()
        assert [ck.load(s) for s in (1, 2)] == [1, 2]
        assert torch.equal(state["x"], torch.arange(9.0))
        assert list(ck.replay([2, 1])) == [2, 1] and torch.equal(state["x"], torch.zeros(4))


JOB = """
import json, torch, torch.distributed as dist, cairn.torch
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + sys.argv[3] + "/store", rank=rank,
                        world_size=ranks)
directory, last, die_at, seed = args[0], int(args[1]), int(args[2]), int(args[3])
torch.manual_seed(seed)
model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 3))
ddp = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
torch.manual_seed(1000 * seed + rank)  # each rank draws data of its own
with cairn.torch.Checkpointer(directory, model=model, optimizer=optimizer, keep_last=0,
                              ranks_per_node=1) as ck:
    start = ck.load() or 0
    losses = {}
    for step in range(start + 1, last + 1):
        optimizer.zero_grad()
        loss = (ddp(torch.randn(4, 8)) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses[step] = loss.item()
        if step % 5 == 0:
            ck.save(step)
        if step == die_at:
            ck.wait()
            dist.barrier()
            os.kill(os.getpid(), signal.SIGKILL)
    ck.wait()
    total = sum(p.double().sum().item() for p in model.parameters())
    written = cairn.open_store(directory)["train"].newest.info["bytes"] if last > 5 else 0
json.dump([start, losses, total, written], open(f"{directory}.{rank}", "w"))
"""


def result(directory, rank):
    with open(f"{directory}.{rank}") as file:
        return json.load(file)


def test_killed_data_parallel_training_continues_bit_for_bit(place, job):
    assert job(JOB, 2, place / "whole", 20, 0, 1) == [0, 0]
    assert job(JOB, 2, place / "ck", 20, 12, 1) == [-signal.SIGKILL] * 2
    assert job(JOB, 2, place / "ck", 20, 0, 7) == [0, 0]
    for rank in range(2):
        whole, resumed = result(place / "whole", rank), result(place / "ck", rank)
        assert resumed[0] == 10 and list(resumed[1]) == [str(s) for s in range(11, 21)]
        assert all(whole[1][s] == loss for s, loss in resumed[1].items())
        assert whole[2] == resumed[2]


def test_another_number_of_processes(place, job):
    assert job(JOB, 2, place / "ck", 10, 0, 1) == [0, 0]
    two = [result(place / "ck", rank) for rank in range(2)]
    assert job(JOB, 3, place / "ck", 10, 0, 5) == [0, 0, 0]
    three = [result(place / "ck", rank) for rank in range(3)]
    assert [r[0] for r in three] == [10] * 3 and {r[2] for r in three} == {two[0][2]}
    # Parameters and both moments of Adam, once; beside them a few KB of pickled state a rank.
    state = 3 * 4 * (8 * 64 + 64 + 64 * 3 + 3)
    assert state < three[0][3] < state + 2 * 16384


APART = """
import torch, torch.distributed as dist, cairn.torch
dist.init_process_group("gloo", init_method="file://" + sys.argv[3] + "/store", rank=rank,
                        world_size=ranks)
def make():
    return {"same": torch.zeros(2), "size": torch.zeros(rank + 1, 3)}
state = make()
with cairn.torch.Checkpointer(args[0], state=state, replicated=False, ranks_per_node=1) as ck:
    if args[1] == "save":
        for tensor in state.values():
            tensor += rank + 1
        ck.save(1)
        for tensor in state.values():
            tensor.zero_()
    assert ck.load(1) == 1
assert all((tensor == rank + 1).all() for tensor in state.values()), state
assert state["size"].shape == (rank + 1, 3)
"""


def test_tensors_of_each_rank_apart(place, job):
    assert job(APART, 2, place / "ck", "save") == [0, 0]
    assert job(APART, 2, place / "ck", "load") == [0, 0]


def batches_of(shuffle_generator):
    data = torch.utils.data.TensorDataset(torch.arange(23.0))
    return cairn.torch.Batches(torch.utils.data.DataLoader(data, 4, shuffle=True,
                                                           generator=shuffle_generator))


@pytest.mark.parametrize("own_generator", [False, True])
def test_the_rest_of_an_epoch_comes_in_its_order(place, own_generator):
    def run(batches, n):
        seen = []
        while len(seen) < n:
            for (batch,) in batches:
                seen.append((batches.epoch, batch.tolist(), torch.rand(1).item()))
                if len(seen) == n:
                    break
        return seen

    def fresh(seed):
        torch.manual_seed(seed)
        return batches_of(torch.Generator().manual_seed(seed) if own_generator else None)

    whole = run(fresh(1), 15)
    assert [len(b) for _, b, _ in whole[:6]] == [4, 4, 4, 4, 4, 3] and whole[6][0] == 1
    for at in (3, 6, 8):
        batches = fresh(1)
        with cairn.torch.Checkpointer(place / f"ck{at}", batches=batches) as ck:
            assert run(batches, at) == whole[:at]
            ck.save(at)
        batches = fresh(77)
        with cairn.torch.Checkpointer(place / f"ck{at}", batches=batches) as ck:
            assert ck.load() == at
            # A generator of its own has gone on in the epoch that was interrupted only.
            assert run(batches, 15 - at) == whole[at:]


DTENSORS = """
import torch, torch.distributed as dist, cairn.torch

class Shard:
    def __init__(self, dim):
        self.dim = dim

class _StridedShard(Shard):
    pass

class Replicate:
    pass

class Mesh:
    def __init__(self, *sizes):
        self.sizes = sizes

    def size(self, i):
        return self.sizes[i]

    def get_coordinate(self):
        return [int(c) for c in np.unravel_index(rank, self.sizes)]

class DTensor(torch.Tensor):
    \"\"\"Stands in for the class that this PyTorch lacks: made of the whole, keeps a part.\"\"\"

    @staticmethod
    def __new__(cls, whole, mesh, placements, order=None):
        self = torch.Tensor._make_subclass(cls, whole.clone())
        part, where = whole, mesh.get_coordinate()
        for i in order or range(len(placements)):
            if isinstance(placements[i], Shard):
                parts = part.chunk(mesh.size(i), placements[i].dim)
                part = parts[where[i]] if where[i] < len(parts) else \
                    part.narrow(placements[i].dim, 0, 0)
        self.local, self.device_mesh, self.placements = part.clone(), mesh, placements
        return self

    def to_local(self):
        return self.local

dist.init_process_group("gloo", init_method="file://" + sys.argv[3] + "/store", rank=rank,
                        world_size=ranks)
n = 5
flat, square = Mesh(ranks), Mesh(2, ranks // 2)
def make(fill):
    whole = [torch.arange(60.0).reshape(n, 12) + 100 * i for i in range(7)]
    kinds = [(flat, [Shard(0)]), (flat, [Shard(1)]), (flat, [Replicate()]),
             (square, [Replicate(), Shard(0)]), (square, [Shard(1), Replicate()]),
             (square, [_StridedShard(0), Shard(0)], [1, 0])]
    state = {str(i): DTensor(w, *k) for i, (w, k) in enumerate(zip(whole, kinds))}
    state["scalar"] = DTensor(torch.tensor(2.5), flat, [Replicate()])
    parts = {k: t.local.clone() for k, t in state.items()}
    if not fill:
        for t in state.values():
            t.local.fill_(-1)
    return state, parts
state, parts = make(args[1] == "save")
with cairn.torch.Checkpointer(args[0], state=state, ranks_per_node=1, random_state=False) as ck:
    if args[1] == "save":
        ck.save(1).wait()
        for t in state.values():
            t.local.fill_(-1)
    assert ck.load() == 1
    for k, t in state.items():
        assert torch.equal(t.local, parts[k]), (k, t.local, parts[k])
"""


def test_sharded_tensors_are_blocks_of_global_arrays(place, job):
    """Uneven and empty shards, replicas, and meshes of two dimensions."""
    assert job(DTENSORS, 4, place / "ck", "save") == [0] * 4
    version = cairn.open_store(place / "ck")["train"][1]
    blocks = [r for r in version.info["regions"] if r["region"].startswith("state.")]
    assert sum(r["bytes"] for r in blocks) == 6 * 60 * 4 + 4  # replicas are written once
    writers = {r["rank"] for r in blocks if r["region"] == "state.2" and r["bytes"] > 0}
    assert writers == {0, 1, 2, 3}  # and each replica writes its share
    assert (version["state.3"][:] == 300 + torch.arange(60.0).reshape(5, 12).numpy()).all()
    assert job(DTENSORS, 2, place / "ck", "load") == [0] * 2


DCP = """
import torch, torch.distributed as dist, old_dcp
import torch.distributed.checkpoint as dcp
from torch.distributed._shard import sharded_tensor as st
from torch.distributed._shard.metadata import ShardMetadata
import cairn.dcp, cairn.torch
dist.init_process_group("gloo", init_method="file://" + sys.argv[3] + "/store", rank=rank,
                        world_size=ranks)
rows = 10
first, end = rows * rank // ranks, rows * (rank + 1) // ranks
whole = torch.arange(rows * 3.0).reshape(rows, 3)

def make(fill):
    local = whole[first:end].clone() if fill else torch.zeros(end - first, 3)
    meta = ShardMetadata([first, 0], [end - first, 3], f"rank:{rank}/cpu")
    state = {"w": st.init_from_local_shards([st.Shard(local, meta)], rows, 3),
             "plain": torch.arange(7.0) if fill else torch.zeros(7),
             "half": torch.full((5,), 1.5 if fill else 0, dtype=torch.bfloat16),
             "step": 17 if fill else 0}
    return state, local

def check(state, local):
    assert torch.equal(local, whole[first:end])
    assert torch.equal(state["plain"], torch.arange(7.0)) and state["step"] == 17
    assert torch.equal(state["half"], torch.full((5,), 1.5, dtype=torch.bfloat16))

storage = cairn.dcp.Storage(args[0], ranks_per_node=1)
if args[1] == "save":
    state, local = make(True)
    dcp.save(state, storage_writer=storage.writer(1))
    for step in (2, 3):
        writer = storage.writer(step)
        future = dcp.async_save(state, storage_writer=writer)
        assert writer.handle.done("captured")
        local.add_(1), state["plain"].add_(1)  # captured before
        future.result()
        assert writer.handle.done("persistent")
        local.sub_(1), state["plain"].sub_(1)
for step in (1, 3, None):
    state, local = make(False)
    reader = storage.reader(step)
    dcp.load(state, storage_reader=reader)
    assert reader.step == (step or 3)
    check(state, local)
storage.close()

# The sharded tensors of the older FSDP, with the checkpointer of Cairn itself.
state, local = make(args[1] == "save")
del state["step"]
with cairn.torch.Checkpointer(args[0] + ".own", state=state, ranks_per_node=1) as ck:
    if args[1] == "save":
        ck.save(1).wait()
        local.zero_()
    assert ck.load() == 1
    check({**state, "step": 17}, local)
"""


def test_torch_distributed_checkpoint(place, job):
    assert job(DCP, 3, place / "ck", "save") == [0] * 3
    version = cairn.open_store(place / "ck")["train"][3]
    items = [r for r in version.info["regions"] if r["region"].startswith("item.")]
    assert sum(r["bytes"] for r in items if r["dims"] == [7]) == 28  # of all ranks one wrote it
    assert cairn.open_store(place / "ck.own")["train"][1]["state.w"].shape == (10, 3)
    assert job(DCP, 2, place / "ck", "load") == [0] * 2
