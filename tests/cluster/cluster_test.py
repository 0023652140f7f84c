#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Jobs on several hosts whose processes, cables and memory fail.

usage: cluster_test.py SCENARIO [embedded|daemon [quick]]    (see the functions named after them)

The worker of tests/mpi checks every byte that it restarts from, and logs every level that a checkpoint reached.
After each failure a clean run must find at least those checkpoints and finish, and the hosts must be clean."""
import os
import pathlib
import subprocess
import sys
import time

import cluster
import gluster
from cluster import BUILD, SOURCE, Cluster, Host

sys.path.insert(0, str(SOURCE / "tests/crash"))
import jobs  # noqa: E402
from jobs import CAIRND, PATIENCE, WORKER, answers, kill, newest, require  # noqa: E402

MPI_TESTS = BUILD / "tests/mpi"
THREE = "node1:2,node2:2,node3:2"
MEGABYTE = 131072  # words
# A launcher that notices a dead cable in seconds instead of minutes, and one that never does.
WATCHFUL = ("--mca", "oob_tcp_keepalive_time", "1", "--mca", "oob_tcp_keepalive_intvl", "1",
            "--mca", "oob_tcp_keepalive_probes", "3")
BLIND = ("--mca", "oob_tcp_keepalive_time", "0")


def wait_until(condition, what, patience=PATIENCE, process=None):
    """process: who brings it about."""
    end = time.monotonic() + patience
    while not condition():
        require(process is None or process.poll() is None, f"{what}: not before the job has ended")
        require(time.monotonic() < end, f"{what}: not within {patience} s")
        time.sleep(0.01)


class Job(jobs.Job):
    """A job on the cluster: versions and log on the shared file system, the rest on the hosts."""

    def __init__(self, cl, service, launcher=(), **keys):  # pylint: disable=super-init-not-called
        self.cluster = cl
        self.dir = cl.shared / "job"
        self.dir.mkdir()
        self.log = self.dir / "log"
        self.persistent = cl.seen(cl.files / "p")
        self.places = THREE
        self.launcher = launcher  # options for that of the daemons
        self.options = ()  # for that of the next run
        self.words = 20000
        self.more = []
        self.env = dict(os.environ, CAIRN_PERSISTENT=str(cl.files / "p"), CAIRN_SERVICE=service,
                        CAIRN_RUN_DIR="/dev/shm/run", CAIRN_SHM_DIR="/dev/shm", CAIRN_BLOCK_BYTES="1M", CAIRN_BLOCKS="2",
                        CAIRN_LOG_LEVEL="error")
        self.set(**keys)
        self.output = open(self.dir / "output", "w", encoding="utf-8")  # pylint: disable=R1732
        self.daemons = None
        if service == "daemon":
            self.daemons = Daemons(self)

    def set(self, **keys):
        self.env.update({"CAIRN_" + k.upper(): str(v) for k, v in keys.items()})

    def command(self, ranks, steps, fault=None, victim=0):
        return cluster.mpirun(self.cluster.hosts[0], self.places, *self.options, "-n", ranks, WORKER,
                              steps, self.log, self.words, *self.more)

    def command_of_another(self):
        """A job of the same name, with its own log."""
        return cluster.mpirun(self.cluster.hosts[0], self.places, "-n", 6, WORKER, 100000,
                              self.dir / "another", self.words)

    def start(self, ranks, steps=jobs.STEPS):
        return subprocess.Popen(self.command(ranks, steps), env=self.env, stdin=subprocess.DEVNULL,
                                stdout=self.output, stderr=self.output, start_new_session=True)

    def lines_in(self, file):
        """Of a log of single ranks: rank, version, reason."""
        path = self.dir / f"log.{file}"
        return path.read_text().splitlines() if path.exists() else []

    def ranks_in(self, file, version):
        """Ranks that have a line on this version in a log of single ranks, and those lines."""
        lines = [line for line in self.lines_in(file) if line.split()[1] == str(version)]
        return len({line.split()[0] for line in lines}), lines

    def versions(self):
        return {int(m.parent.name): len(list(m.parent.glob("data-*")))
                for m in (self.persistent / "work").glob("*/manifest")}

    def wait_for(self, kind, version, process):
        wait_until(lambda: newest(self, kind) >= version or process.poll() is not None,
                   f"{kind} {version}")
        require(process.poll() is None, f"the job has ended before '{kind} {version}'")

    def left(self):
        """The runs and sockets that are left on the hosts."""
        found = []
        for host in self.cluster.hosts:
            shm = pathlib.Path(f"/proc/{host.pid}/root/dev/shm")
            found += list(shm.glob("cairn-*/*")) + [p for p in shm.glob("run/*")
                                                    if not p.name.startswith("cairnd-")]
        return found

    def check_clean(self, what):
        # Daemons remove a run after its last rank has gone.
        wait_until(lambda: not self.left(), f"{what}: left behind: {self.left()}", 10)

    def check_next(self, promised, what):
        """A clean run finds every promised version, continues, and leaves nothing behind."""
        self.options, self.more = (), []
        if self.daemons is not None and self.daemons.process.poll() is not None:
            self.daemons = Daemons(self)
        self.check_restart(6, promised, what)
        self.check_clean(what)

    def fresh(self):
        for path in self.dir.glob("log*"):
            path.unlink()
        subprocess.run(["rm", "-rf", str(self.persistent)], check=True)

    def end(self):
        if self.daemons is not None:
            self.daemons.stop()
        self.check_clean("the end")


class Daemons(jobs.Daemons):
    """cairnd on every host."""

    def __init__(self, job):  # pylint: disable=super-init-not-called
        self.job = job
        self.hosts = job.cluster.hosts
        for host in self.hosts:
            subprocess.run(host.command("mkdir", "-p", "-m", "700", "/dev/shm/run"), check=True)
        places = ",".join(host.name for host in self.hosts)
        self.process = subprocess.Popen(
            cluster.mpirun(self.hosts[0], places, *job.launcher, "--map-by", "ppr:1:node", CAIRND),
            env=job.env, stdin=subprocess.DEVNULL, stdout=job.output, stderr=job.output,
            start_new_session=True)
        wait_until(lambda: self.process.poll() is not None or self.answer(), "cairnd")
        require(self.process.poll() is None, "cairnd does not start")

    def said(self):
        return ""  # it is in the output of the job

    def answer(self):
        return all(answers(f"/proc/{h.pid}/root/dev/shm/run/cairnd-0.sock") for h in self.hosts)

    def wait(self):
        """They die with one of their hosts: the launcher ends the others."""
        self.process.wait()
        wait_until(lambda: not self.pids(), "a cairnd is left")

    def pids(self):
        return [pid for host in self.hosts for pid in host.processes(CAIRND)]


def end_to_end(service):
    """Versions in 1, 2 and 3 files, and restarts on fewer and on more hosts."""
    cl = Cluster(3)
    job = Job(cl, service)
    for files in ("1", "2", "1:1"):
        job.fresh()
        job.set(files=files)
        job.places = THREE
        steps = 4
        for places in (THREE, "node2:3,node3:3", THREE, "node3:6"):
            job.places = places
            before = newest(job, "persistent", "restarted")
            r = job.run(6, steps)
            require(r.returncode == 0, f"files={files} on {places}: {r.returncode}\n{r.stdout}")
            require(newest(job, "restarted") >= before, f"files={files}: restarted from too old")
            nodes = places.count(",") + 1
            expected = nodes if files == "1:1" else min(int(files), nodes)
            require(job.versions().get(steps - 1) == expected,
                    f"files={files} on {nodes} hosts: version {steps - 1} of {job.versions()}")
            steps += 2
    job.check_clean("end to end")
    job.end()


def programs():
    """The programs of tests/mpi, each on three hosts."""
    cl = Cluster(3)
    for files, ranks, program in (("1", 6, "session"), ("1:1", 5, "change"), ("2", 4, "steps")):
        r = subprocess.run(cluster.mpirun(cl.hosts[0], THREE, "-n", ranks, MPI_TESTS / program),
                           env=dict(os.environ, CAIRN_FILES=files, CAIRN_TEST_SHARED=str(cl.files)),
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        require(r.returncode == 0, f"{program}, files={files}: {r.returncode}\n{r.stdout}")


def traffic(service):
    """Traffic: followers send to the leader of their group; all other traffic is small. A leader that also writes
    gets less than all of its followers' data. Hosts have different numbers of ranks, so the byte counts identify
    the groups."""
    cl = Cluster(4)
    job = Job(cl, service, files=2, reroute="off")  # otherwise an idle leader takes over from the other
    job.places = "node1:2,node2:1,node3:3,node4:2"  # leaders: node1 and node3
    job.words = 4 * MEGABYTE
    steps = 2
    share = steps * job.words * 8
    slack = share // 4  # headers, launching, messages
    for leaders in "1", "2":
        job.fresh()
        job.set(leaders_per_file=leaders)
        before = [host.traffic() for host in cl.hosts]
        r = job.run(8, steps)
        require(r.returncode == 0, f"{r.returncode}\n{r.stdout}")
        after = [host.traffic() for host in cl.hosts]
        sent, received = ([a[way] - b[way] for a, b in zip(after, before)] for way in (0, 1))
        print("leaders", leaders, "sent", sent, "received", received, "a rank's share", share)
        for host, out, into, ranks_out, ranks_in in zip(cl.hosts, sent, received,
                                                        (0, 1, 0, 2), (1, 0, 2, 0)):
            least = share if leaders == "1" else 0
            require(ranks_out * least <= out <= ranks_out * share + slack,
                    f"{host.name} sent {out} bytes, {ranks_out} shares of {share} are its own to send")
            require(ranks_in * least <= into <= ranks_in * share + slack,
                    f"{host.name} received {into} bytes, {ranks_in} shares of {share} are for it")
    job.end()


def slow(service, quick=""):
    """A host with a slow network card: the flush takes longer and succeeds."""
    cl = Cluster(3)
    job = Job(cl, service, files=1, leaders_per_file=1)  # otherwise nothing crosses the network
    job.words = MEGABYTE
    for host in cl.hosts[2:] if quick else (cl.hosts[2], cl.hosts[0]):  # a follower, the leader
        host.slow("80mbit")
        job.fresh()
        r = job.run(6, 3)
        require(r.returncode == 0, f"{host.name} slow: {r.returncode}\n{r.stdout}")
        r = job.run(6, 4)
        require(r.returncode == 0 and job.said("restarted") == [-1, 2],
                f"{host.name} slow: {job.said('restarted')}\n{r.stdout}")
        require(sorted(job.versions()) == [0, 1, 2, 3], f"{host.name} slow: {job.versions()}")
        host.slow(None)
    job.end()


def killed(service, quick=""):
    """In the middle of a flush a rank dies, all processes of a host, or a host with its memory."""
    cl = Cluster(3)
    job = Job(cl, service, files=2, leaders_per_file=1, restart_unsaved="older")  # hosts are lost for good
    job.words = MEGABYTE // 2
    for host in cl.hosts[1:2] if quick else (cl.hosts[1], cl.hosts[0]):
        for what in ("a rank", "processes") if quick else ("a rank", "processes", "host"):
            job.fresh()
            job.options = WATCHFUL
            host.slow("20mbit")  # so that a flush is in flight
            p = job.start(6, 100000)
            job.wait_for("captured", 3, p)
            if what == "a rank":
                kill(host.processes(WORKER)[-1])
            elif what == "processes":
                host.kill_all()
            else:
                host.power_off()
            p.wait()
            wait_until(lambda: not any(h.processes(WORKER) for h in cl.hosts), "ranks are left")
            if what != "a rank" and job.daemons is not None:
                job.daemons.wait()
            host.slow(None)
            # Memory survives the processes, but not the host.
            promised = newest(job, "persistent", *(() if what == "host" else ("captured",)))
            job.check_next(promised, f"{what} on {host.name} killed")
    job.end()


def told_since(job, version):
    """The number of ranks that know that a later version has failed."""
    return len({line.split()[0] for line in job.lines_in("told") if int(line.split()[1]) > version})


def storage_lost(service):
    """All servers of the file system are killed and restarted; their cables are cut and mended. Meanwhile versions
    fail, with the reason, and the job continues."""
    cl = Cluster(3)
    job = Job(cl, service, files=2, on_failure="continue")
    job.more = ["go-on"]
    p = job.start(6, 100000)
    job.wait_for("persistent", 1, p)
    ways = ((Host.kill_all, (lambda server: gluster.serve(cl, server),)),
            (Host.cut, (Host.plug_in, Host.mend)))
    for lose, ways_back in ways:
        for server in cl.servers:
            lose(server)
        lost = newest(job, "captured")
        wait_until(lambda lost=lost: told_since(job, lost) == 6, "all ranks are told", process=p)
        for bring_back in ways_back:
            for server in cl.servers:
                bring_back(server)
        job.wait_for("persistent", newest(job, "captured") + 2, p)
    other = job.command_of_another()
    r = subprocess.run(other, env=job.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, check=False)
    require(r.returncode == 3 and "'work' in '/mnt/files/p' is being written by" in r.stdout,
            f"a second job of the name: {r.returncode}\n{r.stdout}")
    reasons = job.lines_in("told")
    require(any("Transport endpoint is not connected" in r for r in reasons) and
            not any("persistent yet" in r for r in reasons), f"reasons: {reasons}")
    for host in cl.hosts:
        for pid in host.processes(WORKER):
            kill(pid)
    p.wait()
    wait_until(lambda: not any(h.processes(WORKER) for h in cl.hosts), "ranks are left")
    job.check_next(newest(job, "persistent"), "servers were lost")
    job.end()


def cut_until_told(job, host, way):
    """Starts a job and cuts a cable in the middle of a flush, which the launcher does not notice. The version
    fails on every rank with the reason, in bounded time."""
    job.fresh()
    job.options, job.more = BLIND, ["go-on"]
    job.words = MEGABYTE
    host.slow("20mbit")  # so that a flush takes a while
    p = job.start(6, 8)
    wait_until(lambda: job.ranks_in("waits", 3)[0] == 6, "the ranks wait for version 3",
               process=p)
    getattr(host, way)()
    require(sorted(job.versions())[:2] == [0, 1] and 3 not in job.versions(),
            f"{host.name} was to be cut in the middle: {job.versions()}")
    wait_until(lambda: job.ranks_in("told", 3)[0] == 6, f"all ranks are told, {host.name} cut",
               process=p)
    reasons = job.ranks_in("told", 3)[1]
    require(all("commit_timeout" in r and "node" in r for r in reasons), f"reasons: {reasons}")
    require(p.poll() is None and sorted(job.versions())[:2] == [0, 1], f"{job.versions()}")
    host.slow(None)
    return p


def cut(service, quick=""):
    """A cable is cut in the middle of a flush, and mended when the ranks know of the failure: the job continues."""
    cl = Cluster(3)
    job = Job(cl, service, files=1, leaders_per_file=1, commit_timeout="4s", on_failure="continue")
    cases = ((cl.hosts[2], "cut"), (cl.hosts[0], "cut_silently"))
    for host, way in cases[:1] if quick else cases:
        p = cut_until_told(job, host, way)
        host.mend()
        p.wait()
        require(p.returncode == 3 and 7 in job.versions(),
                f"{host.name} mended: exit {p.returncode}, versions {job.versions()}")
        job.check_next(7, f"{host.name} cut and mended")
    job.end()


def cut_and_killed(service):
    """The same, but then all processes die. The next start finds the versions whose flush the cut prevented,
    because all ranks were promised them before."""
    cl = Cluster(3)
    job = Job(cl, service, files=1, leaders_per_file=1, commit_timeout="4s", on_failure="continue")
    p = cut_until_told(job, cl.hosts[2], "cut")
    require(newest(job, "captured") == 3, f"captured: {job.said('captured')}")
    for host in cl.hosts:
        host.kill_all()
    p.wait()
    if job.daemons is not None:
        job.daemons.wait()
    cl.hosts[2].mend()
    job.check_next(3, "cut and killed")
    job.end()


def cut_for_good(service):
    """A cable is cut and the launcher ends the job, daemons too: all processes end, and the next run finds the
    captures."""
    cl = Cluster(3)
    job = Job(cl, service, WATCHFUL, files=2, leaders_per_file=1)
    job.words = MEGABYTE // 2
    for host in (cl.hosts[1], cl.hosts[0]):
        job.fresh()
        job.options = WATCHFUL
        host.slow("20mbit")
        p = job.start(6, 100000)
        job.wait_for("captured", 3, p)
        host.cut()
        p.wait()
        wait_until(lambda: not any(h.processes(WORKER) for h in cl.hosts), "ranks are left")
        if job.daemons is not None:
            job.daemons.wait()
        host.slow(None)
        promised = newest(job, "captured", "persistent")
        host.mend()
        job.check_next(promised, f"{host.name} cut")
    job.end()


def marked(mark):
    """Processes that have this variable: their numbers, and their network namespaces."""
    pids, nets = set(), set()
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes():
                nets.add(os.readlink(entry / "ns/net"))
                pids.add(int(entry.name))
        except OSError:
            continue  # it has ended
    return pids, nets


def in_networks(nets):
    """Processes, of everybody, in one of these networks."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/ns/net"):
        try:
            if os.readlink(entry) in nets:
                found.append(entry)
        except OSError:
            continue
    return found


