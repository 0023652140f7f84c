/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration file of VELOC, as the drop-in reads it. */
#include "fuzz_text.h"

#include "config.h" /* compat/veloc */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    struct crn_face_settings settings = {0};
    struct crn_vlc_config cfg;
    struct crn_errinfo info = {0};
    size_t i;

    if (crn_vlc_config_parse(text, &cfg, &info) == CAIRN_OK) {
        if (cfg.scratch[0] != '/' || cfg.persistent[0] != '/')
            abort();
        crn_vlc_config_settings(&cfg, &settings);
        for (i = 0; settings.list[i] != NULL; i++)
            if (strchr(settings.list[i], '=') == NULL)
                abort();
    }
    free(text);
    return 0;
}
