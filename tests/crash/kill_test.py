#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Kills real jobs and checks what the next run finds.

usage: kill_test.py SCENARIO    (see the functions named after them)

The worker writes what it was promised to a log. After every death a clean run must restart from a
version not older than the last promise, byte for byte (the worker checks), and finish; then nothing
may be left in the run's directories."""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ["CAIRN_TEST_BUILD"])
MPIEXEC = [os.environ["CAIRN_TEST_SOURCE"] + "/tools/mpiexec", str(BUILD)]
WORKER = BUILD / "tests/mpi/worker"
SINGLE = BUILD / "tests/crash/worker_single"
CAIRND = BUILD / "src/cairnd"
CAIRN = BUILD / "src/cli/cairn"
STEPS = 6
# Seconds that a test has; then tests/support/deadline.c ends it and shows who hangs.
PATIENCE = float(os.environ.get("CAIRN_TEST_SECONDS", "60"))
MEMORY = os.environ.get("CAIRN_TEST_MEMORY", "/dev/shm")  # emptied by tests/support/deadline.c


class Job:
    """A directory with everything of a job, and the runs of the worker in it."""

    def __init__(self, **keys):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="cairn-kill-", dir=MEMORY))
        self.log = self.dir / "log"
        self.env = dict(os.environ, CAIRN_PERSISTENT=str(self.dir / "p"),
                        CAIRN_SHM_DIR=str(self.dir / "shm"), CAIRN_RUN_DIR=str(self.dir / "run"),
                        CAIRN_BLOCK_BYTES="1M", CAIRN_BLOCKS="2", CAIRN_LOG_LEVEL="error")
        self.env.update({"CAIRN_" + k.upper(): str(v) for k, v in keys.items()})
        self.faults = {}  # by rank: what always strikes it, such as a delay
        self.words = []   # of a rank's checkpoint, if not as many as usual

    def command(self, ranks, steps, fault=None, victim=0):
        """The worker under mpirun, or alone; the fault strikes one rank only."""
        worker = [str(WORKER), str(steps), str(self.log)] + self.words
        if ranks == 1:
            worker[0] = str(SINGLE)
            return worker if fault is None else ["env", f"CAIRN_FAULT_FS={fault}"] + worker
        if fault is None and not self.faults:
            return MPIEXEC + ["-n", str(ranks)] + worker
        faults = dict(self.faults)
        if fault is not None:
            faults[victim] = fault
        parts = []
        for rank in range(ranks):
            prefix = ["env", f"CAIRN_FAULT_FS={faults[rank]}"] if rank in faults else []
            parts += [":"] if parts else []
            parts += ["-n", "1"] + prefix + worker
        return MPIEXEC + parts

    def run(self, ranks, steps=STEPS, fault=None, victim=0, **env):
        return subprocess.run(self.command(ranks, steps, fault, victim),
                              env=dict(self.env, **env), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)

    def start(self, ranks, steps=STEPS):
        return subprocess.Popen(self.command(ranks, steps), env=self.env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                start_new_session=True)

    def said(self, *kinds):
        """Versions that the log names after one of these words, in order."""
        if not self.log.exists():
            return []
        lines = [line.split() for line in self.log.read_text().splitlines()]
        return [int(line[1]) for line in lines if len(line) == 2 and line[0] in kinds]

    def check_restart(self, ranks, promised, what):
        """A clean run finds at least what was promised and finishes."""
        before = len(self.said("restarted"))
        r = self.run(ranks)
        restarted = self.said("restarted")[before:]
        require(r.returncode == 0, f"{what}: the next run fails with {r.returncode}:\n{r.stdout}")
        require(len(restarted) == 1 and restarted[0] >= promised,
                f"{what}: version {promised} was promised, {restarted} was found\n{r.stdout}")

    def check_clean(self, what):
        left = [p for p in (self.dir / "shm").glob("cairn-*/*")]
        left += list((self.dir / "run").glob("*"))
        require(not left, f"{what}: left behind: {left}")

    def remove(self):
        shutil.rmtree(self.dir)

    def reset(self):
        for name in ("p", "shm", "run", "log", "local"):
            path = self.dir / name
            if path.is_dir():
                shutil.rmtree(path)
            elif path.exists():
                path.unlink()


def require(condition, text):
    if not condition:
        print("FAILED:", text)
        sys.exit(1)


def newest(job, *kinds):
    return max(job.said(*kinds), default=-1)


