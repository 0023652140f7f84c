/* SPDX-License-Identifier: BSD-3-Clause */
/* Which versions the words of a command line mean: NAME@12, NAME@10..20, NAME@..20, NAME@10.., and
 * NAME where a rule (keep, age) says which. */
#ifndef CRN_CLI_SELECT_H
#define CRN_CLI_SELECT_H

#include "cli/cli.h"

struct cli_rule {
    int64_t keep;       /* spare so many of the newest whole versions; -1: no such rule */
    int64_t keep_every; /* and those whose number is a multiple; 0: no such rule */
    uint64_t min_age_ns;
    uint64_t now_ns; /* wall clock */
};

struct cli_selection {
    struct cli_target *target; /* owned; of each name the newest version first */
    size_t n, cap;
    size_t pinned; /* versions that were passed over because they are pinned */
};

/* Adds what a word means. A version that is named alone is taken as it is; ranges and rules take
 * only versions that have a manifest and are not pinned. */
CAIRN_CHECKED cairn_err crn_select_word(const struct crn_store *st, const char *word,
                                        const struct cli_rule *rule, struct cli_selection *sel,
                                        struct crn_errinfo *ei);
void crn_select_free(struct cli_selection *sel);

#endif
