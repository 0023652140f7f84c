/* SPDX-License-Identifier: BSD-3-Clause */
/* Every process that opens the area maps the checksums. A process hands an image to another through
 * something that orders memory (a slot's state, a lock), so the checksums need no ordering of their
 * own. Whole pages bypass the page cache if the file system allows it: data read once would only
 * evict data read often, and the kernel would write dirty pages at inconvenient times.
 *
 * The kernel locks a file during a write. So the data is striped over several files, and as many
 * threads can write at once. I/O through the page cache goes in steps that fit the core's cache:
 * the checksum brings the bytes there, and the copy finds them. The kernel also allocates pages for
 * such a step faster than for megabytes at once. */
#include "tier/area.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/buf.h"

#define AREA_MAGIC UINT64_C(0x3241455241524e43) /* "CNRAREA2" */
#define PAGE       ((uint64_t)4096)
#define GRANULE    CRN_AREA_GRANULE
#define STRIPE     CRN_AREA_STRIPE
#define FILES      CRN_AREA_FILES
#define STEP       ((uint64_t)512 << 10)
#define NAME       64

struct area_head {
    uint64_t magic;
    uint64_t bytes; /* of data */
    uint64_t sums[];
};

struct crn_area {
    const struct crn_fs *fs;
    char name[NAME];
    uint32_t files;
    int fd[FILES];          /* the first file begins with the header */
    int direct[FILES];      /* bypass the page cache; -1: refused */
    struct area_head *head; /* mapped */
    uint64_t bytes;         /* own copy: other processes share the header */
    uint64_t data_at;
};

static uint64_t round_up(uint64_t x, uint64_t unit)
{
    return (x + unit - 1) / unit * unit;
}

static uint64_t head_bytes(uint64_t bytes)
{
    return round_up(sizeof(struct area_head) + bytes / GRANULE * sizeof(uint64_t), GRANULE);
}

static uint32_t files_of(uint64_t bytes)
{
    uint64_t stripes = round_up(bytes, STRIPE) / STRIPE;

    return stripes < 1 ? 1 : stripes > FILES ? FILES : (uint32_t)stripes;
}

/* The size of file i of an area of this size, with the header. */
static uint64_t file_bytes(uint64_t bytes, uint32_t i)
{
    uint64_t n = files_of(bytes);
    uint64_t whole = bytes / STRIPE;
    uint64_t data = (whole / n + (i < whole % n)) * STRIPE + (i == whole % n ? bytes % STRIPE : 0);

    return i == 0 ? head_bytes(bytes) + data : data;
}

static void file_name(const char *name, uint32_t i, char ret[NAME + 4])
{
    (void)snprintf(ret, NAME + 4, i == 0 ? "%s" : "%s.%u", name, i);
}

/* Life. ---------------------------------------------------------------------------------------- */

static cairn_err area_make(const struct crn_fs *fs, const char *name, struct crn_area **ret,
                           struct crn_errinfo *ei)
{
    struct crn_area *a = calloc(1, sizeof(*a));
    uint32_t i;

    if (a == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "an area of checkpoints");
    a->fs = fs;
    if (name != NULL)
        (void)snprintf(a->name, sizeof(a->name), "%s", name);
    else
        (void)snprintf(a->name, sizeof(a->name), ".area-%p", (void *)a);
    for (i = 0; i < FILES; i++)
        a->fd[i] = a->direct[i] = -1;
    *ret = a;
    return CAIRN_OK;
}

void crn_area_close(struct crn_area *a)
{
    uint32_t i;

    if (a == NULL)
        return;
    if (a->head != NULL)
        (void)munmap(a->head, a->data_at);
    for (i = 0; i < FILES; i++) {
        if (a->direct[i] >= 0)
            (void)a->fs->close(a->fs, a->direct[i]);
        if (a->fd[i] >= 0)
            (void)a->fs->close(a->fs, a->fd[i]);
    }
    free(a);
}

