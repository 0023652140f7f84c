/* SPDX-License-Identifier: BSD-3-Clause */
/* How values are checked, which source wins, and which keys must be consistent with each other.
 * Knows the keys only through their table. */
#include "base/config.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/config_impl.h"

#define FAR 4 /* a name that needs more edits is not suggested */

/* Edit distance (insert, delete or replace one letter) from a to b; cap + 1 if it exceeds cap. */
static size_t config_edits(const char *a, const char *b, size_t cap)
{
    size_t row[64];
    size_t nb = strlen(b);
    size_t i, j;

    if (nb >= sizeof(row) / sizeof(row[0]))
        return cap + 1;
    for (j = 0; j <= nb; j++)
        row[j] = j;
    for (i = 1; a[i - 1] != '\0'; i++) {
        size_t corner = row[0];

        row[0] = i;
        for (j = 1; j <= nb; j++) {
            size_t replaced = corner + (a[i - 1] != b[j - 1]);
            size_t other = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);

            corner = row[j];
            row[j] = replaced < other ? replaced : other;
        }
    }
    return row[nb] > cap ? cap + 1 : row[nb];
}

static const char *config_nearest(const char *name)
{
    const char *best = NULL;
    size_t least = FAR + 1;
    size_t i, n;
    const struct crn_key *keys = crn_config_keys(&n);

    for (i = 0; i < n; i++) {
        size_t d = config_edits(name, keys[i].name, FAR);

        if (d < least && d < strlen(name)) {
            least = d;
            best = keys[i].name;
        }
    }
    return best;
}

static const struct crn_key *find_key(const char *name)
{
    size_t i, n;
    const struct crn_key *keys = crn_config_keys(&n);

    for (i = 0; i < n; i++)
        if (strcasecmp(keys[i].name, name) == 0)
            return &keys[i];
    return NULL;
}

/* Replaces a retired value by its successor and records a warning. Returns 0 if the whole setting
 * must be ignored. */
static int config_renew(struct crn_config *cfg, const char *key, const char *what,
                        const char **value)
{
    const struct crn_retired *r;

    for (r = crn_config_retired(); r->key != NULL; r++) {
        if (strcasecmp(r->key, key) != 0 || (r->value != NULL && strcasecmp(r->value, *value) != 0))
            continue;
        if (cfg->retired[0] == '\0' && r->value != NULL)
            (void)snprintf(cfg->retired, sizeof(cfg->retired),
                           "%s: %s = %s is retired and means %s; change it", what, key, *value,
                           r->now);
        else if (cfg->retired[0] == '\0')
            (void)snprintf(cfg->retired, sizeof(cfg->retired),
                           "%s: the key '%s' is retired and ignored; remove it", what, key);
        *value = r->now;
        return r->value != NULL;
    }
    return 1;
}

static cairn_err config_unknown(const char *key, const char *what, struct crn_errinfo *ei)
{
    const char *near = config_nearest(key);

    if (near != NULL)
        return crn_fail(ei, CAIRN_ECONFIG, 0, "%s: unknown key '%s'; did you mean '%s'?", what, key,
                        near);
    return crn_fail(ei, CAIRN_ECONFIG, 0, "%s: unknown key '%s'; `cairn config --doc` lists them",
                    what, key);
}

/* Values. -------------------------------------------------------------------------------------- */

static cairn_err parse_number(const struct crn_key *key, const char *text, uint64_t *ret,
                              struct crn_errinfo *ei)
{
    if (key->type == CRN_KEY_TIME)
        return crn_parse_time(text, ret, ei);
    if (strcmp(text, "auto") == 0 && strcmp(key->def, "auto") != 0)
        return crn_fail(ei, CAIRN_ECONFIG, 0, "'auto' is not possible");
    if (key->type == CRN_KEY_U64 && strspn(text, "0123456789") != strlen(text) &&
        strcmp(text, "auto") != 0)
        return crn_fail(ei, CAIRN_ECONFIG, 0, "'%s' is not a number", text);
    return crn_parse_bytes(text, ret, ei);
}

static void format_number(const struct crn_key *key, uint64_t value, char *buf, size_t size)
{
    if ((value == 0 && strcmp(key->def, "auto") == 0) ||
        (value == CRN_SIZE_AUTO && key->values != NULL))
        (void)snprintf(buf, size, "auto");
    else if (key->type == CRN_KEY_TIME)
        crn_format_time(value, buf, size);
    else if (key->type == CRN_KEY_BYTES)
        crn_format_bytes(value, buf, size);
    else
        (void)snprintf(buf, size, "%" PRIu64, value);
}

