/* SPDX-License-Identifier: BSD-3-Clause */
/* The threads of a probe. Writers take blocks until there are none: received blocks first, then
 * local ones straight from the arena, as a leader's writers do. The first error stops all.
 * Blocks that are still received return to the pool unwritten, so no thread waits forever. */
#include "tune/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/pool.h"
#include "base/queue.h"
#include "base/touch.h"

struct probe_run {
    const struct crn_probe_env *env;
    const struct crn_probe *p;
    int fd[CRN_PROBE_MAX_FILES]; /* -1: not open */
    struct crn_behind behind[CRN_PROBE_MAX_FILES];
    uint64_t blocks; /* in all files */
    uint64_t nlocal, nreceived;
    atomic_uint_fast64_t next;  /* interleaved: position of the next block */
    atomic_uint_fast64_t local; /* interleaved: local blocks taken */
    struct crn_pool pool;
    struct crn_queue ready; /* received blocks */
    int has_pool, has_queue;
    struct crn_mutex mu;
    struct crn_errinfo first; /* error; under mu */
    atomic_int failed;
};

struct probe_piece {
    int fd;
    uint64_t offset;
    uint64_t bytes;
    const void *data;
    void *block;               /* from the pool, to be returned; or NULL */
    struct crn_behind *behind; /* of the file; NULL: the kernel schedules writeback */
};

struct probe_writer {
    struct probe_run *run;
    uint32_t no;
    uint32_t region; /* contiguous: the current region */
    uint64_t at;     /* blocks taken from that region */
};

const char *crn_layout_name(enum crn_layout layout)
{
    return layout == CRN_CONTIGUOUS ? "contiguous" : "interleaved";
}

const char *crn_method_name(enum crn_method method)
{
    static const char *const names[CRN_METHODS] = {"buffered", "behind", "direct"};

    return names[method];
}

/* Layout. -------------------------------------------------------------------------------------- */

uint32_t crn_probe_regions(const struct crn_probe *p)
{
    return p->writers > p->files ? p->writers : p->files;
}

static uint64_t region_start(const struct crn_probe *p, uint32_t r)
{
    return p->bytes / p->block_bytes * r / crn_probe_regions(p);
}

struct crn_probe_span crn_probe_region(const struct crn_probe *p, uint32_t r)
{
    struct crn_probe_span ret = {.file = r % p->files};
    uint32_t before;

    for (before = ret.file; before < r; before += p->files)
        ret.first += region_start(p, before + 1) - region_start(p, before);
    ret.blocks = region_start(p, r + 1) - region_start(p, r);
    return ret;
}

static int is_stopped(struct probe_run *run)
{
    return atomic_load(&run->failed) || (run->env->stop != NULL && atomic_load(run->env->stop));
}

static void probe_place(struct probe_run *run, uint32_t file, uint64_t block,
                        struct probe_piece *ret)
{
    uint64_t size = run->p->block_bytes;

    ret->fd = run->fd[file];
    ret->offset = block * size;
    ret->bytes = size;
    ret->behind = run->p->method == CRN_BEHIND ? &run->behind[file] : NULL;
}

/* The arena address of the n-th block; the arena is shorter than the files and is reused. */
static const void *arena_block(const struct probe_run *run, uint64_t n)
{
    uint64_t slots = run->env->arena_bytes / run->p->block_bytes;

    return run->env->arena + n % slots * run->p->block_bytes;
}

static int next_contiguous(struct probe_writer *w, struct probe_piece *ret)
{
    struct probe_run *run = w->run;

    for (; w->region < crn_probe_regions(run->p); w->region += run->p->writers, w->at = 0) {
        struct crn_probe_span r = crn_probe_region(run->p, w->region);

        if (w->at < r.blocks) {
            probe_place(run, r.file, r.first + w->at, ret);
            ret->data = arena_block(run, region_start(run->p, w->region) + w->at);
            ret->block = NULL;
            w->at++;
            return 1;
        }
    }
    return 0;
}

