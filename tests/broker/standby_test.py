#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Two brokers, of which one serves: the other one takes over when it is killed or hangs, in the middle of
everything, and no turn is lost or given twice."""
import signal
import sys
import unittest

sys.dont_write_bytecode = True
from broker import BROKER, MIB, Case, Program, overlaps, wait_for


class Standby(Case):
    def start(self, i):
        """One of two brokers, which know each other and share their state file. A job that waits reports three times
        in a lease, and notices only then that its broker hangs."""
        keys = {"listen": self.sockets[i], "peers": ", ".join(self.sockets), "takeover": "2s", "settle": "2s",
                "auth": "peer", "admins": "root", "lease": "30s", "grace": "1s", "log_level": "debug",
                "state": self.tmp / "state"}
        conf = self.tmp / f"broker-{i}.conf"
        conf.write_text("[broker]\n" + "".join(f"{k} = {v}\n" for k, v in keys.items()) + "[token scratch]\n")
        p = Program(BROKER, "-c", conf, env=self.env)
        self.programs.append(p)
        return p

    def said(self, p, words, count=1):
        wait_for(f"'{words}': {p.err}", lambda: sum(words in e for e in p.err) >= count)

    def setUp(self):
        super().setUp()
        self.sockets = [f"unix:{self.tmp}/first", f"unix:{self.tmp}/second"]
        self.at = ",".join(self.sockets)
        self.first = self.start(0)
        self.said(self.first, "listening")
        self.second = self.start(1)
        self.said(self.second, "standing by")

    def turns_go_on(self, jobs):
        seen = [len(j.transfers()) for j in jobs]
        wait_for("turns", lambda: all(len(j.transfers()) > n + 1 for j, n in zip(jobs, seen)))

    def test_it_takes_over_from_a_killed_and_from_a_hanging_broker(self):
        jobs = [self.job(f"j{i}", rounds=100000, bytes=MIB // 4, give_up_ms=8000) for i in range(3)]
        self.turns_go_on(jobs)
        self.cairn("policy", "scratch", "ordered-nb")
        self.first.kill()  # somebody holds the token, the others wait
        self.said(self.second, "listening")
        self.turns_go_on(jobs)
        self.assertEqual(self.status()["tokens"][0]["policy"], "ordered-nb")
        again = self.start(0)  # does not disturb
        self.said(again, "standing by")
        self.turns_go_on(jobs)
        self.second.child.send_signal(signal.SIGSTOP)
        self.said(again, "listening")
        self.turns_go_on(jobs)
        self.second.child.send_signal(signal.SIGCONT)  # believes that it still serves
        self.said(self.second, "stepping down")
        self.said(self.second, "standing by", 2)
        self.turns_go_on(jobs)
        for j in jobs:
            j.child.stdin.write(b"stop\n")
            j.child.stdin.flush()
        self.assertEqual([j.wait() for j in jobs], [0] * 3)
        self.assertEqual(overlaps([s for j in jobs for s in j.transfers()]), 0)
        self.assertEqual([j.count("go", "free") for j in jobs], [0] * 3)  # nobody wrote without a turn
        self.assertEqual(self.second.kill(signal.SIGTERM), 0)
        self.assertEqual(again.kill(signal.SIGTERM), 0)

    def test_a_holder_keeps_its_token(self):
        holder = self.job("holder", hang=1, give_up_ms=60000)
        wait_for("it goes", lambda: holder.has("go", "granted"))
        waiting = self.job("waiting", give_up_ms=60000)
        wait_for("it waits", lambda: self.states() == {"holder": "holding", "waiting": "waiting"})
        self.first.kill()
        self.said(self.second, "listening")
        wait_for("both are known", lambda: self.states() == {"holder": "holding", "waiting": "waiting"})
        wait_for("it has settled", lambda: not self.status()["tokens"][0]["settling"])
        self.assertFalse(waiting.has("go"))
        holder.kill()
        self.assertEqual(waiting.wait(), 0)
        self.assertTrue(waiting.has("end", "granted"))


if __name__ == "__main__":
    unittest.main(verbosity=1)
