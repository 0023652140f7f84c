/* SPDX-License-Identifier: BSD-3-Clause */
/* Names that are part of the format: checkpoints, data files, captures. A name from a manifest or a
 * directory must pass these checks before it is used as a file name. */
#include "format/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"

int crn_name_is_valid(const char *name)
{
    /* A field that is to be encoded may lack its final 0. */
    return strnlen(name, CAIRN_MAX_NAME) < CAIRN_MAX_NAME &&
           crn_check_name("name", name, NULL) == CAIRN_OK;
}

static void numbered_name(const char *kind, uint32_t number, uint32_t attempt,
                          char ret[CRN_FILE_NAME])
{
    if (attempt == 0)
        (void)snprintf(ret, CRN_FILE_NAME, "%s-%04u", kind, (unsigned)number);
    else
        (void)snprintf(ret, CRN_FILE_NAME, "%s-%04u.%u", kind, (unsigned)number, (unsigned)attempt);
}

static int parse_numbered(const char *kind, const char *name, uint32_t *ret_number,
                          uint32_t *ret_attempt)
{
    size_t n = strlen(kind);
    char again[CRN_FILE_NAME];
    unsigned long number;
    unsigned long attempt = 0;
    char *end;

    if (strncmp(name, kind, n) != 0 || name[n] != '-' ||
        strnlen(name, CRN_FILE_NAME) >= CRN_FILE_NAME)
        return -1;
    number = strtoul(name + n + 1, &end, 10);
    if (*end == '.')
        attempt = strtoul(end + 1, &end, 10);
    if (number >= CRN_MAX_FILES || attempt > UINT32_MAX)
        return -1;
    /* strtoul accepts signs, blanks and leading zeros; reject a name that does not print the
     * same. */
    numbered_name(kind, (uint32_t)number, (uint32_t)attempt, again);
    if (strcmp(name, again) != 0)
        return -1;
    *ret_number = (uint32_t)number;
    *ret_attempt = (uint32_t)attempt;
    return 0;
}

void crn_data_name(uint32_t file_no, uint32_t attempt, char ret[CRN_FILE_NAME])
{
    numbered_name("data", file_no, attempt, ret);
}

int crn_data_name_parse(const char *name, uint32_t *ret_file_no, uint32_t *ret_attempt)
{
    return parse_numbered("data", name, ret_file_no, ret_attempt);
}

void crn_parity_name(uint32_t node, uint32_t attempt, char ret[CRN_FILE_NAME])
{
    numbered_name("parity", node, attempt, ret);
}

int crn_parity_name_parse(const char *name, uint32_t *ret_node, uint32_t *ret_attempt)
{
    return parse_numbered("parity", name, ret_node, ret_attempt);
}

int crn_capture_id_equal(const struct crn_capture_id *a, const struct crn_capture_id *b)
{
    return memcmp(a->run, b->run, sizeof(a->run)) == 0 && a->seq == b->seq;
}

void crn_run_hex(const uint8_t run[16], char out[CRN_RUN_HEX])
{
    int i;

    for (i = 0; i < 16; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", run[i]);
}
