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

void crn_data_name(uint32_t file_no, uint32_t attempt, char ret[CRN_FILE_NAME])
{
    if (attempt == 0)
        (void)snprintf(ret, CRN_FILE_NAME, "data-%04u", (unsigned)file_no);
    else
        (void)snprintf(ret, CRN_FILE_NAME, "data-%04u.%u", (unsigned)file_no, (unsigned)attempt);
}

int crn_data_name_parse(const char *name, uint32_t *ret_file_no, uint32_t *ret_attempt)
{
    char again[CRN_FILE_NAME];
    unsigned long file_no;
    unsigned long attempt = 0;
    char *end;

    if (strncmp(name, "data-", 5) != 0 || strnlen(name, CRN_FILE_NAME) >= CRN_FILE_NAME)
        return -1;
    file_no = strtoul(name + 5, &end, 10);
    if (*end == '.')
        attempt = strtoul(end + 1, &end, 10);
    if (file_no >= CRN_MAX_FILES || attempt > UINT32_MAX)
        return -1;
    /* strtoul accepts signs, blanks and leading zeros; reject a name that does not print the
     * same. */
    crn_data_name((uint32_t)file_no, (uint32_t)attempt, again);
    if (strcmp(name, again) != 0)
        return -1;
    *ret_file_no = (uint32_t)file_no;
    *ret_attempt = (uint32_t)attempt;
    return 0;
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
