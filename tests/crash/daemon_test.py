#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Jobs whose captures cairnd flushes.

usage: daemon_test.py SCENARIO    (see the functions named after them)"""
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from jobs import (BUILD, IS_ALL, MPIEXEC, PATIENCE, STEPS, Daemons, Job, kill, newest, rank_of, require,
                  run_one, workers_of)


def wait_until(what, is_so):
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        require(time.monotonic() < deadline, what)
        time.sleep(0.01)


def wait_for_idle(job, node="*"):
    """Waits until the daemons have finished the dead jobs and removed their directories."""
    wait_until("cairnd does not finish a dead job",
               lambda: not list((job.dir / "shm").glob(f"cairn-*/*-n{node}")))


def daemon():
    """cairnd outlives the application and serves several jobs; its own death kills no job."""
    job = Job(ranks_per_node=2, service="daemon", files=os.environ.get("CAIRN_TEST_FILES", "1:1"),
              calm_bandwidth=1)  # dead ranks block nothing
    (job.dir / "run").mkdir(mode=0o700)
    daemons = Daemons(job, 2)
    for round_no in range(3 if IS_ALL else 2):  # applications come and go
        if round_no:
            shutil.rmtree(job.dir / "p")
            job.log.unlink()
        p = job.start(4, 100000)
        while newest(job, "captured") < 3 and p.poll() is None:
            time.sleep(0.002)
        for pid in workers_of(p.pid):
            kill(pid)
        p.wait()
        promised = newest(job, "captured", "persistent")
        wait_for_idle(job)  # flushed by the daemons alone
        committed = [int(m.parent.name) for m in (job.dir / "p/work").glob("*/manifest")]
        require(max(committed, default=-1) >= promised,
                f"{promised} was captured, the daemons committed {sorted(committed)}")
        job.check_restart(4, promised, f"daemon, round {round_no}")
        wait_for_idle(job)
    # The daemons die under a running application and are not restarted: it must end by itself, with an error.
    job.env["CAIRN_SERVICE_TIMEOUT"] = "1s"
    shutil.rmtree(job.dir / "p")
    job.log.unlink()
    p = job.start(4, 100000)
    while newest(job, "captured") < 3 and p.poll() is None:
        time.sleep(0.002)
    daemons.kill()
    p.wait()
    require(p.returncode == 3, f"the application ended with {p.returncode} when cairnd was killed")
    promised = newest(job, "captured", "persistent")
    daemons = Daemons(job, 2)
    job.check_restart(4, promised, "cairnd killed")
    wait_for_idle(job)
    daemons.stop()
    job.check_clean("daemon")
    job.remove()
    print("daemon: all well")


def phases():
    """Phases, the cap on bandwidth and calm flushes with cairnd, as in tests/mpi/phase.c."""
    job = Job(ranks_per_node=2, service="daemon", files=1)
    (job.dir / "run").mkdir(mode=0o700)
    daemons = Daemons(job, 2)
    r = subprocess.run(MPIEXEC + ["-n", "4", str(BUILD / "tests/mpi/phase")], env=job.env,
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True, check=False)
    require(r.returncode == 0, f"phase ended with {r.returncode}: {r.stdout}")
    daemons.stop()
    job.check_clean("phases")
    job.remove()
    print("phases: all well")


def shared_daemon():
    """Several jobs of one user share the daemons; one of them is killed and affects no other."""
    job = Job(ranks_per_node=2, service="daemon")
    (job.dir / "run").mkdir(mode=0o700)
    daemons = Daemons(job, 2)
    jobs = []
    for i in range(3):
        other = Job(ranks_per_node=2, service="daemon", shm_dir=job.dir / "shm",
                    run_dir=job.dir / "run")
        jobs.append((other, other.start(2 + i, 12 if i else 100000)))
    victim, process = jobs[0]
    while newest(victim, "captured") < 2 and process.poll() is None:
        time.sleep(0.002)
    for pid in workers_of(process.pid):
        kill(pid)
    for i, (other, p) in enumerate(jobs):
        p.wait()
        require(i == 0 or p.returncode == 0, f"job {i} ends with {p.returncode}")
    wait_for_idle(job)
    for i, (other, _) in enumerate(jobs):
        other.check_restart(2 + i, newest(other, "captured", "persistent"), f"job {i}")
        wait_for_idle(job)
        other.remove()
    daemons.stop()
    job.check_clean("shared daemon")
    job.remove()
    print("shared daemon: all well")


def dead_mount():
    """The keeper of a finished job hangs on its file system. Other jobs of the daemons are not affected."""
    job = Job(ranks_per_node=2, service="daemon", test_stop_at=2, keep_last=1)
    switch = job.dir / "dead"
    job.env.update(LD_PRELOAD=os.environ["CAIRN_HANGING_PFS"], HANG_DIR=str(job.dir / "p"),
                   HANG_THREADS="cairn-keep", HANG_SWITCH=str(switch))
    (job.dir / "run").mkdir(mode=0o700)
    daemons = Daemons(job, 2)
    p = job.start(4)
    versions = job.dir / "p/work"
    wait_until("version 1 is not committed", (versions / "1/manifest").exists)
    wait_until("version 0 stays", lambda: not (versions / "0").exists())
    ranks = workers_of(p.pid)
    wait_until("the ranks do not stop", lambda: all(map(is_stopped, ranks)))
    switch.touch()
    for pid in ranks:
        kill(pid)
    p.wait()
    wait_until("no keeper hangs", pathlib.Path(f"{switch}.log").exists)
    other = Job(ranks_per_node=2, service="daemon", shm_dir=job.dir / "shm",
                run_dir=job.dir / "run")
    q = other.run(4)
    require(q.returncode == 0, f"another job ends with {q.returncode}: {q.stdout}")
    require(switch.exists(), "the mount was not dead all the time")
    switch.unlink()
    wait_for_idle(job)
    daemons.stop()
    other.remove()
    job.check_clean("dead mount")
    job.remove()
    print("dead mount: all well")


def dead_disk():
    """The directory of a job cannot be made, because its disk hangs. Other jobs of the daemons are not affected."""
    job = Job(ranks_per_node=2, service="daemon")
    switch = job.dir / "dead"
    local = job.dir / "local"
    job.env.update(LD_PRELOAD=os.environ["CAIRN_HANGING_PFS"], HANG_DIR=str(local),
                   HANG_THREADS="cairn-keep", HANG_SWITCH=str(switch))
    (job.dir / "run").mkdir(mode=0o700)
    local.mkdir()
    daemons = Daemons(job, 2)
    switch.touch()
    job.env["CAIRN_LOCAL"] = str(local)
    p = job.start(4, 3)
    wait_until("no keeper hangs", pathlib.Path(f"{switch}.log").exists)
    other = Job(ranks_per_node=2, service="daemon", shm_dir=job.dir / "shm",
                run_dir=job.dir / "run")
    q = other.run(4)
    require(q.returncode == 0, f"another job ends with {q.returncode}: {q.stdout}")
    require(p.poll() is None, "the job did not wait for its directory")
    switch.unlink()
    p.wait()
    require(p.returncode == 0, f"the job ends with {p.returncode}")
    wait_for_idle(job)
    daemons.stop()
    other.remove()
    job.check_clean("dead disk")
    job.remove()
    print("dead disk: all well")


def dead_to_loop():
    """No directory of a job answers the daemons' loop, and its log_file nobody. The job does not notice."""
    job = Job(ranks_per_node=2, service="daemon", log_level="info")
    switch = job.dir / "switch"
    dead = job.dir / "dead"
    for place in (job.dir / "run", dead, dead / "local"):
        place.mkdir(mode=0o700)
    job.env.update(LD_PRELOAD=os.environ["CAIRN_HANGING_PFS"], HANG_DIR=str(dead),
                   HANG_THREADS="cairn-node,cairn-log", HANG_SWITCH=str(switch))
    daemons = Daemons(job, 2)
    job.env.update(CAIRN_PERSISTENT=str(dead / "p"), CAIRN_LOCAL=str(dead / "local"),
                   CAIRN_LOG_FILE=str(dead / "%r.log"))
    switch.touch()
    for steps in (STEPS, 2 * STEPS):
        r = job.run(4, steps)
        require(r.returncode == 0, f"the job ends with {r.returncode}: {r.stdout}")
        wait_for_idle(job)
    waited = set(pathlib.Path(f"{switch}.log").read_text().split())
    require(waited == {"cairn-log"}, f"these threads waited: {waited}")
    require(not (dead / "node0.log").exists(), "the log was not dead")
    switch.unlink()
    daemons.stop()
    lines = (dead / "node0.log").read_text()
    require(lines.count("the run has ended") == 2, f"the log lacks lines: {lines}")
    job.check_clean("dead to the loop")
    job.remove()
    print("dead to the loop: all well")


