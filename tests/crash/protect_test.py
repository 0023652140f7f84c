#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Nodes that are lost with their memory. Nothing reaches the file system before the job dies: what comes
back comes from captures and parity of the nodes that are left, byte for byte (the worker checks).

usage: protect_test.py SCENARIO    (see the functions named after them)"""
import itertools
import json
import random
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from flip_test import pattern
from jobs import (CAIRN, IS_ALL, PATIENCE, Job, cairn, kill, newest, require, run_one, workers_of)


def protected_job(nodes, scheme, last=1, **keys):
    """A job with a node for each rank, killed when version `last` is protected."""
    job = Job(ranks_per_node=1, protect=scheme, failure_domain="node", protect_set=nodes,
              persistent_every=0, **keys)
    job.env["CAIRN_TEST_PROTECTED"] = job.env["CAIRN_TEST_ONLY_CAPTURED"] = "1"
    job.env["CAIRN_TEST_LIMIT"] = str(job.dir / "limit")
    job.words = ["30011"]
    (job.dir / "limit").write_text(str(last))
    process = job.start(nodes)
    deadline = time.monotonic() + PATIENCE
    while newest(job, "protected") < last:
        require(time.monotonic() < deadline and process.poll() is None,
                f"{scheme}: version {last} is not protected; log: {job.said('captured')}")
        time.sleep(0.01)
    for pid in workers_of(process.pid):
        kill(pid)
    process.wait()
    require(not list((job.dir / "p").glob("work/*/data-*")), f"{scheme}: there was a flush")
    for key in ("CAIRN_TEST_PROTECTED", "CAIRN_TEST_ONLY_CAPTURED", "CAIRN_TEST_LIMIT"):
        del job.env[key]
    return job


def keep(job, name):
    """The job's state, to be lost in several ways."""
    shutil.copytree(job.dir / "shm", job.dir / name, ignore=shutil.ignore_patterns("sock"))


def restore(job, name):
    job.reset()
    shutil.copytree(job.dir / name, job.dir / "shm")


def lose(job, lost):
    for node in lost:
        paths = list((job.dir / "shm").glob(f"cairn-*/*-n{node}"))
        require(len(paths) == 1, f"node {node} left {paths}")
        shutil.rmtree(paths[0])


def drained(job):
    r = cairn(job, "drain", "--json")
    return [e for e in json.loads(r.stdout)["drained"]]


def committed(job):
    return [e["version"] for e in drained(job) if e["what"] == "committed"]


def check_losses(nodes, scheme, survives, subsets):
    """Every loss that the scheme survives brings the newest version back; a larger one that it does not
    brings nothing, and says so."""
    job = protected_job(nodes, scheme)
    keep(job, "kept")
    for lost in subsets:
        restore(job, "kept")
        lose(job, lost)
        saved = committed(job)
        what = f"{scheme}, {nodes} nodes, without {lost}"
        if survives(lost):
            require(1 in saved, f"{what}: {saved} came back")
            require(cairn(job, "verify").returncode == 0, f"{what}: not whole")
            require(not list((job.dir / "p").glob("work/*/parity-*")), f"{what}: parity stays")
            job.check_restart(nodes, 1, what)
            job.check_clean(what)
        else:
            require(saved == [], f"{what}: {saved} came back")
    job.remove()


def losses(nodes, most, sample):
    """Every subset of up to so many nodes; without CAIRN_TEST_ALL a sample of them."""
    every = [lost for n in range(most + 1) for lost in itertools.combinations(range(nodes), n)]
    return every if IS_ALL else random.Random(21).sample(every, min(sample, len(every)))


def partner():
    """A ring of three copies: one node may be lost."""
    check_losses(3, "partner", lambda lost: len(lost) < 2, losses(3, 2, 4))


def xor():
    check_losses(4, "xor", lambda lost: len(lost) < 2, losses(4, 2, 4))


def rs():
    """Two of five may be lost."""
    check_losses(5, "rs:2", lambda lost: len(lost) < 3, losses(5, 3, 5))


def drain_until_done(job, what):
    """What an interrupted drain left, the next one finishes."""
    drained(job)
    require(cairn(job, "verify").returncode == 0 and (job.dir / "p/work/1/manifest").exists(),
            f"{what}: version 1 did not come back")
    if list((job.dir / "p").glob("work/*/parity-*")): # killed between the commit and their removal: debris
        cairn(job, "sweep")
    require(not list((job.dir / "p").glob("work/*/parity-*")), f"{what}: parity stays")
    job.check_clean(what)


