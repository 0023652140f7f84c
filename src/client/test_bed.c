/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/test_bed.h"

void bed_open(struct bed_bed *b)
{
    void *p;

    memset(b, 0, sizeof(*b));
    test_dir_make(b->dir, sizeof(b->dir));
    assert_ok(crn_driver_cuda(0, &b->driver, ei)); /* as the application's runtime would */
    assert_ok(b->driver->ops->device_open(b->driver, 0, &b->dev, ei));
    assert_ok(b->driver->ops->alloc(b->dev, N * sizeof(uint64_t), &p, ei));
    b->gpu = p;
    b->host = malloc(N * sizeof(uint64_t));
    assert_non_null(b->host);
}

void bed_close(struct bed_bed *b)
{
    b->driver->ops->free(b->dev, b->gpu);
    b->driver->ops->device_close(b->dev);
    b->driver->ops->close(b->driver);
    free(b->host);
    test_dir_remove(b->dir);
}

cairn_session *bed_session(struct bed_bed *b, ...)
{
    char persistent[300];
    char shm[300];
    char run[300];
    const char *settings[16] = {persistent,       shm,        run,       "log_level=error",
                                "block_bytes=1M", "blocks=2", "fresh=on"};
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings};
    cairn_session *s;
    va_list more;
    int n = 7;

    va_start(more, b);
    while (n < 15 && (settings[n] = va_arg(more, const char *)) != NULL)
        n++;
    va_end(more);
    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/p", b->dir);
    (void)snprintf(shm, sizeof(shm), "shm_dir=%s", b->dir);
    (void)snprintf(run, sizeof(run), "run_dir=%s/run", b->dir);
    if (cairn_open(&opt, &s) != CAIRN_OK)
        fail_msg("%s", cairn_last_error());
    return s;
}

void must(cairn_err rc)
{
    if (rc != CAIRN_OK)
        fail_msg("%s: %s", cairn_error_name(rc), cairn_last_error());
}

uint64_t value(uint64_t version, uint64_t i)
{
    return version * 1000003 + i * 7;
}

void copy(struct bed_bed *b, void *dst, const void *src, size_t n)
{
    assert_ok(b->driver->ops->copy(b->dev, CRN_LANE_WRITE, dst, src, n * sizeof(uint64_t), ei));
    assert_ok(b->driver->ops->wait(b->dev, CRN_LANE_WRITE, ei));
}

void bed_fill(struct bed_bed *b, uint64_t version)
{
    size_t i;

    for (i = 0; i < N; i++)
        b->host[i] = value(version, i);
    copy(b, b->gpu, b->host, N);
}

int holds(struct bed_bed *b, uint64_t version)
{
    size_t i;

    memset(b->host, 0, N * sizeof(uint64_t));
    copy(b, b->host, b->gpu, N);
    for (i = 0; i < N; i++)
        if (b->host[i] != value(version, i))
            return 0;
    return 1;
}

void spoil(struct bed_bed *b)
{
    memset(b->host, 0xee, N * sizeof(uint64_t));
    copy(b, b->gpu, b->host, N);
}