/* Hands out offsets in order of arrival. */
static void probe_append(struct probe_run *run, struct probe_piece *ret)
{
    uint64_t n = atomic_fetch_add(&run->next, 1);

    probe_place(run, (uint32_t)(n % run->p->files), n / run->p->files, ret);
}

static int next_interleaved(struct probe_writer *w, struct probe_piece *ret)
{
    struct probe_run *run = w->run;
    uint64_t n;

    ret->block = run->nreceived > 0 ? crn_queue_try_pop(&run->ready) : NULL;
    if (ret->block == NULL && !is_stopped(run)) {
        n = atomic_fetch_add(&run->local, 1);
        if (n < run->nlocal) {
            probe_append(run, ret);
            ret->data = arena_block(run, n);
            return 1;
        }
    }
    if (ret->block == NULL && run->nreceived > 0)
        ret->block = crn_queue_pop(&run->ready);
    if (ret->block == NULL)
        return 0;
    probe_append(run, ret);
    ret->data = ret->block;
    return 1;
}

/* The next block of this writer; 0: none is left. */
static int probe_next(struct probe_writer *w, struct probe_piece *ret)
{
    if (w->run->p->layout == CRN_INTERLEAVED)
        return next_interleaved(w, ret);
    return !is_stopped(w->run) && next_contiguous(w, ret);
}

static void probe_done(struct probe_writer *w, void *block)
{
    if (block != NULL)
        crn_pool_put(&w->run->pool, block);
}

/* Threads. ------------------------------------------------------------------------------------- */

static void probe_fail(struct probe_run *run, const struct crn_errinfo *ei)
{
    crn_lock(&run->mu);
    crn_err_keep(&run->first, ei);
    crn_unlock(&run->mu);
    atomic_store(&run->failed, 1);
}

static cairn_err write_pieces(struct probe_writer *w, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = w->run->env->fs;
    struct probe_piece piece;
    cairn_err rc = CAIRN_OK;

    while (probe_next(w, &piece)) {
        if (rc == CAIRN_OK && !is_stopped(w->run))
            rc = crn_fs_write_all(fs, piece.fd, piece.data, piece.bytes, piece.offset, "probe", ei);
        if (rc == CAIRN_OK && !is_stopped(w->run) && piece.behind != NULL)
            rc = crn_behind_wrote(piece.behind, fs, piece.fd, piece.offset, piece.bytes, "probe",
                                  ei);
        probe_done(w, piece.block);
        if (rc != CAIRN_OK)
            probe_fail(w->run, ei);
    }
    return rc;
}

static void *writer_main(void *arg)
{
    struct probe_writer *w = arg;
    struct crn_errinfo ei = {0};
    cairn_err rc;

    rc = write_pieces(w, &ei);
    if (rc != CAIRN_OK) {
        struct probe_piece piece;

        probe_fail(w->run, &ei);
        while (probe_next(w, &piece)) /* the receiver must not wait for our blocks */
            probe_done(w, piece.block);
    }
    return NULL;
}

static void *receiver_main(void *arg)
{
    struct probe_run *run = arg;
    uint64_t i;

    for (i = 0; i < run->nreceived && !is_stopped(run); i++) {
        void *block = crn_pool_get(&run->pool);

        memcpy(block, arena_block(run, run->nlocal + i), run->p->block_bytes);
        if (crn_queue_push(&run->ready, block) != 0)
            crn_pool_put(&run->pool, block);
    }
    crn_queue_close(&run->ready);
    return NULL;
}

static void *sync_main(void *arg)
{
    struct probe_writer *w = arg;
    const struct crn_fs *fs = w->run->env->fs;
    struct crn_errinfo ei = {0};
    uint32_t i;

    for (i = w->no; i < w->run->p->files; i += w->run->p->writers)
        if (crn_fs_check(fs->fsync(fs, w->run->fd[i]), &ei, "fsync of probe file %u", i) !=
            CAIRN_OK)
            probe_fail(w->run, &ei);
    return NULL;
}

