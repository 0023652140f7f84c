/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/buf.h"
#include "base/rng.h"
#include "base/test.h"
#include "capture/copier.h"

#define CHUNK ((uint64_t)64 << 10)

static uint64_t chunks(uint64_t bytes)
{
    return (bytes + CHUNK - 1) / CHUNK;
}

/* There is one checksum for each chunk of the copied bytes; no further entry is written. */
static void check_hashes(const struct crn_copy *copy)
{
    const unsigned char *p = copy->dst;
    uint64_t at;

    for (at = 0; at < copy->bytes; at += CHUNK)
        assert_int_equal(copy->hashes[at / CHUNK],
                         crn_hash(p + at, copy->bytes - at < CHUNK ? copy->bytes - at : CHUNK));
    assert_int_equal(copy->hashes[chunks(copy->bytes)], 77);
}

/* Random lists of copies, some of them empty, with and without helpers, with and without checksums.
 * Every byte is copied, and no byte beyond is written. */
static void copies_all_and_nothing_else(void **state)
{
    enum { ROOM = 12 << 20, MOST = 7 };
    struct crn_errinfo info = {0}, *ei = &info;
    unsigned char *src = malloc(ROOM), *dst = malloc(ROOM);
    uint64_t hashes[MOST][ROOM / MOST / CHUNK + 2];
    struct crn_copy copies[MOST];
    struct crn_copier *c;
    struct crn_rng rng;
    int threads, round;
    uint32_t i, n;
    size_t at;

    (void)state;
    crn_rng_seed(&rng, 5);
    for (at = 0; at < ROOM; at++)
        src[at] = (unsigned char)(crn_rng_u64(&rng) | 1);
    for (threads = 1; threads <= 4; threads++) {
        /* sharers is 0 or 1; with 0, helpers always take part. */
        assert_ok(crn_copier_open(threads, 1 << 20, threads % 2, CHUNK, &c, ei));
        for (round = 0; round < 20; round++) {
            memset(dst, 0, ROOM);
            n = (uint32_t)crn_rng_below(&rng, MOST + 1);
            for (i = 0, at = 0; i < n; i++) {
                uint64_t bytes = crn_rng_below(&rng, 3) == 0 ? 0 : crn_rng_below(&rng, ROOM / MOST);

                copies[i] = (struct crn_copy){.dst = dst + at, .src = src + at, .bytes = bytes};
                copies[i].hashes = round % 2 == 0 ? hashes[i] : NULL;
                hashes[i][chunks(bytes)] = 77;
                at += bytes + (at + bytes < ROOM - 8 ? 8 : 0); /* a gap after each */
            }
            crn_copier_run(c, copies, n);
            for (i = 0; i < n; i++) {
                unsigned char *end = (unsigned char *)copies[i].dst + copies[i].bytes;

                if (copies[i].hashes != NULL)
                    check_hashes(&copies[i]);
                assert_memory_equal(copies[i].dst, copies[i].src, copies[i].bytes);
                assert_int_equal(end[0] | end[7], 0);
            }
        }
        crn_copier_close(c);
    }
    free(src);
    free(dst);
}

/* The call must not return while a helper still reads: the application may change its data then. */
static void reads_nothing_after_return(void **state)
{
    enum { ROOM = 8 << 20 };
    struct crn_errinfo info = {0}, *ei = &info;
    unsigned char *src = malloc(ROOM), *dst = malloc(ROOM);
    struct crn_copy copy = {.dst = dst, .src = src, .bytes = ROOM};
    struct crn_copier *c;
    size_t at;
    int i;

    (void)state;
    assert_ok(crn_copier_open(4, 1, 0, CHUNK, &c, ei));
    for (i = 1; i <= 20; i++) {
        memset(src, i, ROOM);
        crn_copier_run(c, &copy, 1);
        memset(src, 0xff, ROOM);
        for (at = 0; at < ROOM; at += 64)
            assert_int_equal(dst[at], i);
    }
    crn_copier_close(c);
    free(src);
    free(dst);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_all_and_nothing_else),
        cmocka_unit_test(reads_nothing_after_return),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