void crn_key_range(const struct crn_key *key, char *buf, size_t size)
{
    char min[32], max[32];

    format_number(key, key->min, min, sizeof(min));
    format_number(key, key->max, max, sizeof(max));
    (void)snprintf(buf, size, "%s .. %s", min, max);
}

static cairn_err set_number(const struct crn_key *key, const char *text, uint64_t *field,
                            struct crn_errinfo *ei)
{
    char range[80];
    uint64_t value;
    cairn_err rc;

    if (key->values != NULL && strcmp(text, key->values[0]) == 0) {
        *field = CRN_SIZE_AUTO;
        return CAIRN_OK;
    }
    rc = parse_number(key, text, &value, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (value < key->min || value > key->max) {
        crn_key_range(key, range, sizeof(range));
        return crn_fail(ei, CAIRN_ECONFIG, 0, "'%s' is out of range; allowed is %s", text, range);
    }
    *field = value;
    return CAIRN_OK;
}

static cairn_err set_enum(const struct crn_key *key, const char *text, uint64_t *field,
                          struct crn_errinfo *ei)
{
    char all[128] = "";
    uint64_t i;

    for (i = 0; key->values[i] != NULL; i++) {
        size_t used = strlen(all);

        if (strcasecmp(key->values[i], text) == 0) {
            *field = i;
            return CAIRN_OK;
        }
        (void)snprintf(all + used, sizeof(all) - used, "%s%s", i > 0 ? ", " : "", key->values[i]);
    }
    return crn_fail(ei, CAIRN_ECONFIG, 0, "'%s' is not one of: %s", text, all);
}

/* Accepts only what an INI line can carry, so that every dump can be read back. */
static cairn_err set_text(const struct crn_key *key, const char *text, char *field,
                          struct crn_errinfo *ei)
{
    size_t n = strlen(text);
    size_t i;

    if (n >= key->max)
        return crn_fail(ei, CAIRN_ECONFIG, 0, "'%.20s...' is longer than %" PRIu64 " bytes", text,
                        key->max - 1);
    for (i = 0; i < n; i++)
        if (iscntrl((unsigned char)text[i]))
            return crn_fail(ei, CAIRN_ECONFIG, 0, "control characters are not allowed");
    if (n > 0 && (text[0] == ' ' || text[n - 1] == ' ' || text[0] == ';' || strstr(text, " ;")))
        return crn_fail(ei, CAIRN_ECONFIG, 0,
                        "'%s' begins or ends with a blank, or holds a blank before ';'", text);
    memcpy(field, text, n + 1);
    return CAIRN_OK;
}

cairn_err crn_key_set(const struct crn_key *key, void *base, const char *text,
                      struct crn_errinfo *ei)
{
    char *field = (char *)base + key->offset;

    switch (key->type) {
    case CRN_KEY_TEXT:
        return set_text(key, text, field, ei);
    case CRN_KEY_ENUM:
        return set_enum(key, text, (uint64_t *)(void *)field, ei);
    case CRN_KEY_EVERY:
        return crn_parse_every(text, (struct crn_every *)(void *)field, ei);
    case CRN_KEY_U64:
    case CRN_KEY_BYTES:
    case CRN_KEY_TIME:
        break;
    }
    return set_number(key, text, (uint64_t *)(void *)field, ei);
}

void crn_key_format(const struct crn_key *key, const void *base, char *buf, size_t size)
{
    const char *field = (const char *)base + key->offset;
    uint64_t value;

    if (key->type == CRN_KEY_TEXT) {
        (void)snprintf(buf, size, "%s", field);
        return;
    }
    if (key->type == CRN_KEY_EVERY) {
        crn_format_every((const struct crn_every *)(const void *)field, buf, size);
        return;
    }
    memcpy(&value, field, sizeof(value));
    if (key->type == CRN_KEY_ENUM)
        (void)snprintf(buf, size, "%s", key->values[value]);
    else
        format_number(key, value, buf, size);
}

void crn_config_format(const struct crn_config *cfg, const struct crn_key *key, char *buf,
                       size_t size)
{
    crn_key_format(key, key->per_name ? (const void *)&cfg->names : cfg, buf, size);
}

/* Names. --------------------------------------------------------------------------------------- */

uint64_t crn_key_bit(const struct crn_key *key)
{
    const struct crn_key *k;
    uint64_t bit = 1;
    size_t n;

    for (k = crn_config_keys(&n); k != key; k++)
        bit <<= k->per_name;
    return bit;
}

static size_t key_bytes(const struct crn_key *key)
{
    if (key->type == CRN_KEY_TEXT)
        return key->max;
    return key->type == CRN_KEY_EVERY ? sizeof(struct crn_every) : sizeof(uint64_t);
}

/* Copies the new default of the key to all overrides that do not set it. */
static void follow_default(struct crn_config *cfg, const struct crn_key *key)
{
    size_t i;

    for (i = 0; i < cfg->noverrides; i++)
        if ((cfg->overrides[i].is_set & crn_key_bit(key)) == 0)
            memcpy((char *)&cfg->overrides[i] + key->offset, (char *)&cfg->names + key->offset,
                   key_bytes(key));
}

static struct crn_name_config *find_override(const struct crn_config *cfg, const char *name)
{
    size_t i;

