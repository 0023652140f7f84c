/* SPDX-License-Identifier: BSD-3-Clause */
#include <cairn/cairn.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    if (strcmp(cairn_version_string(), CAIRN_VERSION) != 0 || cairn_type_size(CAIRN_F64) != 8) {
        (void)fprintf(stderr, "header %s, library %s\n", CAIRN_VERSION, cairn_version_string());
        return 1;
    }
    return 0;
}
