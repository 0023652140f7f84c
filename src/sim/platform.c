/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a platform: one [platform] section and a [class NAME] section per kind of job. A job's
 * sizes may be percentages of its memory, which is known only at the end, so they are stored as
 * written until then. */
#include "sim/platform.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct size {
    double value;
    int is_percent; /* of the job's memory */
    int is_set;
};

struct class_text {
    char name[32];
    double share, work_s, nodes, cores;
    struct size input, output, checkpoint;
};

struct platform_parser {
    struct crn_platform p;
    double cores_per_node, memory_per_node, system_mtbf_s;
    struct class_text cls[CRN_PLATFORM_CLASSES];
    size_t n;
    char section[64]; /* the current section; ini passes it with each key */
    struct crn_errinfo *ei;
    const char *what;
};

static cairn_err parse_size(const char *text, struct size *ret, struct crn_errinfo *ei)
{
    ret->is_set = 1;
    ret->is_percent = strchr(text, '%') != NULL;
    return ret->is_percent ? crn_quantity_percent(text, &ret->value, ei)
                           : crn_quantity_bytes(text, &ret->value, ei);
}

static cairn_err platform_key(struct platform_parser *ps, const char *key, const char *value)
{
    struct crn_errinfo *ei = ps->ei;

    if (strcmp(key, "name") == 0 || strcmp(key, "about") == 0) {
        char *dst = key[0] == 'n' ? ps->p.name : ps->p.about;
        size_t size = key[0] == 'n' ? sizeof(ps->p.name) : sizeof(ps->p.about);

        if ((size_t)snprintf(dst, size, "%s", value) >= size)
            return crn_fail(ei, CAIRN_EINVAL, 0, "'%s' is too long", value);
        return CAIRN_OK;
    }
    if (strcmp(key, "nodes") == 0)
        return crn_quantity_number(value, &ps->p.nodes, ei);
    if (strcmp(key, "cores_per_node") == 0)
        return crn_quantity_number(value, &ps->cores_per_node, ei);
    if (strcmp(key, "memory_per_node") == 0)
        return crn_quantity_bytes(value, &ps->memory_per_node, ei);
    if (strcmp(key, "bandwidth") == 0)
        return crn_quantity_bytes(value, &ps->p.bandwidth, ei);
    if (strcmp(key, "node_mtbf") == 0)
        return crn_quantity_time(value, &ps->p.node_mtbf_s, ei);
    if (strcmp(key, "system_mtbf") == 0)
        return crn_quantity_time(value, &ps->system_mtbf_s, ei);
    if (strcmp(key, "spread") == 0)
        return crn_quantity_percent(value, &ps->p.spread, ei);
    return crn_fail(ei, CAIRN_EINVAL, 0, "unknown key '%s' in [platform]", key);
}

static cairn_err class_key(struct class_text *c, const char *key, const char *value,
                           struct crn_errinfo *ei)
{
    if (strcmp(key, "share") == 0)
        return crn_quantity_percent(value, &c->share, ei);
    if (strcmp(key, "work") == 0)
        return crn_quantity_time(value, &c->work_s, ei);
    if (strcmp(key, "nodes") == 0)
        return crn_quantity_number(value, &c->nodes, ei);
    if (strcmp(key, "cores") == 0)
        return crn_quantity_number(value, &c->cores, ei);
    if (strcmp(key, "input") == 0)
        return parse_size(value, &c->input, ei);
    if (strcmp(key, "output") == 0)
        return parse_size(value, &c->output, ei);
    if (strcmp(key, "checkpoint") == 0)
        return parse_size(value, &c->checkpoint, ei);
    return crn_fail(ei, CAIRN_EINVAL, 0, "unknown key '%s' in [class %s]", key, c->name);
}

static cairn_err class_section(struct platform_parser *ps, const char *name,
                               struct class_text **ret)
{
    size_t i;

    for (i = 0; i < ps->n; i++)
        if (strcmp(ps->cls[i].name, name) == 0) {
            *ret = &ps->cls[i];
            return CAIRN_OK;
        }
    if (ps->n == CRN_PLATFORM_CLASSES)
        return crn_fail(ps->ei, CAIRN_ELIMIT, 0, "more than %d classes", CRN_PLATFORM_CLASSES);
    *ret = &ps->cls[ps->n++];
    if ((size_t)snprintf((*ret)->name, sizeof((*ret)->name), "%s", name) >= sizeof((*ret)->name))
        return crn_fail(ps->ei, CAIRN_EINVAL, 0, "class name '%s' is too long", name);
    return CAIRN_OK;
}

