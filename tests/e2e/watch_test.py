#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""cairn watch: files become versions while a program writes them. Real deaths at every file operation; the
originals are never gone before the version is there."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
from filesets import HAS_FAULTS, MAKE_VERSION, PATIENCE, PATTERN, Case


class Watching(Case):
    def start(self, *words, **env):
        log = open(self.tmp / "log", "ab")
        self.addCleanup(log.close)
        p = subprocess.Popen(self.command(*self.watch_words("--poll", "100ms", "--settle", "200ms", *words)),
                             env={**self.env, **env}, stdout=log, stderr=log)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        return p

    def until(self, what, process=None):
        end = time.monotonic() + PATIENCE
        while not what():
            self.assertLess(time.monotonic(), end, (self.tmp / "log").read_text())
            if process is not None:
                self.assertIsNone(process.poll(), (self.tmp / "log").read_text())
            time.sleep(0.02)

    def stop(self, process, sig=signal.SIGTERM):
        process.send_signal(sig)
        self.assertEqual(process.wait(30), 0)

    def test_live(self):
        want = {1: self.write_set(1)}
        p = self.start("--remove")
        self.until(lambda: self.versions() == [1] and self.left() == [], p)
        self.write("unrelated.txt")
        want[2] = self.write_set(2)
        self.until(lambda: self.versions() == [1, 2], p)
        # by rename, one rank late
        for r in (0, 2, 1):
            name = f"out.3.{r}.dat"
            data = self.write(f"{name}.tmp")
            (self.out / f"{name}.tmp").rename(self.out / name)
            want.setdefault(3, {})[name] = data
            if r == 2:
                time.sleep(0.3)
                self.assertEqual(self.versions(), [1, 2])
        self.until(lambda: self.versions() == [1, 2, 3], p)
        self.until(lambda: self.left() == ["unrelated.txt"], p)
        self.stop(p)
        for step, files in want.items():
            self.assertEqual(self.restore(f"heat@{step}"), files)
        self.assertEqual((self.tmp / "log").read_text().count("committed"), 3)

    def test_growing_file_waits(self):
        p = self.start("--remove")
        want = self.write_set(5)
        with open(self.out / "out.6.0.dat", "wb") as f:
            self.write("out.6.1.dat")
            self.write("out.6.2.dat")
            f.write(b"first")
            f.flush()
            self.until(lambda: self.versions() == [5], p)
            time.sleep(0.5)  # longer than --settle: still open, still not taken
            self.assertEqual(self.versions(), [5])
            self.assertEqual(len(self.left()), 3)
            f.write(b", then the rest")
        self.until(lambda: self.versions() == [5, 6], p)
        self.stop(p, signal.SIGINT)
        self.assertEqual(self.restore("heat@5"), want)
        self.assertEqual(self.restore("heat@6")["out.6.0.dat"], b"first, then the rest")

    def test_taken_again(self):
        p = self.start()
        self.write_set(1)
        self.until(lambda: self.versions() == [1], p)
        want = self.write_set(1)
        self.until(lambda: (self.tmp / "log").read_text().count("committed") >= 2, p)
        self.until(lambda: self.restore("heat@1") == want, p)
        self.stop(p)

    def test_recognised_after_restart(self):
        self.write_set(1)
        self.write_set(2)
        for _ in range(3):
            self.cairn(*self.watch_words("--once"))
        ids = [(self.dir / "heat" / str(v) / "manifest").stat().st_mtime_ns for v in (1, 2)]
        out, _ = self.cairn(*self.watch_words("--once"))
        self.assertEqual(out.count("was there already"), 2)
        self.assertEqual(ids, [(self.dir / "heat" / str(v) / "manifest").stat().st_mtime_ns for v in (1, 2)])
        self.cairn(*self.watch_words("--once", "--remove"))
        self.assertEqual(self.left(), [])

    def test_incomplete_waits(self):
        self.write_set(1)
        (self.out / "out.1.1.dat").unlink()
        self.write_set(2)
        lines = [json.loads(l) for l in self.cairn(*self.watch_words("--once", "--remove", "--json"))[0].splitlines()]
        self.assertEqual([(l["event"], l["version"]) for l in lines], [("waits", 1), ("committed", 2)])
        self.assertIn("rank 1", lines[0]["text"])
        self.assertEqual(self.left(), ["out.1.0.dat", "out.1.2.dat"])
        self.write("out.1.1.dat")
        self.cairn(*self.watch_words("--once"))
        self.assertEqual(self.versions(), [1, 2])

    def test_retention(self):
        for step in range(1, 6):
            self.write_set(step)
        keep = ["--set", "keep_last=2"]
        self.cairn(*self.watch_words("--once"), *keep)
        self.assertEqual(self.versions(), [4, 5])
        for p in self.out.iterdir():
            os.utime(p, (1, 1))
        out, _ = self.cairn(*self.watch_words("--once"), *keep)
        self.assertEqual(out.count("older than what is kept"), 3)
        self.assertEqual(self.versions(), [4, 5])

    def test_versions_of_programs_stay(self):
        subprocess.run([MAKE_VERSION, self.dir, "heat", "1"], check=True, env=self.env)
        before = (self.dir / "heat" / "1" / "manifest").read_bytes()
        self.write_set(1)
        out, _ = self.cairn(*self.watch_words("--once", "--remove"), expect=1)
        self.assertIn("not made from files", out)
        self.assertEqual(before, (self.dir / "heat" / "1" / "manifest").read_bytes())
        self.assertEqual(len(self.left()), 3)

    def test_directory_goes(self):
        p = self.start()
        self.write_set(1)
        self.until(lambda: self.versions() == [1], p)
        shutil.rmtree(self.out)
        self.assertEqual(p.wait(30), 1)
        self.assertIn("is gone", (self.tmp / "log").read_text())

    def test_usage(self):
        for words in (["watch"], ["watch", self.out], ["watch", "--as", "heat", self.out],
                      ["watch", "--as", "heat", "--pattern", PATTERN, self.out],
                      self.watch_words("--settle", "x"), self.watch_words(ranks=0)):
            self.assertIn("usage: cairn watch", self.cairn(*words, expect=2)[1])
        _, err = self.cairn("watch", "--as", "heat", "--pattern", PATTERN, "--ranks", 1, self.tmp / "no", expect=1)
        self.assertIn("no", err)


