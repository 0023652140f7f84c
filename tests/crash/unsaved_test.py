#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Captures that are acknowledged and not committed: what publishes them, and what a restart does while
they are out of reach.

usage: unsaved_test.py SCENARIO    (see the functions named after them)"""
import json
import shutil
import sys

sys.dont_write_bytecode = True
from jobs import Job, cairn, require, run_one


def versions(job):
    """State of each version of the job, by version."""
    r = cairn(job, "ls", "--json")
    require(r.returncode == 0, r.stdout)
    return {v["version"]: v["state"] for v in json.loads(r.stdout)["versions"]}


def newest_ok(job):
    return max((v for v, state in versions(job).items() if state == "ok"), default=-1)


def die_before_manifest(job, ranks):
    """A run whose first node dies between the data files and the manifest; the arenas are lost."""
    for at in range(1, 20):
        job.reset()
        job.run(ranks, 4, f"at={at},action=kill,ops=rename")
        shutil.rmtree(job.dir / "shm", ignore_errors=True)
        swept = json.loads(cairn(job, "sweep", "--min-age", "0", "--json").stdout)["swept"]
        if any(s["complete"] for s in swept):
            return
    require(False, "no run dies between its data and its manifest")


def check_unpublished(job, ranks):
    die_before_manifest(job, ranks)
    before = newest_ok(job)
    r = cairn(job, "drain", "--json")
    done = [e["version"] for e in json.loads(r.stdout)["drained"] if e["what"] == "committed"]
    require(r.returncode == 0 and done and max(done) > before, r.stdout)
    require(newest_ok(job) == max(done), "what was published is not there")
    require(cairn(job, "verify").returncode == 0, "what was published is not whole")
    job.check_restart(ranks, max(done), "after a drain")
    # Without the tool: the next run does the same.
    die_before_manifest(job, ranks)
    job.check_restart(ranks, newest_ok(job) + 1, "without a drain")


def unpublished():
    """Whole data files without a manifest are published by a drain and by the next restart."""
    job = Job()
    check_unpublished(job, 1)
    job.remove()


def unpublished_nodes():
    """The same with two nodes."""
    job = Job(ranks_per_node=2)
    check_unpublished(job, 4)
    job.remove()


if __name__ == "__main__":
    sys.exit(run_one(__doc__, unpublished, unpublished_nodes))
