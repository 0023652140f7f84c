# SPDX-License-Identifier: BSD-3-Clause
"""Lightning writes its checkpoints with Cairn.

    trainer = Trainer(plugins=[cairn.lightning.CairnIO()])

Every checkpoint that Lightning names (epoch=3-step=400.ckpt) becomes a version in the directory
.cairn beside it, and a small file of that name, which appears when the version is durable, stands
for it. save_checkpoint returns after one copy."""
import concurrent.futures
import json
import os
import pathlib
import re

try:
    from lightning.pytorch.plugins.io import CheckpointIO
except ImportError:
    from pytorch_lightning.plugins.io import CheckpointIO

from ._library import NotFound
from .torch import Checkpointer


class CairnIO(CheckpointIO):
    """Keywords are configuration keys, such as device_cache="auto"."""

    def __init__(self, **keys):
        self.keys, self._open, self._coming = {"keep_last": 1, "fresh": True, **keys}, {}, {}

    def _checkpointer(self, path):
        store = pathlib.Path(path).resolve().parent / ".cairn"
        if store not in self._open:
            self._open[store] = Checkpointer(store, state={}, comm="self", random_state=False,
                                             **self.keys)
        ck = self._open[store]
        ck.name = re.sub(r"[^A-Za-z0-9_.-]", "_", pathlib.Path(path).stem).lstrip(".") or "checkpoint"
        return ck

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        ck = self._checkpointer(path)
        steps = ck.steps()
        step = max([*steps, self._coming.get(str(path), (-1, None, None))[0]]) + 1
        ck.parts["state"] = checkpoint
        saved, appeared = ck.save(step).future(), concurrent.futures.Future()
        self._coming[str(path)] = step, saved, appeared
        saved.add_done_callback(lambda saved: self._saved(saved, path, step, appeared))

    def _saved(self, saved, path, step, appeared):
        """A future wakes those that wait for it before it makes this call: appeared tells them that
        the file is there, too."""
        try:
            saved.result()
            self._appear(path, step)
            appeared.set_result(step)
        except BaseException as error:
            appeared.set_exception(error)

    @staticmethod
    def _appear(path, step):
        temporary = f"{path}.{os.getpid()}.tmp"
        with open(temporary, "w") as file:
            json.dump({"cairn": 1, "step": step}, file)
        os.replace(temporary, path)

    def _settle(self, path):
        if str(path) in self._coming:
            _, saved, appeared = self._coming.pop(str(path))
            saved.result()
            appeared.result()

    def load_checkpoint(self, path, map_location=None, weights_only=None, **_):
        """Tensors are loaded on the CPU. weights_only=False also loads objects, which may run code."""
        self._settle(path)
        if not os.path.exists(path):
            raise FileNotFoundError(path)
        ck = self._checkpointer(path)
        state = ck.parts["state"] = {}
        if ck.load(weights_only=weights_only is not False) is None:
            raise NotFound(-40, f"{path}: the directory .cairn beside it has no version of it")
        return state

    def remove_checkpoint(self, path):
        self._settle(path)
        ck = self._checkpointer(path)
        for step in ck.steps():
            ck.session.remove(ck.name, step)
        if os.path.exists(path):
            os.unlink(path)

    def teardown(self):
        """Waits until all is durable, and raises the first failure."""
        coming = [appeared for _, _, appeared in self._coming.values()]
        self._coming.clear()
        while self._open:
            self._open.popitem()[1].close()
        for appeared in coming:
            appeared.result()