@unittest.skipUnless(HAS_FAULTS, "built without fault injection")
class Deaths(Case):
    """SIGKILL before every file operation, and in the middle of every write."""
    place = os.environ.get("CAIRN_TEST_MEMORY", "/dev/shm")  # emptied by tests/support/deadline.c

    def calls(self):
        count = self.tmp / "count"
        self.cairn(*self.watch_words("--once", "--remove", ranks=2),
                   env={"CAIRN_FAULT_FS": "at=0,action=kill", "CAIRN_FAULT_COUNT": str(count)})
        return int(count.read_text())

    def run_death(self, fault, steps=(1,)):
        shutil.rmtree(self.dir, ignore_errors=True)
        want = {step: self.write_set(step, ranks=2, size=700) for step in steps}
        subprocess.run(self.command(*self.watch_words("--once", "--remove", ranks=2)),
                       env={**self.env, "CAIRN_FAULT_FS": fault}, capture_output=True)
        left = self.left()
        there = self.versions() if len(left) < 2 * len(steps) else []
        for step, files in want.items():  # nothing is gone that is not committed
            if not set(files) <= set(left):
                self.assertIn(step, there, fault)
            self.assertEqual({n: (self.out / n).read_bytes() for n in files if n in left},
                             {n: d for n, d in files.items() if n in left}, fault)
        self.cairn(*self.watch_words("--once", "--remove", ranks=2))
        self.assertEqual(self.left(), [], fault)
        for step, files in want.items():
            self.assertEqual(self.restore(f"heat@{step}"), files, fault)
        self.assertEqual(len(list(self.dir.rglob("manifest"))), len(steps))

    def test_killed_everywhere(self):
        self.write_set(1, ranks=2, size=700)
        n = self.calls()
        self.assertGreater(n, 50)
        for at in range(1, n + 1):
            self.run_death(f"at={at},action=kill")

    def test_torn_writes(self):
        for at in range(1, 9):
            self.run_death(f"at={at},action=tear,ops=write", steps=(1, 2))

    def test_killed_while_watching(self):
        """A program writes set after set, the watcher dies at random moments."""
        words = self.command(*self.watch_words("--remove", "--settle", "100ms", "--poll", "50ms", ranks=2))
        want, log = {}, self.tmp / "log"
        with open(log, "ab") as out:
            for step in range(1, 13):
                p = subprocess.Popen(words, env=self.env, stdout=out, stderr=out)
                want[step] = self.write_set(step, ranks=2, size=200000)
                time.sleep(self.random.uniform(0, 0.25))
                p.kill()
                p.wait()
            p = subprocess.Popen(words, env=self.env, stdout=out, stderr=out)
            self.addCleanup(p.wait)
            self.addCleanup(p.kill)
            end = time.monotonic() + PATIENCE
            while self.left() and time.monotonic() < end:
                time.sleep(0.05)
            p.send_signal(signal.SIGTERM)
            self.assertEqual(p.wait(30), 0)
        self.assertEqual(self.left(), [], log.read_text())
        for step, files in want.items():
            self.assertEqual(self.restore(f"heat@{step}"), files, step)
            self.assertLessEqual(log.read_text().count(f"heat@{step}: committed"), 1)

    def test_disk_full_then_not(self):
        want = self.write_set(1, ranks=2)
        for at in range(1, 6):
            self.cairn(*self.watch_words("--once", "--remove", ranks=2), expect=1,
                       env={"CAIRN_FAULT_FS": f"at={at},action=fail,errno=28,ops=write+sync,sticky=1"})
            self.assertEqual((self.versions(), self.left()), ([], sorted(want)))
        self.cairn(*self.watch_words("--once", "--remove", ranks=2))
        self.assertEqual(self.restore("heat@1"), want)


if __name__ == "__main__":
    unittest.main()