def every_call(job, ranks, action, steps=3, stride=1, victim=0, limit=10**9, after=None):
    """Strikes the 1st, 2nd, ... file operation until a run no longer reaches the number. after: what else
    is to be looked at when the next run is over."""
    k = 1
    hits = 0
    while k <= limit:
        job.reset()
        r = job.run(ranks, steps, f"at={k},{action}", victim,
                    CAIRN_FAULT_COUNT=str(job.dir / "count"))
        what = f"{action} at file operation {k}"
        killed = "kill" in action or "tear" in action
        if killed and r.returncode == 0:
            break
        require(killed or r.returncode in (0, 3), f"{what}: exit {r.returncode}\n{r.stdout}")
        # Memory survives the processes: captured is enough for a promise.
        promised = newest(job, "captured" if killed else "persistent", "persistent")
        job.check_restart(ranks, promised, what)
        job.check_clean(what)
        if after is not None:
            after(job, what)
        hits += 1
        if not killed:
            count = (job.dir / "count")
            if count.exists() and int(count.read_text()) < k:
                break
        k += stride
    require(hits >= 5, f"{action}: only {hits} file operations were reached")
    print(f"{action}: {hits} places, all well")


def kill_every_call():
    """SIGKILL before, or in the middle of, every file operation of a run."""
    job = Job()
    every_call(job, 1, "action=kill")
    every_call(job, 1, "action=tear,ops=write")
    job.remove()


def kill_every_call_local():
    """The same with a local tier and an arena that is too small: spill, local copies, their removal."""
    job = Job(arena_bytes="64K", arena_full="spill", keep_last=1)
    job.env["CAIRN_LOCAL"] = str(job.dir / "local")
    every_call(job, 1, "action=kill")
    job.remove()


