#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`cairn import --from fti`: from a checkpoint of level 4 as FTI leaves it, a program with Cairn's
libfti goes on. FTI's files are written here.

usage: import_test.py FTI_JOB"""
import array
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

CAIRN = os.environ["CAIRN_TEST_BUILD"] + "/src/cli/cairn"
MPIEXEC = [os.environ["CAIRN_TEST_SOURCE"] + "/tools/mpiexec", os.environ["CAIRN_TEST_BUILD"]]
RANKS, GROUP, CELLS, STEP, EXECUTION = 4, 2, 50000, 10, "2026-01-31_12-00-00"


def cells(rank):
    """What the job has after STEP steps."""
    data = array.array("d", bytes(8 * CELLS))
    for _ in range(STEP):
        for i in range(CELLS):
            data[i] = data[i] * 1.0001 + i % 7 + rank
    return data.tobytes()


def write_checkpoint(top, contents, gap=0):
    """Two groups of two; the variables lie in the file in the order of the metadata."""
    l4, meta = top / "g" / EXECUTION / "l4", top / "m" / EXECUTION / "l4"
    for directory in (l4, meta):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
    for group in range(RANKS // GROUP):
        text = ""
        for member in range(GROUP):
            rank = member * (RANKS // GROUP) + group
            variables = [(1, contents[rank], "cells of a plate"),
                         (0, STEP.to_bytes(4, sys.byteorder), "")]
            body = b"\0" * gap
            text += f"\n[{member}]\nckpt_file_name                 = Ckpt7-Rank{rank}.fti\n"
            for k, (number, data, name) in enumerate(variables):
                text += (f"var{k}_id = {number}\nvar{k}_size = {len(data)}\n"
                         f"var{k}_pos = {len(body)}\nvar{k}_idchar = {name}\n")
                body += data
            text += f"ckpt_file_size = {len(body)}\nckpt_checksum = 0123456789abcdef\n"
            (l4 / f"Ckpt7-Rank{rank}.fti").write_bytes(body)
        (meta / f"sector0-group{group}.fti").write_text(text)
    return l4, meta


def cairn(*words, ok=True):
    done = subprocess.run([CAIRN, *map(str, words)], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    if (done.returncode == 0) != ok:
        sys.exit(f"cairn {words}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def job(top, config, out):
    env = dict(os.environ, CAIRN_SHM_DIR=str(top), CAIRN_RUN_DIR=f"{top}/run",
               CAIRN_BLOCK_BYTES="1M")
    done = subprocess.run([*MPIEXEC, "-n", str(RANKS), sys.argv[1], config, out, "23"], env=env,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"the program: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def write_config(top, failure, more=""):
    path = top / "config.fti"
    path.write_text(f"[basic]\nckpt_dir = {top}/l\nglbl_dir = {top}/g\nmeta_dir = {top}/m\n{more}"
                    f"[restart]\nfailure = {failure}\nexec_id = {EXECUTION}\n")
    return path


def refused(top, config, text):
    out = cairn("import", "--from", "fti", config, ok=False)
    if text not in out:
        sys.exit(f"import did not say '{text}':\n{out}")
    shutil.rmtree(top / "g" / "cairn", ignore_errors=True)


with tempfile.TemporaryDirectory(prefix="cairn-import-",
                                 dir=os.environ.get("CAIRN_TEST_MEMORY", "/dev/shm")) as tmp:
    top = pathlib.Path(tmp)
    job(top, write_config(top, 0), top / "straight")
    contents = [cells(rank) for rank in range(RANKS)]
    for gap in (0, 64):
        shutil.rmtree(top / "g", ignore_errors=True)
        shutil.rmtree(top / "l", ignore_errors=True)
        write_checkpoint(top, contents, gap)
        config = write_config(top, 1)
        if f"fti-{EXECUTION}@7: {RANKS} ranks" not in cairn("import", "--from", "fti", config):
            sys.exit("import did not name its version")
        cairn("--dir", top / "g/cairn", "verify")
        told = job(top, config, top / "imported")
        if f"restart {STEP}\n" not in told:
            sys.exit(f"the program did not go on from step {STEP}:\n{told}")
        for rank in range(RANKS):
            if (top / f"imported.{rank}").read_bytes() != (top / f"straight.{rank}").read_bytes():
                sys.exit(f"rank {rank} differs from that of a run without a stop")

    shutil.rmtree(top / "g")
    l4, meta = write_checkpoint(top, contents)
    config = write_config(top, 1)
    one = l4 / "Ckpt7-Rank2.fti"
    one.write_bytes(one.read_bytes()[:-1])
    refused(top, config, "and FTI wrote")
    one.unlink()
    refused(top, config, "Ckpt7-Rank2.fti")
    l4, meta = write_checkpoint(top, contents)
    text = (meta / "sector0-group1.fti").read_text()
    (meta / "sector0-group1.fti").write_text(text.replace("Ckpt7-Rank3", "Ckpt8-Rank3"))
    refused(top, config, "are not of one checkpoint")
    (meta / "sector0-group1.fti").write_text(text.replace("var1_pos = 400000", "var1_pos = 400001"))
    refused(top, config, "has no place in it")
    (meta / "sector0-group1.fti").write_text(text.replace("var1_", "var2_"))
    refused(top, config, "is not in its place")
    for path in meta.iterdir():
        path.unlink()
    refused(top, config, "no checkpoint of level 4")
    refused(top, write_config(top, 1, "ckpt_io = 3\n"), "only files of ckpt_io = 1 are read")
