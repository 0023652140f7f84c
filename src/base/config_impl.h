/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of the configuration, and by programs with a key table and file of their
 * own. */
#ifndef CRN_CONFIG_IMPL_H
#define CRN_CONFIG_IMPL_H

#include "base/config.h"

/* base is a crn_config, or a crn_name_config if the key is per name. */
CAIRN_CHECKED cairn_err crn_key_set(const struct crn_key *key, void *base, const char *text,
                                    struct crn_errinfo *ei);
void crn_key_format(const struct crn_key *key, const void *base, char *buf, size_t size);
void crn_key_range(const struct crn_key *key, char *buf, size_t size);
/* The key's bit in crn_name_config.is_set. */
uint64_t crn_key_bit(const struct crn_key *key);
/* Sets a key for one checkpoint name, as section [checkpoint NAME] does. */
CAIRN_CHECKED cairn_err crn_config_set_for(struct crn_config *cfg, const char *name,
                                           const char *key_name, const char *value,
                                           const char *what, struct crn_errinfo *ei);

/* Reads INI text. Calls fn for every section (key is NULL) and every key, in order, with its
 * position ("file:line"). The first failure of fn stops the reading. */
typedef cairn_err (*crn_ini_fn)(void *arg, const char *section, const char *key, const char *value,
                                const char *where, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_config_ini_text(const char *text, const char *what, crn_ini_fn fn,
                                            void *arg, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_config_ini_file(const char *path, crn_ini_fn fn, void *arg,
                                            struct crn_errinfo *ei);

#endif
