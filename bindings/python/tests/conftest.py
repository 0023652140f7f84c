# SPDX-License-Identifier: BSD-3-Clause
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest


@pytest.fixture
def place(monkeypatch):
    """A directory for everything of a session, with a name that is short enough for sockets."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="cpy", dir=os.environ.get("CAIRN_TEST_MEMORY", "/dev/shm")))
    monkeypatch.setenv("CAIRN_SHM_DIR", str(path))
    monkeypatch.setenv("CAIRN_RUN_DIR", str(path / "run"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def job(place):
    """Runs a script in several processes that meet in a directory: job(script, ranks, *args). The
    script finds rank, ranks and meeting. Returns the exit statuses."""
    count = [0]

    def run(script, ranks, *args, env=None):
        count[0] += 1
        head = ("import os, sys, signal, cairn, numpy as np\n"
                "rank, ranks, args = int(sys.argv[1]), int(sys.argv[2]), sys.argv[4:]\n"
                "meeting = cairn.FileRendezvous(sys.argv[3], rank, ranks, timeout=600)\n")
        meeting = place / f"meeting{count[0]}"
        meeting.mkdir(mode=0o700)
        children = [subprocess.Popen([sys.executable, "-c", head + script, str(rank), str(ranks),
                                      str(meeting), *map(str, args)],
                                     env={**os.environ, **(env or {})})
                    for rank in range(ranks)]
        try:
            return [child.wait(timeout=800) for child in children]
        finally:
            for child in children:
                if child.poll() is None:
                    child.kill()
                    child.wait()
    return run
