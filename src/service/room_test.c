/* SPDX-License-Identifier: BSD-3-Clause */
/* When a flush that waits for free space warns, and its text. tests/limits/space.c fills a real
 * disk. */
#include "service/room.h"

#include "base/test.h"

#define SECOND 1000000000LL

/* The times of the warnings within two days, in seconds. */
static void warnings_grow_apart_up_to_an_hour(void **state)
{
    static const int64_t expect[] = {0, 60, 180, 420, 900, 1860, 3780, 7380, 10980};
    struct crn_flush_room r = {0};
    int64_t begin = 12345 * SECOND; /* monotonic time counts from boot */
    int64_t last = 0;
    int64_t t;
    size_t n = 0;

    (void)state;
    for (t = 0; t < 48 * 3600; t++) {
        if (!crn_room_warns(&r, begin + t * SECOND))
            continue;
        if (n < sizeof(expect) / sizeof(expect[0]))
            assert_int_equal(t, expect[n]);
        else
            assert_int_equal(t - last, 3600);
        last = t;
        n++;
    }
    assert_in_range(n, 50, 56);
}

static void the_text_names_what_bounds_it(void **state)
{
    struct crn_job *job = calloc(1, sizeof(*job));
    struct crn_store st = {.path = (char *)(uintptr_t) "/lustre/me"};
    struct crn_flush_room r = {.job = job, .st = &st, .need = (uint64_t)3 << 30};
    struct crn_room room = {.bytes = 1 << 20, .text = "left of the quota of user 1000"};
    char text[CRN_ERR_TEXT];

    (void)state;
    assert_non_null(job);
    job->cfg.free_reserve_bytes = 64 << 20;
    crn_room_text(&r, &room, text, sizeof(text));
    assert_string_equal(text, "it needs 3.0 GiB in '/lustre/me' and leaves a reserve of 64.0 MiB "
                              "(free_reserve_bytes), but 1.0 MiB are left of the quota of user "
                              "1000; free space or lower keep_last");
    free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warnings_grow_apart_up_to_an_hour),
        cmocka_unit_test(the_text_names_what_bounds_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
