#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Jobs under a real Slurm.  usage: slurm_test.py SCENARIO (see the functions named after them)

tests/e2e/job.c is the job: it checks every value that it restarts from."""
import json
import re
import subprocess
import sys

import slurm
from slurm import Slurm, cluster

BUILD = cluster.BUILD
CAIRN = BUILD / "src/cli/cairn"
JOB = BUILD / "tests/job_mpi"
# Between hosts there is TCP and nothing else.
MPI = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,vader,self", "OMPI_MCA_btl_tcp_if_include": "eth0",
       "OMPI_MCA_orte_tmpdir_base": "/dev/shm", "PMIX_MCA_gds": "hash"}


def require(condition, what):
    if not condition:
        raise RuntimeError(what)


def settings(sl, **more):
    """The environment of a job: versions on the shared file system, the rest on the hosts."""
    return MPI | {"CAIRN_PERSISTENT": sl.shared / "store", "CAIRN_RUN_DIR": "/dev/shm/run",
                  # An epilog looks there: it has not the job's variables.
                  "CAIRN_SHM_DIR": "/dev/shm",
                  "CAIRN_BLOCK_BYTES": "1M", "CAIRN_BLOCKS": "2", "CAIRN_LOG_LEVEL": "info",
                  "CAIRN_FREE_RESERVE_BYTES": "0", "CAIRN_PERIOD": "365d"} | more


def versions(sl):
    out = subprocess.run([CAIRN, "--dir", sl.shared / "store", "ls", "--json"], check=True,
                         capture_output=True, text=True).stdout
    return [v["version"] for v in json.loads(out)["versions"] if v["state"] == "ok"]


def began_and_ended(text):
    return re.findall(r"(?m)^(began|ended) (\d+)$", text)


def require_last(sl, out):
    """The job has ended by itself, with a last checkpoint: of its last step or the one before."""
    what, step = began_and_ended(out)[-1]
    require(what == "ended" and int(step) - versions(sl)[-1] in (0, 1), out)


def finish(sl, steps, nodes=2):
    """A later job continues from what the first one left and reaches its end."""
    newest = versions(sl)[-1]
    job = sl.sbatch(f"srun {JOB} {newest + steps}", f"-N{nodes}", **settings(sl))
    out = sl.until(job, "COMPLETED", "FAILED")
    require(began_and_ended(out) == [("began", str(newest)), ("ended", str(newest + steps))], out)
    subprocess.run([CAIRN, "--dir", sl.shared / "store", "verify"], check=True)


def end_to_end():
    """srun on two nodes; then the time limit, of which only Slurm knows, leads to a last checkpoint."""
    sl = Slurm(2)
    job = sl.sbatch(f"srun --ntasks-per-node=2 {JOB} 40", "-N2", **settings(sl))
    out = sl.until(job, "COMPLETED", "FAILED")
    require(began_and_ended(out) == [("began", "0"), ("ended", "40")], out + sl.logs())
    require(versions(sl)[-1] == 40, versions(sl))
    job = sl.sbatch(f"srun --ntasks-per-node=2 {JOB} 100000000", "-N2", "--time=10",
                    **settings(sl, CAIRN_WALL_MARGIN="595s", JOB_STEP_MS=10))
    out = sl.until(job, "COMPLETED", "FAILED")
    require(f"Slurm ends job {job}" in out, out)
    require_last(sl, out)


def signal():
    """--signal=B:USR1 reaches the batch script's cairn run, which passes it on to srun and the ranks."""
    sl = Slurm(2)
    job = sl.sbatch(f"exec {CAIRN} run -- srun {JOB} 100000000", "-N2", "--time=1",
                    "--signal=B:USR1@30", **settings(sl, CAIRN_STOP_SIGNALS="USR1", JOB_STEP_MS=10,
                                                     CAIRN_WALL_LIMIT="100h"))
    out = sl.until(job, "COMPLETED", "FAILED", "TIMEOUT")
    require_last(sl, out)
    require("1 start, 0 failures" in out, out)
    finish(sl, 10)


def requeue():
    """A job that is put back into the queue continues when it is started again."""
    sl = Slurm(2)
    job = sl.sbatch(f"srun {JOB} 100000000", "-N2", "--requeue", **settings(sl, JOB_STEP_MS=10))
    sl.wait(lambda: (sl.shared / "store/job").exists() and len(versions(sl)) > 0, "a checkpoint")
    sl.on("scontrol", "requeue", str(job))
    sl.wait(lambda: sl.output(job).count("began") == 2, "the job is started again", 400)
    require(int(began_and_ended(sl.output(job))[1][1]) > 0, sl.output(job))
    sl.on("scancel", str(job))
    sl.until(job, "CANCELLED")
    finish(sl, 10)


def node_lost():
    """A node dies in the middle: the job is started again in the same allocation, with the spare."""
    sl = Slurm(3)
    job = sl.sbatch(f"exec {CAIRN} run --wait 1s -r 20 --nodes 2 -- srun -N {{nnodes}} -w {{nodes}} "
                    f"{JOB} 100000000", "-N3", "--no-kill", **settings(sl, JOB_STEP_MS=10))
    sl.wait(lambda: (sl.shared / "store/job").exists() and len(versions(sl)) > 1, "checkpoints")
    sl.cluster.hosts[1].power_off()  # the batch script is on the first, the job on the first two
    sl.wait(lambda: sl.output(job).count("began") == 2, "the job is started again", 300)
    began = [int(n) for what, n in began_and_ended(sl.output(job)) if what == "began"]
    require(began[0] == 0 and began[1] > 0, sl.output(job))
    sl.on(CAIRN, "--dir", sl.shared / "store", "halt", "now")
    out = sl.until(job, "COMPLETED", "FAILED")
    require_last(sl, out)


