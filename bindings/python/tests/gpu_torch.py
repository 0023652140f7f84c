#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What needs a GPU or a newer PyTorch than the other tests have; one process, no pytest, no MPI.

usage: gpu_torch.py [DIRECTORY [TEST ...]]
CAIRNPY_LIBDIR names the folder of libcairn, CAIRNPY_PROGRAM the program cairn.
"""
import os
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


def test_resume_lazy(where):
    resume(where, False, capture="lazy")
    resume(where + ".stream", False, capture="stream")
    resume(where + ".auto", False, device_cache="auto")


def test_resume_lazy_with_graphs(where):
    """A replayed graph runs no hook of the optimizer: the program calls source_free itself."""
    if DEVICE == "cpu":
        return
    resume(where + ".stream", True, capture="stream")
    model, optimizer = make(1)
    steps = Steps(model, optimizer, True)
    with cairn.torch.Checkpointer(where, model=model, optimizer=optimizer, capture="lazy") as ck:
        steps.run(12)
        ck.save(12)
        ck.session.source_free()
        expected = steps.run(8)
    model, optimizer = make(99)
    steps = Steps(model, optimizer, True)
    with cairn.torch.Checkpointer(where, model=model, optimizer=optimizer) as ck:
        assert ck.load() == 12 and steps.run(8) == expected


def test_tensors_that_come_and_go(where):
    """The caching allocator gives the memory of freed tensors to others."""
    state, copies = {}, {}
    with cairn.torch.Checkpointer(where, state=state, keep_last=0, device_cache="auto") as ck:
        for step in range(1, 9):
            state.clear()
            for i in range(step % 3 + 1):
                state[f"x{i}"] = torch.randn(1000 * step + i, device=DEVICE)
            copies[step] = {k: v.clone() for k, v in state.items()}
            ck.save(step)
        for step in (3, 8, 1):
            assert ck.load(step) == step
            assert state.keys() == copies[step].keys()
            assert all(torch.equal(state[k].to(DEVICE), v) for k, v in copies[step].items())


class OnlyInterface:
    def __init__(self, array):
        self.array, self.__cuda_array_interface__ = array, array.__cuda_array_interface__


class OnlyDLPack:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **keys):
        return self.array.__dlpack__(**keys)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_protocols(where):
    a = torch.arange(1000.0, device=DEVICE)
    b = torch.arange(1000, device=DEVICE).to(torch.bfloat16)
    arrays = {"dlpack": (a, OnlyDLPack(a)), "dlpack.bf16": (b, OnlyDLPack(b))}
    if DEVICE == "cuda":
        c = torch.arange(30, device=DEVICE).reshape(5, 6)
        arrays["interface"] = c, OnlyInterface(c)
        try:
            import cupy
            d = cupy.arange(77, dtype="f4")
            arrays["cupy"] = torch.as_tensor(d, device=DEVICE), d
        except ImportError:
            print("        no cupy")
    with cairn.Session(where) as s:
        for name, (_, array) in arrays.items():
            s.protect(name, array)
        s.checkpoint("run", 1)
        copies = {name: tensor.clone() for name, (tensor, _) in arrays.items()}
        for tensor, _ in arrays.values():
            tensor.zero_()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        s.restore("run", 1)
        for name, (tensor, _) in arrays.items():
            assert torch.equal(tensor, copies[name]), name
        assert s.region_info("run", 1, "dlpack.bf16")[0] == 14


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


def test_files(where):
    """What cairn export writes, the libraries of these formats read, and the other way round."""
    import safetensors.torch

    from cairn import files
    state = {"w": torch.randn(5, 7), "h": torch.randn(9).to(torch.bfloat16), "n": torch.arange(4),
             "f8": torch.randn(6).to(torch.float8_e4m3fn), "b": torch.tensor([True, False])}
    with cairn.torch.Checkpointer(where, model=state) as ck:
        ck.save(3)
    path = pathlib.Path(where + ".safetensors")
    files.export_version(where, "train", 3, path, "model.")
    got = safetensors.torch.load_file(path)
    files.export_version(where, "train", 3, where + ".pt", "model.")
    for got in (got, torch.load(where + ".pt")):
        assert got.keys() == state.keys()
        for key, value in state.items():
            assert got[key].dtype == value.dtype, key
            assert torch.equal(got[key].view(torch.uint8), value.view(torch.uint8)), key
    safetensors.torch.save_file(state, path)
    files.import_version(path, where, "back", 1, "model.")
    files.export_version(where, "back", 1, where + ".2.safetensors", "model.")
    again = safetensors.torch.load_file(where + ".2.safetensors")
    for key, value in state.items():
        assert torch.equal(again[key].view(torch.uint8), value.view(torch.uint8)), key


def test_lightning(where):
    """A run of 8 epochs, and one that is stopped after 4 and fitted again from its checkpoint."""
    try:
        import lightning.pytorch as pl
    except ImportError:
        import pytorch_lightning as pl

    import cairn.lightning

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(3)
            self.layer = torch.nn.Linear(8, 2)
            self.losses = []

        def training_step(self, batch, _):
            loss = (self.layer(batch[0]) ** 2).mean()
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=0.05)

    data = torch.utils.data.TensorDataset(
        torch.randn(40, 8, generator=torch.Generator().manual_seed(1)))

    def fit(epochs, ckpt=None):
        model, io = Model(), cairn.lightning.CairnIO()
        save = pl.callbacks.ModelCheckpoint(dirpath=where, save_top_k=1, save_last=True)
        trainer = pl.Trainer(max_epochs=epochs, plugins=[io], callbacks=[save], logger=False,
                             enable_progress_bar=False, enable_model_summary=False,
                             accelerator="gpu" if DEVICE == "cuda" else "cpu", devices=1)
        trainer.fit(model, torch.utils.data.DataLoader(data, 8), ckpt_path=ckpt)
        io.teardown()
        return model.losses

    whole = fit(8)
    for path in pathlib.Path(where).glob("*.ckpt"):
        path.unlink()
    first = fit(4)
    assert first == whole[:20]
    last = pathlib.Path(where) / "last.ckpt"
    assert last.exists() and last.stat().st_size < 100
    assert fit(8, str(last)) == whole[20:]


def test_transformers(where):
    import transformers

    import cairn.transformers

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(3)
            self.layer = torch.nn.Linear(8, 2)

        def forward(self, x):
            return {"loss": (self.layer(x) ** 2).mean()}

    data = [{"x": torch.full((8,), 0.1 * i)} for i in range(8)]

    def train(directory, steps):
        args = transformers.TrainingArguments(
            output_dir=where + ".out", max_steps=steps, per_device_train_batch_size=8,
            save_strategy="no", report_to="none", disable_tqdm=True, learning_rate=0.05,
            lr_scheduler_type="constant", logging_steps=1000)
        model = Model()
        trainer = transformers.Trainer(
            model=model, args=args, train_dataset=data,
            callbacks=[cairn.transformers.CairnCallback(directory, every=5)])
        trainer.train()
        assert trainer.state.global_step == steps
        return [p.detach().cpu().clone() for p in model.parameters()]

    whole = train(where + ".whole", 20)  # a batch is all of the data, in whatever order
    train(where, 10)
    for a, b in zip(whole, train(where, 20)):
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-6)


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
            if name.startswith("test_") and (len(sys.argv) < 3 or name in sys.argv[2:]):
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
