/* SPDX-License-Identifier: BSD-3-Clause */
/* broker.conf: accepted text is written out, read again and written out to the same text, and is
 * valid for the broker's core. */
#include "fuzz_text.h"

#include "broker/conf.h"

static void print(const void *arg, FILE *out)
{
    (void)crn_broker_conf_dump(arg, out, 0);
}

static void check_round_trip(const struct crn_broker_conf *conf)
{
    static struct crn_broker_conf back;
    char *first = fuzz_print(print, conf);
    char *second;

    crn_broker_conf_defaults(&back);
    if (crn_broker_conf_text(&back, first, "dump", NULL) != CAIRN_OK)
        abort();
    second = fuzz_print(print, &back);
    if (strcmp(first, second) != 0)
        abort();
    free(second);
    free(first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct crn_broker_conf conf;
    struct crn_turns_token token[CRN_BROKER_TOKENS];
    char *text = fuzz_text(data, size);
    struct crn_turns_config turns;
    struct crn_errinfo info = {0};
    size_t i;

    crn_broker_conf_defaults(&conf);
    if (crn_broker_conf_text(&conf, text, "fuzz", &info) == CAIRN_OK) {
        check_round_trip(&conf);
        if (crn_broker_conf_check(&conf, &info) == CAIRN_OK) {
            crn_broker_conf_turns(&conf, 1, token, &turns);
            for (i = 0; i < turns.ntokens; i++)
                if (token[i].policy == NULL || token[i].slots == 0)
                    abort();
        }
    }
    free(text);
    return 0;
}
