/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads back what was stored; every damage is located, and repaired from a copy. */
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "base/test.h"
#include "restart/version.h"
#include "base/test_late.h"
#include "store/test_version.h"

static const char *pipe_text; /* NULL: not encoded */
static int is_chained;        /* encoded against versions 3 and 2 */

struct version_test_env {
    char dir[256];
    struct crn_store st;
    struct crn_errinfo info;
    struct tv t;
    struct tv older[2];
};

static int setup(void **state)
{
    struct version_test_env *e = calloc(1, sizeof(*e));
    int i;

    test_dir_make(e->dir, sizeof(e->dir));
    e->t = (struct tv){.name = "heat",
                       .version = 4,
                       .seq = 9,
                       .seed = 5,
                       .ranks = 5,
                       .files = 2,
                       .pipe = pipe_text};
    assert_int_equal(crn_store_open(crn_fs_posix(), e->dir, 1, &e->st, &e->info), CAIRN_OK);
    for (i = 1; is_chained && i >= 0; i--) {
        e->older[i] = e->t;
        e->older[i].version = 3 - i;
        e->older[i].seq = e->older[i].seed = (uint32_t)(4 - i);
        e->older[i].older = i == 0 ? &e->older[1] : NULL;
        e->older[i].pipe = i == 0 ? pipe_text : "delta,magnitude";
        e->t.older = &e->older[i];
        assert_int_equal(tv_write(&e->st, &e->older[i], &e->info), CAIRN_OK);
    }
    assert_int_equal(tv_write(&e->st, &e->t, &e->info), CAIRN_OK);
    *state = e;
    return 0;
}

static int teardown(void **state)
{
    struct version_test_env *e = *state;

    crn_store_close(&e->st);
    test_dir_remove(e->dir);
    free(e);
    return 0;
}

static struct crn_version *reader(struct version_test_env *e)
{
    struct crn_errinfo *ei = &e->info;
    struct crn_version *v;

    crn_err_clear(ei);
    assert_ok(crn_version_open(&e->st, "heat", 4, &v, ei));
    return v;
}

/* Counts what is read. */
struct counting_fs {
    struct crn_fs fs; /* first */
    uint64_t reads;
};

static ssize_t counting_pread(const struct crn_fs *fs, int fd, void *buf, size_t n, off_t off)
{
    ((struct counting_fs *)(uintptr_t)fs)->reads++;
    return crn_fs_posix()->pread(crn_fs_posix(), fd, buf, n, off);
}

static int read_errno; /* of failing_pread */

static ssize_t failing_pread(const struct crn_fs *fs, int fd, void *buf, size_t n, off_t off)
{
    (void)fs;
    (void)fd;
    (void)buf;
    (void)n;
    (void)off;
    return -read_errno;
}

/* An unreadable file is damage, a shortage is not. */
static void a_shortage_is_not_damage(void **state)
{
    static const struct {
        int sys_errno;
        cairn_err code;
    } cases[] = {{EIO, CAIRN_EDAMAGED}, {ENOMEM, CAIRN_ENOMEM}, {EMFILE, CAIRN_ELIMIT}};
    struct version_test_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_fs fs = *crn_fs_posix();
    struct crn_version *v;
    size_t i;

    e->st.fs = &fs;
    v = reader(e);
    assert_ok(crn_version_load_all(v, ei));
    fs.pread = failing_pread;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct crn_errinfo info = {0};

        read_errno = cases[i].sys_errno;
        assert_int_equal(crn_version_check_file(v, 0, NULL, &info), cases[i].code);
        assert_int_equal(info.code, cases[i].code);
    }
    crn_version_close(v);
    e->st.fs = crn_fs_posix();
}

static uint64_t chunks_of(struct version_test_env *e, const struct tv *t, uint32_t file_no)
{
    struct crn_errinfo *ei = &e->info;
    struct crn_manifest_file mf;
    char file[CRN_FILE_NAME];
    struct crn_index x;
    uint64_t n = 0;
    uint32_t i;

    (void)snprintf(file, sizeof(file), "data-%04u", (unsigned)file_no);
    assert_ok(crn_store_describe_data(&e->st, t->name, t->version, file, &mf, &x, ei));
    for (i = 0; i < x.nstreams; i++)
        n += x.streams[i].nchunks;
    crn_index_free(&x);
    crn_manifest_file_free(&mf);
    return n;
}

/* Variables of all ranks share chunks. A reader that takes rank after rank returns to them; each
 * chunk is fetched and decoded once, also through a chain. */
