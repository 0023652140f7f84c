#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""cairn watch: files become versions while a program writes them. The watcher is killed at every file operation.
An original is never removed before its version exists."""
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
from filesets import HAS_FAULTS, MAKE_VERSION, PATIENCE, PATTERN, Case


class Watching(Case):
    def start(self, *words, pattern=PATTERN, **env):
        log = open(self.tmp / "log", "ab")
        self.addCleanup(log.close)
        p = subprocess.Popen(self.command(*self.watch_words("--poll", "100ms", "--settle", "200ms", *words, pattern=pattern)),
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
        self.assertEqual(process.wait(PATIENCE), 0)

    def test_live(self):
        want = {1: self.write_set(1)}
        p = self.start("--remove")
        self.until(lambda: self.versions() == [1] and self.left() == [], p)
        self.write("unrelated.txt")
        want[2] = self.write_set(2)
        self.until(lambda: self.versions() == [1, 2], p)
        # by rename, one rank later
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

    def write_below(self, step, ranks=3):
        (self.out / f"DD{step:04}").mkdir(exist_ok=True)
        return {name: self.write(name) for name in
                (f"DD{step:04}/data{step:04}.{r}" for r in range(ranks))}

    def test_directories(self):
        """A directory for each step, some made while it watches; one is renamed, one is no directory."""
        pattern = "DD{step}/data{step}.{rank}"
        want = {7: self.write_below(7)}
        (self.out / "DD0001").write_bytes(b"a file")
        p = self.start("--remove", pattern=pattern)
        self.until(lambda: self.versions() == [7], p)
        want[8] = self.write_below(8)
        self.until(lambda: self.versions() == [7, 8], p)
        (self.out / "making").mkdir()
        want[9] = {}
        for r in range(3):
            want[9][f"DD9/data9.{r}"] = self.write(f"making/data9.{r}")
        (self.out / "making").rename(self.out / "DD9")
        self.until(lambda: self.versions() == [7, 8, 9], p)
        self.until(lambda: not [q for q in self.out.rglob("data*") if q.is_file()], p)
        shutil.rmtree(self.out / "DD0008")
        want[8] = self.write_below(8)  # the same names again, in another directory
        self.until(lambda: (self.tmp / "log").read_text().count("heat@8: committed") == 2, p)
        self.stop(p)
        for step, files in want.items():
            self.assertEqual(self.restore(f"heat@{step}"), files)

    def test_overwritten_files(self):
        """A program that writes a, b, a, ... each time over the older one."""
        def write_all(name):
            return {f"r.{name}.{r}": self.write(f"r.{name}.{r}") for r in range(3)}

        pattern = "r.{any}.{rank}"
        want = [write_all("z"), None]  # the first to be written comes first, whatever its name
        time.sleep(0.05)
        want[1] = write_all("a")
        p = self.start(pattern=pattern)
        self.until(lambda: self.versions() == [0, 1], p)
        for name in "z", "a", "z":
            want.append(write_all(name))
            self.until(lambda: len(self.versions()) == len(want), p)
        self.stop(p)
        self.assertEqual(self.versions(), list(range(5)))
        for version, files in enumerate(want):
            self.assertEqual(self.restore(f"heat@{version}"), files)
        out, _ = self.cairn(*self.watch_words("--once", pattern=pattern))
        self.assertEqual(out.count("was there already"), 2)
        self.assertEqual(self.versions(), list(range(5)))
        _, err = self.cairn(*self.watch_words("--remove", pattern=pattern), expect=2)
        self.assertIn("--remove needs {step}", err)

    def start_seeing(self, *words):
        """Starts a watcher and waits until it receives events of the kernel for closed and renamed files."""
        p = self.start(*words)

        def sees():
            for info in pathlib.Path(f"/proc/{p.pid}/fdinfo").iterdir():
                try:
                    if "inotify wd:" in info.read_text():
                        return True
                except FileNotFoundError:
                    pass  # closed since then
            return False
        self.until(sees, p)
        return p

    def rename_set(self, step, ranks=3):
        """A set that is finished at once: each file is renamed to its final name."""
        want = {}
        for r in range(ranks):
            name = f"out.{step}.{r}.dat"
            want[name] = self.write("unfinished")
            (self.out / "unfinished").rename(self.out / name)
        return want

    def test_closed_and_reopened(self):
        """Steps whose files are closed and opened again to write more. The settle time is endless: the watcher
        never takes a closed file, but takes a renamed one. A committed set of renamed files proves that the
        watcher has seen the earlier closes."""
        steps = range(1, 13)
        want = {s: {f"out.{s}.{r}.dat": b"" for r in range(3)} for s in steps}
        p = self.start_seeing("--remove", "--settle", "30d")
        for part in range(3):
            for files in want.values():
                for name in files:
                    files[name] += self.random.randbytes(3000 + part)
                    with open(self.out / name, "ab") as f:
                        f.write(files[name][-3000 - part:])
            self.rename_set(100 + part)
            self.until(lambda: 100 + part in self.versions(), p)
            self.assertFalse(set(steps) & set(self.versions()))
            for files in want.values():
                for name, data in files.items():
                    self.assertEqual((self.out / name).read_bytes(), data)
        for files in want.values():
            for name in files:
                (self.out / name).rename(self.out / "aside")
                (self.out / "aside").rename(self.out / name)
        self.until(lambda: self.left() == [], p)
        self.stop(p)
        for step, files in want.items():
            self.assertEqual(self.restore(f"heat@{step}"), files)

    def test_renamed_then_reopened(self):
        """A file that was renamed, then opened and closed again, must rest like any other."""
        p = self.start_seeing("--remove", "--settle", "30d")
        want = self.rename_set(1, ranks=2)
        p.send_signal(signal.SIGSTOP)  # both events arrive together
        want["out.1.2.dat"] = self.write("unfinished")
        (self.out / "unfinished").rename(self.out / "out.1.2.dat")
        with open(self.out / "out.1.2.dat", "ab") as f:
            f.write(b"more")
        p.send_signal(signal.SIGCONT)
        self.rename_set(100)
        self.until(lambda: 100 in self.versions(), p)
        self.assertEqual(self.versions(), [100])
        self.assertEqual((self.out / "out.1.2.dat").read_bytes(), want["out.1.2.dat"] + b"more")
        self.stop(p)

    def remove_while(self, change):
        """Runs a watcher that commits a set and then blocks on a full pipe, before it removes the files; meanwhile
        calls change. Returns the watcher's exit status."""
        reading, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
        os.write(writing, bytes(4096))
        p = subprocess.Popen(self.command(*self.watch_words("--once", "--remove")), env=self.env,
                             stdout=writing)
        os.close(writing)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        (self.tmp / "log").touch()
        self.until(lambda: self.versions() == [1], p)
        undo = change()
        with open(reading, "rb") as f:
            out = f.read()[4096:].decode()
        status = p.wait()
        if undo is not None:
            undo()
        return status, out

    def check_kept(self, change):
        shutil.rmtree(self.dir, ignore_errors=True)
        want = self.write_set(1)
        status, out = self.remove_while(change)
        self.assertEqual(status, 1, out)
        self.assertIn("will be tried again", out)
        self.assertEqual(self.left(), sorted(want))
        want["out.1.1.dat"] = (self.out / "out.1.1.dat").read_bytes()
        self.cairn(*self.watch_words("--once", "--remove"))
        self.assertEqual((self.restore("heat@1"), self.left()), (want, []))

    def test_changed_before_removal(self):
        """A file that changes between the commit and the removal is read again, and only then removed."""
        path = self.out / "out.1.1.dat"

        def append():
            with open(path, "ab") as f:
                f.write(b"more")

        def overwrite_with_time_restored():
            times = path.stat()
            with open(path, "r+b") as f:
                f.write(b"other")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

        def open_again():
            f = open(path, "ab")

            def write_more():
                with f:
                    f.write(b"more")
            return write_more

        def replace():
            times = path.stat()
            (self.out / "new").write_bytes(bytes(times.st_size))
            os.utime(self.out / "new", ns=(times.st_atime_ns, times.st_mtime_ns))
            (self.out / "new").rename(path)

        for change in (append, overwrite_with_time_restored, open_again, replace):
            with self.subTest(change=change.__name__):
                self.check_kept(change)

    def test_growing_file_waits(self):
        p = self.start("--remove")
        want = self.write_set(5)
        with open(self.out / "out.6.0.dat", "wb") as f:
            self.write("out.6.1.dat")
            self.write("out.6.2.dat")
            f.write(b"first")
            f.flush()
            self.until(lambda: self.versions() == [5], p)
            time.sleep(0.5)  # longer than --settle: still open, so still not taken
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
        self.assertEqual(p.wait(PATIENCE), 1)
        self.assertIn("was removed", (self.tmp / "log").read_text())

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
        for step, files in want.items():  # no file is removed before its version is committed
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
        """A program writes set after set, and the watcher dies at random moments."""
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
            self.assertEqual(p.wait(PATIENCE), 0)
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
