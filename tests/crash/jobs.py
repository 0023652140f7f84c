# SPDX-License-Identifier: BSD-3-Clause
"""Real jobs that are killed, and the state that the next run finds. The worker logs every level that a checkpoint
reached. After every death a clean run must restart from a version not older than the last logged one, byte for
byte (the worker checks), and finish. Then the run's directories must be empty."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ["CAIRN_TEST_BUILD"])
HERE = pathlib.Path(__file__).resolve().parent
MPIEXEC = [os.environ["CAIRN_TEST_SOURCE"] + "/tools/mpiexec", str(BUILD)]
WORKER = BUILD / "tests/mpi/worker"
SINGLE = BUILD / "tests/crash/worker_single"
CAIRND = BUILD / "src/cairnd"
CAIRN = BUILD / "src/cli/cairn"
STEPS = 6
# Time limit of a test in seconds. Then tests/support/deadline.c ends it and shows which process hangs.
PATIENCE = float(os.environ.get("CAIRN_TEST_SECONDS", "60"))
MEMORY = os.environ.get("CAIRN_TEST_MEMORY", "/dev/shm")  # emptied by tests/support/deadline.c
# The slow variant of an enumeration strikes every operation, the other one every n-th.
IS_ALL = "CAIRN_TEST_ALL" in os.environ


class Job:
    """The directories of a job, and the runs of the worker in them."""

    def __init__(self, **keys):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="cairn-kill-", dir=MEMORY))
        self.log = self.dir / "log"
        self.env = dict(os.environ, CAIRN_PERSISTENT=str(self.dir / "p"),
                        CAIRN_SHM_DIR=str(self.dir / "shm"), CAIRN_RUN_DIR=str(self.dir / "run"),
                        CAIRN_BLOCK_BYTES="1M", CAIRN_BLOCKS="2", CAIRN_LOG_LEVEL="error")
        self.env.update({"CAIRN_" + k.upper(): str(v) for k, v in keys.items()})
        self.faults = {}  # by rank: a permanent fault, such as a delay
        self.words = []   # words per rank's checkpoint, if not the usual number

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
        given = [f"FAULT_OF_RANK_{rank}={text}" for rank, text in faults.items()]
        return ["env", *given, *MPIEXEC, "-n", str(ranks), str(HERE / "with-fault"), *worker]

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
        """A clean run finds at least the promised versions and finishes."""
        before = len(self.said("restarted"))
        r = self.run(ranks)
        restarted = self.said("restarted")[before:]
        require(r.returncode == 0, f"{what}: the next run fails with {r.returncode}:\n{r.stdout}")
        require(len(restarted) == 1 and restarted[0] >= promised,
                f"{what}: version {promised} was promised, {restarted} was found\n{r.stdout}")

    def check_clean(self, what):
        # A service killed before it has its lock leaves an empty directory, which a drain removes when it is old
        # enough.
        left = [p for p in (self.dir / "shm").glob("cairn-*/*") if (p / "lock").exists()]
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


def cairn(job, *words):
    """Runs the command on the versions of a job; stdout has its output."""
    return subprocess.run([str(CAIRN), *words], env=job.env, check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def newest(job, *kinds):
    return max(job.said(*kinds), default=-1)


def every_call(job, ranks, action, steps=3, stride=1, victim=0, limit=10**9, after=None, sample=1):
    """Strikes the 1st, 2nd, ... file operation until a run ends before the number is reached. after: an additional
    check after the next run. Strikes every sample-th of these operations, unless all are asked for."""
    stride *= 1 if IS_ALL else sample
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
        # Memory survives the processes: a captured version counts as promised.
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
    require(hits * sample >= 5, f"{action}: only {hits} file operations were reached")
    print(f"{action}: {hits} places, all well")


def rank_of(pid):
    """The rank of an MPI process, from its launcher's variables."""
    try:
        environ = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return -1
    names = (b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK=")
    return next((int(e.split(b"=")[1]) for e in environ if e.startswith(names)), -1)


def send(pid, number):
    """Signals a process that may have ended already."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def kill(pid):
    send(pid, signal.SIGKILL)


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
    """Is a process listening? The socket of a dead daemon exists, too."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        try:
            s.connect(str(path))
        except OSError:
            return False
    return True


class Daemons:
    """cairnd on every virtual node of a job."""

    def __init__(self, job, nodes, check=True, alone=False, **env):
        self.job = job
        self.nodes = nodes
        self.log = job.dir / "cairnd.log"
        launcher = MPIEXEC + ["-n", str(nodes)]
        if nodes == 1 and alone:  # tools/mpiexec says the same about leaks of the MPI library
            launcher = ["env", "LSAN_OPTIONS=fast_unwind_on_malloc=0:print_suppressions=0:suppressions="
                        + os.environ["CAIRN_TEST_SOURCE"] + "/tests/support/lsan.supp"]
        with open(self.log, "w") as log:
            program = [str(CAIRND)]
            if "CAIRN_FAULT_COUNT" in env:  # a file each
                program = ["sh", "-c", f"CAIRN_FAULT_COUNT=$CAIRN_FAULT_COUNT.$$ exec {CAIRND}"]
            self.process = subprocess.Popen(launcher + program,
                                            env=dict(job.env, **env), stdin=subprocess.DEVNULL,
                                            stderr=log, start_new_session=True)
        deadline = time.monotonic() + PATIENCE
        while True:
            self.are_up = all(answers(job.dir / f"run/cairnd-{i}.sock") for i in range(nodes))
            if self.are_up or (not check and self.process.poll() is not None):
                break
            require(time.monotonic() < deadline and self.process.poll() is None,
                    "cairnd does not start")
            time.sleep(0.01)

    def pids(self):
        return workers_of(self.process.pid, CAIRND) or [self.process.pid]

    def stop(self):
        for pid in self.pids():
            os.kill(pid, signal.SIGTERM)
        status = self.process.wait()
        require(status == 0, f"cairnd ends with {status}:\n{self.said()}")

    def said(self):
        return self.log.read_text()

    def lines(self, *words):
        """Lines of the daemons' log that have all these words."""
        return [line for line in self.log.read_text().splitlines() if all(w in line for w in words)]

    def kill(self):
        for pid in self.pids():
            kill(pid)
        self.process.wait()

    def rest(self):
        """Living daemons of this job, whoever is their parent now."""
        mine = b"CAIRN_RUN_DIR=" + str(self.job.dir / "run").encode()
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.readlink(entry / "exe") == str(CAIRND) and \
                        mine in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def kill_rest(self):
        """A launcher that has ended may have left some behind."""
        while rest := self.rest():
            for pid in rest:
                kill(pid)
            time.sleep(0.01)


def run_one(doc, *functions):
    """The scenario that the command line names."""
    scenarios = {f.__name__: f for f in functions}
    if len(sys.argv) != 2 or sys.argv[1] not in scenarios:
        print(doc, "\nscenarios:", *scenarios)
        return 2
    scenarios[sys.argv[1]]()
    return 0
