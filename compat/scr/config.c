/* SPDX-License-Identifier: BSD-3-Clause */
/* Parameters that Cairn needs no setting for are known and listed as ignored; so are unknown ones. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Parameters that have an effect, here or in scr_run. */
static const char *const effective[] = {"SCR_CACHE_BASE",
                                        "SCR_CACHE_BYPASS",
                                        "SCR_CACHE_SIZE",
                                        "SCR_CHECKPOINT_INTERVAL",
                                        "SCR_CHECKPOINT_OVERHEAD",
                                        "SCR_CHECKPOINT_SECONDS",
                                        "SCR_CONF_FILE",
                                        "SCR_COPY_TYPE",
                                        "SCR_CURRENT",
                                        "SCR_DEBUG",
                                        "SCR_ENABLE",
                                        "SCR_END_TIME",
                                        "SCR_FETCH",
                                        "SCR_FLUSH",
                                        "SCR_FLUSH_ASYNC",
                                        "SCR_FLUSH_ON_EXIT",
                                        "SCR_GROUP",
                                        "SCR_HALT_ENABLED",
                                        "SCR_HALT_SECONDS",
                                        "SCR_PREFIX",
                                        "SCR_PREFIX_SIZE",
                                        "SCR_RUNS",
                                        "SCR_SET_FAILURES",
                                        "SCR_SET_SIZE",
                                        "CKPT",
                                        "GROUPS"};

static void config_ignore(struct crn_scr_config *cfg, const char *key)
{
    size_t used = strlen(cfg->ignored);

    if (strstr(cfg->ignored, key) == NULL) /* a prefix of a named one is not worth a word */
        (void)snprintf(cfg->ignored + used, sizeof(cfg->ignored) - used, "%s%s",
                       used > 0 ? ", " : "", key);
}

static void list_ignored(struct crn_scr_config *cfg, const struct crn_scr_lines *lines)
{
    size_t i, k;

    for (i = 0; i < lines->n; i++) {
        const char *key = lines->v[i].pair[0].key;

        for (k = 0; k < sizeof(effective) / sizeof(effective[0]); k++)
            if (strcmp(key, effective[k]) == 0)
                break;
        if (k == sizeof(effective) / sizeof(effective[0]))
            config_ignore(cfg, key);
    }
}

static void list_environment(struct crn_scr_config *cfg)
{
    extern char **environ;
    char **e;
    size_t k;

    for (e = environ; *e != NULL; e++) {
        size_t len = strcspn(*e, "=");
        char key[64];

        if (strncmp(*e, "SCR_", 4) != 0 || len >= sizeof(key))
            continue;
        memcpy(key, *e, len);
        key[len] = '\0';
        for (k = 0; k < sizeof(effective) / sizeof(effective[0]); k++)
            if (strcmp(key, effective[k]) == 0)
                break;
        if (k == sizeof(effective) / sizeof(effective[0]))
            config_ignore(cfg, key);
    }
}

/* Values. -------------------------------------------------------------------------------------- */

static cairn_err config_number(const struct crn_scr_params *p, const char *key, uint64_t *ret,
                               struct crn_errinfo *ei)
{
    const char *text = crn_scr_params_get(p, key);
    char *end;
    long long n;

    if (text == NULL || text[0] == '\0')
        return CAIRN_OK;
    n = strtoll(text, &end, 10);
    if (end == text || *end != '\0')
        return crn_fail(ei, CAIRN_ECONFIG, 0, "%s = %s is not a number", key, text);
    *ret = n > 0 ? (uint64_t)n : 0;
    return CAIRN_OK;
}

static cairn_err config_flag(const struct crn_scr_params *p, const char *key, int *ret,
                             struct crn_errinfo *ei)
{
    uint64_t n = (uint64_t)*ret;
    cairn_err rc = config_number(p, key, &n, ei);

    *ret = n != 0;
    return rc;
}

