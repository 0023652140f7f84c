#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What needs a GPU or a newer PyTorch than the other tests have; one process, no pytest, no MPI.

usage: gpu_torch.py [DIRECTORY]    CAIRNPY_LIBDIR names the folder of libcairn
"""
import pathlib
import sys
import tempfile
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import torch  # noqa: E402

import cairn.torch  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def make(seed):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(),
                                torch.nn.Linear(1024, 8)).to(DEVICE)
    return model, torch.optim.AdamW(model.parameters(), lr=0.001, capturable=DEVICE == "cuda")


class Steps:
    """Training steps, on a CUDA graph if asked."""

    def __init__(self, model, optimizer, graph):
        self.model, self.optimizer, self.graph = model, optimizer, None
        self.data = torch.zeros(64, 256, device=DEVICE)
        if graph:
            self.capture()

    def one(self):
        self.loss = (self.model(self.data) ** 2).mean()
        self.optimizer.zero_grad(set_to_none=False)
        self.loss.backward()
        self.optimizer.step()

    def capture(self):
        state = {k: v.clone() for k, v in self.model.state_dict().items()}
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.one()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.one()
        with torch.no_grad():
            for key, value in self.model.state_dict().items():
                value.copy_(state[key])
            for moments in self.optimizer.state.values():
                for value in moments.values():
                    value.zero_()

    def run(self, n):
        losses = []
        for _ in range(n):
            self.data.copy_(torch.randn(64, 256, device=DEVICE))
            self.graph.replay() if self.graph else self.one()
            losses.append(self.loss.item())
        return losses


def resume(where, graph, **keys):
    model, optimizer = make(1)
    steps = Steps(model, optimizer, graph)
    with cairn.torch.Checkpointer(where, model=model, optimizer=optimizer, **keys) as ck:
        steps.run(12)
        ck.save(12)
        expected = steps.run(8)  # changes everything that is being captured
    model, optimizer = make(99)
    steps = Steps(model, optimizer, graph)
    with cairn.torch.Checkpointer(where, model=model, optimizer=optimizer, **keys) as ck:
        pointers = [p.data_ptr() for p in model.parameters()]
        assert ck.load() == 12
        assert pointers == [p.data_ptr() for p in model.parameters()]
        assert steps.run(8) == expected


def test_resume(where):
    resume(where, False)


def test_resume_with_device_cache(where):
    resume(where, False, device_cache=256 << 20)


def test_resume_with_graphs(where):
    if DEVICE == "cuda":
        resume(where, True)
        resume(where + ".cache", True, device_cache=256 << 20)


def test_types(where):
    names = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "bool", "int64", "uint16"]
    types = [getattr(torch, n) for n in names if hasattr(torch, n)]
    state = {str(t): torch.arange(64, device=DEVICE).to(t) for t in types}
    copy = {k: v.clone() for k, v in state.items()}
    with cairn.torch.Checkpointer(where, state=state) as ck:
        ck.save(1)
    back = {}
    with cairn.torch.Checkpointer(where, state=back) as ck:
        assert ck.load() == 1
    for key, value in copy.items():
        assert back[key].dtype == value.dtype, key
        assert torch.equal(back[key].view(torch.uint8), value.cpu().view(torch.uint8)), key


def test_dcp(where):
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp

    import cairn.dcp
    if not dist.is_initialized():
        dist.init_process_group("gloo", init_method=f"file://{where}.store", rank=0, world_size=1)
    model, optimizer = make(1)
    Steps(model, optimizer, False).run(3)
    state = {"model": model.state_dict(), "step": 7, "half": torch.ones(9, dtype=torch.bfloat16)}
    copy = {k: v.clone() for k, v in state["model"].items()}
    storage = cairn.dcp.Storage(where)
    dcp.save(state, storage_writer=storage.writer(7))
    with torch.no_grad():
        for value in state["model"].values():
            value.zero_()
    back = {"model": state["model"], "step": 0, "half": torch.zeros(9, dtype=torch.bfloat16)}
    dcp.load(back, storage_reader=storage.reader())
    storage.close()
    for key, value in copy.items():
        assert torch.equal(back["model"][key], value), key
    assert back["step"] == 7 and torch.equal(back["half"], torch.ones(9, dtype=torch.bfloat16))


def test_dtensor(where):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    mesh = init_device_mesh("cpu", (1,))
    state = {"w": distribute_tensor(torch.arange(24.0).reshape(4, 6), mesh, [Shard(0)])}
    with cairn.torch.Checkpointer(where, state=state, comm="self") as ck:
        ck.save(1)
        state["w"].to_local().zero_()
        ck.wait()
        assert ck.load(1) == 1
    assert torch.equal(state["w"].to_local(), torch.arange(24.0).reshape(4, 6))


def main():
    failed = 0
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as directory:
        for name, test in list(globals().items()):
            if name.startswith("test_"):
                try:
                    test(f"{directory}/{name}")
                    print(f"ok      {name}", flush=True)
                except ImportError as error:
                    print(f"skipped {name}: {error}", flush=True)
                except Exception:
                    failed += 1
                    traceback.print_exc()
                    print(f"FAILED  {name}", flush=True)
    return failed


sys.exit(main())
