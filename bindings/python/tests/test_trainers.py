# SPDX-License-Identifier: BSD-3-Clause
"""cairn.lightning and cairn.transformers, with stand-ins for the classes that they extend and for the
calls of the trainers. (torch: for tests/python/run)"""
import importlib
import sys
import time
import types

import pytest
import torch

import cairn


def stand_in(monkeypatch, name, **members):
    parts = name.split(".")
    for i in range(len(parts)):
        monkeypatch.setitem(sys.modules, ".".join(parts[:i + 1]), types.ModuleType(parts[i]))
    vars(sys.modules[name]).update(members)


def make(seed=1):
    torch.manual_seed(seed)
    model = torch.nn.Linear(4, 2)
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)


def step(model, optimizer):
    optimizer.zero_grad()
    (model(torch.ones(3, 4)) ** 2).mean().backward()
    optimizer.step()


@pytest.fixture
def lightning(monkeypatch):
    stand_in(monkeypatch, "pytorch_lightning.plugins.io", CheckpointIO=object)
    monkeypatch.delitem(sys.modules, "cairn.lightning", raising=False)
    return importlib.import_module("cairn.lightning")


def test_lightning_waits_for_the_file(place, lightning, monkeypatch):
    appear = lightning.CairnIO._appear
    monkeypatch.setattr(lightning.CairnIO, "_appear",
                        staticmethod(lambda *a: (time.sleep(0.5), appear(*a))))
    (place / "run").mkdir()
    first, second = place / "run" / "first.ckpt", place / "run" / "second.ckpt"
    io = lightning.CairnIO()
    io.save_checkpoint({"x": torch.ones(2)}, first)
    assert torch.equal(io.load_checkpoint(first)["x"], torch.ones(2))
    io.save_checkpoint({"x": torch.ones(3)}, second)
    io.teardown()
    assert second.exists()


def test_lightning_files_stand_for_versions(place, lightning):
    model, optimizer = make()
    step(model, optimizer)
    (place / "run").mkdir()
    first, last = place / "run" / "epoch=0-step=5.ckpt", place / "run" / "last.ckpt"

    def checkpoint(number):
        return {"state_dict": model.state_dict(), "optimizer_states": [optimizer.state_dict()],
                "global_step": number, "callbacks": {"x{'monitor': None}": {"best": torch.ones(1)}}}

    io = lightning.CairnIO()
    io.save_checkpoint(checkpoint(5), str(first))
    io.save_checkpoint(checkpoint(5), str(last))
    weight = model.weight.detach().clone()
    step(model, optimizer)
    io.save_checkpoint(checkpoint(6), last)  # takes the place of the one before
    assert torch.equal(io.load_checkpoint(str(first))["state_dict"]["weight"], weight)
    io.remove_checkpoint(str(first))
    assert not first.exists()
    io.teardown()
    assert last.stat().st_size < 100
    newest = model.weight.detach().clone()
    with torch.no_grad():
        model.weight.zero_()

    io = lightning.CairnIO()  # in another process
    with pytest.raises(FileNotFoundError):
        io.load_checkpoint(first)
    got = io.load_checkpoint(last, map_location=None, weights_only=None)
    assert torch.equal(got["state_dict"]["weight"], newest) and got["global_step"] == 6
    assert got["optimizer_states"][0]["state"][0]["step"] == 2
    io.save_checkpoint({"state_dict": {}, "global_step": 7}, last)  # overwrites that of a run before
    assert io.load_checkpoint(last)["global_step"] == 7
    io.teardown()
    assert list(cairn.open_store(place / "run" / ".cairn")) == ["last"]


@pytest.fixture
def transformers(monkeypatch):
    stand_in(monkeypatch, "transformers", TrainerCallback=object)
    monkeypatch.delitem(sys.modules, "cairn.transformers", raising=False)
    return importlib.import_module("cairn.transformers")


def test_a_trainer_of_transformers_continues(place, transformers):
    class Wrapped:  # as accelerate does it
        def __init__(self, optimizer):
            self.optimizer = optimizer

    def train(directory, until, seed=1):
        model, optimizer = make(seed)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, gamma=0.5)
        callback = transformers.CairnCallback(directory, every=5)
        state = types.SimpleNamespace(global_step=0, epoch=0.0, max_steps=until, total_flos=0,
                                      log_history=[], best_metric=None)
        control = types.SimpleNamespace(should_training_stop=False)
        callback.on_train_begin(None, state, control, model=model, optimizer=Wrapped(optimizer),
                                lr_scheduler=scheduler, train_dataloader=[], processing_class=None)
        start = state.global_step
        while state.global_step < until:
            step(model, optimizer)
            scheduler.step()
            state.global_step += 1
            state.epoch = state.global_step / 10
            state.log_history.append({"step": state.global_step})
            callback.on_step_end(None, state, control)
        callback.on_train_end(None, state, control)
        return start, state, model.weight.detach()

    _, state, whole = train(place / "whole", 20)
    assert train(place / "ck", 12)[0] == 0
    start, resumed, weight = train(place / "ck", 20, seed=9)
    assert start == 10 and torch.equal(weight, whole)
    assert resumed.epoch == 2.0 and resumed.log_history == state.log_history
