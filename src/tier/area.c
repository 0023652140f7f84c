/* SPDX-License-Identifier: BSD-3-Clause */
/* The checksums are mapped by all who have the file open; an image is handed from one to another by
 * something that orders memory (a slot's state, a lock), so they need no order of their own. Whole pages
 * go past the page cache where the file system lets them: what is read once would only push out what is
 * read often, and dirty pages would be written when it suits nobody. */
#include "tier/area.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/buf.h"

#define AREA_MAGIC UINT64_C(0x3141455241524e43) /* "CNRAREA1" */
#define PAGE       ((uint64_t)4096)
#define GRANULE    CRN_AREA_GRANULE
#define NAME       64

struct head {
    uint64_t magic;
    uint64_t bytes; /* of data */
    uint64_t sums[];
};

struct crn_area {
    const struct crn_fs *fs;
    char name[NAME];
    int fd;
    atomic_int direct_fd; /* past the page cache; -1: refused */
    struct head *head;    /* mapped */
    uint64_t bytes;       /* own copy: the header is shared with others */
    uint64_t data_at;
};

static uint64_t round_up(uint64_t x, uint64_t unit)
{
    return (x + unit - 1) / unit * unit;
}

static uint64_t head_bytes(uint64_t bytes)
{
    return round_up(sizeof(struct head) + bytes / GRANULE * sizeof(uint64_t), GRANULE);
}

/* Life. ------------------------------------------------------------------------------------------ */

static cairn_err make(const struct crn_fs *fs, const char *name, struct crn_area **ret,
                      struct crn_errinfo *ei)
{
    struct crn_area *a = calloc(1, sizeof(*a));

    if (a == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "an area of checkpoints");
    a->fs = fs;
    (void)snprintf(a->name, sizeof(a->name), "%s", name != NULL ? name : "area");
    a->fd = -1;
    atomic_init(&a->direct_fd, -1);
    *ret = a;
    return CAIRN_OK;
}

void crn_area_close(struct crn_area *a)
{
    if (a == NULL)
        return;
    if (a->head != NULL)
        (void)munmap(a->head, a->data_at);
    if (a->direct_fd >= 0)
        (void)a->fs->close(a->fs, a->direct_fd);
    if (a->fd >= 0)
        (void)a->fs->close(a->fs, a->fd);
    free(a);
}

static cairn_err map(struct crn_area *a, uint64_t bytes, int prot, struct crn_errinfo *ei)
{
    void *p = mmap(NULL, head_bytes(bytes), prot, MAP_SHARED, a->fd, 0);

    if (p == MAP_FAILED)
        return crn_fail(ei, CAIRN_ENOMEM, errno, "map the checksums of '%s'", a->name);
    a->head = p;
    a->bytes = bytes;
    a->data_at = head_bytes(bytes);
    return CAIRN_OK;
}

static cairn_err reserve(struct crn_area *a, uint64_t total, struct crn_errinfo *ei)
{
    int r = a->fs->fallocate(a->fs, a->fd, 0, (off_t)total);

    if (r == -EOPNOTSUPP || r == -ENOSYS)
        r = a->fs->ftruncate(a->fs, a->fd, (off_t)total);
    return crn_fs_check(r, ei, "reserve %" PRIu64 " bytes of the local directory for '%s'", total,
                        a->name);
}

cairn_err crn_area_create(const struct crn_fs *fs, int dfd, const struct crn_area_options *options,
                          struct crn_area **ret, struct crn_errinfo *ei)
{
    uint64_t bytes = round_up(options->bytes, GRANULE);
    const char *name = options->name;
    char own[NAME];
    struct crn_area *a = NULL;
    cairn_err rc;

    rc = make(fs, name, &a, ei);
    if (rc != CAIRN_OK)
        return rc;
    (void)snprintf(own, sizeof(own), ".area-%p", (void *)a);
    a->fd =
        fs->openat(fs, dfd, name != NULL ? name : own, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    rc = crn_fs_check(a->fd, ei, "create '%s' in the local directory", a->name);
    if (rc != CAIRN_OK)
        goto out;
    if (options->is_direct)
        a->direct_fd =
            fs->openat(fs, dfd, name != NULL ? name : own, O_RDWR | O_DIRECT | O_CLOEXEC, 0);
    rc = reserve(a, head_bytes(bytes) + bytes, ei);
    if (rc == CAIRN_OK)
        rc = map(a, bytes, PROT_READ | PROT_WRITE, ei);
    if (rc != CAIRN_OK || name == NULL)
        (void)fs->unlinkat(fs, dfd, name != NULL ? name : own, 0);
out:
    if (rc != CAIRN_OK) {
        crn_area_close(a);
        return rc;
    }
    a->head->bytes = bytes;
    a->head->magic = AREA_MAGIC;
    *ret = a;
    return CAIRN_OK;
}

static cairn_err check_head(const struct crn_area *a, uint64_t *ret_bytes, struct crn_errinfo *ei)
{
    struct head head;
    struct stat st;
    cairn_err rc;

    rc = crn_fs_check(a->fs->fstat(a->fs, a->fd, &st), ei, "stat '%s'", a->name);
    if (rc == CAIRN_OK)
        rc = crn_fs_read_all(a->fs, a->fd, &head, sizeof(head), 0, a->name, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (head.magic != AREA_MAGIC || head.bytes % GRANULE != 0 ||
        head.bytes > (uint64_t)st.st_size ||
        head_bytes(head.bytes) + head.bytes != (uint64_t)st.st_size)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "'%s' is no area of checkpoints", a->name);
    *ret_bytes = head.bytes;
    return CAIRN_OK;
}

cairn_err crn_area_open(const struct crn_fs *fs, int dfd, const char *name, struct crn_area **ret,
                        struct crn_errinfo *ei)
{
    struct crn_area *a = NULL;
    uint64_t bytes = 0;
    cairn_err rc;