def is_stopped(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


def die_unheard(*takers):
    """The ranks of two nodes take version 1 and all die, while the daemon of node 1 is stopped."""
    job = Job(ranks_per_node=2, service="daemon", log_level="warn", test_stop_at=1)
    (job.dir / "run").mkdir(mode=0o700)
    daemons = Daemons(job, 2)
    second = next(pid for pid in daemons.pids() if rank_of(pid) == 1)
    p = job.start(4)
    wait_until("version 0 is not committed", (job.dir / "p/work/0/manifest").exists)
    ranks = {rank_of(pid): pid for pid in workers_of(p.pid)}
    wait_until("the ranks do not stop before version 1", lambda: all(map(is_stopped, ranks.values())))
    os.kill(second, signal.SIGSTOP)  # the messages of its ranks wait
    for rank in takers:
        os.kill(ranks[rank], signal.SIGCONT)
    took = job.dir / "log.took"
    wait_until("the ranks do not take version 1",
               lambda: took.exists() and len(took.read_text().splitlines()) == len(takers))
    for pid in ranks.values():
        kill(pid)
    p.wait()
    return job, daemons, second


def reported_late():
    """A node reports a checkpoint after its job has ended on the first node, because ranks died there before they
    took it. It gets the answer, and ends the job."""
    job, daemons, second = die_unheard(2, 3)
    wait_for_idle(job, 0)
    os.kill(second, signal.SIGCONT)
    wait_for_idle(job)
    del job.env["CAIRN_TEST_STOP_AT"]
    job.check_restart(4, 0, "reported late")
    wait_for_idle(job)
    daemons.stop()
    job.check_clean("reported late")
    job.remove()
    print("reported late: all well")


def died_captured():
    """All ranks have taken a checkpoint and die before the second node reports it: it is committed."""
    job, daemons, second = die_unheard(0, 1, 2, 3)
    for rank in (0, 1):
        wait_until(f"nobody notices that rank {rank} has died",
                   lambda r=rank: daemons.lines(f"rank {r} disconnected"))
    os.kill(second, signal.SIGCONT)
    wait_for_idle(job)
    require((job.dir / "p/work/1/manifest").exists(),
            f"all ranks had captured version 1, which is lost:\n{daemons.said()}")
    require(not daemons.lines("before it captured"), f"it was captured:\n{daemons.said()}")
    del job.env["CAIRN_TEST_STOP_AT"]
    job.check_restart(4, 1, "died captured")
    wait_for_idle(job)
    daemons.stop()
    job.check_clean("died captured")
    job.remove()
    print("died captured: all well")


def removal():
    """A version is persistent before old ones are removed: cairnd dies when the removal begins."""
    job = Job(ranks_per_node=1, service="daemon", keep_last=1)
    (job.dir / "run").mkdir(mode=0o700)
    daemons = Daemons(job, 1, CAIRN_FAULT_FS="at=1,action=kill,ops=unlink")
    r = job.run(1, 2)
    daemons.process.wait()
    require(newest(job, "persistent") == 1, f"nobody was told of version 1:\n{r.stdout}")
    require((job.dir / "p/work/0/removed").exists(), "cairnd did not die where it removes version 0")
    daemons = Daemons(job, 1)
    job.check_restart(1, 1, "cairnd killed at a removal")
    wait_for_idle(job)
    daemons.stop()
    kept = [m.parent.name for m in (job.dir / "p/work").glob("*/manifest")]
    require(kept == ["5"], f"old versions stay: {kept}")
    job.check_clean("removal")
    job.remove()
    print("removal: all well")


def limit(pid, number):
    """From now on the process cannot open descriptors from this number on; it keeps those it has."""
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (number, resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]))


