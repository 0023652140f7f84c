/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests: the remains of a dead run on its node, created as its service and its ranks create
 * them: run directory with lock and run.ini, arenas with captures, spilled images and
 * handed-over files. */
#ifndef CRN_TESTS_DEAD_RUN_H
#define CRN_TESTS_DEAD_RUN_H

#include "base/test.h"
#include "service/rundir.h"
#include "service/runfile.h"
#include "store/test_version.h"
#include "tier/arena.h"

#define DEAD_RANKS 2 /* on a node, at most */

struct dead {
    uint8_t run[16];
    struct crn_run_place place;
    struct crn_rundir dir;
    struct crn_arena *arena[DEAD_RANKS];
    int lock_fd;
};

uint32_t dead_rank(const struct dead *d, uint32_t local);
/* A run whose id is this byte over and over; its lock is held until dead_end. */
void dead_begin(struct dead *d, const struct crn_config *cfg, uint8_t id,
                struct crn_run_place place);
void dead_end(struct dead *d);
void dead_put(const struct dead *d, const char *name, const void *bytes, size_t n);
/* The image of a rank's shard, malloc'ed; sets the sizes in info. File regions go to the spool. */
unsigned char *dead_image(const struct dead *d, const struct tv *t, uint32_t rank,
                          struct crn_slot_info *info);
/* A rank captures a version: into its arena, or into a file of the spool. */
void dead_capture(struct dead *d, uint32_t local, const struct tv *t, int is_spilled);

#endif