def node_lost_without_spare():
    """Of two nodes one dies; its rank finds room on the other, in the same allocation."""
    sl = Slurm(2)
    job = sl.sbatch(f"exec {CAIRN} run --wait 1s -r 20 -- srun -N {{nnodes}} -w {{nodes}} -n 2 -O "
                    f"{JOB} 100000000", "-N2", "--no-kill", **settings(sl, JOB_STEP_MS=10))
    sl.wait(lambda: (sl.shared / "store/job").exists() and len(versions(sl)) > 1, "checkpoints")
    sl.cluster.hosts[1].power_off()
    sl.wait(lambda: sl.output(job).count("began") == 2, "the job is started again", 300)
    began = [int(n) for what, n in began_and_ended(sl.output(job)) if what == "began"]
    require(began[0] == 0 and began[1] > 0, sl.output(job))
    sl.on(CAIRN, "--dir", sl.shared / "store", "halt", "now")
    require_last(sl, sl.until(job, "COMPLETED", "FAILED"))


def mpirun():
    """Open MPI's own launcher inside an allocation: the ranks are killed, started again, and halted."""
    sl = Slurm(2)
    line = f"exec {CAIRN} run --wait 1s -- mpirun --allow-run-as-root --map-by ppr:1:node {JOB}"
    job = sl.sbatch(f"{line} 40", "-N2", **settings(sl, JOB_DIE=15))
    out = sl.until(job, "COMPLETED", "FAILED")
    marks = began_and_ended(out)
    require([what for what, _ in marks] == ["began", "began", "ended"] and marks[1:] == [("began", "10"),
            ("ended", "40")], out)
    require("2 starts, 1 failure" in out, out)
    job = sl.sbatch(f"{line} 100000000", "-N2", **settings(sl, JOB_STEP_MS=10))
    sl.until_output(job, "began 40")
    sl.on(CAIRN, "--dir", sl.shared / "store", "halt", "now")
    require_last(sl, sl.until(job, "COMPLETED", "FAILED"))


def install(sl, script):
    """Slurm runs the shipped prolog or epilog, with the test's directories."""
    shipped = (slurm.SOURCE / "dist/slurm" / script).read_text()
    (sl.etc / script).write_text(
        shipped.replace("/lustre/%u/checkpoints", f"{sl.shared}/store")
        .replace(f"/var/log/cairn/{script}.log", f"{sl.shared}/{script}.$(hostname)")
        .replace("-- cairn drain", f"-- env CAIRN_RUN_DIR=/dev/shm/run CAIRN_SHM_DIR=/dev/shm "
                 f"CAIRN_FREE_RESERVE_BYTES=0 {CAIRN} drain"))


def said(sl, script):
    return "".join(p.read_text() for p in sl.shared.glob(f"{script}.*"))


def leave_capture(sl):
    """A job whose ranks die with version 10 in memory only: it is written slower than the job lives."""
    job = sl.sbatch(f"srun {JOB} 100000000; exit 0", "-N2",
                    **settings(sl, CAIRN_BANDWIDTH="20K", JOB_DIE=15))
    sl.until(job, "COMPLETED", "FAILED")


def epilog():
    """The ranks are killed with a checkpoint in memory only; the epilog saves it before Slurm gives the
    node to another job."""
    sl = Slurm(2)
    install(sl, "epilog")
    leave_capture(sl)
    sl.wait(lambda: len(list(sl.shared.glob("epilog.*"))) == 2, "epilogs ran")
    sl.wait(lambda: versions(sl) == [10] or "nothing to drain" in said(sl, "epilog"),
            "the epilogs have saved version 10")
    require("job@10" in said(sl, "epilog"), f"the epilogs say: {said(sl, 'epilog')}")
    finish(sl, 10)


def prolog():
    """Without an epilog the prolog of the next job saves what the dead ranks left, before that job starts."""
    sl = Slurm(2)
    leave_capture(sl)
    require(versions(sl) == [], f"saved too early: {versions(sl)}")
    install(sl, "prolog")
    job = sl.sbatch("true", "-N2", "--wait", **settings(sl))
    sl.until(job, "COMPLETED", "FAILED")
    sl.wait(lambda: versions(sl) == [10] or said(sl, "prolog").count("nothing to drain") == 2,
            "the prologs have saved version 10")
    require("job@10" in said(sl, "prolog"), f"the prologs say: {said(sl, 'prolog')}")
    finish(sl, 10)


def daemon():
    """cairnd runs as a step of its own on each node. The application dies with a checkpoint in memory; the
    daemons continue and commit it, and end when the batch script tells them to."""
    sl = Slurm(2)
    job = sl.sbatch(f"srun --overlap --ntasks-per-node=1 {BUILD}/src/cairnd & "
                    f"srun --overlap {JOB} 100000000; "
                    f"until [ -e {sl.shared}/saved ]; do sleep 0.2; done; kill %1; wait",
                    "-N2", **settings(sl, CAIRN_SERVICE="daemon", CAIRN_BANDWIDTH="100K", JOB_DIE=15))
    sl.wait(lambda: "began 0" in sl.output(job) or "error" in sl.output(job), "the application begins")
    require("began 0" in sl.output(job), sl.output(job))
    sl.wait(lambda: versions(sl) == [10], "the daemons save version 10")
    (sl.shared / "saved").touch()
    out = sl.until(job, "COMPLETED", "FAILED")
    require("Killed" in out, out)  # the application
    sl.env |= {"CAIRN_SERVICE": "embedded", "CAIRN_BANDWIDTH": "0"}
    finish(sl, 10)


if __name__ == "__main__":
    slurm.enter()
    globals()[sys.argv[1]]()