def drain_interrupted():
    """A drain that rebuilds the data of a lost node is killed, torn or fails at every file operation."""
    job = protected_job(3, "xor")
    keep(job, "kept")
    count = job.dir.with_suffix(".count")
    for action in ("action=kill", "action=tear,ops=write", "action=fail,errno=5"):
        places = 0
        for k in itertools.count(1, 1 if IS_ALL else 3 if "tear" in action else 41):
            restore(job, "kept")
            lose(job, [1])
            count.unlink(missing_ok=True)
            r = subprocess.run([str(CAIRN), "drain"], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               env=dict(job.env, CAIRN_FAULT_FS=f"at={k},{action}", CAIRN_FAULT_COUNT=str(count)))
            drain_until_done(job, f"drain, {action} at file operation {k}")
            if count.exists() and int(count.read_text()) < k:
                break
            require(r.returncode >= 0 or "fail" not in action, f"{action} at file operation {k}: a crash")
            places += 1
        require(places >= 3, f"{action}: only {places} file operations were reached")
        print(f"{action}: {places} places, all well")
    count.unlink(missing_ok=True)
    job.check_restart(3, 1, "interrupted drains")
    job.remove()


def node_lost_in_drain():
    """A drain that rebuilds a lost node's data is killed at every file operation, and a second node is lost with it.
    Two of four may be lost."""
    job = protected_job(4, "rs:2")
    keep(job, "kept")
    places = 0
    for k in itertools.count(1, 1 if IS_ALL else 41):
        restore(job, "kept")
        lose(job, [1])
        r = subprocess.run([str(CAIRN), "drain"], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           env=dict(job.env, CAIRN_FAULT_FS=f"at={k},action=kill"))
        if r.returncode == 0:
            break
        second = (0, 2, 3)[k % 3]
        for path in (job.dir / "shm").glob(f"cairn-*/*-n{second}"): # it may be saved and removed already
            shutil.rmtree(path)
        drain_until_done(job, f"drain killed at file operation {k}, node {second} lost, too")
        places += 1
    require(places >= 3, f"only {places} file operations were reached")
    print(f"{places} places, all well")
    job.check_restart(4, 1, "nodes lost in drains")
    job.remove()


def await_protected(job, process, last):
    """Until the version is protected or the job has ended; then all its processes die."""
    deadline = time.monotonic() + PATIENCE
    while newest(job, "protected") < last and process.poll() is None:
        require(time.monotonic() < deadline, f"version {last} is not protected, and the job goes on")
        time.sleep(0.01)
    for pid in workers_of(process.pid):
        kill(pid)
    process.wait()


def made_with_errors():
    """A file operation of a service fails while parity is made. The job dies, and another node is lost: what was
    reported as protected comes back."""
    job = Job(ranks_per_node=1, protect="xor", failure_domain="node", protect_set=3, persistent_every=0,
              restart_unsaved="older")
    job.words = ["5011"]
    job.env["CAIRN_TEST_PROTECTED"] = job.env["CAIRN_TEST_ONLY_CAPTURED"] = "1"
    (job.dir / "limit").write_text("2")
    count = job.dir / "count"
    promises = 0
    for victim, errno in ((0, 28), (1, 5)):
        job.reset()
        r = job.run(3, 3, "at=1000000000,action=fail", victim, CAIRN_FAULT_COUNT=str(count))
        require(r.returncode == 0 and int(count.read_text()) > 50, f"no file operations:\n{r.stdout}")
        for k in range(2 + victim, int(count.read_text()), 1 if IS_ALL else 23):
            job.reset()
            job.faults = {victim: f"at={k},action=fail,errno={errno}"}
            job.env["CAIRN_TEST_LIMIT"] = str(job.dir / "limit")
            await_protected(job, job.start(3), 2)
            del job.env["CAIRN_TEST_LIMIT"]
            job.faults = {}
            lost = (victim + 1 + k % 2) % 3
            for path in (job.dir / "shm").glob(f"cairn-*/*-n{lost}"):
                shutil.rmtree(path)
            what = f"errno {errno} at file operation {k} of node {victim}, node {lost} lost"
            promised = newest(job, "protected")
            promises += promised >= 0
            job.check_restart(3, promised, what)
            job.check_clean(what)
    require(promises >= 4, f"only {promises} jobs have protected anything")
    print(f"{promises} promises, all kept")
    job.remove()


def died_at_any_time():
    """A node dies at any file operation of its service, with its memory: while parity is made, while versions are
    flushed. What was reported as protected comes back."""
    job = Job(ranks_per_node=1, protect="xor", failure_domain="node", protect_set=3, persistent_every=2,
              restart_unsaved="older")
    job.env["CAIRN_TEST_PROTECTED"] = "1"
    job.words = ["5011"]
    places = 0
    for victim, action, sample in ((0, "action=kill", 61), (1, "action=kill", 61), (1, "action=tear,ops=write", 17)):
        for k in itertools.count(2 + 7 * victim, 1 if IS_ALL else sample):
            job.reset()
            r = job.run(3, 5, f"at={k},{action}", victim)
            if r.returncode == 0:
                break
            what = f"node {victim} dies at file operation {k}, {action}"
            for path in (job.dir / "shm").glob(f"cairn-*/*-n{victim}"):
                shutil.rmtree(path)
            job.check_restart(3, newest(job, "protected", "persistent"), what)
            job.check_clean(what)
            places += 1
    require(places >= 4, f"only {places} file operations were reached")
    print(f"{places} places, all well")
    job.remove()


