#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Hosts that are lost with their processes, memory and disks: what the others bring back, byte for byte.

usage: protect_test.py losses HOSTS SCHEME embedded|daemon    every subset of hosts that the scheme survives, and larger
                                                              ones; a sample of them without CAIRN_TEST_ALL
       protect_test.py damage HOSTS SCHEME embedded|daemon    the matrix of FTI: data, parity or node; erased or
                                                              corrupted; one host, two neighbours, two others
       protect_test.py living HOSTS SCHEME embedded|daemon    a host dies at any time of a running job

Version 1 is on the file system. Version 2 is protected and nowhere else when the job dies. The worker checks every
byte that it restarts from, and all ranks agree on the version. Each outcome is appended to the file
CAIRN_TEST_OUTCOMES, of which tools/what-survives makes a table (docs/levels.md)."""
import collections
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys

sys.dont_write_bytecode = True
import cluster
from cluster import Cluster
from cluster_test import Daemons, Job, wait_until

from jobs import CAIRN, IS_ALL, WORKER, newest, require  # pylint: disable=wrong-import-order
from flip_test import pattern  # pylint: disable=wrong-import-order

WORDS = 150011
SEED = int(os.environ.get("CAIRN_TEST_SEED", "21"))


class Case:
    """A cluster whose hosts hold version 2 in memory, to be lost in many ways."""

    def __init__(self, count, scheme, service):
        self.count, self.scheme, self.service = int(count), scheme, service
        self.survives = int(scheme[3:]) if scheme.startswith("rs:") else 1
        # Hosts are dealt to the sets in turn.
        self.sets = 1 if self.count < 6 or self.survives > 1 else 2
        self.cluster = Cluster(self.count)
        self.hosts = self.cluster.hosts
        self.kept = self.cluster.shared / "kept"
        self.rng = random.Random(SEED)
        self.job = self.protected_job()

    def protected_job(self):
        """Runs the job until version 2 is protected; then all its processes die."""
        job = Job(self.cluster, self.service, protect=self.scheme, protect_set=self.count // self.sets,
                  persistent_every=2, keep_last=9, service_timeout="20s")
        job.words = WORDS
        job.env.update(CAIRN_TEST_PROTECTED="1", CAIRN_TEST_ONLY_CAPTURED="1", CAIRN_TEST_ARRAY="1",
                       CAIRN_TEST_LIMIT=str(job.dir / "limit"))
        (job.dir / "limit").write_text("2")
        self.place(job, self.hosts, self.count)
        p = job.start(self.count)
        job.wait_for("protected", 2, p)
        wait_until(lambda: 1 in job.versions() or p.poll() is not None, "version 1")
        require(2 not in job.versions() and p.poll() is None, "version 2 was flushed")
        for host in self.hosts:
            host.kill_all()
        p.wait()
        if job.daemons is not None:
            job.daemons.wait()
        for key in ("CAIRN_TEST_PROTECTED", "CAIRN_TEST_ONLY_CAPTURED", "CAIRN_TEST_LIMIT"):
            del job.env[key]
        subprocess.run(["mkdir", self.kept], check=True)
        subprocess.run(["cp", "-a", job.persistent, self.kept / "p"], check=True)
        for host in self.hosts:
            subprocess.run(["cp", "-a", memory(host), self.kept / host.name], check=True)
        return job

    def bring_back(self, lost=()):
        """The state after the death of the job, without the lost hosts."""
        self.job.cluster.hosts = self.hosts
        self.job.env["CAIRN_RESTART_UNSAVED"] = "fail"
        for path in self.job.dir.glob("log*"):
            path.unlink()
        subprocess.run(["rm", "-rf", self.job.persistent], check=True)
        subprocess.run(["cp", "-a", self.kept / "p", self.job.persistent], check=True)
        for i, host in enumerate(self.hosts):
            host.power_off()
            if i not in lost:
                subprocess.run(["cp", "-a", f"{self.kept / host.name}/.", memory(host)], check=True)

    def is_survived(self, lost):
        """Has no set lost more than its scheme survives? Partners form a ring: any loss without two neighbours."""
        if self.scheme == "partner":
            rings = [range(s, self.count, self.sets) for s in range(self.sets)]
            return not any(r[k] in lost and r[k - 1] in lost for r in rings for k in range(len(r)))
        of_set = collections.Counter(i % self.sets for i in lost)
        return max(of_set.values(), default=0) <= self.survives

    @staticmethod
    def place(job, hosts, ranks):
        each, rest = divmod(ranks, len(hosts))
        counts = [(h, each + (i < rest)) for i, h in enumerate(hosts)]
        job.places = ",".join(f"{h.name}:{n}" for h, n in counts if n > 0)
        return [h for h, n in counts if n > 0]

    def start(self, hosts, ranks):
        """Restarts on these hosts; returns the run and the version that it has found."""
        job = self.job
        job.cluster.hosts = self.place(job, hosts, ranks)
        if self.service == "daemon":
            job.daemons = Daemons(job)
        before = len(job.said("restarted"))
        r = job.run(ranks, 4, CAIRN_PROTECT="none", CAIRN_PERSISTENT_EVERY="1", CAIRN_LOG_LEVEL="info")
        found = job.said("restarted")[before:]
        if job.daemons is not None:
            job.daemons.stop()
        return r, (found[0] if found else None)

    def check_back(self, hosts, ranks, lost, what):
        """Version 2 is restarted from, and said to be rebuilt if something was lost."""
        r, found = self.start(hosts, ranks)
        require(r.returncode == 0 and found == 2, f"{what}: exit {r.returncode}, version {found}\n{r.stdout}")
        for host in self.job.cluster.hosts if "corrupted" in what else ():
            # A capture that was damaged when the others were not there yet stays until the next drain.
            subprocess.run(host.command(CAIRN, "drain"), env=self.job.env, check=False, stdout=subprocess.DEVNULL)
        self.job.check_clean(what)
        v = subprocess.run([CAIRN, "verify"], env=self.job.env, check=False, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
        require(v.returncode == 0, f"{what}: {v.stdout}")
        require(not list((self.job.persistent / "work").glob("*/parity-*")), f"{what}: parity stays")
        journal = self.job.persistent / "work/.journal"
        said = journal.read_text() if journal.exists() else ""
        for i in lost:
            require(f"node {i} from " in said, f"{what}: nothing says that node {i} was rebuilt: {said}")

    def check_gone(self, hosts, ranks, what):
        """Version 2 cannot be had. The restart says so; told to, all ranks take version 1."""
        r, found = self.start(hosts, ranks)
        if r.returncode == 0 and found == 1:
            return "older"  # no host is left that knows of version 2
        require(r.returncode == 3 and "work@2 is newer and not saved" in r.stdout,
                f"{what}: exit {r.returncode}, version {found}\n{r.stdout}")
        self.job.env["CAIRN_RESTART_UNSAVED"] = "older"
        r, found = self.start(hosts, ranks)
        require(r.returncode == 0 and found == 1, f"{what}: exit {r.returncode}, version {found}\n{r.stdout}")
        return "older"

    def drain(self, hosts, what):
        """Each of the hosts drains what it has, in any order, without the job."""
        order = list(hosts)
        self.rng.shuffle(order)
        committed = []
        for host in order:
            r = subprocess.run(host.command(CAIRN, "drain", "--json"), env=self.job.env, check=False,
                               stdout=subprocess.PIPE, text=True)
            require(r.returncode == 0, f"{what}: drain on {host.name}: {r.stdout}")
            committed += [e["version"] for e in json.loads(r.stdout)["drained"] if e["what"] == "committed"]
        require(committed.count(2) == 1, f"{what}: drains have published {committed}")
        require(not self.job.left(), f"{what}: left behind: {self.job.left()}")


def memory(host):
    return pathlib.Path(f"/proc/{host.pid}/root/dev/shm")


def note(case, what, outcome):
    """A line for the table of docs/levels.md."""
    path = os.environ.get("CAIRN_TEST_OUTCOMES")
    if path is not None:
        with open(path, "a", encoding="utf-8") as f:
            f.write(f"{case.service}\t{case.scheme}\t{case.count}\t{what}\t{outcome}\n")


def ways(case, lost):
    """How the job comes back: on the same hosts, replaced ones where they were lost; on the hosts that are left; with
    another number of ranks; after a drain without it."""
    left = [h for i, h in enumerate(case.hosts) if i not in lost]
    n = case.count
    # All hosts that are left are used: nobody drains the others.
    every = {"same": (case.hosts, n), "fewer": (left, n), "ranks": (left, len(left) if len(lost) % 2 else n + 1),
             "drained": (left[:1], n)}
    return every if left else {"same": every["same"]}


def losses(case):
    subsets = [lost for k in range(case.survives + 2) for lost in itertools.combinations(range(case.count), k)]
    cases = [(lost, way) for lost in subsets for way in ways(case, lost)]
    if not IS_ALL:
        good = [c for c in cases if case.is_survived(c[0]) and c[0]]
        bad = [c for c in cases if not case.is_survived(c[0])]
        cases = case.rng.sample(good, 2) + case.rng.sample(bad, 1)
    elif case.count > 4: # one way for each subset
        cases = [(lost, case.rng.choice(sorted(ways(case, lost)))) for lost in subsets]
    for lost, way in cases:
        hosts, ranks = ways(case, lost)[way]
        what = f"{case.count} hosts, {case.scheme}, {case.service}, without {[i + 1 for i in lost]}, {way}"
        case.bring_back(lost)
        outcome = "survives"
        if case.is_survived(lost):
            if way == "drained":
                case.drain([h for i, h in enumerate(case.hosts) if i not in lost], what)
            case.check_back(hosts, ranks, lost, what)
        else:
            outcome = case.check_gone(hosts, ranks, what)
        note(case, f"{len(lost)} lost, {'more' if not case.is_survived(lost) else 'at most'} M in a set, {way}", outcome)
        print(what, outcome, flush=True)


def damage_data(host, rank, ranks, how):
    """Version 2 in the arena of the host's rank, which has a block of the array."""
    arena = next(memory(host).glob(f"cairn-*/*/arena-{rank}"))
    if how == "erased":
        arena.unlink()
        return
    word = WORDS * rank * rank // (ranks * ranks) + 10
    at = arena.read_bytes().find(pattern(2, 0, word).to_bytes(8, "little"))
    require(at >= 0, f"version 2 is not in {arena}")
    flip(arena, at)


