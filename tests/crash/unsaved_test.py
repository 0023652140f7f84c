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


def local_job(**keys):
    """A job that keeps its copies on the node's disk, as the VELOC drop-in does."""
    job = Job(keep_local=1000, **keys)
    job.env["CAIRN_LOCAL"] = str(job.dir / "local")
    return job


def restart_of(job, ranks=1, steps=4):
    """The version that the next run restarts from."""
    r = job.run(ranks, steps)
    require(r.returncode == 0, r.stdout)
    return job.said("restarted")[-1]


def truncated():
    """A data file in the store is cut short: the copy on the node's disk is as good."""
    job = local_job()
    require(job.run(1, 4).returncode == 0, "the first run fails")
    path = job.dir / "p/work/3/data-0000"
    path.write_bytes(path.read_bytes()[:1000])
    require(restart_of(job) == 3, "the copy on the node's disk was not used")
    path.unlink()
    require(restart_of(job) == 3, "the copy on the node's disk was not used for a missing file")
    # Without a copy an older version is taken.
    shutil.rmtree(job.dir / "local")
    require(restart_of(job) == 2, "a damaged version was taken")
    job.remove()


def removed():
    """What `cairn rm` removed does not come back from a node's disk or memory."""
    job = local_job()
    require(job.run(1, 4).returncode == 0, "the first run fails")
    r = cairn(job, "rm", "work@3")
    require(r.returncode == 0, r.stdout)
    r = cairn(job, "drain")
    require(r.returncode == 0 and 3 not in versions(job), f"a drain brought it back\n{r.stdout}")
    require(restart_of(job) == 2, "a start brought it back")
    require(restart_of(job) == 3, "taken again it is not there")  # another capture
    job.remove()


def not_lost():
    """A version that fails and that the next start saves is not said to be lost."""
    job = local_job(on_failure="continue")
    job.words = ["20000", "go-on"]
    (job.dir / "p/work").mkdir(parents=True)
    for version in "01":
        (job.dir / "p/work" / version).touch()  # in the way of the version's directory
    r = job.run(1, 2)
    require(r.returncode == 3 and "work@1 is not saved" in r.stdout and " is lost" not in r.stdout,
            r.stdout)
    job.words = []
    for version in "01":
        (job.dir / "p/work" / version).unlink()
    require(restart_of(job) == 1, "the next start does not save it")
    job.remove()


if __name__ == "__main__":
    sys.exit(run_one(__doc__, unpublished, unpublished_nodes, truncated, removed, not_lost))
