#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tools on encoded versions: every command that reads returns the original data."""
import array
import json
import math
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["CAIRN_TEST_BUILD"])
CAIRN = BUILD / "src" / "cli" / "cairn"
RANKS = 3
SCHEMES = ["adaptive", "agnostic", "agnostic-block", "aware", "aware-block"]


def wave(rank, step, n=60000):
    """Smooth numbers, followed by the same text on every rank."""
    values = array.array("d", (round(1000 * math.sin(i * 0.001 + rank + 0.1 * step))
                               for i in range(n)))
    return values.tobytes() + b"the same table everywhere " * 4000


class Encoded(unittest.TestCase):
    def setUp(self):
        self.tmp = pathlib.Path(tempfile.mkdtemp(prefix="cairn-encode-"))
        self.addCleanup(shutil.rmtree, self.tmp, ignore_errors=True)
        self.dir = self.tmp / "store"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("CAIRN_")}
        self.env.update(CAIRN_BLOCK_BYTES="1M", CAIRN_BLOCKS="2")

    def cairn(self, *words, expect=0, where=None, **keys):
        done = subprocess.run([CAIRN, "--dir", where or self.dir, *map(str, words)],
                              capture_output=True,
                              env={**self.env, **{f"CAIRN_{k.upper()}": v for k, v in keys.items()}})
        self.assertEqual(done.returncode, expect, (words, done.stdout, done.stderr))
        return done.stdout.decode()

    def take(self, step, **keys):
        out = self.tmp / "out"
        out.mkdir(exist_ok=True)
        files = {}
        for rank in range(RANKS):
            files[f"heat.{step}.{rank}.dat"] = wave(rank, step)
            (out / f"heat.{step}.{rank}.dat").write_bytes(files[f"heat.{step}.{rank}.dat"])
        self.cairn("ingest", "--as", "heat", "--pattern", "heat.{step}.{rank}.dat",
                   *sorted(out.glob(f"heat.{step}.*")), **keys)
        return files

    def restored(self, what, where=None):
        to = pathlib.Path(tempfile.mkdtemp(dir=self.tmp))
        self.cairn("restore", what, "--to", to, where=where)
        return {p.name: p.read_bytes() for p in to.rglob("*") if p.is_file()}

    def stored(self, step):
        return sum(p.stat().st_size for p in (self.dir / "heat" / str(step)).glob("data-*"))

    def test_what_all_ranks_hold_is_stored_once(self):
        """Replicas longer than a block, of incompressible bytes; one differs in one byte."""
        model = random.Random(4).randbytes(3_500_000)
        other = bytearray(model)
        other[2_000_000] ^= 1
        files = {f"model.1.{rank}": bytes(other) if rank == 3 else model for rank in range(6)}
        out = self.tmp / "out"
        out.mkdir()
        for name, data in files.items():
            (out / name).write_bytes(data)
        self.cairn("ingest", "--as", "heat", "--pattern", "model.{step}.{rank}", *sorted(out.iterdir()),
                   encode="adaptive")
        block = 1 << 20  # two writers may process the first ones concurrently; one block has another byte
        self.assertLess(self.stored(1), len(model) + 4 * block)
        self.assertEqual(self.restored("heat@1"), files)
        self.cairn("verify", "heat@1")
        (variable,) = [v for v in json.loads(self.cairn("show", "heat@1", "--json"))["variables"]
                       if v["bytes"] == 6 * len(model)]
        self.assertLess(variable["stored"], len(model) + 4 * block)
        self.assertGreater(variable["stored"], len(model))

    def test_every_scheme_comes_back(self):
        for step, scheme in enumerate(SCHEMES):
            files = self.take(step, encode=scheme, encode_pipe="adaptive", encode_chunk="64K")
            self.assertEqual(self.restored(f"heat@{step}"), files, scheme)
            self.cairn("verify", f"heat@{step}")
            self.assertLess(2 * self.stored(step), sum(map(len, files.values())), scheme)
        plain = self.take(9, encode="none")
        self.assertEqual(self.restored("heat@9"), plain)
        self.assertNotIn("variables", json.loads(self.cairn("show", "heat@9", "--json")))

    def test_show_tells_choice_and_ratio(self):
        self.take(1, encode="adaptive")
        shown = json.loads(self.cairn("show", "heat@1", "--json"))
        self.assertEqual(sum(v["bytes"] for v in shown["variables"]), shown["bytes"])
        large = [v for v in shown["variables"] if v["bytes"] > 10000]
        for v in large:
            self.assertLess(2 * v["stored"], v["bytes"])
            self.assertNotEqual(v["pipeline"], "raw")
        text = self.cairn("show", "heat@1")
        self.assertIn("RATIO", text)
        self.assertIn(large[0]["pipeline"], text)
        self.assertIn("encoded", self.cairn("show", "--ranks", "heat@1"))

    def test_copies_and_differences(self):
        one = self.take(1, encode="adaptive")
        self.take(2, encode="adaptive")
        self.take(3, encode="none")
        other = self.tmp / "other"
        self.cairn("cp", "heat@1", other)
        self.cairn("verify", "heat@1", where=other)
        self.assertEqual(self.restored("heat@1", where=other), one)
        self.cairn("diff", "heat@1", "heat@1")
        self.cairn("diff", "heat@1", "heat@2", expect=1)
        self.cairn("diff", "heat@1", "heat@3", expect=1)

    def test_every_damage_is_found(self):
        self.take(1, encode="adaptive", encode_chunk="64K")
        data = next((self.dir / "heat" / "1").glob("data-*"))
        good = data.read_bytes()
        shown = json.loads(self.cairn("show", "heat@1", "--json"))
        stored = sum(v["stored"] for v in shown["variables"])
        for at in range(0, stored, stored // 20):
            if not any(good[at:at + 16]):
                continue  # between two writes: bytes that belong to no region
            bad = bytearray(good)
            bad[at] ^= 0x20
            data.write_bytes(bad)
            self.assertIn("region", self.cairn("verify", "heat@1", expect=1), at)
        data.write_bytes(good)
        self.cairn("verify", "heat@1")


if __name__ == "__main__":
    unittest.main()
