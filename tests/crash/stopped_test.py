#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A stopped cairnd (SIGSTOP) hangs no application: tests/crash/stopped.c makes every call of the library
meanwhile.

usage: stopped_test.py SCENARIO    (see the functions named after them)"""
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
from jobs import BUILD, MPIEXEC, Daemons, Job, require, run_one

SINGLE = BUILD / "tests/crash/stopped_single"
RANKS = BUILD / "tests/crash/stopped"


def check_list():
    """The program makes every call that the library exports."""
    symbols = pathlib.Path(os.environ["CAIRN_TEST_SOURCE"], "src/libcairn.symbols").read_text()
    exported = {line.split("@")[0] for line in symbols.split() if "PRIVATE" not in line}
    made = subprocess.run([str(SINGLE), "--list"], check=True, text=True, stdout=subprocess.PIPE).stdout
    require(set(made.split()) == exported,
            f"tests/crash/stopped.c and src/libcairn.symbols differ: {set(made.split()) ^ exported}")


def beside_stopped(command, *words, nodes=1, **keys):
    check_list()
    job = Job(service="daemon", service_timeout="2s", wait_timeout="2s", **keys)
    (job.dir / "run").mkdir(mode=0o700)
    (job.dir / "local").mkdir()
    job.env = {key: value.replace("{dir}", str(job.dir)) for key, value in job.env.items()}
    daemons = Daemons(job, nodes)
    r = subprocess.run(command + [*words, *map(str, daemons.pids())], env=job.env, check=False,
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    require(r.returncode == 0, f"exit {r.returncode}:\n{r.stdout}")
    print(r.stdout.strip())
    daemons.kill()
    job.remove()


def plain():
    beside_stopped([str(SINGLE)])


def local():
    """Sessions with a tier on the node's disk."""
    beside_stopped([str(SINGLE)], "--full", local="{dir}/local", local_cache="8M")


def device():
    """Sessions with a tier in GPU memory."""
    beside_stopped([str(SINGLE)], "--full", "--gpu", device_cache="1M")


def ranks():
    """Three ranks on two nodes."""
    beside_stopped(MPIEXEC + ["-n", "3", str(RANKS)], "--full", nodes=2, ranks_per_node=2)


def ranks_ucx():
    """The same over UCX."""
    beside_stopped(MPIEXEC + ["-n", "3", str(RANKS)], "--full", nodes=2, ranks_per_node=2, comm="ucx")


if __name__ == "__main__":
    sys.exit(run_one(__doc__, plain, local, device, ranks, ranks_ucx))
