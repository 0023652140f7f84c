#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`cairn import --from scr`: from the index and the maps that SCR leaves in a prefix, a program with
Cairn's libscr goes on. The files are those of a run of the program; their metadata are written here,
in the format of KVTree.

usage: import_test.py SCR_JOB"""
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

CAIRN = os.environ["CAIRN_TEST_BUILD"] + "/src/cli/cairn"
MPIEXEC = [os.environ["CAIRN_TEST_SOURCE"] + "/tools/mpiexec", os.environ["CAIRN_TEST_BUILD"]]
RANKS, PIECES, LAST = 4, 12, 20


def packed(tree):
    out = struct.pack(">I", len(tree))
    for key, below in tree.items():
        out += str(key).encode() + b"\0" + packed(below)
    return out


def write_tree(path, tree, checksum=True):
    body = packed(tree)
    size = 20 + len(body) + (4 if checksum else 0)
    body = struct.pack(">IHHQI", 0x951fc3f5, 1, 1, size, int(checksum)) + body
    if checksum:
        body += struct.pack(">I", zlib.crc32(body))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)


def value(text):
    return {text: {}}


def files(rank, step):
    return {f"job/{step}/piece.{k}": {} for k in range(rank, PIECES, RANKS)}


def write_maps(directory, step, levels):
    """The map of the ranks' files: in one file, or in two below one with their names."""
    top = {"LEVEL": value(1), "RANKS": value(RANKS), "RANK": {}}
    per_file = RANKS if levels == 1 else RANKS // 2
    for first in range(0, RANKS, per_file):
        ranks = {r: {"FILE": files(r, step)} for r in range(first, first + per_file)}
        write_tree(directory / f"rank2file.0.{first}",
                   {"LEVEL": value(0), "RANKS": value(per_file), "RANK": ranks})
        top["RANK"][first] = {"FILE": value(f".0.{first}"), "OFFSET": value(0)}
    write_tree(directory / "rank2file", top, checksum=levels == 1)


def dataset(step, size, complete=1, **more):
    return {"COMPLETE": value(complete), **more,
            "DSET": {"NAME": value(f"job/{step}"), "FLAG_CKPT": value(1), "FLAG_OUTPUT": value(0),
                     "FILES": value(PIECES), "SIZE": value(size)}}


def cairn(*words, ok=True):
    done = subprocess.run([CAIRN, *map(str, words)], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    if (done.returncode == 0) != ok:
        sys.exit(f"cairn {words}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def job(top, prefix, out, steps, ranks=RANKS):
    env = dict(os.environ, CAIRN_SHM_DIR=str(top), CAIRN_RUN_DIR=f"{top}/run",
               CAIRN_BLOCK_BYTES="1M", SCR_PREFIX=str(prefix))
    done = subprocess.run([*MPIEXEC, "-n", str(ranks), sys.argv[1], prefix, out, str(steps)],
                          env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"the program: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def scr_store(prefix):
    """Files of steps 5 to LAST as they are, with the metadata that SCR would have written."""
    shutil.rmtree(prefix / ".scr")
    size = sum(p.stat().st_size for p in (prefix / "job" / "5").iterdir())
    index = {"VERSION": value(2), "DSET": {}, "NAME": {}}
    for number, step in enumerate(range(5, LAST + 1, 5), 1):
        index["DSET"][number] = dataset(step, size)
        index["NAME"][f"job/{step}"] = {"DSET": value(number)}
        write_maps(prefix / ".scr" / f"scr.dataset.{number}", step, 1 + number % 2)
    return index, size


with tempfile.TemporaryDirectory(prefix="cairn-import-",
                                 dir=os.environ.get("CAIRN_TEST_MEMORY", "/dev/shm")) as tmp:
    top = pathlib.Path(tmp)
    prefix, store = top / "prefix", top / "prefix/.scr/cairn"
    prefix.mkdir()
    job(top, prefix, top / "first", LAST)
    job(top, prefix, top / "straight", 33)  # goes on: what an imported run must equal
    shutil.rmtree(prefix)
    prefix.mkdir()
    job(top, prefix, top / "first", LAST)
    index, size = scr_store(prefix)

    # The newest has lost bytes, the second newest was marked as bad, one was never complete.
    newest = prefix / f"job/{LAST}/piece.3"
    whole = newest.read_bytes()
    newest.write_bytes(whole[:-1])
    index["DSET"][3] = dataset(15, size, FAILED=value("2026-01-01T00:00:00"))
    index["DSET"][2] = dataset(10, size, complete=0)
    write_tree(prefix / ".scr/index.scr", index)
    out = cairn("import", "--from", "scr", prefix, ok=False)
    for text in ("scr@1: 4 ranks", f"scr@4: SCR wrote {size} bytes", "scr@3: SCR failed to read it",
                 "scr@2: SCR did not complete it"):
        if text not in out:
            sys.exit(f"import did not say '{text}':\n{out}")
    if "restart 5\n" not in job(top, prefix, top / "older", 8):
        sys.exit("the program did not go on from step 5")

    # All of them are good, also in the index of SCR before version 3; another number of ranks.
    shutil.rmtree(store)
    newest.write_bytes(whole)
    index, size = scr_store(prefix)
    old = {"VERSION": value(1), "NAME": index["NAME"],
           "DSET": {n: {"NAME": {next(iter(d["DSET"]["NAME"])): d}}
                    for n, d in index["DSET"].items()}}
    write_tree(prefix / ".scr/index.scr", old)
    out = cairn("import", "--from", "scr", prefix)
    cairn("--dir", store, "verify", "scr")
    if out.count("4 ranks") != 4:
        sys.exit(f"not all datasets were imported:\n{out}")
    before = {p: p.stat().st_mtime_ns for p in prefix.glob("job/*/*")}
    if f"restart {LAST}\n" not in job(top, prefix, top / "imported", 33, ranks=3):
        sys.exit(f"the program did not go on from step {LAST}")
    if any(p.stat().st_mtime_ns != t for p, t in before.items() if p.exists()):
        sys.exit("a file of SCR was changed")
    for k in range(PIECES):
        if (top / f"imported.{k}").read_bytes() != (top / f"straight.{k}").read_bytes():
            sys.exit(f"piece {k} differs from that of a run without a stop")

    # Metadata that cannot be right.
    shutil.rmtree(store)
    index["DSET"] = {1: index["DSET"][1]}
    write_tree(prefix / ".scr/index.scr", index)
    leaf = prefix / ".scr/scr.dataset.1"
    write_tree(leaf / "rank2file", {"LEVEL": value(1), "RANKS": value(RANKS), "RANK": {
        0: {"FILE": value("/../../../secret"), "OFFSET": value(0)}}})
    if "is not a part of" not in cairn("import", "--from", "scr", prefix, ok=False):
        sys.exit("a map outside of the dataset was read")
    write_tree(leaf / "rank2file", {"LEVEL": value(0), "RANKS": value(1), "RANK": {
        0: {"FILE": {"../secret": {}}}}})
    if "is outside of" not in cairn("import", "--from", "scr", prefix, ok=False):
        sys.exit("a file outside of the prefix was taken")
    (prefix / ".scr/index.scr").write_bytes((prefix / ".scr/index.scr").read_bytes()[:-5])
    if "it is cut off" not in cairn("import", "--from", "scr", prefix, ok=False):
        sys.exit("half an index was read")
    cairn("import", "--from", "scr", top / "nothing", ok=False)
    cairn("import", "--from", "scr", "--as", "x", prefix, ok=False)
