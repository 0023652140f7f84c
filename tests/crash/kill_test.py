#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Kills jobs at every file operation, or fails the operation, and kills ranks at any time.

usage: kill_test.py SCENARIO    (see the functions named after them)"""
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from jobs import CAIRN, IS_ALL, PATIENCE, Job, cairn, every_call, kill, newest, require, run_one, workers_of


def verify(job, what):
    """Every version in the store is whole, and so is every version that it needs."""
    r = cairn(job, "verify")
    require(r.returncode == 0, f"{what}: {r.stdout}")


def kill_every_call():
    """SIGKILL before, or in the middle of, every file operation of a run."""
    job = Job()
    every_call(job, 1, "action=kill", sample=2)
    every_call(job, 1, "action=tear,ops=write")
    job.remove()


def kill_every_call_reused():
    """The same when files of removed versions are reused."""
    job = Job(keep_last=1)
    every_call(job, 1, "action=kill", steps=5, stride=2, after=verify, sample=3)
    every_call(job, 1, "action=tear,ops=write", steps=5, after=verify)
    for reuse in ("auto", "off"):  # a run that dies leaves the files that it would have reused
        job.env["CAIRN_REUSE_FILES"] = reuse
        spares = 0
        for k in range(250, 500, 5):
            job.reset()
            job.run(1, 5, f"at={k},action=kill")
            spares += len(list((job.dir / "p/work").glob(".spare-*")))
        require((spares > 0) == (reuse == "auto"), f"reuse_files = {reuse}: {spares} spares")
    job.remove()


def kill_every_call_local():
    """The same with a local tier and an arena that is too small: spill, local copies, their removal."""
    job = Job(arena_bytes="64K", arena_full="spill", keep_last=1)
    job.env["CAIRN_LOCAL"] = str(job.dir / "local")
    every_call(job, 1, "action=kill", sample=4)
    job.remove()


def longest_chain(job):
    r = subprocess.run([str(CAIRN), "ls", "--json"], env=job.env, check=True, text=True,
                       stdout=subprocess.PIPE)
    return max(v["chain"] for v in json.loads(r.stdout)["versions"])


def kill_every_call_chained():
    """Versions that are encoded against those before, which retention removes as soon as it may."""
    job = Job(encode="adaptive", encode_full_every=3, keep_last=1)
    job.env["CAIRN_TEST_ALIKE"] = "1"
    every_call(job, 1, "action=kill", steps=5, stride=3, after=verify, sample=2)
    every_call(job, 1, "action=kill,ops=unlink+rename", steps=5, after=verify, sample=2)
    job.reset()
    job.check_restart(1, -1, "nobody is killed")
    require(longest_chain(job) == 2, "nothing was encoded against another version")
    job.remove()


def fail_every_call():
    """Each file operation fails once with each of the usual errors, or is short."""
    job = Job(retry_delay="1ms")
    samples = {28: 7, 5: 3 if "CAIRN_ENCODE" in os.environ else 1, 122: 7}
    for errno in (28, 5, 122):  # ENOSPC, EIO, EDQUOT
        every_call(job, 1, f"action=fail,errno={errno}", sample=samples[errno])
    every_call(job, 1, "action=fail,errno=24,ops=open")  # EMFILE
    every_call(job, 1, "action=short,ops=write+read")
    job.remove()


def die_with_a_capture(job):
    """A run that is killed with a capture in memory that is not persistent."""
    for at in range(40, 240, 3):
        job.reset()
        job.run(1, 4, f"at={at},action=kill")
        if newest(job, "captured") > newest(job, "persistent"):
            return newest(job, "captured")
    require(False, "no run dies with a capture in memory")
    return -1


def keep(job):
    """A copy of everything that a dead job left; bring_back() restores it."""
    shutil.copytree(job.dir, str(job.dir) + ".then", ignore=shutil.ignore_patterns("sock"))


def bring_back(job):
    shutil.rmtree(job.dir)
    shutil.copytree(str(job.dir) + ".then", job.dir)


def kill_recovery():
    """A run dies with captures in memory; then the recovery dies at each of its operations."""
    job = Job()
    captured = die_with_a_capture(job)
    keep(job)
    k = 1
    while True:
        bring_back(job)
        r = job.run(1, 4, f"at={k},action=kill")
        what = f"recovery killed at file operation {k}"
        promised = max(captured, newest(job, "captured", "persistent"))
        job.check_restart(1, promised, what)
        job.check_clean(what)
        if r.returncode == 0:
            break
        k += 1 if IS_ALL else 2
    print(f"recovery: up to operation {k}, all well")
    require(k > 10, "recovery has hardly any file operation")
    shutil.rmtree(str(job.dir) + ".then")
    job.remove()


def limited_drain():
    """A drain without enough memory or descriptors, by hand or at the start of an application, keeps the captures
    that it cannot save and reports them; a later drain saves them."""
    job = Job(log_level="warn")
    promised = die_with_a_capture(job)
    arenas = [str(p.relative_to(job.dir)) for p in job.dir.glob("shm/cairn-*/*/arena-*")]
    require(arenas, "the run has left no arena")
    keep(job)
    limits = [(resource.RLIMIT_AS, n << 20) for n in (40, 48, 64)]
    limits += [(resource.RLIMIT_NOFILE, n) for n in range(4, 24)]
    kept = 0
    for limit, value in limits:
        for command in ([str(CAIRN), "drain"], job.command(1, 0)):
            what = f"{command[0]} with limit {limit} of {value}"
            bring_back(job)
            r = subprocess.run(command, env=job.env, check=False, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT,
                               preexec_fn=lambda: resource.setrlimit(limit, (value, value)))
            is_saved = (job.dir / f"p/work/{promised}/manifest").exists()
            if not is_saved:
                kept += 1
                require(all((job.dir / a).exists() for a in arenas), f"{what}: the arena is gone\n{r.stdout}")
                require(r.returncode != 0 or (command[0] != str(CAIRN) and "not saved" in r.stdout),
                        f"{what}: exit {r.returncode} without a word\n{r.stdout}")
            job.check_restart(1, promised, what)
    require(0 < kept < 2 * len(limits), f"{kept} of {2 * len(limits)} drains kept the run")
    print(f"{2 * len(limits)} drains, {kept} kept the run")
    shutil.rmtree(str(job.dir) + ".then")
    job.remove()


def kill_ranks():
    """Several nodes: a rank dies in a file operation of its service, or at a random time."""
    rng = random.Random(int(os.environ.get("CAIRN_TEST_SEED", "1")))
    files = os.environ.get("CAIRN_TEST_FILES", "1:1")
    job = Job(ranks_per_node=2, files=files)
    for victim in (0, 2) if files == "1:1" else (0,):  # a follower hardly uses files
        every_call(job, 4, "action=kill", stride=9, victim=victim, limit=64, sample=2)
    for round_no in range(6 if IS_ALL else 2):
        job.reset()
        p = job.start(4, 10**6)  # never ends by itself, however slow the machine
        until = rng.randrange(1, 8)
        deadline = time.monotonic() + PATIENCE
        while newest(job, "captured") < until and time.monotonic() < deadline and p.poll() is None:
            time.sleep(0.002)
        pids = workers_of(p.pid)
        require(pids, "no worker is running")
        if round_no % 2:
            kill(rng.choice(pids))  # one rank; the launcher ends the others
        else:
            for pid in pids:
                kill(pid)
        p.wait()
        promised = newest(job, "captured", "persistent")
        job.check_restart(4, promised, f"round {round_no}")
        job.check_clean(f"round {round_no}")
    job.remove()
    print("kill of ranks: all well")


if __name__ == "__main__":
    sys.exit(run_one(__doc__, kill_every_call, kill_every_call_reused, kill_every_call_local,
                     kill_every_call_chained, fail_every_call, kill_recovery, limited_drain, kill_ranks))
