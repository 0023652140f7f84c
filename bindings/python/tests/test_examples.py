# SPDX-License-Identifier: BSD-3-Clause
"""The Python programs of examples/, killed and started again. (torch: for tests/python/run)"""
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


def gpt(directory, *more, until=None):
    """Lines of a run; with until, it is killed when it prints that step."""
    process = subprocess.Popen([sys.executable, EXAMPLES / "gpt.py", "--dir", directory, "--steps",
                                "40", "--every", "10", *more], stdout=subprocess.PIPE, text=True)
    lines = []
    for line in process.stdout:
        lines.append(line)
        if until is not None and line.startswith(f"step {until} "):
            process.send_signal(signal.SIGKILL)
            break
    process.stdout.close()
    assert process.wait(800) == (0 if until is None else -signal.SIGKILL)
    return lines


def test_gpt_is_killed_and_continues(place):
    whole = gpt(place / "whole")
    assert len(whole) == 4
    gpt(place / "ck", until=30)
    resumed = gpt(place / "ck")
    assert resumed == whole[-len(resumed):]


def torchrun(place, directory, ranks, steps, dies_at=None):
    """Lines of a run by torchrun, which starts all workers anew after one has been killed."""
    program = [EXAMPLES / "gpt.py"]
    if dies_at is not None:
        program = [Path(__file__).parent / "dies_once.py", place / "died", f"step {dies_at} ", *program]
    # Without -r and -t, torchrun of PyTorch 1.13 fails on Python 3.11. More than one restart: another
    # process may take the port that torchrun found free for its workers.
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max_restarts", "3", "-r",
         "1", "-t", "1", "--log_dir", place / "log", "--nproc_per_node", str(ranks), *program,
         "--dir", directory, "--steps", str(steps), "--every", "10"],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=800)
    assert done.returncode == 0
    assert (place / "died").exists() == (dies_at is not None)
    lines = [line.partition(":")[2] if line.startswith("[") else line
             for line in done.stdout.splitlines()]
    return [line.strip() for line in lines if "step" in line]


def test_torchrun_starts_killed_workers_again(place):
    whole = torchrun(place, place / "whole", 2, 40)
    assert len(whole) == 4
    restarted = torchrun(place, place / "ck", 2, 40, dies_at=20)
    assert restarted[0] == whole[0] and restarted[-1] == whole[-1]
    assert set(restarted) == set(whole)
    more = gpt(place / "ck", "--steps", "60")  # one process goes on with the state of two
    assert [line.split()[1] for line in more] == ["50", "60"]


def test_heat_with_mpi4py(place):
    pytest.importorskip("mpi4py")
    mpi = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n"]

    def heat(ranks, directory, steps):
        done = subprocess.run([*mpi, str(ranks), sys.executable, EXAMPLES / "heat.py", directory,
                               str(steps)], capture_output=True, text=True, timeout=800)
        assert done.returncode == 0, done.stderr
        return done.stdout

    whole = heat(1, place / "whole", 200)
    heat(3, place / "ck", 100)
    assert heat(2, place / "ck", 200) == whole
