#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Captures that are acknowledged and not committed: how they are published, and what a restart does while they are
out of reach.

usage: unsaved_test.py SCENARIO    (see the functions named after them)"""
import json
import shutil
import sys
import time

sys.dont_write_bytecode = True
from jobs import (PATIENCE, SINGLE, WORKER, Job, cairn, kill, newest, require, run_one,
                  workers_of)


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
    # Without the tool: the next run publishes it, too.
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
    """A data file in the store is truncated: the copy on the node's disk replaces it."""
    job = local_job()
    require(job.run(1, 4).returncode == 0, "the first run fails")
    path = job.dir / "p/work/3/data-0000"
    path.write_bytes(path.read_bytes()[:1000])
    require(restart_of(job) == 3, "the copy on the node's disk was not used")
    path.unlink()
    require(restart_of(job) == 3, "the copy on the node's disk was not used for a missing file")
    # Without a copy the restart takes an older version.
    shutil.rmtree(job.dir / "local")
    require(restart_of(job) == 2, "a damaged version was taken")
    job.remove()


def removed():
    """A version that `cairn rm` removed does not come back from a node's disk or memory."""
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
    """A version that fails and that the next start saves is not reported as lost."""
    job = local_job(on_failure="continue")
    job.words = ["20000", "go-on"]
    (job.dir / "p/work").mkdir(parents=True)
    for version in "01":
        (job.dir / "p/work" / version).touch()  # blocks the version's directory
    r = job.run(1, 2)
    require(r.returncode == 3 and "work@1 is not saved" in r.stdout and " is lost" not in r.stdout,
            r.stdout)
    job.words = []
    for version in "01":
        (job.dir / "p/work" / version).unlink()
    require(restart_of(job) == 1, "the next start does not save it")
    job.remove()


def drained(job):
    """Versions that a drain commits, in its order."""
    r = cairn(job, "drain", "--json")
    require(r.returncode == 0, r.stdout)
    return [e["version"] for e in json.loads(r.stdout)["drained"] if e["what"] == "committed"]


def newest_first():
    """A drain saves the newest versions first, and none that keep_last would remove at once."""
    job = local_job(keep_last=3, keep_every=4)
    require(job.run(1, 12).returncode == 0, "the first run fails")
    kept = sorted(versions(job))
    require(kept == [0, 4, 8, 9, 10, 11], f"retention kept {kept}")
    require(drained(job) == [], "a drain brings back what retention removed")
    shutil.rmtree(job.dir / "p")
    require(drained(job) == [11, 10, 9, 8, 4, 0], "not the newest first, or more than is kept")
    require(cairn(job, "verify").returncode == 0, "what was drained is not whole")
    job.remove()


def slow_flush(job, ranks):
    """Starts a run whose flushes never end, and returns it when it has captured a version."""
    before = job.env
    job.env = dict(before, CAIRN_FREE_RESERVE_BYTES="1000T")  # it waits for space
    p = job.start(ranks, 1)
    job.env = before
    deadline = time.monotonic() + PATIENCE
    while newest(job, "captured") < 0 and time.monotonic() < deadline:
        require(p.poll() is None, "the run has ended")
        time.sleep(0.01)
    return p


def kill_run(p, program):
    for pid in workers_of(p.pid, program) or [p.pid]:
        kill(pid)
    p.wait()


def refused(job, ranks, what, **env):
    """A start that knows of a newer version and does not continue without it."""
    r = job.run(ranks, 4, **env)
    require(r.returncode == 3 and "CAIRN_EUNSAVED" in r.stdout and "work@0" in r.stdout,
            f"{what}: exit {r.returncode}\n{r.stdout}")
    require(job.said("restarted")[-1] == -1 and newest_ok(job) == -1, f"{what}: it went on")


def unsaved_memory():
    """The drain at the start fails: the captured version is neither lost nor passed over silently."""
    job = Job()
    kill_run(slow_flush(job, 1), SINGLE)
    shutil.rmtree(job.dir / "p", ignore_errors=True)
    (job.dir / "p/work").mkdir(parents=True)
    (job.dir / "p/work/0").touch()  # blocks the version's directory
    refused(job, 1, "failed drain")
    (job.dir / "p/work/0").unlink()
    job.check_restart(1, 0, "after the obstacle is gone")
    job.check_clean("after the obstacle is gone")
    job.remove()


