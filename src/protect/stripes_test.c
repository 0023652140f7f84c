/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of 2 to 8 members with streams of different lengths: parity is made, every subset of members is
 * lost with their data and parity, and the data is rebuilt and compared. One loss too many is refused
 * where it takes a piece too many. */
#include "base/test.h"

#include "base/rng.h"
#include "protect/field.h"
#include "protect/stripes.h"

#define MEMBERS 8
#define LONGEST 3000

struct stripe_set {
    struct crn_stripes plan;
    uint64_t length[MEMBERS];
    uint8_t data[MEMBERS][LONGEST];
    uint8_t parity[MEMBERS][MEMBERS * LONGEST];
};

/* Bytes of a column, zeros where the stream has none. */
static void column_of(const struct stripe_set *s, uint32_t stripe, uint32_t column, uint8_t *ret)
{
    struct crn_segment x;

    crn_stripes_segment(&s->plan, stripe, column, &x);
    memset(ret, 0, LONGEST);
    memcpy(ret, s->data[x.member] + x.offset, x.bytes);
}

static void make_parity(struct stripe_set *s)
{
    uint8_t column[LONGEST];
    uint32_t g, r, c;

    memset(s->parity, 0, sizeof(s->parity));
    for (g = 0; g < s->plan.members; g++)
        for (r = 0; r < s->plan.scheme.parity; r++) {
            uint32_t keeper = crn_stripes_keeper(&s->plan, g, r);
            uint8_t *row = s->parity[keeper] + crn_stripes_row_at(&s->plan, keeper, r);

            assert_int_equal(crn_stripes_kept(&s->plan, keeper, r), g);
            for (c = 0; c < s->plan.columns; c++) {
                column_of(s, g, c, column);
                crn_field_add(row, column, crn_scheme_factor(s->plan.scheme, s->plan.columns, r, c),
                              crn_stripes_row_bytes(&s->plan, g));
            }
        }
}

/* Which pieces of a stripe are left. */
static void pieces_of(const struct stripe_set *s, uint32_t stripe, unsigned lost,
                      unsigned char *has)
{
    struct crn_segment x;
    uint32_t c, r;

    for (c = 0; c < s->plan.columns; c++) {
        crn_stripes_segment(&s->plan, stripe, c, &x);
        has[c] = (lost >> x.member & 1) == 0;
    }
    for (r = 0; r < s->plan.scheme.parity; r++)
        has[c + r] = (lost >> crn_stripes_keeper(&s->plan, stripe, r) & 1) == 0;
}

/* Rebuilds a segment of a lost member. Returns 0 if too many pieces are lost. */
static int rebuild_segment(const struct stripe_set *s, uint32_t member, uint32_t segment,
                           unsigned lost)
{
    uint32_t stripe = crn_stripes_of(&s->plan, member, segment);
    uint64_t bytes = crn_stripes_row_bytes(&s->plan, stripe);
    uint8_t factors[2 * MEMBERS], piece[LONGEST], built[LONGEST] = {0};
    unsigned char has[2 * MEMBERS];
    struct crn_segment x;
    uint32_t p;

    crn_stripes_segment(&s->plan, stripe, segment, &x);
    assert_int_equal(x.member, member);
    pieces_of(s, stripe, lost, has);
    if (crn_scheme_rebuild(s->plan.scheme, s->plan.columns, has, segment, factors) != 0)
        return 0;
    for (p = 0; p < s->plan.columns + s->plan.scheme.parity; p++) {
        if (factors[p] == 0)
            continue;
        assert_true(has[p]);
        if (p < s->plan.columns) {
            column_of(s, stripe, p, piece);
        } else {
            uint32_t row = p - s->plan.columns;
            uint32_t keeper = crn_stripes_keeper(&s->plan, stripe, row);

            memcpy(piece, s->parity[keeper] + crn_stripes_row_at(&s->plan, keeper, row), bytes);
        }
        crn_field_add(built, piece, factors[p], bytes);
    }
    assert_memory_equal(built, s->data[member] + x.offset, x.bytes);
    return 1;
}

static uint32_t count_bits(unsigned x)
{
    return (uint32_t)__builtin_popcount(x);
}

