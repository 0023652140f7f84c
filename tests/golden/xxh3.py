# SPDX-License-Identifier: BSD-3-Clause
"""XXH3, 64 bits, seed 0, from the published algorithm: for the second reader, not for speed."""

M64 = (1 << 64) - 1
P32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
P64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
       0x27D4EB2F165667C5)
MX1 = 0x165667919E3779F9
MX2 = 0x9FB21C651E98DF25
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")
STRIPE = 64
STRIPES_PER_BLOCK = (len(SECRET) - STRIPE) // 8


def u32(b, at):
    return int.from_bytes(b[at:at + 4], "little")


def u64(b, at):
    return int.from_bytes(b[at:at + 8], "little")


def rotl(x, n):
    return ((x << n) | (x >> (64 - n))) & M64


def swap64(x):
    return int.from_bytes(x.to_bytes(8, "little"), "big")


def fold(a, b):
    """The two halves of the 128-bit product, folded."""
    p = a * b
    return (p & M64) ^ (p >> 64)


def avalanche(h):
    h ^= h >> 37
    h = h * MX1 & M64
    return h ^ (h >> 32)


def avalanche64(h):
    h ^= h >> 33
    h = h * P64[1] & M64
    h ^= h >> 29
    h = h * P64[2] & M64
    return h ^ (h >> 32)


def mix16(data, at, secret_at):
    return fold(u64(data, at) ^ u64(SECRET, secret_at),
                u64(data, at + 8) ^ u64(SECRET, secret_at + 8))


def up_to_16(data):
    n = len(data)
    if n > 8:
        lo = u64(data, 0) ^ u64(SECRET, 24) ^ u64(SECRET, 32)
        hi = u64(data, n - 8) ^ u64(SECRET, 40) ^ u64(SECRET, 48)
        return avalanche((n + swap64(lo) + hi + fold(lo, hi)) & M64)
    if n >= 4:
        h = (u32(data, n - 4) + (u32(data, 0) << 32)) ^ u64(SECRET, 8) ^ u64(SECRET, 16)
        h ^= rotl(h, 49) ^ rotl(h, 24)
        h = h * MX2 & M64
        h ^= (h >> 35) + n
        h = h * MX2 & M64
        return h ^ (h >> 28)
    if n > 0:
        word = (data[0] << 16) | (data[n >> 1] << 24) | data[n - 1] | (n << 8)
        return avalanche64(word ^ u32(SECRET, 0) ^ u32(SECRET, 4))
    return avalanche64(u64(SECRET, 56) ^ u64(SECRET, 64))


def up_to_128(data):
    n = len(data)
    acc = n * P64[0]
    for i in range((n - 1) // 32, -1, -1):
        acc += mix16(data, 16 * i, 32 * i) + mix16(data, n - 16 * (i + 1), 32 * i + 16)
    return avalanche(acc & M64)


def up_to_240(data):
    n = len(data)
    acc = n * P64[0]
    for i in range(8):
        acc += mix16(data, 16 * i, 16 * i)
    acc = avalanche(acc & M64)
    for i in range(8, n // 16):
        acc += mix16(data, 16 * i, 16 * (i - 8) + 3)
    acc += mix16(data, n - 16, 136 - 17)
    return avalanche(acc & M64)


def accumulate(acc, data, at, secret_at):
    for i in range(8):
        value = u64(data, at + 8 * i)
        key = value ^ u64(SECRET, secret_at + 8 * i)
        acc[i ^ 1] = (acc[i ^ 1] + value) & M64
        acc[i] = (acc[i] + (key & 0xFFFFFFFF) * (key >> 32)) & M64


def long(data):
    n = len(data)
    acc = [P32[2], P64[0], P64[1], P64[2], P64[3], P32[1], P64[4], P32[0]]
    stripes = (n - 1) // STRIPE
    for s in range(stripes):
        accumulate(acc, data, s * STRIPE, s % STRIPES_PER_BLOCK * 8)
        if s % STRIPES_PER_BLOCK == STRIPES_PER_BLOCK - 1:
            for i in range(8):
                acc[i] ^= (acc[i] >> 47) ^ u64(SECRET, len(SECRET) - STRIPE + 8 * i)
                acc[i] = acc[i] * P32[0] & M64
    accumulate(acc, data, n - STRIPE, len(SECRET) - STRIPE - 7)
    h = n * P64[0]
    for i in range(4):
        h += fold(acc[2 * i] ^ u64(SECRET, 11 + 16 * i),
                  acc[2 * i + 1] ^ u64(SECRET, 11 + 16 * i + 8))
    return avalanche(h & M64)


def xxh3_64(data):
    n = len(data)
    if n <= 16:
        return up_to_16(data)
    if n <= 128:
        return up_to_128(data)
    return up_to_240(data) if n <= 240 else long(data)
