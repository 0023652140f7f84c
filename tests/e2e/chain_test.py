#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tools on versions that were encoded against older ones: the golden set, in which 12 needs 10 and the first
capture of 11, which was taken again since."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["CAIRN_TEST_BUILD"])
GOLDEN = pathlib.Path(os.environ["CAIRN_TEST_SOURCE"]) / "tests" / "golden" / "v1-chained"
CAIRN = BUILD / "src" / "cli" / "cairn"


class Chains(unittest.TestCase):
    def setUp(self):
        self.tmp = pathlib.Path(tempfile.mkdtemp(prefix="cairn-chain-"))
        self.addCleanup(shutil.rmtree, self.tmp, ignore_errors=True)
        self.dir = self.tmp / "store"
        shutil.copytree(GOLDEN / "golden", self.dir / "golden")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("CAIRN_")}

    def cairn(self, *words, expect=0, where=None):
        done = subprocess.run([CAIRN, "--dir", where or self.dir, *map(str, words)],
                              capture_output=True, env=self.env, text=True)
        self.assertEqual(done.returncode, expect, (words, done.stdout, done.stderr))
        return done.stdout + done.stderr

    def json(self, *words, **keys):
        return json.loads(self.cairn(*words, "--json", **keys))

    def versions(self, where=None):
        return {v["version"]: v["state"] for v in self.json("ls", where=where)["versions"]}

    def extracted(self, where=None):
        """The data of every rank, and whether the golden set expects it."""
        expected = json.loads((GOLDEN / "expected-12.json").read_text())
        for shard in expected["shards"]:
            for region in shard["regions"]:
                if not region["content"]:
                    continue
                out = self.tmp / "out"
                self.cairn("extract", "-f", "raw", "-r", shard["rank"], "-o", out, "golden@12",
                           region["name"], where=where)
                self.assertEqual(out.read_bytes().hex(), region["content"])
                out.unlink()

    def test_they_are_told(self):
        self.assertIn("ok, encoded against version 11 (chain of 2)", self.cairn("ls"))
        listed = {v["version"]: v for v in self.json("ls")["versions"]}
        self.assertEqual((listed[12]["chain"], sorted(listed[12]["needs"])), (2, [10, 11]))
        self.assertEqual((listed[11]["chain"], listed[11]["needs"]), (0, []))
        text = self.cairn("show", "golden@12")
        self.assertIn("encoded against version 11 (chain of 2)", text)
        self.assertIn("11/data-0001", text)
        self.assertNotIn("against", self.cairn("show", "golden@11").lower())
        files = self.json("show", "golden@12")["files"]
        self.assertEqual(files[1]["bases"], [{"version": 11, "file": "data-0001"},
                                             {"version": 10, "file": "data-0001"}])

    def test_they_are_read(self):
        self.cairn("verify")
        self.extracted()
        self.cairn("diff", "golden@12", "golden@12")
        self.cairn("diff", "golden@12", "golden@11", expect=1)

    def test_a_damaged_base_is_named(self):
        base = self.dir / "golden" / "10" / "data-0000"
        whole = base.read_bytes()
        base.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
        text = self.cairn("verify", "golden@12", expect=1)
        self.assertIn("encoded against version 10", text)
        self.assertIn("10/data-0000", text)
        self.cairn("verify", "golden@11") # taken again, in full
        base.unlink()
        self.assertEqual(self.versions(), {10: "damaged", 11: "ok", 12: "damaged"})
        self.assertIn("version 10", self.cairn("verify", "golden@12", expect=1))
        base.write_bytes(whole)
        self.cairn("verify")

    def test_what_is_needed_stays(self):
        text = self.cairn("rm", "golden@10", expect=1)
        self.assertIn("golden@10 is needed by golden@12", text)
        self.assertEqual(self.versions(), {10: "ok", 11: "ok", 12: "ok"})
        self.cairn("sweep", "--force", "golden")
        self.cairn("rm", "golden@11") # its second capture: no version needs it
        self.assertEqual(self.versions(), {10: "ok", 11: "partial", 12: "ok"})
        self.assertIn("kept for version 12", self.cairn("ls"))
        self.cairn("sweep", "--force", "golden")
        self.cairn("verify")
        self.extracted()
        removed = self.json("rm", "golden@10", "golden@12")["removed"]
        self.assertEqual([v["version"] for v in removed], [12, 10])
        self.cairn("sweep", "--force", "golden")
        self.assertEqual({p.name for p in (self.dir / "golden").iterdir()}, {".writer", ".removed"})

    def test_one_of_two_is_pinned(self):
        self.cairn("pin", "golden@12")
        text = self.cairn("rm", "golden@10", "golden@12", expect=1)
        self.assertIn("pinned", text)
        self.assertIn("needed by golden@12", text)
        self.assertEqual(self.versions(), {10: "ok", 11: "ok", 12: "ok"})

    def test_a_copy_needs_no_other(self):
        other = self.tmp / "other"
        self.cairn("cp", "golden@12", other)
        self.assertEqual(self.versions(other), {12: "ok"})
        self.assertEqual([f["bases"] for f in self.json("show", "golden@12", where=other)["files"]],
                         [[], []])
        self.cairn("verify", where=other)
        self.extracted(where=other)
        self.cairn("diff", "--other", other, "golden@12", "golden@12")
        (self.dir / "golden" / "11" / "data-0000").unlink()
        self.assertIn("version 11", self.cairn("cp", "-f", "golden@12", other, expect=1))
        self.cairn("verify", where=other)


if __name__ == "__main__":
    unittest.main()
