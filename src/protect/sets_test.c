/* SPDX-License-Identifier: BSD-3-Clause */
/* Properties of the sets for every number of nodes, and what is refused. */
#include "base/test.h"

#include "base/rng.h"
#include "protect/sets.h"

#define MOST 70

static struct crn_protection scheme(const char *text)
{
    struct crn_errinfo why = {0};
    struct crn_errinfo *ei = &why;
    struct crn_protection s;

    assert_ok(crn_scheme_parse(text, "protect", &s, ei));
    return s;
}

static void test_parse(void **state)
{
    static const char *const bad[] = {"", "rs", "rs:", "rs:0", "rs:64", "rs:2x", "rs:-1", "XOR"};
    struct crn_errinfo why = {0};
    struct crn_errinfo *ei = &why;
    char text[CRN_SCHEME_TEXT];
    struct crn_protection s;
    size_t i;

    (void)state;
    crn_scheme_text(scheme("rs:12"), text);
    assert_string_equal(text, "rs:12");
    crn_scheme_text(scheme("partner"), text);
    assert_string_equal(text, "partner");
    assert_int_equal(scheme("none").parity, 0);
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        crn_err_clear(ei);
        assert_int_equal(crn_scheme_parse(bad[i], "protect", &s, ei), CAIRN_ECONFIG);
        assert_non_null(strstr(ei->msg, "rs:M"));
    }
}

/* Every node is in one set, sets differ in size by at most one and carry the scheme, and no domain has
 * more nodes in a set than the scheme survives. */
static void check_sets(const uint64_t *domain, uint32_t nodes, struct crn_protection s,
                       uint32_t size)
{
    uint32_t set[MOST], members[CRN_SET_MAX];
    struct crn_errinfo why = {0};
    struct crn_errinfo *ei = &why;
    uint32_t least = UINT32_MAX;
    uint32_t most = 0;
    uint32_t i, k, j;

    assert_ok(crn_sets_form(domain, nodes, s, size, set, ei));
    for (i = 0; i < nodes; i++) {
        uint32_t n = crn_sets_members(set, nodes, i, members);
        uint32_t has_self = 0;

        least = n < least ? n : least;
        most = n > most ? n : most;
        assert_true(crn_scheme_fits(s, n) != 0);
        for (k = 0; k < n; k++) {
            uint32_t same = 0;

            has_self += members[k] == i;
            for (j = 0; j < n; j++)
                same += domain[members[j]] == domain[members[k]];
            assert_in_range(same, 1, s.parity);
        }
        assert_int_equal(has_self, 1);
    }
    assert_true(most - least <= 1);
    if (size > 0 && nodes >= size)
        assert_true(least >= size);
}

static void test_every_number(void **state)
{
    static const char *const schemes[] = {"partner", "xor", "rs:1", "rs:2", "rs:3"};
    uint64_t domain[MOST];
    uint32_t nodes, size;
    size_t i;

    (void)state;
    for (i = 0; i < MOST; i++)
        domain[i] = 1000 - i;
    for (i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
        for (nodes = 2; nodes <= MOST; nodes++)
            for (size = 0; size <= 9; size++) {
                struct crn_protection s = scheme(schemes[i]);

                if (nodes > s.parity && (size == 0 || size > s.parity))
                    check_sets(domain, nodes, s, size);
            }
}

static void test_racks(void **state)
{
    uint64_t domain[24];
    uint32_t i;

    (void)state;
    for (i = 0; i < 24; i++) /* neighbours share a rack */
        domain[i] = i / 4;
    check_sets(domain, 24, scheme("rs:2"), 6);
    check_sets(domain, 24, scheme("xor"), 6);
    check_sets(domain, 24, scheme("partner"), 2);
}

static void refused(const uint64_t *domain, uint32_t nodes, const char *text, const char *best)
{
    struct crn_errinfo why = {0};
    struct crn_errinfo *ei = &why;
    char want[64];
    uint32_t set[8];

    assert_int_equal(crn_sets_form(domain, nodes, scheme(text), 0, set, ei), CAIRN_ECONFIG);
    (void)snprintf(want, sizeof(want), "scheme that fits is %s", best);
    if (strstr(ei->msg, want) == NULL)
        fail_msg("%s", ei->msg);
}

static void test_refused(void **state)
{
    static const uint64_t apart[4] = {5, 6, 7, 8}, together[4] = {5, 5, 5, 5};
    static const uint64_t pairs[4] = {5, 5, 6, 6};

    (void)state;
    refused(apart, 1, "partner", "none");
    refused(apart, 3, "rs:3", "rs:2");
    refused(apart, 2, "rs:2", "xor");
    refused(together, 4, "partner", "none");
    refused(pairs, 4, "xor", "rs:3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_every_number),
        cmocka_unit_test(test_racks),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
