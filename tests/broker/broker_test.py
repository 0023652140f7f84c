#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""cairn-broker as a program: real jobs take turns over real sockets, are killed, hang and lose their connection;
the broker is killed and restarted."""
import datetime
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
from broker import BROKER, CAIRN, MIB, PATIENCE, SOURCE, Case, Program, overlaps, wait_for


class Turns(Case):
    def test_turns_do_not_overlap_and_nobody_starves(self):
        self.broker()
        jobs = [self.job(f"j{i}", nodes=1 << i, bytes=(i + 1) * MIB // 4, rounds=4, kind=i % 4)
                for i in range(5)]
        self.assertEqual([j.wait() for j in jobs], [0] * 5)
        spans = [s for j in jobs for s in j.transfers()]
        self.assertEqual(len(spans), 20)  # all were granted
        self.assertEqual(overlaps(spans), 0)
        self.assertEqual(len(list(self.pfs.glob("[0-9]*-*"))), 20)
        row = self.status()["tokens"][0]
        self.assertEqual((row["granted"], row["returned"], row["holders"]), (20, 20, 0))

    def test_without_a_broker_they_overlap(self):
        jobs = [self.job(f"j{i}", bytes=2 * MIB, rounds=3, give_up_ms=50) for i in range(4)]
        self.assertEqual([j.wait() for j in jobs], [0] * 4)
        spans = []
        for j in jobs:
            self.assertTrue(j.has("go", "free", 3))
            self.assertTrue(any("no broker" in e for e in j.err))
            at = [e[0] for e in j.events() if e[1] in ("go", "end")]
            spans += list(zip(at[::2], at[1::2]))
        self.assertGreater(overlaps(spans), 0)

    def test_two_slots(self):
        self.broker(token="slots = 2\n")
        jobs = [self.job(f"j{i}", hang=1) for i in range(3)]
        wait_for("two holders", lambda: sum(j.has("go") for j in jobs) == 2)
        wait_for("one waits", lambda: sorted(self.states().values()) ==
                 ["holding", "holding", "waiting"])

    def test_a_dry_run_delays_nobody_and_notes_what_it_would_do(self):
        notes = self.tmp / "decisions"
        self.broker(token="dry_run = on\nbandwidth = 1M\n", decisions=notes)
        jobs = [self.job(f"j{i}", hang=1, nodes=i + 1, bytes=MIB) for i in range(3)]
        for j in jobs:
            wait_for("all go", lambda: j.has("go", "granted"))
        got = lambda: [json.loads(n) for n in notes.read_text().splitlines()]
        wait_for("two would have had their turn", lambda: len(got()) >= 2)
        first, second = got()[:2]
        self.assertEqual({"token": "scratch", "policy": "delay-cost", "dry_run": True, "kind": "checkpoint",
                          "bytes": MIB}, {k: first[k] for k in ("token", "policy", "dry_run", "kind", "bytes")})
        at = [datetime.datetime.fromisoformat(n["time"].replace("Z", "+00:00")).timestamp()
              for n in (first, second)]
        self.assertAlmostEqual(at[1] - at[0], first["expected_s"], delta=0.0015)  # whatever the load
        self.assertAlmostEqual(at[0], time.time(), delta=PATIENCE)
        row = self.status()["tokens"][0]
        self.assertEqual((row["dry_run"], row["holders"], row["waiting"]), (True, 3, 0))

    def test_decisions_are_noted_and_a_bad_file_stops_nothing(self):
        notes = self.tmp / "decisions"
        self.broker(decisions=notes)
        self.assertEqual(self.job("one", nodes=4, bytes=MIB, rounds=2).wait(), 0)
        lines = [json.loads(n) for n in notes.read_text().splitlines()]
        self.assertEqual([(n["job"], n["nodes"], n["dry_run"]) for n in lines], 2 * [("one", 4, False)])
        notes.unlink()
        notes.mkdir()
        self.assertEqual(self.job("two", bytes=MIB).wait(), 0)
        wait_for("a warning", lambda: any("decisions are not noted" in e for e in self.programs[0].err))

    def test_a_killed_holder_is_replaced(self):
        self.broker()
        first = self.job("first", hang=1)
        wait_for("first goes", lambda: first.has("go", "granted"))
        second = self.job("second")
        wait_for("second waits", lambda: self.states().get("second") == "waiting")
        first.kill()
        self.assertEqual(second.wait(), 0)
        self.assertTrue(second.has("end", "granted"))
        self.assertEqual(self.status()["tokens"][0]["taken"], 1)

    def test_a_hung_holder_is_replaced(self):
        self.broker(lease="2s")
        first = self.job("first", bytes=64 * MIB)
        wait_for("first goes", lambda: first.has("go", "granted"))
        first.child.send_signal(signal.SIGSTOP)
        second = self.job("second")
        self.assertEqual(second.wait(), 0)
        self.assertTrue(second.has("go", "granted"))
        first.child.send_signal(signal.SIGCONT)
        wait_for("first knows", lambda: self.states() == {} or
                 first.has("end", "free"))  # continues without the token

    def test_a_holder_that_does_not_move_is_replaced(self):
        self.broker(stall="1s")
        first = self.job("first", hang=1)
        wait_for("first goes", lambda: first.has("go", "granted"))
        second = self.job("second")
        self.assertEqual(second.wait(), 0)
        self.assertTrue(second.has("go", "granted"))

    def test_max_wait(self):
        self.broker()
        first = self.job("first", hang=1)
        wait_for("first goes", lambda: first.has("go", "granted"))
        second = self.job("second", max_wait_ms=200)
        self.assertEqual(second.wait(), 0)
        self.assertTrue(second.has("end", "free"))

    def test_cancel(self):
        self.broker()
        first = self.job("first", hang=1)
        wait_for("first goes", lambda: first.has("go", "granted"))
        second = self.job("second")
        wait_for("second waits", lambda: self.states().get("second") == "waiting")
        ident = {r["job"]: r["id"] for r in self.status()["requests"]}
        self.cairn("cancel", ident["second"])
        self.assertEqual(second.wait(), 0)
        self.assertTrue(second.has("canceled", "by a person"))
        self.assertIn("no request 4711", self.cairn("cancel", 4711, expect=1))

    def test_ingested_files_take_their_turn(self):
        self.broker()
        first = self.job("first", hang=1)
        wait_for("first goes", lambda: first.has("go", "granted"))
        out = self.tmp / "out"
        out.mkdir()
        for rank in range(2):
            (out / f"a.5.{rank}").write_bytes(bytes([rank]) * 100000)
        words = ["--dir", self.pfs, "--set", f"broker={self.at}", "--set", "broker_auth=peer"]
        files = ["--pattern", "a.{step}.{rank}", "--ranks", "2"]

        def start(name, *what):
            self.programs.append(Program(CAIRN, *words, *what, env=self.env))
            wait_for(f"{name} waits", lambda: self.states().get(name) == "waiting")
            return self.programs[-1]

        def versions(name):
            return sorted(p.parent.name for p in (self.pfs / name).glob("*/manifest"))

        by_hand = start("hand", "ingest", "--as", "hand", *files, *sorted(out.iterdir()))
        watch = start("seen", "watch", "--as", "seen", *files, "--settle", "0", out)
        ended = start("over", "watch", "--as", "over", *files, "--settle", "0", out)
        self.assertEqual(ended.kill(signal.SIGTERM), 0)  # also while it waits for its turn
        ident = {r["job"]: r["id"] for r in self.status()["requests"]}
        self.assertEqual(sorted(ident), ["first", "hand", "seen"])
        self.cairn("cancel", ident["hand"])
        self.assertEqual(by_hand.wait(), 1)
        self.assertTrue(any("turn was canceled" in e for e in by_hand.err), by_hand.err)
        self.assertEqual(versions("hand") + versions("seen") + versions("over"), [])
        first.kill()
        wait_for("its turn", lambda: versions("seen") == ["5"])
        self.assertEqual(watch.kill(signal.SIGTERM), 0)

    def test_drain_and_policy(self):
        self.broker()
        self.cairn("drain", "scratch")
        job = self.job("job")
        wait_for("it waits", lambda: self.states() == {"job": "waiting"})
        row = self.status()["requests"][0]
        self.assertEqual(row["why"], "the token is drained")
        self.assertIsNone(row["starts_in_s"])
        self.assertIn("drained", self.cairn("status"))
        self.cairn("policy", "scratch", "ordered-nb")
        self.assertEqual(self.status()["tokens"][0]["policy"], "ordered-nb")
        self.cairn("policy", "loudest", expect=1)
        self.cairn("resume")
        self.assertEqual(job.wait(), 0)

    def test_what_administrators_changed_survives_a_restart(self):
        state = self.tmp / "state"
        first = self.broker(state=state)
        self.cairn("drain", "scratch")
        self.cairn("policy", "scratch", "ordered-nb")
        first.kill()
        second = self.broker(state=state)
        row = self.status()["tokens"][0]
        self.assertEqual((row["draining"], row["policy"]), (True, "ordered-nb"))
        self.cairn("resume")
        self.cairn("policy", "scratch", "delay-cost")
        second.kill()
        third = self.broker(state=state)
        row = self.status()["tokens"][0]
        self.assertEqual((row["draining"], row["policy"]), (False, "delay-cost"))
        third.kill()
        state.write_text("[gone]\nstate = drained\n[scratch]\npolicy = loudest\n")
        fourth = self.broker(state=state)
        self.assertTrue(any("2 changes" in e for e in fourth.err))
        fourth.kill()
        state.write_text("nonsense\n")
        done = subprocess.run([BROKER, "-c", self.tmp / "broker.conf"], capture_output=True,
                              timeout=PATIENCE, env=self.env)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"state:1: malformed line", done.stderr)
        state.unlink()
        fifth = self.broker(state=self.tmp / "no" / "where")
        self.assertIn("not for the next start", self.cairn("drain", "scratch", expect=1))
        self.assertTrue(self.status()["tokens"][0]["draining"])
        fifth.kill()

    def test_place_and_expected_start(self):
        self.broker(token="bandwidth = 1M\n", forecast="0")
        jobs = []
        for i in range(3):
            jobs.append(self.job(f"j{i}", hang=1, bytes=60 * MIB))
            wait_for("it is there", lambda i=i: len(self.states()) == i + 1)
        rows = {r["job"]: r for r in self.status()["requests"]}
        self.assertEqual([rows[f"j{i}"]["place"] for i in range(3)], [0, 1, 2])
        gap = rows["j2"]["starts_in_s"] - rows["j1"]["starts_in_s"]
        self.assertAlmostEqual(gap, 60, delta=0.001)


class Away(Case):
    def test_a_killed_broker_stops_nobody(self):
        broker = self.broker()
        jobs = [self.job(f"j{i}", rounds=1000, bytes=MIB // 4, give_up_ms=300) for i in range(3)]
        wait_for("turns", lambda: all(j.has("end", "granted") for j in jobs))
        broker.kill()
        freed = [j.count("end", "free") for j in jobs]
        wait_for("all go on, and what was granted has ended",
                 lambda: all(j.has("end", "free", n + 2) for j, n in zip(jobs, freed)))
        self.broker()  # the socket of the dead broker still exists
        seen = [len(j.transfers()) for j in jobs]
        wait_for("turns again", lambda: all(len(j.transfers()) > n + 2
                                            for j, n in zip(jobs, seen)))
        for j in jobs:
            j.child.stdin.write(b"stop\n")
            j.child.stdin.flush()
        self.assertEqual([j.wait() for j in jobs], [0] * 3)
        self.assertEqual(overlaps([s for j in jobs for s in j.transfers()]), 0)

    def test_a_new_broker_learns_who_holds(self):
        broker = self.broker()
        first = self.job("first", hang=1)
        wait_for("first goes", lambda: first.has("go", "granted"))
        broker.kill()
        state = self.tmp / "state"
        state.write_text("[scratch]\nstate = drained\n")  # grants nothing until both have reconnected
        self.broker(settle="1s", state=state)
        second = self.job("second", give_up_ms=60000)
        wait_for("both are known", lambda: self.states() ==
                 {"first": "holding", "second": "waiting"})
        self.cairn("resume", "scratch")
        wait_for("it has settled", lambda: not self.status()["tokens"][0]["settling"])
        self.assertFalse(second.has("go"))
        first.kill()
        self.assertEqual(second.wait(), 0)
        self.assertTrue(second.has("end", "granted"))

    def test_a_stopped_broker_stops_nobody(self):
        broker = self.broker()
        job = self.job("job", rounds=1000, bytes=MIB // 4, give_up_ms=300)
        wait_for("turns", lambda: job.has("end", "granted"))
        broker.child.send_signal(signal.SIGSTOP)  # accepts connections and never answers
        wait_for("it goes on", lambda: job.has("end", "free", 2))
        broker.child.send_signal(signal.SIGCONT)
        seen = len(job.transfers())
        wait_for("turns again", lambda: len(job.transfers()) > seen + 2)

    def test_a_broker_that_ends_leaves_nothing(self):
        broker = self.broker()
        job = self.job("job", hang=1)
        wait_for("it goes", lambda: job.has("go", "granted"))
        self.assertEqual(broker.kill(signal.SIGTERM), 0)
        self.assertFalse((self.tmp / "sock").exists())
        self.assertEqual(job.child.poll(), None)


class Alone(unittest.TestCase):
    """The program without jobs."""

    def run_broker(self, *words):
        return subprocess.run([BROKER, *map(str, words)], capture_output=True, timeout=PATIENCE)

    def test_usage(self):
        self.assertEqual(self.run_broker("--help").returncode, 0)
        self.assertEqual(self.run_broker("--nonsense").returncode, 2)
        self.assertEqual(self.run_broker("more").returncode, 2)
        self.assertEqual(self.run_broker("-c", "/nonexistent").returncode, 2)
        self.assertIn(b"least-waste", self.run_broker("--policies").stdout)

    def test_a_dump_is_a_configuration(self):
        with tempfile.TemporaryDirectory(prefix="cairn-broker-") as tmp:
            conf = pathlib.Path(tmp) / "a"
            conf.write_text("[broker]\nauth = peer\nlease = 7s\n[token t]\nslots = 3\n")
            first = self.run_broker("-c", conf, "--dump")
            self.assertEqual(first.returncode, 0, first.stderr)
            self.assertIn(b"lease = 7s", first.stdout)
            conf.write_bytes(first.stdout)
            self.assertEqual(self.run_broker("-c", conf, "--dump").stdout, first.stdout)
            conf.write_text("[broker]\nleese = 7s\n")
            self.assertIn(b"a:2: unknown key 'leese'", self.run_broker("-c", conf).stderr)

    def test_example_and_manual(self):
        dump = self.run_broker("-c", SOURCE / "dist" / "broker.conf", "--dump")
        self.assertEqual(dump.returncode, 0, dump.stderr)
        manual = (SOURCE / "docs" / "man" / "cairn-broker.8").read_text()
        for key in re.findall(r"^(\w+) =", dump.stdout.decode(), re.M):
            self.assertRegex(manual, rf"\.BR? .*\b{key}\b", f"{key} is not in the manual")

    def test_two_brokers_do_not_share_a_socket(self):
        with tempfile.TemporaryDirectory(prefix="cairn-broker-") as tmp:
            conf = pathlib.Path(tmp) / "a"
            conf.write_text(f"[broker]\nauth = peer\nlisten = unix:{tmp}/s\n")
            first = Program(BROKER, "-c", conf)
            try:
                wait_for("listens", lambda: any("listening" in e for e in first.err))
                second = self.run_broker("-c", conf)
                self.assertEqual(second.returncode, 1)
                self.assertIn(b"Address already in use", second.stderr)
            finally:
                self.assertEqual(first.kill(signal.SIGTERM), 0)


if __name__ == "__main__":
    unittest.main(verbosity=1)
