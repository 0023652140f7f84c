#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`cairn run` and `cairn halt` around the launchers of MPI and of PyTorch: ranks are killed and the job is started
again; it is asked to stop. tests/slurm has srun."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["CAIRN_TEST_BUILD"])
SOURCE = pathlib.Path(os.environ["CAIRN_TEST_SOURCE"])
CAIRN = BUILD / "src" / "cli" / "cairn"

# A training job: two processes, whose state is a tensor that counts its steps.
TRAIN = """
import os, pathlib, signal, sys, time
import torch, torch.distributed as dist
import cairn

dist.init_process_group("gloo")
rank = dist.get_rank()
weights = torch.zeros(1000, dtype=torch.float64)
with cairn.Session(comm="torch") as s:
    s.protect("weights", weights)
    first = step = s.restart("job") or 0
    assert bool((weights == step * (rank + 1)).all())
    if rank == 0:
        print("began", step, flush=True)
    stop = False
    while step < int(sys.argv[1]) and not stop:
        weights += rank + 1
        step += 1
        if step % 10 == 0:
            s.checkpoint("job", step).wait("persistent", 60)
        if first == 0 and rank == 1 and step == int(os.environ.get("JOB_DIE", "-1")):
            os.kill(os.getpid(), signal.SIGKILL)
        stop = s.should_stop()
        time.sleep(float(os.environ.get("JOB_STEP_MS", "0")) / 1000)
if rank == 0:
    print("ended", step, flush=True)
"""


def python_with_torch():
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import torch.distributed.run, numpy"], capture_output=True).returncode == 0:
            return python
    return None


class Launch(unittest.TestCase):
    def setUp(self):
        self.tmp = pathlib.Path(tempfile.mkdtemp(prefix="cairn-launch-"))
        self.addCleanup(shutil.rmtree, self.tmp, ignore_errors=True)
        self.store = self.tmp / "store"
        self.store.mkdir()
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("CAIRN_", "SLURM_"))}
        self.env |= {k: os.environ[k] for k in os.environ if k.startswith("CAIRN_TEST_")}
        self.env |= {"CAIRN_PERSISTENT": str(self.store), "CAIRN_RUN_DIR": str(self.tmp / "run"),
                     "CAIRN_LOG_LEVEL": "info", "CAIRN_PERIOD": "365d", "CAIRN_FREE_RESERVE_BYTES": "0",
                     "CAIRN_ARENA_BYTES": "4M", "CAIRNPY_LIBDIR": str(BUILD / "src"), "OMP_NUM_THREADS": "1",
                     "PYTHONPATH": str(SOURCE / "bindings" / "python"), "PYTHONDONTWRITEBYTECODE": "1"}

    def command(self, *job, **env):
        return {"args": [CAIRN, "run", "--no-check", "--wait", "0s", "--", *map(str, job)],
                "env": self.env | env, "text": True}

    def killed_then_halted(self, *job):
        """The job is killed at step 25 and continues from a checkpoint; a later one is asked to stop."""
        done = subprocess.run(**self.command(*job, 50, JOB_DIE="25"), capture_output=True)
        self.assertEqual(done.returncode, 0, done)
        marks = re.findall(r"(?m)^(began|ended) (\d+)$", done.stdout)
        self.assertEqual([m[0] for m in marks], ["began", "began", "ended"], done)
        self.assertEqual((marks[0][1], marks[2][1]), ("0", "50"))
        self.assertIn(marks[1][1], ("10", "20"))
        self.assertIn("2 starts, 1 failure", done.stderr)
        child = subprocess.Popen(**self.command(*job, 100000000, JOB_STEP_MS="10"), stdout=subprocess.PIPE)
        self.addCleanup(child.kill)
        self.addCleanup(child.stdout.close)
        self.assertIn("began 50\n", iter(child.stdout.readline, ""))
        subprocess.run([CAIRN, "halt", "now"], env=self.env, check=True, capture_output=True)
        last = int(re.search(r"ended (\d+)", child.stdout.read())[1])
        self.assertEqual(child.wait(), 0)
        listed = subprocess.run([CAIRN, "ls", "--json"], env=self.env, check=True, capture_output=True).stdout
        return last, max(v["version"] for v in json.loads(listed)["versions"])

    @unittest.skipUnless((BUILD / "tests" / "job_mpi").exists(), "built without MPI")
    def test_mpirun(self):
        last, newest = self.killed_then_halted(SOURCE / "tools/mpiexec", BUILD, "-n", 2, BUILD / "tests/job_mpi")
        self.assertIn(last - newest, (0, 1))  # its last checkpoint is of the step that stops

    def test_torchrun(self):
        python = python_with_torch()
        if python is None or not (BUILD / "src" / "libcairn_ucx.so").exists():
            self.skipTest("no PyTorch, or built without UCX")
        script = self.tmp / "train.py"
        script.write_text(TRAIN)
        # Redirected by rank: what torch 1.13 makes of the default fails with Python 3.11.
        last, newest = self.killed_then_halted(
            python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "--redirects=1:1",
            "--tee=1:1", f"--log_dir={self.tmp}/log", script)
        self.assertGreaterEqual(last, newest)


if __name__ == "__main__":
    unittest.main()
