/* SPDX-License-Identifier: BSD-3-Clause */
/* A dead run of one node while it is drained. Inside src/service: drain_host.c finds it, drain.c
 * saves it. */
#ifndef CRN_SERVICE_DRAIN_RUN_H
#define CRN_SERVICE_DRAIN_RUN_H

#include "aggregate/engine.h"
#include "service/drain.h"
#include "service/rebuild.h"
#include "service/rundir.h"
#include "tier/arena.h"

struct crn_dead_run {
    char hex[CRN_RUN_HEX];
    struct crn_config cfg;
    uint32_t ranks, node, nodes, nlocal;
    struct crn_rundir dir;
    struct crn_arena **arenas; /* those found; at most nlocal */
    uint32_t narenas;
    struct crn_engine *engine;
    struct crn_gate gate; /* of the engine */
    const struct crn_fs *fs;
    int has_told;               /* a failure was reported */
    int is_lost;                /* the current capture is damaged in memory */
    struct crn_rebuilt rebuilt; /* of other nodes, for the current capture */
    struct crn_errinfo lost;    /* the error of the first such capture */
    crn_drain_fn fn;
    void *arg;
};

void crn_dead_run_tell(struct crn_dead_run *run, enum crn_drain_what what, const char *name,
                       int64_t version, uint32_t missing, const char *text);
/* Saves all captures of the run, whose directory is open and whose configuration is loaded.
 * CAIRN_OK: nothing in the directory is needed any more; run->lost tells whether a capture was
 * damaged. */
CAIRN_CHECKED cairn_err crn_dead_run_drain(struct crn_dead_run *run, struct crn_errinfo *ei);
/* Frees the members; the directory stays. */
void crn_dead_run_close(struct crn_dead_run *run);

#endif
