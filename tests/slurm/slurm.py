# SPDX-License-Identifier: BSD-3-Clause
"""Slurm on the hosts of tests/cluster: its own munged, slurmctld and a slurmd for each host, which
end with the cluster's first process."""
import os
import pathlib
import shutil
import subprocess
import sys
import time

SOURCE = pathlib.Path(os.environ["CAIRN_TEST_SOURCE"])
sys.path.insert(0, str(SOURCE / "tests/cluster"))
import cluster  # noqa: E402  pylint: disable=wrong-import-position

CONFIGURATION = """
ClusterName=cairn
SlurmctldHost=node1
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={etc}/munge.socket
CredType=cred/munge
StateSaveLocation={etc}/state
SlurmdSpoolDir=/dev/shm/slurmd
SlurmctldPidFile={etc}/slurmctld.pid
SlurmdPidFile=/dev/shm/slurmd.pid
SlurmctldLogFile={etc}/slurmctld.log
SlurmdLogFile={etc}/slurmd.%n.log
SlurmdParameters=config_overrides
SlurmdTimeout=10
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=pmix
SelectType=select/linear
ReturnToService=2
KillWait=5
CompleteWait=0
UnkillableStepTimeout=30
Prolog={etc}/prolog
PrologFlags=Alloc
Epilog={etc}/epilog
NodeName=node[1-{hosts}] CPUs=4 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def why_not():
    """What this machine lacks; empty if nothing."""
    for program in ("munged", "slurmctld", "slurmd", "srun", "sbatch"):
        if shutil.which(program) is None:
            return f"there is no program '{program}'"
    return "" if os.geteuid() == 0 else "munged and slurmd want root"


def enter():
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    reason = why_not()
    if reason:
        print("skipped:", reason)
        sys.exit(cluster.SKIPPED)
    for key in [k for k in os.environ if k.startswith(("SLURM_", "SBATCH_"))]:
        del os.environ[key]
    cluster.enter()


class Slurm:
    """The cluster and its controller. Commands run on the first host."""

    def __init__(self, count):
        self.cluster = cluster.Cluster(count)
        self.shared = self.cluster.shared
        self.etc = self.shared / "slurm"
        self.etc.mkdir(mode=0o755)
        (self.etc / "state").mkdir()
        (self.etc / "munge").mkdir(mode=0o700)
        for script in ("prolog", "epilog"):
            (self.etc / script).write_text("#!/bin/bash\n")
            (self.etc / script).chmod(0o755)
        self.conf = self.etc / "slurm.conf"
        self.conf.write_text(CONFIGURATION.format(etc=self.etc, hosts=count))
        (self.etc / "mpi.conf").write_text("PMIxCliTmpDirBase=/dev/shm\n")
        self.env = dict(os.environ, SLURM_CONF=str(self.conf))
        self.start_munged()
        first = self.cluster.hosts[0]
        self.daemons = [self.spawn(first, "slurmctld", "-D", "-i", "-f", self.conf)]
        for host in self.cluster.hosts:
            self.daemons.append(self.spawn(host, "slurmd", "-D", "-f", self.conf))
        self.wait(lambda: self.on("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == str(count),
                  "nodes are idle")

    def start_munged(self):
        key = self.etc / "munge/key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        # The socket must be in a directory that all may enter; munged insists on safe ones above.
        self.spawn(self.cluster.hosts[0], "munged", "-F", "--force", "--key-file", key, "--socket",
                   self.etc / "munge.socket", "--pid-file", self.etc / "munge/pid", "--seed-file",
                   self.etc / "munge/seed", "--log-file", self.etc / "munge/log")
        self.wait((self.etc / "munge.socket").exists, "munged answers")

    def spawn(self, host, *command):
        with open(self.etc / "output", "a", encoding="utf-8") as out:
            return subprocess.Popen(host.command(*command), env=self.env, stdin=subprocess.DEVNULL,
                                    stdout=out, stderr=out)

    def on(self, *command, check=True):
        r = subprocess.run(self.cluster.hosts[0].command(*command), env=self.env,
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if check and r.returncode != 0:
            raise RuntimeError(f"{command}: {r.stdout}{r.stderr}{self.logs()}")
        return r.stdout

    def logs(self):
        text = ""
        for log in sorted([*self.etc.glob("*.log"), self.etc / "output"]):
            if log.exists():
                text += f"\n--- {log.name}\n" + log.read_text()[-3000:]
        return text

    def wait(self, condition, what, patience=None):
        patience = patience or float(os.environ.get("CAIRN_TEST_SECONDS", "100"))
        end = time.monotonic() + patience
        while True:
            try:
                if condition():
                    return
            except RuntimeError:  # the controller is starting
                pass
            if time.monotonic() > end:
                raise RuntimeError(f"not within {patience} s: {what}{self.logs()}")
            time.sleep(0.1)

    def sbatch(self, script, *options, **env):
        path = self.shared / "script"
        path.write_text("#!/bin/bash\n" + script)
        path.chmod(0o755)
        self.env |= {k: str(v) for k, v in env.items()}
        out = self.on("sbatch", "--parsable", "-D", self.shared, "-o", f"{self.shared}/out.%j",
                      "--open-mode=append", *options, path)
        return int(out.split(";")[0])

    def output(self, job):
        path = self.shared / f"out.{job}"
        return path.read_text() if path.exists() else ""

    def state(self, job):
        for word in self.on("scontrol", "show", "job", "-o", str(job)).split():
            if word.startswith("JobState="):
                return word[9:]
        return ""

    def until(self, job, *states):
        self.wait(lambda: self.state(job) in states, f"job {job} is {states}: {self.output(job)}")
        return self.output(job)

    def until_output(self, job, text):
        self.wait(lambda: text in self.output(job) or self.state(job) in ("FAILED", "COMPLETED"),
                  f"job {job} prints '{text}'")
        if text not in self.output(job):
            raise RuntimeError(f"no '{text}':\n{self.output(job)}{self.logs()}")