    rc = make(fs, name, &a, ei);
    if (rc != CAIRN_OK)
        return rc;
    a->fd = fs->openat(fs, dfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0);
    rc = crn_fs_check(a->fd, ei, "open '%s' in the local directory", name);
    if (rc == CAIRN_OK)
        rc = check_head(a, &bytes, ei);
    if (rc == CAIRN_OK)
        rc = map(a, bytes, PROT_READ, ei);
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

/* Bytes. ----------------------------------------------------------------------------------------- */

/* The descriptor for a transfer: past the page cache if all is in whole pages. */
static int fd_for(struct crn_area *a, const void *p, uint64_t off, uint64_t n)
{
    int direct = atomic_load_explicit(&a->direct_fd, memory_order_relaxed);

    return direct >= 0 && ((uintptr_t)p | off | n) % PAGE == 0 ? direct : a->fd;
}

static cairn_err in_bounds(const struct crn_area *a, uint64_t image, uint64_t end,
                           struct crn_errinfo *ei)
{
    if (image % GRANULE == 0 && image <= a->bytes && end <= a->bytes - image)
        return CAIRN_OK;
    return crn_fail(ei, CAIRN_EDAMAGED, 0, "an image behind the end of '%s'", a->name);
}

cairn_err crn_area_write(struct crn_area *a, uint64_t image, uint64_t at, const void *src,
                         uint64_t n, struct crn_errinfo *ei)
{
    uint64_t off = a->data_at + image + at;
    int fd = fd_for(a, src, off, n);
    uint64_t done;
    cairn_err rc;

    rc = in_bounds(a, image, at + n, ei);
    if (rc == CAIRN_OK)
        rc = crn_fs_write_all(a->fs, fd, src, n, off, a->name, ei);
    if (rc != CAIRN_OK && fd != a->fd && ei->sys_errno == EINVAL) {
        crn_err_clear(ei); /* it was opened so, but does not work so */
        rc = crn_fs_write_all(a->fs, a->fd, src, n, off, a->name, ei);
    }
    for (done = 0; rc == CAIRN_OK && done < n; done += GRANULE)
        a->head->sums[(image + at + done) / GRANULE] =
            crn_hash((const unsigned char *)src + done, n - done < GRANULE ? n - done : GRANULE);
    return rc;
}

/* Bytes that begin at a granule and end at one, or at the image's end. */
static cairn_err read_whole(struct crn_area *a, uint64_t image, uint64_t at, unsigned char *dst,
                            uint64_t n, struct crn_errinfo *ei)
{
    uint64_t off = a->data_at + image + at;
    int fd = fd_for(a, dst, off, n);
    uint64_t done;
    cairn_err rc;

    rc = crn_fs_read_all(a->fs, fd, dst, n, off, a->name, ei);
    if (rc != CAIRN_OK && fd != a->fd && ei->sys_errno == EINVAL) {
        crn_err_clear(ei);
        rc = crn_fs_read_all(a->fs, a->fd, dst, n, off, a->name, ei);
    }
    for (done = 0; rc == CAIRN_OK && done < n; done += GRANULE)
        if (a->head->sums[(image + at + done) / GRANULE] !=
            crn_hash(dst + done, n - done < GRANULE ? n - done : GRANULE))
            return crn_fail(ei, CAIRN_EDAMAGED, 0,
                            "byte %" PRIu64 " of '%s' in the local directory is damaged",
                            off + done, a->name);
    return rc;
}

/* Bytes of one granule. */
static cairn_err read_part(struct crn_area *a, uint64_t image, uint64_t image_bytes, uint64_t at,
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
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "bytes behind the end of an image in '%s'", a->name);
    while (rc == CAIRN_OK && n > 0) {
        uint64_t skip = at % GRANULE;
        uint64_t left = at + n == image_bytes ? n : n / GRANULE * GRANULE; /* whole, from here */
        uint64_t take = GRANULE - skip < n ? GRANULE - skip : n;

        if (skip == 0 && left > 0) {
            take = left;
            rc = read_whole(a, image, at, to, take, ei);
        } else {
            rc = read_part(a, image, image_bytes, at, to, take, ei);
        }
        at += take;
        to += take;
        n -= take;
    }
    return rc;
}