def verify(job, what):
    """Every version that is there is whole, through everything that it needs."""
    r = subprocess.run([str(CAIRN), "verify"], env=job.env, check=False, text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    require(r.returncode == 0, f"{what}: {r.stdout}")


def longest_chain(job):
    r = subprocess.run([str(CAIRN), "ls", "--json"], env=job.env, check=True, text=True,
                       stdout=subprocess.PIPE)
    return max(v["chain"] for v in json.loads(r.stdout)["versions"])


def kill_every_call_chained():
    """Versions that are encoded against those before, which retention lets go as soon as it may."""
    job = Job(encode="adaptive", encode_full_every=3, keep_last=1)
    job.env["CAIRN_TEST_ALIKE"] = "1"
    every_call(job, 1, "action=kill", steps=5, stride=3, after=verify)
    every_call(job, 1, "action=kill,ops=unlink+rename", steps=5, after=verify)
    job.reset()
    job.check_restart(1, -1, "nobody is killed")
    require(longest_chain(job) == 2, "nothing was encoded against another version")
    job.remove()


def fail_every_call():
    """Each file operation fails once with each of the usual errors, or is short."""
    job = Job(retry_delay="1ms")
    for errno in (28, 5, 122):  # ENOSPC, EIO, EDQUOT
        every_call(job, 1, f"action=fail,errno={errno}")
    every_call(job, 1, "action=fail,errno=24,ops=open")  # EMFILE
    every_call(job, 1, "action=fail,errno=5,ops=sync+close")
    every_call(job, 1, "action=short,ops=write+read")
    job.remove()


def die_with_a_capture(job):
    """A run that is killed with a capture in memory that is not persistent."""
    for at in range(40, 240, 3):
        job.reset()
        job.run(1, 4, f"at={at},action=kill")
        if newest(job, "captured") > newest(job, "persistent"):
            return newest(job, "captured")
    require(False, "no run dies with a capture in memory")
    return -1


def kill_recovery():
    """A run dies with captures in memory; then the recovery dies at each of its operations."""
    job = Job()
    k = 1
    while True:
        promised = die_with_a_capture(job)
        r = job.run(1, 4, f"at={k},action=kill")
        what = f"recovery killed at file operation {k}"
        promised = max(promised, newest(job, "captured", "persistent"))
        job.check_restart(1, promised, what)
        job.check_clean(what)
        if r.returncode == 0:
            break
        k += 1
    print(f"recovery: {k - 1} places, all well")
    require(k > 10, "recovery has hardly any file operation")
    job.remove()


def pattern(version, rank, i):
    """As in mpi_test.h."""
    mask = 2**64 - 1
    x = (version * 0x9e3779b97f4a7c15 + rank * 0xbf58476d1ce4e5b9 + i) & mask
    x ^= x >> 31
    x = x * 0x94d049bb133111eb & mask
    return x ^ x >> 29


def find_in_arena(job, rank, version):
    """An arena, and where a word in the middle of the version's large region is in it; -1: nowhere."""
    arena = next((job.dir / "shm").glob(f"cairn-*/*/arena-{rank}"))
    word = pattern(version, rank, 200000).to_bytes(8, "little")
    return arena, arena.read_bytes().find(word)


def flip_a_bit(job, rank, version):
    arena, at = find_in_arena(job, rank, version)
    with arena.open("r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 4]))


def die_with_version_2(job, ranks, at):
    """A run that is killed when its directory is about to be made: all ranks have captured it by then.
    Returns where, for the next time."""
    for k in range(at, at + 60):
        job.reset()
        r = job.run(ranks, 3, f"at={k},action=kill,ops=mkdir")
        if r.returncode == 0:
            break
        if ((job.dir / "p/work/1/manifest").exists() and not (job.dir / "p/work/2").exists()
                and find_in_arena(job, 0, 2)[1] >= 0):
            return k
    require(False, "no run dies with version 2 in memory alone")
    return 0


def drain(job):
    """Whether version 2 is there afterwards."""
    r = subprocess.run([str(CAIRN), "drain"], env=job.env, check=False, text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    require(r.returncode == 0 and "work@2" in r.stdout, f"drain exits with {r.returncode}: {r.stdout}")
    return (job.dir / "p/work/2/manifest").exists()


def flipped_bit(ranks=1, **keys):
    """Checksums are taken with the capture: what was damaged in memory is not what a drain commits."""
    job = Job(**keys)
    job.words = ["400000"]  # 3 MB and a bit: less is summed when it is flushed
    at = 1
    for victim in [None, *range(ranks)]:
        at = die_with_version_2(job, ranks, at)
        if victim is not None:
            flip_a_bit(job, victim, 2)
        require(drain(job) == (victim is None), f"a bit of rank {victim} was flipped")
        job.check_restart(ranks, 2 if victim is None else 1, f"a bit of rank {victim} was flipped")
        found = job.said("restarted")[-1]
        require(found == (2 if victim is None else 1), f"version {found} was found")
    job.remove()


def flipped_bits():
    """The same with several ranks."""
    flipped_bit(2, ranks_per_node=2)


def kill_ranks():
    """Several nodes: a rank dies in a file operation of its service, or any time by the clock."""
    rng = random.Random(int(os.environ.get("CAIRN_TEST_SEED", "1")))
    files = os.environ.get("CAIRN_TEST_FILES", "1:1")
    job = Job(ranks_per_node=2, files=files)
    for victim in (0, 2) if files == "1:1" else (0,):  # a follower hardly touches files
        every_call(job, 4, "action=kill", stride=9, victim=victim, limit=64)
    for round_no in range(6):
        job.reset()
        p = job.start(4, 200)
        until = rng.randrange(1, 8)
        deadline = time.monotonic() + PATIENCE
        while newest(job, "captured") < until and time.monotonic() < deadline and p.poll() is None:
            time.sleep(0.002)
        pids = workers_of(p.pid)
        require(pids, "no worker is running")
        if round_no % 2:
            kill(rng.choice(pids))  # one rank; the launcher ends the others
        else:
            for pid in pids:
                kill(pid)
        p.wait()
        promised = newest(job, "captured", "persistent")
        job.check_restart(4, promised, f"round {round_no}")
        job.check_clean(f"round {round_no}")
    job.remove()
    print("kill of ranks: all well")


def rank_of(pid):
    """Of an MPI process, as its launcher told it."""
    try:
        environ = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return -1
    names = (b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK=")
    return next((int(e.split(b"=")[1]) for e in environ if e.startswith(names)), -1)


def assisted(output):
    """Bytes that nodes wrote for others, by (writer, leader)."""
    found = {}
    for m in re.finditer(r"node (\d+)\] \S+: (\d+) bytes of 'data-\S+' for node (\d+)", output):
        key = int(m[1]), int(m[3])
        found[key] = found.get(key, 0) + int(m[2])
    return found


def no_half_files(job, what):
    """A failed version leaves no data file behind, a good one no other than its own."""
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
    """A slow leader is assisted, by its own group or another; an assistant that fails costs at most the
    version, and leaves nothing."""
    for keys, ranks, helper in (({"files": 1, "leaders_per_file": 2, "reroute": "off"}, 3, 1),
                                ({"files": 2, "reroute": "on"}, 4, 2)):
        job = assist_job(**keys)
        r = job.run(ranks)
        require(r.returncode == 0, f"{keys}: exit {r.returncode}\n{r.stdout}")
        require(assisted(r.stdout).get((helper, 0), 0) > 0, f"{keys}: no help\n{r.stdout}")
        most = [int(m) for m in re.findall(r"most blocks (\d+)", r.stdout)]
        require(most and max(most) <= 2, f"{keys}: {max(most)} blocks in use")
        job.check_restart(ranks, STEPS - 1, str(keys))
        job.check_clean(str(keys))
        # Off: nobody helps.
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
    """An assistant hangs in a write for longer than commit_timeout: the leader gives it up, and writes
    the version alone, under the same name, where it may try again. The late write does no harm."""
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


def assist_kill():
    """Helper or leader dies in each file operation, or it fails."""
    for keys, ranks, victims in (({"files": 1, "leaders_per_file": 2, "reroute": "off"}, 3, (0, 1)),
                                 ({"files": 2, "reroute": "on"}, 4, (0, 2))):
        job = assist_job(**keys)
        for victim in victims:
            every_call(job, ranks, "action=kill", stride=5, victim=victim, limit=40)
            for k in range(1, 30, 6):
                assist_fails(job, ranks, victim, k)
        job.remove()
    print("assist, killed: all well")


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def workers_of(root, program=WORKER):
    """Processes below root that run this program."""
    children = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
            exe = os.readlink(entry / "exe")
        except OSError:
            continue
        ppid = int(stat.rsplit(")", 1)[1].split()[1])
        children.setdefault(ppid, []).append((int(entry.name), exe))
    found = []
    todo = [root]
    while todo:
        for pid, exe in children.get(todo.pop(), []):
            todo.append(pid)
            if exe == str(program):
                found.append(pid)
    return found


def answers(path):
    """Is somebody listening? The socket of a dead daemon is there too."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        try:
            s.connect(str(path))
        except OSError:
            return False
    return True


class Daemons:
    """cairnd on every virtual node of a job."""

    def __init__(self, job, nodes):
        self.job = job
        self.nodes = nodes
        self.process = subprocess.Popen(MPIEXEC + ["-n", str(nodes), str(CAIRND)], env=job.env,
                                        stdin=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + PATIENCE
        while not all(answers(job.dir / f"run/cairnd-{i}.sock") for i in range(nodes)):
            require(time.monotonic() < deadline and self.process.poll() is None,
                    "cairnd does not start")
            time.sleep(0.01)

    def pids(self):
        return workers_of(self.process.pid, CAIRND)

    def stop(self):
        for pid in self.pids():
            os.kill(pid, signal.SIGTERM)
        require(self.process.wait() == 0, "cairnd does not end well")

    def kill(self):
        for pid in self.pids():
            kill(pid)
        self.process.wait()


def wait_for_idle(job):
    """Until the daemons have finished the dead jobs and removed their directories."""
    deadline = time.monotonic() + PATIENCE
    while list((job.dir / "shm").glob("cairn-*/*")):
        require(time.monotonic() < deadline, "cairnd does not finish a dead job")
        time.sleep(0.01)


def daemon():
    """cairnd outlives the application, serves several jobs, and its own death kills nobody."""
    job = Job(ranks_per_node=2, service="daemon", files=os.environ.get("CAIRN_TEST_FILES", "1:1"))
    (job.dir / "run").mkdir(mode=0o700)
    daemons = Daemons(job, 2)
    for round_no in range(3):  # applications come and go
        if round_no:
            shutil.rmtree(job.dir / "p")
            job.log.unlink()
        p = job.start(4, 200)
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
    # The daemons die under a running application: it must end by itself, with an error.
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
    """Phases and the cap on bandwidth with cairnd, as in tests/mpi/phase.c."""
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
    """Several jobs of one user share the daemons, one of them is killed; none meets another."""
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


def run_one(doc, *functions):
    """The scenario that the command line names."""
    scenarios = {f.__name__: f for f in functions}
    if len(sys.argv) != 2 or sys.argv[1] not in scenarios:
        print(doc, "\nscenarios:", *scenarios)
        return 2
    scenarios[sys.argv[1]]()
    return 0


if __name__ == "__main__":
    sys.exit(run_one(__doc__, kill_every_call, kill_every_call_local, kill_every_call_chained,
                     fail_every_call, kill_recovery, flipped_bit, flipped_bits, kill_ranks, daemon,
                     shared_daemon, phases, assist, assist_late, assist_kill))
