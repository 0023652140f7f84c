# SPDX-License-Identifier: BSD-3-Clause
"""Versions to and from files of other tools: .safetensors, .npz, .pt (needs torch).

    cairn.files.export_version(directory, "train", 300, "model.safetensors", prefix="model.")
    cairn.files.import_version("model.safetensors", directory, "train", 0, prefix="model.")
"""
import json
import os
import pathlib

import numpy

from ._arrays import BY_NAME
from ._session import Session
from ._store import open_store

SAFETENSORS = {"f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16", "i64": "I64",
               "i32": "I32", "i16": "I16", "i8": "I8", "u64": "U64", "u32": "U32", "u16": "U16",
               "u8": "U8", "bytes": "U8", "bool": "BOOL", "f8_e4m3": "F8_E4M3",
               "f8_e5m2": "F8_E5M2"}
FROM_SAFETENSORS = {v: k for k, v in SAFETENSORS.items() if k != "bytes"}
HEAD_MAX = 100 << 20  # of a safetensors file


def _torch_dtype(kind):
    import torch
    return {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16,
            "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32, "i16": torch.int16,
            "i8": torch.int8, "u8": torch.uint8, "bytes": torch.uint8, "bool": torch.bool,
            "c64": torch.complex64, "c128": torch.complex128,
            "f8_e4m3": getattr(torch, "float8_e4m3fn", None),
            "f8_e5m2": getattr(torch, "float8_e5m2", None)}[kind]


def _replace(path, write):
    """Writes a file next to its place, and moves it there when it is whole and durable."""
    path = pathlib.Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _write_safetensors(file, regions):
    head, at = {}, 0
    for name, region in regions.items():
        if region.type not in SAFETENSORS:
            raise ValueError(f"{name}: safetensors have no type for {region.type}")
        size = int(numpy.prod(region.shape, dtype="u8")) * region.dtype.itemsize
        head[name] = {"dtype": SAFETENSORS[region.type], "shape": list(region.shape),
                      "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for region in regions.values():
        file.write(numpy.asarray(region).tobytes())


def _write_torch(file, regions):
    import torch
    torch.save({name: torch.frombuffer(bytearray(numpy.asarray(r).tobytes()),
                                       dtype=_torch_dtype(r.type)).reshape(r.shape)
                if 0 not in r.shape else torch.empty(r.shape, dtype=_torch_dtype(r.type))
                for name, r in regions.items()}, file)


def export_version(directory, name, version, path, prefix="", rank=0):
    """Writes the regions whose names begin with prefix to a file, without the prefix. Global arrays
    are whole; other regions are those of the rank. Returns the names."""
    regions = {}
    for key, region in open_store(directory)[name][version].items():
        if key.startswith(prefix) and not key.startswith("cairn."):
            regions[key[len(prefix):]] = region if region.rank is None else region.of_rank(rank)
    if not regions:
        raise KeyError(f"{name}@{version} has no region that begins with '{prefix}'")
    suffix = pathlib.Path(path).suffix
    if suffix == ".safetensors":
        _replace(path, lambda file: _write_safetensors(file, regions))
    elif suffix == ".npz":
        _replace(path, lambda file: numpy.savez(
            file, **{key: numpy.asarray(region) for key, region in regions.items()}))
    elif suffix in (".pt", ".pth"):
        _replace(path, lambda file: _write_torch(file, regions))
    else:
        raise ValueError(f"{path}: the suffix is none of .safetensors, .npz, .pt")
    return list(regions)


def _read_safetensors(path):
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        n = int.from_bytes(file.read(8), "little")
        if n > min(HEAD_MAX, max(size - 8, 0)):
            raise ValueError(f"{path}: not a safetensors file, or cut off")
        head = json.loads(file.read(n))
        for name, entry in head.items():
            if name == "__metadata__":
                continue
            kind, (first, end) = FROM_SAFETENSORS[entry["dtype"]], entry["data_offsets"]
            width = {"f64": 8, "i64": 8, "u64": 8, "f32": 4, "i32": 4, "u32": 4, "f16": 2,
                     "bf16": 2, "i16": 2, "u16": 2}.get(kind, 1)
            count = int(numpy.prod(entry["shape"], dtype="u8"))
            if not 0 <= first <= end <= size - 8 - n or end - first != count * width:
                raise ValueError(f"{path}: '{name}' lies outside the file or has a wrong size")
            file.seek(8 + n + first)
            data = numpy.frombuffer(bytearray(file.read(end - first)), f"u{width}")
            yield name, kind, data.reshape(entry["shape"])


def _read(path):
    """name, type and array of everything in a file."""
    suffix = pathlib.Path(path).suffix
    if suffix == ".safetensors":
        yield from _read_safetensors(path)
    elif suffix == ".npz":
        with numpy.load(path, allow_pickle=False) as file:
            for name in file.files:
                yield name, None, numpy.ascontiguousarray(file[name])
    elif suffix in (".pt", ".pth"):
        import torch
        for name, tensor in torch.load(path, map_location="cpu", weights_only=True).items():
            yield name, None, tensor.contiguous()
    else:
        raise ValueError(f"{path}: the suffix is none of .safetensors, .npz, .pt")


def import_version(path, directory, name, version, prefix="", **keys):
    """Takes what a file holds as a version, in regions with this prefix. Returns their names."""
    names = []
    with Session(directory, **keys) as session:
        for key, kind, data in _read(path):
            session.protect(prefix + key, data, type=None if kind is None else BY_NAME[kind])
            names.append(prefix + key)
        session.checkpoint(name, version).wait()
    return names
