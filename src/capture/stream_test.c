/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/test.h"
#include "capture/stream.h"

#define ROOM ((size_t)64 << 10)

/* Sizes around a line, a page and a group of pages, at various addresses. Every byte is copied, and
 * no byte beyond is written. */
static void copies_all_and_nothing_else(void **state)
{
    static const size_t sizes[] = {0,     1,     63,    64,    4095,      4096,          16383,
                                   16384, 16385, 16447, 16448, 3 * 16384, 3 * 16384 + 77};
    unsigned char *to = malloc(ROOM), *from = malloc(ROOM), *clean = malloc(ROOM);
    size_t i, at, skew;

    (void)state;
    for (i = 0; i < ROOM; i++)
        from[i] = (unsigned char)(i * 2654435761U >> 13);
    memset(clean, 0xee, ROOM);
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (at = 0; at < 130; at += 13)
            for (skew = 0; skew < 70; skew += 23) {
                memset(to, 0xee, ROOM);
                crn_stream_copy(to + at, from + skew, sizes[i]);
                assert_memory_equal(to + at, from + skew, sizes[i]);
                assert_memory_equal(to, clean, at);
                assert_memory_equal(to + at + sizes[i], clean, ROOM - at - sizes[i]);
            }
    free(clean);
    free(from);
    free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(copies_all_and_nothing_else)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
