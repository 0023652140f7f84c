/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers with units, as people write them in platform and machine files and on the command
 * line. */
#include "sim/quantity.h"

#include <stdlib.h>
#include <string.h>

#define MOST 1e30 /* upper limit of any number: products of several stay finite */

struct quantity_unit {
    const char *name;
    double factor;
};

/* The number and, after spaces, its unit. NULL if there is no number from 0 to MOST. */
static const char *quantity_number(const char *text, double *ret)
{
    char *end;

    *ret = strtod(text, &end);
    if (end == text || !(*ret >= 0 && *ret <= MOST))
        return NULL;
    return end + strspn(end, " \t");
}

static int find_unit(const struct quantity_unit *units, const char *name, size_t len, double *ret)
{
    for (; units->name != NULL; units++)
        if (strlen(units->name) == len && strncmp(units->name, name, len) == 0) {
            *ret = units->factor;
            return 1;
        }
    return 0;
}

cairn_err crn_quantity_bytes(const char *text, double *ret, struct crn_errinfo *ei)
{
    static const struct quantity_unit units[] = {
        {"B", 1},        {"kB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
        {"TB", 1e12},    {"PB", 1e15},    {"KiB", 0x1p10}, {"MiB", 0x1p20},
        {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"PiB", 0x1p50}, {NULL, 0},
    };
    double value, factor;
    const char *unit = quantity_number(text, &value);
    size_t len = unit != NULL ? strcspn(unit, "/ \t") : 0;

    if (unit == NULL || !find_unit(units, unit, len, &factor) ||
        (strcmp(unit + len, "") != 0 && strcmp(unit + len, "/s") != 0))
        return crn_fail(ei, CAIRN_EINVAL, 0, "'%s' is not a size; write it as 32 GB or 80 GB/s",
                        text);
    *ret = value * factor;
    return CAIRN_OK;
}

cairn_err crn_quantity_time(const char *text, double *ret_s, struct crn_errinfo *ei)
{
    static const struct quantity_unit units[] = {
        {"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}, {"y", 365.25 * 86400}, {NULL, 0},
    };
    double value, factor;
    const char *unit = quantity_number(text, &value);

    if (unit == NULL || !find_unit(units, unit, strlen(unit), &factor))
        return crn_fail(ei, CAIRN_EINVAL, 0,
                        "'%s' is not a time; write it as 90 s, 15 min, 2 h, 3 d, 5 y", text);
    *ret_s = value * factor;
    return CAIRN_OK;
}

cairn_err crn_quantity_number(const char *text, double *ret, struct crn_errinfo *ei)
{
    char *end;

    *ret = strtod(text, &end);
    if (end == text || *end != '\0' || !(*ret > 0 && *ret <= MOST))
        return crn_fail(ei, CAIRN_EINVAL, 0, "'%s' is not a number above 0", text);
    return CAIRN_OK;
}

cairn_err crn_quantity_percent(const char *text, double *ret, struct crn_errinfo *ei)
{
    char *end;

    *ret = strtod(text, &end) / 100;
    if (end == text || strcmp(end + strspn(end, " \t"), "%") != 0 || !(*ret >= 0 && *ret <= MOST))
        return crn_fail(ei, CAIRN_EINVAL, 0, "'%s' is not a percentage", text);
    return CAIRN_OK;
}
