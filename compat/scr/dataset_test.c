/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables of files, and paths inside of the prefix. */
#include "dataset.h"

#include <stdlib.h>

#include "base/test.h"

static struct crn_errinfo info, *ei = &info;

static void a_table_survives_its_text(void **state)
{
    struct crn_scr_dataset d = {.name = "a b/c", .flags = 3, .is_flushed = 1}, back;
    struct crn_scr_file *f;
    char *text;
    size_t len, i;

    (void)state;
    f = crn_scr_dataset_add(&d, "ckpt.1/rank 0.h5");
    assert_non_null(f);
    f->bytes = UINT64_MAX;
    f->hash = 0x123;
    f->is_owned = 0;
    assert_non_null(crn_scr_dataset_add(&d, "other"));
    assert_ptr_equal(crn_scr_dataset_add(&d, "other"), &d.file[1]);
    assert_ok(crn_scr_dataset_text(&d, &text, &len, ei));
    assert_ok(crn_scr_dataset_parse(text, len, &back, ei));
    assert_string_equal(back.name, "a b/c");
    assert_int_equal(back.flags, 3);
    assert_int_equal(back.is_direct, 0);
    assert_int_equal(back.is_flushed, 1);
    assert_int_equal(back.n, 2);
    assert_string_equal(back.file[0].path, "ckpt.1/rank 0.h5");
    assert_string_equal(back.file[0].stored, d.file[0].stored);
    assert_true(back.file[0].bytes == UINT64_MAX && back.file[0].hash == 0x123);
    assert_int_equal(back.file[0].is_owned, 0);
    crn_scr_dataset_free(&back);
    for (i = 0; i < len; i++) /* every truncation but at the end of a line is refused */
        if (crn_scr_dataset_parse(text, i, &back, ei) == CAIRN_OK) {
            assert_int_equal(text[i - 1], '\n');
            crn_scr_dataset_free(&back);
        }
    text[7] = '\0';
    assert_int_equal(crn_scr_dataset_parse(text, len, &back, ei), CAIRN_EFORMAT);
    free(text);
    crn_scr_dataset_free(&d);
}

static const char *inside(const char *cwd, const char *name)
{
    static char path[PATH_MAX];
    const char *ret;

    return crn_scr_path("/p/x", cwd, name, path, &ret, ei) == CAIRN_OK ? ret : "refused";
}

static void paths(void **state)
{
    (void)state;
    assert_string_equal(inside("/p/x", "a/b"), "a/b");
    assert_string_equal(inside("/p/x/run", "./a//b/../c"), "run/a/c");
    assert_string_equal(inside("/elsewhere", "/p/x/a"), "a");
    assert_string_equal(inside("/elsewhere", "a"), "refused");
    assert_string_equal(inside("/p/x", "../xy/a"), "refused");
    assert_string_equal(inside("/p/x", "../../../../p/x/a"), "a");
    assert_string_equal(inside("/p/x", "/p/x"), "refused");
    assert_string_equal(inside("/p/x", "a\nb"), "refused");
    assert_string_equal(inside("/p/x", ""), "refused");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_table_survives_its_text),
                                       cmocka_unit_test(paths)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
