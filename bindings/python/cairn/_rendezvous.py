# SPDX-License-Identifier: BSD-3-Clause
"""How the processes of a job find each other: each class has rank, size and allgather(bytes)."""
import glob
import os
import tempfile
import time


class FileRendezvous:
    """Through files in a directory that all processes of the job see and no other user can read.
    Each attempt of a job needs a directory or key of its own. Files whose blobs all ranks have read
    are removed, so the job's secret does not stay."""

    def __init__(self, directory, rank, size, key="cairn", timeout=300.0):
        self.rank, self.size = rank, size
        self.directory, self.key, self.timeout, self.round = directory, key, timeout, 0
        os.makedirs(directory, mode=0o700, exist_ok=True)
        if os.stat(directory).st_mode & 0o077:
            raise PermissionError(f"{directory}: others can read it; the job's secret goes through "
                                  "it: chmod 700")
        if glob.glob(os.path.join(glob.escape(directory), f"{glob.escape(key)}.*.{rank}")):
            raise FileExistsError(f"{directory}: rank {rank} has met here before; each attempt of a "
                                  "job needs a directory or key of its own")

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
        if self.round > 1:  # all ranks have read the round before this one
            os.unlink(os.path.join(self.directory, f"{self.key}.{self.round - 2}.{self.rank}"))
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
    meeting = None
    if isinstance(comm, str) and comm == "torch":
        meeting = TorchRendezvous()
    elif hasattr(comm, "Get_rank"):
        meeting = MPIRendezvous(comm)
    elif hasattr(comm, "allgather") and hasattr(comm, "size"):
        meeting = comm
    if meeting is not None:
        return meeting if meeting.size > 1 else None  # a single process needs no UCX
    raise TypeError("comm is None, 'torch', a communicator of mpi4py, or an object with rank, size "
                    "and allgather(bytes), such as cairn.FileRendezvous")