    for (i = 0; i < cfg->noverrides; i++)
        if (strcmp(cfg->overrides[i].name, name) == 0)
            return &cfg->overrides[i];
    return NULL;
}

static cairn_err add_override(struct crn_config *cfg, const char *name,
                              struct crn_name_config **ret, struct crn_errinfo *ei)
{
    struct crn_name_config *grown;
    cairn_err rc;

    rc = crn_check_name("checkpoint name", name, ei);
    if (rc != CAIRN_OK)
        return rc;
    grown = realloc(cfg->overrides, (cfg->noverrides + 1) * sizeof(*grown));
    if (grown == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the settings of '%s'", name);
    cfg->overrides = grown;
    *ret = &grown[cfg->noverrides++];
    **ret = cfg->names;
    (void)snprintf((*ret)->name, sizeof((*ret)->name), "%s", name);
    return CAIRN_OK;
}

const struct crn_name_config *crn_config_name(const struct crn_config *cfg, const char *name)
{
    const struct crn_name_config *found = find_override(cfg, name);

    return found != NULL ? found : &cfg->names;
}

enum crn_arena_full crn_config_full(const struct crn_config *cfg)
{
    if (cfg->arena_full != CRN_FULL_AUTO)
        return (enum crn_arena_full)cfg->arena_full;
    return cfg->broker[0] != '\0' ? CRN_FULL_SUPERSEDE : CRN_FULL_WAIT;
}

int crn_config_may_supersede(const struct crn_config *cfg, const char *name, int64_t version)
{
    const struct crn_name_config *nc = crn_config_name(cfg, name);

    return nc->supersede && (nc->keep_every == 0 || version % (int64_t)nc->keep_every != 0);
}

int crn_config_is_lazy(const struct crn_config *cfg)
{
    return cfg->discard_consumed != 0 && cfg->local_cache != 0;
}

int crn_config_flushes_all(const struct crn_config *cfg, const char *name)
{
    return crn_config_name(cfg, name)->persistent_every.count == 1;
}

cairn_err crn_config_set_for(struct crn_config *cfg, const char *name, const char *key_name,
                             const char *value, const char *what, struct crn_errinfo *ei)
{
    const struct crn_key *key = find_key(key_name);
    struct crn_name_config *o = find_override(cfg, name);
    cairn_err rc = CAIRN_OK;

    if (!config_renew(cfg, key_name, what, &value))
        return CAIRN_OK;
    if (key == NULL)
        return config_unknown(key_name, what, ei);
    if (!key->per_name)
        return crn_fail(ei, CAIRN_ECONFIG, 0,
                        "%s: '%s' is the same for all checkpoints; it belongs in [cairn]", what,
                        key->name);
    if (o == NULL)
        rc = add_override(cfg, name, &o, ei);
    if (rc == CAIRN_OK)
        rc = crn_key_set(key, o, value, ei);
    if (rc != CAIRN_OK)
        return crn_err_context(ei, rc, "%s: %s", what, key->name);
    o->is_set |= crn_key_bit(key);
    return CAIRN_OK;
}

/* Sources. ------------------------------------------------------------------------------------- */

cairn_err crn_config_set(struct crn_config *cfg, const char *key_name, const char *value,
                         const char *what, struct crn_errinfo *ei)
{
    const struct crn_key *key = find_key(key_name);
    cairn_err rc;

    if (!config_renew(cfg, key_name, what, &value))
        return CAIRN_OK;
    if (key == NULL)
        return config_unknown(key_name, what, ei);
    rc = crn_key_set(key, key->per_name ? (void *)&cfg->names : cfg, value, ei);
    if (rc != CAIRN_OK)
        return crn_err_context(ei, rc, "%s: %s", what, key->name);
    if (key->per_name)
        follow_default(cfg, key);
    return CAIRN_OK;
}

void crn_config_defaults(struct crn_config *cfg)
{
    size_t i, n;
    const struct crn_key *keys = crn_config_keys(&n);

    memset(cfg, 0, sizeof(*cfg));
    for (i = 0; i < n; i++)
        if (crn_config_set(cfg, keys[i].name, keys[i].def, "default", NULL) != CAIRN_OK)
            cfg->log_level = UINT64_MAX; /* a bug in the table; a unit test checks for it */
}

void crn_config_fini(struct crn_config *cfg)
{
    free(cfg->overrides);
    cfg->overrides = NULL;
    cfg->noverrides = 0;
}

static int is_foreign_variable(const char *key)
{
    static const char *const names[] = {"CONFIG", "PYTHON", "ROOT", "DIR", "HOME", "PREFIX"};
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(key, names[i]) == 0)
            return 1;
    return strncmp(key, "FAULT_", 6) == 0 || strncmp(key, "TEST_", 5) == 0;
}

/* Variables that are no keys. Names that do not fit are left out. */
struct strangers {
    char names[160];
    unsigned n;
};

static void name_stranger(struct strangers *s, const char *variable)
{
    size_t used = strlen(s->names);

    if (used + strlen(variable) + 3 > sizeof(s->names))
        return;
    (void)snprintf(s->names + used, sizeof(s->names) - used, "%s%s", s->n > 0 ? ", " : "",
                   variable);
    s->n++;
}

static void warn_of_strangers(struct crn_config *cfg, const struct strangers *s)
{
    if (s->n > 0 && cfg->retired[0] == '\0')
        (void)snprintf(cfg->retired, sizeof(cfg->retired), "variable%s %s %s ignored",
                       s->n == 1 ? "" : "s", s->names,
                       s->n == 1 ? "is not a configuration key; it is"
                                 : "are not configuration keys; they are");
}

/* A variable that resembles no key is another program's, such as a module file's CAIRN_VERSION. One
 * that does is a typing error, and stays one. */
static int is_stranger(struct strangers *s, const char *key, const char *variable)
{
    const struct crn_retired *r;
    const char *near = config_nearest(key);

    for (r = crn_config_retired(); r->key != NULL; r++)
        if (strcasecmp(r->key, key) == 0)
            return 0;
    if (find_key(key) != NULL || (near != NULL && 3 * config_edits(key, near, FAR) <= strlen(near)))
        return 0;
    name_stranger(s, variable);
    return 1;
}

cairn_err crn_config_env(struct crn_config *cfg, char *const *environment, struct crn_errinfo *ei)
{
    struct strangers strangers = {.n = 0};
    char key[80];
    char what[96];

    for (; environment != NULL && *environment != NULL; environment++) {
        const char *equals = strchr(*environment, '=');
        size_t n, i;
        cairn_err rc;

        if (strncmp(*environment, "CAIRN_", 6) != 0 || equals == NULL)
            continue;
        n = (size_t)(equals - *environment) - 6;
        if (n >= sizeof(key))
            n = sizeof(key) - 1;
        memcpy(key, *environment + 6, n);
        key[n] = '\0';
        if (is_foreign_variable(key))
            continue;
        (void)snprintf(what, sizeof(what), "variable CAIRN_%s", key);
        for (i = 0; i < n; i++)
            key[i] = (char)tolower((unsigned char)key[i]);
        if (is_stranger(&strangers, key, what + sizeof("variable ") - 1))
            continue;
        rc = crn_config_set(cfg, key, equals + 1, what, ei);
        if (rc != CAIRN_OK)
            return rc;
    }
    warn_of_strangers(cfg, &strangers);
    return CAIRN_OK;
}

static cairn_err apply_settings(struct crn_config *cfg, const char *const *settings,
                                struct crn_errinfo *ei)
{
    char key[80];

