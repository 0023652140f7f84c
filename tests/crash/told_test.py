#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The reports on a job that a person finds the next morning: each event once, in the log and in the journal of the
name.

usage: told_test.py SCENARIO    (see the functions named after them)"""
import json
import re
import sys

sys.dont_write_bytecode = True
from jobs import STEPS, Job, cairn, require, run_one

RANKS = 4
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z cairn (\w+) job 4711 (rank|node) (\d+): (.*)")


def new_job(**keys):
    """Two nodes of two ranks, of job 4711, whose log lines go to one file."""
    job = Job(ranks_per_node=2, job="4711", log_level="info", chunk_bytes="64K", **keys)
    job.env["CAIRN_LOG_FILE"] = str(job.dir / "said-%j")
    job.words = ["40000"]
    return job


def lines(job):
    """The lines logged since the last call: level, origin, text."""
    path = job.dir / "said-4711"
    text = path.read_text() if path.exists() else ""
    path.unlink(missing_ok=True)
    found = []
    for line in text.splitlines():
        m = LINE.fullmatch(line)
        require(m is not None, f"not a log line: {line}")
        found.append((m[1], f"{m[2]} {m[3]}", m[4]))
    return found


def said(job, *words):
    """Warnings and errors since the last call; each must contain the words of its position."""
    got = [line for line in lines(job) if line[0] in ("warn", "error")]
    require(len(got) == len(words) and all(w in line[2] for line, w in zip(got, words)),
            f"expected {words}, logged: {got}")
    return got


def events(job):
    r = cairn(job, "ls", "--failed", "--json")
    return [(e["kind"], e["version"], e["job"], e["text"]) for e in json.loads(r.stdout)["events"]]


def restart(job, version, what):
    before = len(job.said("restarted"))
    r = job.run(RANKS, 0)
    require(r.returncode == 0 and job.said("restarted")[before:] == [version],
            f"{what}: exit {r.returncode}, restarted from {job.said('restarted')[before:]}\n{r.stdout}")
    require("cairn " not in r.stdout, f"{what}: not in the log file: {r.stdout}")


def flip(path, at):
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(raw)


def passed_over():
    """Damaged versions: the first rank logs one warning, with the reason, whichever rank found the damage."""
    job = new_job()
    r = job.run(RANKS)
    require(r.returncode == 0, f"the first run fails with {r.returncode}:\n{r.stdout}")
    said(job)
    last = STEPS - 1
    flip(job.dir / f"p/work/{last}/data-0001", 5000)  # of the second node
    restart(job, last - 1, "a byte of data")
    got = said(job, f"work@{last} is passed over")
    require(got[0][1] == "rank 0" and "data-0001" in got[0][2], f"who, and where: {got}")
    (kind, version, of_job, text), = events(job)
    require((kind, version, of_job) == ("passed-over", last, "4711") and "data-0001" in text, f"{kind} {version} {text}")
    flip(job.dir / f"p/work/{last - 1}/manifest", 50)
    restart(job, last - 2, "a byte of a manifest")
    said(job, f"work@{last} is passed over", f"work@{last - 1} is passed over")
    require([e[:2] for e in events(job)[1:]] == [("passed-over", last), ("passed-over", last - 1)], f"{events(job)}")
    # Versions older than the one taken are not reported as passed over.
    flip(job.dir / f"p/work/{last - 3}/manifest", 50)
    flip(job.dir / f"p/work/{last}/data-0001", 5000)
    flip(job.dir / f"p/work/{last - 1}/manifest", 50)
    restart(job, last, "all good again")
    said(job)
    r = cairn(job, "explain", f"work@{last}")
    require(r.returncode == 0 and r.stdout.count("passed-over, job 4711") == 2, r.stdout)
    job.remove()
    print("passed over: all well")


def repaired():
    """A damaged copy that another copy replaces is reported, whichever of the two it is."""
    job = new_job(keep_local=2)
    job.env["CAIRN_LOCAL"] = str(job.dir / "local")
    r = job.run(RANKS)
    require(r.returncode == 0, f"the first run fails with {r.returncode}:\n{r.stdout}")
    said(job)
    last = STEPS - 1
    store = sorted((job.dir / f"p/work/{last}").glob("data-*"))
    local = sorted((job.dir / "local").glob(f"**/work/{last}/data-*"))
    require(len(store) == 2 and len(local) == 2, f"{store} {local}")
    restart(job, last, "nothing is damaged")
    said(job)
    repairs = 0
    for path, at, ranks, what in ((store[0], -100, 2, "the index on the file system"),
                                  (store[1], -10, 2, "the trailer on the file system"),
                                  (local[1], 5000, 1, "data of a local file"),
                                  (local[0], 5000, 1, "data of a local file")):
        flip(path, at)
        restart(job, last, what)
        got = said(job, f"work@{last} is damaged and was repaired")
        require(got[0][1] == "rank 0" and path.name in got[0][2] and f"{ranks} of 4 ranks" in got[0][2], f"{what}: {got}")
        repairs += 1
        r = cairn(job, "explain", "work", "--json")
        require(json.loads(r.stdout)["repairs"] == repairs, f"{what}: {r.stdout}")
        flip(path, at)
    restart(job, last, "nothing is damaged any more")
    said(job)
    # Data on the file system behind good copies: no rank reads it. A thread checks it afterwards, unless the job ends
    # before.
    flip(store[1], 5000)
    got = []
    while not got:
        restart(job, last, "data of a file that no rank reads")
        got = [line for line in lines(job) if line[0] == "warn"]
    require(len(got) == 1 and got[0][1] == "rank 2" and store[1].name in got[0][2] and
            f"cairn verify work@{last}" in got[0][2], f"behind good copies: {got}")
    repairs += 1
    r = cairn(job, "explain", "work", "--json")
    require(json.loads(r.stdout)["repairs"] == repairs, f"behind good copies: {r.stdout}")
    flip(store[1], 5000)
    # No good copy: the version is passed over, and nothing is called repaired.
    flip(store[1], 5000)
    flip(local[1], 5000)
    restart(job, last - 1, "both copies")
    said(job, f"work@{last} is passed over")
    job.remove()
    print(f"{repairs} repairs, each told once: all well")


def ended(job):
    """The line at the end of a run: its level and text. The first node logs it, once."""
    got = [line for line in lines(job) if "the run has ended" in line[2]]
    require(len(got) == 1 and got[0][1] == "node 0", f"the end of the run: {got}")
    return got[0][0], got[0][2]


def summary():
    """A run ends with a line that summarizes its versions. Each failure is logged once, and recorded."""
    job = new_job(on_failure="continue")
    r = job.run(RANKS)
    require(r.returncode == 0, f"the first run fails with {r.returncode}:\n{r.stdout}")
    level, text = ended(job)
    require(level == "info" and re.search(rf"{STEPS} versions persistent, 7\.3 MiB, the slowest work@\d after .*; "
                                          r"rank 0 waited .*; 0 failed, 0 canceled, 0 unfinished$", text), text)
    require(events(job) == [], f"{events(job)}")
    # A write of the second node fails: the version is lost on each node, with one reason.
    job.reset()
    r = job.run(RANKS, 3, "at=1,action=fail,errno=5,ops=write", 2)
    require(r.returncode == 3, f"a write fails: exit {r.returncode}\n{r.stdout}")
    got = lines(job)
    lost = [line for line in got if re.search("is (lost|not saved):", line[2])]
    require(len(lost) == 1 and lost[0][:2] == ("error", "node 0"), f"lost: {lost}")
    end = [line for line in got if "the run has ended" in line[2]]
    require(len(end) == 1 and end[0][0] == "warn" and " 1 failed" in end[0][2], f"{end}")
    version = int(re.search(r"work@(\d+) is", lost[0][2])[1])
    (kind, at, of_job, why), = events(job)
    require((kind, at, of_job) == ("failed", version, "4711") and why and why in lost[0][2], f"{kind} {at} {why}")
    job.remove()
    # The write always fails: each retry is logged, and the last reason.
    job = new_job(on_failure="retry", retries=2, retry_delay="10ms")
    r = job.run(RANKS, 1, "at=1,action=fail,errno=5,ops=write,sticky=1", 2)
    require(r.returncode == 3, f"all writes fail: exit {r.returncode}\n{r.stdout}")
    got = lines(job)
    tried = [line for line in got if "flush failed, trying again" in line[2]]
    require(len(tried) == 2 and all(line[1] == "node 1" for line in tried), f"retried: {got}")
    job.remove()
    print("summary: all well")


def unwritable():
    """One node cannot write to the persistent directory, or one rank cannot open it: no session is opened, and one
    message gives the reason."""
    for victim, fault, words in ((2, "errno=30,ops=mkdir", ["checkpoints cannot be written", "Read-only"]),
                                 (3, "errno=13,ops=open", ["Permission denied"])):
        job = new_job()
        (job.dir / "p").mkdir()
        r = job.run(RANKS, 1, f"at=1,action=fail,sticky=1,{fault}", victim)
        require(r.returncode == 3, f"rank {victim}: exit {r.returncode}: {r.stdout}")
        got = [line for line in lines(job) if line[0] == "error"]
        require(len(got) == 1 and "no session is opened" in got[0][2] and f"rank {victim}" in got[0][2] and
                "persistent directory" in got[0][2] and all(w in got[0][2] for w in words), f"{got}\n{r.stdout}")
        job.remove()
    print("unwritable: all well")


if __name__ == "__main__":
    sys.exit(run_one(__doc__, passed_over, repaired, summary, unwritable))