static void chunks_are_decoded_once(void **state)
{
    struct version_test_env *e = *state;
    struct counting_fs fs = {.fs = *crn_fs_posix()};
    struct crn_store st = e->st;
    struct crn_errinfo *ei = &e->info;
    const struct crn_shard *shard;
    unsigned char expect[256], got[256];
    struct crn_version *v;
    uint32_t rank, r;
    uint64_t chunks = 0;

    fs.fs.pread = counting_pread;
    st.fs = &fs.fs;
    assert_ok(crn_version_open(&st, "heat", 4, &v, ei));
    for (r = 0; r < e->t.files; r++) {
        chunks += chunks_of(e, &e->t, r);
        chunks += is_chained ? chunks_of(e, &e->older[0], r) + chunks_of(e, &e->older[1], r) : 0;
    }
    for (rank = 0; rank < e->t.ranks; rank++) /* the indexes */
        assert_ok(crn_version_shard(v, rank, &shard, ei));
    fs.reads = 0;
    for (rank = 0; rank < e->t.ranks; rank++)
        for (r = 0; r < TV_REGIONS; r++) {
            uint64_t n = tv_content(&e->t, rank, r, expect);

            assert_ok(crn_version_read(v, rank, r, 0, n, got, ei));
            assert_memory_equal(got, expect, n);
        }
    assert_true(fs.reads <= chunks);
    crn_version_close(v);
}

static char *path_of(const struct version_test_env *e, const char *file)
{
    static char path[400];

    (void)snprintf(path, sizeof(path), "%s/heat/4/%s", e->dir, file);
    return path;
}

static void flip(const char *path, off_t at)
{
    unsigned char c;
    int fd = open(path, O_RDWR);

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &c, 1, at), 1);
    c ^= 0x40;
    assert_int_equal(pwrite(fd, &c, 1, at), 1);
    assert_int_equal(close(fd), 0);
}

/* How many regions cannot be read; the others are correct. */
static int count_bad(struct version_test_env *e, struct crn_version *v)
{
    unsigned char expect[256], got[256];
    uint32_t rank, r;
    int bad = 0;

    for (rank = 0; rank < e->t.ranks; rank++)
        for (r = 0; r < TV_REGIONS; r++) {
            struct crn_errinfo info = {0};
            uint64_t n = tv_content(&e->t, rank, r, expect);
            cairn_err rc = crn_version_read(v, rank, r, 0, n, got, &info);

            if (rc == CAIRN_OK)
                assert_memory_equal(got, expect, n);
            else
                assert_int_equal(rc, CAIRN_EDAMAGED);
            bad += rc != CAIRN_OK;
        }
    return bad;
}

static void every_range_comes_back(void **state)
{
    struct version_test_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_version *v = reader(e);
    const struct crn_shard *shard;
    const struct crn_index *x;
    unsigned char expect[256], got[256];
    uint64_t n, from, len;
    uint32_t r;

    assert_int_equal(crn_version_manifest(v)->ranks, 5);
    assert_int_equal(count_bad(e, v), 0);
    assert_ok(crn_version_shard(v, 3, &shard, ei));
    assert_int_equal(shard->rank, 3);
    assert_int_equal(crn_shard_find(shard, CRN_REGION_FILE, "log.txt"), 3);
    assert_int_equal(crn_shard_find(shard, CRN_REGION_MEMORY, "log.txt"), -1);
    for (r = 0; r < TV_REGIONS; r++) {
        n = tv_content(&e->t, 3, r, expect);
        for (from = 0; from <= n; from++)
            for (len = 0; len <= n - from; len++) {
                memset(got, 0, sizeof(got));
                assert_ok(crn_version_read(v, 3, r, from, len, got, ei));
                assert_memory_equal(got, expect + from, len);
                assert_int_equal(got[len], 0);
            }
    }
    assert_int_equal(crn_version_read(v, 3, 1, 40, 4, got, ei), CAIRN_EINVAL);
    assert_int_equal(crn_version_read(v, 3, 1, UINT64_MAX, 2, got, ei), CAIRN_EINVAL);
    assert_int_equal(crn_version_read(v, 3, 4, 0, 0, got, ei), CAIRN_EINVAL);
    assert_int_equal(crn_version_read(v, 5, 0, 0, 0, got, ei), CAIRN_EMISMATCH);
    assert_int_equal(crn_version_index(v, 2, &x, ei), CAIRN_EINVAL);
    assert_null(crn_version_repaired(v));
    crn_version_close(v);
    crn_version_close(NULL);
    assert_int_equal(crn_version_open(&e->st, "heat", 5, &v, ei), CAIRN_ENOENT);
}

