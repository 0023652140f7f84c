/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/rng.h"
#include "base/test.h"
#include "capture/hashed.h"

#define EACH ((size_t)72 << 10) /* bytes reserved for each copy */

static unsigned char *to, *from;

static int setup(void **state)
{
    struct crn_rng rng;
    size_t i;

    (void)state;
    to = aligned_alloc(64, CRN_HASHED_COPIES * EACH);
    from = malloc(CRN_HASHED_COPIES * EACH);
    crn_rng_seed(&rng, 3);
    for (i = 0; i < CRN_HASHED_COPIES * EACH; i++)
        from[i] = (unsigned char)crn_rng_u64(&rng);
    return to == NULL || from == NULL;
}

static int teardown(void **state)
{
    (void)state;
    free(to);
    free(from);
    return 0;
}

/* Copies n copies, each within its own area. Checks the bytes, the checksums and the bytes
 * around. */
static void check(enum crn_hashed_way way, int n, const size_t *bytes, size_t skew, size_t at)
{
    struct crn_hashed_copy copies[CRN_HASHED_COPIES] = {0};
    uint64_t hash[CRN_HASHED_COPIES];
    int i;

    memset(to, 0xee, CRN_HASHED_COPIES * EACH);
    for (i = 0; i < n; i++)
        copies[i] = (struct crn_hashed_copy){to + (size_t)i * EACH + at,
                                             from + (size_t)i * EACH + skew, bytes[i], &hash[i]};
    crn_hashed_copy_by(way, copies, n);
    for (i = 0; i < n; i++) {
        const unsigned char *end = (unsigned char *)copies[i].dst + bytes[i];

        assert_int_equal(hash[i], crn_hash(copies[i].src, bytes[i]));
        assert_memory_equal(copies[i].dst, copies[i].src, bytes[i]);
        assert_int_equal(end[0] & end[63], 0xee);
        assert_true(at == 0 || to[(size_t)i * EACH + at - 1] == 0xee);
    }
}

/* Every size up to several blocks, aligned to cache lines and not. */
static void sums_every_size(void **state)
{
    enum crn_hashed_way way;
    size_t bytes;

    (void)state;
    for (way = 0; way < CRN_HASHED_WAYS; way++)
        for (bytes = 0; crn_hashed_has(way) && bytes < 5 * 1024; bytes++) {
            size_t all[CRN_HASHED_COPIES] = {bytes, bytes, bytes, bytes};

            check(way, CRN_HASHED_COPIES, all, bytes % 71, 0);
            check(way, 1, all, 0, bytes % 67);
        }
}

/* Copies of different lengths; all of the copies or fewer. */
static void sums_any_mixture(void **state)
{
    enum crn_hashed_way way;
    size_t bytes[CRN_HASHED_COPIES];
    struct crn_rng rng;
    int round, i;

    (void)state;
    crn_rng_seed(&rng, 4);
    for (way = 0; way < CRN_HASHED_WAYS; way++)
        for (round = 0; crn_hashed_has(way) && round < 300; round++) {
            for (i = 0; i < CRN_HASHED_COPIES; i++)
                bytes[i] = crn_rng_below(&rng, crn_rng_below(&rng, 2) == 0 ? EACH - 200 : 4096);
            check(way, 1 + (int)crn_rng_below(&rng, CRN_HASHED_COPIES), bytes,
                  crn_rng_below(&rng, 100),
                  64 * crn_rng_below(&rng, 2) + crn_rng_below(&rng, 2) * crn_rng_below(&rng, 64));
        }
}

#if !defined(__SANITIZE_THREAD__) /* a data race by design, as in the application */
static atomic_int is_over;

static void *scribble(void *arg)
{
    volatile unsigned char *p = from;
    size_t at;

    (void)arg;
    while (!atomic_load(&is_over))
        for (at = 0; at < CRN_HASHED_COPIES * EACH; at += 64)
            p[at]++;
    return NULL;
}

/* If the source changes during the copy, the result may mix old and new bytes, but its checksum
 * matches. */
static void sums_what_it_stores(void **state)
{
    struct crn_hashed_copy copies[CRN_HASHED_COPIES];
    uint64_t hash[CRN_HASHED_COPIES];
    enum crn_hashed_way way;
    pthread_t thread;
    int round, i;

    (void)state;
    for (i = 0; i < CRN_HASHED_COPIES; i++)
        copies[i] = (struct crn_hashed_copy){to + (size_t)i * EACH, from + (size_t)i * EACH, EACH,
                                             &hash[i]};
    assert_int_equal(pthread_create(&thread, NULL, scribble, NULL), 0);
    for (way = 0; way < CRN_HASHED_WAYS; way++)
        for (round = 0; crn_hashed_has(way) && round < 500; round++) {
            crn_hashed_copy_by(way, copies, CRN_HASHED_COPIES);
            for (i = 0; i < CRN_HASHED_COPIES; i++)
                if (hash[i] != crn_hash(copies[i].dst, EACH))
                    goto out;
        }
out:
    atomic_store(&is_over, 1);
    (void)pthread_join(thread, NULL);
    assert_int_equal(way, CRN_HASHED_WAYS);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_every_size),
        cmocka_unit_test(sums_any_mixture),
#if !defined(__SANITIZE_THREAD__)
        cmocka_unit_test(sums_what_it_stores),
#endif
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
