/* SPDX-License-Identifier: BSD-3-Clause */
/* Every I/O method writes the same bytes: on a disk and in memory, from aligned memory,
 * unaligned memory and files, with short writes, and with every call failing. The configured
 * method is the one used. */
#include <errno.h>

#include "aggregate/engine.h"
#include "aggregate/test_shards.h"
#include "base/fs_faulty.h"

enum { SHARDS = 3, REGIONS = 3, BLOCK = 64 * 1024, CHUNK = 8192 };

static const uint64_t sizes[REGIONS] = {3 * BLOCK + 777, 100, 24576};

/* Counts how bytes reach the file, and refuses O_DIRECT on request. */
struct counting {
    struct crn_fs fs; /* first */
    int refuse_open, refuse_write;
    int fallocate_error;
    atomic_int direct, allocations, behind;
    /* data writes wait until this many are in flight, or until one has timed out */
    atomic_int meets;
    atomic_int inside, most;
};

static struct counting *self(const struct crn_fs *fs)
{
    return (struct counting *)(uintptr_t)fs;
}

static int c_openat(const struct crn_fs *fs, int dfd, const char *path, int flags, mode_t mode)
{
    if ((flags & O_DIRECT) != 0 && self(fs)->refuse_open)
        return -EINVAL;
    return crn_fs_posix()->openat(crn_fs_posix(), dfd, path, flags, mode);
}

/* A writer that has met others stays a little, so that one too many is noticed. */
static void meet(struct counting *c)
{
    int inside = atomic_fetch_add(&c->inside, 1) + 1;
    int most = atomic_load(&c->most);
    int i;

    while (most < inside && !atomic_compare_exchange_weak(&c->most, &most, inside))
        continue;
    if (atomic_load(&c->meets) == 0)
        return;
    for (i = 0; i < 20000 && atomic_load(&c->most) < atomic_load(&c->meets); i++)
        (void)usleep(1000);
    (void)usleep(200000);
    atomic_store(&c->meets, 0);
}

static ssize_t c_pwrite(const struct crn_fs *fs, int fd, const void *buf, size_t n, off_t off)
{
    ssize_t r;

    if ((fcntl(fd, F_GETFL) & O_DIRECT) != 0) {
        if (self(fs)->refuse_write)
            return -EINVAL;
        (void)atomic_fetch_add(&self(fs)->direct, 1);
    }
    meet(self(fs));
    r = crn_fs_posix()->pwrite(crn_fs_posix(), fd, buf, n, off);
    (void)atomic_fetch_sub(&self(fs)->inside, 1);
    return r;
}

static int c_fallocate(const struct crn_fs *fs, int fd, off_t off, off_t bytes)
{
    (void)atomic_fetch_add(&self(fs)->allocations, 1);
    if (self(fs)->fallocate_error != 0)
        return -self(fs)->fallocate_error;
    return crn_fs_posix()->fallocate(crn_fs_posix(), fd, off, bytes);
}

static int c_behind(const struct crn_fs *fs, int fd, off_t off, off_t bytes, int is_end)
{
    (void)atomic_fetch_add(&self(fs)->behind, 1);
    return crn_fs_posix()->behind(crn_fs_posix(), fd, off, bytes, is_end);
}

static void counting_init(struct counting *c)
{
    memset(c, 0, sizeof(*c));
    c->fs = *crn_fs_posix();
    c->fs.openat = c_openat;
    c->fs.pwrite = c_pwrite;
    c->fs.fallocate = c_fallocate;
    c->fs.behind = c_behind;
}

struct outfile_test_fixture {
    char dir[256];
    struct test_shard shard[SHARDS];
    unsigned char *memory[SHARDS]; /* owned; the images lie in it */
    struct crn_source sources[SHARDS];
    struct crn_index head;
    struct crn_store st;
};

/* Shard 0 in aligned memory, 1 in unaligned memory, 2 in a file. */
static void set_up(struct outfile_test_fixture *f, const char *parent)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_rng rng;
    char path[300];
    uint32_t s, r;

    memset(f, 0, sizeof(*f));
    (void)snprintf(f->dir, sizeof(f->dir), "%s/cairn-test-XXXXXX", parent);
    assert_non_null(mkdtemp(f->dir));
    crn_rng_seed(&rng, 5);
    for (s = 0; s < SHARDS; s++) {
        struct test_shard *shard = &f->shard[s];

        for (r = 0; r < REGIONS; r++)
            shard->regions[r].dims[0] = sizes[r];
        test_shard_lay_out(shard, REGIONS, 4096);
        f->memory[s] = aligned_alloc(4096, shard->bytes + 4096);
        shard->image = f->memory[s] + (s == 1 ? 40 : 0);
        test_shard_fill(shard, &rng);
        f->sources[s] = test_shard_source(shard, s);
    }
    (void)snprintf(path, sizeof(path), "%s/image", f->dir);
    f->sources[2].memory = NULL;
    f->sources[2].image_fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_int_equal(pwrite(f->sources[2].image_fd, f->shard[2].image, f->shard[2].bytes, 0),
                     f->shard[2].bytes);
    f->head = (struct crn_index){.version = 7, .files = 1, .ranks = SHARDS, .nodes = 1};
    (void)strcpy(f->head.name, "out");
    (void)snprintf(path, sizeof(path), "%s/p", f->dir);
    assert_ok(crn_store_open(crn_fs_posix(), path, 1, &f->st, ei));
}

