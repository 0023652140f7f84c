/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses the driver. */
#include "tier/device.h"

cairn_err crn_driver_any(int is_loaded, struct crn_driver **ret, struct crn_errinfo *ei)
{
    struct crn_errinfo cuda = {0};
    struct crn_errinfo hip = {0};

    if (crn_driver_cuda(is_loaded, ret, &cuda) == CAIRN_OK ||
        crn_driver_hip(is_loaded, ret, &hip) == CAIRN_OK)
        return CAIRN_OK;
    return crn_fail(ei, CAIRN_ENOTSUP, 0, "no GPU: %.200s; %.200s", cuda.msg, hip.msg);
}
