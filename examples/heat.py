#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Heat in a rod, with mpi4py and numpy: mpirun -n 4 python3 examples/heat.py DIRECTORY [STEPS]

Start it again after a kill, on any number of ranks. Prints the sum of the temperatures."""
import sys

import numpy as np
from mpi4py import MPI

import cairn

CELLS = 100000
comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size
last = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
first, end = CELLS * rank // ranks, CELLS * (rank + 1) // ranks
place = np.arange(first, end) + 1.0
t = np.zeros(end - first)

with cairn.Session(sys.argv[1], comm=comm) as s:
    s.protect("temperature", t, global_shape=(CELLS,), offset=(first,))
    step = s.restart("heat") or 0
    while step < last:
        t += (100 / place - t) / 64
        step += 1
        if step % 100 == 0:
            s.checkpoint("heat", step)

parts = comm.gather(t)
if rank == 0:
    print(f"step {step}: {np.concatenate(parts).sum():.17g}")
