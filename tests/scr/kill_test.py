#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A program with SCR or FTI dies by SIGKILL at every point of its life, again and again, and ends with
the bytes of a run that nobody disturbed. What a call acknowledged is never lost. It also goes on when
files of the newest checkpoint are damaged or missing, and with SCR on another number of ranks. With FTI
it does not begin anew when all checkpoints are damaged.

usage: kill_test.py scr|fti PROGRAM"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

API, JOB = sys.argv[1:3]
STEPS = 43
MPIEXEC = [os.environ["CAIRN_TEST_SOURCE"] + "/tools/mpiexec", os.environ["CAIRN_TEST_BUILD"]]
DEATHS = {
    "scr": [("route", 10, 0), ("write", 15, 1), ("complete", 15, -1), ("compute", 22, 3),
            ("complete", 25, 0), ("write", 30, -1), ("compute", 33, -1), ("restart", 30, 2)],
    "fti": [("before", 5, 0), ("after", 5, 1), ("after", 10, -1), ("compute", 17, 2),
            ("after", 20, 0), ("before", 30, -1), ("compute", 33, 3), ("restart", 30, 1)],
}[API]


def fail(text, log=""):
    sys.exit(f"kill_test {API}: {text}\n{log}")


class Run:
    """One job in a directory of its own, started as often as it takes."""

    def __init__(self, root, **settings):
        self.root = root
        root.mkdir()
        self.durable = -1
        self.env = dict(os.environ, CAIRN_SHM_DIR=str(root), CAIRN_RUN_DIR=f"{root}/run",
                        CAIRN_RANKS_PER_NODE="2", CAIRN_BLOCK_BYTES="1M", **settings)
        self.first = root / "prefix" if API == "scr" else root / "config.fti"
        if API == "scr":
            self.first.mkdir()
        else:
            self.first.write_text(f"[basic]\nckpt_dir = {root}/l\nglbl_dir = {root}/g\n"
                                  f"meta_dir = {root}/m\n[restart]\nfailure = 0\nexec_id = x\n")

    def go(self, *death, ranks=4, steps=STEPS):
        """Runs until the death or the end; the step it restarted from, -1 if none."""
        done = subprocess.run([*MPIEXEC, "-n", str(ranks), JOB, self.first, self.root / "out",
                               str(steps), *map(str, death)], env=self.env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.log = done.stdout + done.stderr
        if (done.returncode == 0) != (not death):
            fail(f"{self.root.name}: death {death}: exit status {done.returncode}", self.log)
        found = re.findall(r"^restart (\d+)$", done.stdout, re.M)
        step = int(found[-1]) if found else -1
        if step < self.durable and (found or not death):  # a dead rank 0 may not have told
            fail(f"{self.root.name}: restarted from {step}, but {self.durable} was acknowledged",
                 self.log)
        for v in re.findall(r"^durable (\d+)$", done.stdout, re.M):
            self.durable = max(self.durable, int(v))
        return step

    def result(self):
        return {p.name: p.read_bytes() for p in self.root.glob("out.*")}


def kills(run, want):
    for death in DEATHS:
        run.go(*death)
    if run.go() < 30:
        fail("nothing was left to go on from", run.log)
    if run.result() != want:
        fail(f"{run.root.name}: the result differs from that of a calm run", run.log)


def spoil(path, what):
    if what == "damaged":
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    else:
        path.unlink()


def files_of_fti(top, want):
    """The newest checkpoint, then each of them, is damaged or lacks a file."""
    for what in ("damaged", "missing"):
        for first in ("newest", "all"):
            run = Run(top / f"{first}-{what}")
            run.go("compute", 27, -1)
            data = sorted(run.root.glob("g/cairn/*/*/data-0001"), key=lambda p: p.parent)
            if [p.parent.name for p in data] != ["4", "5"]:
                fail(f"{what}: there are {data}", run.log)
            for path in data if first == "all" else data[1:]:
                spoil(path, what)
            shutil.rmtree(run.root / "l", ignore_errors=True)  # the copies on the nodes
            if first == "newest":
                run.durable = 20
                if run.go() != 20 or run.result() != want:
                    fail(f"{what}: expected step 20", run.log)
            else:
                run.durable = -1
                if run.go("nowhere", 0, 0) != -1 or run.result():
                    fail(f"{what}: it began anew", run.log)


def files_of_scr(top, want):
    """The newest checkpoint is damaged, then one lacks a file; then other numbers of ranks."""
    for what in ("damaged", "missing"):
        run = Run(top / what)
        run.go("compute", 23, 0)
        spoil(run.first / "job/20/piece.3", what)
        run.durable = 15
        if run.go() != 15 or run.result() != want:
            fail(f"{what}: expected step 15", run.log)
    for bypass in ("0", "1"):
        run = Run(top / f"ranks-{bypass}", SCR_CACHE_BYPASS=bypass, SCR_FLUSH="1")
        for ranks, step in ((4, 12), (2, 22), (6, 31)):
            run.go("compute", step, -1, ranks=ranks)
        if run.go(ranks=3) != 30 or run.result() != want:
            fail(f"other numbers of ranks, bypass {bypass}", run.log)
        if bypass == "0" and not (run.first / "job/40/piece.11").exists():
            fail("the last checkpoint is not in the prefix", run.log)


with tempfile.TemporaryDirectory(prefix="cairn-kill-",
                                 dir=os.environ.get("CAIRN_TEST_MEMORY", "/dev/shm")) as tmp:
    top = pathlib.Path(tmp)
    calm = Run(top / "calm")
    calm.go()
    if API == "fti":
        kills(Run(top / "levels"), calm.result())
        files_of_fti(top, calm.result())
    else:
        kills(Run(top / "direct"), calm.result())
        kills(Run(top / "cached", SCR_CACHE_BYPASS="0", SCR_FLUSH="2"), calm.result())
        kills(Run(top / "async", SCR_CACHE_BYPASS="0", SCR_FLUSH="3", SCR_FLUSH_ASYNC="1",
                  SCR_COPY_TYPE="SINGLE"), calm.result())
        files_of_scr(top, calm.result())
