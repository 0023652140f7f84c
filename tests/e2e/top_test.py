#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`cairn top` beside real jobs: one that lives, one that is killed and drained, files that a hostile user left,
and the live view on a terminal of its own."""
import json
import os
import pathlib
import pty
import select
import shutil
import signal
import subprocess
import tempfile
import termios
import time
import unittest

BUILD = pathlib.Path(os.environ["CAIRN_TEST_BUILD"])
CAIRN = BUILD / "src" / "cli" / "cairn"
JOB = BUILD / "tests" / "job"


class Top(unittest.TestCase):
    def setUp(self):
        self.tmp = pathlib.Path(tempfile.mkdtemp(prefix="cairn-top-"))
        self.addCleanup(shutil.rmtree, self.tmp, ignore_errors=True)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("CAIRN_", "SLURM_"))}
        self.env |= {"CAIRN_PERSISTENT": str(self.tmp / "store"), "CAIRN_RUN_DIR": str(self.tmp / "run"),
                     "CAIRN_SHM_DIR": str(self.tmp / "shm"), "CAIRN_JOB": "wave-7",
                     "CAIRN_FREE_RESERVE_BYTES": "0", "CAIRN_PERIOD": "365d", "TERM": "xterm"}

    def cairn(self, *words, expect=0, **env):
        done = subprocess.run([CAIRN, *map(str, words)], capture_output=True, text=True,
                              env=self.env | env)
        self.assertEqual(done.returncode, expect, (words, done.stdout, done.stderr))
        return done.stdout

    def runs(self, *words):
        return json.loads(self.cairn("top", "--once", "--json", *words))["runs"]

    def start(self, **env):
        child = subprocess.Popen([JOB, "1000000"], stdout=subprocess.PIPE, text=True,
                                 env=self.env | {"JOB_STEP_MS": "2"} | env)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        self.assertEqual(child.stdout.readline(), "began 0\n")
        self.addCleanup(child.stdout.close)
        return child

    def until(self, true):
        """The limit is that of deadline.c."""
        while True:
            got = true()
            if got:
                return got
            time.sleep(0.02)

    def states(self):
        return [(c["version"], c["state"]) for r in self.runs() for c in r["checkpoints"]]

    def test_nothing_runs(self):
        self.assertEqual(self.runs(), [])
        self.assertIn("no run", self.cairn("top", "--once"))
        self.cairn("top", "--interval", "1us", expect=2)
        self.cairn("top", "something", expect=2)

    def test_a_living_job(self):
        self.start()
        self.until(lambda: any(s == "persistent" for _, s in self.states()))
        run, = self.runs()
        keys = ("job", "node", "nodes", "ranks", "ranks_here", "arenas")
        self.assertEqual([run[k] for k in keys], ["wave-7", 0, 1, 1, 1, 1])
        self.assertTrue(run["ranks_alive"] and run["service_alive"])
        self.assertEqual(run["persistent"], self.env["CAIRN_PERSISTENT"])
        versions = [c["version"] for c in run["checkpoints"]]
        self.assertEqual(versions, sorted(versions, reverse=True))
        for c in run["checkpoints"]:
            self.assertEqual((c["name"], c["version"] % 10, c["ranks"]), ("job", 0, 1))
            self.assertGreaterEqual(c["bytes"], 50000 * 8)
        text = self.cairn("top")  # no terminal: once
        self.assertIn("wave-7", text)
        self.assertIn("running", text)
        self.assertNotIn("\033", text)

    def test_a_dead_job_and_its_drain(self):
        """A capture that was not flushed in time is shown until a drain has saved it."""
        child = self.start(CAIRN_BANDWIDTH="100K", JOB_DIE="10")
        child.wait()
        run, = self.runs()
        self.assertFalse(run["ranks_alive"] or run["service_alive"])
        self.assertEqual([c["version"] for c in run["checkpoints"]], [10])
        self.assertIn(run["checkpoints"][0]["state"], ("captured", "flushing"))
        self.assertGreater(run["in_use_bytes"], 400000)
        self.assertIn("cairn drain", self.cairn("top", "--once"))
        self.cairn("drain")
        self.assertEqual(self.runs(), [])

    def test_what_others_have_left(self):
        """A FIFO, a truncated arena, an arena of random bytes, an empty directory."""
        child = self.start(CAIRN_BANDWIDTH="100K", JOB_DIE="10")
        child.wait()
        where, = (self.tmp / "shm").glob("cairn-*/*-n0")
        arena = where / "arena-0"
        os.truncate(arena, 5000)
        run, = self.runs()
        self.assertIn("arena-0", run["error"])
        self.assertEqual(run["checkpoints"], [])
        arena.write_bytes(os.urandom(100_000))
        self.assertIn("arena-0", self.runs()[0]["error"])
        arena.unlink()
        os.mkfifo(arena)
        self.assertIn("arena-0", self.runs()[0]["error"])
        (where / "run.ini").unlink()
        os.mkfifo(where / "run.ini")
        self.assertIn("run.ini", self.runs()[0]["error"])
        (where.parent / ("ab" * 16 + "-n3")).mkdir()
        self.assertEqual(len(self.runs("--users")), 1)

    def test_on_a_terminal(self):
        self.start()
        self.until(self.states)
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        self.addCleanup(os.close, slave)
        before = termios.tcgetattr(slave)
        for ending in ("q", signal.SIGTERM):
            child = subprocess.Popen([CAIRN, "top", "-i", "100ms"], stdin=slave, stdout=slave, stderr=slave,
                                     env=self.env)
            self.addCleanup(child.kill)
            said = self.expect(master, b"job@", b"STATE")
            self.assertIn(b"\033[?1049h", said)
            self.assertIn(b"\033[32m", said + self.expect(master, b"\033[32m"))  # colours
            os.write(master, b"h")
            self.expect(master, b"q quit")
            os.write(master, b"p")
            self.expect(master, b"paused")
            if ending == "q":
                os.write(master, b"q")
            else:
                child.send_signal(ending)
            self.assertIn(b"\033[?1049l", self.expect(master, b"\033[?1049l"))
            self.assertEqual(child.wait(), 0)
            self.assertEqual(termios.tcgetattr(slave), before)

    def expect(self, master, *texts):
        said = b""
        while not all(t in said for t in texts):
            select.select([master], [], [])
            said += os.read(master, 65536)
        return said


if __name__ == "__main__":
    unittest.main()
