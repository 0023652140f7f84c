#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Damages captures of a dead job in memory.

usage: flip_test.py SCENARIO    (see the functions named after them)"""
import sys

sys.dont_write_bytecode = True
from jobs import Job, cairn, require, run_one


def pattern(version, rank, i):
    """As in mpi_test.h."""
    mask = 2**64 - 1
    x = (version * 0x9e3779b97f4a7c15 + rank * 0xbf58476d1ce4e5b9 + i) & mask
    x = (x ^ x >> 31) * 0x94d049bb133111eb & mask
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9 & mask
    return x ^ x >> 32


def find_in_arena(job, rank, version):
    """An arena, and the offset in it of a word from the middle of the version's large region; -1 if it is not
    there."""
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
    """Kills a run at the mkdir of its version's directory, when all ranks have captured it. Returns the number of
    that operation, for the next time."""
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
    """Whether version 2 exists afterwards. The loss of a version is reported, and the drain fails."""
    r = cairn(job, "drain")
    is_there = (job.dir / "p/work/2/manifest").exists()
    require((r.returncode == 0) == is_there and "work@2" in r.stdout,
            f"drain exits with {r.returncode}: {r.stdout}")
    return is_there


def flipped_bit(ranks=1, **keys):
    """The capture takes checksums, so a drain does not commit bytes that were damaged in memory."""
    job = Job(**keys)
    job.words = ["400000"]  # more than 3 MB: the flush takes the checksums of smaller captures
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


if __name__ == "__main__":
    sys.exit(run_one(__doc__, flipped_bit, flipped_bits))
