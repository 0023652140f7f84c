/* SPDX-License-Identifier: BSD-3-Clause */
/* The journal of a name: unchanged, and a second time with valid hashes in each line. */
#include <inttypes.h>

#include "fuzz_text.h"
#include "store/journal.h"

#define HASH_TEXT 16

/* Puts the hash of each line before it; the caller frees the text. */
static char *seal(const char *text, size_t size, size_t *ret_len)
{
    char *sealed = NULL;
    FILE *out = open_memstream(&sealed, ret_len);
    size_t at, n;

    if (out == NULL)
        exit(1);
    for (at = 0; at < size; at += n + 1) {
        const char *end = memchr(text + at, '\n', size - at);
        const char *body = text + at;

        n = end != NULL ? (size_t)(end - body) : size - at;
        if (n > HASH_TEXT && body[HASH_TEXT] == ' ') {
            body += HASH_TEXT + 1;
            (void)fprintf(out, "%016" PRIx64 " ", crn_hash(body, n - HASH_TEXT - 1));
            (void)fwrite(body, 1, n - HASH_TEXT - 1, out);
        } else {
            (void)fwrite(body, 1, n, out);
        }
        (void)fputc('\n', out);
    }
    if (fclose(out) != 0)
        exit(1);
    return sealed;
}

static size_t check(const char *text, size_t len)
{
    char *copy = fuzz_text((const uint8_t *)text, len);
    struct crn_journal j = {0};
    size_t i, n;

    if (crn_journal_parse(copy, len, &j, NULL) != CAIRN_OK)
        exit(1); /* no memory */
    for (i = 0; i < j.n; i++)
        if (j.v[i].version < 0 || memchr(j.v[i].kind, 0, sizeof(j.v[i].kind)) == NULL ||
            memchr(j.v[i].run, 0, sizeof(j.v[i].run)) == NULL ||
            memchr(j.v[i].job, 0, sizeof(j.v[i].job)) == NULL ||
            memchr(j.v[i].text, 0, sizeof(j.v[i].text)) == NULL)
            abort();
    n = j.n;
    crn_journal_free(&j);
    free(copy);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    size_t len = 0;
    char *sealed = seal(text, size, &len);

    if (check(sealed, len) < check(text, size))
        abort();
    free(sealed);
    free(text);
    return 0;
}