def unsaved_alive():
    """A living process holds a newer version: a start waits for it, and then fails."""
    job = Job()
    p = slow_flush(job, 1)
    refused(job, 1, "living process", CAIRN_WAIT_TIMEOUT="100ms")
    kill_run(p, SINGLE)
    job.check_restart(1, 0, "after its death")
    job.remove()


def unsaved_nodes():
    """A node is lost with its part of a version that all had captured: all ranks fail alike, or continue."""
    for older in (False, True):
        job = Job(ranks_per_node=2)
        kill_run(slow_flush(job, 4), WORKER)
        for path in (job.dir / "shm").glob("cairn-*/*-n1"):
            shutil.rmtree(path)
        if older:
            r = job.run(4, 4, CAIRN_RESTART_UNSAVED="older", CAIRN_LOG_LEVEL="warn")
            require(r.returncode == 0 and job.said("restarted")[-1] == -1 and
                    r.stdout.count("an older version is restarted from") == 1, r.stdout)
        else:
            refused(job, 4, "lost node")
            refused(job, 4, "lost node, once more")
        job.remove()


def run_until_captured(job, ranks, version):
    """Starts a run that takes the versions up to this one and waits for no flush; returns it when all ranks
    have captured the last."""
    (job.dir / "limit").write_text(f"{version}\n")
    before = job.env
    job.env = dict(before, CAIRN_TEST_LIMIT=str(job.dir / "limit"), CAIRN_TEST_ONLY_CAPTURED="1")
    p = job.start(ranks, version + 2)
    job.env = before
    deadline = time.monotonic() + PATIENCE
    while newest(job, "captured") < version and time.monotonic() < deadline:
        require(p.poll() is None, "the run has ended")
        time.sleep(0.01)
    return p


def await_version(job, version):
    deadline = time.monotonic() + PATIENCE
    while versions(job).get(version) != "ok" and time.monotonic() < deadline:
        time.sleep(0.05)
    require(versions(job).get(version) == "ok", f"version {version} is not flushed")


def check_held(job, ranks, program):
    """Versions 0 to 6, of which 3 is due: all processes die while 6 is only in memory."""
    for drains in (True, False):
        job.reset()
        p = run_until_captured(job, ranks, 6)
        await_version(job, 3)
        kill_run(p, program)
        require(versions(job) == {3: "ok"}, f"not only the version that was due: {versions(job)}")
        if drains:
            done = drained(job)
            require(done[:1] == [6], f"a drain saves {done}")
            require(versions(job)[6] == "ok" and cairn(job, "verify").returncode == 0,
                    "what was drained is not whole")
        before = len(job.said("restarted"))
        r = job.run(ranks, 8)
        require(r.returncode == 0, r.stdout)
        require(job.said("restarted")[before:] == [6], f"not from the newest\n{r.stdout}")
        job.check_clean("after the restart")
    job.remove()


def held():
    """Versions that are not due are in memory alone: a drain and a restart find the newest."""
    check_held(Job(persistent_every=4, keep_protected=2), 1, SINGLE)


def held_local():
    """The memory of the node is lost, too: a drain and a restart find the newest version on its disk."""
    for drains in (True, False):
        job = local_job(persistent_every=0)
        job.env["CAIRN_TEST_CAPTURED"] = "local"
        kill_run(run_until_captured(job, 1, 5), SINGLE)
        shutil.rmtree(job.dir / "shm")
        require(versions(job) == {}, "a version was flushed")
        require(not drains or drained(job) == [5], "a drain does not save the newest")
        require(restart_of(job, steps=7) == 5, "a restart does not find the newest")
        job.remove()


def held_nodes():
    """The same with two nodes."""
    check_held(Job(persistent_every=4, ranks_per_node=2), 4, WORKER)


if __name__ == "__main__":
    sys.exit(run_one(__doc__, unpublished, unpublished_nodes, truncated, removed, not_lost,
                     newest_first, unsaved_memory, unsaved_alive, unsaved_nodes, held, held_local, held_nodes))
