# SPDX-License-Identifier: BSD-3-Clause
"""The Python of README.md, docs/python.md and docs/torch.md, as it stands there: run, killed, run again.
(torch: for tests/python/run)"""
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

TRAINING = """
import json, os, signal, sys
import torch
import cairn.torch
torch.set_num_threads(1)
torch.manual_seed(1)
model, last, directory = torch.nn.Linear(8, 3), 300, sys.argv[1]
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
losses = {}

def train(step):
    if step == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    optimizer.zero_grad()
    loss = (model(torch.randn(4, 8)) ** 2).mean()
    loss.backward()
    optimizer.step()
    losses[step] = loss.item()
"""
REPORT = """
ck.close()
json.dump(losses, sys.stdout)
"""


def blocks(page, has):
    """The Python blocks of a page that contain a text."""
    found = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)
    found = [block for block in found if has in block]
    assert found, f"{page} has no Python with {has}"
    return found


def run(script, *arguments, status=0):
    done = subprocess.run([sys.executable, "-c", script, *map(str, arguments)], capture_output=True,
                          text=True, timeout=400)
    assert done.returncode == status, done.stderr
    return done.stdout


@pytest.mark.parametrize("page", ["README.md", "docs/torch.md"])
def test_the_lines_of_a_torch_user(place, page):
    block = blocks(page, "ck.load() or 0")[0]
    if page == "README.md":
        assert len(block.splitlines()) == 5  # as the text before them says
    script = TRAINING + block.replace('"/lustre/me/ck"', "directory") + REPORT
    whole = json.loads(run(script, place / "whole", 0))
    assert len(whole) == 300
    run(script, place / "ck", 250, status=-signal.SIGKILL)
    resumed = json.loads(run(script, place / "ck", 0))
    assert len(resumed) in (100, 200) and "300" in resumed
    assert all(whole[step] == loss for step, loss in resumed.items())


def test_the_batches(place):
    block, = blocks("docs/torch.md", "Batches(loader)")
    script = TRAINING + """
epochs, seen = 2, []
loader = torch.utils.data.DataLoader(torch.arange(10.0), 3, shuffle=True)
""" + block.replace("...", "seen.append(batch.tolist())") + """
ck.save(1)
ck.close()
json.dump(seen, sys.stdout)
"""
    assert sorted(sum(json.loads(run(script, place / "ck", 0)), [])) == sorted(2 * list(range(10)))
    assert json.loads(run(script, place / "ck", 0)) == []


def test_the_simulation_and_its_store(place):
    heat, = blocks("docs/python.md", "cairn.Session(persistent=")
    store, = blocks("docs/python.md", "cairn.open_store(")
    script = "import sys\n" + (heat + "print(t[0], step)\n" + store + "print(part[0], whole[-1])\n").replace(
        '"/lustre/me/checkpoints"', "sys.argv[1]")
    killed = script.replace("        step += 1\n", "        step += 1\n        if step == 650:\n"
                            "            import os\n            os.kill(os.getpid(), 9)\n")
    assert killed != script
    run(killed, place / "ck", status=-signal.SIGKILL)
    assert run(script, place / "ck") == "1000.0 1000\n900.0 1000.0\n"
