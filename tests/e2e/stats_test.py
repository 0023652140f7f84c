#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The measurements that a flush over several nodes takes of itself: they add up, they can be shown and drawn, they
exist as long as their version, and nothing depends on them."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["CAIRN_TEST_BUILD"])
SOURCE = pathlib.Path(os.environ["CAIRN_TEST_SOURCE"])
CAIRN = BUILD / "src" / "cli" / "cairn"
MEMORY = os.environ.get("CAIRN_TEST_MEMORY", "/dev/shm")  # emptied by tests/support/deadline.c
RANKS, NODES, FILES = 4, 4, 2
PER_RANK = (20000 + 3) * 8  # tests/mpi/worker.c


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tmp = pathlib.Path(tempfile.mkdtemp(prefix="cairn-stats-"))
        cls.addClassCleanup(shutil.rmtree, cls.tmp, ignore_errors=True)
        cls.env = {k: v for k, v in os.environ.items() if not k.startswith("CAIRN_")}
        cls.made = cls.tmp / "made"
        (cls.tmp / "run").mkdir(mode=0o700)
        cls.work(2)

    @classmethod
    def work(cls, steps, **keys):
        env = {**cls.env, "CAIRN_RANKS_PER_NODE": str(RANKS // NODES), "CAIRN_FILES": str(FILES),
               "CAIRN_BLOCK_BYTES": "64K", "CAIRN_CHUNK_BYTES": "4K", "CAIRN_BLOCKS": "2",
               "CAIRN_REROUTE": "off", "CAIRN_LEADERS_PER_FILE": "1",  # without assistants each number is known
               "CAIRN_PERSISTENT": str(cls.made), "CAIRN_RUN_DIR": str(cls.tmp / "run"),
               "CAIRN_SHM_DIR": MEMORY, **keys}
        subprocess.run([SOURCE / "tools" / "mpiexec", BUILD, "-n", str(RANKS),
                        BUILD / "tests" / "mpi" / "worker", str(steps), cls.tmp / "log"],
                       check=True, env=env)

    def setUp(self):
        self.dir = self.tmp / self.id()
        shutil.copytree(self.made, self.dir)

    def cairn(self, *words, expect=0):
        done = subprocess.run([CAIRN, "--dir", self.dir, *map(str, words)], capture_output=True,
                              env=self.env)
        self.assertEqual(done.returncode, expect, (words, done.stdout, done.stderr))
        return done.stdout.decode(), done.stderr.decode()

    def stats(self, version):
        return json.loads(self.cairn("show", "--stats", "--json", f"work@{version}")[0])

    def last(self):
        return max(int(p.name) for p in (self.dir / "work").iterdir() if p.name.isdigit())

    def files(self, version, directory=None):
        return sorted(p.name for p in ((directory or self.dir) / "work" / str(version)).iterdir())

    def test_it_adds_up(self):
        leaders = self.stats(self.last())["leaders"]
        self.assertEqual([l["file"] for l in leaders], ["data-0000", "data-0001"])
        self.assertEqual(sum(l["bytes"] for l in leaders), RANKS * PER_RANK)
        for l in leaders:
            self.assertEqual(l["bytes"], 2 * PER_RANK)
            self.assertEqual(l["received_bytes"], PER_RANK)
            self.assertEqual(l["local_bytes"], PER_RANK)
            self.assertLessEqual(l["most_blocks"], l["blocks"])
            self.assertGreater(l["total_s"], 0)
            self.assertAlmostEqual(l["total_s"], l["write_s"] + l["finish_s"], places=6)
            for kind in ("received", "local"):
                tracks = [w[kind] for w in l["writers"]]
                self.assertEqual(sum(t["bytes"] for t in tracks), PER_RANK)
                for t in tracks:
                    self.check_track(t, l["write_s"])
            self.assertEqual([f["bytes"] for f in l["followers"]], [PER_RANK])
            self.assertEqual([f["node"] ^ 1 for f in l["followers"]], [l["node"]])
            self.assertEqual(l["receives"]["bytes"], PER_RANK)
            self.assertGreater(l["receives"]["n"], 1)
            self.check_track(l["receives"], l["write_s"])
            # Followers report their sends by messages that no node waits for.
            self.assertLessEqual(l["sends"]["bytes"], PER_RANK)
            self.assertEqual(l["sends"]["bytes"], l["followers"][0]["sent_bytes"])

    def check_track(self, t, write_s):
        self.assertEqual(sum(s["bytes"] for s in t["timeline"]), t["bytes"])
        self.assertEqual(len(t["timeline"]), t["n"])  # few enough to be kept individually
        for s in t["timeline"]:
            self.assertLessEqual(0, s["start_s"])
            self.assertLessEqual(s["start_s"], s["end_s"])
            self.assertLessEqual(s["end_s"], write_s + 1e-6)

    def test_held_back(self):
        """The delay caused by a cap is reported: each 64 KiB take a quarter of a second."""
        shutil.rmtree(self.dir)
        self.work(1, CAIRN_PERSISTENT=str(self.dir), CAIRN_BANDWIDTH="256K")
        for l in self.stats(self.last())["leaders"]:
            self.assertGreater(l["held_s"], 0)
            self.assertLessEqual(l["held_s"], l["write_s"] + 1e-6)
        self.assertIn("HELD", self.cairn("show", "--stats", "work")[0])

    def test_table(self):
        out, _ = self.cairn("show", "--stats", "work")
        for word in ("data-0000", "data-0001", "LEADER", "WRITER", "FOLLOWER", "MB/s"):
            self.assertIn(word, out)
        self.cairn("show", "--stats", "--ranks", "work", expect=2)

    def test_picture(self):
        if shutil.which("gnuplot") is None:
            self.skipTest("no gnuplot")
        out = self.tmp / "pictures"
        text, _ = self.cairn("plot", "flush", "work", "-o", out)
        self.assertEqual(text.strip(), str(out / "flush.svg"))
        svg = (out / "flush.svg").read_text()
        for word in ("received data", "local data", "(the fastest)", "timeline", "writer 0"):
            self.assertIn(word, svg)
        self.assertTrue((out / "flush.gp").exists() and (out / "flush.dat").exists())
        for kind, magic in (("png", b"\x89PNG"), ("pdf", b"%PDF")):
            _, err = self.cairn("plot", "flush", "work", "-o", out, f"--{kind}")
            self.assertEqual(err, "")
            self.assertEqual((out / f"flush.{kind}").read_bytes()[:4], magic)

    def test_levels(self):
        """What a version took to each level is recorded, drawn, and the basis of the advice."""
        shutil.rmtree(self.dir)
        self.work(4, CAIRN_PERSISTENT=str(self.dir), CAIRN_LOCAL=str(self.tmp / "local"))
        out = self.tmp / "levels"
        r = subprocess.run([CAIRN, "--dir", self.dir, "plot", "levels", "work", "-o", out],
                           capture_output=True, env=self.env, check=False)
        self.assertEqual(r.returncode, 0 if shutil.which("gnuplot") else 1, r.stderr)
        rows = [list(map(float, line.split())) for line in (out / "levels.dat").read_text().splitlines()
                if not line.startswith("#")]
        self.assertEqual([row[0] for row in rows], [v["version"] for v in json.loads(
            self.cairn("ls", "--json", "work")[0])["versions"]])
        for _, copy, captured, local, _, persistent, flush, size in rows:
            self.assertTrue(copy > 0 and flush > 0 and 0 < captured < local and captured < persistent,
                            rows)
            self.assertEqual(size, RANKS * PER_RANK)
        advice = json.loads(self.cairn("advise", "levels", "work", "--json", "--mtbf", "captured=6h",
                                       "--mtbf", "persistent=10d")[0])
        self.assertEqual(advice["versions"], len(rows))
        self.assertEqual(advice["copy_s"], sorted(row[1] for row in rows)[len(rows) // 2])
        self.assertLess(0, advice["waste"])
        self.assertLessEqual(advice["waste"], advice["waste_all_flushed"])

    def test_advice_on_intervals(self):
        given = ("advise", "levels", "work", "--cost", "captured=1s", "--cost", "local=0", "--cost",
                 "persistent=1000s", "--slowdown", "10", "--mtbf", "captured=20000s", "--mtbf",
                 "persistent=200000s")
        advice = json.loads(self.cairn(*given, "--json")[0])
        self.assertIn(advice["persistent_every"], (31, 32))  # sqrt(1000)
        self.assertAlmostEqual(advice["period_s"], 200, delta=2)
        text = self.cairn(*given)[0]
        self.assertIn("period = 200s\n", text)
        self.assertIn(f"persistent_every = {advice['persistent_every']}\n", text)
        # All failures need the file system: every version is flushed.
        advice = json.loads(self.cairn("advise", "levels", "work", "--json")[0])
        self.assertEqual(advice["persistent_every"], 1)
        for wrong in (["--mtbf", "captured"], ["--mtbf", "deep=1h"], ["--cost", "local=x"],
                      ["--slowdown", "0"], ["--slowdown", "x"]):
            self.cairn("advise", "levels", "work", *wrong, expect=2)
        self.cairn("advise", "levels", "nothing", expect=1)
        self.cairn("plot", "levels", expect=2)
        self.cairn("plot", "levels", "nothing", expect=1)

    def test_it_goes_with_its_version(self):
        v = self.last()
        self.assertEqual(self.files(v), ["data-0000", "data-0001", "manifest", "stats-0000",
                                         "stats-0001"])
        copy = self.tmp / "copy"
        self.cairn("cp", f"work@{v}", copy)
        self.assertEqual(self.files(v, copy), self.files(v))
        old = (self.dir / "work" / str(v) / "stats-0001").read_bytes()
        self.assertEqual((copy / "work" / str(v) / "stats-0001").read_bytes(), old)
        self.cairn("rm", f"work@{v}")
        self.assertFalse((self.dir / "work" / str(v)).exists())

    def test_nothing_depends_on_it(self):
        v = self.last()
        directory = self.dir / "work" / str(v)
        (directory / "stats-0000").write_text("garbage")
        got = self.stats(v)
        self.assertEqual([l["file"] for l in got["leaders"]], ["data-0001"])
        self.assertEqual(got["files_without_statistics"], 1)
        (directory / "stats-0001").unlink()
        _, err = self.cairn("show", "--stats", f"work@{v}", expect=1)
        self.assertIn("no statistics", err)
        self.cairn("plot", "flush", f"work@{v}", "-o", self.tmp / "none", expect=1)
        self.cairn("verify", f"work@{v}")
        self.assertEqual(json.loads(self.cairn("ls", f"work@{v}", "--json")[0])
                         ["versions"][0]["state"], "ok")

    def test_assistants_tell_too(self):
        """Two leaders of each file: bytes written by the second are its own in the statistics."""
        self.work(6, CAIRN_LEADERS_PER_FILE="2", CAIRN_ALIGN_BYTES="4K", CAIRN_PERSISTENT=str(self.dir))
        assisted = 0
        for p in sorted(int(p.name) for p in (self.dir / "work").iterdir() if p.name.isdigit()):
            rows = self.stats(p)["leaders"]
            leaders = [l for l in rows if not l["assists"]]
            self.assertEqual([l["file"] for l in leaders], ["data-0000", "data-0001"])
            for l in leaders:
                helpers = [r for r in rows if r["assists"] and r["file"] == l["file"]]
                self.assertEqual(sum(h["bytes"] for h in helpers), l["assisted_bytes"])
                for h in helpers:
                    self.assertEqual(h["node"] ^ 1, l["node"])
                    self.assertEqual(sum(w[k]["bytes"] for w in h["writers"]
                                         for k in ("local", "received")), h["bytes"])
                assisted += l["assisted_bytes"]
        self.assertGreater(assisted, 0)
        if shutil.which("gnuplot") is not None:
            self.cairn("plot", "flush", "work", "-o", self.tmp / "with")

    def test_sweep(self):
        v = self.last()
        directory = self.dir / "work" / str(v)
        (directory / "stats-0007").write_text("of a file that is gone")
        (directory / "stats-x").write_text("not ours")
        self.cairn("sweep", "work")
        self.assertEqual(self.files(v), ["data-0000", "data-0001", "manifest", "stats-0000",
                                         "stats-0001", "stats-x"])


if __name__ == "__main__":
    unittest.main()
