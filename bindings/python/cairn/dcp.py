# SPDX-License-Identifier: BSD-3-Clause
"""Storage for torch.distributed.checkpoint (PyTorch 2.3 or later).

    storage = cairn.dcp.Storage("/lustre/me/ck")
    dcp.save(state, storage_writer=storage.writer(step))             # returns when captured
    future = dcp.async_save(state, storage_writer=storage.writer(step))  # done when durable
    dcp.load(state, storage_reader=storage.reader())                 # the newest

Both saves return when the state is captured, and Cairn writes it in the background. The writer is
also the stager of async_save: it captures while async_save stages, and the future waits until the
files are durable. storage.session.wait_all() waits after dcp.save.
"""
import io
import pickle

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from torch.futures import Future

from ._library import NotFound
from ._session import Session

try:
    from torch.distributed.checkpoint.staging import AsyncStager
except ImportError:  # before PyTorch 2.4
    class AsyncStager:
        pass

METADATA, ITEMS = "dcp.metadata", "dcp.items"  # of the first rank; of every rank


def _done(value):
    future = Future()
    future.set_result(value)
    return future


def _bytes_tensor(data):
    return torch.frombuffer(bytearray(data) or bytearray(1), dtype=torch.uint8)


class Storage:
    """A session for dcp.save and dcp.load; keywords are configuration keys."""

    def __init__(self, directory, name="train", comm=None, **keys):
        self.group = None  # of its own: the threads of async_save use the default one meanwhile
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            comm = "torch" if comm is None else comm
            self.group = dist.new_group(backend="gloo")
        self.name, self.session = name, Session(directory, comm=comm, **keys)

    def writer(self, step):
        return Writer(self, step)

    def reader(self, step=None):
        """The reader of a step, or of the newest one. Collective; NotFound if there is none."""
        if step is None:
            step = self.session.find(self.name, verify=True)
            if step is None:
                raise NotFound(-40, f"there is no version of {self.name}")
        else:
            self.session.find_version(self.name, step)
        return Reader(self, step)

    def protect_only(self, regions):
        for name in self.session.regions:
            if name not in regions:
                self.session.unprotect(name)
        for name, tensor in regions.items():
            self.session.protect(name, tensor)

    def read(self, step, rank, region):
        """A region of a rank as a tensor."""
        from .torch import KINDS
        kind, shape, _, _ = self.session.region_info(self.name, step, region, rank)
        tensor = torch.empty(shape, dtype=KINDS[kind])
        self.protect_only({region: tensor})
        self.session.restore(self.name, step, [region], old_rank=rank)
        self.protect_only({})
        return tensor

    def close(self):
        self.session.close()


class Writer(StorageWriter, AsyncStager):
    """Writes one step. handle: the checkpoint, once it has been captured."""

    _synchronize_after_execute = False

    def __init__(self, storage, step):
        self.storage, self.step, self.handle = storage, step, None
        self.is_staged = False

    # As a stager: async_save calls stage, and then saves what it returns in a thread.

    @property
    def should_synchronize_after_execute(self):
        return False

    def stage(self, state_dict):
        """Collective. Captures all of the state; nothing is left to be saved."""
        checkpoint.save(state_dict, storage_writer=self, process_group=self.storage.group)
        self.is_staged = True
        return {}

    def synchronize_staging(self):
        pass

    def close(self):
        pass

    # As a writer.

    def reset(self, checkpoint_id=None):
        pass

    def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
        self.is_coordinator = is_coordinator

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        return plans

    def write_data(self, plan, planner):
        if self.is_staged:
            self.handle.future().result()
            return _done([])
        regions, items, results = {}, [], []
        for i, item in enumerate(plan.items):
            data = planner.resolve_data(item)
            if item.type == WriteItemType.BYTE_IO:
                raw = data.getvalue()
                tensor, size = _bytes_tensor(raw), len(raw)
            else:
                tensor = data.detach().contiguous()
                size = tensor.numel() * tensor.element_size()
            regions[f"item.{i}"] = tensor
            items.append((item.index, f"item.{i}", tuple(tensor.shape), size))
            results.append(WriteResult(index=item.index, size_in_bytes=size,
                                       storage_data=f"item.{i}"))
        if self.is_coordinator:
            regions[METADATA] = _bytes_tensor(pickle.dumps(planner.metadata))
        regions[ITEMS] = _bytes_tensor(pickle.dumps(items))
        session = self.storage.session
        self.storage.protect_only(regions)
        device = next((t.device for t in regions.values() if t.is_cuda), None)
        if device is not None:
            session.gpu_stream(torch.cuda.current_stream(device))
        self.handle = session.checkpoint(self.storage.name, self.step)
        self.storage.protect_only({})
        return _done(results)

    def finish(self, metadata, results):
        pass  # the regions say where everything lies

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return True


class Reader(StorageReader):
    def __init__(self, storage, step):
        self.storage, self.step = storage, step

    def reset(self, checkpoint_id=None):
        pass

    def read_metadata(self, *args, **kwargs):
        session, name = self.storage.session, self.storage.name
        metadata, self.where = None, {}
        for rank in range(session.ranks_of(name, self.step)):
            if ITEMS not in session.stored_regions(name, self.step, rank):
                continue
            items = pickle.loads(self.storage.read(self.step, rank, ITEMS).numpy().tobytes())
            for index, region, shape, size in items:
                self.where[index] = (rank, region, shape, size)
            if metadata is None and METADATA in session.stored_regions(name, self.step, rank):
                raw = self.storage.read(self.step, rank, METADATA).numpy().tobytes()
                metadata = pickle.loads(raw)
        if metadata is None:
            raise NotFound(-40, f"{name}@{self.step} was not written by dcp.save")
        metadata.storage_data = self.where
        assert isinstance(metadata, Metadata)
        return metadata

    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
        self.where = metadata.storage_data

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        return plans

    def read_data(self, plan, planner):
        stored = {}
        for item in plan.items:
            rank, region, shape, size = self.where[item.storage_index]
            if (rank, region) not in stored:
                stored = {(rank, region): self.storage.read(self.step, rank, region)}
            tensor = stored[rank, region]
            if item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(item, io.BytesIO(tensor.numpy().tobytes()[:size]))
                continue
            tensor = tensor.reshape(shape)
            for dim, (first, n) in enumerate(zip(item.storage_offsets, item.lengths)):
                tensor = tensor.narrow(dim, first, n)
            target = planner.resolve_tensor(item).detach()
            target.copy_(tensor)
            planner.commit_tensor(item, target)
        return _done(None)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return True
