#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Peers of cairn-broker: strangers that send garbage, users with keys, users that MUNGE knows. The system's own
MUNGE is not used."""
import os
import pathlib
import re
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
import unittest
import urllib.request

sys.dont_write_bytecode = True
from broker import BROKER, BUILD, MIB, PATIENCE, Case, Program, wait_for

# The C library resolves names on a thread that crashes the thread sanitizer.
CAN_LOOK_UP = "CAIRN_SANITIZE:STRING=thread" not in (BUILD / "CMakeCache.txt").read_text()


class Strangers(Case):
    """Jobs take turns whatever the broker receives."""

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
        self.assertGreater(self.metric("cairn_broker_evicted_total"), 0)
        self.assertGreater(self.metric("cairn_broker_login_timeouts_total"), 0)
        self.check_alive()

    def test_half_open_logins_keep_nobody_out(self):
        self.server.kill(signal.SIGTERM)
        self.server = self.broker(listen=f"{self.at}, 127.0.0.1:0", login_timeout="10m", max_logins=16,
                                  max_address_logins=8)
        tcp = ("127.0.0.1", self.port(self.server))
        crowd = []  # two addresses at their limit; together they use up all logins
        for source in ("127.0.0.2", "127.0.0.3", "127.0.0.1"):
            crowd += [socket.create_connection(tcp, source_address=(source, 0)) for _ in range(12)]
        crowd += [socket.socket(socket.AF_UNIX) for _ in range(12)]
        for s in crowd[-12:]:
            s.connect(str(self.tmp / "sock"))
        self.assertEqual(self.job("through").wait(), 0)
        self.assertEqual(len(self.status()["tokens"]), 1)
        self.assertTrue(any("replace old ones" in e for e in self.server.err), self.server.err)
        for s in crowd:
            s.close()

    def test_a_user_does_not_take_all_connections(self):
        self.server.kill(signal.SIGTERM)
        self.server = self.broker(admins="nobody", max_connections=12, admin_connections=4,
                                  max_user_connections=5)
        crowd = [self.log_in() for _ in range(5)]
        with self.log_in() as s:  # it gets the reason and is disconnected
            self.assertTrue(self.closed(s))
        wait_for("a warning", lambda: any("max_user_connections" in e for e in self.server.err))
        crowd.pop().close()
        wait_for("room", lambda: any("ended" in e for e in self.server.err))
        self.assertEqual(self.job("fits").wait(), 0)
        for s in crowd:
            s.close()

    def test_the_last_connections_are_the_administrators(self):
        self.server.kill(signal.SIGTERM)
        self.server = self.broker(admins="nobody", max_connections=6, admin_connections=2)
        crowd = [self.log_in() for _ in range(4)]
        with self.log_in() as s:
            self.assertTrue(self.closed(s))
        wait_for("a warning", lambda: any("but for administrators" in e for e in self.server.err))
        for s in crowd:
            s.close()

    def test_idle_connections_end(self):
        self.server.kill(signal.SIGTERM)
        self.server = self.broker(idle="300ms")
        holder = self.job("holder", hang=1)
        wait_for("it holds", lambda: holder.has("go", "granted"))
        with self.log_in() as s:
            self.assertIn(b"idle", s.recv(4096))
        self.assertEqual(self.states()["holder"], "holding")  # it has a request
        holder.kill()

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

    def test_an_older_client_gets_no_rows_that_it_does_not_know(self):
        holder = self.job("holder", hang=1)
        wait_for("it holds", lambda: holder.has("go", "granted"))
        with self.log_in() as s:  # of version 1.0
            s.sendall(struct.pack("<IHIH", 8, 7, 10, 0))
            data, types = b"", []
            while 11 not in types:
                data += s.recv(65536)
                while len(data) >= 6 and len(data) >= 4 + struct.unpack_from("<I", data)[0]:
                    size, kind = struct.unpack_from("<IH", data)
                    types.append(kind)
                    data = data[4 + size:]
        self.assertEqual(types, [8, 9, 11])

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
        self.assertEqual({u["user"]: u["jobs"] for u in self.status()["users"]}, {"alice": 1, "bob": 1})
        self.assertIn("SHARE", self.cairn("status"))
        self.who = "bob"
        self.assertEqual({u["user"]: u["share"] for u in self.status()["users"]}, {"bob": 0})
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
        self.assertIn("is not a key", self.cairn("status", expect=1))

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


class Slurm(Case):
    """A squeue of our own says what each job of the batch system has."""

    def test_nodes_and_accounts_come_from_slurm(self):
        bin_dir = self.tmp / "bin"
        bin_dir.mkdir()
        (bin_dir / "squeue").write_text(f"""#!/bin/sh
case "$*" in
"-h -t running -o %u %D %a -j 47") echo "$(id -un) 4 physics" ;;
"-h -t running -o %u %D %a -j 48") echo "somebody 400 physics" ;;
*) exit 1 ;;
esac
""")
        (bin_dir / "squeue").chmod(0o755)
        self.env["PATH"] = f"{bin_dir}:{self.env['PATH']}"
        self.broker(slurm="on", share_by="account", user_share=50, metrics="127.0.0.1:0", page="details")
        for name, number in (("mine", "47"), ("other's", "48"), ("gone", "49"), ("evil", "47; reboot"), ("no", "")):
            self.env["SLURM_JOB_ID"] = number
            self.job(name, nodes=1000, hang=1)
        want = {"mine": 4, "other's": 1, "gone": 1, "evil": 1, "no": 1}
        wait_for("nodes", lambda: {r["job"]: r["nodes"] for r in self.status()["requests"]} == want)
        server = self.programs[0]
        wait_for("a warning", lambda: any("Slurm" in e and "counts as one node" in e for e in server.err))
        wait_for("mine goes", lambda: "holding" in self.states().values())


if __name__ == "__main__":
    unittest.main(verbosity=1)
