#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""FTI programs that need more than one start: heads, another number of ranks.

usage: runs_test.py HEADS_PROGRAM SINGLE_PROGRAM"""
import os
import subprocess
import sys
import tempfile

HEADS, SINGLE = sys.argv[1:3]
MPIEXEC = [os.environ["CAIRN_TEST_SOURCE"] + "/tools/mpiexec", os.environ["CAIRN_TEST_BUILD"]]


def start(directory, ranks, *command):
    env = dict(os.environ, CAIRN_SHM_DIR=directory, CAIRN_RUN_DIR=f"{directory}/run",
               CAIRN_BLOCK_BYTES="1M")
    done = subprocess.run([*MPIEXEC, "-n", str(ranks), *command], env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} on {ranks} ranks: status {done.returncode}\n{done.stdout}")


def fresh():
    return tempfile.TemporaryDirectory(prefix="cairn-fti-",
                                       dir=os.environ.get("CAIRN_TEST_MEMORY", "/dev/shm"))


with fresh() as directory:
    start(directory, 4, HEADS, directory, "crash")
    start(directory, 4, HEADS, directory, "again")
with fresh() as directory:
    start(directory, 4, SINGLE, directory, "write")
    start(directory, 3, SINGLE, directory, "read")
with fresh() as directory:
    start(directory, 2, SINGLE, directory, "write")
    start(directory, 5, SINGLE, directory, "read")
