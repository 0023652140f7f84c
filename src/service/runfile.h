/* SPDX-License-Identifier: BSD-3-Clause */
/* run.ini: what a drain must know of a dead run, and a restarted cairnd of a living one: its place
 * in the job, its service and its configuration. The first line is "# ranks R node N nodes M local
 * L", the second "# socket PATH", one after it "# set N N ..." in a job with protection; the rest is the INI text of the configuration. Earlier releases
 * wrote no second line. */
#ifndef CRN_SERVICE_RUNFILE_H
#define CRN_SERVICE_RUNFILE_H

#include "base/config.h"
#include "base/fs.h"
#include "protect/scheme.h"

#define CRN_SOCKET_PATH 128 /* bytes of a path, with its NUL */

struct crn_run_place {
    uint32_t ranks;               /* of the job */
    uint32_t node;                /* this node's number, below nodes */
    uint32_t nodes;               /* of the job */
    uint32_t nlocal;              /* ranks on this node */
    char socket[CRN_SOCKET_PATH]; /* of its service; empty: unknown */
    uint32_t nmembers;            /* of its set (src/protect); 0: it is in none */
    uint32_t member[CRN_SET_MAX];
};

/* Replaces run.ini in the directory. */
CAIRN_CHECKED cairn_err crn_runfile_write(int dfd, const struct crn_run_place *place,
                                          const struct crn_config *cfg, struct crn_errinfo *ei);
/* Reads run.ini over the configuration in cfg. CAIRN_EDAMAGED: no service can have written this
 * place; other errors come from the configuration. */
CAIRN_CHECKED cairn_err crn_runfile_read(const struct crn_fs *fs, int dfd,
                                         struct crn_run_place *ret, struct crn_config *cfg,
                                         struct crn_errinfo *ei);
/* The same from memory: len bytes, followed by a NUL that is not counted. */
CAIRN_CHECKED cairn_err crn_runfile_parse(const char *text, size_t len, struct crn_run_place *ret,
                                          struct crn_config *cfg, struct crn_errinfo *ei);

#endif
