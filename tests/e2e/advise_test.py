#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""cairn advise, on files and on versions."""
import shutil
import struct
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
from filesets import MAKE_VERSION, PATTERN, Case, classic_head


class Advise(Case):
    """Trials decode and compare what they encode. This test checks the report."""
    def write_smooth(self, ranks=3):
        for r in range(ranks):
            with open(self.out / f"s.{r}", "wb") as f:
                f.write(b"".join(struct.pack("<d", 1000 + 0.001 * i + r) for i in range(20000)))
        return sorted(self.out.iterdir())

    def classic(self, path):
        path.write_bytes(classic_head(64) + b"".join(struct.pack(">d", 300 + 0.01 * i) for i in range(8192)))

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
        self.assertIn("empty': no data to try", self.cairn("advise", self.out / "empty", expect=1)[1])
        self.assertIn("none'", self.cairn("advise", self.out / "empty", self.out / "none", expect=1)[1])
        self.dir.mkdir()
        self.assertIn("heat", self.cairn("advise", "heat@3", expect=1)[1])


if __name__ == "__main__":
    unittest.main()
