# SPDX-License-Identifier: BSD-3-Clause
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
                 nested={"list": [torch.ones(2), "text", (1, None)]})
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


class Evil:
    def __reduce__(self):
        return print, ("run by the checkpoint",)


def test_nothing_in_a_checkpoint_runs(place):
    with cairn.torch.Checkpointer(place / "ck", state={"evil": Evil()}) as ck:
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
