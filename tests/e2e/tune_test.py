#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""cairn tune as a user runs it, on a small scale: output, JSON, configuration, figures, limits, SIGINT, SIGKILL."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.dom.minidom

CAIRN = os.path.join(os.environ["CAIRN_TEST_BUILD"], "src", "cli", "cairn")
# Time limit of a test in seconds. Then tests/support/deadline.c ends it and shows which process hangs.
PATIENCE = float(os.environ.get("CAIRN_TEST_SECONDS", "60"))
TINY = ("--space", "8M", "--repeats", "1")


def cairn(*args):
    return subprocess.run([CAIRN, *args], capture_output=True, text=True, check=False)


class Tune(unittest.TestCase):
    def setUp(self):
        self.dirs = []
        for parent in ("/dev/shm", "/tmp"):
            if os.access(parent, os.W_OK):
                self.dirs.append(tempfile.mkdtemp(dir=parent))
                self.addCleanup(shutil.rmtree, self.dirs[-1])
        self.out = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.out)

    def ok(self, *args):
        r = cairn("tune", *args)
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout

    def test_json(self):
        for d in self.dirs:
            out = json.loads(self.ok(d, *TINY, "--json"))
            self.assertEqual(os.listdir(d), [])
            self.assertEqual(out["directory"], d)
            stages = {r["stage"] for r in out["results"]}
            self.assertEqual(stages, {"threads", "methods", "blocks", "received"})
            self.assertEqual(sum(r["n"] * r["bytes"] for r in out["results"]) + (8 << 20),
                             out["written_bytes"])
            for r in out["results"]:
                self.assertTrue(r["n"] == 1 and r["min"] <= r["median"] <= r["max"] or r["problem"], r)
                self.assertLessEqual(r["bytes"], 8 << 20)
            self.assertGreater(out["recommended"]["throughput"], 0)

    def test_quick_is_the_default(self):
        # Later stages measure variants of the fastest earlier one; the first stage does not depend on speed.
        def first_stage(*args):
            out = json.loads(self.ok(self.dirs[0], *args, *TINY, "--time", "10m", "--json"))
            return {(r["writers"], r["files"], r["layout"])
                    for r in out["results"] if r["stage"] == "threads"}
        quick = first_stage("--quick")
        self.assertEqual(first_stage(), quick)
        self.assertEqual(first_stage("--full", "--quick"), quick)
        self.assertLess(quick, first_stage("--full"))

    def test_configuration_and_figures(self):
        ini = os.path.join(self.out, "tuned.ini")
        figures = os.path.join(self.out, "figures")
        gnuplot = shutil.which("gnuplot") is not None
        out = self.ok(self.dirs[0], *TINY, "-o", ini, *(("--figures", figures) if gnuplot else ()))
        self.assertIn("MIN .. MAX", out)
        with open(ini, encoding="utf-8") as f:
            values = dict(line.strip().split(" = ") for line in f
                          if " = " in line and not line.startswith(";"))
        self.assertTrue({"writers", "block_bytes", "blocks"} <= set(values))
        shown = cairn("config", "--all", "-C", ini)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        for key, value in values.items():
            self.assertIn(f"{key} = {value}\n", shown.stdout)
        if gnuplot:
            for name in ("threads", "methods", "blocks", "received"):
                xml.dom.minidom.parse(f"{figures}/tune-{name}.svg")
                self.assertIn(f"tune-{name}.svg", out)

    def test_limits(self):
        r = cairn("tune", self.dirs[0], "--space", "1M")
        self.assertEqual(r.returncode, 1)
        self.assertIn("8 MiB of space", r.stderr)
        r = cairn("tune", self.dirs[0], "--set", "free_reserve_bytes=900T")
        self.assertEqual(r.returncode, 1)
        self.assertIn("full", r.stderr)
        self.assertEqual(os.listdir(self.dirs[0]), [])

    def start(self, d):
        """A long run, when it has begun to write."""
        p = subprocess.Popen([CAIRN, "tune", d, "--full"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + PATIENCE
        while not any(f.startswith("probe") for _, _, fs in os.walk(d) for f in fs):
            self.assertLess(time.monotonic(), deadline)
            self.assertIsNone(p.poll())
            time.sleep(0.01)
        return p

    def test_signals(self):
        for sig in (signal.SIGINT, signal.SIGTERM):
            p = self.start(self.dirs[0])
            p.send_signal(sig)
            err = p.communicate()[1]
            self.assertEqual(p.returncode, 1, err)
            self.assertIn(f"signal {int(sig)}", err)
            self.assertEqual(os.listdir(self.dirs[0]), [])

    def test_killed(self):
        p = self.start(self.dirs[0])
        p.kill()
        p.communicate()
        self.assertEqual(len(os.listdir(self.dirs[0])), 1)
        self.ok(self.dirs[0], *TINY)
        self.assertEqual(os.listdir(self.dirs[0]), [])

    def test_mistakes(self):
        self.assertEqual(cairn("tune").returncode, 2)
        self.assertEqual(cairn("tune", "a", "b").returncode, 2)
        self.assertEqual(cairn("tune", self.out, "--repeats", "x").returncode, 2)
        for args in (("/no/such",), (self.out, "--space", "much"), (self.out, "--time", "long"),
                     (self.dirs[0], *TINY, "-o", "/no/such/dir/x.ini")):
            r = cairn("tune", *args)
            self.assertEqual(r.returncode, 1, r.stderr)
            self.assertIn(args[-1].split("/x")[0], r.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
