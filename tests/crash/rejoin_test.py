#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""cairnd is killed and restarted while its jobs run: the jobs continue, and lose nothing.

usage: rejoin_test.py SCENARIO [all]    (see the functions named after them; all: every point, not every few)"""
import array
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from jobs import CAIRN, PATIENCE, Daemons, Job, cairn, kill, newest, require, workers_of

WORDS = 3000
STEPS = 5
MASK = (1 << 64) - 1


def wait_until(what, is_so):
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        require(time.monotonic() < deadline, what)
        time.sleep(0.005)


def pattern(version, rank, i):
    """As in tests/mpi/mpi_test.h."""
    x = version * 0x9e3779b97f4a7c15 + rank * 0xbf58476d1ce4e5b9 + i & MASK
    x = (x ^ x >> 31) * 0x94d049bb133111eb & MASK
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9 & MASK
    return x ^ x >> 32


def make_job(**keys):
    job = Job(service="daemon", log_level="warn", service_timeout="10m", **keys)
    if "local" in keys:
        job.env["CAIRN_LOCAL"] = str(job.dir / "local")
    job.words = [str(WORDS)]
    (job.dir / "run").mkdir(mode=0o700)
    return job


def check_versions(job, ranks, versions, what):
    """Every version, byte by byte."""
    for version in versions:
        for rank in range(ranks):
            r = subprocess.run([str(CAIRN), "extract", "-r", str(rank), "-f", "raw", "-o", "-",
                                f"work@{version}", "a"], env=job.env, check=False, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
            require(r.returncode == 0, f"{what}: work@{version}: {r.stderr.decode()}")
            words = array.array("Q", r.stdout)
            require(words == array.array("Q", (pattern(version, rank, i) for i in range(WORDS))),
                    f"{what}: work@{version}: rank {rank} has other bytes")


def check_end(job, ranks, p, daemons, what, steps=STEPS):
    """The application ends without an error, all versions exist, and nothing is left over."""
    said = p.communicate()[0]
    require(p.returncode == 0, f"{what}: the application ends with {p.returncode}:\n{said}\n{daemons.said()}")
    check_versions(job, ranks, range(steps), what)
    r = cairn(job, "verify", "work")
    require(r.returncode == 0, f"{what}: {r.stdout}")
    wait_until(f"{what}: the run's directory stays: {list((job.dir / 'shm').glob('cairn-*/*'))}",
               lambda: not list((job.dir / "shm").glob("cairn-*/*/lock")))
    daemons.stop()
    job.check_clean(what)


def start(job, ranks, steps=STEPS):
    return subprocess.Popen(job.command(ranks, steps), env=job.env, stdin=subprocess.DEVNULL, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)


def allow(job, version):
    """The job takes no later version. The file is replaced atomically: a rank may be reading it."""
    limit = job.dir / "limit"
    (job.dir / "limit.new").write_text(str(version))
    (job.dir / "limit.new").rename(limit)
    job.env["CAIRN_TEST_LIMIT"] = str(limit)


def has_ended(job, p):
    """The application has, and cairnd has nothing more to do for it, or the application has failed."""
    return p.poll() is not None and (p.returncode != 0 or not list((job.dir / "shm").glob("cairn-*/*/lock")))


def every_point(ranks, nodes, share, **keys):
    """cairnd dies at a file operation and is restarted: at every operation, or at a sample. With several nodes the
    launcher ends all of them, and only rank 0 waits in Cairn."""
    job = make_job(**keys)
    if nodes > 1:
        job.env["CAIRN_TEST_ONE_WAITS"] = "1"
    count = job.dir / "count"
    fault = dict(CAIRN_FAULT_FS="at=1000000,action=kill", CAIRN_FAULT_COUNT=str(count))
    daemons = Daemons(job, nodes, alone=True, **fault)
    check_end(job, ranks, start(job, ranks), daemons, "nothing happens")
    operations = max(int(path.read_text()) for path in job.dir.glob("count.*"))
    require(operations > 0, "no file operation was counted")
    strikes = range(1, operations + 1, max(1, int(operations * share)))
    struck = 0
    for k in strikes:
        job.reset()
        (job.dir / "run").mkdir(mode=0o700)
        what = f"cairnd killed at operation {k}"
        daemons = Daemons(job, nodes, check=False, alone=True, CAIRN_FAULT_FS=f"at={k},action=kill")
        p = start(job, ranks) if daemons.are_up else None
        wait_until(f"{what}: neither ends",
                   lambda: daemons.process.poll() is not None or (p is not None and has_ended(job, p)))
        if daemons.process.poll() is not None:
            struck += 1
            daemons.kill_rest()
            daemons = Daemons(job, nodes, alone=True)
        check_end(job, ranks, p or start(job, ranks), daemons, what)
    require(struck >= len(strikes) // 2, f"only {struck} of {len(strikes)} points were reached")
    job.remove()
    print(f"{ranks} ranks on {nodes} nodes: {struck} of {operations} operations struck, all well")


def points(share):
    every_point(1, 1, share)


def points_local(share):
    """With copies on the node's disk."""
    every_point(1, 1, share, local="LOCAL")