static void tear_down(struct outfile_test_fixture *f)
{
    int s;

    crn_store_close(&f->st);
    for (s = 0; s < SHARDS; s++)
        free(f->memory[s]);
    (void)close(f->sources[2].image_fd);
    test_dir_remove(f->dir);
}

/* Fills in the options that the tests share. */
static struct crn_engine *open_with(struct crn_engine_options opt)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_engine *e;

    opt.blocks = 2;
    opt.block_bytes = BLOCK;
    opt.align_bytes = 4096;
    assert_ok(crn_engine_open(&opt, &e, ei));
    return e;
}

static struct crn_engine *open_engine(enum crn_io io, uint64_t chunk)
{
    return open_with(
        (struct crn_engine_options){.chunk_bytes = chunk, .writers = 3, .outlet = {.io = io}});
}

static void compare_and_remove(struct outfile_test_fixture *f, struct crn_manifest_file *mf)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file found;
    struct crn_index x;
    char path[400];

    assert_ok(crn_store_describe_data(&f->st, "out", 7, mf->name, &found, &x, ei));
    assert_int_equal(found.bytes, mf->bytes);
    (void)snprintf(path, sizeof(path), "%s/p/out/7/%s", f->dir, mf->name);
    test_compare(f->shard, SHARDS, &x, path);
    crn_manifest_file_free(&found);
    crn_index_free(&x);
    assert_ok(crn_store_discard_data(&f->st, "out", 7, mf->name, ei));
    crn_manifest_file_free(mf);
}

static cairn_err write_with(struct outfile_test_fixture *f, struct crn_engine *e,
                            const struct crn_fs *fs, struct crn_manifest_file *mf,
                            struct crn_errinfo *ei)
{
    struct crn_flush_stats stats;
    cairn_err rc;

    f->st.fs = fs;
    rc = crn_engine_write(e, &f->st, &f->head, f->sources, SHARDS, NULL, mf, &stats, ei);
    f->st.fs = crn_fs_posix();
    if (rc == CAIRN_OK)
        crn_flush_stats_free(&stats);
    return rc;
}

static int has_direct(const struct outfile_test_fixture *f)
{
    int fd = openat(f->st.dfd, "probe", O_WRONLY | O_CREAT | O_DIRECT, 0600);

    (void)unlinkat(f->st.dfd, "probe", 0);
    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}

/* A directory on a disk, usually, or in memory. */
static const char *place_of(int is_memory)
{
    const char *place = getenv(is_memory ? "CAIRN_TEST_MEMORY" : "TMPDIR");

    return place != NULL ? place : is_memory ? "/dev/shm" : ".";
}

static void every_method_writes_the_same_bytes(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file mf;
    struct counting c;
    struct outfile_test_fixture f;
    int place, io, odd;

    (void)state;
    for (place = 0; place < 2; place++) {
        set_up(&f, place_of(place));
        for (io = CRN_IO_BUFFERED; io <= CRN_IO_AUTO; io++)
            for (odd = 0; odd < 2; odd++) {
                struct crn_engine *e = open_engine((enum crn_io)io, odd ? 5000 : CHUNK);
                int is_direct = io == CRN_IO_DIRECT;
                int is_behind = io == CRN_IO_BEHIND ||
                                (io == CRN_IO_AUTO && f.st.fs->type(f.st.fs, f.st.dfd)->is_disk);

                counting_init(&c);
                assert_ok(write_with(&f, e, &c.fs, &mf, ei));
                compare_and_remove(&f, &mf);
                assert_int_equal(atomic_load(&c.behind) > 0, is_behind);
                assert_int_equal(atomic_load(&c.direct) > 0, is_direct && has_direct(&f));
                assert_int_equal(atomic_load(&c.allocations), is_direct && has_direct(&f));
                crn_engine_close(e);
            }
        tear_down(&f);
    }
}

/* Either an error with a reason, no file left and a usable engine, or all bytes. */
static void fails_at_every_call(struct outfile_test_fixture *f, enum crn_io io,
                                enum crn_fault_action action)
{
    struct crn_engine *e = open_engine(io, CHUNK);
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file mf;
    struct crn_fs_faulty faulty;
    long k;

