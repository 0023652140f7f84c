/* SPDX-License-Identifier: BSD-3-Clause */
/* Plain bytes, optionally after the header of NumPy's .npy format (version 1.0). */
#include "cli/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"

struct sink_raw_stream {
    int fd;
    const char *path;
};

static cairn_err sink_raw_put(const struct sink_raw_stream *s, const void *buf, size_t n,
                              struct crn_errinfo *ei)
{
    const char *p = buf;

    while (n > 0) {
        ssize_t r = write(s->fd, p, n < (1U << 30) ? n : 1U << 30);

        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return crn_fail_errno(ei, errno, "write '%s'", s->path);
        p += r;
        n -= (size_t)r;
    }
    return CAIRN_OK;
}

static cairn_err raw_open(void *ctx, const char *path, const struct cli_array *a,
                          struct crn_errinfo *ei)
{
    struct sink_raw_stream *s = ctx;

    (void)a;
    s->path = path != NULL ? path : "standard output";
    s->fd =
        path == NULL ? STDOUT_FILENO : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (s->fd < 0)
        return crn_fail_errno(ei, errno, "create '%s'", path);
    return CAIRN_OK;
}

static cairn_err raw_write(void *ctx, const struct cli_piece *p, const void *buf,
                           struct crn_errinfo *ei)
{
    return sink_raw_put(ctx, buf, p->bytes, ei);
}

static cairn_err raw_finish(void *ctx, int ok, struct crn_errinfo *ei)
{
    struct sink_raw_stream *s = ctx;

    (void)ok;
    if (s->fd >= 0 && s->fd != STDOUT_FILENO && close(s->fd) != 0)
        return crn_fail_errno(ei, errno, "close '%s'", s->path);
    return CAIRN_OK;
}

const struct cli_sink_ops crn_sink_raw = {
    .name = "raw",
    .can_stream = 1,
    .ctx_size = sizeof(struct sink_raw_stream),
    .open = raw_open,
    .write = raw_write,
    .finish = raw_finish,
};

/* .npy: magic, version, length of the header, a Python dictionary padded to 64 bytes. */
static cairn_err npy_open(void *ctx, const char *path, const struct cli_array *a,
                          struct crn_errinfo *ei)
{
    static const char *const descr[] = {
        "|u1", "|i1", "|u1",  "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4",
        "<f8", "<c8", "<c16", "<f2", "<V2", "|b1", "|V1", "|V1"}; /* V: as ml_dtypes writes them */
    const struct crn_region *r = &a->region;
    char head[512];
    size_t used, total;
    unsigned d;
    cairn_err rc;

    used = (size_t)snprintf(head, sizeof(head),
                            "%.6s%c%c%c%c{'descr': '%s', 'fortran_order': False, 'shape': (",
                            "\x93NUMPY", 1, 1, 1, 1, descr[r->type]);
    for (d = 0; d < r->ndims; d++)
        used += (size_t)snprintf(head + used, sizeof(head) - used, "%" PRIu64 ",%s", r->dims[d],
                                 d + 1 < r->ndims ? " " : "");
    used += (size_t)snprintf(head + used, sizeof(head) - used, "), }");
    total = (used + 1 + 63) / 64 * 64;
    memset(head + used, ' ', total - used);
    head[total - 1] = '\n';
    head[7] = 0; /* version 1.0; written last, since printf stops at a 0 */
    head[8] = (char)((total - 10) & 0xff);
    head[9] = (char)((total - 10) >> 8);
    rc = raw_open(ctx, path, a, ei);
    return rc != CAIRN_OK ? rc : sink_raw_put(ctx, head, total, ei);
}

const struct cli_sink_ops crn_sink_npy = {
    .name = "npy",
    .suffix = ".npy",
    .can_stream = 1,
    .ctx_size = sizeof(struct sink_raw_stream),
    .open = npy_open,
    .write = raw_write,
    .finish = raw_finish,
};
