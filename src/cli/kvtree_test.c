/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/test.h"
#include "cli/kvtree.h"

/* {A: {1: {}, 2: {}}, B: {}} without and with a checksum. */
static const unsigned char plain[] = {
    0x95, 0x1f, 0xc3, 0xf5, 0, 1, 0,   1, 0, 0, 0, 0, 0,   0, 0, 0x30, 0, 0, 0,   0, /* header */
    0,    0,    0,    2, /* the root's */
    'A',  0,    0,    0,    0, 2, '1', 0, 0, 0, 0, 0, '2', 0, 0, 0,    0, 0, 'B', 0, 0, 0, 0, 0};

static void a_tree_is_found(void **state)
{
    const struct crn_kvnode *a, *child;
    struct crn_kvtree t;

    (void)state;
    assert_int_equal(crn_kvtree_parse(plain, sizeof(plain), 0, &t, NULL), CAIRN_OK);
    assert_int_equal(t.n, 5);
    a = crn_kvtree_get(&t, t.node, "A");
    assert_non_null(a);
    assert_string_equal(crn_kvtree_value(&t, t.node, "A"), "1");
    child = crn_kvtree_first(&t, a);
    assert_string_equal(child->key, "1");
    child = crn_kvtree_next(&t, child);
    assert_string_equal(child->key, "2");
    assert_null(crn_kvtree_next(&t, child));
    assert_non_null(crn_kvtree_get(&t, t.node, "B"));
    assert_null(crn_kvtree_value(&t, t.node, "B"));
    assert_null(crn_kvtree_get(&t, t.node, "C"));
    assert_null(crn_kvtree_get(&t, NULL, "A"));
    crn_kvtree_free(&t);
}

/* The same tree after other bytes, with its checksum: CRC-32, as zlib has it. */
static void a_checksum_is_checked(void **state)
{
    unsigned char file[3 + sizeof(plain) + 4] = {0};
    static const unsigned char crc[] = {0x56, 0xb6, 0x36, 0xe6};
    struct crn_kvtree t;
    size_t i;

    (void)state;
    memcpy(file + 3, plain, sizeof(plain));
    file[3 + 15] = sizeof(plain) + 4;
    file[3 + 19] = 1;
    memcpy(file + 3 + sizeof(plain), crc, sizeof(crc));
    assert_int_equal(crn_kvtree_parse(file, sizeof(file), 3, &t, NULL), CAIRN_OK);
    crn_kvtree_free(&t);
    for (i = 3; i < sizeof(file); i++) {
        file[i] ^= 1;
        assert_int_equal(crn_kvtree_parse(file, sizeof(file), 3, &t, NULL), CAIRN_EDAMAGED);
        file[i] ^= 1;
    }
}

static void what_is_cut_off_is_refused(void **state)
{
    unsigned char file[sizeof(plain)];
    struct crn_kvtree t;
    size_t n;

    (void)state;
    for (n = 0; n < sizeof(plain); n++) {
        memcpy(file, plain, sizeof(plain));
        assert_int_equal(crn_kvtree_parse(file, n, 0, &t, NULL), CAIRN_EDAMAGED);
        file[15] = (unsigned char)n; /* a file that agrees to be short */
        assert_int_equal(crn_kvtree_parse(file, n, 0, &t, NULL), CAIRN_EDAMAGED);
    }
    memcpy(file, plain, sizeof(plain));
    file[23] = 200; /* more elements than there can be */
    assert_int_equal(crn_kvtree_parse(file, sizeof(file), 0, &t, NULL), CAIRN_EDAMAGED);
    assert_int_equal(crn_kvtree_parse(plain, sizeof(plain), sizeof(plain) + 1, &t, NULL),
                     CAIRN_EDAMAGED);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tree_is_found),
        cmocka_unit_test(a_checksum_is_checked),
        cmocka_unit_test(what_is_cut_off_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
