#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""cairn-broker as a program: real jobs take turns over real sockets, are killed, hang and are cut
off; the broker is killed and comes back; strangers send garbage. Every process is started and ended
here, on sockets of its own; nothing of the system's MUNGE is touched."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

BUILD = pathlib.Path(os.environ["CAIRN_TEST_BUILD"])
SOURCE = pathlib.Path(os.environ["CAIRN_TEST_SOURCE"])
BROKER = BUILD / "src" / "broker" / "cairn-broker"
CAIRN = BUILD / "src" / "cli" / "cairn"
JOB = BUILD / "tests" / "broker" / "turn_job"
TURN_MPI = BUILD / "tests" / "broker" / "turn_mpi"
SLOW_PFS = BUILD / "tests" / "broker" / "libslow_pfs.so"
# The C library looks names up on a thread that the thread sanitizer does not know, and dies of.
CAN_LOOK_UP = "CAIRN_SANITIZE:STRING=thread" not in (BUILD / "CMakeCache.txt").read_text()
# Seconds that a test has; then tests/support/deadline.c ends it and shows who hangs.
PATIENCE = float(os.environ.get("CAIRN_TEST_SECONDS", "60"))
MIB = 1 << 20


def wait_for(what, condition):
    end = time.monotonic() + PATIENCE
    while not (got := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"in vain: {what}")
        time.sleep(0.01)
    return got


