/* SPDX-License-Identifier: BSD-3-Clause */
/* Compares the runs of random slices, clipped at random positions, with a list of every byte. */
#include "base/rng.h"
#include "base/test.h"
#include "restart/slice.h"

#define MOST 4096

/* A slice with gaps between its runs on both sides. */
static void random_part(struct crn_rng *rng, struct crn_slice *p)
{
    uint64_t from, to;
    uint32_t d;

    memset(p, 0, sizeof(*p));
    p->from = crn_rng_below(rng, 20);
    p->to = crn_rng_below(rng, 20);
    p->ndims = (uint32_t)crn_rng_below(rng, 4);
    from = to = p->run = 1 + crn_rng_below(rng, 9);
    for (d = p->ndims; d-- > 0;) {
        p->count[d] = 1 + crn_rng_below(rng, 4);
        p->from_step[d] = from + crn_rng_below(rng, 5);
        p->to_step[d] = to + crn_rng_below(rng, 5);
        from = p->from_step[d] * p->count[d];
        to = p->to_step[d] * p->count[d];
    }
}

/* target[i] is where byte i of the region goes; -1: nowhere. Returns how many bytes go
 * somewhere. */
static uint64_t every_byte(const struct crn_slice *p, long *target)
{
    uint64_t runs = 1;
    uint64_t i, k;
    uint32_t d;

    for (i = 0; i < MOST; i++)
        target[i] = -1;
    for (d = 0; d < p->ndims; d++)
        runs *= p->count[d];
    for (i = 0; i < runs; i++) {
        uint64_t from = p->from;
        uint64_t to = p->to;
        uint64_t rest = i;

        for (d = p->ndims; d-- > 0;) {
            from += rest % p->count[d] * p->from_step[d];
            to += rest % p->count[d] * p->to_step[d];
            rest /= p->count[d];
        }
        for (k = 0; k < p->run; k++)
            target[from + k] = (long)(to + k);
    }
    return runs * p->run;
}

static void ranges_of_parts(void **state)
{
    static unsigned char data[MOST], packed[MOST], copied[MOST], unpacked[MOST];
    static long target[MOST];
    struct crn_rng rng;
    int round;

    (void)state;
    crn_rng_seed(&rng, 17);
    for (round = 0; round < 3000; round++) {
        struct crn_slice p;
        uint64_t begin, end, i, n = 0;

        random_part(&rng, &p);
        assert_int_equal(every_byte(&p, target), crn_slice_bytes(&p));
        assert_true(target[crn_slice_end(&p) - 1] >= 0 && target[crn_slice_end(&p)] < 0);
        begin = crn_rng_below(&rng, crn_slice_end(&p) + 10);
        end = begin + crn_rng_below(&rng, crn_slice_end(&p) + 10);
        for (i = 0; i < MOST; i++)
            data[i] = (unsigned char)(i * 31 + (uint64_t)round);
        memset(copied, 0, sizeof(copied));
        memset(unpacked, 0, sizeof(unpacked));
        crn_slice_copy(&p, begin, end, data + begin, copied);
        crn_slice_pack(&p, begin, end, data + begin, packed);
        crn_slice_unpack(&p, begin, end, packed, unpacked);
        assert_memory_equal(copied, unpacked, sizeof(copied));
        for (i = begin; i < end && i < MOST; i++)
            if (target[i] >= 0) {
                assert_int_equal(copied[target[i]], data[i]);
                assert_int_equal(packed[n], data[i]);
                copied[target[i]] = 0;
                n++;
            }
        assert_int_equal(crn_slice_count(&p, begin, end), n);
        for (i = 0; i < MOST; i++)
            assert_int_equal(copied[i], 0); /* nothing else was written */
    }
}

static void nothing_is_wanted(void **state)
{
    struct crn_slice p = {.from = 5};
    struct crn_slice_at at = crn_slice_seek(&p, 0, 100);
    struct crn_slice_run r;

    (void)state;
    assert_int_equal(crn_slice_next(&at, &r), 0);
    assert_int_equal(crn_slice_count(&p, 0, 100), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_of_parts),
        cmocka_unit_test(nothing_is_wanted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