void crn_area_remove(const struct crn_fs *fs, int dfd, const char *name)
{
    char file[NAME + 4];
    uint32_t i;

    for (i = 0; i < FILES; i++) {
        file_name(name, i, file);
        (void)fs->unlinkat(fs, dfd, file, 0);
    }
}

static cairn_err area_map(struct crn_area *a, uint64_t bytes, int prot, struct crn_errinfo *ei)
{
    void *p = NULL;
    int r = a->fs->map(a->fs, a->fd[0], head_bytes(bytes), prot, &p);

    if (r < 0)
        return crn_fail_errno(ei, -r, "map the checksums of '%s'", a->name);
    a->head = p;
    a->bytes = bytes;
    a->data_at = head_bytes(bytes);
    a->files = files_of(bytes);
    return CAIRN_OK;
}

static cairn_err area_reserve(const struct crn_area *a, int fd, uint64_t bytes,
                              struct crn_errinfo *ei)
{
    int r = a->fs->fallocate(a->fs, fd, 0, (off_t)bytes);

    if (r == -EOPNOTSUPP || r == -ENOSYS)
        r = a->fs->ftruncate(a->fs, fd, (off_t)bytes);
    return crn_fs_check(r, ei, "reserve %" PRIu64 " bytes of the local directory for '%s'", bytes,
                        a->name);
}

static cairn_err create_file(struct crn_area *a, int dfd, uint32_t i, uint64_t bytes, int is_direct,
                             struct crn_errinfo *ei)
{
    const struct crn_fs *fs = a->fs;
    char name[NAME + 4];
    cairn_err rc;

    file_name(a->name, i, name);
    a->fd[i] = fs->openat(fs, dfd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    rc = crn_fs_check(a->fd[i], ei, "create '%s' in the local directory", name);
    if (rc == CAIRN_OK && is_direct)
        a->direct[i] = fs->openat(fs, dfd, name, O_RDWR | O_DIRECT | O_CLOEXEC, 0);
    return rc == CAIRN_OK ? area_reserve(a, a->fd[i], file_bytes(bytes, i), ei) : rc;
}

/* Removes the files that were created. */
static void remove_files(const struct crn_area *a, int dfd)
{
    char name[NAME + 4];
    uint32_t i;

    for (i = 0; i < FILES && a->fd[i] >= 0; i++) {
        file_name(a->name, i, name);
        (void)a->fs->unlinkat(a->fs, dfd, name, 0);
    }
}

cairn_err crn_area_create(const struct crn_fs *fs, int dfd, const struct crn_area_options *options,
                          struct crn_area **ret, struct crn_errinfo *ei)
{
    uint64_t bytes = round_up(options->bytes, GRANULE);
    struct crn_area *a = NULL;
    cairn_err rc;
    uint32_t i;

    rc = area_make(fs, options->name, &a, ei);
    if (rc != CAIRN_OK)
        return rc;
    for (i = 0; rc == CAIRN_OK && i < files_of(bytes); i++)
        rc = create_file(a, dfd, i, bytes, options->is_direct, ei);
    if (rc == CAIRN_OK)
        rc = area_map(a, bytes, PROT_READ | PROT_WRITE, ei);
    if (rc != CAIRN_OK || options->name == NULL)
        remove_files(a, dfd);
    if (rc != CAIRN_OK) {
        crn_area_close(a);
        return rc;
    }
    a->head->bytes = bytes;
    a->head->magic = AREA_MAGIC;
    *ret = a;
    return CAIRN_OK;
}

/* Does file i have the right size? */
static cairn_err check_size(const struct crn_area *a, uint32_t i, uint64_t bytes,
                            struct crn_errinfo *ei)
{
    struct stat st;
    cairn_err rc;

    rc = crn_fs_check(a->fs->fstat(a->fs, a->fd[i], &st), ei, "stat '%s'", a->name);
    if (rc == CAIRN_OK && file_bytes(bytes, i) != (uint64_t)st.st_size)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "'%s' is not an area of checkpoints", a->name);
    return rc;
}