    for (k = 1;; k++) {
        cairn_err rc;

        crn_fs_faulty_init(&faulty, crn_fs_posix());
        faulty.at = k;
        faulty.action = action;
        faulty.sys_errno = EIO;
        crn_err_clear(ei);
        rc = write_with(f, e, &faulty.fs, &mf, ei);
        if (rc == CAIRN_OK)
            compare_and_remove(f, &mf);
        else
            assert_true(action == CRN_FAULT_FAIL && rc == CAIRN_EIO && strlen(ei->msg) > 10);
        test_nothing_left(&f->st, "out", 7);
        if (atomic_load(&faulty.calls) < k)
            break;
    }
    assert_true(k > 20);
    crn_engine_close(e);
}

static void every_call_may_fail_or_be_short(void **state)
{
    struct outfile_test_fixture f;
    int place, io;

    (void)state;
    for (place = 0; place < 2; place++) {
        set_up(&f, place_of(place));
        for (io = CRN_IO_BUFFERED; io <= CRN_IO_DIRECT; io++) {
            if (place == 0 && io == CRN_IO_BUFFERED)
                continue; /* tests nothing new, and is slow */
            fails_at_every_call(&f, (enum crn_io)io, CRN_FAULT_FAIL);
            fails_at_every_call(&f, (enum crn_io)io, CRN_FAULT_SHORT);
        }
        tear_down(&f);
    }
}

static void a_refused_way_is_done_without(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file mf;
    struct crn_engine *e;
    struct counting c;
    struct outfile_test_fixture f;
    int late;

    (void)state;
    set_up(&f, place_of(0));
    for (late = 0; late < 2; late++) {
        counting_init(&c);
        c.refuse_open = !late;
        c.refuse_write = late;
        e = open_engine(CRN_IO_DIRECT, CHUNK);
        assert_ok(write_with(&f, e, &c.fs, &mf, ei));
        compare_and_remove(&f, &mf);
        assert_int_equal(atomic_load(&c.direct), 0);
        crn_engine_close(e);
    }
    tear_down(&f);
}

static void room_beforehand(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file mf;
    struct crn_engine *e;
    struct counting c;
    struct outfile_test_fixture f;

    (void)state;
    set_up(&f, place_of(0));
    if (!has_direct(&f)) {
        tear_down(&f);
        skip();
    }
    e = open_engine(CRN_IO_DIRECT, CHUNK);
    counting_init(&c);
    c.fallocate_error = EOPNOTSUPP;
    assert_ok(write_with(&f, e, &c.fs, &mf, ei));
    compare_and_remove(&f, &mf);
    c.fallocate_error = ENOSPC;
    assert_int_equal(write_with(&f, e, &c.fs, &mf, ei), CAIRN_ENOSPC);
    assert_true(crn_engine_lacks_room(e));
    crn_err_clear(ei);
    c.fallocate_error = 0;
    assert_ok(write_with(&f, e, &c.fs, &mf, ei));
    assert_false(crn_engine_lacks_room(e));
    compare_and_remove(&f, &mf);
    crn_engine_close(e);
    e = open_engine(CRN_IO_BUFFERED, CHUNK);
    counting_init(&c);
    assert_ok(write_with(&f, e, &c.fs, &mf, ei));
    compare_and_remove(&f, &mf);
    assert_int_equal(atomic_load(&c.allocations), 0);
    crn_engine_close(e);
    tear_down(&f);
}

static int always(void)
{
    return 1;
}

static void auto_means_two_writers_at_most(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file mf;
    struct crn_engine *e;
    struct counting c;
    struct outfile_test_fixture f;
    int place;

    (void)state;
    e = open_with((struct crn_engine_options){
        .chunk_bytes = CHUNK, .writers = 6, .may_join = always, .outlet = {.io = CRN_IO_AUTO}});
    for (place = 0; place < 2; place++) {
        set_up(&f, place_of(place));
        counting_init(&c);
        atomic_store(&c.meets, 2);
        assert_ok(write_with(&f, e, &c.fs, &mf, ei));
        compare_and_remove(&f, &mf);
        assert_int_equal(atomic_load(&c.most), 2);
        tear_down(&f);
    }
    crn_engine_close(e);
}

/* The table is asked before the file is created, in its directory. */
static uint64_t asked_count, asked_bytes;
static int stripe_answer;

static int c_stripe(const struct crn_fs *fs, int dfd, uint64_t count, uint64_t bytes)
{
    (void)fs;
    assert_true(dfd >= 0);
    asked_count = count;
    asked_bytes = bytes;
    return stripe_answer;
}

static int c_is_sole(const struct crn_fs *fs, int fd)
{
    (void)fs;
    (void)fd;
    return 1;
}