def points_nodes(share):
    every_point(4, 2, share, ranks_per_node=2, files=1)


def again(_):
    """cairnd is killed repeatedly, also while the job is idle. For a while no service runs, and captures go into
    the arena."""
    job = make_job(ranks_per_node=2)
    allow(job, 0)
    daemons = Daemons(job, 2)
    p = start(job, 4, 40)
    for n in range(4):
        before = newest(job, "captured")
        allow(job, 10 * n + 8)
        wait_until(f"the application does not go on after {n}",
                   lambda b=before: newest(job, "captured") >= b + 2 or p.poll() is not None)
        require(p.poll() is None, f"the application ends: {p.stdout.read() if p.poll() is not None else ''}")
        daemons.kill()
        daemons.kill_rest()
        time.sleep(0.2 * n)
        daemons = Daemons(job, 2)
    allow(job, 40)
    check_end(job, 4, p, daemons, "again", 40)
    job.remove()
    print("again: all well")


def one_waits(_):
    """Rank 0 waits in Cairn, all others wait for it in MPI and do not call Cairn until it continues: cairnd finds
    their captures without them."""
    job = make_job(ranks_per_node=2)
    job.env["CAIRN_TEST_ONE_WAITS"] = "1"
    allow(job, 0)
    daemons = Daemons(job, 2)
    p = start(job, 4)
    for n in range(2):
        before = newest(job, "captured")
        allow(job, before + 2)
        wait_until(f"the application does not go on after {n}",
                   lambda b=before: newest(job, "captured") > b or p.poll() is not None)
        daemons.kill()
        daemons.kill_rest()
        time.sleep(0.5)  # time for all ranks to enter their waits; a shorter one weakens the test
        daemons = Daemons(job, 2)
    allow(job, STEPS)
    check_end(job, 4, p, daemons, "one_waits")
    job.remove()
    print("one_waits: all well")


def found_dead(_):
    """The ranks are killed when cairnd has found their run: the next start has all promised versions."""
    job = make_job(ranks_per_node=2)
    job.env["CAIRN_TEST_ONE_WAITS"] = "1"
    daemons = Daemons(job, 2)
    for n in range(3):
        p = start(job, 4, 40)
        before = newest(job, "captured")
        wait_until(f"the application does not go on after {n}",
                   lambda b=before: newest(job, "captured") >= b + 3 or p.poll() is not None)
        daemons.kill()
        daemons.kill_rest()
        daemons = Daemons(job, 2)
        time.sleep(0.1 * n)  # the jobs are being found, or go on already
        for pid in workers_of(p.pid):
            kill(pid)
        p.communicate()
        promised = newest(job, "captured")
        p = start(job, 4, promised + 1)
        said = p.communicate()[0]
        require(p.returncode == 0, f"the start after {n} ends with {p.returncode}:\n{said}\n{daemons.said()}")
        require(job.said("restarted")[-1] >= promised,
                f"version {promised} was promised, {job.said('restarted')[-1]} was found\n{said}\n{daemons.said()}")
    daemons.stop()
    job.remove()
    print("found_dead: all well")


if __name__ == "__main__":
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    scenarios = {f.__name__: f for f in (points, points_local, points_nodes, again, one_waits, found_dead)}
    if name not in scenarios:
        print(__doc__, "\nscenarios:", *scenarios)
        sys.exit(2)
    scenarios[name](0 if "all" in sys.argv[2:] else 0.05 if name != "points_nodes" else 0.2)
