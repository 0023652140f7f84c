#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What an MPI job writes when its turn comes: the capture that it takes then, or the newest waiting one. The tests
control the jobs through their standard input (turn_steps.c)."""
import os
import sys
import unittest

sys.dont_write_bytecode = True
from broker import BUILD, CAIRN, SOURCE, Case, Program, wait_for
import subprocess

MPIEXEC = SOURCE / "tools" / "mpiexec"
STEPS = BUILD / "tests" / "broker" / "turn_steps"
MEMORY = os.environ.get("CAIRN_TEST_MEMORY", "/dev/shm")
KIB = 64


class Steps(Program):
    def say(self, *lines):
        """Sends the lines, and returns the answers."""
        seen = len(self.out)
        for line in lines:
            self.child.stdin.write(f"{line}\n".encode())
        self.child.stdin.flush()
        wait_for(f"{lines}: {self.out} {self.err}",
                 lambda: len(self.out) >= seen + len(lines) or self.child.poll() is not None)
        return self.out[seen:]

    def begin(self, line):
        self.child.stdin.write(f"{line}\n".encode())
        self.child.stdin.flush()


class Grant(Case):
    def steps(self, name, ranks=2, **keys):
        keys = {"persistent": self.pfs, "run_dir": self.tmp / f"run-{name}", "shm_dir": MEMORY, "job": name,
                "broker": self.at, "ranks_per_node": 1, "arena_bytes": "1M", "period": "1ms",
                "log_level": "debug", **keys}
        env = {**self.env, **{f"CAIRN_{k.upper()}": str(v) for k, v in keys.items()},
               "CAIRN_TEST_MEMORY": MEMORY}
        j = Steps(MPIEXEC, BUILD, "-n", ranks, STEPS, name, KIB, env=env)
        self.programs.append(j)
        return j

    def quit(self, j):
        j.begin("quit 0")
        self.assertEqual(j.wait(), 0, j.err)

    def versions(self, name):
        """The versions in the store, verified. Each rank's bytes are those of its version."""
        at = self.pfs / name
        found = sorted(int(d.name) for d in at.iterdir() if (d / "manifest").exists())
        for v in found:
            subprocess.run([CAIRN, "--dir", self.pfs, "verify", f"{name}@{v}"], check=True,
                           capture_output=True, env=self.env)
            data = b"".join(p.read_bytes() for p in sorted((at / str(v)).glob("data-*")))
            self.assertIn(bytes([v % 256]) * (KIB << 10), data, v)
        return found

    def holder(self, **keys):
        h = self.job("holder", hang=1, **keys)
        wait_for("it holds", lambda: h.has("go", "granted"))
        return h

    def test_it_captures_when_its_turn_comes(self):
        self.broker()
        holder = self.holder()
        j = self.steps("late")
        self.assertEqual(j.say("steps 100"), ["took"])
        wait_for("one request", lambda: self.states().get("late") == "waiting")
        self.assertEqual(j.say("steps 100"), ["took"])  # it keeps computing
        holder.kill()
        took = int(j.say("until 0")[0].split()[1])
        self.assertGreater(took, 200)
        self.quit(j)
        self.assertEqual(self.versions("late"), [took])
        row = self.status()["tokens"][0]
        self.assertEqual((row["granted"], row["returned"], row["taken"]), (2, 1, 1))  # the holder was killed

    def test_the_newest_capture_is_flushed(self):
        self.broker()
        holder = self.holder()
        j = self.steps("own", keep_every=4)
        j.say(*[f"take {v}" for v in range(1, 8)])
        wait_for("one request", lambda: self.states().get("own") == "waiting")
        self.assertEqual(sum(r["job"] == "own" for r in self.status()["requests"]), 1)
        holder.kill()
        self.assertEqual(j.say("wait 7"), ["persistent 7"])
        self.quit(j)
        self.assertEqual(self.versions("own"), [4, 7])

    def test_a_full_arena_blocks_nobody(self):
        self.broker()
        holder = self.holder()
        j = self.steps("full", arena_bytes=f"{3 * KIB}K")
        self.assertEqual(len(j.say(*[f"take {v}" for v in range(1, 10)])), 9)
        holder.kill()
        self.assertEqual(j.say("wait 9"), ["persistent 9"])
        self.quit(j)
        self.assertEqual(self.versions("full"), [9])

    def test_all_are_flushed_if_the_name_says_so(self):
        self.broker()
        holder = self.holder()
        j = self.steps("all", supersede="off")
        j.say(*[f"take {v}" for v in range(1, 5)])
        holder.kill()
        self.assertEqual(j.say("wait 4"), ["persistent 4"])
        self.quit(j)
        self.assertEqual(self.versions("all"), [1, 2, 3, 4])

    def test_what_a_caller_waits_for_is_flushed(self):
        self.broker()
        holder = self.holder()
        j = self.steps("waited")
        j.say("take 1")
        wait_for("a request", lambda: self.states().get("waited") == "waiting")
        j.begin("wait 1")
        holder.kill()
        wait_for("it is there", lambda: "persistent 1" in j.out)
        self.quit(j)
        self.assertEqual(self.versions("waited"), [1])

    def test_a_job_that_does_not_come_passes_its_turn_on(self):
        self.broker()
        holder = self.holder()
        j = self.steps("asleep")
        self.assertEqual(j.say("steps 100"), ["took"])
        wait_for("a request", lambda: self.states().get("asleep") == "waiting")
        holder.kill()  # it has the turn now, but sleeps and takes no step
        other = self.job("other")
        self.assertEqual(other.wait(), 0)
        self.assertTrue(other.has("go", "granted"))
        took = j.say("until 0")[0]
        self.quit(j)
        self.assertEqual(self.versions("asleep"), [int(took.split()[1])])

    def test_a_turn_that_passed_on_keeps_its_place(self):
        self.broker(token="policy = ordered-nb\n", forecast="0")
        holder = self.holder()
        j = self.steps("asleep")
        self.assertEqual(j.say("steps 100"), ["took"])
        wait_for("a request", lambda: self.states().get("asleep") == "waiting")
        holder.kill()  # it has the turn now, but takes no step
        other = self.job("other", hang=1)
        wait_for("the turn passes on", lambda: other.has("go", "granted"))
        self.job("later")
        wait_for("one waits", lambda: self.states().get("later") == "waiting")
        self.assertEqual(j.say("steps 100"), ["took"])
        places = lambda: {r["job"]: r["place"] for r in self.status()["requests"]}
        wait_for("it is before the one that came later",
                 lambda: places() == {"other": 0, "asleep": 1, "later": 2})
        other.kill()
        took = j.say("until 0")[0]
        self.quit(j)
        self.assertEqual(self.versions("asleep"), [int(took.split()[1])])

    def test_long_steps_do_not_keep_the_file_system_waiting(self):
        """It captures as soon as the period is over, and the turn that comes later begins with the flush."""
        self.broker()
        holder = self.holder()
        j = self.steps("long", ranks=1)
        j.say("pause 5100")
        took = [int(v) for v in j.say("steps 2")[0].split()[1:]]
        self.assertEqual(took, [2])  # the first step finds out how long they are
        holder.kill()
        self.assertEqual(j.say("wait 2"), ["persistent 2"])  # and takes no step
        self.quit(j)
        self.assertEqual(self.versions("long"), [2])

    def test_without_a_broker_it_captures_at_once(self):
        j = self.steps("alone", broker="127.0.0.1:1", broker_give_up="100ms")
        took = j.say("until 0")[0]
        self.quit(j)
        self.assertEqual(self.versions("alone"), [int(took.split()[1])])


if __name__ == "__main__":
    unittest.main(verbosity=1)
