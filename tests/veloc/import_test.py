#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`cairn import --from veloc`: files as VELOC leaves them become versions, from which a program with
Cairn's libveloc-client goes on.

usage: import_test.py IMPORTED_PROGRAM"""
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

CAIRN = os.environ["CAIRN_TEST_BUILD"] + "/src/cli/cairn"
MPIEXEC = [os.environ["CAIRN_TEST_SOURCE"] + "/tools/mpiexec", os.environ["CAIRN_TEST_BUILD"]]
RANKS = 3


def data(version, rank, region, size):
    return bytes((i * 7 + version * 31 + rank * 3 + region) % 251 for i in range(size))


def veloc_file(version, rank):
    """Two regions of different sizes, as VELOC writes them."""
    regions = [(3, data(version, rank, 3, 5000 + rank)), (7, data(version, rank, 7, 0))]
    head = struct.pack("@N", len(regions)) + b"".join(
        struct.pack("=iQ", number, len(content)) for number, content in regions)
    return head + b"".join(content for _, content in regions)


def cairn(store, *words, ok=True):
    done = subprocess.run([CAIRN, "--dir", store, *map(str, words)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if (done.returncode == 0) != ok:
        sys.exit(f"cairn {words}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


with tempfile.TemporaryDirectory(prefix="cairn-import-",
                                 dir=os.environ.get("CAIRN_TEST_MEMORY", "/dev/shm")) as tmp:
    top = pathlib.Path(tmp)
    old, store = top / "veloc", top / "p"
    old.mkdir()
    for version in (10, 20, 30):
        for rank in range(RANKS):
            (old / f"heat-{rank}-{version}.dat").write_bytes(veloc_file(version, rank))
    (old / "heat-1-30.dat").unlink()  # one rank's file is missing
    (old / "other-0-40.dat").write_bytes(b"another name")
    whole = (old / "heat-2-10.dat").read_bytes()
    (old / "own-0-5.dat").write_bytes(b"a file of the program")
    out = cairn(store, "import", "--from", "veloc", "--as", "heat", old, ok=False)
    if "heat@30" not in out or "heat@10: 3 ranks" not in out or "heat@20: 3 ranks" not in out:
        sys.exit(f"import: {out}")
    if "heat@30" in cairn(store, "ls", "heat"):
        sys.exit("an incomplete version was imported")
    cairn(store, "verify", "heat")
    cairn(store, "import", "--from", "veloc", "--as", "heat", old, ok=False)  # they are there
    cairn(store, "import", "--from", "veloc", "--as", "own", old)
    cairn(store, "import", "--from", "veloc", "--as", "never", old, ok=False)
    cairn(store, "import", "--as", "heat", old, ok=False)
    # A truncated one is a file for Cairn, so the program refuses it and takes the one before.
    (old / "cut-0-1.dat").write_bytes(whole[:-1])
    cairn(store, "import", "--from", "veloc", "--as", "cut", old)
    if "routed.dat" not in cairn(store, "show", "cut@1"):
        sys.exit("a truncated file was taken for memory")
    (top / "veloc.cfg").write_text(f"scratch = {top}/s\npersistent = {store}\n")
    env = dict(os.environ, CAIRN_SHM_DIR=tmp, CAIRN_RUN_DIR=f"{tmp}/run")
    done = subprocess.run([*MPIEXEC, "-n", str(RANKS), sys.argv[1], top / "veloc.cfg"], env=env,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit(f"the program: exit status {done.returncode}\n{done.stdout}")