static cairn_err check_head(const struct crn_area *a, uint64_t *ret_bytes, struct crn_errinfo *ei)
{
    struct area_head head;
    cairn_err rc;

    rc = crn_fs_read_all(a->fs, a->fd[0], &head, sizeof(head), 0, a->name, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (head.magic != AREA_MAGIC || head.bytes % GRANULE != 0 || head.bytes > INT64_MAX / 2)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "'%s' is not an area of checkpoints", a->name);
    *ret_bytes = head.bytes;
    return check_size(a, 0, head.bytes, ei);
}

static cairn_err open_file(struct crn_area *a, int dfd, uint32_t i, struct crn_errinfo *ei)
{
    char name[NAME + 4];

    file_name(a->name, i, name);
    a->fd[i] = a->fs->openat(a->fs, dfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0);
    return crn_fs_check(a->fd[i], ei, "open '%s' in the local directory", name);
}

cairn_err crn_area_open(const struct crn_fs *fs, int dfd, const char *name, struct crn_area **ret,
                        struct crn_errinfo *ei)
{
    struct crn_area *a = NULL;
    uint64_t bytes = 0;
    cairn_err rc;
    uint32_t i;

    rc = area_make(fs, name, &a, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = open_file(a, dfd, 0, ei);
    if (rc == CAIRN_OK)
        rc = check_head(a, &bytes, ei);
    for (i = 1; rc == CAIRN_OK && i < files_of(bytes); i++) {
        rc = open_file(a, dfd, i, ei);
        if (rc == CAIRN_OK)
            rc = check_size(a, i, bytes, ei);
    }
    if (rc == CAIRN_OK)
        rc = area_map(a, bytes, PROT_READ, ei);
    if (rc != CAIRN_OK) {
        crn_area_close(a);
        return rc;
    }
    *ret = a;
    return CAIRN_OK;
}

uint64_t crn_area_bytes(const struct crn_area *a)
{
    return a->bytes;
}

/* Bytes. --------------------------------------------------------------------------------------- */

/* The data that one call writes or reads. */
struct area_part {
    uint32_t file;
    uint64_t off; /* in it */
    uint64_t n;
    int fd;
    uint64_t *sums;
};

/* The largest extent that one call can move from byte x of the data on, of n bytes at p. It
 * bypasses the page cache if it consists of whole pages. x is the start of a granule. */
static struct area_part part_at(const struct crn_area *a, uint64_t x, const void *p, uint64_t n)
{
    uint64_t stripe = x / STRIPE;
    uint64_t left = STRIPE - x % STRIPE;
    struct area_part part = {.file = (uint32_t)(stripe % a->files),
                             .n = n < left ? n : left,
                             .sums = &a->head->sums[x / GRANULE]};

    part.off = stripe / a->files * STRIPE + x % STRIPE + (part.file == 0 ? a->data_at : 0);
    part.fd = a->direct[part.file];
    if (part.fd >= 0 && ((uintptr_t)p | part.n) % PAGE == 0)
        return part;
    part.fd = a->fd[part.file];
    part.n = part.n < STEP ? part.n : STEP;
    return part;
}

static uint64_t sum_of(const unsigned char *p, uint64_t at, uint64_t n)
{
    return crn_hash(p + at, n - at < GRANULE ? n - at : GRANULE);
}

static cairn_err in_bounds(const struct crn_area *a, uint64_t image, uint64_t end,
                           struct crn_errinfo *ei)
{
    if (image % GRANULE == 0 && image <= a->bytes && end <= a->bytes - image)
        return CAIRN_OK;
    return crn_fail(ei, CAIRN_EDAMAGED, 0, "an image beyond the end of '%s'", a->name);
}

static cairn_err write_part(struct crn_area *a, const struct area_part *part,
                            const unsigned char *src, struct crn_errinfo *ei)
{
    uint64_t at;
    cairn_err rc;

    for (at = 0; at < part->n; at += GRANULE)
        part->sums[at / GRANULE] = sum_of(src, at, part->n);
    rc = crn_fs_write_all(a->fs, part->fd, src, part->n, part->off, a->name, ei);
    if (rc != CAIRN_OK && part->fd != a->fd[part->file] && ei->sys_errno == EINVAL) {
        crn_err_clear(ei); /* O_DIRECT was accepted at open, but fails here */
        rc = crn_fs_write_all(a->fs, a->fd[part->file], src, part->n, part->off, a->name, ei);
    }
    return rc;
}

cairn_err crn_area_write(struct crn_area *a, uint64_t image, uint64_t at, const void *src,
                         uint64_t n, struct crn_errinfo *ei)
{
    const unsigned char *from = src;
    cairn_err rc;

    rc = in_bounds(a, image, at + n, ei);
    while (rc == CAIRN_OK && n > 0) {
        struct area_part part = part_at(a, image + at, from, n);

        rc = write_part(a, &part, from, ei);
        at += part.n;
        from += part.n;
        n -= part.n;
    }
    return rc;
}

static cairn_err read_part(struct crn_area *a, const struct area_part *part, unsigned char *dst,
                           struct crn_errinfo *ei)
{
    uint64_t at;
    cairn_err rc;

