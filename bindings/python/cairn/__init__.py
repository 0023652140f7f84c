# SPDX-License-Identifier: BSD-3-Clause
"""Cairn: checkpoints at memory speed.

    with cairn.Session(persistent="/lustre/me/checkpoints") as s:
        s.protect("t", array)
        step = s.restart("heat") or 0
        while step < last:
            compute(array)
            step += 1
            s.checkpoint("heat", step)        # returns after one memcpy

cairn.torch has the checkpointer for training jobs; docs/python.md describes both.
"""
from ._declarations import VERSION as __version__
from ._library import (Busy, Damaged, Error, InvalidArgument, Mismatch, NotFound, PeerFailed,
                       TimedOut)
from ._rendezvous import FileRendezvous, MPIRendezvous, TorchRendezvous
from ._session import Checkpoint, Session
from ._store import open_store

__all__ = ["Busy", "Checkpoint", "Damaged", "Error", "FileRendezvous", "InvalidArgument",
           "MPIRendezvous", "Mismatch", "NotFound", "PeerFailed", "Session", "TimedOut",
           "TorchRendezvous", "__version__", "open_store"]