def damage_parity(host, _rank, _ranks, how):
    files = sorted(memory(host).glob("cairn-*/*/parity-*"), key=lambda p: int(p.name.split("-")[1]))
    require(files, f"{host.name} has no parity")
    if how == "erased":
        files[-1].unlink()
    else:
        flip(files[-1], files[-1].stat().st_size // 3)


def damage_node(host, rank, ranks, how):
    if how == "erased":
        host.power_off()
        return
    damage_data(host, rank, ranks, how)
    damage_parity(host, rank, ranks, how)


def flip(path, at):
    with path.open("r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 4]))


def damage(case):
    n = case.count
    victims = {"one host": (1,), "two neighbours": (1, 2), "two others": (0, 2)}
    every = list(itertools.product((damage_data, damage_parity, damage_node), ("erased", "corrupted"), victims))
    for do, how, whom in every if IS_ALL else case.rng.sample(every, 3):
        hit = victims[whom]
        what = f"{n} hosts, {case.scheme}, {case.service}: {do.__name__} {how} on {whom}"
        case.bring_back()
        for i in hit:
            do(case.hosts[i], i, n, how)
        if do is damage_parity:
            case.check_back(case.hosts, n, (), what)
            outcome = "survives"
        elif case.is_survived(hit) or (case.scheme == "partner" and do is damage_data and how == "corrupted"):
            case.check_back(case.hosts, n, hit, what) # their copies are whole
            outcome = "survives"
        else:
            outcome = case.check_gone(case.hosts, n, what)
        note(case, f"{do.__name__[7:]} {how} on {whom}", outcome)
        print(what, outcome, flush=True)


def living(case):
    """A host dies while the job captures, protects and flushes: what was reported as protected comes back."""
    job = case.job
    for _ in range(8 if IS_ALL else 1):
        case.bring_back(range(case.count))
        subprocess.run(["rm", "-rf", job.persistent], check=True)
        case.place(job, case.hosts, case.count)
        if case.service == "daemon":
            job.daemons = Daemons(job)
        job.env.update(CAIRN_TEST_PROTECTED="1", CAIRN_TEST_ONLY_CAPTURED="1")
        p = job.start(case.count, 100000)
        least = case.rng.randrange(2, 12)
        job.wait_for("captured", least, p)
        victim = case.rng.randrange(case.count)
        case.hosts[victim].power_off()
        p.wait()
        wait_until(lambda: not any(h.processes(WORKER) for h in case.hosts), "ranks are left")
        if job.daemons is not None:
            job.daemons.wait()
        promised = newest(job, "protected")
        what = f"{case.scheme}, {case.service}: host {victim + 1} dies after version {least}, {promised} is protected"
        for key in ("CAIRN_TEST_PROTECTED", "CAIRN_TEST_ONLY_CAPTURED"):
            del job.env[key]
        # A newer version may have been captured and not protected: it went with the host.
        job.env["CAIRN_RESTART_UNSAVED"] = "older"
        r, found = case.start(case.hosts, case.count)
        require(r.returncode == 0 and found is not None and found >= promised,
                f"{what}: exit {r.returncode}, version {found}\n{r.stdout}")
        job.check_clean(what)
        print(what, "survives", flush=True)


def main():
    scenarios = {f.__name__: f for f in (losses, damage, living)}
    if len(sys.argv) != 5 or sys.argv[1] not in scenarios:
        print(__doc__)
        return 2
    cluster.enter()
    try:
        scenarios[sys.argv[1]](Case(*sys.argv[2:]))
    except (SystemExit, Exception):
        output = cluster.shared_place() / "job/output"
        print("--- what jobs and daemons said:\n", output.read_text() if output.exists() else "")
        raise
    print(*sys.argv[1:], "all well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