static cairn_err text_value(const struct crn_scr_params *p, const char *key, char *ret, size_t size,
                            struct crn_errinfo *ei)
{
    const char *text = crn_scr_params_get(p, key);

    if (text != NULL && (size_t)snprintf(ret, size, "%s", text) >= size)
        return crn_fail(ei, CAIRN_ECONFIG, 0, "the value of %s is too long", key);
    return CAIRN_OK;
}

/* The prefix as an absolute path: datasets store their files relative to it. */
static cairn_err find_prefix(const struct crn_scr_params *p, struct crn_scr_config *cfg,
                             struct crn_errinfo *ei)
{
    const char *text = crn_scr_params_get(p, "SCR_PREFIX");
    char cwd[CRN_PATH_MAX];
    size_t n;

    if (getcwd(cwd, sizeof(cwd)) == NULL)
        return crn_fail(ei, CAIRN_ECONFIG, 0, "the current directory has no path");
    n = (size_t)snprintf(
        cfg->prefix, sizeof(cfg->prefix), "%s%s%s", text != NULL && text[0] == '/' ? "" : cwd,
        text != NULL && text[0] != '/' && text[0] != '\0' ? "/" : "", text != NULL ? text : "");
    if (n >= sizeof(cfg->prefix))
        return crn_fail(ei, CAIRN_ECONFIG, 0, "the value of SCR_PREFIX is too long");
    while (n > 1 && cfg->prefix[n - 1] == '/')
        cfg->prefix[--n] = '\0';
    return CAIRN_OK;
}

static cairn_err add_ckpt(struct crn_scr_config *cfg, const struct crn_scr_line *l,
                          struct crn_errinfo *ei)
{
    struct crn_scr_ckpt c = {.interval = 1, .failures = cfg->failures, .is_direct = -1};
    size_t i;

    (void)snprintf(c.type, sizeof(c.type), "%s", cfg->type);
    for (i = 1; i < l->n; i++) {
        const char *key = l->pair[i].key;
        const char *value = l->pair[i].value != NULL ? l->pair[i].value : "";

        if (strcmp(key, "INTERVAL") == 0)
            c.interval = strtoull(value, NULL, 10);
        else if (strcmp(key, "TYPE") == 0)
            (void)snprintf(c.type, sizeof(c.type), "%s", value);
        else if (strcmp(key, "BYPASS") == 0)
            c.is_direct = atoi(value) != 0;
        else if (strcmp(key, "SET_FAILURES") == 0)
            c.failures = strtoull(value, NULL, 10);
        else if (strcmp(key, "SET_SIZE") == 0)
            cfg->set_size = strtoull(value, NULL, 10);
        else if (strcmp(key, "GROUP") == 0)
            (void)snprintf(cfg->group, sizeof(cfg->group), "%s", value);
    }
    if (c.interval == 0 || crn_face_level(c.type) == NULL)
        return crn_fail(ei, CAIRN_ECONFIG, 0,
                        "CKPT=%s: INTERVAL is at least 1, TYPE is SINGLE, PARTNER, XOR or RS",
                        l->pair[0].value);
    if (cfg->nckpts == CRN_SCR_CKPTS)
        return crn_fail(ei, CAIRN_ECONFIG, 0, "more than %d CKPT lines", CRN_SCR_CKPTS);
    cfg->ckpt[cfg->nckpts++] = c;
    return CAIRN_OK;
}

static cairn_err add_ckpts(struct crn_scr_config *cfg, const struct crn_scr_lines *lines,
                           struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    size_t i;

    for (i = 0; rc == CAIRN_OK && i < lines->n; i++)
        if (strcmp(lines->v[i].pair[0].key, "CKPT") == 0)
            rc = add_ckpt(cfg, &lines->v[i], ei);
    return rc;
}