/* Runs fn in a thread per writer, and joins every thread that started. */
static void in_threads(struct probe_run *run, void *(*fn)(void *), struct probe_writer *writers)
{
    pthread_t thread[CRN_PROBE_MAX_WRITERS];
    struct crn_errinfo ei = {0};
    uint32_t i, n;

    for (n = 0; n < run->p->writers; n++)
        if (crn_thread_start(&thread[n], "tune-writer", fn, &writers[n], &ei) != CAIRN_OK) {
            probe_fail(run, &ei);
            break;
        }
    if (n == 0 && fn == writer_main)
        (void)fn(&writers[0]); /* drains the received blocks */
    for (i = 0; i < n; i++)
        (void)pthread_join(thread[i], NULL);
}

static void write_all(struct probe_run *run)
{
    struct probe_writer writers[CRN_PROBE_MAX_WRITERS];
    struct crn_errinfo ei = {0};
    pthread_t receiver;
    int has_receiver = 0;
    uint32_t i;

    for (i = 0; i < CRN_PROBE_MAX_WRITERS; i++)
        writers[i] = (struct probe_writer){.run = run, .no = i, .region = i};
    if (run->nreceived > 0) {
        has_receiver =
            crn_thread_start(&receiver, "tune-receive", receiver_main, run, &ei) == CAIRN_OK;
        if (!has_receiver) {
            probe_fail(run, &ei);
            crn_queue_close(&run->ready);
        }
    }
    in_threads(run, writer_main, writers);
    if (has_receiver)
        (void)pthread_join(receiver, NULL);
    if (!is_stopped(run))
        in_threads(run, sync_main, writers);
}

/* Files. --------------------------------------------------------------------------------------- */

static void file_name(uint32_t i, char *buf, size_t size)
{
    (void)snprintf(buf, size, "probe-%u", i);
}

static int is_direct(const struct crn_probe *p)
{
    return p->method == CRN_DIRECT;
}

static cairn_err open_files(struct probe_run *run, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = run->env->fs;
    int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | (is_direct(run->p) ? O_DIRECT : 0);
    uint32_t i;

    for (i = 0; i < run->p->files; i++) {
        char name[32];

        file_name(i, name, sizeof(name));
        run->fd[i] = fs->openat(fs, run->env->dfd, name, flags, 0600);
        if (run->fd[i] == -EINVAL && is_direct(run->p))
            return crn_fail(ei, CAIRN_ENOTSUP, EINVAL, "the file system has no O_DIRECT");
        if (run->fd[i] < 0)
            return crn_fs_check(run->fd[i], ei, "create probe file %u", i);
    }
    return CAIRN_OK;
}

/* Are all bytes in the files? A method that loses data must not win. */
static cairn_err check_sizes(struct probe_run *run, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = run->env->fs;
    uint64_t sum = 0;
    uint32_t i;

    for (i = 0; i < run->p->files; i++) {
        struct stat st;
        cairn_err rc = crn_fs_check(fs->fstat(fs, run->fd[i], &st), ei, "probe file %u", i);

        if (rc != CAIRN_OK)
            return rc;
        sum += (uint64_t)st.st_size;
    }
    if (sum != run->p->bytes)
        return crn_fail(ei, CAIRN_EIO, 0, "%llu of %llu bytes were written",
                        (unsigned long long)sum, (unsigned long long)run->p->bytes);
    return CAIRN_OK;
}

static void close_files(struct probe_run *run)
{
    const struct crn_fs *fs = run->env->fs;
    uint32_t i;

    for (i = 0; i < run->p->files; i++) {
        char name[32];

        if (run->fd[i] < 0)
            continue;
        file_name(i, name, sizeof(name));
        (void)fs->close(fs, run->fd[i]);
        if (!run->env->keep_files)
            /* on failure, the folder's removal takes it */
            (void)fs->unlinkat(fs, run->env->dfd, name, 0);
    }
}

/* The whole probe. ----------------------------------------------------------------------------- */

