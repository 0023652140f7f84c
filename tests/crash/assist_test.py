#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Nodes that write for others: slow, failing and killed ones.

usage: assist_test.py SCENARIO    (see the functions named after them)"""
import re
import sys

sys.dont_write_bytecode = True
from jobs import STEPS, Job, every_call, newest, require, run_one


def assisted(output):
    """Bytes that nodes wrote for others, by (writer, leader)."""
    found = {}
    for m in re.finditer(r"node (\d+): \S+: (\d+) bytes of 'data-\S+' for node (\d+)", output):
        key = int(m[1]), int(m[3])
        found[key] = found.get(key, 0) + int(m[2])
    return found


def no_half_files(job, what):
    """A failed version leaves no data file behind, a good one only its own."""
    for version in (job.dir / "p/work").glob("[0-9]*"):
        names = {p.name for p in version.iterdir()}
        require("manifest" in names or not names, f"{what}: {version} holds {names}")


def assist_job(**keys):
    """Three nodes of a rank each; node 0 leads the first file and writes slowly."""
    job = Job(ranks_per_node=1, block_bytes="16K", chunk_bytes="4K", log_level="debug", **keys)
    job.faults[0] = "at=1,action=delay,ms=5,ops=write,sticky=1"
    return job


def assist_fails(job, ranks, victim, k):
    """Its k-th file operation fails."""
    job.reset()
    what = f"operation {k} of node {victim} fails"
    r = job.run(ranks, 2, f"at={k},action=fail,errno=5", victim)
    require(r.returncode in (0, 3), f"{what}: exit {r.returncode}\n{r.stdout}")
    no_half_files(job, what)
    job.check_restart(ranks, newest(job, "persistent"), what)
    job.check_clean(what)


def assist():
    """A slow leader is assisted, by its own group or another. A failing assistant costs at most the version, and
    leaves nothing behind."""
    for keys, ranks, helper in (({"files": 1, "leaders_per_file": 2, "reroute": "off"}, 3, 1),
                                ({"files": 1, "leaders_per_file": "auto", "reroute": "off"}, 3, 1),
                                ({"files": 2, "leaders_per_file": 1, "reroute": "on"}, 4, 2)):
        job = assist_job(**keys)
        r = job.run(ranks)
        require(r.returncode == 0, f"{keys}: exit {r.returncode}\n{r.stdout}")
        require(assisted(r.stdout).get((helper, 0), 0) > 0, f"{keys}: no help\n{r.stdout}")
        most = [int(m) for m in re.findall(r"most blocks (\d+)", r.stdout)]
        require(most and max(most) <= 2, f"{keys}: {max(most)} blocks in use")
        job.check_restart(ranks, STEPS - 1, str(keys))
        job.check_clean(str(keys))
        # Off: no node assists.
        job.reset()
        job.env.update(CAIRN_LEADERS_PER_FILE="1", CAIRN_REROUTE="off")
        r = job.run(ranks)
        require(r.returncode == 0 and not assisted(r.stdout), f"help that is off:\n{r.stdout}")
        # An operation of the helper fails.
        job.env.update({"CAIRN_" + k.upper(): str(v) for k, v in keys.items()})
        assist_fails(job, ranks, helper, 4)
        job.remove()
    print("assist: all well")


def assist_late():
    """An assistant hangs in a write for longer than commit_timeout. The leader gives it up and writes the version
    alone; a retry may use the same file name. The late write does no harm."""
    job = assist_job(files=1, leaders_per_file=2, commit_timeout="2s", phase_patience="0s",
                     retry_delay="1ms")
    for on_failure in ("strict", "retry"):
        job.reset()
        job.env["CAIRN_ON_FAILURE"] = on_failure
        r = job.run(3, 2, "at=1,action=delay,ms=5000,ops=write", 1)
        require("node 1, which assists, said nothing within commit_timeout" in r.stdout,
                f"{on_failure}: the hang was not noticed\n{r.stdout}")
        require(r.returncode == (0 if on_failure == "retry" else 3),
                f"{on_failure}: exit {r.returncode}\n{r.stdout}")
        no_half_files(job, on_failure)
        job.check_restart(3, 1 if on_failure == "retry" else -1, on_failure)
        job.check_clean(on_failure)
    job.remove()
    print("late assistant: all well")


def follower_fails():
    """A follower cannot read data that the leader requests: each version fails with that reason, and no node
    hangs."""
    job = Job(ranks_per_node=1, files=1, leaders_per_file=1, on_failure="continue", arena_bytes="64K",
              arena_full="spill")
    job.env["CAIRN_LOCAL"] = str(job.dir / "local")
    job.words = ["20000", "go-on"]
    r = job.run(2, 4, "at=1,action=fail,errno=5,ops=read,sticky=1", 1)
    lost = set(re.findall(r"work@(\d+) is not saved: read .* of 'spilled image': Input/output error", r.stdout))
    require(r.returncode == 3 and lost == {"0", "1", "2", "3"},
            f"exit {r.returncode}, lost {lost}\n{r.stdout}")
    no_half_files(job, "follower fails")
    job.words = []
    job.env["CAIRN_RESTART_UNSAVED"] = "older"  # half of a version is lost for good
    job.check_restart(2, -1, "follower fails")
    job.check_clean("follower fails")
    job.remove()
    print("follower fails: all well")


def assist_kill():
    """An assistant or a leader dies at each file operation, or the operation fails."""
    for keys, ranks, victims in (({"files": 1, "leaders_per_file": 2, "reroute": "off"}, 3, (0, 1)),
                                 ({"files": 2, "leaders_per_file": 1, "reroute": "on"}, 4, (0, 2))):
        job = assist_job(**keys)
        for victim in victims:
            every_call(job, ranks, "action=kill", stride=5, victim=victim, limit=40)
            for k in range(1, 30, 6):
                assist_fails(job, ranks, victim, k)
        job.remove()
    print("assist, killed: all well")


if __name__ == "__main__":
    sys.exit(run_one(__doc__, assist, assist_late, follower_fails, assist_kill))
