/* SPDX-License-Identifier: BSD-3-Clause */
/* A captured shard as the engine reads it: opened from an arena's slot, its spill file and its
 * handed-over files. Used by the flush of a living job and by the drain of a dead one. */
#ifndef CRN_SERVICE_SOURCE_H
#define CRN_SERVICE_SOURCE_H

#include "aggregate/engine.h"
#include "service/rundir.h"
#include "tier/arena.h"
#include "tier/image.h"

struct crn_open_shard {
    struct crn_slot_info info;
    struct crn_image image;
    int *region_fd;          /* owned; per region */
    const uint64_t **hashes; /* owned; per region, or NULL */
};

/* Opens the slots of nparts arenas as sources[0..nparts-1]; held[] records what to close
 * afterwards. Opens all of them or none. */
CAIRN_CHECKED cairn_err crn_sources_open(struct crn_arena *const *arenas, const uint32_t *slots,
                                         uint32_t nparts, const struct crn_rundir *rd,
                                         struct crn_open_shard *held, struct crn_source *sources,
                                         struct crn_errinfo *ei);
/* Finds the variables inside their files, if the configuration encodes this name. */
CAIRN_CHECKED cairn_err crn_sources_look_inside(const struct crn_config *cfg, const char *name,
                                                struct crn_source *sources, uint32_t n,
                                                struct crn_errinfo *ei);
void crn_sources_close(struct crn_open_shard *held, struct crn_source *sources, uint32_t nparts);
/* Removes the spill file and the handed-over files of a slot. */
void crn_source_remove_spool(int spool_dfd, uint32_t rank, uint64_t seq);

#endif