static void lose_all_subsets(const struct stripe_set *s)
{
    uint32_t refused = 0;
    uint32_t tried = 0;
    unsigned lost;
    uint32_t i, c;

    for (lost = 1; lost < 1U << s->plan.members; lost++) {
        int is_rebuilt = 1;

        if (count_bits(lost) > s->plan.scheme.parity + 1U)
            continue;
        for (i = 0; i < s->plan.members; i++)
            for (c = 0; (lost >> i & 1) != 0 && c < s->plan.columns; c++)
                is_rebuilt &= rebuild_segment(s, i, c, lost);
        if (count_bits(lost) <= s->plan.scheme.parity)
            assert_true(is_rebuilt);
        else
            tried++;
        refused += !is_rebuilt;
    }
    assert_true(refused > 0 && refused <= tried);
    if (s->plan.scheme.kind != CRN_SCHEME_PARTNER) /* a copy also survives some larger losses */
        assert_int_equal(refused, tried);
}

/* The segments cover each stream once, and all parity is as much as the scheme says. */
static void check_geometry(const struct stripe_set *s)
{
    uint64_t seen[MEMBERS] = {0};
    uint64_t parity = 0;
    uint64_t longest = 0;
    struct crn_segment x;
    uint32_t g, c;

    for (g = 0; g < s->plan.members; g++) {
        parity += crn_stripes_row_at(&s->plan, g, s->plan.scheme.parity);
        longest = s->length[g] > longest ? s->length[g] : longest;
        for (c = 0; c < s->plan.columns; c++) {
            crn_stripes_segment(&s->plan, g, c, &x);
            assert_int_equal(x.offset, c * s->plan.segment_bytes < s->length[x.member]
                                           ? c * s->plan.segment_bytes
                                           : s->length[x.member]);
            seen[x.member] += x.bytes;
            assert_true(x.bytes <= crn_stripes_row_bytes(&s->plan, g));
        }
    }
    assert_memory_equal(seen, s->length, s->plan.members * sizeof(seen[0]));
    assert_true(parity <= (uint64_t)s->plan.members * s->plan.scheme.parity *
                              (longest / s->plan.columns + 64));
}

static void test_subsets(void **state)
{
    static const struct crn_protection schemes[] = {{CRN_SCHEME_PARTNER, 1},
                                                    {CRN_SCHEME_XOR, 1},
                                                    {CRN_SCHEME_RS, 1},
                                                    {CRN_SCHEME_RS, 2},
                                                    {CRN_SCHEME_RS, 3}};
    static struct stripe_set s;
    struct crn_rng rng;
    uint32_t n, i, k;
    size_t j;

    (void)state;
    crn_rng_seed(&rng, 1);
    for (j = 0; j < sizeof(schemes) / sizeof(schemes[0]); j++)
        for (n = schemes[j].parity + 1U; n <= MEMBERS; n++) {
            for (i = 0; i < n; i++) {
                s.length[i] = 1 + crn_rng_u64(&rng) % LONGEST;
                for (k = 0; k < LONGEST; k++)
                    s.data[i][k] = (uint8_t)crn_rng_u64(&rng);
            }
            if (n > 2) /* the longest stream has full length; one is empty */
                s.length[1] = 0;
            s.length[0] = LONGEST;
            crn_stripes_plan(schemes[j], n, s.length, &s.plan);
            check_geometry(&s);
            make_parity(&s);
            lose_all_subsets(&s);
        }
}

static void test_overhead(void **state)
{
    static const uint64_t length[6] = {6400, 6400, 6400, 6400, 6400, 6400};
    struct crn_stripes p;

    (void)state;
    crn_stripes_plan((struct crn_protection){CRN_SCHEME_RS, 2}, 6, length, &p);
    assert_int_equal(crn_stripes_row_at(&p, 3, 2), 3200); /* rs:2 in sets of 6: 50 % */
    crn_stripes_plan((struct crn_protection){CRN_SCHEME_XOR, 1}, 5, length, &p);
    assert_int_equal(crn_stripes_row_at(&p, 0, 1), 1600);
    crn_stripes_plan((struct crn_protection){CRN_SCHEME_PARTNER, 1}, 3, length, &p);
    assert_int_equal(crn_stripes_row_at(&p, 2, 1), 6400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_subsets),
        cmocka_unit_test(test_overhead),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
