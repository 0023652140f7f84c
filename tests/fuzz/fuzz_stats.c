/* SPDX-License-Identifier: BSD-3-Clause */
/* The statistics of a flush: unchanged, and a second time with a valid hash. Accepted ones are
 * written out, read again and written out to the same text. */
#include <inttypes.h>

#include "aggregate/stats.h"
#include "fuzz_text.h"

static void encode(const struct crn_flush_stats *s, struct crn_buf *ret)
{
    if (crn_flush_stats_encode(s, ret, NULL) != CAIRN_OK)
        abort();
}

static void check(const char *text, size_t len)
{
    struct crn_buf first = {0}, second = {0};
    struct crn_flush_stats s;

    if (crn_flush_stats_decode(text, len, &s, NULL) != CAIRN_OK)
        return;
    (void)crn_stats_local(&s);
    (void)crn_stats_received(&s);
    encode(&s, &first);
    crn_flush_stats_free(&s);
    if (crn_flush_stats_text_len((const char *)first.data, first.len) != first.len ||
        crn_flush_stats_decode((const char *)first.data, first.len, &s, NULL) != CAIRN_OK)
        abort();
    encode(&s, &second);
    if (first.len != second.len || memcmp(first.data, second.data, first.len) != 0)
        abort();
    crn_flush_stats_free(&s);
    crn_buf_free(&first);
    crn_buf_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    char sum[24];
    char *sealed = malloc(size + sizeof(sum));
    size_t len;

    if (sealed == NULL)
        exit(1);
    if (crn_flush_stats_text_len(text, size) > size)
        abort();
    check(text, size);
    /* The input without its last line, and the matching hash. */
    len = crn_flush_stats_text_len(text, size);
    len = len > 0 ? len - 17 : size;
    memcpy(sealed, text, len);
    (void)snprintf(sum, sizeof(sum), "%016" PRIx64 "\n", crn_hash(text, len));
    memcpy(sealed + len, sum, 17);
    check(sealed, len + 17);
    free(sealed);
    free(text);
    return 0;
}