struct version_test_seen {
    int bad;
    uint32_t rank;
    char region[CAIRN_MAX_NAME];
    uint64_t bytes;
};

static void note_bad(void *arg, uint32_t rank, const char *region, const char *text)
{
    struct version_test_seen *s = arg;

    if (s->bad++ > 0)
        return;
    s->rank = rank; /* the first */
    (void)snprintf(s->region, sizeof(s->region), "%s", region);
    if (text[0] == '\0')
        s->bad = -1000;
}

static void note_progress(void *arg, uint64_t bytes)
{
    ((struct version_test_seen *)arg)->bytes = bytes;
}

/* Flips every byte of a data file in turn. Either one region is bad and named, or the byte was
 * padding, or the index is damaged and all ranks of the file are lost. */
static void every_flipped_byte_is_found(void **state)
{
    struct version_test_env *e = *state;
    char path[400];
    struct stat sb;
    off_t at;

    (void)snprintf(path, sizeof(path), "%s", path_of(e, "data-0000"));
    assert_int_equal(stat(path, &sb), 0);
    for (at = 0; at < sb.st_size; at++) {
        struct version_test_seen seen = {0};
        struct crn_check_events ev = {note_bad, note_progress, &seen};
        struct crn_version *v;
        struct crn_errinfo info = {0};
        cairn_err rc;
        int bad;

        flip(path, at);
        v = reader(e);
        bad = count_bad(e, v);
        rc = crn_version_check_file(v, 0, &ev, &info);
        assert_int_equal(rc, bad > 0 ? CAIRN_EDAMAGED : CAIRN_OK);
        assert_int_equal(seen.bad > 0, bad > 0);
        if (bad == 1) { /* data: exactly the region that was reported */
            assert_int_equal(seen.bad, 1);
            crn_err_clear(&info);
            assert_int_equal(crn_version_check_rank(v, seen.rank, NULL, &info), CAIRN_EDAMAGED);
            assert_non_null(strstr(info.msg, seen.region));
        } else if (bad > 1 && seen.region[0] != '\0') { /* a shared stream chunk */
            assert_non_null(pipe_text);
            assert_true(seen.bad >= bad);
        } else if (bad > 1) { /* ranks 0, 2 and 4 are in this file */
            assert_int_equal(bad, 3 * TV_REGIONS);
            assert_int_equal(seen.bad, 3);
            assert_string_equal(seen.region, "");
        }
        crn_version_close(v);
        flip(path, at);
    }
}

static void missing_swapped_and_foreign_files(void **state)
{
    struct version_test_env *e = *state;
    struct tv other = e->t;
    char a[400], b[400], c[400];
    struct crn_version *v;

    (void)snprintf(a, sizeof(a), "%s", path_of(e, "data-0000"));
    (void)snprintf(b, sizeof(b), "%s", path_of(e, "data-0001"));
    (void)snprintf(c, sizeof(c), "%s", path_of(e, "aside"));

    assert_int_equal(rename(a, c), 0); /* missing */
    v = reader(e);
    assert_int_equal(count_bad(e, v), 3 * TV_REGIONS);
    crn_version_close(v);

    assert_int_equal(rename(b, a), 0); /* swapped */
    assert_int_equal(rename(c, b), 0);
    v = reader(e);
    assert_int_equal(count_bad(e, v), 5 * TV_REGIONS);
    crn_version_close(v);
    assert_int_equal(rename(a, c), 0);
    assert_int_equal(rename(b, a), 0);
    assert_int_equal(rename(c, b), 0);

    other.version = 5; /* a whole data file of another version, of the same size */
    assert_int_equal(tv_write(&e->st, &other, &e->info), CAIRN_OK);
    (void)snprintf(c, sizeof(c), "%s/heat/5/data-0000", e->dir);
    assert_int_equal(rename(c, a), 0);
    v = reader(e);
    assert_int_equal(count_bad(e, v), 3 * TV_REGIONS);
    crn_version_close(v);

    assert_int_equal(unlink(a), 0); /* a fifo must not block; a link is not followed */
    assert_int_equal(mkfifo(a, 0600), 0);
    v = reader(e);
    assert_int_equal(count_bad(e, v), 3 * TV_REGIONS);
    crn_version_close(v);
    assert_int_equal(unlink(a), 0);
    assert_int_equal(symlink(b, a), 0);
    v = reader(e);
    assert_int_equal(count_bad(e, v), 3 * TV_REGIONS);
    crn_version_close(v);
}

