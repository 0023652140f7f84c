#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""MPI jobs take turns that cairn-broker grants, for flushes and for reads of a restart."""
import os
import re
import sys
import time
import unittest

sys.dont_write_bytecode = True
from broker import BUILD, SOURCE, Case, Program, overlaps, wait_for

MPIEXEC = SOURCE / "tools" / "mpiexec"
TURN_MPI = BUILD / "tests" / "broker" / "turn_mpi"
SLOW_PFS = BUILD / "tests" / "broker" / "libslow_pfs.so"
MEMORY = os.environ.get("CAIRN_TEST_MEMORY", "/dev/shm")  # emptied by tests/support/deadline.c


class Mpi(Case):
    """Real MPI jobs of different sizes flush to one directory that has a limited bandwidth."""

    def setUp(self):
        super().setUp()
        self.log = self.tmp / "writes"
        self.log.touch()

    def mpi_job(self, name, ranks, kib, steps, **keys):
        keys = {"persistent": self.pfs, "run_dir": self.tmp / f"run-{name}", "shm_dir": MEMORY,
                "job": name, "broker": self.at, "ranks_per_node": 1, "block_bytes": "256K", "blocks": 4,
                "chunk_bytes": "64K", "log_level": "info", **keys}
        env = {**self.env, **{f"CAIRN_{k.upper()}": str(v) for k, v in keys.items()},
               "CAIRN_TEST_MEMORY": MEMORY,  # for files that MPI leaves behind
               "LD_PRELOAD": str(SLOW_PFS), "SLOW_PFS_DIR": str(self.pfs), "SLOW_PFS_JOB": name,
               "SLOW_PFS_LOG": str(self.log), "SLOW_PFS_SHARED": str(self.tmp / "free-at")}
        j = Program(MPIEXEC, BUILD, "-n", ranks, TURN_MPI, name, kib, steps, env=env)
        self.programs.append(j)
        return j

    def flushes(self):
        """(job, version) -> (begin, end) of its writes."""
        spans = {}
        for line in self.log.read_text().splitlines():
            job, begin, end, path = line.split(" ", 3)
            found = re.search(r"/(\d+)/", path[len(str(self.pfs)):])
            if found:
                key = (job, int(found.group(1)))
                old = spans.get(key, (int(begin), int(end)))
                spans[key] = (min(old[0], int(begin)), max(old[1], int(end)))
        return spans

    def start_three(self, steps, **keys):
        return [self.mpi_job("small", 1, 256, steps, **keys),
                self.mpi_job("medium", 2, 512, steps, **keys),
                self.mpi_job("large", 3, 768, steps, **keys)]

    def test_flushes_do_not_overlap_and_nobody_starves(self):
        self.broker()
        jobs = self.start_three(4)
        for j in jobs:
            self.assertEqual(j.wait(), 0, j.err)
        spans = self.flushes()
        self.assertEqual(len(spans), 12)
        self.assertEqual(overlaps(spans.values()), 0, sorted(spans.items(), key=lambda s: s[1]))
        row = self.status()["tokens"][0]
        self.assertEqual((row["granted"], row["returned"], row["taken"]), (12, 12, 0))

    def test_without_a_broker_they_overlap(self):
        for j in self.start_three(4, broker=""):
            self.assertEqual(j.wait(), 0, j.err)
        self.assertGreater(overlaps(self.flushes().values()), 0)

    def test_a_killed_job_is_replaced_and_a_killed_broker_stops_nobody(self):
        broker = self.broker()
        first = self.mpi_job("first", 2, 64 << 10, 1)  # minutes at this bandwidth
        wait_for("it flushes", lambda: ("first", 0) in self.flushes())
        others = self.start_three(3, broker_give_up="300ms")
        wait_for("they wait", lambda: len([s for s in self.states().values()
                                           if s == "waiting"]) == 3)
        first.kill()
        wait_for("they go", lambda: self.status()["tokens"][0]["granted"] > 1)
        broker.kill()
        for j in others:
            self.assertEqual(j.wait(), 0, j.err)

    def test_a_flush_that_hangs_in_a_living_job_is_replaced(self):
        self.broker(stall="2s", lease="10s")
        never = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + 3600 * 10**9
        (self.tmp / "free-at").write_bytes(never.to_bytes(8, "little"))
        first = self.mpi_job("first", 2, 256, 1)
        wait_for("it holds", lambda: self.states().get("first") == "holding")
        second = self.job("second")
        self.assertEqual(second.wait(), 0)
        self.assertTrue(second.has("go", "granted"))
        self.assertIsNone(first.child.poll())
        self.assertEqual(self.status()["tokens"][0]["taken"], 1)

    def test_bytes_that_move_keep_the_token(self):
        self.broker(stall="100s", lease="10s")  # reports arrive several times per lease
        j = self.mpi_job("slow", 2, 24 << 10, 1)  # at least 6 s, in small steps of a few ms
        wait_for("bytes are told", lambda: any(0 < r["done"] < r["bytes"]
                                               for r in self.status()["requests"]))
        self.assertEqual(j.wait(), 0, j.err)
        row = self.status()["tokens"][0]
        self.assertEqual((row["granted"], row["returned"], row["taken"]), (1, 1, 0))

    def test_a_local_copy_needs_no_turn(self):
        self.broker()
        holder = self.job("holder", hang=1)
        wait_for("it holds", lambda: holder.has("go", "granted"))
        j = self.mpi_job("copied", 2, 256, 2, local=self.tmp / "local")
        wait_for("a local copy", lambda: j.out == ["local 0"])
        self.assertEqual(self.states()["copied"], "waiting")
        holder.kill()
        self.assertEqual(j.wait(), 0, j.err)
        self.assertEqual(j.out, ["local 0", "persistent 0", "local 1", "persistent 1"])

    def test_a_flush_that_has_waited_long_enough_starts(self):
        self.broker()
        holder = self.job("holder", hang=1)
        wait_for("it holds", lambda: holder.has("go", "granted"))
        j = self.mpi_job("late", 2, 256, 1, broker_token="scratch", broker_max_wait="200ms")
        self.assertEqual(j.wait(), 0, j.err)
        self.assertEqual(j.out, ["persistent 0"])
        self.assertEqual(self.states().get("holder"), "holding")

    def test_a_restart_read_takes_its_turn(self):
        self.broker()
        self.assertEqual(self.mpi_job("r", 2, 256, 1).wait(), 0)
        holder = self.job("holder", hang=1)
        wait_for("it holds", lambda: holder.has("go", "granted"))
        again = self.mpi_job("r", 2, 256, 1)
        wait_for("it waits", lambda: self.states().get("r") == "waiting")
        row = next(r for r in self.status()["requests"] if r["job"] == "r")
        self.assertEqual((row["kind"], row["nodes"], row["bytes"]), ("recovery", 2, 512 << 10))
        self.assertEqual(again.out, [])
        holder.kill()
        self.assertEqual(again.wait(), 0, again.err)
        self.assertEqual(again.out, ["restarted 0", "persistent 1"])
        self.assertEqual(self.status()["tokens"][0]["granted"], 4)
        alone = self.mpi_job("r", 2, 256, 1, broker="127.0.0.1:1", broker_give_up="100ms")
        self.assertEqual(alone.wait(), 0, alone.err)
        self.assertEqual(alone.out, ["restarted 1", "persistent 2"])


if __name__ == "__main__":
    unittest.main(verbosity=1)