static cairn_err load_numbers(const struct crn_scr_params *p, struct crn_scr_config *cfg,
                              struct crn_errinfo *ei)
{
    const struct {
        const char *key;
        uint64_t *at;
    } rows[] = {{"SCR_FLUSH", &cfg->flush},
                {"SCR_CACHE_SIZE", &cfg->cache_size},
                {"SCR_PREFIX_SIZE", &cfg->prefix_size},
                {"SCR_CHECKPOINT_INTERVAL", &cfg->interval},
                {"SCR_CHECKPOINT_SECONDS", &cfg->seconds},
                {"SCR_HALT_SECONDS", &cfg->halt_seconds},
                {"SCR_SET_FAILURES", &cfg->failures},
                {"SCR_SET_SIZE", &cfg->set_size}};
    const struct {
        const char *key;
        int *at;
    } flags[] = {{"SCR_ENABLE", &cfg->is_enabled},
                 {"SCR_FETCH", &cfg->is_fetch},
                 {"SCR_CACHE_BYPASS", &cfg->is_direct},
                 {"SCR_FLUSH_ASYNC", &cfg->is_flush_async},
                 {"SCR_FLUSH_ON_EXIT", &cfg->is_finalize_flush},
                 {"SCR_HALT_ENABLED", &cfg->is_halt_enabled}};
    cairn_err rc = CAIRN_OK;
    size_t i;

    for (i = 0; rc == CAIRN_OK && i < sizeof(rows) / sizeof(rows[0]); i++)
        rc = config_number(p, rows[i].key, rows[i].at, ei);
    for (i = 0; rc == CAIRN_OK && i < sizeof(flags) / sizeof(flags[0]); i++)
        rc = config_flag(p, flags[i].key, flags[i].at, ei);
    return rc;
}

/* Lines "GROUPS=HOST POWER=1 SWITCH=0": writes "HOST LABEL" for those that name the group. */
static size_t config_groups(const struct crn_scr_params *p, const char *group, FILE *out)
{
    const struct crn_scr_lines *lines = p->user.n > 0 ? &p->user : &p->app;
    size_t count = 0;
    size_t i, k;

    for (i = 0; i < lines->n; i++) {
        const struct crn_scr_line *l = &lines->v[i];

        for (k = 1; strcmp(l->pair[0].key, "GROUPS") == 0 && k < l->n; k++)
            if (strcmp(l->pair[k].key, group) == 0 && l->pair[0].value != NULL &&
                l->pair[k].value != NULL) {
                if (out != NULL)
                    (void)fprintf(out, "%s %s\n", l->pair[0].value, l->pair[k].value);
                count++;
            }
    }
    return count;
}

void crn_scr_config_groups(const struct crn_scr_params *p, const char *group, FILE *out)
{
    (void)config_groups(p, group, out);
}

cairn_err crn_scr_config_load(const struct crn_scr_params *p, struct crn_scr_config *cfg,
                              struct crn_errinfo *ei)
{
    uint64_t end = 0, debug = 0;
    const char *text;
    cairn_err rc;