/* A copy of file 0 in another directory; both are damaged in different chunks. */
static void copies_make_damage_good(void **state)
{
    struct version_test_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    char cmd[900], copy[400];
    struct crn_version *v;
    struct stat sb;
    int dfd;

    (void)snprintf(copy, sizeof(copy), "%s/copy", e->dir);
    (void)snprintf(cmd, sizeof(cmd), "cp '%s' '%s'", path_of(e, "data-0000"), copy);
    assert_int_equal(system(cmd), 0);
    dfd = open(e->dir, O_RDONLY | O_DIRECTORY);

    flip(copy, 0);                     /* first chunk of the first region */
    flip(path_of(e, "data-0000"), 16); /* second extent of the same region */
    v = reader(e);
    assert_int_equal(count_bad(e, v), 1);
    crn_version_close(v);
    v = reader(e);
    assert_ok(crn_version_add_copy(v, dfd, "copy", ei));
    assert_int_equal(unlink(copy), 0); /* the version keeps the file open */
    assert_int_equal(count_bad(e, v), 0);
    assert_non_null(crn_version_repaired(v));
    assert_ok(crn_version_check_rank(v, 0, NULL, ei));
    crn_version_close(v);

    /* The index of the store's file is unreadable. */
    (void)snprintf(cmd, sizeof(cmd), "cp '%s' '%s'", path_of(e, "data-0000"), copy);
    assert_int_equal(system(cmd), 0);
    flip(copy, 16);
    assert_int_equal(stat(path_of(e, "data-0000"), &sb), 0);
    assert_int_equal(truncate(path_of(e, "data-0000"), sb.st_size - 1), 0);
    v = reader(e);
    assert_ok(crn_version_add_copy(v, dfd, "copy", ei));
    assert_int_equal(count_bad(e, v), 0);
    assert_non_null(crn_version_repaired(v));
    crn_version_close(v);
    assert_int_equal(close(dfd), 0);
}

static void a_copy_of_another_capture_is_refused(void **state)
{
    struct version_test_env *e = *state;
    struct tv other = e->t;
    struct crn_version *v;
    int dfd;

    other.seq++;
    other.version = 6;
    assert_int_equal(tv_write(&e->st, &other, &e->info), CAIRN_OK);
    assert_int_equal(crn_store_version_dir(&e->st, "heat", 6, &dfd, &e->info), CAIRN_OK);
    v = reader(e);
    assert_int_equal(crn_version_add_copy(v, dfd, "data-0000", &e->info), CAIRN_EMISMATCH);
    assert_int_equal(crn_version_add_copy(v, dfd, "manifest", &e->info), CAIRN_EDAMAGED);
    assert_int_equal(crn_version_add_copy(v, dfd, "nothing", &e->info), CAIRN_ENOENT);
    assert_int_equal(count_bad(e, v), 0);
    crn_version_close(v);
    assert_int_equal(close(dfd), 0);
}

struct version_test_worker {
    pthread_t thread;
    struct crn_version *v;
    uint32_t file_no;
    struct version_test_seen seen;
    cairn_err rc;
};

static void *check_one(void *arg)
{
    struct version_test_worker *w = arg;
    struct crn_check_events ev = {note_bad, note_progress, &w->seen};
    struct crn_errinfo info = {0};

    w->rc = crn_version_check_file(w->v, w->file_no, &ev, &info);
    return NULL;
}

static void files_are_checked_in_parallel(void **state)
{
    struct version_test_env *e = *state;
    struct version_test_worker w[4] = {0};
    struct crn_version *v;
    uint32_t i;

    flip(path_of(e, "data-0001"), 3);
    v = reader(e);
    assert_int_equal(crn_version_load_all(v, &e->info), CAIRN_OK);
    for (i = 0; i < 4; i++) {
        w[i].v = v;
        w[i].file_no = i % 2;
        assert_int_equal(pthread_create(&w[i].thread, NULL, check_one, &w[i]), 0);
    }
    for (i = 0; i < 4; i++)
        assert_int_equal(pthread_join(w[i].thread, NULL), 0);
    for (i = 0; i < 4; i++) {
        assert_int_equal(w[i].rc, i % 2 == 0 ? CAIRN_OK : CAIRN_EDAMAGED);
        assert_int_equal(w[i].seen.bad > 0, i % 2);
    }
    assert_int_equal(w[0].seen.bytes, 3 * (24 + 25) + 40 + 42 + 44);
    assert_int_equal(w[1].seen.rank, 1);
    assert_string_equal(w[1].seen.region, "field");
    crn_version_close(v);
}

