# SPDX-License-Identifier: BSD-3-Clause
"""How the processes of a job find each other: each class has rank, size and allgather(bytes)."""
import os
import tempfile
import time


class FileRendezvous:
    """Through files in a directory that all processes of the job see and nobody else can read.
    Each attempt of a job needs a directory or key of its own."""

    def __init__(self, directory, rank, size, key="cairn", timeout=300.0):
        self.rank, self.size = rank, size
        self.directory, self.key, self.timeout, self.round = directory, key, timeout, 0
        os.makedirs(directory, mode=0o700, exist_ok=True)
        if os.stat(directory).st_mode & 0o077:
            raise PermissionError(f"{directory}: others can read it; the job's secret goes through "
                                  "it: chmod 700")

    def path(self, rank):
        return os.path.join(self.directory, f"{self.key}.{self.round}.{rank}")

    def allgather(self, data):
        handle, temporary = tempfile.mkstemp(dir=self.directory)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.rename(temporary, self.path(self.rank))
        blobs, until = [], time.monotonic() + self.timeout
        for rank in range(self.size):
            while not os.path.exists(self.path(rank)):
                if time.monotonic() > until:
                    raise TimeoutError(f"rank {rank} did not come to {self.directory} within "
                                       f"{self.timeout:g} s")
                time.sleep(0.01)
            with open(self.path(rank), "rb") as file:
                blobs.append(file.read())
        self.round += 1
        return blobs


class TorchRendezvous:
    """Over torch.distributed, as torchrun has set it up."""

    def __init__(self, group=None):
        import torch.distributed as dist
        if not dist.is_initialized():
            raise RuntimeError("call torch.distributed.init_process_group first")
        self.group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)

    def allgather(self, data):
        import torch.distributed as dist
        blobs = [None] * self.size
        dist.all_gather_object(blobs, data, group=self.group)
        return blobs


class MPIRendezvous:
    """Over a communicator of mpi4py."""

    def __init__(self, comm):
        self.comm = comm
        self.rank, self.size = comm.Get_rank(), comm.Get_size()

    def allgather(self, data):
        return self.comm.allgather(data)


def rendezvous_of(comm):
    """What the argument comm of a session means; None for a single process."""
    if comm is None or comm == "self":
        return None
    if isinstance(comm, str) and comm == "torch":
        return TorchRendezvous()
    if hasattr(comm, "Get_rank"):
        return MPIRendezvous(comm)
    if hasattr(comm, "allgather") and hasattr(comm, "size"):
        return comm
    raise TypeError("comm is None, 'torch', a communicator of mpi4py, or an object with rank, size "
                    "and allgather(bytes), such as cairn.FileRendezvous")
