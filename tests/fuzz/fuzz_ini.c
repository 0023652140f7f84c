/* SPDX-License-Identifier: BSD-3-Clause */
/* INI text of configuration files: the reader, then Cairn's own keys. An accepted configuration
 * is written out, read again and written out to the same text. */
#include "fuzz_config.h"
#include "fuzz_text.h"

#include "base/config_impl.h"

/* Every text from the reader is terminated, and a key comes with a value. */
static cairn_err look(void *arg, const char *section, const char *key, const char *value,
                      const char *where, struct crn_errinfo *ei)
{
    size_t *bytes = arg;

    (void)ei;
    if ((key == NULL) != (value == NULL))
        abort();
    *bytes += strlen(section) + strlen(where) + (key != NULL ? strlen(key) + strlen(value) : 0);
    return CAIRN_OK;
}

static void print(const void *arg, FILE *out)
{
    (void)crn_config_dump(arg, out);
}

static void check_round_trip(const struct crn_config *cfg)
{
    char *first = fuzz_print(print, cfg);
    struct crn_config back;
    char *second;

    back = fuzz_defaults();
    if (crn_config_text(&back, first, "dump", NULL) != CAIRN_OK)
        abort();
    second = fuzz_print(print, &back);
    if (strcmp(first, second) != 0)
        abort();
    crn_config_fini(&back);
    free(second);
    free(first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    struct crn_errinfo info = {0};
    struct crn_config cfg;
    size_t bytes = 0;

    if (crn_config_ini_text(text, "fuzz", look, &bytes, &info) == CAIRN_OK) {
        cfg = fuzz_defaults();
        if (crn_config_text(&cfg, text, "fuzz", &info) == CAIRN_OK) {
            check_round_trip(&cfg);
            if (crn_config_check(&cfg, &info) == CAIRN_OK)
                bytes++;
        }
        crn_config_fini(&cfg);
    }
    free(text);
    return 0;
}
