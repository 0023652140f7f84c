#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A VELOC program dies by SIGKILL at every point of its life, again and again, and ends with the bytes
of a run that nobody disturbed. What VELOC_Checkpoint_wait called done is never lost.

usage: kill_test.py JOB_PROGRAM SINGLE_PROGRAM BACKEND_PROGRAM"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

RANKS = 4
STEPS = 43
# Seconds that a test has; then tests/support/deadline.c ends it and shows who hangs.
PATIENCE = float(os.environ.get("CAIRN_TEST_SECONDS", "60"))
JOB, SINGLE, BACKEND = sys.argv[1:4]
CAIRND = os.environ["CAIRN_TEST_BUILD"] + "/src/cairnd"
MPIEXEC = [os.environ["CAIRN_TEST_SOURCE"] + "/tools/mpiexec", os.environ["CAIRN_TEST_BUILD"]]


def fail(text, log=""):
    sys.exit(f"kill_test: {text}\n{log}")


class Run:
    """One job in a directory of its own, started as often as it takes."""

    def __init__(self, root, kind, mode):
        self.root = root
        root.mkdir()
        self.kind = kind
        self.durable = -1
        (root / "veloc.cfg").write_text(
            f"scratch = {root}/s\npersistent = {root}/p\nmode = {mode}\nmax_versions = 2\n"
            f"scratch_versions = 2\nec_interval = 0\nchksum = true\nmeta = {root}/meta\n"
            "[other]\nec_interval = 7\n")
        self.env = dict(os.environ, CAIRN_SHM_DIR=str(root), CAIRN_RUN_DIR=f"{root}/run",
                        CAIRN_RANKS_PER_NODE="2", CAIRN_BLOCK_BYTES="1M")

    def go(self, *death):
        """Runs until the death or the end; the version it restarted from, -1 if none."""
        done = subprocess.run(
            [*MPIEXEC, "-n", str(RANKS), JOB, self.root / "veloc.cfg", self.root / "out",
             self.kind, str(STEPS), *map(str, death)],
            env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        log = done.stdout + done.stderr
        if (done.returncode == 0) != (not death):
            fail(f"death {death}: exit status {done.returncode}", log)
        found = re.findall(r"^restart (\d+)$", done.stdout, re.M)
        version = int(found[-1]) if found else -1
        if version < self.durable and (found or not death):  # a dead rank 0 may not have told
            fail(f"restarted from {version}, but {self.durable} was durable", log)
        for v in re.findall(r"^durable (\d+)$", done.stdout, re.M):
            self.durable = max(self.durable, int(v))
        self.stderr = done.stderr
        return version

    def result(self):
        return [(self.root / f"out.{r}").read_bytes() for r in range(RANKS)]


def main():
    with tempfile.TemporaryDirectory(prefix="cairn-veloc-", dir=os.environ.get("CAIRN_TEST_MEMORY", "/dev/shm")) as tmp:
        top = pathlib.Path(tmp)
        calm = Run(top / "calm", "mem", "async")
        calm.go()
        named = re.findall(r"no effect here: (.*) \(see", calm.stderr)
        if named != ["chksum, ec_interval, meta"]:
            fail(f"keys without effect should be named once: {named}", calm.stderr)
        want = calm.result()
        for kind, mode in (("mem", "async"), ("file", "async"), ("mem", "sync")):
            run = Run(top / f"{kind}-{mode}", kind, mode)
            deaths = [("begin", 10, 0), ("mem", 15, 1), ("end", 15, -1), ("compute", 22, 3),
                      ("end", 25, 0), ("mem", 30, -1), ("compute", 33, -1), ("restart", -1, 2)]
            for death in deaths if mode == "async" else deaths[-3:]:
                run.go(*death)
            if run.go() < 30:
                fail(f"{kind} {mode}: nothing was left to go on from", run.stderr)
            if run.result() != want:
                fail(f"{kind} {mode}: the result differs from that of a calm run")
        alone(top)
        backend_dies(top)


def alone(top):
    """Processes without MPI at all."""
    run = Run(top / "alone", "mem", "async")
    for what in ("first", "again"):
        for number in ("0", "1"):
            done = subprocess.run([SINGLE, number, run.root / "veloc.cfg", what], env=run.env,
                                  capture_output=True, text=True)
            if done.returncode != 0:
                fail(f"single {number} {what}: exit status {done.returncode}",
                     done.stdout + done.stderr)


def backend_dies(top):
    """With a daemon behind it the library outlives the daemon."""
    run = Run(top / "backend", "mem", "async")
    (run.root / "run").mkdir(mode=0o700)
    run.env.update(CAIRN_SERVICE="daemon", CAIRN_RANKS_PER_NODE="2")
    daemon = subprocess.Popen([CAIRND], env=run.env, stdin=subprocess.DEVNULL)
    until = time.monotonic() + PATIENCE
    while not list((run.root / "run").glob("cairnd-*.sock")):
        if time.monotonic() > until or daemon.poll() is not None:
            fail("cairnd does not start")
        time.sleep(0.01)
    job = subprocess.Popen([*MPIEXEC, "-n", "2", BACKEND, run.root / "veloc.cfg",
                            run.root / "dead"], env=run.env, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if job.stdout.readline() != "ready\n":
        fail("backend: no first checkpoint", job.communicate()[1])
    daemon.kill()
    daemon.wait()
    (run.root / "dead").touch()
    out, err = job.communicate()
    if job.returncode != 0:
        fail(f"backend: exit status {job.returncode}", out + err)


main()
