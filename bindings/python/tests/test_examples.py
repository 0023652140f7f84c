# SPDX-License-Identifier: BSD-3-Clause
"""The Python programs of examples/, killed and started again. (torch: for tests/python/run)"""
import pathlib
import signal
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples"


def gpt(directory, until=None):
    """Lines of a run; with until, it is killed when it prints that step."""
    process = subprocess.Popen([sys.executable, EXAMPLES / "gpt.py", "--dir", directory, "--steps",
                                "40", "--every", "10"], stdout=subprocess.PIPE, text=True)
    lines = []
    for line in process.stdout:
        lines.append(line)
        if until is not None and line.startswith(f"step {until} "):
            process.send_signal(signal.SIGKILL)
            break
    process.stdout.close()
    assert process.wait(120) == (0 if until is None else -signal.SIGKILL)
    return lines


def test_gpt_is_killed_and_continues(place):
    whole = gpt(place / "whole")
    assert len(whole) == 4
    gpt(place / "ck", until=30)
    resumed = gpt(place / "ck")
    assert resumed == whole[-len(resumed):]


def test_heat_with_mpi4py(place):
    pytest.importorskip("mpi4py")
    mpi = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n"]

    def heat(ranks, directory, steps):
        done = subprocess.run([*mpi, str(ranks), sys.executable, EXAMPLES / "heat.py", directory,
                               str(steps)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    whole = heat(1, place / "whole", 200)
    heat(3, place / "ck", 100)
    assert heat(2, place / "ck", 200) == whole
