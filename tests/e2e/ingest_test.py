#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Files into versions and back: ingest, watch, restore. Real files, compared byte by byte; real deaths at
every file operation; the originals are never gone before the version is there."""
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

BUILD = pathlib.Path(os.environ["CAIRN_TEST_BUILD"])
CAIRN = BUILD / "src" / "cli" / "cairn"
# Seconds that a test has; then tests/support/deadline.c ends it and shows who hangs.
PATIENCE = float(os.environ.get("CAIRN_TEST_SECONDS", "60"))
MAKE_VERSION = BUILD / "tests" / "make_version"
MAKE_FILES = BUILD / "tests" / "extents" / "make_files"  # not without HDF5 and netCDF
HAS_FAULTS = "CAIRN_FAULTS:BOOL=ON" in (BUILD / "CMakeCache.txt").read_text()
PATTERN = "out.{step}.{rank}.dat"


class Case(unittest.TestCase):
    place = None  # where the directories are

    def setUp(self):
        self.tmp = pathlib.Path(tempfile.mkdtemp(prefix="cairn-ingest-", dir=self.place))
        self.addCleanup(shutil.rmtree, self.tmp, ignore_errors=True)
        self.dir = self.tmp / "store"
        self.out = self.tmp / "out"
        self.out.mkdir()
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("CAIRN_")}
        self.env.update(CAIRN_BLOCK_BYTES="1M", CAIRN_BLOCKS="2", CAIRN_RETRY_DELAY="50ms")
        self.random = random.Random(1)
        self.back = 0

    def command(self, *words):
        return [CAIRN, "--dir", self.dir, *map(str, words)]

    def cairn(self, *words, expect=0, env=None):
        done = subprocess.run(self.command(*words), capture_output=True,
                              env={**self.env, **(env or {})})
        self.assertEqual(done.returncode, expect, (words, done.stdout, done.stderr))
        return done.stdout.decode(), done.stderr.decode()

    def json(self, *words, **options):
        return json.loads(self.cairn(*words, "--json", **options)[0])

    def write(self, name, size=5000):
        data = self.random.randbytes(size)
        (self.out / name).write_bytes(data)
        return data

    def write_set(self, step, ranks=3, size=5000):
        return {f"out.{step}.{r}.dat": self.write(f"out.{step}.{r}.dat", size + r)
                for r in range(ranks)}

    def restore(self, what):
        """The restored files of a version by name."""
        self.back += 1
        to = self.tmp / f"back{self.back}"
        self.cairn("restore", what, "--to", to)
        return {str(p.relative_to(to)): p.read_bytes() for p in to.rglob("*") if p.is_file()}

    def versions(self, name="heat"):
        if not (self.dir / name).exists():
            return []
        return [v["version"] for v in self.json("ls", name)["versions"] if v["state"] == "ok"]

    def left(self):
        return sorted(p.name for p in self.out.iterdir())

    def watch_words(self, *words, ranks=3):
        return ["watch", "--as", "heat", "--pattern", PATTERN, "--ranks", ranks, *words, self.out]


class Ingest(Case):
    def test_identity_with_mode_and_time(self):
        want = {"a.dat": self.write("a.dat", 3_000_001), "b c.dat": self.write("b c.dat", 0),
                "d.dat": self.write("d.dat", 1), ".h": self.write(".h", 70)}
        paths = [self.out / n for n in want]
        os.chmod(paths[0], 0o640)
        os.utime(paths[0], ns=(1, 1234567890123456789))
        os.utime(paths[1], ns=(1, -5_000_000_000))
        out, _ = self.cairn("ingest", "--as", "heat@7", *paths)
        self.assertIn("heat@7", out)
        got = self.json("show", "heat@7")
        self.assertEqual(got["ranks"], 4)
        self.assertEqual(self.restore("heat"), want)
        for p in paths:
            a, b = p.stat(), (self.tmp / "back1" / p.name).stat()
            self.assertEqual((a.st_mode, a.st_mtime_ns), (b.st_mode, b.st_mtime_ns), p)
        self.cairn("verify")
        self.assertEqual(self.left(), sorted(want))

    def test_versions_by_default(self):
        self.write("a")
        self.assertEqual(self.json("ingest", "--as", "heat", self.out / "a")["versions"][0]["version"], 0)
        got = self.json("ingest", "--as", "heat", self.out / "a")["versions"][0]
        self.assertEqual((got["version"], got["was_there"]), (1, False))
        self.assertEqual(self.versions(), [0, 1])

    def test_same_and_other(self):
        self.write("a")
        self.cairn("ingest", "--as", "heat@1", self.out / "a")
        self.assertTrue(self.json("ingest", "--as", "heat@1", self.out / "a")["versions"][0]["was_there"])
        new = self.write("a")
        _, err = self.cairn("ingest", "--as", "heat@1", self.out / "a", expect=1)
        self.assertIn("other files", err)
        self.cairn("ingest", "-f", "--as", "heat@1", self.out / "a")
        self.assertEqual(self.restore("heat@1"), {"a": new})

    def test_same_time_other_bytes(self):
        """With --remove the bytes are compared: equal sizes and times do not cost a file."""
        path = self.out / "a"
        self.write("a")
        os.utime(path, ns=(1, 10**18))
        self.cairn("ingest", "--as", "heat@1", path)
        self.write("a")
        os.utime(path, ns=(1, 10**18))
        _, err = self.cairn("ingest", "--remove", "--as", "heat@1", path, expect=1)
        self.assertIn("other files", err)
        self.assertTrue(path.exists())

    def test_patterns(self):
        want = {}
        for step in (3, 10):
            for rank in range(12):
                for kind in ("grid", "part"):
                    name = f"{kind}_{step:05}.r{rank:03}"
                    want.setdefault(step, {})[name] = self.write(name, 100 + rank)
            want[step][f"{step}.log"] = self.write(f"{step}.log", 9)
        words = ["--pattern", "grid_{step}.r{rank}", "--pattern", "part_{step}.r{rank}",
                 "--pattern", "{step}.log"]
        self.cairn("ingest", "--as", "heat", *words, *self.out.iterdir())
        self.assertEqual(self.versions(), [3, 10])
        self.assertEqual(self.restore("heat@3"), want[3])
        self.assertEqual(self.restore("heat@10"), want[10])
        self.assertEqual(len({r["rank"] for r in self.json("show", "heat@10")["regions"]}), 12)

    def test_missing_rank(self):
        self.write_set(1)
        self.write_set(2)
        (self.out / "out.1.1.dat").unlink()
        words = ["--as", "heat", "--pattern", PATTERN]
        _, err = self.cairn("ingest", *words, *self.out.iterdir(), expect=1)
        self.assertIn("rank 1", err)
        self.assertEqual(self.versions(), [2])
        _, err = self.cairn("ingest", *words, "--ranks", 4, *self.out.glob("out.2.*"), expect=1)
        self.assertIn("rank 3", err)
        self.write("out.02.1.dat")
        _, err = self.cairn("ingest", *words, *self.out.glob("out.*2.*.dat"), expect=1)
        self.assertIn("both of rank 1", err)

    def test_files_of_equal_names(self):
        want = {}
        for r in range(2):
            (self.out / str(r)).mkdir()
            want[f"{r}/x.dat"] = self.write(f"{r}/x.dat")
        self.cairn("ingest", "--as", "heat@1", self.out / "0" / "x.dat", self.out / "1" / "x.dat")
        self.assertEqual(self.restore("heat"), want)
        self.cairn("restore", "heat", "-r", 1, "--to", self.tmp / "one")
        self.assertEqual((self.tmp / "one" / "x.dat").read_bytes(), want["1/x.dat"])

    def test_bad_input(self):
        path = self.out / "a"
        self.write("a")
        for words in (["--as", "heat"], [path], ["--as", "he/at", path], ["--as", "heat", "--ranks", 2, path],
                      ["--as", "heat@1", "--pattern", "{step}", path], ["--as", "heat", "--pattern", "x", path],
                      ["--as", "heat", "--pattern", "{step}{rank}", path],
                      ["--as", "heat", "--pattern", "{step}7", path],
                      ["--as", "heat", "--pattern", "{step}.{x}", path],
                      ["--as", "heat", "--pattern", "{step}", "--ranks", "x", path], ["--what"]):
            _, err = self.cairn("ingest", *words, expect=2)
            self.assertIn("usage: cairn ingest", err)
        os.mkfifo(self.out / "fifo")
        (self.out / "link").symlink_to(path)
        for name in ("fifo", "link", "none", "../out"):
            _, err = self.cairn("ingest", "--as", "heat", self.out / name, expect=1)
            self.assertIn(name, err)
        (self.out / ("n" * 130)).write_bytes(b"x")
        self.cairn("ingest", "--as", "heat", self.out / ("n" * 130), expect=1)
        (self.out / "new\nline").write_bytes(b"x")
        self.cairn("ingest", "--as", "heat", self.out / "new\nline", expect=1)
        self.assertIn("fits no pattern", self.cairn("ingest", "--as", "heat", "--pattern", PATTERN, path,
                                                     expect=1)[1])
        self.assertEqual(self.versions(), [])

    def test_open_for_writing(self):
        self.write("a")
        with open(self.out / "a", "ab"):
            _, err = self.cairn("ingest", "--as", "heat@1", self.out / "a", expect=1)
            self.assertIn("open for writing", err)
        self.cairn("ingest", "--as", "heat@1", self.out / "a")

    def test_growing(self):
        """A file that is appended to all the time: refused, or a state that it once had."""
        path = self.out / "log"
        data = self.write("log", 3_000_000)
        p = subprocess.Popen(self.command("ingest", "--as", "heat@1", path), env=self.env,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while p.poll() is None:
            with open(path, "ab") as f:
                f.write(b"more")
            data += b"more"
        _, err = p.communicate()
        if p.returncode == 0:
            self.assertTrue(data.startswith(self.restore("heat@1")["log"]))
        else:
            self.assertEqual(p.returncode, 1)
            self.assertRegex(err.decode(), "changed|writing")
            self.assertEqual(self.versions(), [])

    def test_remove(self):
        want = self.write_set(4)
        self.cairn("ingest", "--as", "heat", "--pattern", PATTERN, "--remove", *self.out.iterdir())
        self.assertEqual(self.left(), [])
        self.assertEqual(self.restore("heat@4"), want)

    @unittest.skipUnless(HAS_FAULTS, "built without fault injection")
    def test_no_space(self):
        self.write_set(4)
        for at in range(1, 5):  # who writes, data, index, manifest
            fault = f"at={at},action=fail,errno=28,ops=write,sticky=1"
            _, err = self.cairn("ingest", "--as", "heat", "--pattern", PATTERN, "--remove",
                                *self.out.iterdir(), expect=1, env={"CAIRN_FAULT_FS": fault})
            self.assertIn("No space", err)
            self.assertEqual(self.versions(), [])
            self.assertEqual(len(self.left()), 3)
            self.assertEqual(list(self.dir.rglob("data-*")), [])
        _, err = self.cairn("ingest", "--as", "heat", "--pattern", PATTERN, *self.out.iterdir(),
                            "--set", "free_reserve_bytes=1000T", expect=1)
        self.assertIn("are free", err)


class Encoding(Case):
    """What was found inside files changes how they are stored, never what comes back."""
    def sizes(self, what):
        name, version = what.split("@")
        return sum(p.stat().st_size for p in (self.dir / name / version).glob("data-*"))

    def smooth(self, name, order, n=40000):
        head = b"" if order == "<" else Advise.classic_head(n // 128)
        data = head + b"".join(struct.pack(order + "d", 1000 + 0.001 * i) for i in range(n // 128 * 128))
        (self.out / name).write_bytes(data)
        return data

    def ingest(self, what, *words):
        self.cairn("ingest", "--as", what, *words, *sorted(self.out.iterdir()))
        self.cairn("verify", what)
        return self.restore(what)

    def test_smaller_and_the_same(self):
        want = {f"{r}.nc": self.smooth(f"{r}.nc", ">") for r in range(3)}
        self.assertEqual(self.ingest("raw@1"), want)
        raw = self.sizes("raw@1")
        self.assertEqual(self.ingest("auto@1", "--set", "encode=adaptive"), want)
        self.assertLess(self.sizes("auto@1"), raw / 2)
        found = {v["variable"]: v["bytes"] for v in self.json("show", "auto@1")["variables"]}
        self.assertIn(3 * 8 * (40000 // 128 * 128), [n for k, n in found.items() if "temp" in k], found)
        for scheme in ("agnostic", "agnostic-block", "aware", "aware-block"):
            self.assertEqual(self.ingest(f"{scheme}@1", "--set", f"encode={scheme}", "--set",
                                         "encode_pipe=adaptive"), want)
        self.assertEqual(self.ingest("fixed@1", "--set", "encode=aware", "--set",
                                     "encode_pipe=shuffle,huffman"), want)
        self.assertLess(self.sizes("fixed@1"), raw)

    def test_advise_of_a_file_that_is_not_there(self):
        _, err = self.cairn("advise", self.out / "gone", expect=1)
        self.assertIn("gone': No such file", err)

    @unittest.skipUnless(MAKE_FILES.exists(), "built without HDF5 or netCDF")
    def test_real_files(self):
        subprocess.run([MAKE_FILES, self.out], check=True)
        want = {p.name: p.read_bytes() for p in self.out.iterdir()}
        self.assertEqual(self.ingest("heat@1", "--set", "encode=adaptive"), want)
        self.assertEqual(self.ingest("heat@2", "--set", "encode=aware-block", "--set", "encode_block=4K",
                                     "--set", "encode_pipe=adaptive"), want)
        self.assertEqual(self.json("advise", *[self.out / n for n in want])["ranks"], len(want))

    @unittest.skipUnless(MAKE_FILES.exists(), "built without HDF5 or netCDF")
    def test_damaged_files(self):
        """Cut and changed ones, all ranks of one version."""
        source = self.tmp / "source"
        source.mkdir()
        subprocess.run([MAKE_FILES, source], check=True)
        want = {}
        for p in sorted(source.iterdir()):
            data = p.read_bytes()
            for k in range(6):
                other = bytearray(data[:self.random.randrange(len(data))] if k % 2 else data)
                for _ in range(k):
                    if other:
                        other[self.random.randrange(min(len(other), 4000))] = self.random.randrange(256)
                want[f"{k}-{p.name}"] = bytes(other)
                (self.out / f"{k}-{p.name}").write_bytes(other)
        self.assertEqual(self.ingest("heat@1", "--set", "encode=adaptive"), want)


class Restore(Case):
    def test_does_not_replace(self):
        want = self.write_set(1)
        self.cairn("ingest", "--as", "heat", "--pattern", PATTERN, *self.out.iterdir())
        to = self.tmp / "to"
        to.mkdir()
        (to / "out.1.2.dat").write_bytes(b"precious")
        _, err = self.cairn("restore", "heat", "--to", to, expect=1)
        self.assertIn("--force", err)
        self.assertEqual([p.name for p in to.iterdir()], ["out.1.2.dat"])
        self.assertEqual((to / "out.1.2.dat").read_bytes(), b"precious")
        self.cairn("restore", "-f", "heat", "--to", to)
        self.assertEqual({p.name: p.read_bytes() for p in to.iterdir()}, want)

    def test_errors(self):
        self.dir.mkdir()
        self.cairn("restore", "heat", "--to", self.tmp / "to", expect=1)
        self.cairn("restore", "heat", expect=2)
        self.cairn("restore", "--to", self.tmp, expect=2)
        subprocess.run([MAKE_VERSION, self.dir, "mem", "1"], check=True, env=self.env)
        files = [r for r in self.json("show", "mem@1")["regions"] if r["kind"] == "file"]
        _, err = self.cairn("restore", "mem", "--to", self.tmp / "to", expect=0 if files else 1)
        if not files:
            self.assertIn("no files", err)

    def test_damage(self):
        self.write_set(1, size=100000)
        self.cairn("ingest", "--as", "heat", "--pattern", PATTERN, *self.out.iterdir())
        data = self.dir / "heat" / "1" / "data-0000"
        raw = bytearray(data.read_bytes())
        raw[150000] ^= 1
        data.write_bytes(raw)
        to = self.tmp / "to"
        _, err = self.cairn("restore", "heat@1", "--to", to, expect=1)
        self.assertIn("checksum", err)
        for p in to.iterdir():  # what is there is right, and nothing is half
            self.assertEqual(p.read_bytes(), (self.out / p.name).read_bytes())

    @unittest.skipUnless(HAS_FAULTS, "built without fault injection")
    def test_no_space(self):
        self.write_set(1)
        self.cairn("ingest", "--as", "heat", "--pattern", PATTERN, *self.out.iterdir())
        to = self.tmp / "to"
        self.cairn("restore", "heat", "--to", to, expect=1,
                   env={"CAIRN_FAULT_FS": "at=2,action=fail,errno=28,ops=write,sticky=1"})
        self.assertEqual([p.name for p in to.iterdir()], ["out.1.0.dat"])


class Advise(Case):
    """Trials decode and compare what they encode; here: what is told about them."""
    def write_smooth(self, ranks=3):
        for r in range(ranks):
            with open(self.out / f"s.{r}", "wb") as f:
                f.write(b"".join(struct.pack("<d", 1000 + 0.001 * i + r) for i in range(20000)))
        return sorted(self.out.iterdir())

    @staticmethod
    def classic_head(rows):
        """Of a netCDF classic file with one variable of rows x 128 doubles."""
        def text(t):
            return struct.pack(">I", len(t)) + t + bytes(-len(t) % 4)
        head = b"CDF\x01" + struct.pack(">III", 0, 10, 2) + text(b"y") + struct.pack(">I", rows)
        head += text(b"x") + struct.pack(">I", 128) + bytes(8) + struct.pack(">II", 11, 1) + text(b"temp")
        head += struct.pack(">III", 2, 0, 1) + bytes(8) + struct.pack(">II", 6, 1024 * rows)
        return head + struct.pack(">I", len(head) + 4)

    def classic(self, path):
        path.write_bytes(self.classic_head(64) + b"".join(struct.pack(">d", 300 + 0.01 * i) for i in range(8192)))

    def test_files(self):
        files = self.write_smooth()
        out, _ = self.cairn("advise", *files, "--sample", "200K")
        self.assertIn("3 ranks", out)
        self.assertEqual(out.count("<- recommended"), 1)
        rows = [line.split() for line in out.splitlines() if line.startswith(("agnostic", "aware"))]
        self.assertGreater(len(rows), 3)  # more with more libraries
        got = self.json("advise", *files, "--sample", "200K")
        best = max(m["ratio"] for m in got["methods"])
        self.assertGreaterEqual(got["recommended"]["ratio"], 0.98 * best)
        self.assertLess(got["sampled_bytes"], 210_000)
        self.assertEqual(got["bytes"], 480_000)
        fast = self.json("advise", *files, "--bandwidth", "1000G", "--sample", "200K")["recommended"]
        self.assertIn(fast["pipeline"], [m["pipeline"] for m in got["methods"]])

    def test_variables_in_files(self):
        for r in range(2):
            self.classic(self.out / f"{r}.nc")
        got = self.json("advise", *self.out.iterdir())
        self.assertGreater(got["variables_share"], 0.99)
        (self.out / "0.nc").write_bytes(b"CDF\x01 and something else" + bytes(70000))
        got = self.json("advise", self.out / "0.nc")
        self.assertEqual(got["variables_share"], 0)

    def test_versions(self):
        for r in range(2):
            self.classic(self.out / f"out.1.{r}.dat")
        self.cairn("ingest", "--as", "heat", "--pattern", PATTERN, *self.out.iterdir())
        subprocess.run([MAKE_VERSION, self.dir, "mem", "1"], check=True, env=self.env)
        got = self.json("advise", "heat@1", "--sample", "100K")
        self.assertEqual(got["ranks"], 2)
        self.assertGreater(got["variables_share"], 0.98)
        self.assertGreater(self.json("advise", "mem")["variables_share"], 0)

    @unittest.skipIf(shutil.which("gnuplot") is None, "without gnuplot")
    def test_plot(self):
        plot = self.tmp / "plot"
        self.cairn("advise", *self.write_smooth(), "--sample", "100K", "--plot", plot)
        self.assertRegex((plot / "advise.dat").read_text(), '(?m)^[0-9.e+]+ [0-9.e+]+ "[a-z]')
        self.assertIn("<svg", (plot / "advise.svg").read_text())

    def test_errors(self):
        self.assertIn("usage: cairn advise", self.cairn("advise", expect=2)[1])
        self.assertIn("usage: cairn advise", self.cairn("advise", "--sample", "x", self.out, expect=2)[1])
        self.assertIn("regular file", self.cairn("advise", self.out, expect=1)[1])
        self.assertIn("nothing", self.cairn("advise", "nothing", expect=1)[1])
        (self.out / "empty").write_bytes(b"")
        self.assertIn("nothing", self.cairn("advise", self.out / "empty", expect=1)[1])
        self.cairn("advise", self.out / "empty", self.out / "none", expect=1)
        self.dir.mkdir()
        self.assertIn("heat", self.cairn("advise", "heat@3", expect=1)[1])


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
    place = "/dev/shm"

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
