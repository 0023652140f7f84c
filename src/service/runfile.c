/* SPDX-License-Identifier: BSD-3-Clause */
/* Defines the contents of run.ini. The reader treats it as untrusted: a drain deletes a run that it
 * believes finished, so it must never act on an implausible place. */
#include "service/runfile.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "format/format.h"

#define NAME     "run.ini"
#define FILE_MAX ((size_t)4 << 20) /* a configuration of 1 MiB, written with all defaults */

static cairn_err runfile_format(const struct crn_run_place *place, const struct crn_config *cfg,
                                char **ret_text, size_t *ret_len, struct crn_errinfo *ei)
{
    FILE *f = open_memstream(ret_text, ret_len);
    uint32_t i;

    if (f != NULL) {
        (void)fprintf(f, "# ranks %u node %u nodes %u local %u\n", place->ranks, place->node,
                      place->nodes, place->nlocal);
        if (place->socket[0] != '\0')
            (void)fprintf(f, "# socket %s\n", place->socket);
        if (place->nmembers > 0)
            (void)fprintf(f, "# set");
        for (i = 0; i < place->nmembers; i++)
            (void)fprintf(f, " %u", place->member[i]);
        if (place->nmembers > 0)
            (void)fprintf(f, "\n");
        (void)crn_config_dump(cfg, f);
        if (fclose(f) == 0)
            return CAIRN_OK;
        free(*ret_text);
    }
    return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the description of a run");
}

cairn_err crn_runfile_write(int dfd, const struct crn_run_place *place,
                            const struct crn_config *cfg, struct crn_errinfo *ei)
{
    char *text = NULL;
    size_t len = 0;
    cairn_err rc;

    rc = runfile_format(place, cfg, &text, &len, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_fs_replace(crn_fs_posix(), dfd, NAME, text, len, ei);
    free(text);
    return rc;
}

/* Parses " word NUMBER" and advances. Returns 0 if the text differs. */
static int take_number(const char **at, const char *word, uint32_t *ret)
{
    size_t n = strlen(word);
    unsigned long long x;
    char *end;

    if (strncmp(*at, word, n) != 0 || !isdigit((unsigned char)(*at)[n]))
        return 0;
    errno = 0;
    x = strtoull(*at + n, &end, 10);
    if (errno != 0 || x > UINT32_MAX)
        return 0;
    *ret = (uint32_t)x;
    *at = end;
    return 1;
}

/* The line after it, if it is there. */
static int parse_set(const char *text, struct crn_run_place *p)
{
    static const char word[] = "\n# set";
    uint32_t node;

    p->nmembers = 0;
    if (strncmp(text, word, sizeof(word) - 1) != 0)
        return *text == '\n';
    text += sizeof(word) - 1;
    while (p->nmembers < CRN_SET_MAX && take_number(&text, " ", &node)) {
        if (node >= p->nodes || (p->nmembers > 0 && node <= p->member[p->nmembers - 1]))
            return 0;
        p->member[p->nmembers++] = node;
    }
    return *text == '\n' && p->nmembers > 1;
}

/* The second line, if it is there. Returns 0 if no service can have written it. */
static int parse_socket(const char *text, struct crn_run_place *p)
{
    static const char word[] = "\n# socket ";
    size_t len;

    p->socket[0] = '\0';
    if (strncmp(text, word, sizeof(word) - 1) != 0)
        return parse_set(text, p);
    text += sizeof(word) - 1;
    len = strcspn(text, "\n");
    if (len == 0 || len >= sizeof(p->socket))
        return 0;
    memcpy(p->socket, text, len);
    p->socket[len] = '\0';
    return parse_set(text + len, p);
}

static int parse_place(const char *text, struct crn_run_place *p)
{
    return take_number(&text, "# ranks ", &p->ranks) && take_number(&text, " node ", &p->node) &&
           take_number(&text, " nodes ", &p->nodes) && take_number(&text, " local ", &p->nlocal) &&
           parse_socket(text, p) && p->ranks <= CRN_MAX_RANKS && p->nodes <= CRN_MAX_FILES &&
           p->node < p->nodes && p->nlocal > 0 && p->nlocal <= p->ranks;
}

cairn_err crn_runfile_parse(const char *text, size_t len, struct crn_run_place *ret,
                            struct crn_config *cfg, struct crn_errinfo *ei)
{
    struct crn_run_place place = {0};
    cairn_err rc;

    if (memchr(text, '\0', len) != NULL || !parse_place(text, &place))
        return crn_fail(ei, CAIRN_EDAMAGED, 0,
                        NAME " does not start with the place of a node in its job");
    rc = crn_config_text(cfg, text, NAME, ei);
    if (rc == CAIRN_OK)
        rc = crn_config_check(cfg, ei);
    if (rc == CAIRN_OK)
        *ret = place;
    return rc;
}

cairn_err crn_runfile_read(const struct crn_fs *fs, int dfd, struct crn_run_place *ret,
                           struct crn_config *cfg, struct crn_errinfo *ei)
{
    cairn_err rc;
    void *text;
    size_t len;

    rc = crn_fs_read_file(fs, dfd, NAME, FILE_MAX, &text, &len, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_runfile_parse(text, len, ret, cfg, ei);
    free(text);
    return rc;
}