def cleanup():
    """Two clusters at once do not interfere. When one is killed, its deadline process included, nothing of it is
    left, inside or outside. On a machine that cannot have a cluster the tests are skipped with a reason."""
    marks = [f"CAIRN_TEST_MARK={os.getpid()}-{i}" for i in (1, 2)]
    links = cluster.call("ip", "-o", "link")
    own = os.readlink("/proc/self/ns/net")
    job = [str(cluster.HERE / "cluster.py"), "up", "3", str(cluster.HERE / "cluster.py"), "mpirun",
           "node1:1,node2:1,node3:1", "sleep", "1000"]
    commands = (["env", marks[0], *job], ["env", marks[1], str(BUILD / "tests/deadline"), "1000", *job])
    clusters = [subprocess.Popen(c, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL) for c in commands]
    for mark in marks:  # three hosts and the switch, which has its own network
        wait_until(lambda mark=mark: len(marked(mark)[1] - {own}) == 4, "two clusters at once")
    nets = [marked(mark)[1] - {own} for mark in marks]
    require(not nets[0] & nets[1], f"two clusters share {nets[0] & nets[1]}")
    for victim, mark in zip(clusters, marks):
        require(len(marked(mark)[1] - {own}) == 4, "a cluster died with another one")
        victim.kill()
        victim.wait()
        wait_until(lambda mark=mark: not marked(mark)[0], "a killed cluster is gone")
    if "CAIRN_TEST_MEMORY" in os.environ:  # the files that the killed deadline had in memory go with ours
        require(list(pathlib.Path(jobs.MEMORY).glob("ct-*")), "it is somewhere else")
    # A dying process has no environment any more, but it stays in its network until it is reaped.
    wait_until(lambda: not in_networks(nets[0] | nets[1]), "nobody is left in their networks")
    require(cluster.call("ip", "-o", "link") == links, "interfaces are left")
    r = subprocess.run([sys.executable, *job[:3], "true"], env=dict(os.environ, PATH="/nowhere"),
                       stdout=subprocess.PIPE, text=True, check=False)
    require(r.returncode == cluster.SKIPPED and "skipped: " in r.stdout, f"no skip: {r}")


def main():
    scenarios = {f.__name__: f for f in (end_to_end, programs, traffic, slow, killed, storage_lost, cut,
                                         cut_and_killed, cut_for_good, cleanup)}
    if len(sys.argv) < 2 or sys.argv[1] not in scenarios:
        print(__doc__, "\nscenarios:", *scenarios)
        return 2
    if sys.argv[1] == "cleanup":
        cluster.check()
    else:
        cluster.enter()
    try:
        scenarios[sys.argv[1]](*sys.argv[2:])
    except (SystemExit, Exception):
        output = cluster.shared_place() / "job/output"
        print("--- what jobs and daemons said:\n", output.read_text() if output.exists() else "")
        raise
    print(*sys.argv[1:], "all well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