/* inih callback: 1 to continue, 0 for an error; the reason is in ps->ei. */
static int on_key(void *user, const char *section, const char *key, const char *value)
{
    struct platform_parser *ps = user;
    struct class_text *c = NULL;

    if (ps->ei->code != CAIRN_OK)
        return 0;
    if (strcmp(section, "platform") == 0)
        return platform_key(ps, key, value) == CAIRN_OK;
    if (strncmp(section, "class ", 6) != 0)
        return crn_fail(ps->ei, CAIRN_EINVAL, 0, "unknown section [%s]", section) == CAIRN_OK;
    return class_section(ps, section + 6, &c) == CAIRN_OK &&
           class_key(c, key, value, ps->ei) == CAIRN_OK;
}

static double job_bytes(const struct size *s, double memory_bytes)
{
    return s->is_percent ? s->value * memory_bytes : s->value;
}

static cairn_err finish_class(const struct platform_parser *ps, const struct class_text *c,
                              struct crn_platform_class *ret)
{
    double memory;

    memcpy(ret->name, c->name, sizeof(ret->name));
    if (c->cores > 0 && ps->cores_per_node <= 0)
        return crn_fail(ps->ei, CAIRN_ECONFIG, 0,
                        "class %s has cores, but cores_per_node is not set", c->name);
    ret->nodes = c->nodes > 0 ? c->nodes : ceil(c->cores / fmax(ps->cores_per_node, 1));
    if (!(ret->nodes >= 1) || ret->nodes > ps->p.nodes)
        return crn_fail(ps->ei, CAIRN_ECONFIG, 0, "class %s does not fit: %g nodes of %g", c->name,
                        ret->nodes, ps->p.nodes);
    if (!(c->share > 0) || !(c->work_s > 0) || !c->input.is_set || !c->output.is_set ||
        !c->checkpoint.is_set || !(c->checkpoint.value > 0))
        return crn_fail(ps->ei, CAIRN_ECONFIG, 0,
                        "class %s needs share, work, input, output and checkpoint", c->name);
    memory = ret->nodes * ps->memory_per_node;
    ret->share = c->share;
    ret->work_s = c->work_s;
    ret->input_bytes = job_bytes(&c->input, memory);
    ret->output_bytes = job_bytes(&c->output, memory);
    ret->checkpoint_bytes = job_bytes(&c->checkpoint, memory);
    return CAIRN_OK;
}

static cairn_err platform_finish(void *state)
{
    struct platform_parser *ps = state;
    struct crn_platform *p = &ps->p;
    double shares = 0;
    size_t i;

    if (p->name[0] == '\0' || !(p->nodes >= 1) || !(p->bandwidth > 0) ||
        !(ps->memory_per_node > 0) || ps->n == 0)
        return crn_fail(ps->ei, CAIRN_ECONFIG, 0,
                        "a platform needs name, nodes, memory_per_node, bandwidth and a class");
    if (p->node_mtbf_s > 0 && ps->system_mtbf_s > 0)
        return crn_fail(ps->ei, CAIRN_ECONFIG, 0, "set node_mtbf or system_mtbf, not both");
    if (p->spread >= 1)
        return crn_fail(ps->ei, CAIRN_ECONFIG, 0, "spread must be below 100 %%");
    if (ps->system_mtbf_s > 0)
        p->node_mtbf_s = ps->system_mtbf_s * p->nodes;
    for (i = 0; i < ps->n; i++) {
        cairn_err rc = finish_class(ps, &ps->cls[i], &p->cls[i]);

        if (rc != CAIRN_OK)
            return rc;
        shares += p->cls[i].share;
    }
    p->nclasses = ps->n;
    if (fabs(shares - 1) > 0.005)
        return crn_fail(ps->ei, CAIRN_ECONFIG, 0, "the shares add up to %g %%, not 100 %%",
                        100 * shares);
    for (i = 0; i < ps->n; i++)
        p->cls[i].share /= shares;
    return CAIRN_OK;
}

static cairn_err platform_parse(const char *text, const char *what, void *ret,
                                struct crn_errinfo *ei)
{
    struct crn_errinfo own = {0};
    struct platform_parser ps = {.p = {.spread = 0.2}, .ei = &own};
    const struct crn_text_parser parser = {on_key, platform_finish, &ps, &own};
    cairn_err rc = crn_text_parse(text, what, &parser, ei);

    if (rc == CAIRN_OK)
        memcpy(ret, &ps.p, sizeof(ps.p));
    return rc;
}

cairn_err crn_platform_parse(const char *text, const char *what, struct crn_platform *ret,
                             struct crn_errinfo *ei)
{
    return platform_parse(text, what, ret, ei);
}

cairn_err crn_platform_load(const char *name_or_path, struct crn_platform *ret,
                            struct crn_errinfo *ei)
{
    return crn_text_load(crn_platform_texts, "platform", name_or_path, platform_parse, ret, ei);
}
