#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A second reader of Cairn's format, written from docs/format.md alone. If this reader and the library disagree,
the page or one of them is wrong.

usage: read_store.py ROOT NAME VERSION [EXPECTED]

Reads a version, checks every hash and every rule of the page, and prints it as JSON; with EXPECTED it compares
with that file instead. Exit status 1 and a message if anything is wrong. It reads encoded files (docs/encoding.md)
that need only gzip, shuffle, delta and xor, also against older versions.
"""
import json
import pathlib
import re
import sys
import zlib

from xxh3 import xxh3_64

HEADER, CHECKSUM, TRAILER = 32, 8, 64
TYPE_SIZE = [1, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8, 16, 2, 2, 1, 1, 1]
TYPES = "bytes i8 u8 i16 u16 i32 u32 i64 u64 f32 f64 c64 c128 f16 bf16 bool f8_e4m3 f8_e5m2".split()
MAX_RANKS, MAX_FILES, MAX_REGIONS, MAX_CHUNK = 1 << 24, 1 << 20, 1 << 20, 1 << 30


class Damaged(Exception):
    pass


def need(condition, text):
    if not condition:
        raise Damaged(text)


class Body:
    """Section 2: an object with valid header and hash; returns its fields in order."""

    def __init__(self, data, magic, flags=0):
        need(len(data) >= HEADER + CHECKSUM and data[:8] == magic, f"not a {magic.decode()}")
        number = lambda at, n: int.from_bytes(data[at:at + n], "little")
        need(number(24, 8) == len(data), "length")
        need(number(len(data) - CHECKSUM, 8) == xxh3_64(data[:-CHECKSUM]), "hash of an object")
        self.flags = number(16, 4)
        need(number(8, 2) == 1 and self.flags & ~flags == 0, "unknown format")
        self.minor = number(10, 2)
        need(self.minor > 1 or number(20, 4) == 0, "reserved bytes")
        self.data, self.at = data[HEADER:-CHECKSUM], 0

    def take(self, n):
        need(n <= len(self.data) - self.at, "cut off")
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self, n, signed=False):
        return int.from_bytes(self.take(n), "little", signed=signed)

    def u8(self):
        return self.number(1)

    def u32(self):
        return self.number(4)

    def u64(self):
        return self.number(8)

    def text(self, limit=127):
        n = self.number(2)
        need(n <= limit, "string too long")
        raw = self.take(n)
        need(all(c >= 0x20 and c != 0x7F for c in raw), "control character")
        return raw.decode()

    def generation(self):
        n = self.u64()
        need(n > 0, "generation")
        return n

    def end(self):
        need(self.minor > 1 or self.at == len(self.data), "bytes left over")


def product(numbers):
    result = 1
    for n in numbers:
        result *= n
    return result


def read_region(b):
    r = {"name": b.text(), "kind": b.u8(), "type": b.u8(), "ndims": b.u8(), "is_global": b.u8()}
    need(r["name"] and r["kind"] <= 1 and r["type"] < len(TYPES) and r["is_global"] <= 1, "region")
    n = r["ndims"]
    need(1 <= n <= 8, "dimensions")
    r["dims"] = [b.u64() for _ in range(n)]
    if r["is_global"]:
        r["global_dims"] = [b.u64() for _ in range(n)]
        r["offset"] = [b.u64() for _ in range(n)]
        for d, g, o in zip(r["dims"], r["global_dims"], r["offset"]):
            need(o + d <= g, "block outside its array")
        need(product(r["global_dims"]) * TYPE_SIZE[r["type"]] < 1 << 63, "size of an array")
    need(r["kind"] == 0 or (r["type"] == 0 and n == 1 and not r["is_global"]), "file")
    r["bytes"] = product(r["dims"]) * TYPE_SIZE[r["type"]]
    need(r["bytes"] < 1 << 63, "size of a region")
    return r


def read_shard(b):
    rank, count = b.u32(), b.u32()
    need(rank < MAX_RANKS and count <= MAX_REGIONS, "shard")
    regions = [read_region(b) for _ in range(count)]
    need(len({(r["kind"], r["name"]) for r in regions}) == count, "two regions of one name")
    return {"rank": rank, "regions": regions}


def read_stream(b):
    s = {"key": b.text(287), "type": b.u8(), "bytes": b.u64(), "file_offset": b.u64(), "chunks": []}
    for _ in range(b.u32()):
        c = {"bytes": b.u32(), "encoded": b.u32(), "hash": b.u64()}
        c["stages"] = [(b.u8(), b.u8()) for _ in range(b.u8())]
        need(1 <= c["encoded"] <= c["bytes"] <= 1 << 22 and len(c["stages"]) <= 4
             and (c["encoded"] == c["bytes"]) == (not c["stages"]), "chunk of a stream")
        s["chunks"].append(c)
    s["map"] = b.take(b.u32())
    need(s["type"] < len(TYPES) and s["chunks"] and s["bytes"] > 0, "stream")
    return s


def varint(data, at):
    value = shift = 0
    while True:
        need(at < len(data) and shift < 64, "varint")
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def decode_chunk(raw, size, older):
    """docs/encoding.md, sections 1 and 2. older: the same bytes of the older version, or None."""
    need(raw[0] == 1, "version of a chunk")
    width = TYPE_SIZE[raw[1]] // (2 if raw[1] >= 11 else 1)
    stages = [(raw[3 + 2 * i], raw[4 + 2 * i]) for i in range(raw[2])]
    codecs = [s for s, _ in stages if s < 32]
    need(all(s in (0, 3, 32, 34, 35) for s, _ in stages) and codecs == [stages[-1][0]]
         and all(a == 0 or (a == 1 and s >= 34) for s, a in stages if s >= 32),
         f"stages {stages} of a chunk: this reader knows no more than gzip after filters")
    bytes_, at = varint(raw, 3 + 2 * raw[2])
    need(bytes_ == size, "size of a chunk")
    data = bytearray(zlib.decompress(raw[at:], 31) if codecs[-1] == 3 else raw[at:])
    need(len(data) == size, "size of a chunk")
    words = size // width
    for stage, arg in reversed(stages[:-1]):
        if arg == 1:
            need(older is not None, "a chunk without its older version")
            data = add(data, older, words, width, stage == 35)
            continue
        if stage == 32:
            data = bytearray(data[k * words + i] for i in range(words) for k in range(width)
                             ) + data[words * width:]
        for i in range(1, words if stage in (34, 35) else 0):
            a, b = (int.from_bytes(data[j * width:(j + 1) * width], "little") for j in (i - 1, i))
            value = a ^ b if stage == 35 else (a + b) % (1 << 8 * width)
            data[i * width:(i + 1) * width] = value.to_bytes(width, "little")
    return bytes(data)


def add(data, older, words, width, is_xor):
    out = bytearray(data)
    for i in range(words):
        a, b = (int.from_bytes(d[i * width:(i + 1) * width], "little") for d in (data, older))
        out[i * width:(i + 1) * width] = (a ^ b if is_xor else (a + b) % (1 << 8 * width)
                                          ).to_bytes(width, "little")
    if is_xor:
        out[words * width:] = bytes(a ^ b for a, b in zip(data[words * width:],
                                                           older[words * width:]))
    return out


def needs_older(s):
    return any(stage in (34, 35) and arg == 1 or stage == 36 and arg & 8
               for c in s["chunks"] for stage, arg in c["stages"])


def read_base(x, name_path):
    """The streams of the nearest base, decoded (section 4); None if there is none."""
    if not x["bases"]:
        return None
    b = x["bases"][0]
    raw = (name_path / str(b["version"]) / b["file"]).read_bytes()
    need(len(raw) == b["bytes"], "size of a base")
    t = read_trailer(raw[-TRAILER:])
    index = raw[t["index_offset"]:-TRAILER]
    need(t["index_hash"] == b["index_hash"] == xxh3_64(index), "hash of a base's index")
    older = read_index(index)
    need(older["id"] == b["id"] and older["name"] == x["name"] and older["version"] == b["version"]
         and older["file_no"] == x["file_no"] and older["bases"] == x["bases"][1:]
         and len(older["streams"]) == len(x["streams"]), "a base is another file")
    for s, o in zip(x["streams"], older["streams"]):
        need(not needs_older(s) or (
            not s["map"] and not o["map"] and s["type"] == o["type"] and s["bytes"] == o["bytes"]
            and [c["bytes"] for c in s["chunks"]] == [c["bytes"] for c in o["chunks"]]),
            "a base has another shape")
    return read_streams(older, t["index_offset"], raw, name_path)


def read_streams(x, data_end, raw, name_path):
    """The bytes of each stream."""
    space = []
    base = read_base(x, name_path)
    for number, s in enumerate(x["streams"]):
        new, at = b"", s["file_offset"]
        for c in s["chunks"]:
            part = raw[at:at + c["encoded"]]
            at += c["encoded"]
            need(at <= data_end and xxh3_64(part) == c["hash"], "hash of a stream's chunk")
            older = base[number][len(new):len(new) + c["bytes"]] if base else None
            new += part if not c["stages"] else decode_chunk(part, c["bytes"], older)
        if s["map"]:
            count, at = varint(s["map"], 0)
            known, out = 0, b""
            for _ in range(count):
                n, at = varint(s["map"], at)
                back, at = varint(s["map"], at)
                need(back <= known and known - back + n <= len(new), "map of a stream")
                out += new[known - back:known - back + n]
                known = max(known, known - back + n)
            need(at == len(s["map"]), "map of a stream")
            new = out
        need(len(new) == s["bytes"], "bytes of a stream")
        space.append(new)
    return space


def read_chain(b, file_no, least):
    """The chain of a file (section 4), nearest first."""
    chain = []
    for _ in range(b.u32()):
        chain.append({"version": b.number(8, True), "file": b.text(39),
                      "id": (b.take(16).hex(), b.u64()), "bytes": b.u64(), "index_hash": b.u64()})
        need(chain[-1]["version"] >= 0 and chain[-1]["bytes"] >= TRAILER and
             re.fullmatch(rf"data-{file_no:04d}(\.[1-9][0-9]*)?", chain[-1]["file"]), "chain")
    need(least <= len(chain) <= 255, "length of a chain")
    return chain


def unpack(data):
    """Section 4, a packed index: the index inside it."""
    b = Body(data, b"CRNINDEX", 8)
    size = b.u64()
    need(size <= 256 * (len(b.data) - b.at) + 255, "packed index")
    out = b""
    while len(out) < size:
        plain, packed = min(1 << 17, size - len(out)), b.u32()
        piece = b.take(packed)
        need(1 <= packed <= plain, "piece of a packed index")
        out += piece if packed == plain else decode_chunk(piece, plain, None)
    b.end()
    return out


def read_index(data):
    if len(data) >= HEADER and data[16:20] == b"\x08\0\0\0":
        data = unpack(data)
    b = Body(data, b"CRNINDEX", 7)
    need(b.flags & 3 != 2, "a chain without streams")
    x = {"id": (b.take(16).hex(), b.u64()), "name": b.text(), "version": b.number(8, True)}
    for key in ("file_no", "files", "ranks", "nodes"):
        x[key] = b.u32()
    x["created_ns"], x["chunk_bytes"] = b.u64(), b.u64()
    nshards, nextents, nhashes = b.u32(), b.u64(), b.u64()
    need(1 <= x["chunk_bytes"] <= MAX_CHUNK, "chunk size")
    x["shards"] = [read_shard(b) for _ in range(nshards)]
    ranks = [s["rank"] for s in x["shards"]]
    need(ranks == sorted(set(ranks)) and all(r < x["ranks"] for r in ranks), "ranks of an index")
    keys = ("shard", "region", "offset", "bytes", "file_offset", "first_hash")
    x["extents"] = [dict(zip(keys, (b.u32(), b.u32(), b.u64(), b.u64(), b.u64(), b.u64())))
                    for _ in range(nextents)]
    x["hashes"] = [b.u64() for _ in range(nhashes)]
    x["streams"] = [read_stream(b) for _ in range(b.u32())] if b.flags & 1 else None
    x["bases"] = read_chain(b, x["file_no"], 1) if b.flags & 2 else []
    if b.minor > 0:
        x["generation"] = b.generation()
    b.end()
    typed = [r for s in x["shards"] for r in s["regions"]] + (x["streams"] or [])
    need(bool(b.flags & 4) == any(t["type"] > 12 for t in typed), "flag of types")
    return x


def read_trailer(data):
    b = Body(data, b"CRNTRAIL")
    t = {"index_offset": b.u64(), "index_bytes": b.u64(), "index_hash": b.u64()}
    b.end()
    return t


def read_manifest(data):
    b = Body(data, b"CRNMANIF", 2)
    m = {"id": (b.take(16).hex(), b.u64()), "name": b.text(), "job": b.text(),
         "version": b.number(8, True)}
    for key in ("created_ns", "committed_ns", "data_bytes"):
        m[key] = b.u64()
    for key in ("ranks", "nodes", "nfiles"):
        m[key] = b.u32()
    need(1 <= m["ranks"] <= MAX_RANKS and 1 <= m["nfiles"] <= MAX_FILES, "limits")
    m["files"] = []
    seen = []
    for number in range(m.pop("nfiles")):
        f = {"name": b.text(39), "bytes": b.u64(), "index_offset": b.u64(),
             "index_bytes": b.u64(), "index_hash": b.u64()}
        need(re.fullmatch(rf"data-{number:04d}(\.[1-9][0-9]*)?", f["name"]), "name of a file")
        need(f["index_offset"] + f["index_bytes"] + TRAILER == f["bytes"], "size of a file")
        f["ranks"] = []
        for _ in range(b.u32()):
            first, count = b.u32(), b.u32()
            need(count > 0 and first + count <= m["ranks"], "range of ranks")
            f["ranks"] += range(first, first + count)
        need(f["ranks"] == sorted(set(f["ranks"])), "order of ranks")
        seen += f["ranks"]
        if b.flags & 2:
            f["bases"] = read_chain(b, number, 0)
        m["files"].append(f)
    if b.minor > 0:
        m["generation"] = b.generation()
    b.end()
    need(bool(b.flags & 2) == any(f.get("bases") for f in m["files"]), "flag of chains")
    need(sorted(seen) == list(range(m["ranks"])), "every rank in one file")
    return m


def read_regions(x, data_end, raw):
    """The bytes of every region, from extents that cover each exactly once."""
    content = {(s, r): bytearray() for s, shard in enumerate(x["shards"])
               for r in range(len(shard["regions"]))}
    used = last = 0
    for e in x["extents"]:
        key = (e["shard"], e["region"])
        need(key in content and (last or key) <= key, "order of extents")
        last = key
        need(e["bytes"] > 0 and e["offset"] == len(content[key]), "extents do not cover")
        need(e["file_offset"] + e["bytes"] <= data_end, "extent outside the data")
        part = raw[e["file_offset"]:e["file_offset"] + e["bytes"]]
        for i, at in enumerate(range(0, len(part), x["chunk_bytes"])):
            need(e["first_hash"] + i < len(x["hashes"]), "hash is missing")
            need(xxh3_64(part[at:at + x["chunk_bytes"]]) == x["hashes"][e["first_hash"] + i],
                 f"hash of a chunk of extent {e}")
            used += 1
        content[key] += part
    need(used == len(x["hashes"]), "hashes of nothing")
    return content


def read_data(path, m, number):
    f = m["files"][number]
    raw = (path / f["name"]).read_bytes()
    need(len(raw) == f["bytes"], "size of a data file")
    t = read_trailer(raw[-TRAILER:])
    need(all(t[k] == f[k] for k in t), "trailer and manifest differ")
    index = raw[t["index_offset"]:-TRAILER]
    need(len(index) == t["index_bytes"] and xxh3_64(index) == t["index_hash"], "hash of an index")
    x = read_index(index)
    if "generation" in x:
        f["generation"] = x["generation"]
    need(x["id"] == m["id"] and x["name"] == m["name"] and x["version"] == m["version"]
         and x["file_no"] == number and x["files"] == len(m["files"])
         and x["ranks"] == m["ranks"], "index of another checkpoint")
    need([s["rank"] for s in x["shards"]] == f["ranks"], "ranks of a data file")
    need(x["bases"] == f.get("bases", []), "chains of index and manifest differ")
    if x["streams"] is None:
        content = read_regions(x, t["index_offset"], raw)
    else:
        space = b"".join(read_streams(x, t["index_offset"], raw, path.parent))
        content = read_regions(x, len(space), space)
    for s, shard in enumerate(x["shards"]):
        for r, region in enumerate(shard["regions"]):
            need(len(content[s, r]) == region["bytes"], "region is not covered")
            region["type"] = TYPES[region["type"]]
            region["content"] = content[s, r].hex()
    return x["shards"]


def read_bad(path, m):
    """Section 7: the reason if the mark refers to this capture or is damaged, else None."""
    if not (path / "bad").exists():
        return None
    raw = (path / "bad").read_bytes()
    body, _, check = raw[:-1].rpartition(b"\n")
    expected = b"%016x" % xxh3_64(body + b"\n")
    if raw[-1:] != b"\n" or check != expected:
        return "damaged mark"
    capture, reason = body.decode().split("\n", 1)
    return reason if capture == f"{m['id'][0]} {m['id'][1]}" else None


def read_highest(path):
    """Section 6: the highest generation of the name; 0 if the file is missing or damaged."""
    if not path.exists():
        return 0
    number, newline, check = path.read_bytes().partition(b"\n")
    if not number.isdigit() or check != b"%016x\n" % xxh3_64(number + newline):
        return 0
    return int(number)


def read_version(root, name, version):
    path = pathlib.Path(root) / name / str(version)
    m = read_manifest((path / "manifest").read_bytes())
    need(m["name"] == name and m["version"] == int(version), "manifest of another version")
    m["shards"] = sorted((s for n in range(len(m["files"])) for s in read_data(path, m, n)),
                         key=lambda s: s["rank"])
    total = sum(r["bytes"] for s in m["shards"] for r in s["regions"])
    need(total == m["data_bytes"], "sum of all regions")
    m["pinned"] = (path / "pin").exists()
    m["bad"] = read_bad(path, m)
    if "generation" in m:
        m["highest_generation"] = read_highest(path.parent / ".generation")
    return m


def main(argv):
    if len(argv) not in (4, 5):
        sys.exit(__doc__)
    try:
        text = json.dumps(read_version(*argv[1:4]), indent=1, sort_keys=True) + "\n"
    except (Damaged, OSError) as problem:
        sys.exit(f"read_store.py: {argv[2]}@{argv[3]}: {problem}")
    if len(argv) == 4:
        sys.stdout.write(text)
    elif text != pathlib.Path(argv[4]).read_text():
        sys.exit(f"read_store.py: {argv[2]}@{argv[3]} is not what {argv[4]} says")


if __name__ == "__main__":
    main(sys.argv)
