/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptions of platforms, for simulations of many jobs: accepted ones can be simulated. */
#include <math.h>

#include "fuzz_text.h"
#include "sim/platform.h"

static void check_above(double x, double least)
{
    if (!isfinite(x) || x < least)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    struct crn_errinfo info = {0};
    struct crn_platform p;
    size_t i;

    if (crn_platform_parse(text, "fuzz", &p, &info) == CAIRN_OK) {
        check_above(p.nodes, 1);
        check_above(p.bandwidth, 0);
        check_above(p.node_mtbf_s, 0);
        check_above(p.spread, 0);
        if (p.nclasses == 0 || p.nclasses > CRN_PLATFORM_CLASSES || strlen(p.name) == 0)
            abort();
        for (i = 0; i < p.nclasses; i++) {
            check_above(p.cls[i].share, 0);
            check_above(p.cls[i].nodes, 1);
            check_above(p.cls[i].work_s, 0);
            check_above(p.cls[i].input_bytes, 0);
            check_above(p.cls[i].output_bytes, 0);
            check_above(p.cls[i].checkpoint_bytes, 0);
            if (p.cls[i].nodes > p.nodes)
                abort();
        }
    }
    free(text);
    return 0;
}