def scrub_job(ranks, has_local=False, **keys):
    """A job that stands still with version 1 on its nodes, and whose services scrub."""
    job = Job(ranks_per_node=1, persistent_every=0, scrub="100ms", **keys)
    job.env["CAIRN_TEST_ARRAY"] = job.env["CAIRN_TEST_ONLY_CAPTURED"] = "1"
    job.env["CAIRN_TEST_LIMIT"] = str(job.dir / "limit")
    job.env["CAIRN_TEST_CAPTURED" if has_local else "CAIRN_TEST_PROTECTED"] = "1"
    if has_local:
        job.env["CAIRN_LOCAL"] = str(job.dir / "local")
        (job.dir / "local").mkdir()
    job.words = ["900011"]
    (job.dir / "limit").write_text("1")
    process = job.start(ranks)
    wait_for(lambda: newest(job, "captured" if has_local else "protected") == 1, "version 1")
    return job, process


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE / 3
    while not condition():
        require(time.monotonic() < deadline, f"{what}: in vain")
        time.sleep(0.02)


def arena_of(job, rank):
    return next((job.dir / "shm").glob(f"cairn-*/*-n{rank}/arena-{rank}"))


def place_of(job, path, rank, ranks):
    """Where the file has some byte of version 1."""
    word = int(job.words[0]) * rank * rank // (ranks * ranks) + 10
    at = path.read_bytes().find(pattern(1, 0, word).to_bytes(8, "little"))
    require(at >= 0, f"version 1 is not in {path}")
    return at


def flip(path, at):
    """Returns the byte that was there."""
    with path.open("r+b") as f:
        f.seek(at)
        byte = f.read(1)
        f.seek(at)
        f.write(bytes([byte[0] ^ 4]))
    return byte


def is_back(path, at, byte):
    with path.open("rb") as f:
        f.seek(at)
        return f.read(1) == byte


def journal(job):
    path = job.dir / "p/work/.journal"
    return path.read_text() if path.exists() else ""


def end_job(job, process):
    for pid in workers_of(process.pid):
        kill(pid)
    process.wait()
    for key in ("CAIRN_TEST_LIMIT", "CAIRN_TEST_ONLY_CAPTURED"):
        del job.env[key]


def scrubbed():
    """Idle services find flipped bits in captures and in parity and repair them from their set, even both at once.
    Then the job dies, and a node is lost."""
    for scheme, nodes in (("xor", 3), ("rs:2", 4)):
        job, process = scrub_job(nodes, protect=scheme, failure_domain="node", protect_set=nodes)
        arena = arena_of(job, 1)
        at = place_of(job, arena, 1, nodes)
        parity = max((job.dir / "shm").glob("cairn-*/*-n2/parity-*"), key=lambda p: int(p.name.split("-")[1]))
        hit = parity.stat().st_size // 3
        byte = flip(arena, at)
        other = flip(parity, hit)
        wait_for(lambda: is_back(arena, at, byte), f"{scheme}: a repair of the capture")
        wait_for(lambda: is_back(parity, hit, other), f"{scheme}: a repair of the parity")
        for text in ("the capture in memory of node 1 was damaged and was repaired from the other nodes of its set",
                     "the parity of node 2 was damaged and was repaired from the data of its set"):
            wait_for(lambda: text in journal(job), text)
        end_job(job, process)
        lose(job, [0])
        require(1 in committed(job), f"{scheme}: version 1 did not come back")
        job.check_restart(nodes, 1, scheme)
        job.remove()


def scrubbed_local():
    """Captures are repaired from their local copies, and these from memory. What has no other copy is reported."""
    job, process = scrub_job(2, has_local=True)
    arena = arena_of(job, 1)
    at = place_of(job, arena, 1, 2)
    local = next((job.dir / "local").glob("cairn-*/work/1/data-0001*"))
    hit = place_of(job, local, 1, 2)
    byte = flip(arena, at)
    wait_for(lambda: is_back(arena, at, byte), "a repair of the capture")
    wait_for(lambda: "the capture in memory of node 1 was damaged and was repaired from its local copy" in journal(job),
             "the journal")
    flip(local, hit)
    wait_for(lambda: is_back(local, hit, byte), "a repair of the local copy")
    wait_for(lambda: "the local copy of node 1 was damaged and was repaired from memory" in journal(job), "the journal")
    flip(arena, at)
    flip(local, hit)
    wait_for(lambda: "of node 1 is damaged; not repaired: " in journal(job), "a report")
    require(not is_back(arena, at, byte) and not is_back(local, hit, byte), "something was repaired from nothing")
    end_job(job, process)
    job.remove()


if __name__ == "__main__":
    sys.exit(run_one(__doc__, partner, xor, rs, drain_interrupted, node_lost_in_drain, made_with_errors,
                     died_at_any_time, scrubbed, scrubbed_local))
