# SPDX-License-Identifier: BSD-3-Clause
"""Reading a store without a session, with the program `cairn`, which checks every byte it reads."""
import json
import os
import shutil
import subprocess
from collections.abc import Mapping

from ._library import Error

DTYPES = {"bytes": "u1", "i8": "i1", "u8": "u1", "i16": "<i2", "u16": "<u2", "i32": "<i4",
          "u32": "<u4", "i64": "<i8", "u64": "<u8", "f32": "<f4", "f64": "<f8", "c64": "<c8",
          "c128": "<c16", "f16": "<f2", "bf16": "<u2", "bool": "?", "f8_e4m3": "u1",
          "f8_e5m2": "u1"}


def program():
    found = os.environ.get("CAIRNPY_PROGRAM") or shutil.which("cairn")
    if found is None:
        raise FileNotFoundError("the program cairn is not in PATH; set CAIRNPY_PROGRAM to it")
    return found


def run(directory, *arguments):
    done = subprocess.run([program(), "--dir", directory, *arguments], capture_output=True)
    if done.returncode != 0:
        raise Error(-1, done.stderr.decode(errors="replace").strip() or done.stdout.decode())
    return done.stdout


class Region:
    """A region of a version. Slices read only their part; numpy.asarray(region) reads all of it.
    bf16 comes as its bits (uint16): view them with ml_dtypes or torch."""

    def __init__(self, version, name, info, rank):
        self.version, self.name, self.rank, self.type = version, name, rank, info["type"]
        self.shape = tuple(info["dims"] if rank is not None else info.get("global_dims", info["dims"]))

    def __repr__(self):
        return f"<Region {self.name}: {self.type} {self.shape}>"

    @property
    def dtype(self):
        import numpy
        return numpy.dtype(DTYPES[self.type])

    def of_rank(self, rank):
        """The region as this rank wrote it, instead of the array that all ranks share."""
        return Region(self.version, self.name, self.version._info(self.name, rank), rank)

    def _read(self, part=None):
        where = [] if self.rank is None else ["-r", str(self.rank)]
        where += [] if part is None else ["-s", part]
        v = self.version
        return run(v.store.directory, "extract", "--region", "-f", "raw", "-o", "-", *where,
                   f"{v.name}@{v.number}", self.name)

    def __array__(self, dtype=None, copy=None):
        import numpy
        array = numpy.frombuffer(bytearray(self._read()), self.dtype).reshape(self.shape)
        return array if dtype is None else array.astype(dtype)

    def __getitem__(self, key):
        import numpy
        key = key if isinstance(key, tuple) else (key,)
        if Ellipsis in key:
            at = key.index(Ellipsis)
            key = key[:at] + (slice(None),) * (len(self.shape) - len(key) + 1) + key[at + 1:]
        key += (slice(None),) * (len(self.shape) - len(key))
        if len(key) > len(self.shape):
            raise IndexError(f"{len(key)} indices for {len(self.shape)} dimensions")
        spans, shape, later = [], [], []
        for k, n in zip(key, self.shape):
            if isinstance(k, slice):
                first, end, step = k.indices(n)
                if step < 1:
                    raise IndexError("a negative step: read, then reverse")
                end = max(first, end)
                later.append(slice(None, None, step))
            else:
                first = k.__index__() + (n if k.__index__() < 0 else 0)
                if not 0 <= first < n:
                    raise IndexError(f"index {k} is out of 0 .. {n - 1}")
                end = first + 1
                later.append(0)
            spans.append(f"{first}:{end}")
            shape.append(end - first)
        if 0 in shape:
            return numpy.empty(shape, self.dtype)[tuple(later)]
        data = self._read(",".join(spans))
        return numpy.frombuffer(bytearray(data), self.dtype).reshape(shape)[tuple(later)]


class Version(Mapping):
    """A version: its regions by name."""

    def __init__(self, store, name, number):
        self.store, self.name, self.number = store, name, number
        self.info = json.loads(run(store.directory, "show", "--json", f"{name}@{number}"))
        self._regions = {}
        for r in self.info["regions"]:
            if r["kind"] == "memory":
                self._regions.setdefault(r["region"], {})[r["rank"]] = r

    def _info(self, name, rank):
        try:
            return self._regions[name][rank]
        except KeyError:
            raise KeyError(f"rank {rank} has no region '{name}'") from None

    def __getitem__(self, name):
        ranks = self._regions[name]
        first = min(ranks)
        return Region(self, name, ranks[first], None if "global_dims" in ranks[first] else first)

    def __iter__(self):
        return iter(self._regions)

    def __len__(self):
        return len(self._regions)


class Name(Mapping):
    """The versions of a name, by number."""

    def __init__(self, store, name, numbers):
        self.store, self.name, self.numbers = store, name, sorted(numbers)

    def __getitem__(self, number):
        if number not in self.numbers:
            raise KeyError(f"{self.name} has no version {number}; it has {self.numbers}")
        return Version(self.store, self.name, number)

    def __iter__(self):
        return iter(self.numbers)

    def __len__(self):
        return len(self.numbers)

    @property
    def newest(self):
        return self[self.numbers[-1]]


class Store(Mapping):
    """The names in a directory of checkpoints."""

    def __init__(self, directory):
        self.directory = os.fspath(directory)

    def _versions(self):
        found = {}
        for v in json.loads(run(self.directory, "ls", "--json"))["versions"]:
            if v["state"] == "ok":
                found.setdefault(v["name"], []).append(v["version"])
        return found

    def __getitem__(self, name):
        return Name(self, name, self._versions()[name])

    def __iter__(self):
        return iter(self._versions())

    def __len__(self):
        return len(self._versions())


def open_store(directory):
    """Opens a directory of checkpoints for reading: open_store(dir)["heat"][100]["t"][:10]."""
    return Store(directory)