    memset(cfg, 0, sizeof(*cfg));
    cfg->is_enabled = cfg->is_fetch = cfg->is_direct = 1;
    cfg->is_finalize_flush = cfg->is_halt_enabled = 1;
    cfg->flush = 10;
    cfg->cache_size = 1;
    cfg->failures = 2;
    cfg->set_size = 8;
    (void)snprintf(cfg->type, sizeof(cfg->type), "XOR");
    (void)snprintf(cfg->group, sizeof(cfg->group), "NODE");
    rc = load_numbers(p, cfg, ei);
    if (rc == CAIRN_OK)
        rc = config_number(p, "SCR_END_TIME", &end, ei);
    if (rc == CAIRN_OK)
        rc = config_number(p, "SCR_DEBUG", &debug, ei);
    if (rc == CAIRN_OK)
        rc = text_value(p, "SCR_CACHE_BASE", cfg->cache, sizeof(cfg->cache), ei);
    if (rc == CAIRN_OK)
        rc = text_value(p, "SCR_CURRENT", cfg->current, sizeof(cfg->current), ei);
    if (rc == CAIRN_OK)
        rc = text_value(p, "SCR_COPY_TYPE", cfg->type, sizeof(cfg->type), ei);
    if (rc == CAIRN_OK)
        rc = text_value(p, "SCR_GROUP", cfg->group, sizeof(cfg->group), ei);
    if (rc == CAIRN_OK && crn_face_level(cfg->type) == NULL)
        rc = crn_fail(ei, CAIRN_ECONFIG, 0, "SCR_COPY_TYPE = %s: it is SINGLE, PARTNER, XOR or RS",
                      cfg->type);
    if (rc == CAIRN_OK)
        rc = find_prefix(p, cfg, ei);
    if (rc == CAIRN_OK)
        rc = add_ckpts(cfg, p->user.n > 0 ? &p->user : &p->app, ei);
    cfg->has_groups = config_groups(p, cfg->group, NULL) > 0;
    cfg->end_time = (int64_t)end;
    cfg->debug = (int)debug;
    text = crn_scr_params_get(p, "SCR_CHECKPOINT_OVERHEAD");
    cfg->overhead = text != NULL ? atof(text) : 0;
    list_ignored(cfg, &p->user);
    list_ignored(cfg, &p->app);
    list_environment(cfg);
    return rc;
}

void crn_scr_config_settings(const struct crn_scr_config *cfg, struct crn_face_settings *ret)
{
    crn_settings_set(ret, "persistent", "%s/.scr/cairn", cfg->prefix);
    if (cfg->cache[0] != '\0') {
        crn_settings_set(ret, "local", "%s", cfg->cache);
        crn_settings_set(ret, "arena_full", "spill");
    }
    crn_settings_set(ret, "keep_local", "%" PRIu64, cfg->cache_size);
    crn_settings_set(ret, "on_failure", "continue"); /* the call that waits reports it */
    /* Numbers of datasets only grow, so a run that restored nothing replaces nothing. */
    crn_settings_set(ret, "fresh", "on");
    /* SCR_Have_restart cannot distinguish "not saved yet" from "none". The log names them. */
    crn_settings_set(ret, "restart_unsaved", "older");
    /* With a broker, a dataset that SCR_Complete_output has promised gets a turn of its own. */
    crn_settings_set(ret, "supersede", "off");
    if (cfg->set_size > 1)
        crn_settings_set(ret, "protect_set", "%" PRIu64,
                         cfg->set_size < CRN_FACE_SET_MAX ? cfg->set_size : CRN_FACE_SET_MAX);
    if (cfg->has_groups)
        crn_settings_set(ret, "failure_domain", "file:%s/.scr/" CRN_SCR_GROUPS_FILE, cfg->prefix);
    if (cfg->debug > 0)
        crn_settings_set(ret, "log_level", "%s", cfg->debug > 1 ? "debug" : "info");
}

const struct crn_scr_ckpt *crn_scr_config_ckpt(const struct crn_scr_config *cfg, uint64_t n)
{
    const struct crn_scr_ckpt *best = NULL;
    int i;

    for (i = 0; i < cfg->nckpts; i++)
        if (n % cfg->ckpt[i].interval == 0 &&
            (best == NULL || cfg->ckpt[i].interval > best->interval))
            best = &cfg->ckpt[i];
    return best;
}

const struct crn_face_level *crn_scr_config_level(const struct crn_scr_config *cfg, uint64_t n,
                                                  char scheme[CRN_FACE_SCHEME])
{
    const struct crn_scr_ckpt *c = crn_scr_config_ckpt(cfg, n);
    const struct crn_face_level *level = crn_face_level(c != NULL ? c->type : cfg->type);

    crn_face_scheme(level, (uint32_t)(c != NULL ? c->failures : cfg->failures), scheme);
    return level;
}
