#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Restarts that are interrupted: ranks die or hang, or lack memory or descriptors; and drains of damaged files.

usage: restart_test.py SCENARIO    (see the functions named after them)"""
import os
import pathlib
import shutil
import signal
import sys
import time

sys.dont_write_bytecode = True
from jobs import IS_ALL, PATIENCE, STEPS, Job, cairn, kill, rank_of, require, run_one, send, workers_of


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        require(time.monotonic() < deadline, f"{what}: nothing happens for {PATIENCE} s")
        time.sleep(0.002)


def killed():
    """A rank dies while ranks read a version together, during its reads.
    MPI ends the job within a minute; the next one finds the version. A failed read costs the version on all ranks
    alike."""
    job = Job(ranks_per_node=2, files=1, block_bytes="512K", chunk_bytes="64K")
    job.words = ["100000"]
    r = job.run(4)
    require(r.returncode == 0, f"the first run fails with {r.returncode}:\n{r.stdout}")
    for victim in (0, 1, 3):
        places = 0
        for k in range(1, 200, 4 if victim == 0 else 1):
            r = job.run(4, fault=f"at={k},action=kill,ops=read", victim=victim)
            if r.returncode == 0:
                break
            what = f"rank {victim} killed at read {k}"
            job.check_restart(4, STEPS - 1, what)
            job.check_clean(what)
            places += 1
        require(places >= 2, f"rank {victim} hardly reads: {places}")
        print(f"rank {victim}: killed at {places} reads, all well")
    for k in (1, 2):
        r = job.run(4, fault=f"at={k},action=fail,errno=5,ops=read", victim=2)
        require(r.returncode == 0, f"read {k} failed: exit {r.returncode}\n{r.stdout}")
        require(job.said("restarted")[-1] == STEPS - 2, f"read {k} failed: {job.said('restarted')}")
        job.check_clean(f"read {k} failed")
    job.remove()
    print("restart, killed: all well")


def lack_at(job, ranks, victim, fault, k):
    """Strikes the k-th such call of one rank. The restart takes the newest version or none, and reports which.
    Returns whether a restart was refused, and how many such calls the rank made."""
    what = f"rank {victim} of {ranks}, {fault} at call {k}"
    count = job.dir / "count"
    count.unlink(missing_ok=True)
    before = len(job.said("restarted"))
    r = job.run(ranks, 0, f"at={k},action=fail,{fault}", victim, CAIRN_FAULT_COUNT=str(count))
    found = job.said("restarted")[before:]
    require(found in ([STEPS - 1], [-1], []) and r.returncode == (0 if found == [STEPS - 1] else 3),
            f"{what}: exit {r.returncode}, found {found}\n{r.stdout}")
    job.check_clean(what)
    refused = f"work@{STEPS - 1} may be whole, and no older version is taken" in r.stdout
    # A rank that cannot open its session, or that its launcher ends, does not report its number of calls.
    said = count.read_text() if count.exists() else ""
    return refused, int(said) if said else k + 1


def lack(job, ranks, victim, fault):
    """Strikes the 1st, 2nd, ... such call of one rank (with several ranks a dozen, unless all are asked for),
    until some restart was refused. Ranks of one host list its directories concurrently, so the calls before the
    restart differ from run to run."""
    refused = struck = 0
    first = 0
    while refused == 0:
        first += 1
        k = first
        most = k
        while k <= most:
            is_refused, calls = lack_at(job, ranks, victim, fault, k)
            refused += is_refused
            struck += 1
            most = max(most, calls)
            k += 1 if IS_ALL or ranks == 1 else max(1, most // 12)
    print(f"{ranks} ranks, {fault}: {struck} calls, {refused} restarts refused")


def lacking():
    """Lack of descriptors or memory never leads to an older version."""
    job = Job()
    for ranks, victims in ((1, (0,)), (4, (0, 2))):
        job.reset()
        if ranks > 1:
            job.env.update(CAIRN_RANKS_PER_NODE="2", CAIRN_FILES="1")
        r = job.run(ranks)
        require(r.returncode == 0, f"the first run fails with {r.returncode}:\n{r.stdout}")
        for victim in victims:
            lack(job, ranks, victim, "errno=24,ops=open")       # EMFILE
            lack(job, ranks, victim, "errno=12,ops=read+stat")  # ENOMEM
    job.remove()


def on_disk(job):
    """A job of two nodes dies with a version that both have on their disks and that is not committed; then the
    nodes reboot. Returns its number, and its local files."""
    job.reset()
    r = job.run(2, 3, "at=3,action=kill,ops=rename")
    require(r.returncode != 0, "the job lived")
    shutil.rmtree(job.dir / "shm")
    (job.dir / "shm").mkdir(mode=0o700)
    for files in sorted((job.dir / "local").glob("**/work/*/data-0001")):
        version = int(files.parent.name)
        if not (job.dir / f"p/work/{version}/manifest").exists():
            shutil.rmtree(job.dir / f"p/work/{version}", ignore_errors=True)  # nothing has got there
            return version, sorted(files.parent.glob("data-*"))
    require(False, "no version was on the nodes' disks alone")


def damaged_local():
    """A drain names the incomplete local file, and does not suggest to look on other nodes."""
    job = Job(ranks_per_node=1, files=2, keep_local=3, chunk_bytes="64K")
    job.env["CAIRN_LOCAL"] = str(job.dir / "local")
    version, files = on_disk(job)
    r = cairn(job, "drain")
    require(r.returncode == 0 and (job.dir / f"p/work/{version}/manifest").exists(),
            f"whole files: exit {r.returncode}\n{r.stdout}")
    for victim in (0, 1):
        for what, at, exit_code in (("data", 5000, 1), ("index", -100, 1), ("trailer", -10, 0), ("half", None, 0)):
            version, files = on_disk(job)
            raw = bytearray(files[victim].read_bytes())
            if at is None:
                raw = raw[:len(raw) // 2]
            else:
                raw[at] ^= 1
            files[victim].write_bytes(raw)
            r = cairn(job, "drain")
            said = f"{what} of {files[victim].name}: exit {r.returncode}\n{r.stdout}"
            require(r.returncode == exit_code, said)
            require(f"the local file '{files[victim]}' is damaged" in r.stdout, said)
            require("drain there too" not in r.stdout and "not whole on this node" in r.stdout, said)
            require(not (job.dir / f"p/work/{version}/manifest").exists(), said)
            told = cairn(job, "ls", "--failed", f"work@{version}").stdout
            require("unsaved" in told or "incomplete" in told, f"not in the journal: {said}\n{told}")
            files[victim].unlink()
            r = cairn(job, "drain")
            require(r.returncode == 0 and "is damaged" not in r.stdout, f"removed: {said}\n{r.stdout}")
    job.remove()
    print("damaged local files: all well")


def told(job, file):
    """The lines that each rank appended to a file of the log, by rank."""
    path = pathlib.Path(f"{job.log}.{file}")
    lines = path.read_text().splitlines() if path.exists() else []
    return {int(line.split()[0]): line for line in lines if line.count(" ") >= 2}


def stop(job, victim, ms, is_time, what):
    """Starts a job with slow reads, and stops one of its ranks at a given moment. Returns the job, or None if the
    stop was too late: the job has restarted, or is between two steps in which no rank watches the others."""
    for file in ("told", "closed"):
        pathlib.Path(f"{job.log}.{file}").unlink(missing_ok=True)
    before = len(job.said("restarted"))
    job.faults = {rank: f"at=1,action=delay,ms={ms},ops=read,sticky=1" for rank in (0, 2)}
    p = job.start(4)
    wait_until(lambda: p.poll() is not None or is_time(p), what)
    pids = {rank_of(pid): pid for pid in workers_of(p.pid)}
    if victim in pids:
        send(pids[victim], signal.SIGSTOP)
        end = time.monotonic() + 15  # they give it up after 5.5 s
        while p.poll() is None and len(told(job, "closed")) < 3 and len(job.said("restarted")) == before \
                and time.monotonic() < end:
            time.sleep(0.01)
        if p.poll() is not None or len(told(job, "closed")) == 3:
            return p
    for pid in workers_of(p.pid):
        kill(pid)
    p.wait()
    return None


def check_stopped(job, victim, is_time, what):
    """Stops a rank of a job: the others name it and can close their sessions; the next run restarts."""
    p = None
    for ms in 3 * (150, 450, 1350):  # a busy machine may be too late
        p = p or stop(job, victim, ms, is_time, what)
    require(p is not None, f"{what}: nobody has noticed it, or it has always restarted before")
    require(p.poll() is None, f"{what}: the job ended with {p.returncode}")
    for rank, line in told(job, "told").items():
        require(f"CAIRN_EPEER: rank {victim} was silent" in line, f"{what}: rank {rank} says: {line}")
    require(len(told(job, "told")) == 3, f"{what}: {told(job, 'told')}")
    for pid in workers_of(p.pid):
        kill(pid)
    require(p.wait(timeout=PATIENCE) != 0, f"{what}: the job went on")
    job.faults = {}
    job.check_restart(4, STEPS - 1, what)
    job.check_clean(what)


def has_open(pid, what):
    """Does this rank have such a file of a version open?"""
    try:
        return any(what in os.readlink(fd) for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # an end, or a file that was closed meanwhile
        return False


def stop_one(job, victim):
    check_stopped(job, victim, lambda p: any(has_open(pid, "/data-") for pid in workers_of(p.pid)),
                  f"rank {victim} stopped")


def lists(pid):
    return has_open(pid, "/manifest")


def stop_in_list(job, victim):
    """While the first rank lists the versions. All reads are slow: a rank stopped later is stopped in the reads of
    the version."""
    check_stopped(job, victim, lambda p: any(map(lists, workers_of(p.pid))),
                  f"rank {victim} stopped, versions being listed")


def stopped():
    """A rank hangs while ranks list or read together; it is a reader or not. The others fail, and name it. They
    wait for a rank that is only slow."""
    one, two, encoded = {"files": 1}, {"files": 2}, {"files": 1, "encode": "adaptive"}
    all_jobs = (one, range(4), range(4)), (two, (0, 3), ()), (encoded, (0, 3), ())
    for keys, victims, listing in all_jobs if IS_ALL else ((one, (0,), (1,)), (encoded, (3,), ())):
        job = Job(ranks_per_node=2, block_bytes="512K", chunk_bytes="64K", commit_timeout="2s", **keys)
        job.words = ["100000"]
        r = job.run(4)
        require(r.returncode == 0, f"the first run fails with {r.returncode}:\n{r.stdout}")
        for victim in victims:
            stop_one(job, victim)
        for victim in listing:
            stop_in_list(job, victim)
        # Reads of data that take longer than a rank may be silent.
        job.faults = {0: "at=11,action=delay,ms=8000,ops=read", 2: "at=4,action=delay,ms=8000,ops=read"}
        if keys == one:
            job.check_restart(4, STEPS - 1, "slow reads")
        job.remove()
        print(f"{keys}: ranks {list(victims)} stopped, all well")


if __name__ == "__main__":
    sys.exit(run_one(__doc__, killed, stopped, lacking, damaged_local))
