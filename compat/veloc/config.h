/* SPDX-License-Identifier: BSD-3-Clause */
/* VELOC's configuration as Cairn understands it, and VELOC's names as Cairn's. */
#ifndef CRN_VLC_CONFIG_H
#define CRN_VLC_CONFIG_H

#include "base/config.h"

#define CRN_VLC_KEEP_ALL (UINT64_C(1) << 40)

/* Plain data: rank 0 sends it to the others. */
struct crn_vlc_config {
    int is_sync;
    char scratch[CRN_PATH_MAX];
    char persistent[CRN_PATH_MAX]; /* never empty: inside scratch where the file names none */
    int has_persistent;            /* the file names one */
    uint64_t max_versions;         /* 0: all */
    uint64_t scratch_versions;     /* CRN_VLC_KEEP_ALL: all */
    char ignored[512];             /* keys that were set and have no effect here: "a, b" */
};

/* Reads the file (NULL or "": none), with the variables VELOC_<KEY> over it. */
CAIRN_CHECKED cairn_err crn_vlc_config_load(const char *file, struct crn_vlc_config *ret,
                                            struct crn_errinfo *ei);

/* The same from the text of a file. */
CAIRN_CHECKED cairn_err crn_vlc_config_parse(const char *text, struct crn_vlc_config *ret,
                                             struct crn_errinfo *ei);

/* The settings of a Cairn session that behaves as this configuration says: "key=value" texts, NULL at
 * the end. A key that is also set as CAIRN_<KEY> is left to that variable. */
#define CRN_VLC_SETTINGS 10
struct crn_vlc_settings {
    const char *list[CRN_VLC_SETTINGS];
    char text[CRN_VLC_SETTINGS][CRN_PATH_MAX + 32];
};
void crn_vlc_config_settings(const struct crn_vlc_config *cfg, struct crn_vlc_settings *ret);

/* The Cairn name for a VELOC name; id < 0 where all processes share it. Different names stay
 * different: VELOC has no '-'. CAIRN_EINVAL for what VELOC does not allow. */
CAIRN_CHECKED cairn_err crn_vlc_name(const char *name, int64_t id, char ret[CAIRN_MAX_NAME],
                                     struct crn_errinfo *ei);

#endif
