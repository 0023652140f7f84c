#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Applications that fork (fork.c). A child that outlives its parent hides none of the parent's captures and blocks
no name. A child that calls the API gets errors, and the parent's checkpoints are correct.

usage: fork_test.py calls | embedded | daemon"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ["CAIRN_TEST_BUILD"])
PROGRAM = BUILD / "tests/api/api_fork"
CAIRN = BUILD / "src/cli/cairn"
MPIEXEC = [os.environ["CAIRN_TEST_SOURCE"] + "/tools/mpiexec", str(BUILD)]
PATIENCE = float(os.environ.get("CAIRN_TEST_SECONDS", "60"))
MEMORY = os.environ.get("CAIRN_TEST_MEMORY", "/dev/shm")  # emptied by tests/support/deadline.c


def require(condition, text):
    if not condition:
        raise SystemExit(f"FAILED: {text}")


class Bed:
    """The directories of an application, and the processes in them."""

    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="cairn-fork-", dir=MEMORY))
        for name in ("m", "r"):
            (self.dir / name).mkdir(mode=0o700)
        self.env = dict(os.environ, CAIRN_PERSISTENT=str(self.dir / "p"), CAIRN_LOG_LEVEL="error",
                        CAIRN_SHM_DIR=str(self.dir / "m"), CAIRN_RUN_DIR=str(self.dir / "r"))
        self.sleeper = None

    def run(self, *command, **kwargs):
        return subprocess.run([str(c) for c in command], env=self.env, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, **kwargs)

    def die(self, depth):
        """An application dies; its child or grandchild survives, as self.sleeper."""
        pid_file = self.dir / f"pid{depth}"
        r = subprocess.run([str(PROGRAM), "dies", str(self.dir), str(pid_file), str(depth)],
                           env=self.env, stdin=subprocess.DEVNULL, check=False)
        self.sleeper = int(pid_file.read_text())
        require(r.returncode == -signal.SIGKILL, f"the application ended with {r.returncode}")

    def check_sleeper(self):
        os.kill(self.sleeper, 0)
        held = [os.readlink(p) for p in pathlib.Path(f"/proc/{self.sleeper}/fd").iterdir()]
        held = [h for h in held if h.endswith("/lock") or h.endswith("/.writer")]
        require(not held, f"the child holds {held}")

    def end_sleeper(self):
        os.kill(self.sleeper, signal.SIGKILL)
        self.sleeper = None

    def committed(self):
        return sorted(int(m.parent.name) for m in (self.dir / "p/heat").glob("*/manifest"))

    def remove(self):
        if self.sleeper:
            self.end_sleeper()
        shutil.rmtree(self.dir)


def calls(bed):
    # A child lacks the parent's threads, so the leak checker reports memory that those threads own.
    options = os.environ.get("ASAN_OPTIONS")
    bed.env["ASAN_OPTIONS"] = (options + ":" if options else "") + "detect_leaks=0"
    r = bed.run(PROGRAM, "calls", bed.dir)
    require(r.returncode == 0, r.stdout)
    r = bed.run(CAIRN, "verify", "heat")
    require(r.returncode == 0, r.stdout)
    require(not list((bed.dir / "m").glob("cairn-*/*")), "directories of the run are left")


def embedded(bed):
    for depth in (1, 2):
        bed.die(depth)
        bed.check_sleeper()
        require(bed.committed()[-1] < 2 * depth, f"flushed already: {bed.committed()}")
        if depth == 1:  # a drain saves the captures
            r = bed.run(CAIRN, "drain")
            require(r.returncode == 0 and bed.committed() == [1, 2], f"{bed.committed()}: {r.stdout}")
        r = bed.run(PROGRAM, "restarts", bed.dir)  # or the next run does
        require(r.returncode == 0 and "restarted at 2" in r.stdout, r.stdout)
        require(bed.committed() == [1, 2, 3], f"committed: {bed.committed()}")
        bed.check_sleeper()
        bed.end_sleeper()
        shutil.rmtree(bed.dir / "p")


def daemon(bed):
    bed.env["FORK_TEST_SERVICE"] = "service=daemon"
    d = subprocess.Popen(MPIEXEC + ["-n", "1", str(BUILD / "src/cairnd")], env=bed.env,
                         stdin=subprocess.DEVNULL)
    until = time.monotonic() + PATIENCE
    while not list((bed.dir / "r").glob("cairnd-*.sock")):
        require(d.poll() is None and time.monotonic() < until, "cairnd does not start")
        time.sleep(0.01)
    try:
        bed.die(1)
        # cairnd notices that the application has died, and flushes the captures that waited.
        while bed.committed() != [1, 2]:
            require(time.monotonic() < until, f"cairnd waits for a dead application: {bed.committed()}")
            time.sleep(0.01)
        bed.check_sleeper()
        r = bed.run(PROGRAM, "restarts", bed.dir)
        require(r.returncode == 0 and "restarted at 2" in r.stdout, r.stdout)
    finally:
        d.terminate()
        d.wait()


def main():
    bed = Bed()
    try:
        {"calls": calls, "embedded": embedded, "daemon": daemon}[sys.argv[1]](bed)
    finally:
        bed.remove()
    print("all well")


main()
