/* SPDX-License-Identifier: BSD-3-Clause */
/* How sizes and times are written: exactly, to be read back, and rounded, for people. Parses digits
 * itself, because strtod follows the application's locale. */
#include "base/config.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

struct units_unit {
    const char *name;
    uint64_t factor;
};

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define TIB ((uint64_t)1 << 40)
#define PIB ((uint64_t)1 << 50)

/* Sizes are powers of two in every spelling. Output uses the first spelling of a factor. */
static const struct units_unit byte_units[] = {
    {"P", PIB},   {"T", TIB},   {"G", GIB},   {"M", MIB},   {"K", KIB},   {"", 1},
    {"PiB", PIB}, {"TiB", TIB}, {"GiB", GIB}, {"MiB", MIB}, {"KiB", KIB}, {"B", 1},
    {"PB", PIB},  {"TB", TIB},  {"GB", GIB},  {"MB", MIB},  {"KB", KIB},  {NULL, 0},
};

#define SECOND UINT64_C(1000000000)
static const struct units_unit time_units[] = {
    {"d", 86400 * SECOND},
    {"h", 3600 * SECOND},
    {"m", 60 * SECOND},
    {"s", SECOND},
    {"ms", 1000000},
    {"us", 1000},
    {"ns", 1},
    {"", SECOND},
    {"min", 60 * SECOND},
    {NULL, 0},
};

static const struct units_unit *find_unit(const struct units_unit *units, const char *name)
{
    for (; units->name != NULL; units++)
        if (strcasecmp(units->name, name) == 0)
            return units;
    return NULL;
}

/* Parses "12", "12M", "1.5 G": digits, fraction, unit. 0 or -1. */
static int parse_scaled(const char *text, const struct units_unit *units, uint64_t *ret)
{
    const struct units_unit *u;
    unsigned __int128 value = 0, fraction = 0, scale = 1;
    const char *p = text;

    for (; *p >= '0' && *p <= '9' && value <= UINT64_MAX; p++)
        value = value * 10 + (unsigned)(*p - '0');
    if (p == text)
        return -1;
    if (*p == '.')
        for (p++; *p >= '0' && *p <= '9'; p++)
            if (scale < SECOND) { /* further digits are below a nanosecond or byte */
                fraction = fraction * 10 + (unsigned)(*p - '0');
                scale *= 10;
            }
    p += strspn(p, " ");
    u = find_unit(units, p);
    if (u == NULL || value > UINT64_MAX)
        return -1;
    value = value * u->factor + fraction * u->factor / scale;
    if (value > UINT64_MAX)
        return -1;
    *ret = (uint64_t)value;
    return 0;
}

cairn_err crn_parse_bytes(const char *text, uint64_t *ret, struct crn_errinfo *ei)
{
    if (strcmp(text, "auto") == 0) {
        *ret = 0;
        return CAIRN_OK;
    }
    if (parse_scaled(text, byte_units, ret) != 0)
        return crn_fail(ei, CAIRN_ECONFIG, 0,
                        "'%s' is not a size; write 4096, 64M, 1.5G or the like", text);
    return CAIRN_OK;
}

cairn_err crn_parse_time(const char *text, uint64_t *ret_ns, struct crn_errinfo *ei)
{
    if (parse_scaled(text, time_units, ret_ns) != 0)
        return crn_fail(ei, CAIRN_ECONFIG, 0, "'%s' is not a time; write 90s, 15m, 2h, 250ms",
                        text);
    return CAIRN_OK;
}

cairn_err crn_parse_every(const char *text, struct crn_every *ret, struct crn_errinfo *ei)
{
    struct crn_every every = {0};
    int is_count = strspn(text, "0123456789") == strlen(text);

    if (parse_scaled(text, time_units, is_count ? &every.count : &every.ns) != 0)
        return crn_fail(ei, CAIRN_ECONFIG, 0, "'%s' is neither a number nor a time; write 5, 30m",
                        text);
    every.count /= is_count ? SECOND : 1;
    *ret = every;
    return CAIRN_OK;
}

void crn_format_every(const struct crn_every *every, char *buf, size_t size)
{
    if (every->ns != 0)
        crn_format_time(every->ns, buf, size);
    else
        (void)snprintf(buf, size, "%" PRIu64, every->count);
}

/* Uses the largest unit that leaves no remainder. */
static void format_exact(uint64_t value, const struct units_unit *units, char *buf, size_t size)
{
    while (value != 0 && value % units->factor != 0)
        units++;
    (void)snprintf(buf, size, "%" PRIu64 "%s", value == 0 ? 0 : value / units->factor,
                   value == 0 ? "" : units->name);
}

void crn_format_bytes(uint64_t bytes, char *buf, size_t size)
{
    format_exact(bytes, byte_units, buf, size);
}

void crn_format_time(uint64_t ns, char *buf, size_t size)
{
    format_exact(ns, time_units, buf, size);
}

void crn_human_bytes(uint64_t bytes, char *buf, size_t size)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double x = (double)bytes;
    size_t i = 0;

    for (; x >= 1023.95 && i + 1 < sizeof(names) / sizeof(names[0]); i++)
        x /= 1024;
    (void)snprintf(buf, size, i == 0 || x >= 100 ? "%.0f %s" : "%.1f %s", x, names[i]);
}

void crn_human_time(double seconds, char *buf, size_t size)
{
    if (seconds < 0)
        seconds = 0;
    if (seconds < 1e-3)
        (void)snprintf(buf, size, "%.0f us", seconds * 1e6);
    else if (seconds < 1)
        (void)snprintf(buf, size, "%.0f ms", seconds * 1e3);
    else if (seconds < 100)
        (void)snprintf(buf, size, "%.1f s", seconds);
    else if (seconds < 2 * 3600)
        (void)snprintf(buf, size, "%.0f min", seconds / 60);
    else if (seconds < 2 * 86400)
        (void)snprintf(buf, size, "%.0f h", seconds / 3600);
    else
        (void)snprintf(buf, size, "%.0f days", seconds / 86400);
}

cairn_err crn_check_name(const char *what, const char *name, struct crn_errinfo *ei)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "_.-";
    size_t n = name != NULL ? strlen(name) : 0;

    if (name == NULL)
        return crn_fail(ei, CAIRN_EINVAL, 0, "the %s is NULL", what);
    if (n == 0)
        return crn_fail(ei, CAIRN_EINVAL, 0, "the %s is empty", what);
    if (n >= CAIRN_MAX_NAME)
        return crn_fail(ei, CAIRN_EINVAL, 0, "the %s '%.20s...' is longer than %d bytes", what,
                        name, CAIRN_MAX_NAME - 1);
    if (name[0] == '.' || strspn(name, allowed) != n)
        return crn_fail(ei, CAIRN_EINVAL, 0,
                        "the %s '%s' may hold A-Z a-z 0-9 _ . - only and not begin with '.'", what,
                        name);
    return CAIRN_OK;
}
