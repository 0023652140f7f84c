#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Files become versions and files again: ingest, restore. Real files, compared byte by byte."""
import os
import resource
import shutil
import struct
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
from filesets import HAS_FAULTS, MAKE_FILES, MAKE_VERSION, PATTERN, Case, classic_head


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

    def test_extract_byte_for_byte(self):
        """A stored file is extracted unchanged, whatever its name and the name of the output."""
        names = ["a.h5", "a.npy", "x.tar.gz", "b c", " ", "..h5", ".npy", "field", "-", "-o", "tab.h5 ",
                 "cairn.files", "step@1", "ä.h5", "e.h5"]
        for encode in ("none", "adaptive"):
            want = {n: self.write(n, 0 if n == "e.h5" else 70_000 + 11 * i)
                    for i, n in enumerate(names)}
            self.cairn("--set", f"encode={encode}", "ingest", "--as", encode, *(self.out / n for n in names))
            for i, name in enumerate(names):
                for output in (("x.h5", "x.npy")[i % 2], name if name != "-" else "./-"):
                    to = self.tmp / "got"
                    to.mkdir()
                    done = subprocess.run(self.command("extract", "--file", "-r", i, "-o", output, encode,
                                                       "--", name), cwd=to, env=self.env,
                                          capture_output=True)
                    self.assertEqual(done.returncode, 0, (name, output, done.stderr))
                    self.assertEqual([p.name for p in to.iterdir()], [os.path.basename(output)])
                    self.assertEqual(next(to.iterdir()).read_bytes(), want[name], (name, output))
                    shutil.rmtree(to)
            done = subprocess.run(self.command("extract", "-r", 0, "-o", "-", encode, "a.h5"), env=self.env,
                                  stdout=subprocess.PIPE, check=True)
            self.assertEqual(done.stdout, want["a.h5"])

    def test_extract_file_and_region_of_one_name(self):
        want = self.write("cairn.files")
        to = self.tmp / "got"
        self.cairn("ingest", "--as", "heat@1", self.out / "cairn.files")
        _, err = self.cairn("extract", "-o", to, "heat", "cairn.files", expect=1)
        self.assertIn("--file", err)
        self.assertFalse(to.exists())
        self.cairn("extract", "--file", "-o", to, "heat", "cairn.files")
        self.assertEqual(to.read_bytes(), want)
        self.cairn("extract", "--region", "-o", to, "heat", "cairn.files")
        self.assertIn(b"cairn.files", to.read_bytes())
        _, err = self.cairn("extract", "--region", "-o", to, "heat", "a.h5", expect=1)
        self.assertIn("no region 'a.h5'", err)
        self.assertEqual(self.restore("heat@1"), {"cairn.files": want})
        kinds = [r["type"] for r in self.json("show", "heat@1")["regions"]]
        self.assertEqual(len(kinds), 2)

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
        """With --remove the bytes are compared: equal sizes and times do not cause a removal."""
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
                      ["--as", "heat@1", "--pattern", "{step}", path], ["--as", "heat", "--pattern", "x{", path],
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
        """A file that is appended to continuously: refused, or stored in a state that it once had."""
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
        for at in range(1, 5):  # the writer's lock, data, index, manifest
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
    """Structure found inside files changes how they are stored, never their bytes."""
    def sizes(self, what):
        name, version = what.split("@")
        return sum(p.stat().st_size for p in (self.dir / name / version).glob("data-*"))

    def smooth(self, name, order, n=40000):
        head = b"" if order == "<" else classic_head(n // 128)
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
        """Truncated and changed files, all ranks of one version."""
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


class SeveralFiles(Case):
    def data_files(self, version=1):
        return sorted(p.name for p in (self.dir / "heat" / str(version)).glob("data-*"))

    def ingest(self, *words, **more):
        return self.cairn("ingest", "--as", "heat", "--pattern", PATTERN, *words,
                          *sorted(self.out.iterdir()), **more)

    def test_ranks_share_files(self):
        want = self.write_set(1, ranks=7)
        for files, encode, there in [("3", "none", 3), ("3", "adaptive", 3), ("40", "adaptive", 7),
                                     ("1:4", "none", 1), ("1", "adaptive", 1)]:
            words = ["--set", f"files={files}", "--set", f"encode={encode}"]
            self.ingest("-f", *words)
            self.assertEqual(len(self.data_files()), there)
            self.assertEqual(self.restore("heat@1"), want)
            self.cairn("verify", "heat@1")
            self.assertIn("was there already", self.ingest(*words)[0])
            self.cairn("rm", "heat@1")

    def test_removes_what_the_version_holds(self):
        want = self.write_set(1, ranks=5)
        self.ingest("--set", "files=2", "--remove")
        self.assertEqual(self.left(), [])
        self.assertEqual(self.restore("heat@1"), want)

    def test_watch(self):
        want = self.write_set(4)
        self.cairn(*self.watch_words("--once", "--set", "files=2"))
        self.assertEqual(len(self.data_files(4)), 2)
        self.assertEqual(self.restore("heat@4"), want)

    @unittest.skipUnless(HAS_FAULTS, "built without fault injection")
    def test_a_failure_of_one_leaves_nothing(self):
        want = self.write_set(1, ranks=4)
        failed = 0
        for at in range(1, 25):
            fault = f"at={at},action=fail,errno=5,ops=write+sync"
            done = subprocess.run(
                self.command("ingest", "--as", "heat", "--pattern", PATTERN, "--set", "files=3",
                             *sorted(self.out.iterdir())),
                env={**self.env, "CAIRN_FAULT_FS": fault}, capture_output=True)
            failed += done.returncode != 0
            if self.versions():  # a failed fsync of the directory: it is there, perhaps not for good
                self.assertEqual(self.restore("heat@1"), want)
                self.cairn("rm", "heat@1")
            else:
                self.assertNotEqual(done.returncode, 0)
                self.assertEqual(self.data_files(), [], done.stderr)
        self.assertGreater(failed, 8)


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
        for p in to.iterdir():  # existing files are right, and none is partial
            self.assertEqual(p.read_bytes(), (self.out / p.name).read_bytes())

    def write_many(self, ranks, size):
        """Files of ranks that are merged in small blocks: each chunk has bytes of all."""
        want = self.write_set(1, ranks=ranks, size=size)
        self.cairn("ingest", "--as", "heat", "--pattern", PATTERN, *self.out.iterdir(),
                   env={"CAIRN_ENCODE": "aware-block", "CAIRN_ENCODE_BLOCK": "4K",
                        "CAIRN_ENCODE_PIPE": "zstd:1", "CAIRN_ENCODE_CHUNK": "64K"})
        return want

    def test_more_files_than_descriptors(self):
        want = self.write_many(ranks=300, size=9000)
        to = self.tmp / "to"

        def few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
        done = subprocess.run(self.command("restore", "heat", "--to", to), env=self.env,
                              preexec_fn=few, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({p.name: p.read_bytes() for p in to.iterdir()}, want)

    @unittest.skipUnless(HAS_FAULTS, "built without fault injection")
    def test_every_chunk_is_read_once(self):
        want = self.write_many(ranks=9, size=50_000)
        log = self.tmp / "reads"
        self.cairn("restore", "heat", "--to", self.tmp / "to",
                   env={"CAIRN_FAULT_FS": "at=-1", "CAIRN_FAULT_READS": str(log)})
        self.assertEqual({p.name: p.read_bytes() for p in (self.tmp / "to").iterdir()}, want)
        seen = set()
        for line in log.read_text().splitlines():
            at, n, path = line.split(" ", 2)
            if "data-0000" in path and int(n) > 30_000:
                self.assertNotIn(at, seen, line)
                seen.add(at)
        self.assertGreaterEqual(len(seen), 6)

    @unittest.skipUnless(HAS_FAULTS, "built without fault injection")
    def test_any_operation_may_fail(self):
        """What is there after a failure is complete, and nothing else is."""
        want = self.write_many(ranks=3, size=9000)
        failed = 0
        for at in range(1, 100):
            to = self.tmp / f"to{at}"
            done = subprocess.run(
                self.command("restore", "heat", "--to", to), capture_output=True,
                env={**self.env, "CAIRN_FAULT_FS": f"at={at},action=fail,errno=28,ops=write+sync"})
            there = {p.name: p.read_bytes() for p in to.iterdir()} if to.exists() else {}
            if done.returncode == 0:
                self.assertEqual(there, want)
                break
            failed += 1
            self.assertEqual(there, {name: want[name] for name in there}, done.stderr)
        self.assertGreater(failed, 5)
        self.assertLess(failed, 90)

    @unittest.skipUnless(HAS_FAULTS, "built without fault injection")
    def test_no_space(self):
        self.write_set(1)
        self.cairn("ingest", "--as", "heat", "--pattern", PATTERN, *self.out.iterdir())
        to = self.tmp / "to"
        self.cairn("restore", "heat", "--to", to, expect=1,
                   env={"CAIRN_FAULT_FS": "at=2,action=fail,errno=28,ops=write,sticky=1"})
        self.assertEqual([p.name for p in to.iterdir()], ["out.1.0.dat"])


if __name__ == "__main__":
    unittest.main()
