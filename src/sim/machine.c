/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a machine: one [machine] section, one row of the table below per key. */
#include "sim/machine.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef cairn_err (*parse_fn)(const char *text, double *ret, struct crn_errinfo *ei);

#define AT(field) offsetof(struct crn_machine, field)

static const struct key {
    const char *name;
    parse_fn parse;
    size_t offset;
    int is_needed;
} keys[] = {
    {"nodes", crn_quantity_number, AT(nodes), 1},
    {"ranks_per_node", crn_quantity_number, AT(ranks_per_node), 1},
    {"rank_bytes", crn_quantity_bytes, AT(rank_bytes), 1},
    {"nic_out", crn_quantity_bytes, AT(nic_out), 1},
    {"nic_in", crn_quantity_bytes, AT(nic_in), 1},
    {"writer", crn_quantity_bytes, AT(writer), 1},
    {"best_writers", crn_quantity_number, AT(best_writers), 0},
    {"crowding", crn_quantity_percent, AT(crowding), 0},
    {"write_latency", crn_quantity_time, AT(write_latency_s), 0},
    {"bandwidth", crn_quantity_bytes, AT(bandwidth), 1},
    {"osts", crn_quantity_number, AT(osts), 0},
    {"ost", crn_quantity_bytes, AT(ost), 0},
    {"creates", crn_quantity_number, AT(creates), 0},
    {"speed_spread", crn_quantity_percent, AT(speed_spread), 0},
};
#define NKEYS (sizeof(keys) / sizeof(keys[0]))

struct machine_parser {
    struct crn_machine m;
    int is_set[NKEYS];
    struct crn_errinfo *ei;
};

static double *machine_field(struct crn_machine *m, const struct key *k)
{
    return (double *)(void *)((char *)m + k->offset);
}

static cairn_err take_text(char *dst, size_t size, const char *value, struct crn_errinfo *ei)
{
    if ((size_t)snprintf(dst, size, "%s", value) >= size)
        return crn_fail(ei, CAIRN_EINVAL, 0, "'%s' is too long", value);
    return CAIRN_OK;
}

static cairn_err take_key(struct machine_parser *ps, const char *name, const char *value)
{
    size_t i;

    if (strcmp(name, "name") == 0)
        return take_text(ps->m.name, sizeof(ps->m.name), value, ps->ei);
    if (strcmp(name, "about") == 0)
        return take_text(ps->m.about, sizeof(ps->m.about), value, ps->ei);
    for (i = 0; i < NKEYS; i++)
        if (strcmp(keys[i].name, name) == 0) {
            ps->is_set[i] = 1;
            return keys[i].parse(value, machine_field(&ps->m, &keys[i]), ps->ei);
        }
    return crn_fail(ps->ei, CAIRN_EINVAL, 0, "unknown key '%s' in [machine]", name);
}

/* inih callback: 1 to continue, 0 for an error; the reason is in ps->ei. */
static int on_key(void *user, const char *section, const char *key, const char *value)
{
    struct machine_parser *ps = user;

    if (ps->ei->code != CAIRN_OK)
        return 0;
    if (strcmp(section, "machine") != 0)
        return crn_fail(ps->ei, CAIRN_EINVAL, 0, "unknown section [%s]", section) == CAIRN_OK;
    return take_key(ps, key, value) == CAIRN_OK;
}

static cairn_err machine_finish(void *state)
{
    struct machine_parser *ps = state;
    struct crn_machine *m = &ps->m;
    size_t i;

    for (i = 0; i < NKEYS; i++) {
        if (keys[i].is_needed && !ps->is_set[i])
            return crn_fail(ps->ei, CAIRN_ECONFIG, 0, "a machine needs %s", keys[i].name);
        if (keys[i].is_needed && !(*machine_field(m, &keys[i]) > 0))
            return crn_fail(ps->ei, CAIRN_ECONFIG, 0, "%s must be above 0", keys[i].name);
    }
    if (m->name[0] == '\0')
        return crn_fail(ps->ei, CAIRN_ECONFIG, 0, "a machine needs name");
    if (m->nodes < 1 || m->nodes > CRN_MACHINE_MAX_NODES || m->ranks_per_node < 1 ||
        m->ranks_per_node > 65536 || m->osts > 1 << 20)
        return crn_fail(ps->ei, CAIRN_ECONFIG, 0,
                        "a machine has 1 to %d nodes and at least one rank a node",
                        CRN_MACHINE_MAX_NODES);
    if (m->osts > 0 && !(m->osts >= 1))
        return crn_fail(ps->ei, CAIRN_ECONFIG, 0, "osts must be at least 1");
    m->osts = floor(m->osts);
    if (m->osts > 0 && !(m->ost > 0))
        m->ost = m->bandwidth / m->osts;
    if (!(m->crowding > 0) || m->crowding > 1 || m->speed_spread > 0.25)
        return crn_fail(ps->ei, CAIRN_ECONFIG, 0,
                        "crowding is above 0 and at most 100 %%, speed_spread at most 25 %%");
    return CAIRN_OK;
}

static cairn_err machine_parse(const char *text, const char *what, void *ret,
                               struct crn_errinfo *ei)
{
    struct crn_errinfo own = {0};
    struct machine_parser ps = {.m = {.best_writers = 8, .crowding = 1}, .ei = &own};
    const struct crn_text_parser parser = {on_key, machine_finish, &ps, &own};
    cairn_err rc = crn_text_parse(text, what, &parser, ei);

    if (rc == CAIRN_OK)
        memcpy(ret, &ps.m, sizeof(ps.m));
    return rc;
}

cairn_err crn_machine_parse(const char *text, const char *what, struct crn_machine *ret,
                            struct crn_errinfo *ei)
{
    return machine_parse(text, what, ret, ei);
}

cairn_err crn_machine_load(const char *name_or_path, struct crn_machine *ret,
                           struct crn_errinfo *ei)
{
    return crn_text_load(crn_machine_texts, "machine", name_or_path, machine_parse, ret, ei);
}
