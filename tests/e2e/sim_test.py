#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""cairn sim and cairn plot as a user runs them: output, JSON, CSV, exit status, pictures."""
import csv
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

CAIRN = os.path.join(os.environ["CAIRN_TEST_BUILD"], "src", "cli", "cairn")


def cairn(*args, path=None):
    env = dict(os.environ)
    if path is not None:
        env["PATH"] = path
    return subprocess.run([CAIRN, *args], capture_output=True, text=True, env=env, check=False)


class Sim(unittest.TestCase):
    def ok(self, *args):
        r = cairn("sim", "platform", "--days", "10", *args)
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout

    def fails(self, status, word, *args):
        r = cairn("sim", *args)
        self.assertEqual(r.returncode, status, r.stderr)
        self.assertIn(word, r.stderr)

    def test_nodes(self):
        out = json.loads(cairn("sim", "nodes", "--nodes", "4,64", "--files", "2", "--json").stdout)
        self.assertEqual([(r["nodes"], r["files"]) for r in out["results"]], [(4, 2), (64, 2)])
        for r in out["results"]:
            roles = [r[k] for k in ("root", "leader", "follower")]
            self.assertEqual(sum(k["nodes"] for k in roles), r["nodes"])
            self.assertAlmostEqual(sum(k["nodes"] * k["sent"] for k in roles),
                                   sum(k["nodes"] * k["received"] for k in roles), 3)
        r = cairn("sim", "nodes", "--faults", "--nodes", "8", "--runs", "50", "--seed", "5")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("50 runs", r.stdout)
        self.assertEqual(r.stdout, cairn("sim", "nodes", "--faults", "--nodes", "8", "--runs", "50",
                                         "--seed", "5").stdout)
        self.fails(1, "from 1 to 4096", "nodes", "--nodes", "5000")
        self.fails(2, "unexpected argument", "nodes", "more")

    def test_json(self):
        out = json.loads(self.ok("--runs", "20", "--bandwidth", "60 GB/s,80GB/s", "--json",
                                 "--strategy", "least-waste,delay-cost"))
        self.assertEqual(out["platform"], "cielo-paper")
        self.assertEqual([r["strategy"] for r in out["results"]],
                         2 * ["least-waste", "delay-cost", "theorem-1"])
        self.assertEqual(out["results"][0]["mode"], "foreground")
        for r in out["results"]:
            self.assertTrue(0 < r["bound"] < 1)
        first = out["results"][0]
        self.assertEqual(first["bandwidth"], 60e9)
        self.assertLess(first["waste"]["p10"], first["waste"]["p90"])
        self.assertAlmostEqual(sum(v for k, v in first["node_time"].items() if k != "lost"), 1, 6)
        self.assertEqual([c["name"] for c in first["classes"]], ["EAP", "LAP", "Silverton", "VPIC"])

    def test_csv(self):
        rows = list(csv.DictReader(io.StringIO(
            self.ok("--runs", "5", "--system-mtbf", "1h,8h", "--strategy", "all", "--csv"))))
        self.assertEqual(len(rows), 2 * 12)
        self.assertEqual({r["mode"] for r in rows}, {"foreground", "at the grant", "newest capture", ""})
        self.assertEqual({float(r["system_mtbf_s"]) for r in rows}, {3600.0, 28800.0})
        for r in rows:
            self.assertTrue(0 < float(r["waste"]) < 1, r)

    def test_threads_and_seeds(self):
        def wastes(*args):
            out = json.loads(self.ok("--runs", "40", "--json", "--strategy", "ordered-nb-daly", *args))
            return out["results"][0]["waste"]
        self.assertEqual(wastes("--threads", "1"), wastes("--threads", "3"))
        self.assertNotEqual(wastes("--seed", "1"), wastes("--seed", "2"))

    def test_own_platform(self):
        text = cairn("sim", "platform", "--show", "prospective").stdout
        with tempfile.NamedTemporaryFile("w", suffix=".ini") as f:
            f.write(text.replace("name = prospective", "name = mine"))
            f.flush()
            out = self.ok("--platform", f.name, "--runs", "2", "--strategy", "delay-cost", "--classes")
        self.assertIn("Silverton", out)
        self.assertIn("theorem-1", out)
        self.assertIn("foreground", out)
        self.assertIn("1000 GB/s", out)

    def test_list(self):
        out = self.ok("--list")
        for word in ("cielo-paper", "least-waste", "delay-cost", "theorem1"):
            self.assertIn(word, out)

    def test_mistakes(self):
        self.fails(2, "usage")
        self.fails(2, "usage", "weather")
        self.fails(2, "usage", "platform", "--runs", "0")
        self.fails(2, "--runs 'many'", "platform", "--runs", "many")
        self.fails(2, "usage", "platform", "too", "much")
        self.fails(1, "--bandwidth: '80'", "platform", "--bandwidth", "80")
        self.fails(1, "--period: 'soon'", "platform", "--period", "soon")
        self.fails(1, "above 0", "platform", "--bandwidth", "0 GB/s")
        self.fails(1, "no-such", "platform", "--platform", "no-such")
        self.fails(1, "most-waste", "platform", "--strategy", "most-waste")


