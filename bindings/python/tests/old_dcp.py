# SPDX-License-Identifier: BSD-3-Clause
"""torch.distributed.checkpoint for PyTorch 1.13, which has an earlier form of it under another name:
the same planners and storage classes, without async_save. Its sharded tensors need a repair to load
with Python 3.11."""
import dataclasses
import sys
from concurrent.futures import ThreadPoolExecutor

_dataclass = dataclasses.dataclass


def _hashable(cls=None, **keys):
    """Python 3.11 refuses defaults that have no hash."""
    def one(c):
        more = {} if keys.get("frozen") or "__hash__" in vars(c) else {"unsafe_hash": True}
        return _dataclass(c, **{**keys, **more})
    return one(cls) if cls is not None else one


dataclasses.dataclass = _hashable
import torch.distributed._shard.checkpoint as old  # noqa: E402
import torch.distributed._shard.checkpoint.storage  # noqa: E402,F401
dataclasses.dataclass = _dataclass

sys.modules["torch.distributed.checkpoint"] = old
for name in ("metadata", "planner", "storage"):
    sys.modules[f"torch.distributed.checkpoint.{name}"] = sys.modules[
        f"torch.distributed._shard.checkpoint.{name}"]
old.StorageWriter.set_up_storage_writer = old.StorageReader.set_up_storage_reader = None
old.StorageWriter.init = lambda self, is_coordinator: self.set_up_storage_writer(is_coordinator)
old.StorageReader.init = lambda self, metadata, is_coordinator: self.set_up_storage_reader(
    metadata, is_coordinator)
for kind in (old.StorageWriter, old.StorageReader):
    kind.__abstractmethods__ = kind.__abstractmethods__ - {"init"}


def save(state_dict, storage_writer=None, process_group=None):
    return old.save_state_dict(state_dict, storage_writer, process_group)


def load(state_dict, storage_reader=None):
    old.load_state_dict(state_dict, storage_reader)


def async_save(state_dict, storage_writer):
    """What that of later releases does with a writer that is a stager."""
    staged = storage_writer.stage(state_dict)
    executor = ThreadPoolExecutor(1)
    future = executor.submit(save, staged, storage_writer)
    future.add_done_callback(lambda _: executor.shutdown(wait=False))
    if storage_writer.should_synchronize_after_execute:
        storage_writer.synchronize_staging()
    return future


old.save, old.load, old.async_save = save, load, async_save
