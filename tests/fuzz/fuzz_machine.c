/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptions of machines, for simulated flushes: accepted ones can be simulated. */
#include <math.h>

#include "fuzz_text.h"
#include "sim/machine.h"

static void check_above(double x, double least)
{
    if (!isfinite(x) || x < least)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    struct crn_errinfo info = {0};
    struct crn_machine m;

    if (crn_machine_parse(text, "fuzz", &m, &info) == CAIRN_OK) {
        check_above(m.nodes, 1);
        check_above(m.ranks_per_node, 1);
        check_above(m.rank_bytes, 0);
        check_above(m.nic_out, 0);
        check_above(m.nic_in, 0);
        check_above(m.writer, 0);
        check_above(m.best_writers, 0);
        check_above(m.crowding, 0);
        check_above(m.write_latency_s, 0);
        check_above(m.bandwidth, 0);
        check_above(m.osts, 0);
        check_above(m.ost, 0);
        check_above(m.creates, 0);
        check_above(m.speed_spread, 0);
        if (m.nodes > CRN_MACHINE_MAX_NODES || strlen(m.name) == 0)
            abort();
    }
    free(text);
    return 0;
}