class Flush(unittest.TestCase):
    def ok(self, *args):
        r = cairn("sim", "flush", *args)
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout

    def test_json(self):
        out = json.loads(self.ok("--nodes", "512", "--files", "1:1,1:4,100", "--leaders", "1,2",
                                 "--imbalance", "0%,20%", "--recommend", "--max-files", "64", "--json"))
        self.assertEqual(out["machine"], "frontier-paper")
        rows = out["results"]
        self.assertEqual([(r["imbalance"], r["files"], r["leaders_per_file"]) for r in rows],
                         [(i, k, n) for i in (0, 0.2) for k in (512, 128, 100) for n in (1, 2)])
        self.assertEqual(rows[0]["bytes"], 512 * 8 * 2**30)
        for r in rows:
            self.assertAlmostEqual(r["throughput"] * r["seconds"] / r["bytes"], 1, 6)
        self.assertLessEqual(out["recommended"]["files"], 64)

    def test_own_machine(self):
        text = cairn("sim", "flush", "--show", "cluster").stdout
        with tempfile.NamedTemporaryFile("w", suffix=".ini") as f:
            f.write(text.replace("name = cluster", "name = mine"))
            f.flush()
            rows = list(csv.DictReader(io.StringIO(self.ok("--machine", f.name, "--csv"))))
        self.assertEqual([r["files"] for r in rows], ["64", "32", "16", "8"])
        out = self.ok("--machine", "cluster", "--recommend")
        self.assertRegex(out, r"(?m)^files = \d+\nleaders_per_file = \d+\nstripe_count = \d+$")
        self.assertIn("frontier-paper", self.ok("--list"))

    def test_mistakes(self):
        for status, word, args in ((2, "usage", ("too",)), (2, "--writers 'few'", ("--writers", "few")),
                                   (1, "no-such", ("--machine", "no-such")),
                                   (1, "65536", ("--nodes", "70000")),
                                   (1, "--files: '0'", ("--files", "1,0")),
                                   (1, "--leaders: 'x'", ("--leaders", "x")),
                                   (1, "percentage", ("--imbalance", "0.2")),
                                   (1, "--block: '1'", ("--block", "1")),
                                   (1, "--size: 'big'", ("--size", "big")),
                                   (1, "no-such", ("--show", "no-such"))):
            r = cairn("sim", "flush", *args)
            self.assertEqual(r.returncode, status, r.stderr)
            self.assertIn(word, r.stderr)


class Plot(unittest.TestCase):
    KINDS = ("slowdown", "bandwidth", "mtbf", "least-bandwidth")

    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.dir)

    def files(self):
        return sorted(os.listdir(self.dir))

    @unittest.skipUnless(shutil.which("gnuplot"), "no gnuplot")
    def test_pictures(self):
        for kind in self.KINDS:
            r = cairn("plot", kind, "--out", self.dir, "--runs", "1")
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertEqual(r.stderr, "")
            self.assertEqual(r.stdout.strip(), f"{self.dir}/{kind}.svg")
            svg = xml.dom.minidom.parse(f"{self.dir}/{kind}.svg")
            text = " ".join(n.firstChild.nodeValue for n in svg.getElementsByTagName("tspan")
                            if n.firstChild is not None and n.firstChild.nodeValue)
            self.assertIn("Oblivious, Daly", text)
            if kind != "slowdown":
                self.assertIn("bound, background", text)
        self.assertEqual(len(self.files()), 3 * len(self.KINDS))

    def test_encode(self):
        r = cairn("plot", "encode", "--out", self.dir, path="/nonexistent")  # the data will do
        self.assertIn("gnuplot is not installed", r.stderr)
        with open(f"{self.dir}/encode.dat", encoding="ascii") as f:
            blocks = [[line.split() for line in b.split("\n") if line and line[0] != "#"]
                      for b in f.read().split("\n\n\n")]
        self.assertEqual([len(b) for b in blocks], [4, 5, 4, 8])
        for line in blocks[1] + blocks[2] + blocks[3][1:]:
            _, agnostic, agnostic_block, aware, aware_block, adaptive = map(float, line)
            self.assertTrue(1 < max(agnostic, agnostic_block) < min(aware, aware_block) < adaptive,
                            line)
        self.assertGreater(float(blocks[3][0][5]), 10)  # all fields begin with the same value
        with open(f"{self.dir}/encode-io.dat", encoding="ascii") as f:
            lines, bars = [[line.split() for line in b.split("\n") if line and line[0] != "#"]
                           for b in f.read().split("\n\n\n")]
        self.assertEqual((len(lines), len(bars)), (10, 6))
        for line in lines:  # what is smaller is written faster
            merged, agnostic, aware, adaptive = map(float, line[3:])
            self.assertTrue(merged > agnostic > aware > adaptive > 0, line)
        self.assertLess(float(lines[-1][3]), float(lines[-1][1]))  # fewer files
        for label, *times in bars:
            self.assertTrue(all(float(t) >= 0 for t in times) and float(times[2]) > 0, label)

    def test_without_gnuplot(self):
        r = cairn("plot", "slowdown", "--out", self.dir, "--runs", "1", path="/nonexistent")
        self.assertEqual(r.returncode, 1)
        self.assertIn("gnuplot is not installed", r.stderr)
        self.assertEqual(self.files(), ["slowdown.dat", "slowdown.gp"])

    def test_mistakes(self):
        self.assertEqual(cairn("plot").returncode, 2)
        self.assertEqual(cairn("plot", "weather").returncode, 2)
        r = cairn("plot", "slowdown", "--runs", "1", "--out", "/dev/null/x")
        self.assertEqual(r.returncode, 1)
        self.assertIn("/dev/null/x", r.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