def descriptors():
    """cairnd raises its limit of descriptors. At the limit it refuses ranks with the reason, or lets them wait. It
    logs one line about that, and serves ranks again when descriptors are free."""
    job = Job(service="daemon", log_level="warn")
    (job.dir / "run").mkdir(mode=0o700)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(64, hard), hard))
    daemons = Daemons(job, 1)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    pid = daemons.pids()[0]
    now = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    require(now == (hard, hard), f"cairnd has not raised its limit: {now}")
    # Only the spare descriptor is left: ranks get the reason for the refusal.
    taken = {int(f.name) for f in pathlib.Path(f"/proc/{pid}/fd").iterdir()}
    limit(pid, next(n for n in range(len(taken) + 1) if n not in taken))
    for _ in range(3):
        r = job.run(1)
        require(r.returncode == 3 and "cannot take another rank" in r.stdout and
                "Too many open files" in r.stdout, f"exit {r.returncode}: {r.stdout}")
    require(len(daemons.lines("cannot take another rank")) == 1, daemons.log.read_text())
    limit(pid, hard)
    r = job.run(1)
    require(r.returncode == 0, f"exit {r.returncode}: {r.stdout}")
    # None is left: a rank waits, and cairnd does not spin.
    wait_for_idle(job)
    limit(pid, 3)
    p = job.start(1)
    wait_until("cairnd does not say why", lambda: len(daemons.lines("cannot take another rank")) > 1)
    limit(pid, hard)
    require(p.wait() == 0, f"the rank ends with {p.returncode} when there are descriptors again")
    require(len(daemons.lines("cannot take another rank")) == 2, daemons.log.read_text())
    # A rank is connected, but cairnd cannot map its arena: its first checkpoint fails with the reason.
    shutil.rmtree(job.dir / "p")
    job.words = ["4000000"]
    p = subprocess.Popen(job.command(1, 2), env=dict(job.env, CAIRN_TEST_STOP_AT="0"), text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    wait_until("the rank does not stop before version 0", lambda: is_stopped(p.pid))
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[0])
    before = resource.prlimit(pid, resource.RLIMIT_AS)
    resource.prlimit(pid, resource.RLIMIT_AS, (pages * resource.getpagesize() + (8 << 20), before[1]))
    os.kill(p.pid, signal.SIGCONT)
    said = p.communicate()[0]
    told = (job.dir / "log.told").read_text()
    require(p.returncode == 3 and "cannot map the arena" in told, f"exit {p.returncode}: {said}\n{told}")
    resource.prlimit(pid, resource.RLIMIT_AS, before)
    wait_for_idle(job)
    daemons.stop()
    job.check_clean("descriptors")
    job.remove()
    print("descriptors: all well")


