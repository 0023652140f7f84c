#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""cairn replay and cairn plot tiers as a user runs them."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest
import xml.dom.minidom

CAIRN = os.path.join(os.environ["CAIRN_TEST_BUILD"], "src", "cli", "cairn")
TIERS = "2G@1500G,6G@50G,inf@2G"


def cairn(*args, text=None):
    return subprocess.run([CAIRN, *args], capture_output=True, text=True, input=text, check=False)


def shot(n, gap_ns, hints=True):
    """n checkpoints of growing size, read back in reverse."""
    lines = [f"0 0 hint {n - 1 - i} 0" for i in range(n)] if hints else []
    at = 0
    for i in range(n):
        at += gap_ns
        lines.append(f"{at} {at} write {i} {(64 + i) << 20}")
    lines.append(f"{at} {at} start 0 0")
    for i in reversed(range(n)):
        at += gap_ns
        lines.append(f"{at} {at} read {i} 0")
    return "\n".join(lines) + "\n"


class Replay(unittest.TestCase):
    def replay(self, text, *args):
        r = cairn("replay", "--json", "--tiers", TIERS, *args, "-", text=text)
        self.assertEqual(r.returncode, 0, r.stderr)
        return {p["policy"]: p for p in json.loads(r.stdout)["policies"]}

    def test_all_policies(self):
        result = self.replay(shot(100, 10_000_000))
        self.assertEqual(set(result), {"score", "lru", "fifo"})
        for p in result.values():
            self.assertEqual(p["reads"], 100)
            self.assertEqual(p["failed"], 0)
            self.assertEqual(sum(t["hits"] for t in p["tiers"]), 100)
            self.assertEqual(p["read_bytes"], p["written_bytes"])
        self.assertLess(result["score"]["read_blocked_s"], result["lru"]["read_blocked_s"])
        # Discarding versions that were read saves flushes.
        lean = self.replay(shot(100, 10_000_000), "--discard", "--policy", "score")
        self.assertEqual(set(lean), {"score"})
        self.assertLess(lean["score"]["tiers"][1]["flushed_bytes"],
                        result["score"]["tiers"][1]["flushed_bytes"])

    def test_text(self):
        with tempfile.NamedTemporaryFile("w", suffix=".trace") as f:
            f.write("# a comment\n" + shot(10, 1000))
            f.flush()
            r = cairn("replay", f.name)
        self.assertEqual(r.returncode, 0, r.stderr)
        lines = r.stdout.splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["POLICY", "score", "lru", "fifo"])

    def test_wrong_usage(self):
        self.assertEqual(cairn("replay").returncode, 2)
        self.assertEqual(cairn("replay", "--policy", "best", "-", text="").returncode, 2)
        for tiers in ("4G", "4G@", "@4G", "0@1G", "1G@0", "", "1G@1G,1G@1G,1G@1G,1G@1G,1G@1G"):
            r = cairn("replay", "--tiers", tiers, "-", text="")
            self.assertEqual(r.returncode, 1, tiers)
            self.assertTrue(r.stderr.startswith("cairn: "), r.stderr)
        r = cairn("replay", "-", text="1 2 write 3\n")
        self.assertEqual(r.returncode, 1)
        self.assertIn("line 1", r.stderr)
        self.assertIn("No such file", cairn("replay", "/no/such/trace").stderr)


LOG = """# start_ns what key bytes tier distance waits wait_ns copy_ns error used0 used1 used2 used3
1000 write 0 1048576 0 0 0 100 20000 0 1048576 0 0 0
50000 write 1 1048576 1 0 1 9000 40000 0 1048576 1048576 0 0
90000 read 1 1048576 1 1 0 100 40000 0 1048576 0 0 0
150000 read 0 1048576 0 0 0 100 20000 0 0 0 0 0
160000 read 5 0 -1 0 0 100 0 -40 0 0 0 0
"""


class Plot(unittest.TestCase):
    def test_tiers(self):
        with tempfile.TemporaryDirectory() as d:
            log = os.path.join(d, "log")
            with open(log, "w", encoding="ascii") as f:
                f.write(LOG)
            r = cairn("plot", "--out", d, "tiers", log)
            if shutil.which("gnuplot"):
                self.assertEqual(r.returncode, 0, r.stderr)
                xml.dom.minidom.parse(os.path.join(d, "tiers.svg"))
            with open(os.path.join(d, "tiers.dat"), encoding="ascii") as f:
                data = f.read()
        writes, reads, used = data.split("\n\n\n")
        self.assertEqual(len(writes.splitlines()), 3)
        self.assertEqual(reads.splitlines()[1].split()[2:], ["1", "1"])  # distance, tier
        self.assertEqual(len(used.strip().splitlines()), 5)  # without the failed read

    def test_wrong_input(self):
        self.assertEqual(cairn("plot", "tiers").returncode, 2)
        with tempfile.NamedTemporaryFile("w") as f:
            f.write("nonsense\n")
            f.flush()
            r = cairn("plot", "tiers", f.name)
        self.assertEqual(r.returncode, 1)
        self.assertIn("line 1", r.stderr)
        self.assertEqual(cairn("plot", "tiers", "/dev/null").returncode, 1)


if __name__ == "__main__":
    unittest.main()
