/* SPDX-License-Identifier: BSD-3-Clause */
/* What SCR's parameters mean here. */
#ifndef CRN_SCR_CONFIG_H
#define CRN_SCR_CONFIG_H

#include <stdio.h>

#include "common/levels.h"
#include "common/settings.h"
#include "params.h"

/* A line "CKPT=0 INTERVAL=10 TYPE=XOR". */
struct crn_scr_ckpt {
    uint64_t interval;
    char type[16];
    uint64_t failures; /* SET_FAILURES */
    int is_direct;     /* BYPASS; -1: as the key */
};
#define CRN_SCR_CKPTS 8
#define CRN_SCR_GROUP 64

/* Plain data: rank 0 sends it to the others. */
struct crn_scr_config {
    int is_enabled, is_fetch, is_direct, is_flush_async, is_finalize_flush;
    int is_halt_enabled;
    char prefix[CRN_PATH_MAX], cache[CRN_PATH_MAX]; /* cache "": memory */
    char current[CRN_PATH_MAX];                     /* dataset to restart from; "": the newest */
    uint64_t flush, cache_size, prefix_size;
    uint64_t interval, seconds;
    double overhead; /* percent */
    uint64_t halt_seconds;
    int64_t end_time; /* of the allocation, seconds since 1970; 0: unknown */
    int debug;
    char type[16]; /* SCR_COPY_TYPE */
    uint64_t set_size, failures;
    char group[CRN_SCR_GROUP]; /* nodes of one such group are lost together */
    int has_groups;            /* GROUPS lines say which nodes these are */
    struct crn_scr_ckpt ckpt[CRN_SCR_CKPTS];
    int nckpts;
    char ignored[512]; /* parameters that are set but have no effect: "A, B" */
};

CAIRN_CHECKED cairn_err crn_scr_config_load(const struct crn_scr_params *p,
                                            struct crn_scr_config *ret, struct crn_errinfo *ei);
void crn_scr_config_settings(const struct crn_scr_config *cfg, struct crn_face_settings *ret);
/* The file for Cairn's failure_domain that says what the GROUPS lines say. */
void crn_scr_config_groups(const struct crn_scr_params *p, const char *group, FILE *out);
#define CRN_SCR_GROUPS_FILE "cairn-groups" /* in .scr of the prefix */
/* The line that holds for the n-th checkpoint (from 1): the one with the largest interval that
 * divides n. */
const struct crn_scr_ckpt *crn_scr_config_ckpt(const struct crn_scr_config *cfg, uint64_t n);
const struct crn_face_level *crn_scr_config_level(const struct crn_scr_config *cfg, uint64_t n,
                                                  char scheme[CRN_FACE_SCHEME]);

#endif
