#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`cairn run` and `cairn halt` around real jobs: one that is killed, one that never works, one that is asked to
stop, one whose time ends. Slurm's commands are scripts here; tests/slurm uses the real ones."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["CAIRN_TEST_BUILD"])
CAIRN = BUILD / "src" / "cli" / "cairn"
JOB = BUILD / "tests" / "job"


class Case(unittest.TestCase):
    def setUp(self):
        self.tmp = pathlib.Path(tempfile.mkdtemp(prefix="cairn-run-"))
        self.addCleanup(shutil.rmtree, self.tmp, ignore_errors=True)
        self.store = self.tmp / "store"
        self.store.mkdir()
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith(("CAIRN_", "SLURM_"))}
        self.env |= {"CAIRN_PERSISTENT": str(self.store), "CAIRN_RUN_DIR": str(self.tmp / "run"),
                     "CAIRN_LOG_LEVEL": "info", "CAIRN_PERIOD": "365d", "CAIRN_FREE_RESERVE_BYTES": "0"}

    def cairn(self, *words, expect=0, **env):
        done = subprocess.run([CAIRN, *map(str, words)], capture_output=True, text=True,
                              env=self.env | env)
        self.assertEqual(done.returncode, expect, (words, done.stdout, done.stderr))
        return done.stdout, done.stderr

    def versions(self):
        return [v["version"] for v in json.loads(self.cairn("ls", "--json")[0])["versions"]]

    def start(self, *words, **env):
        child = subprocess.Popen([*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True, env=self.env | env)
        self.addCleanup(child.kill)
        return child

    def until(self, child, text):
        for line in child.stdout:
            if text in line:
                return
        self.fail(f"no '{text}': {child.stderr.read()}")

    def end(self, child):
        out, err = child.communicate()
        return child.returncode, out, err


class Run(Case):
    def test_a_killed_job_continues(self):
        out, err = self.cairn("run", "--wait", "0s", "--", JOB, 50, JOB_DIE="25")
        self.assertEqual(re.findall(r"(?m)^(?:began|ended) \d+$", out),
                         ["began 0", "began 20", "ended 50"])
        self.assertIn("status 137", err)
        self.assertIn("2 starts, 1 failure", err)
        self.assertIn("job@50", err)

    def test_a_job_that_never_works_is_given_up(self):
        mark = self.tmp / "starts"
        script = f"echo x >>{mark}; exit 7"
        _, err = self.cairn("run", "--wait", "0s", "-r", 2, "--no-check", "--", "sh", "-c", script,
                            expect=7)
        self.assertEqual(mark.read_text().count("x"), 3)
        self.assertIn("giving up", err)
        self.cairn("run", "--no-check", "--", self.tmp / "nothing", expect=1)
        self.cairn("run", expect=2)

    def test_no_start_where_nothing_can_be_written(self):
        (self.tmp / "file").write_text("")
        mark = self.tmp / "started"
        out, err = self.cairn("run", "--", "touch", mark, expect=1,
                              CAIRN_PERSISTENT=str(self.tmp / "file" / "x"))
        self.assertEqual(out, "")
        self.assertIn("FAIL", err)
        self.assertFalse(mark.exists())

    def test_signals_are_passed_on(self):
        script = "trap 'echo usr1' USR1; trap 'echo term; exit 9' TERM; echo ready; " \
                 "while :; do sleep 0.05; done"
        child = self.start(CAIRN, "run", "--no-check", "--wait", "0s", "--", "sh", "-c", script)
        self.until(child, "ready")
        child.send_signal(signal.SIGUSR1)
        self.until(child, "usr1")
        child.send_signal(signal.SIGTERM)
        status, out, err = self.end(child)
        self.assertEqual((status, out), (9, "term\n"), err)
        self.assertIn("not started again", err)

    def test_only_nodes_that_work_are_used(self):
        """sinfo names three nodes, one in two partitions; two are requested."""
        for name, text in (("sinfo", "printf 'n1\\nn1\\nn12\\nn3\\n'"), ("squeue", "echo 1:00:00"),
                           ("srun", "echo srun \"$@\"")):
            (self.tmp / name).write_text(f"#!/bin/sh\n{text}\n")
            (self.tmp / name).chmod(0o755)
        out, err = self.cairn("run", "--no-check", "-N", 2, "--", "echo", "-N{nnodes}", "-w{nodes}",
                            PATH=f"{self.tmp}:{self.env['PATH']}", SLURM_JOB_ID="4",
                            SLURM_JOB_NODELIST="n[1-3]")
        self.assertIn("-N2 -wn1,n12\n", out)
        self.assertRegex(err, r"srun --overlap --ntasks-per-node=1 -N2 -w n1,n12 \S*cairn drain")
        _, err = self.cairn("run", "--no-check", "-N", 4, "--", "echo", expect=1,
                            PATH=f"{self.tmp}:{self.env['PATH']}", SLURM_JOB_ID="4",
                            SLURM_JOB_NODELIST="n[1-3]")
        self.assertIn("only 3 nodes", err)


class Halt(Case):
    def job(self, **env):
        child = self.start(JOB, 1000000, **({"JOB_STEP_MS": "5"} | env))
        self.until(child, "began 0")
        return child

    def stopped(self, child):
        status, out, err = self.end(child)
        self.assertEqual(status, 0, err)
        return int(re.search(r"ended (\d+)", out)[1]), err

    def test_now_means_a_last_checkpoint(self):
        child = self.job()
        self.cairn("halt", "-r", "the file system\nis full", "now")
        step, err = self.stopped(child)
        self.assertIn(step - self.versions()[-1], (0, 1))  # which call notices it first varies
        self.assertIn("the file system", err)
        _, err = self.cairn("run", "--no-check", "--", "echo", "started", expect=1)
        self.assertIn("cairn halt undo", err)
        self.cairn("halt", "undo")
        self.assertEqual(self.cairn("run", "--no-check", "--", "echo", "started")[0], "started\n")

    def test_after_the_next_checkpoint(self):
        child = self.job()
        self.cairn("halt", "checkpoint")
        step, _ = self.stopped(child)
        newest = self.versions()[-1]
        self.assertEqual(newest % 10, 0)
        self.assertLessEqual(step - newest, 10)

    def test_at_a_time(self):
        child = self.job(CAIRN_WALL_MARGIN="1h")
        self.cairn("halt", "at", "+90m")
        self.assertIn("stop by", self.cairn("halt")[0])
        self.cairn("halt", "at", "+59m")
        self.stopped(child)
        for bad in ("tomorrow", "25:77", "+x"):
            self.cairn("halt", "at", bad, expect=1)

    def test_one_job_of_several(self):
        mine, other = self.job(CAIRN_JOB="7", CAIRN_PERSISTENT=str(self.tmp / "store")), None
        self.cairn("halt", "--job", "8", "now")
        self.assertEqual(json.loads(self.cairn("halt", "--json")[0])["request"], "none")
        self.cairn("halt", "--job", "7", "now")
        self.stopped(mine)
        self.assertEqual(json.loads(self.cairn("halt", "-j", "8", "--json")[0])["request"], "now")
        self.cairn("halt", "--job", "../x", "now", expect=1)
        self.assertEqual(sorted(p.name for p in self.store.iterdir()), [".halt-7", ".halt-8", "job"])

    def test_slurm_says_how_long(self):
        squeue = self.tmp / "squeue"
        squeue.write_text(f"#!/bin/sh\necho \"$*\" >>{self.tmp}/asked\necho 4:00\n")
        squeue.chmod(0o755)
        child = self.job(PATH=f"{self.tmp}:{self.env['PATH']}", SLURM_JOB_ID="77")
        step, err = self.stopped(child)
        self.assertIn(step - self.versions()[-1], (0, 1))  # which call notices it first varies
        self.assertIn("Slurm ends job 77", err)
        self.assertEqual((self.tmp / "asked").read_text(), "-h -o %L -j 77\n")
        (self.tmp / "asked").unlink()
        done = subprocess.run([JOB, "60"], capture_output=True, check=True, text=True,
                              env=self.env | {"PATH": f"{self.tmp}:{self.env['PATH']}",
                                              "SLURM_JOB_ID": "78", "CAIRN_WALL_LIMIT": "10h"})
        self.assertIn("ended", done.stdout)
        self.assertFalse((self.tmp / "asked").exists())  # wall_limit takes precedence


if __name__ == "__main__":
    unittest.main()
