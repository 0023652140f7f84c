/* SPDX-License-Identifier: BSD-3-Clause */
/* Translates VELOC's configuration and names to Cairn's. */
#ifndef CRN_VLC_CONFIG_H
#define CRN_VLC_CONFIG_H

#include "cairn/cairn.h"
#include "common/settings.h"

#define CRN_VLC_KEEP_ALL (UINT64_C(1) << 40)

/* Plain data: rank 0 sends it to the others. */
struct crn_vlc_config {
    int is_sync;
    char scratch[CRN_PATH_MAX];
    char persistent[CRN_PATH_MAX]; /* never empty: inside scratch if the file has none */
    int has_persistent;            /* the file has one */
    uint64_t max_versions;         /* 0: all */
    uint64_t scratch_versions;     /* CRN_VLC_KEEP_ALL: all */
    char ignored[512];             /* keys that are set but have no effect: "a, b" */
};

/* Reads the file (NULL or "": none); the variables VELOC_<KEY> take precedence. */
CAIRN_CHECKED cairn_err crn_vlc_config_load(const char *file, struct crn_vlc_config *ret,
                                            struct crn_errinfo *ei);

/* The same from the text of a file. */
CAIRN_CHECKED cairn_err crn_vlc_config_parse(const char *text, struct crn_vlc_config *ret,
                                             struct crn_errinfo *ei);

/* The settings of a Cairn session with the behaviour of this configuration. */
void crn_vlc_config_settings(const struct crn_vlc_config *cfg, struct crn_face_settings *ret);

/* The Cairn name for a VELOC name; id < 0 if all processes share it. The mapping is injective:
 * VELOC names have no '-'. CAIRN_EINVAL for names that VELOC does not allow. */
CAIRN_CHECKED cairn_err crn_vlc_name(const char *name, int64_t id, char ret[CAIRN_MAX_NAME],
                                     struct crn_errinfo *ei);

#endif