    for (; settings != NULL && *settings != NULL; settings++) {
        const char *equals = strchr(*settings, '=');
        cairn_err rc;

        if (equals == NULL || (size_t)(equals - *settings) >= sizeof(key))
            return crn_fail(ei, CAIRN_ECONFIG, 0, "setting '%s' is not key=value", *settings);
        memcpy(key, *settings, (size_t)(equals - *settings));
        key[equals - *settings] = '\0';
        rc = crn_config_set(cfg, key, equals + 1, "setting", ei);
        if (rc != CAIRN_OK)
            return rc;
    }
    return CAIRN_OK;
}

/* Loading. ------------------------------------------------------------------------------------- */

/* Makes a path absolute, so that it means the same after a chdir and in the service. */
static cairn_err make_absolute(char *path, const char *key, struct crn_errinfo *ei)
{
    char cwd[CRN_PATH_MAX];
    char full[2 * CRN_PATH_MAX];

    if (path[0] == '\0' || path[0] == '/')
        return CAIRN_OK;
    if (getcwd(cwd, sizeof(cwd)) == NULL)
        return crn_fail_errno(ei, errno, "%s: the current directory", key);
    if (snprintf(full, sizeof(full), "%s/%s", strcmp(cwd, "/") == 0 ? "" : cwd, path) >=
        CRN_PATH_MAX)
        return crn_fail(ei, CAIRN_ECONFIG, 0, "%s: '%s' is too long", key, full);
    memcpy(path, full, strlen(full) + 1);
    return CAIRN_OK;
}

static void default_job(struct crn_config *cfg)
{
    static const char *const variables[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"};
    size_t i;

    for (i = 0; cfg->job[0] == '\0' && i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *value = getenv(variables[i]);

        if (value != NULL && crn_config_set(cfg, "job", value, variables[i], NULL) != CAIRN_OK)
            continue; /* not an error: the job name is only displayed */
    }
}

cairn_err crn_config_check(const struct crn_config *cfg, struct crn_errinfo *ei)
{
    int signals[16];
    size_t n;

    if (cfg->persistent[0] == '\0')
        return crn_fail(ei, CAIRN_ECONFIG, 0, "persistent: a directory is needed");
    if ((cfg->align_bytes & (cfg->align_bytes - 1)) != 0)
        return crn_fail(ei, CAIRN_ECONFIG, 0, "align_bytes must be a power of two");
    if (cfg->block_bytes % cfg->align_bytes != 0)
        return crn_fail(ei, CAIRN_ECONFIG, 0, "block_bytes must be a multiple of align_bytes");
    if (cfg->block_bytes % cfg->chunk_bytes != 0)
        return crn_fail(ei, CAIRN_ECONFIG, 0, "block_bytes must be a multiple of chunk_bytes");
    if (cfg->arena_full == CRN_FULL_SPILL && cfg->local[0] == '\0')
        return crn_fail(ei, CAIRN_ECONFIG, 0,
                        "arena_full = spill needs a node-local directory: set local");
    if (cfg->local_cache > 0 && cfg->local[0] == '\0')
        return crn_fail(ei, CAIRN_ECONFIG, 0,
                        "local_cache needs a node-local directory: set local");
    return crn_config_parse_signals(cfg->stop_signals, signals,
                                    sizeof(signals) / sizeof(signals[0]), &n, ei);
}

static cairn_err config_load(struct crn_config *cfg, const char *file, const char *const *settings,
                             struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;

    if (file == NULL)
        file = getenv("CAIRN_CONFIG");
    if (file != NULL && file[0] != '\0')
        rc = crn_config_file(cfg, file, ei);
    if (rc == CAIRN_OK)
        rc = crn_config_env(cfg, environ, ei);
    if (rc == CAIRN_OK)
        rc = apply_settings(cfg, settings, ei);
    if (rc == CAIRN_OK)
        rc = make_absolute(cfg->persistent, "persistent", ei);
    if (rc == CAIRN_OK)
        rc = make_absolute(cfg->local, "local", ei);
    if (rc == CAIRN_OK)
        rc = make_absolute(cfg->run_dir, "run_dir", ei);
    if (rc == CAIRN_OK)
        rc = make_absolute(cfg->shm_dir, "shm_dir", ei);
    if (rc == CAIRN_OK)
        rc = make_absolute(cfg->log_file, "log_file", ei);
    if (rc == CAIRN_OK)
        rc = crn_config_check(cfg, ei);
    return rc;
}

cairn_err crn_config_load(struct crn_config *cfg, const char *file, const char *const *settings,
                          struct crn_errinfo *ei)
{
    cairn_err rc;

    crn_config_defaults(cfg);
    rc = config_load(cfg, file, settings, ei);
    if (rc != CAIRN_OK) {
        crn_config_fini(cfg);
        return rc;
    }
    default_job(cfg);
    return CAIRN_OK;
}
