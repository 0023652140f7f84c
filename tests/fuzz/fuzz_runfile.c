/* SPDX-License-Identifier: BSD-3-Clause */
/* run.ini, which describes a dead run to a drain. */
#include "fuzz_config.h"
#include "fuzz_text.h"

#include "format/format.h"
#include "service/runfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    struct crn_errinfo info = {0};
    struct crn_run_place p;
    struct crn_config cfg;

    cfg = fuzz_defaults();
    if (crn_runfile_parse(text, size, &p, &cfg, &info) == CAIRN_OK &&
        (p.ranks > CRN_MAX_RANKS || p.nodes > CRN_MAX_FILES || p.node >= p.nodes || p.nlocal == 0 ||
         p.nlocal > p.ranks || cfg.persistent[0] == '\0' || cfg.block_bytes % cfg.align_bytes != 0))
        abort();
    crn_config_fini(&cfg);
    free(text);
    return 0;
}
