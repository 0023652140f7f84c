/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups of ids, compared with a plain table over random calls. */
#include "regions.h"

#include "base/rng.h"
#include "base/test.h"
#include "veloc.h"

enum { IDS = 40, GROUPS = 3 };

static struct crn_errinfo info, *ei = &info;

static void as_a_table(void **state)
{
    static const char *const names[GROUPS] = {"", "a", "b"};
    uintptr_t want[GROUPS][IDS] = {{0}}; /* the pointer; 0: not protected */
    struct crn_vlc_regions all = {0};
    int round, g, id;
    size_t i;

    (void)state;
    for (round = 0; round < 20000; round++) {
        struct crn_vlc_region r = {.id = (int)(crn_random_u64() % IDS),
                                   .bytes = crn_random_u64() % 1000};

        g = (int)(crn_random_u64() % GROUPS);
        r.ptr = (void *)(uintptr_t)(1 + crn_random_u64() % 100000);
        id = r.id;
        r.id -= IDS / 2;
        switch (crn_random_u64() % 8) {
        case 0:
            crn_vlc_clear(&all, names[g]);
            memset(want[g], 0, sizeof(want[g]));
            break;
        case 1:
        case 2:
            assert_int_equal(crn_vlc_unprotect(&all, names[g], r.id), want[g][id] != 0 ? 0 : -1);
            want[g][id] = 0;
            break;
        default:
            assert_ok(crn_vlc_protect(&all, names[g], &r, ei));
            want[g][id] = (uintptr_t)r.ptr;
        }
        for (g = 0; g < GROUPS; g++) {
            const struct crn_vlc_group *group = crn_vlc_group_of(&all, names[g]);
            int own = 0;

            for (id = 0; id < IDS; id++)
                own += want[g][id] != 0;
            for (id = 0; id < IDS; id++) {
                const struct crn_vlc_region *found = crn_vlc_find(group, id - IDS / 2);

                assert_int_equal(found != NULL ? (uintptr_t)found->ptr : 0,
                                 want[own > 0 ? g : 0][id]);
            }
            for (i = 1; group != NULL && i < group->n; i++)
                assert_true(group->region[i - 1].id < group->region[i].id);
        }
    }
    crn_vlc_regions_free(&all);
    assert_null(crn_vlc_group_of(&all, "x"));
    assert_null(crn_vlc_find(NULL, 1));
}

static void modes(void **state)
{
    const int ids[] = {3, -1};

    (void)state;
    assert_true(crn_vlc_takes(VELOC_CKPT_ALL, NULL, 0, 5));
    assert_true(crn_vlc_takes(VELOC_CKPT_SOME, ids, 2, -1));
    assert_false(crn_vlc_takes(VELOC_CKPT_SOME, ids, 2, 5));
    assert_false(crn_vlc_takes(VELOC_CKPT_SOME, NULL, 0, 5));
    assert_false(crn_vlc_takes(VELOC_CKPT_REST, ids, 2, 3));
    assert_true(crn_vlc_takes(VELOC_CKPT_REST, ids, 2, 5));
    assert_true(crn_vlc_takes(VELOC_CKPT_REST, NULL, 0, 5));
    assert_ok(crn_vlc_check_mode(VELOC_RECOVER_REST, ids, 2, ei));
    assert_ok(crn_vlc_check_mode(VELOC_RECOVER_ALL, NULL, 9, ei));
    assert_int_equal(crn_vlc_check_mode(3, ids, 2, ei), CAIRN_EINVAL);
    assert_int_equal(crn_vlc_check_mode(VELOC_CKPT_SOME, NULL, 2, NULL), CAIRN_EINVAL);
}

static void elements_have_types(void **state)
{
    static const struct {
        size_t base_size;
        cairn_type type;
    } cases[] = {{1, CAIRN_BYTES}, {4, CAIRN_F32},    {8, CAIRN_F64},
                 {16, CAIRN_C128}, {24, CAIRN_BYTES}, {0, CAIRN_BYTES}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct crn_vlc_region r = {.base_size = cases[i].base_size};

        assert_int_equal(crn_vlc_type(&r), cases[i].type);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_a_table), cmocka_unit_test(modes),
                                       cmocka_unit_test(elements_have_types)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
