#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`cairn scrub`: damage on the file system is found and, where copies are in the local directory, repaired byte for
byte; the journal says so."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["CAIRN_TEST_BUILD"])
CAIRN = BUILD / "src/cli/cairn"
MEMORY = os.environ.get("CAIRN_TEST_MEMORY", "/dev/shm")  # emptied by tests/support/deadline.c


class Case(unittest.TestCase):
    def setUp(self):
        self.tmp = pathlib.Path(tempfile.mkdtemp(prefix="cairn-scrub-", dir=MEMORY))
        self.addCleanup(shutil.rmtree, self.tmp, ignore_errors=True)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("CAIRN_")}
        self.env |= {"CAIRN_PERSISTENT": str(self.tmp / "p"), "CAIRN_LOCAL": str(self.tmp / "local"),
                     "CAIRN_SHM_DIR": str(self.tmp / "shm"), "CAIRN_RUN_DIR": str(self.tmp / "run"),
                     "CAIRN_KEEP_LOCAL": "2", "CAIRN_CHUNK_BYTES": "64K", "CAIRN_LOG_LEVEL": "error"}

    def work(self, **keys):
        """Versions 0, 1 and 2; copies of the last two are local."""
        subprocess.run([BUILD / "tests/crash/worker_single", "3", self.tmp / "log", "100000"],
                       check=True, env=self.env | keys)
        return self.tmp / "p/work/2/data-0000"

    def cairn(self, *words, status=0):
        r = subprocess.run([CAIRN, *words], env=self.env, capture_output=True, text=True, check=False)
        self.assertEqual(r.returncode, status, (words, r.stdout, r.stderr))
        return r.stdout

    def scrub(self, *words, status=0):
        r = json.loads(self.cairn("scrub", "--json", *words, status=status))
        return r["repaired"], r["damaged"], [(f["version"], f["what"], f["text"]) for f in r["files"]]

    @staticmethod
    def flip(file, at):
        whole = bytearray(file.read_bytes())
        whole[at] ^= 4
        file.write_bytes(whole)

    def test_nothing_is_damaged(self):
        self.work()
        self.assertEqual(self.scrub(), (0, 0, []))
        self.assertIn("3 versions, 0 data files repaired, 0 damaged", self.cairn("scrub"))

    def test_repair_from_local_copies(self):
        file = self.work()
        was = file.read_bytes()
        self.flip(file, 70000)
        self.flip(file, 400000)
        self.assertEqual(self.scrub("--dry-run", status=1)[:2], (0, 1))
        self.assertNotEqual(file.read_bytes(), was)
        repaired, damaged, found = self.scrub()
        self.assertEqual((repaired, damaged, len(found)), (1, 0, 1))
        self.assertEqual(found[0][:2], (2, "repaired"))
        self.assertIn("data-0000 was damaged and was repaired from the copies of", found[0][2])
        self.assertEqual(file.read_bytes(), was)
        self.assertEqual(sorted(p.name for p in file.parent.iterdir() if p.name.startswith("data")), ["data-0000"])
        self.cairn("verify")
        said = self.cairn("explain", "work")
        self.assertIn("damaged", said)
        self.assertIn("repaired", said)
        self.assertEqual(self.scrub(), (0, 0, []))

    def test_what_is_good_nowhere_stays(self):
        file = self.work()
        was = file.read_bytes()
        copy = next((self.tmp / "local").glob("**/work/2/data-0000"))
        self.flip(file, 70000)
        self.flip(copy, copy.read_bytes().index(was[69990:70000]) + 10)
        damaged = file.read_bytes()
        self.assertEqual(self.scrub(status=1)[:2], (0, 1))
        self.assertEqual(file.read_bytes(), damaged)
        self.flip(file, 300000) # what is damaged at different places is good in one of them
        self.flip(file, 70000)
        self.assertEqual(self.scrub()[:2], (1, 0))
        self.assertEqual(file.read_bytes(), was)

    def test_no_copy(self):
        self.flip(self.work(CAIRN_LOCAL=""), 70000)
        repaired, damaged, found = self.scrub("work@2", status=1)
        self.assertEqual((repaired, damaged), (0, 1))
        self.assertIn("not repaired", found[0][2])
        self.assertIn("damaged", self.cairn("explain", "work"))

    def test_the_rate_is_kept(self):
        file = self.work()
        self.cairn("scrub", "-b", "0", status=2)
        self.cairn("scrub", "--bandwidth", "fast", status=2)
        self.flip(file, 70000)
        self.assertEqual(self.scrub("--bandwidth", "20M")[:2], (1, 0))


if __name__ == "__main__":
    unittest.main()
