/* SPDX-License-Identifier: BSD-3-Clause */
/* The sets of nodes that protect each other: all ranks learn the failure domains of all nodes, and form
 * the same sets. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/session.h"
#include "protect/sets.h"

#define LABEL_MAX 256

static int is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Takes the next word of a line; empty at its end. */
static const char *next_word(const char *line, char ret[LABEL_MAX])
{
    size_t n = 0;

    while (is_space(*line))
        line++;
    for (; *line != '\0' && !is_space(*line); line++)
        if (n + 1 < LABEL_MAX)
            ret[n++] = *line;
    ret[n] = '\0';
    return line;
}

/* The label of this host in a file with lines "HOST LABEL". */
static cairn_err label_in_file(const char *path, char ret[LABEL_MAX], struct crn_errinfo *ei)
{
    char host[LABEL_MAX] = "";
    char name[LABEL_MAX];
    char *line = NULL;
    size_t size = 0;
    int is_found = 0;
    FILE *f;

    (void)gethostname(host, sizeof(host) - 1);
    f = fopen(path, "re");
    if (f == NULL)
        return crn_fail_errno(ei, errno, "failure_domain: open '%s'", path);
    while (!is_found && getline(&line, &size, f) > 0) {
        (void)next_word(next_word(line, name), ret);
        is_found = strcmp(name, host) == 0 && ret[0] != '\0';
    }
    free(line);
    (void)fclose(f);
    if (is_found)
        return CAIRN_OK;
    return crn_fail(ei, CAIRN_ECONFIG, 0,
                    "failure_domain: '%s' has no line for host '%s'; add '%s LABEL'", path, host,
                    host);
}

static cairn_err find_domain(const cairn_session *s, uint64_t *ret, struct crn_errinfo *ei)
{
    const char *text = s->cfg.failure_domain;
    char label[LABEL_MAX];
    const char *value;
    cairn_err rc;

    if (strcmp(text, "host") == 0) {
        *ret = s->host;
    } else if (strcmp(text, "node") == 0) {
        *ret = s->node;
    } else if (strncmp(text, "env:", 4) == 0) {
        value = getenv(text + 4);
        if (value == NULL || value[0] == '\0')
            return crn_fail(ei, CAIRN_ECONFIG, 0,
                            "failure_domain: the variable '%s' is not set on rank %u", text + 4,
                            s->rank);
        *ret = crn_hash(value, strlen(value));
    } else if (strncmp(text, "file:", 5) == 0) {
        rc = label_in_file(text + 5, label, ei);
        if (rc != CAIRN_OK)
            return rc;
        *ret = crn_hash(label, strlen(label));
    } else {
        return crn_fail(ei, CAIRN_ECONFIG, 0,
                        "failure_domain: '%s' is not host, node, env:NAME or file:PATH", text);
    }
    return CAIRN_OK;
}

/* The schemes of all names; the size of sets is that of the one that wants the largest. */
static cairn_err list_schemes(const struct crn_config *cfg, struct crn_protection *ret,
                              uint32_t *ret_n, uint32_t *ret_size, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    size_t i;

    *ret_n = 0;
    *ret_size = (uint32_t)cfg->protect_set;
    for (i = 0; rc == CAIRN_OK && i < cfg->noverrides + 1; i++) {
        const struct crn_name_config *nc =
            i == 0 ? &cfg->names : crn_config_name(cfg, cfg->overrides[i - 1].name);

        rc = crn_scheme_parse(nc->protect, "protect", &ret[*ret_n], ei);
        if (rc != CAIRN_OK || ret[*ret_n].kind == CRN_SCHEME_NONE)
            continue;
        if (cfg->protect_set == 0 && crn_scheme_set(ret[*ret_n]) > *ret_size)
            *ret_size = crn_scheme_set(ret[*ret_n]);
        ++*ret_n;
    }
    return rc;
}

/* The strongest scheme that one checkpoint may ask for: for every number of sets there is one. */
static uint32_t strongest_of(const uint64_t *of_node, uint32_t nodes, uint32_t size,
                             uint32_t *scratch)
{
    struct crn_protection s = {CRN_SCHEME_RS, CRN_SET_MAX - 1};
    struct crn_errinfo ignored = {0};

    for (; s.parity > 0; s.parity--) {
        if (crn_sets_form(of_node, nodes, s, size, scratch, &ignored) == CAIRN_OK)
            break;
        crn_err_clear(&ignored);
    }
    return s.parity;
}

/* domain: of each rank. Without a scheme (n = 0) the sets wait for checkpoints that name one. */
static cairn_err form_sets(cairn_session *s, const uint64_t *domain,
                           const struct crn_protection *scheme, uint32_t n, uint32_t size,
                           struct crn_errinfo *ei)
{
    uint64_t *of_node = calloc(s->nodes, sizeof(*of_node));
    uint32_t *set = calloc(s->nodes, sizeof(*set));
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    if (of_node == NULL || set == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the sets of %u nodes", s->nodes);
    for (i = s->ranks; rc == CAIRN_OK && i-- > 0;)
        of_node[s->node_of[i]] = domain[i];
    if (rc == CAIRN_OK)
        s->strongest = strongest_of(of_node, s->nodes, size, set);
    for (i = 0; rc == CAIRN_OK && i < n; i++) /* all have the same sets */
        rc = crn_sets_form(of_node, s->nodes, scheme[i], size, set, ei);
    if (rc == CAIRN_OK && s->strongest > 0)
        s->nmembers = crn_sets_members(set, s->nodes, s->node, s->member);
    free(of_node);
    free(set);
    return rc;
}

cairn_err crn_session_sets(cairn_session *s, struct crn_errinfo *ei)
{
    struct crn_protection *scheme = calloc(s->cfg.noverrides + 1, sizeof(*scheme));
    uint64_t *domain = calloc(s->ranks, sizeof(*domain));
    uint64_t mine = 0;
    uint32_t size = 0;
    uint32_t n = 0;
    int forms = 0;
    cairn_err rc;

    if (scheme == NULL || domain == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the sets of %u nodes", s->nodes);
    else
        rc = list_schemes(&s->cfg, scheme, &n, &size, ei);
    forms = n > 0 || s->cfg.protect_set > 0;
    if (rc == CAIRN_OK && forms)
        rc = find_domain(s, &mine, ei);
    rc = crn_session_agree(s, rc, "finding the failure domains", ei);
    if (rc == CAIRN_OK && forms)
        rc = s->comm->ops->allgather(s->comm, &mine, sizeof(mine), domain, ei);
    if (rc == CAIRN_OK && domain != NULL && forms)
        rc = form_sets(s, domain, scheme, n, size, ei);
    free(scheme);
    free(domain);
    return rc;
}
