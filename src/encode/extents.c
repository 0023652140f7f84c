/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of extents, and the choice of a reader for a file. */
#include "encode/extents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define END_MARK       0x43524e58U
#define HEADER_FIRST   ((size_t)64 << 10)
#define HEADER_MOST    ((size_t)64 << 20)
#define USER_BLOCK_MAX ((uint64_t)1 << 30) /* the latest offset at which an HDF5 file may begin */

void crn_extents_free(struct crn_file_extents *x)
{
    while (x->nkeys > 0)
        free(x->key[--x->nkeys]);
    free(x->key);
    free(x->v);
    memset(x, 0, sizeof(*x));
}

/* Makes space for one more entry of size bytes; 0, or -1. */
static int extents_grow(struct crn_file_extents *x, void **p, size_t n, size_t *room, size_t size)
{
    size_t more = 2 * *room + 64;
    void *grown;

    if (n < *room)
        return 0;
    grown = realloc(*p, more * size);
    if (grown == NULL) {
        x->failed = 1;
        return -1;
    }
    *p = grown;
    *room = more;
    return 0;
}

const char *crn_extents_key(struct crn_file_extents *x, const char *name, size_t n)
{
    char text[CAIRN_MAX_NAME];
    size_t keep = n < sizeof(text) ? n : sizeof(text) - 18;
    size_t i;

    for (i = 0; i < keep; i++)
        text[i] = (unsigned char)name[i] < 32 || name[i] == 127 ? '?' : name[i];
    text[keep] = '\0';
    if (keep < n)
        (void)snprintf(text + keep, sizeof(text) - keep, "~%016llx",
                       (unsigned long long)crn_hash(name, n));
    if (x->nkeys > 0 && strcmp(x->key[x->nkeys - 1], text) == 0)
        return x->key[x->nkeys - 1];
    if (extents_grow(x, (void **)&x->key, x->nkeys, &x->keys_room, sizeof(*x->key)) != 0)
        return NULL;
    x->key[x->nkeys] = strdup(text);
    if (x->key[x->nkeys] == NULL) {
        x->failed = 1;
        return NULL;
    }
    return x->key[x->nkeys++];
}

static cairn_type unsigned_of(cairn_type type)
{
    switch (cairn_type_size(type)) {
    case 1:
        return CAIRN_U8;
    case 2:
        return CAIRN_U16;
    case 4:
        return CAIRN_U32;
    default:
        return CAIRN_U64;
    }
}

void crn_extents_add(struct crn_file_extents *x, const char *key, cairn_type type,
                     int is_big_endian, uint64_t offset, const uint64_t *dims, unsigned ndims)
{
    struct crn_file_extent e = {.key = key, .offset = offset, .type = type};
    size_t width = cairn_type_size(type);
    unsigned i;

    if (is_big_endian && (type == CAIRN_C64 || type == CAIRN_C128))
        return; /* a pair of words is not one unsigned integer */
    e.bytes = width;
    e.is_big_endian = is_big_endian && width > 1;
    if (e.is_big_endian)
        e.type = unsigned_of(type);
    e.ndims = (uint8_t)(ndims == 0 ? 1 : ndims < CAIRN_MAX_DIMS ? ndims : CAIRN_MAX_DIMS);
    e.dims[0] = 1;
    for (i = 0; i < ndims; i++) {
        unsigned to = i + e.ndims < ndims ? 0 : i + e.ndims - ndims;

        if (__builtin_mul_overflow(e.bytes, dims[i], &e.bytes))
            return;
        e.dims[to] = to == 0 ? e.dims[0] * dims[i] : dims[i];
    }
    if (key == NULL || width == 0 || e.bytes < CRN_EXTENT_MIN || x->n >= CRN_EXTENTS_MAX ||
        extents_grow(x, (void **)&x->v, x->n, &x->room, sizeof(*x->v)) != 0)
        return;
    x->v[x->n++] = e;
}