    rc = crn_fs_read_all(a->fs, part->fd, dst, part->n, part->off, a->name, ei);
    if (rc != CAIRN_OK && part->fd != a->fd[part->file] && ei->sys_errno == EINVAL) {
        crn_err_clear(ei);
        rc = crn_fs_read_all(a->fs, a->fd[part->file], dst, part->n, part->off, a->name, ei);
    }
    for (at = 0; rc == CAIRN_OK && at < part->n; at += GRANULE)
        if (part->sums[at / GRANULE] != sum_of(dst, at, part->n))
            return crn_fail(ei, CAIRN_EDAMAGED, 0,
                            "byte %" PRIu64 " of '%s', file %u, in the local directory is damaged",
                            part->off + at, a->name, part->file);
    return rc;
}

/* Reads bytes that start at a granule and end at one, or at the end of the image. */
static cairn_err read_whole(struct crn_area *a, uint64_t image, uint64_t at, unsigned char *dst,
                            uint64_t n, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;

    while (rc == CAIRN_OK && n > 0) {
        struct area_part part = part_at(a, image + at, dst, n);

        rc = read_part(a, &part, dst, ei);
        at += part.n;
        dst += part.n;
        n -= part.n;
    }
    return rc;
}

/* Reads bytes within one granule. */
static cairn_err read_granule(struct crn_area *a, uint64_t image, uint64_t image_bytes, uint64_t at,
                              unsigned char *dst, uint64_t n, struct crn_errinfo *ei)
{
    uint64_t granule = at / GRANULE * GRANULE;
    uint64_t whole = image_bytes - granule < GRANULE ? image_bytes - granule : GRANULE;
    unsigned char *buf = aligned_alloc(PAGE, GRANULE);
    cairn_err rc;

    if (buf == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a buffer for '%s'", a->name);
    rc = read_whole(a, image, granule, buf, whole, ei);
    if (rc == CAIRN_OK)
        memcpy(dst, buf + (at - granule), n);
    free(buf);
    return rc;
}

cairn_err crn_area_read(struct crn_area *a, uint64_t image, uint64_t image_bytes, uint64_t at,
                        void *dst, uint64_t n, struct crn_errinfo *ei)
{
    unsigned char *to = dst;
    cairn_err rc;

    rc = in_bounds(a, image, image_bytes, ei);
    if (rc == CAIRN_OK && (at > image_bytes || n > image_bytes - at))
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "bytes beyond the end of an image in '%s'", a->name);
    while (rc == CAIRN_OK && n > 0) {
        uint64_t skip = at % GRANULE;
        uint64_t left = at + n == image_bytes ? n : n / GRANULE * GRANULE; /* whole granules */
        uint64_t take = GRANULE - skip < n ? GRANULE - skip : n;

        if (skip == 0 && left > 0) {
            take = left;
            rc = read_whole(a, image, at, to, take, ei);
        } else {
            rc = read_granule(a, image, image_bytes, at, to, take, ei);
        }
        at += take;
        to += take;
        n -= take;
    }
    return rc;
}
