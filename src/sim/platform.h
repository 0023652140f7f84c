/* SPDX-License-Identifier: BSD-3-Clause */
/* A machine and its workload, from a small INI text; see share/platforms. */
#ifndef CRN_PLATFORM_H
#define CRN_PLATFORM_H

#include <stddef.h>
#include "sim/quantity.h"
#include "sim/text.h"

#define CRN_PLATFORM_CLASSES 16

struct crn_platform_class {
    char name[32];
    double share;  /* of the node-time, 0 .. 1 */
    double nodes;  /* of one job */
    double work_s; /* typical; a job draws between 1 - spread and 1 + spread times that */
    double input_bytes, output_bytes, checkpoint_bytes; /* of one job */
};

struct crn_platform {
    char name[48];
    char about[160];
    double nodes;
    double bandwidth;   /* bytes per second, shared by all jobs */
    double node_mtbf_s; /* <= 0: nodes do not fail */
    double spread;      /* of a job's work; default 0.2 */
    struct crn_platform_class cls[CRN_PLATFORM_CLASSES];
    size_t nclasses;
};

/* Parses a text; what names the source in messages. Unknown and missing keys are errors. */
CAIRN_CHECKED cairn_err crn_platform_parse(const char *text, const char *what,
                                           struct crn_platform *ret, struct crn_errinfo *ei);
/* Loads a shipped platform by its name, else a file. */
CAIRN_CHECKED cairn_err crn_platform_load(const char *name_or_path, struct crn_platform *ret,
                                          struct crn_errinfo *ei);

/* The shipped texts, which are share/platforms/NAME.ini; name NULL at the end. */
extern const struct crn_text crn_platform_texts[];

#endif
