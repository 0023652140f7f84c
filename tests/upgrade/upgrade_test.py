#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""docs/upgrade.md, tried for each older release that left a directory here: its stores are verified and
restored, its configuration is read, its symbols are there, and a program compiled with its headers runs."""
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
HERE = SOURCE / "tests" / "upgrade"
RELEASES = sorted(p.parent for p in HERE.glob("*/config.ini"))
JOB_MPI = BUILD / "tests" / "upgrade" / "upgrade_job_mpi"
RANKS = 3  # of the runs that wrote the stores


class Upgrade(unittest.TestCase):
    def setUp(self):
        self.tmp = pathlib.Path(tempfile.mkdtemp(prefix="cairn-upgrade-"))
        self.addCleanup(shutil.rmtree, self.tmp, ignore_errors=True)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("CAIRN_") or "TEST" in k}
        self.env.update(CAIRN_RUN_DIR=f"{self.tmp}/run", CAIRN_SHM_DIR=f"{self.tmp}/shm")
        (self.tmp / "shm").mkdir()

    def stores(self):
        for release in RELEASES:
            for store in sorted(release.glob("store-*")):
                copy = self.tmp / f"{release.name}-{store.name}"
                shutil.copytree(store, copy)
                yield copy

    def run_ok(self, words, **more):
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True,
                              env={**self.env, **{k: str(v) for k, v in more.items()}})
        self.assertEqual(done.returncode, 0, (words, done.stdout, done.stderr))
        return done.stdout

    def job(self, store, ranks, *words, **more):
        keys = {"CAIRN_PERSISTENT": store, **more}
        return self.run_ok([SOURCE / "tools" / "mpiexec", BUILD, "-n", ranks, JOB_MPI, *words], **keys)

    def test_there_are_older_releases(self):
        self.assertTrue(RELEASES)
        self.assertTrue(all(list(r.glob("store-*")) for r in RELEASES))

    def test_stores_are_whole(self):
        for store in self.stores():
            with self.subTest(store.name):
                self.run_ok([CAIRN, "--dir", store, "verify"])
                versions = json.loads(self.run_ok([CAIRN, "--dir", store, "ls", "--json"]))["versions"]
                self.assertEqual([(v["version"], v["state"], v["ranks"]) for v in versions],
                                 [(n, "ok", RANKS) for n in range(1, 5)])

    @unittest.skipUnless(JOB_MPI.exists(), "built without MPI")
    def test_stores_are_restored_and_continued(self):
        for store in self.stores():
            with self.subTest(store.name):
                self.assertIn("restored 4", self.job(store, 2, "check", "other"))
                self.assertIn("restored 4", self.job(store, RANKS, "write"))
                self.assertIn("restored 8", self.job(store, RANKS, "check"))
                self.assertIn("restored 8", self.job(store, 4, "check", "other"))
                self.run_ok([CAIRN, "--dir", store, "verify"])

    def test_a_program_without_mpi(self):
        job = BUILD / "tests" / "upgrade" / "upgrade_job"
        store = self.tmp / "alone"
        self.assertIn("restored 0", self.run_ok([job, "write"], CAIRN_PERSISTENT=store))
        self.assertIn("restored 4", self.run_ok([job, "check"], CAIRN_PERSISTENT=store))
        for old in self.stores():
            self.assertIn("restored 4", self.run_ok([job, "check", "other"], CAIRN_PERSISTENT=old))

    def test_configurations_are_read(self):
        """Each key that an older release knew: accepted, with the same value, or ignored with a warning."""
        for release in RELEASES:
            file = release / "config.ini"
            done = subprocess.run([CAIRN, "-C", file, "config", "--json"], capture_output=True, text=True,
                                  env={k: v for k, v in self.env.items() if not k.startswith("CAIRN_")})
            self.assertEqual(done.returncode, 0, done.stderr)
            now = json.loads(done.stdout)["cairn"]
            for line in file.read_text().splitlines():
                key, _, value = (part.strip() for part in line.partition("="))
                if value and key in now:
                    self.assertEqual(now[key], value)
                elif value:
                    self.assertIn(key, done.stderr)

    def test_symbols_are_there(self):
        for release in RELEASES:
            for file in release.glob("*.symbols"):
                library = BUILD / "src" / f"{file.stem}.so"
                if not library.exists():
                    continue
                names = self.run_ok(["nm", "-D", "--defined-only", library]).split()
                self.assertEqual([s for s in file.read_text().split() if s not in names], [])


if __name__ == "__main__":
    unittest.main()