/* Writes a file and a manifest that are consistent with each other, with a modified index. */
static void forge(struct version_test_env *e,
                  void (*change)(struct crn_index *x, uint64_t data_end))
{
    struct crn_errinfo *ei = &e->info;
    struct crn_manifest_file mf;
    struct crn_manifest m;
    struct crn_buf buf = {0};
    struct crn_index x;
    int fd;

    assert_ok(crn_store_describe_data(&e->st, "heat", 4, "data-0000", &mf, &x, ei));
    change(&x, mf.trailer.index_offset);
    assert_ok(crn_index_encode(&x, &buf, ei));
    mf.trailer.index_hash = crn_hash(buf.data, buf.len);
    assert_int_equal(buf.len, mf.trailer.index_bytes);
    assert_ok(crn_trailer_encode(&mf.trailer, &buf, ei));
    fd = open(path_of(e, "data-0000"), O_WRONLY);
    assert_int_equal(pwrite(fd, buf.data, buf.len, (off_t)mf.trailer.index_offset), buf.len);
    assert_int_equal(close(fd), 0);
    assert_ok(crn_store_manifest(&e->st, "heat", 4, &m, ei));
    m.files[0].trailer = mf.trailer;
    assert_ok(crn_store_publish(&e->st, &m, ei));
    crn_buf_free(&buf);
    crn_index_free(&x);
    crn_manifest_free(&m);
    crn_manifest_file_free(&mf);
}

static void is_outside(struct version_test_env *e)
{
    struct crn_version *v = reader(e);
    unsigned char got[256];

    assert_int_equal(crn_version_read(v, 0, 0, 0, 1, got, &e->info), CAIRN_EDAMAGED);
    assert_non_null(strstr(e->info.msg, "outside the data"));
    crn_version_close(v);
}

static void move_extent(struct crn_index *x, uint64_t data_end)
{
    x->extents[0].file_offset = data_end - x->extents[0].bytes + 1;
}

static void extents_outside_the_data_are_refused(void **state)
{
    forge(*state, move_extent);
    is_outside(*state);
}

static void move_stream(struct crn_index *x, uint64_t data_end)
{
    x->streams[0].file_offset = data_end - x->streams[0].chunks[0].encoded + 1;
}

static void streams_outside_the_data_are_refused(void **state)
{
    forge(*state, move_stream);
    is_outside(*state);
}

/* Another host wrote the files a moment ago: the reader waits for the index, and then for the data,
 * to become visible. */
static void what_is_seen_late_is_not_damaged(void **state)
{
    enum { LOOKS = 5 };
    struct version_test_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    const struct crn_shard *shard;
    struct crn_version *v;
    struct crn_store st;
    struct late l;
    int i;

    e->t.seq++;
    e->t.committed_ns = (uint64_t)crn_clock_real()->wall_ns(crn_clock_real());
    assert_ok(tv_write(&e->st, &e->t, ei));
    late_init(&l, 20);
    assert_ok(crn_store_open(&l.fs, e->dir, 0, &st, ei));
    for (i = 0; i < 2; i++) {
        assert_ok(crn_version_open(&st, "heat", 4, &v, ei));
        if (i == 1) /* the index is loaded, the data is not */
            assert_ok(crn_version_shard(v, 1, &shard, ei));
        late_hide(&l, "data-0001.1", 100, LOOKS);
        assert_int_equal(count_bad(e, v), 0);
        assert_int_equal(atomic_load(&l.seen), LOOKS);
        crn_version_close(v);
    }
    crn_store_close(&st);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_range_comes_back),
        TEST(every_flipped_byte_is_found),
        TEST(missing_swapped_and_foreign_files),
        TEST(a_shortage_is_not_damage),
        TEST(copies_make_damage_good),
        TEST(what_is_seen_late_is_not_damaged),
        TEST(a_copy_of_another_capture_is_refused),
        TEST(files_are_checked_in_parallel),
        TEST(extents_outside_the_data_are_refused),
    };

    /* The same for an encoded version, whose bytes lie elsewhere in the file. */
    const struct CMUnitTest encoded[] = {
        TEST(every_range_comes_back),
        TEST(every_flipped_byte_is_found),
        TEST(missing_swapped_and_foreign_files),
        TEST(a_copy_of_another_capture_is_refused),
        TEST(files_are_checked_in_parallel),
        TEST(streams_outside_the_data_are_refused),
        TEST(chunks_are_decoded_once),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    pipe_text = "delta,magnitude";
    failed += cmocka_run_group_tests(encoded, NULL, NULL);
    pipe_text = "delta:1,magnitude";
    is_chained = 1;
    return failed + cmocka_run_group_tests(encoded, NULL, NULL);
}
