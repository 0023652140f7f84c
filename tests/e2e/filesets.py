# SPDX-License-Identifier: BSD-3-Clause
"""Files of a program that become versions, and helpers for tests with such files."""
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["CAIRN_TEST_BUILD"])
CAIRN = BUILD / "src" / "cli" / "cairn"
# Time limit of a test in seconds. Then tests/support/deadline.c ends it and shows which process hangs.
PATIENCE = float(os.environ.get("CAIRN_TEST_SECONDS", "60"))
MAKE_VERSION = BUILD / "tests" / "make_version"
MAKE_FILES = BUILD / "tests" / "extents" / "make_files"  # not without HDF5 and netCDF
HAS_FAULTS = "CAIRN_FAULTS:BOOL=ON" in (BUILD / "CMakeCache.txt").read_text()
PATTERN = "out.{step}.{rank}.dat"


def classic_head(rows):
    """The bytes of a netCDF classic file with one variable of rows x 128 doubles."""
    def text(t):
        return struct.pack(">I", len(t)) + t + bytes(-len(t) % 4)
    head = b"CDF\x01" + struct.pack(">III", 0, 10, 2) + text(b"y") + struct.pack(">I", rows)
    head += text(b"x") + struct.pack(">I", 128) + bytes(8) + struct.pack(">II", 11, 1) + text(b"temp")
    head += struct.pack(">III", 2, 0, 1) + bytes(8) + struct.pack(">II", 6, 1024 * rows)
    return head + struct.pack(">I", len(head) + 4)


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

    def watch_words(self, *words, ranks=3, pattern=PATTERN):
        return ["watch", "--as", "heat", "--pattern", pattern, "--ranks", ranks, *words, self.out]