class Program:
    """A child whose lines are collected as they come."""

    def __init__(self, *words, env=None):
        self.child = subprocess.Popen(list(map(str, words)), stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        self.out, self.err = [], []
        self.readers = [threading.Thread(target=self.collect, args=pair)
                        for pair in ((self.child.stdout, self.out), (self.child.stderr, self.err))]
        for r in self.readers:
            r.start()

    @staticmethod
    def collect(stream, lines):
        for line in stream:
            lines.append(line.decode().rstrip("\n"))

    def wait(self):
        status = self.child.wait(PATIENCE)
        for r in self.readers:
            r.join()
        for stream in (self.child.stdin, self.child.stdout, self.child.stderr):
            stream.close()
        return status

    def kill(self, number=signal.SIGKILL):
        below = self.below(self.child.pid) if number == signal.SIGKILL else []
        if self.child.poll() is None:
            self.child.send_signal(number)
        for pid in below:  # the ranks of an MPI job
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        return self.wait()

    @classmethod
    def below(cls, pid):
        path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
        children = list(map(int, path.read_text().split())) if path.exists() else []
        return children + [below for c in children for below in cls.below(c)]


class Job(Program):
    def events(self):
        """(time, what, ticket, more) of each line so far."""
        found = []
        for line in list(self.out):
            at, what, ticket, *more = line.split(" ", 3)
            found.append((int(at), what, int(ticket), more[0] if more else ""))
        return found

    def has(self, what, more=None, count=1):
        return sum(e[1] == what and more in (None, e[3]) for e in self.events()) >= count

    def transfers(self):
        """(begin, end) of each transfer that was granted and ended so."""
        begun, found = {}, []
        for at, what, ticket, more in self.events():
            if what == "go" and more == "granted":
                begun[ticket] = at
            elif what == "end" and ticket in begun:
                found.append((begun[ticket], at))
        return found


def overlaps(spans):
    spans = sorted(spans)
    return sum(b[0] < a[1] for a, b in zip(spans, spans[1:]))


class Case(unittest.TestCase):
    auth = "peer"

    def setUp(self):
        self.tmp = pathlib.Path(tempfile.mkdtemp(prefix="cairn-broker-"))
        self.addCleanup(shutil.rmtree, self.tmp)
        self.pfs = self.tmp / "pfs"
        self.pfs.mkdir()
        self.at = f"unix:{self.tmp}/sock"
        self.programs = []
        self.addCleanup(self.end_all)
        self.login = []
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("CAIRN_")}

    def end_all(self):
        for p in self.programs:
            if p.child.poll() is None:
                p.kill()
            self.assertNotIn("Sanitizer", "\n".join(p.err))

    def broker(self, token="", **keys):
        keys = {"listen": self.at, "auth": self.auth, "admins": "root", "settle": "0",
                "lease": "2s", "grace": "1s", "log_level": "debug", **keys}
        conf = self.tmp / "broker.conf"
        conf.write_text("[broker]\n" + "".join(f"{k} = {v}\n" for k, v in keys.items())
                        + "[token scratch]\n" + token)
        p = Program(BROKER, "-c", conf, env=self.env)
        self.programs.append(p)
        wait_for(f"broker: {p.err}", lambda: any("listening" in e for e in p.err))
        return p

    def job(self, name="job", **keys):
        words = {"at": self.at, "dir": self.pfs, "name": name, **keys}
        j = Job(JOB, *self.login, *[f"{k}={v}" for k, v in words.items()], env=self.env)
        self.programs.append(j)
        return j

    def cairn(self, *words, expect=0):
        login = [x for s in self.settings() for x in ("--set", s)]
        done = subprocess.run([CAIRN, "broker", "--at", self.at, *login, *map(str, words)],
                              capture_output=True, timeout=PATIENCE, env=self.env)
        self.assertEqual(done.returncode, expect, (words, done.stdout, done.stderr))
        return done.stdout.decode() + done.stderr.decode()

    def settings(self):
        return []

    def status(self):
        return json.loads(self.cairn("status", "--json"))

    def states(self):
        return {r["job"]: r["state"] for r in self.status()["requests"]}

    def port(self, p, what="listening"):
        line = next(e for e in p.err if f"{what} on 127" in e)
        return int(re.search(r"port (\d+)", line).group(1))


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
        self.broker()
        first = self.job("first", bytes=64 * MIB)
        wait_for("first goes", lambda: first.has("go", "granted"))
        first.child.send_signal(signal.SIGSTOP)
        second = self.job("second")
        self.assertEqual(second.wait(), 0)
        self.assertTrue(second.has("end", "granted"))
        first.child.send_signal(signal.SIGCONT)
        wait_for("first knows", lambda: self.states() == {} or
                 first.has("end", "free"))  # goes on without the token

    def test_a_holder_that_does_not_move_is_replaced(self):
        self.broker(stall="1s")
        first = self.job("first", hang=1)
        wait_for("first goes", lambda: first.has("go", "granted"))
        second = self.job("second")
        self.assertEqual(second.wait(), 0)
        self.assertTrue(second.has("end", "granted"))

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
        self.assertIn(b"state:1: not understood", done.stderr)
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
        broker = self.broker(settle="1s")
        jobs = [self.job(f"j{i}", rounds=1000, bytes=MIB // 4, give_up_ms=300) for i in range(3)]
        wait_for("turns", lambda: all(j.has("end", "granted") for j in jobs))
        broker.kill()
        wait_for("all go on", lambda: all(j.has("end", "free", 2) for j in jobs))
        self.broker(settle="1s")  # the socket of the dead one lies there still
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
        self.broker(settle="3s")
        second = self.job("second", give_up_ms=60000)
        wait_for("both are known", lambda: self.states() ==
                 {"first": "holding", "second": "waiting"})
        wait_for("it has settled", lambda: not self.status()["tokens"][0]["settling"])
        self.assertFalse(second.has("go"))
        first.kill()
        self.assertEqual(second.wait(), 0)
        self.assertTrue(second.has("end", "granted"))

    def test_a_stopped_broker_stops_nobody(self):
        broker = self.broker()
        job = self.job("job", rounds=1000, bytes=MIB // 4, give_up_ms=300)
        wait_for("turns", lambda: job.has("end", "granted"))
        broker.child.send_signal(signal.SIGSTOP)  # accepts, answers nothing
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


class Strangers(Case):
    """Whatever comes in, the jobs' turns go on."""

    def setUp(self):
        super().setUp()
        self.server = self.broker(listen=f"{self.at}, 127.0.0.1:0", metrics="127.0.0.1:0",
                                  login_timeout="1s", max_connections=64, max_logins=16,
                                  max_address_logins=8)
        self.tcp = ("127.0.0.1", self.port(self.server))

    def check_alive(self):
        self.assertEqual(self.job("check", bytes=MIB // 4).wait(), 0)
        self.assertIsNone(self.server.child.poll())

    def metric(self, name):
        port = self.port(self.server, "metrics")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as got:
            self.assertIn("application/openmetrics-text", got.headers["Content-Type"])
            text = got.read().decode()
        self.assertTrue(text.endswith("# EOF\n"))
        return float(re.search(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.M).group(1))

    def closed(self, s):
        s.settimeout(PATIENCE)
        try:
            return s.recv(4096) == b""
        except ConnectionResetError:
            return True

    def test_garbage(self):
        big = struct.pack("<IH", 0x7fffffff, 1)
        empty = struct.pack("<IH", 0, 1)
        early = struct.pack("<IH", 10, 5) + b"\0" * 8
        for data in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(4000), big, empty, early, b"\0" * 100):
            with socket.create_connection(self.tcp) as s:
                s.sendall(data)
                self.assertTrue(self.closed(s), data[:20])
        self.assertEqual(self.metric("cairn_broker_garbage_total"), 6)
        self.check_alive()

    def test_port_scan(self):
        for _ in range(200):
            socket.create_connection(self.tcp).close()
        self.check_alive()

    def test_silent_connections_make_room(self):
        crowd = [socket.create_connection(self.tcp) for _ in range(40)]
        for s in crowd:
            self.assertTrue(self.closed(s))
            s.close()
        self.assertGreater(self.metric("cairn_broker_refused_total"), 0)
        self.assertGreater(self.metric("cairn_broker_login_timeouts_total"), 0)
        self.check_alive()

    def test_drops_of_bytes_do_not_extend_a_login(self):
        with socket.create_connection(self.tcp) as s:
            try:
                for b in struct.pack("<IH", 1000, 1) + b"\0" * 994:
                    s.sendall(bytes([b]))
                    time.sleep(0.05)
                self.fail("still open")
            except (BrokenPipeError, ConnectionResetError):
                pass

    def test_other_versions_and_methods_are_told(self):
        def hello(major, method):
            body = struct.pack("<IHHBH", 0x424e5243, major, 0, method, 0) + b"\1" * 32
            with socket.create_connection(self.tcp) as s:
                s.sendall(struct.pack("<IH", len(body) + 2, 1) + body)
                s.settimeout(PATIENCE)
                return s.recv(4096)
        self.assertIn(b"speaks version 1", hello(9, 1))
        self.assertIn(b"log in here by: peer", hello(1, 2))
        self.assertIn(b"log in here by: peer", hello(1, 99))

    def test_peer_login_needs_a_unix_socket(self):
        at, self.at = self.at, "%s:%d" % self.tcp
        job = self.job("tcp", auth="peer", give_up_ms=500)
        self.assertEqual(job.wait(), 0)
        self.assertTrue(job.has("go", "free"))
        self.assertTrue(any("login refused" in e for e in job.err), job.err)
        self.at = at
        self.check_alive()

    def log_in(self):
        s = socket.socket(socket.AF_UNIX)
        s.connect(str(self.tmp / "sock"))
        body = struct.pack("<IHHBH", 0x424e5243, 1, 0, 1, 0) + b"\1" * 32
        s.sendall(struct.pack("<IH", len(body) + 2, 1) + body)
        s.settimeout(PATIENCE)
        s.recv(4096)
        s.sendall(struct.pack("<IHH", 4, 3, 0))
        s.recv(4096)
        return s

    def test_a_peer_that_does_not_read_is_dropped(self):
        self.server.kill(signal.SIGTERM)
        self.server = self.broker(messages_per_second=100000, backlog_bytes="64K")
        jobs = [self.job(f"j{i}", hang=1) for i in range(30)]
        wait_for("a queue", lambda: len(self.states()) == 30)
        with self.log_in() as s:
            query = struct.pack("<IHIH", 8, 7, 10000, 0)
            try:
                while True:
                    s.sendall(query * 10)  # and never reads
            except (BrokenPipeError, ConnectionResetError):
                pass
            self.assertEqual(len(self.states()), 30)  # others are served
            self.assertTrue(any("does not read" in e for e in self.server.err))
        for j in jobs:
            j.kill()

    def test_messages_are_rationed(self):
        with self.log_in() as s:
            query = struct.pack("<IHIH", 8, 7, 0, 0)
            s.sendall(query * 2000)
            before = self.metric("cairn_broker_messages_total")
            time.sleep(0.5)
            self.assertLess(self.metric("cairn_broker_messages_total") - before, 200)
            self.check_alive()


class Keys(Case):
    auth = "key"

    def setUp(self):
        super().setUp()
        lines = []
        for user in ("alice", "bob", "root"):
            line = subprocess.run([BROKER, "--new-key", user], capture_output=True, check=True)
            lines.append(line.stdout.decode())
            self.write_key(user, lines[-1])
        self.write_key("all", "# keys\n" + "".join(lines))
        self.who = "root"

    def write_key(self, name, text):
        path = self.tmp / f"{name}.key"
        path.write_text(text)
        path.chmod(stat.S_IRUSR | stat.S_IWUSR)
        return path

    def settings(self):
        return [f"broker_key={self.tmp}/{self.who}.key", "broker_auth=key"]

    def start(self):
        p = self.broker(listen="127.0.0.1:0", key_file=self.tmp / "all.key")
        self.at = f"127.0.0.1:{self.port(p)}"
        return p

    def test_users_see_and_cancel_their_own(self):
        self.start()
        a = self.job("a", key=self.tmp / "alice.key", hang=1)
        wait_for("alice goes", lambda: a.has("go", "granted"))
        b = self.job("b", key=self.tmp / "bob.key")
        wait_for("bob waits", lambda: self.states() == {"a": "holding", "b": "waiting"})
        ident = {r["job"]: r["id"] for r in self.status()["requests"]}
        self.who = "bob"
        self.assertEqual(self.states(), {"b": "waiting"})
        self.assertEqual(self.status()["user"], "bob")
        self.cairn("cancel", ident["a"], expect=1)
        self.assertIn("only administrators", self.cairn("drain", expect=1))
        self.cairn("cancel", ident["b"])
        self.assertEqual(b.wait(), 0)
        self.assertTrue(b.has("canceled"))

    def test_wrong_keys(self):
        broker = self.start()
        line = subprocess.run([BROKER, "--new-key", "alice"], capture_output=True, check=True)
        wrong = self.write_key("wrong", line.stdout.decode())
        job = self.job("w", key=wrong, give_up_ms=500)
        self.assertEqual(job.wait(), 0)
        self.assertTrue(job.has("go", "free"))
        self.assertTrue(any("does not have the key of alice" in e for e in broker.err))
        self.write_key("alice", "alice 00\n")
        self.who = "alice"
        self.assertIn("is no key", self.cairn("status", expect=1))

    @unittest.skipUnless(CAN_LOOK_UP, "thread sanitizer")
    def test_names_are_looked_up(self):
        port = self.port(self.start())
        self.at = f"localhost:{port}"
        job = self.job("j", key=self.tmp / "alice.key", bytes=MIB // 4)
        self.assertEqual(job.wait(), 0)
        self.assertTrue(job.has("end", "granted"), job.err)
        self.at = f"no-such-host.invalid:{port}"
        job = self.job("j", key=self.tmp / "alice.key", bytes=MIB // 4, give_up_ms=300)
        self.assertEqual(job.wait(), 0)
        self.assertTrue(job.has("end", "free"), job.err)

    def test_a_false_broker_is_left(self):
        """It accepts every key, but cannot prove that it has it."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.at = "127.0.0.1:%d" % server.getsockname()[1]
            job = self.job("j", key=self.tmp / "alice.key", give_up_ms=700)
            server.settimeout(PATIENCE)
            s, _ = server.accept()
            with s:
                s.recv(4096)
                body = struct.pack("<IHH", 0x424e5243, 1, 0) + b"\2" * 32
                s.sendall(struct.pack("<IH", len(body) + 2, 2) + body)
                s.recv(4096)
                body = struct.pack("<QQQBH", 1, 10**9, 10**9, 0, 0) + struct.pack("<H", 32) + b"x" * 32
                s.sendall(struct.pack("<IH", len(body) + 2, 4) + body)
                s.settimeout(PATIENCE)
                self.assertEqual(s.recv(4096), b"")
            self.assertEqual(job.wait(), 0)
        self.assertTrue(any("broker does not have the key" in e for e in job.err), job.err)


@unittest.skipUnless(shutil.which("munged") or pathlib.Path("/usr/sbin/munged").exists(),
                     "no munged")
class Munge(Case):
    auth = "munge"

    def setUp(self):
        super().setUp()
        self.socket = self.tmp / "munge.sock"
        self.munged = None
        key = self.tmp / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self.start_munged()
        self.login = [f"munge={self.socket}"]

    def start_munged(self):
        words = [f"--{k}={self.tmp}/munge.{k.split('-')[0]}" for k in
                 ("key-file", "pid-file", "log-file", "seed-file")]
        self.munged = Program(shutil.which("munged") or "/usr/sbin/munged", "--foreground",
                              "--force", f"--socket={self.socket}", *words, env=self.env)
        self.programs.append(self.munged)
        wait_for(f"munged: {self.munged.err}", self.socket.exists)

    def settings(self):
        return [f"broker_munge={self.socket}", "broker_auth=munge"]

    def start(self):
        p = self.broker(listen="127.0.0.1:0", munge_socket=self.socket)
        self.at = f"127.0.0.1:{self.port(p)}"
        return p

    def test_login(self):
        self.start()
        job = self.job("m", bytes=MIB // 4)
        self.assertEqual(job.wait(), 0)
        self.assertTrue(job.has("end", "granted"), job.err)
        got = self.status()
        self.assertEqual((got["user"], got["is_admin"]), ("root" if os.getuid() == 0 else
                                                           got["user"], os.getuid() == 0))

    def test_without_munged_nobody_waits(self):
        self.start()
        self.munged.kill(signal.SIGTERM)
        job = self.job("m", bytes=MIB // 4, give_up_ms=300)
        self.assertEqual(job.wait(), 0)
        self.assertTrue(job.has("end", "free"))
        self.start_munged()
        self.assertEqual(self.job("n", bytes=MIB // 4).wait(), 0)

    def test_a_hanging_munged_does_not_stop_the_broker(self):
        broker = self.broker(listen=f"127.0.0.1:0, {self.at}", auth="munge, peer",
                             munge_socket=self.socket)
        peer_at, self.at = self.at, f"127.0.0.1:{self.port(broker)}"
        inside = self.job("inside", rounds=1000, bytes=MIB // 4)
        wait_for("turns", lambda: inside.has("end", "granted"))
        seen = len(inside.transfers())
        self.munged.child.send_signal(signal.SIGSTOP)
        outside = self.job("outside", give_up_ms=300)
        wait_for("turns go on", lambda: len(inside.transfers()) > seen + 3)
        self.munged.child.send_signal(signal.SIGCONT)
        outside.kill()
        self.at, self.login = peer_at, []


@unittest.skipUnless(os.environ.get("CAIRN_TEST_MPIEXEC") and SLOW_PFS.exists(), "no MPI")
class Mpi(Case):
    """Real MPI jobs of different sizes flush to one directory with a bandwidth of its own."""

    def setUp(self):
        super().setUp()
        self.log = self.tmp / "writes"
        self.log.touch()

    def mpi_job(self, name, ranks, kib, steps, **keys):
        keys = {"persistent": self.pfs, "run_dir": self.tmp / f"run-{name}", "job": name,
                "broker": self.at, "ranks_per_node": 1, "block_bytes": "256K", "blocks": 4,
                "chunk_bytes": "64K", "log_level": "info", **keys}
        env = {**self.env, **{f"CAIRN_{k.upper()}": str(v) for k, v in keys.items()},
               "LD_PRELOAD": str(SLOW_PFS), "SLOW_PFS_DIR": str(self.pfs), "SLOW_PFS_JOB": name,
               "SLOW_PFS_LOG": str(self.log), "SLOW_PFS_SHARED": str(self.tmp / "free-at")}
        words = os.environ["CAIRN_TEST_MPIEXEC"].split()
        j = Program(*words, "-n", ranks, TURN_MPI, name, kib, steps, env=env)
        self.programs.append(j)
        return j

    def flushes(self):
        """(job, version) -> (begin, end) of what was written for it."""
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
        self.broker(lease="10s")
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
        self.assertTrue(second.has("end", "granted"))
        self.assertIsNone(first.child.poll())
        self.assertEqual(self.status()["tokens"][0]["taken"], 1)

    def test_bytes_that_move_keep_the_token(self):
        self.broker(stall="100s", lease="10s")
        j = self.mpi_job("slow", 2, 24 << 10, 1)  # 6 s and more, a little of it every few ms
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
