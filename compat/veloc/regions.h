/* SPDX-License-Identifier: BSD-3-Clause */
/* Protected memory: ids in groups. Each checkpoint name with regions of its own has a group; the
 * group "" serves all other names. */
#ifndef CRN_VLC_REGIONS_H
#define CRN_VLC_REGIONS_H

#include "base/err.h"

struct crn_vlc_region {
    int id;
    void *ptr;
    uint64_t bytes;
    size_t base_size; /* of an element, as the program says */
};

struct crn_vlc_group {
    struct crn_vlc_group *next;
    char *name;
    struct crn_vlc_region *region; /* ascending by id */
    size_t n;
};

struct crn_vlc_regions {
    struct crn_vlc_group *groups;
};

CAIRN_CHECKED cairn_err crn_vlc_protect(struct crn_vlc_regions *all, const char *group,
                                        const struct crn_vlc_region *region,
                                        struct crn_errinfo *ei);
/* 0, or -1 if the id is unknown. */
int crn_vlc_unprotect(struct crn_vlc_regions *all, const char *group, int id);
void crn_vlc_clear(struct crn_vlc_regions *all, const char *group);
void crn_vlc_regions_free(struct crn_vlc_regions *all);

/* The regions of a checkpoint name: its own, if it has any, else the common ones. May be NULL. */
const struct crn_vlc_group *crn_vlc_group_of(const struct crn_vlc_regions *all, const char *name);
const struct crn_vlc_region *crn_vlc_find(const struct crn_vlc_group *group, int id);

/* The type that Cairn stores elements of this size as. The program does not say more: most have
 * floating-point numbers, and integers of that width shrink as well. */
cairn_type crn_vlc_type(const struct crn_vlc_region *region);

/* Does a mode (VELOC_CKPT_* and VELOC_RECOVER_* have the same values) with its list include this
 * id? */
CAIRN_CHECKED cairn_err crn_vlc_check_mode(int mode, const int *ids, int n, struct crn_errinfo *ei);
int crn_vlc_takes(int mode, const int *ids, int n, int id);

#endif