static cairn_err check_probe(const struct crn_probe_env *env, const struct crn_probe *p,
                             struct crn_errinfo *ei)
{
    if (p->writers < 1 || p->writers > CRN_PROBE_MAX_WRITERS || p->files < 1 ||
        p->files > CRN_PROBE_MAX_FILES)
        return crn_fail(ei, CAIRN_EINVAL, 0, "%u writers and %u files: 1 to %d and %d", p->writers,
                        p->files, CRN_PROBE_MAX_WRITERS, CRN_PROBE_MAX_FILES);
    if (p->block_bytes < 4096 || p->block_bytes % 4096 != 0 || p->block_bytes > env->arena_bytes ||
        p->bytes == 0 || p->bytes % p->block_bytes != 0)
        return crn_fail(ei, CAIRN_EINVAL, 0, "the block size or the number of bytes is invalid");
    if (p->received > 100 || (p->received > 0 && p->layout != CRN_INTERLEAVED))
        return crn_fail(ei, CAIRN_EINVAL, 0, "only interleaved writes are received");
    return CAIRN_OK;
}

static cairn_err probe_prepare(struct probe_run *run, struct crn_errinfo *ei)
{
    const struct crn_probe *p = run->p;
    size_t blocks = 2 * (size_t)p->writers;
    cairn_err rc;

    run->blocks = p->bytes / p->block_bytes;
    run->nreceived = run->blocks * p->received / 100;
    run->nlocal = run->blocks - run->nreceived;
    if (run->nreceived == 0)
        return CAIRN_OK;
    rc = crn_pool_init(&run->pool, blocks, p->block_bytes, ei);
    if (rc != CAIRN_OK)
        return rc;
    run->has_pool = 1;
    crn_touch(run->pool.memory, blocks * p->block_bytes, 1); /* not measured */
    rc = crn_queue_init(&run->ready, blocks, ei);
    run->has_queue = rc == CAIRN_OK;
    return rc;
}

static void probe_fini(struct probe_run *run)
{
    int i;

    for (i = 0; i < CRN_PROBE_MAX_FILES; i++)
        crn_behind_fini(&run->behind[i]);
    if (run->has_queue)
        crn_queue_fini(&run->ready);
    if (run->has_pool)
        crn_pool_fini(&run->pool);
    close_files(run);
    crn_mutex_fini(&run->mu);
}

static cairn_err run_open(struct probe_run *run, double *ret_seconds, struct crn_errinfo *ei)
{
    const struct crn_clock *clock = crn_clock_real();
    int64_t since = clock->mono_ns(clock);

    write_all(run);
    *ret_seconds = (double)(clock->mono_ns(clock) - since) * 1e-9;
    /* some file systems refuse only here */
    if (run->first.sys_errno == EINVAL && is_direct(run->p))
        return crn_fail(ei, CAIRN_ENOTSUP, EINVAL, "the file system has no O_DIRECT");
    if (run->first.code != CAIRN_OK)
        return crn_fail(ei, run->first.code, run->first.sys_errno, "%s", run->first.msg);
    if (is_stopped(run))
        return crn_fail(ei, CAIRN_ECANCELED, 0, "stopped");
    return check_sizes(run, ei);
}

cairn_err crn_probe_run(const struct crn_probe_env *env, const struct crn_probe *p,
                        double *ret_seconds, struct crn_errinfo *ei)
{
    struct probe_run run = {.env = env, .p = p};
    double seconds = 0;
    cairn_err rc = check_probe(env, p, ei);
    uint32_t i;

    if (rc != CAIRN_OK)
        return rc;
    for (i = 0; i < CRN_PROBE_MAX_FILES; i++) {
        run.fd[i] = -1;
        crn_behind_init(&run.behind[i]);
    }
    crn_mutex_init(&run.mu, CRN_RANK_LEAF);
    rc = open_files(&run, ei);
    if (rc == CAIRN_OK)
        rc = probe_prepare(&run, ei);
    if (rc == CAIRN_OK)
        rc = run_open(&run, &seconds, ei);
    probe_fini(&run);
    if (rc == CAIRN_OK)
        *ret_seconds = seconds;
    return rc;
}