/* A file left by a removed version, full of other bytes and longer than the new data. */
static ino_t leave_spare(const struct outfile_test_fixture *f)
{
    enum { SPARE = 4 << 20 };
    unsigned char *junk = malloc(SPARE);
    char path[400];
    struct stat sb;
    int fd;

    assert_non_null(junk);
    memset(junk, 0xEE, SPARE);
    (void)snprintf(path, sizeof(path), "%s/p/out/.spare-0000", f->dir);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_int_equal(write(fd, junk, SPARE), SPARE);
    assert_int_equal(fstat(fd, &sb), 0);
    assert_int_equal(close(fd), 0);
    free(junk);
    return sb.st_ino;
}

/* Bytes outside all extents, before the index, are zero. */
static void expect_gaps_of_zeros(const struct outfile_test_fixture *f, const char *file,
                                 ino_t inode)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file mf;
    unsigned char *bytes, *used;
    uint64_t at, gaps = 0;
    struct crn_index x;
    char path[400];
    struct stat sb;
    int fd;

    assert_ok(crn_store_describe_data(&f->st, "out", 7, file, &mf, &x, ei));
    (void)snprintf(path, sizeof(path), "%s/p/out/7/%s", f->dir, file);
    fd = open(path, O_RDONLY);
    assert_int_equal(fstat(fd, &sb), 0);
    assert_int_equal(sb.st_ino, inode);
    assert_int_equal(sb.st_size, mf.bytes);
    bytes = malloc(mf.bytes);
    used = calloc(mf.bytes, 1);
    assert_int_equal(pread(fd, bytes, mf.bytes, 0), mf.bytes);
    assert_int_equal(close(fd), 0);
    for (at = 0; at < x.nextents; at++)
        memset(used + x.extents[at].file_offset, 1, x.extents[at].bytes);
    for (at = 0; at < mf.trailer.index_offset; at++)
        if (!used[at]) {
            assert_int_equal(bytes[at], 0);
            gaps++;
        }
    assert_true(gaps > 0);
    free(bytes);
    free(used);
    crn_manifest_file_free(&mf);
    crn_index_free(&x);
}

/* A reused file has the same bytes, and none of its old ones. */
static void a_file_may_be_written_again(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file mf;
    struct counting c;
    struct outfile_test_fixture f;
    ino_t inode;
    int place, io;

    (void)state;
    for (place = 0; place < 2; place++) {
        set_up(&f, place_of(place));
        for (io = CRN_IO_BUFFERED; io <= CRN_IO_AUTO; io++) {
            struct crn_engine *e = open_engine((enum crn_io)io, CHUNK);
            int is_auto = io == CRN_IO_AUTO && f.st.fs->type(f.st.fs, f.st.dfd)->is_disk;

            counting_init(&c);
            c.fs.is_sole = c_is_sole;
            if (io == CRN_IO_BUFFERED) { /* it creates the directory of the name */
                assert_ok(write_with(&f, e, &c.fs, &mf, ei));
                compare_and_remove(&f, &mf);
            }
            inode = leave_spare(&f);
            assert_ok(write_with(&f, e, &c.fs, &mf, ei));
            expect_gaps_of_zeros(&f, mf.name, inode);
            assert_int_equal(atomic_load(&c.direct) > 0,
                             (io == CRN_IO_DIRECT || is_auto) && has_direct(&f));
            compare_and_remove(&f, &mf);
            crn_engine_close(e);
        }
        tear_down(&f);
    }
}

static void stripes_are_asked_for_and_never_needed(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file mf;
    struct crn_engine *e;
    struct counting c;
    struct outfile_test_fixture f;
    static const int answers[] = {0, -ENOTSUP, -ELIBACC, -EIO};
    size_t i;

    (void)state;
    set_up(&f, place_of(0));
    e = open_with(
        (struct crn_engine_options){.chunk_bytes = CHUNK,
                                    .writers = 1,
                                    .outlet = {.stripe_count = 8, .stripe_bytes = 1 << 20}});
    counting_init(&c);
    c.fs.stripe = c_stripe;
    for (i = 0; i < 4; i++) {
        asked_count = asked_bytes = 0;
        stripe_answer = answers[i];
        assert_ok(write_with(&f, e, &c.fs, &mf, ei));
        compare_and_remove(&f, &mf);
        assert_int_equal(asked_count, 8);
        assert_int_equal(asked_bytes, 1 << 20);
    }
    assert_int_equal(crn_store_stripe(&f.st, "out", 7, 8, 0, ei), CAIRN_ENOTSUP);
    crn_engine_close(e);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_writes_the_same_bytes),
        cmocka_unit_test(every_call_may_fail_or_be_short),
        cmocka_unit_test(a_refused_way_is_done_without),
        cmocka_unit_test(auto_means_two_writers_at_most),
        cmocka_unit_test(room_beforehand),
        cmocka_unit_test(a_file_may_be_written_again),
        cmocka_unit_test(stripes_are_asked_for_and_never_needed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