def torn_arena():
    """The arena of a rank is truncated while cairnd has it mapped, completely or in the middle. Its captures are
    lost and not committed, and cairnd keeps serving."""
    for size in (0, 2 << 20):
        job = Job(service="daemon", test_stop_at=1, calm_bandwidth=1, log_level="warn")
        job.words = ["1000000"]
        (job.dir / "run").mkdir(mode=0o700)
        daemons = Daemons(job, 1)
        p = job.start(1)
        wait_until("the rank does not stop before version 1", lambda: is_stopped(p.pid))
        for arena in (job.dir / "shm").glob("cairn-*/*/arena-0"):
            os.truncate(arena, size)
        kill(p.pid)  # cairnd flushes the rank's captures as fast as it can
        p.wait()
        wait_until("cairnd does not give the checkpoint up", lambda: daemons.lines("work@0", "was truncated"))
        require(len(daemons.pids()) == 1, f"cairnd is gone:\n{daemons.log.read_text()}")
        require(not list((job.dir / "p").glob("work/0/manifest")), "a checkpoint that was lost is committed")
        other = Job(service="daemon", shm_dir=job.dir / "shm", run_dir=job.dir / "run")
        r = other.run(1)
        require(r.returncode == 0, f"cairnd serves no more: {r.stdout}")
        other.remove()
        daemons.stop()
        job.remove()
    print("torn arena: all well")


if __name__ == "__main__":
    sys.exit(run_one(__doc__, daemon, shared_daemon, phases, reported_late, died_captured, removal,
                     descriptors, torn_arena, dead_mount, dead_disk, dead_to_loop))
