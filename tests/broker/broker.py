# SPDX-License-Identifier: BSD-3-Clause
"""Brokers and jobs for tests. Each process is started and ended here and uses sockets of its own."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

BUILD = pathlib.Path(os.environ["CAIRN_TEST_BUILD"])
SOURCE = pathlib.Path(os.environ["CAIRN_TEST_SOURCE"])
BROKER = BUILD / "src" / "broker" / "cairn-broker"
CAIRN = BUILD / "src" / "cli" / "cairn"
JOB = BUILD / "tests" / "broker" / "turn_job"
# Time limit of a test in seconds. Then tests/support/deadline.c ends it and shows which process hangs.
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
    """A child process whose output lines are collected as they arrive."""

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

    def count(self, what, more=None):
        return sum(e[1] == what and more in (None, e[3]) for e in self.events())

    def has(self, what, more=None, count=1):
        return self.count(what, more) >= count

    def transfers(self):
        """(begin, end) of each completed transfer that had this grant."""
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
                "lease": f"{PATIENCE}s", "grace": "1s", "log_level": "debug", **keys}
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
        said = f"{what} on 127"
        wait_for(f"{said}: {p.err}", lambda: any(said in e for e in p.err))
        line = next(e for e in p.err if said in e)
        return int(re.search(r"port (\d+)", line).group(1))