static int by_offset(const void *a, const void *b)
{
    const struct crn_file_extent *x = a, *y = b;

    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

void crn_extents_finish(struct crn_file_extents *x, uint64_t file_bytes)
{
    uint64_t end = 0;
    size_t n = 0;
    size_t i;

    if (x->failed || x->n == 0) {
        crn_extents_free(x);
        return;
    }
    qsort(x->v, x->n, sizeof(*x->v), by_offset);
    for (i = 0; i < x->n; i++) {
        const struct crn_file_extent e = x->v[i];

        if (e.offset < end || e.offset > file_bytes || e.bytes > file_bytes - e.offset)
            continue;
        end = e.offset + e.bytes;
        x->v[n++] = e;
    }
    x->n = n;
}

/* On the wire. --------------------------------------------------------------------------------- */

void crn_extents_encode(const struct crn_file_extents *x, struct crn_buf *buf)
{
    size_t i;
    unsigned d;

    for (i = 0; i < x->n; i++) {
        const struct crn_file_extent *e = &x->v[i];

        crn_buf_u32(buf, 1);
        crn_buf_u8(buf, (uint8_t)e->type);
        crn_buf_u8(buf, e->is_big_endian);
        crn_buf_u8(buf, e->ndims);
        crn_buf_str(buf, e->key);
        crn_buf_u64(buf, e->offset);
        for (d = 0; d < e->ndims; d++)
            crn_buf_u64(buf, e->dims[d]);
    }
    crn_buf_u32(buf, END_MARK);
}

static void decode_one(struct crn_view *v, struct crn_file_extents *ret)
{
    cairn_type type = (cairn_type)crn_view_u8(v);
    uint8_t is_big_endian = crn_view_u8(v);
    uint8_t ndims = crn_view_u8(v);
    uint64_t dims[CAIRN_MAX_DIMS] = {0};
    char key[CAIRN_MAX_NAME];
    uint64_t offset;
    unsigned d;

    crn_view_str(v, key, sizeof(key));
    offset = crn_view_u64(v);
    if (ndims < 1 || ndims > CAIRN_MAX_DIMS || is_big_endian > 1)
        v->failed = 1;
    for (d = 0; !v->failed && d < ndims; d++)
        dims[d] = crn_view_u64(v);
    if (!v->failed)
        crn_extents_add(ret, crn_extents_key(ret, key, strlen(key)), type, is_big_endian, offset,
                        dims, ndims);
}

int crn_extents_decode(const void *data, size_t n, struct crn_file_extents *ret)
{
    struct crn_view v = crn_view_of(data, n);
    uint32_t mark;

    memset(ret, 0, sizeof(*ret));
    while ((mark = crn_view_u32(&v)) == 1 && !v.failed && !ret->failed)
        decode_one(&v, ret);
    if (!v.failed && !ret->failed && mark == END_MARK && crn_view_left(&v) == 0)
        return 0;
    crn_extents_free(ret);
    return -1;
}

/* Files. --------------------------------------------------------------------------------------- */

/* Reads up to n bytes, as many as the file has. */
static size_t read_some(const struct crn_fs *fs, int fd, void *buf, size_t n, uint64_t offset)
{
    size_t done = 0;

    while (done < n) {
        ssize_t got =
            fs->pread(fs, fd, (unsigned char *)buf + done, n - done, (off_t)(offset + done));

        if (got <= 0)
            break;
        done += (size_t)got;
    }
    return done;
}

/* The signature is at 0, 512, 1024, 2048, ..., after a user block. */
static int is_hdf5(const struct crn_fs *fs, int fd, uint64_t bytes)
{
    static const unsigned char signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    unsigned char found[8];
    uint64_t at;

    for (at = 0; at < bytes && at <= USER_BLOCK_MAX; at = at == 0 ? 512 : 2 * at)
        if (read_some(fs, fd, found, sizeof(found), at) == sizeof(found) &&
            memcmp(found, signature, sizeof(found)) == 0)
            return 1;
    return 0;
}

/* Reads as much of the header as needed, up to a limit. */
static void read_header(const struct crn_fs *fs, int fd, uint64_t bytes,
                        int (*parse)(const void *header, size_t n, uint64_t file_bytes,
                                     struct crn_file_extents *ret),
                        struct crn_file_extents *ret)
{
    size_t room;

    for (room = HEADER_FIRST; room <= HEADER_MOST; room *= 4) {
        unsigned char *header = malloc(room);
        size_t n = header != NULL ? read_some(fs, fd, header, room, 0) : 0;
        int is_short = header == NULL || parse(header, n, bytes, ret) != 0;

        free(header);
        if (!is_short || n < room)
            return;
    }
}

struct zip_file {
    struct crn_extents_file f; /* first */
    const struct crn_fs *fs;
    int fd;
};

static size_t zip_file_read(const struct crn_extents_file *f, void *buf, size_t n, uint64_t offset)
{
    const struct zip_file *z = (const struct zip_file *)(const void *)f;

    return read_some(z->fs, z->fd, buf, n, offset);
}

static void read_npy(const struct crn_fs *fs, int fd, struct crn_file_extents *ret)
{
    unsigned char head[CRN_NPY_HEAD];
    size_t n = read_some(fs, fd, head, sizeof(head), 0);

    crn_extents_npy(head, n, 0, "array", 5, ret);
}

void crn_extents_read(const struct crn_fs *fs, int fd, const char *hdf5,
                      struct crn_file_extents *ret)
{
    unsigned char magic[9] = {0};
    struct zip_file zip = {.f.read = zip_file_read, .fs = fs, .fd = fd};
    struct stat st;
    uint64_t bytes;
    size_t n;

    memset(ret, 0, sizeof(*ret));
    if (fs->fstat(fs, fd, &st) < 0 || st.st_size < CRN_EXTENT_MIN)
        return;
    bytes = (uint64_t)st.st_size;
    n = read_some(fs, fd, magic, sizeof(magic), 0);
    zip.f.bytes = bytes;
    if (n == sizeof(magic) && memcmp(magic, "CDF", 3) == 0)
        read_header(fs, fd, bytes, crn_extents_netcdf, ret);
    else if (n == sizeof(magic) && memcmp(magic, "\x93NUMPY", 6) == 0)
        read_npy(fs, fd, ret);
    else if (n == sizeof(magic) && memcmp(magic, "PK\3\4", 4) == 0)
        crn_extents_zip(&zip.f, ret);
    else if (n == sizeof(magic) && magic[8] == '{' && magic[7] == 0 && magic[6] == 0)
        read_header(fs, fd, bytes, crn_extents_safetensors, ret);
    else if (hdf5 != NULL && is_hdf5(fs, fd, bytes))
        crn_extents_hdf5(hdf5, fd, ret);
    crn_extents_finish(ret, bytes);
}
