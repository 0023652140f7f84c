/* SPDX-License-Identifier: BSD-3-Clause */
/* A strategy is a token policy, a rule for the periods, and a way to write a checkpoint. A model
 * is a platform with one strategy, with all times in seconds. */
#ifndef CRN_STRATEGY_H
#define CRN_STRATEGY_H

#include "policy/period.h"
#include "policy/policy.h"
#include "sim/platform.h"

enum crn_period_rule {
    CRN_PERIOD_FIXED,    /* one hour by default */
    CRN_PERIOD_DALY,     /* Young/Daly, each job by itself */
    CRN_PERIOD_THEOREM1, /* as in theorem 1: longer where the file system is scarce */
    /* theorem 1 with the device time that restart reads, input and output leave */
    CRN_PERIOD_BUDGET,
    CRN_PERIOD_RULES
};

struct crn_strategy {
    char name[64];
    const struct crn_policy *policy; /* NULL: the baseline, without checkpoints and interference */
    enum crn_period_rule rule;
    int is_async;  /* the job stops only for a local capture; only the write needs the token */
    int is_newest; /* ... and captures at times of its own: the newest one is written */
};

/* "least-waste", "ordered-nb-daly", "POLICY-RULE[-async|-newest]"; the default rule is daly. */
CAIRN_CHECKED cairn_err crn_strategy_parse(const char *name, struct crn_strategy *ret,
                                           struct crn_errinfo *ei);
/* What is written when the turn comes: "foreground", "at the grant" or "newest capture". */
const char *crn_strategy_mode(const struct crn_strategy *s);
const char *crn_period_rule_name(enum crn_period_rule rule);
/* The names used in comparisons, the paper's seven first; NULL at the end. */
extern const char *const crn_strategy_names[];

struct crn_model_class {
    char name[32];
    double share, nodes, work_s;
    double input_s, output_s; /* without interference */
    double checkpoint_s;      /* C; also R */
    double block_s;           /* how long a commit blocks the job */
    double period_s;          /* P */
    /* P - C after a commit or recovery ends; at once if negative. With is_newest: P, after a
     * recovery or the capture before. */
    double request_after_s;
};

struct crn_model {
    struct crn_strategy strategy;
    double nodes, node_mtbf_s;
    double spread;
    double start_s, end_s; /* measured interval: without the first and the last day */
    struct crn_model_class cls[CRN_PLATFORM_CLASSES];
    size_t nclasses;
};

struct crn_model_options {
    double days;           /* simulated; 60 in the paper */
    double fixed_period_s; /* 3600 */
    double capture_s;      /* of async strategies: 60 */
};
extern const struct crn_model_options crn_model_defaults;

void crn_model_init(struct crn_model *m, const struct crn_platform *p,
                    const struct crn_strategy *strategy, const struct crn_model_options *opt);
/* The steady state of a platform, in the terms of the bounds; ret->cls points into storage. */
void crn_model_steady(const struct crn_platform *p,
                      struct crn_job_class storage[CRN_PLATFORM_CLASSES], struct crn_steady *ret);

#endif
