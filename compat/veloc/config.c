/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads VELOC's INI file as VELOC does: keys are outside of sections and case-insensitive; only
 * the first word of a value and the first value of a key count. Keys for things that Cairn
 * always does, or does in another way, are accepted and listed as ignored. */
#include "config.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/config_impl.h"

#define BLANKS " \t\r\n\f\v"

enum key { SCRATCH, PERSISTENT, MODE, MAX_VERSIONS, SCRATCH_VERSIONS, FIRST_IGNORED };

/* All of VELOC's keys; those from FIRST_IGNORED on have no effect. */
static const char *const keys[] = {"scratch",
                                   "persistent",
                                   "mode",
                                   "max_versions",
                                   "scratch_versions",
                                   "aggregated",
                                   "axl_config",
                                   "axl_type",
                                   "chksum",
                                   "daos_cont",
                                   "daos_pool",
                                   "ec_interval",
                                   "log_prefix",
                                   "meta",
                                   "persistent_interval",
                                   "failure_domain",
                                   "threaded",
                                   "watchdog_interval"};
#define NKEYS (sizeof(keys) / sizeof(keys[0]))

struct values {
    char value[NKEYS][CRN_PATH_MAX]; /* "": unset */
    struct crn_vlc_config *cfg;
};

static void config_ignore(struct crn_vlc_config *cfg, const char *key)
{
    size_t used = strlen(cfg->ignored);

    (void)snprintf(cfg->ignored + used, sizeof(cfg->ignored) - used, "%s%s", used > 0 ? ", " : "",
                   key);
}

static cairn_err config_set(struct values *v, size_t key, const char *text, const char *where,
                            struct crn_errinfo *ei)
{
    size_t len = strcspn(text, BLANKS);

    if (len >= sizeof(v->value[key]))
        return crn_fail(ei, CAIRN_ECONFIG, 0, "%s: the value of '%s' is too long", where,
                        keys[key]);
    memcpy(v->value[key], text, len);
    v->value[key][len] = '\0';
    return CAIRN_OK;
}

static cairn_err on_pair(void *arg, const char *section, const char *key, const char *value,
                         const char *where, struct crn_errinfo *ei)
{
    struct values *v = arg;
    size_t i;

    if (section[0] != '\0' || key == NULL)
        return CAIRN_OK; /* VELOC does not read sections */
    for (i = 0; i < NKEYS; i++) {
        if (strcasecmp(keys[i], key) != 0)
            continue;
        return v->value[i][0] == '\0' ? config_set(v, i, value, where, ei) : CAIRN_OK;
    }
    config_ignore(v->cfg, key);
    return CAIRN_OK;
}

static cairn_err from_environment(struct values *v, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    char name[64];
    size_t i, k;

    for (i = 0; rc == CAIRN_OK && i < NKEYS; i++) {
        const char *text;

        (void)snprintf(name, sizeof(name), "VELOC_%s", keys[i]);
        for (k = 0; name[k] != '\0'; k++)
            name[k] = (char)toupper((unsigned char)name[k]);
        text = getenv(name);
        if (text != NULL && text[strspn(text, BLANKS)] != '\0')
            rc = config_set(v, i, text + strspn(text, BLANKS), name, ei);
    }
    return rc;
}

/* Number of versions to keep; zero or less means all. */
static cairn_err config_number(const struct values *v, enum key key, uint64_t *ret,
                               struct crn_errinfo *ei)
{
    const char *text = v->value[key];
    char *end;
    long n;

    *ret = 0;
    if (text[0] == '\0')
        return CAIRN_OK;
    n = strtol(text, &end, 10);
    if (end == text || *end != '\0')
        return crn_fail(ei, CAIRN_ECONFIG, 0, "'%s' is not a number of versions for '%s'", text,
                        keys[key]);
    *ret = n > 0 ? (uint64_t)n : 0;
    return CAIRN_OK;
}

/* Makes a path absolute, so that a later chdir does not matter. */
static cairn_err config_path(const char *text, const char *more, char ret[CRN_PATH_MAX],
                             struct crn_errinfo *ei)
{
    char cwd[CRN_PATH_MAX] = "";
    int n;

    if (text[0] != '/' && getcwd(cwd, sizeof(cwd) - 1) == NULL)
        return crn_fail(ei, CAIRN_ECONFIG, 0, "the current directory has no path");
    n = snprintf(ret, CRN_PATH_MAX, "%s%s%s%s", cwd, cwd[0] != '\0' ? "/" : "", text, more);
    if (n < 0 || n >= CRN_PATH_MAX)
        return crn_fail(ei, CAIRN_ECONFIG, 0, "the path '%s' is too long", text);
    return CAIRN_OK;
}

static cairn_err config_understand(const struct values *v, struct crn_vlc_config *cfg,
                                   struct crn_errinfo *ei)
{
    const char *mode = v->value[MODE];
    cairn_err rc;

    if (v->value[SCRATCH][0] == '\0')
        return crn_fail(ei, CAIRN_ECONFIG, 0,
                        "the key 'scratch' is missing: a directory on the node");
    if (mode[0] != '\0' && strcmp(mode, "sync") != 0 && strcmp(mode, "async") != 0)
        return crn_fail(ei, CAIRN_ECONFIG, 0, "mode = %s: must be sync or async", mode);
    cfg->is_sync = strcmp(mode, "sync") == 0;
    cfg->has_persistent = v->value[PERSISTENT][0] != '\0';
    rc = config_path(v->value[SCRATCH], "", cfg->scratch, ei);
    if (rc == CAIRN_OK && cfg->has_persistent)
        rc = config_path(v->value[PERSISTENT], "", cfg->persistent, ei);
    else if (rc == CAIRN_OK)
        rc = config_path(v->value[SCRATCH], "/persistent", cfg->persistent, ei);
    if (rc == CAIRN_OK)
        rc = config_number(v, MAX_VERSIONS, &cfg->max_versions, ei);
    if (rc == CAIRN_OK)
        rc = config_number(v, SCRATCH_VERSIONS, &cfg->scratch_versions, ei);
    if (cfg->scratch_versions == 0)
        cfg->scratch_versions = CRN_VLC_KEEP_ALL;
    return rc;
}

/* Loads from a file or from text; the other is NULL. */
static cairn_err config_load(const char *file, const char *text, struct crn_vlc_config *ret,
                             struct crn_errinfo *ei)
{
    struct values *v = calloc(1, sizeof(*v));
    cairn_err rc = CAIRN_OK;
    size_t i;

    if (v == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "the configuration");
    memset(ret, 0, sizeof(*ret));
    v->cfg = ret;
    if (file != NULL)
        rc = crn_config_ini_file(file, on_pair, v, ei);
    else if (text != NULL)
        rc = crn_config_ini_text(text, "veloc.cfg", on_pair, v, ei);
    if (rc == CAIRN_OK)
        rc = from_environment(v, ei);
    for (i = FIRST_IGNORED; i < NKEYS; i++)
        if (v->value[i][0] != '\0')
            config_ignore(ret, keys[i]);
    if (rc == CAIRN_OK)
        rc = config_understand(v, ret, ei);
    free(v);
    return rc;
}

cairn_err crn_vlc_config_load(const char *file, struct crn_vlc_config *ret, struct crn_errinfo *ei)
{
    return config_load(file != NULL && file[0] != '\0' ? file : NULL, NULL, ret, ei);
}

cairn_err crn_vlc_config_parse(const char *text, struct crn_vlc_config *ret, struct crn_errinfo *ei)
{
    return config_load(NULL, text, ret, ei);
}

void crn_vlc_config_settings(const struct crn_vlc_config *cfg, struct crn_face_settings *ret)
{
    crn_settings_set(ret, "persistent", "%s", cfg->persistent);
    crn_settings_set(ret, "local", "%s", cfg->scratch);
    crn_settings_set(ret, "keep_last", "%" PRIu64, cfg->max_versions);
    crn_settings_set(ret, "keep_local", "%" PRIu64, cfg->scratch_versions);
    /* As in VELOC: captures that exceed memory spill to scratch, and a full file system is a
     * failure, which VELOC_Checkpoint_wait reports, not the next checkpoint. */
    crn_settings_set(ret, "arena_full", "spill");
    crn_settings_set(ret, "space_wait", "0");
    crn_settings_set(ret, "free_reserve_bytes", "0");
    crn_settings_set(ret, "on_failure", "continue");
    /* Not "fail": VELOC_Restart_test cannot distinguish "not saved yet" from "none", so programs
     * would start from the beginning. The log names the unsaved versions. */
    crn_settings_set(ret, "restart_unsaved", "older");
}

cairn_err crn_vlc_name(const char *name, int64_t id, char ret[CAIRN_MAX_NAME],
                       struct crn_errinfo *ei)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    const char *front = name != NULL && name[0] == '.' ? "dot-" : ""; /* Cairn hides such names */
    char suffix[24] = "";
    int n;

    if (name == NULL || name[0] == '\0' || name[strspn(name, allowed)] != '\0')
        return crn_fail(ei, CAIRN_EINVAL, 0, "'%s' is not a checkpoint name: [A-Za-z0-9_.]+",
                        name != NULL ? name : "(null)");
    if (id >= 0)
        (void)snprintf(suffix, sizeof(suffix), "-%" PRId64, id);
    n = snprintf(ret, CAIRN_MAX_NAME, "%s%s%s", front, name, suffix);
    if (n >= CAIRN_MAX_NAME) /* longer than Cairn allows: use a prefix and a hash */
        (void)snprintf(ret, CAIRN_MAX_NAME, "%s%.80s-%016" PRIx64 "%s", front, name,
                       (uint64_t)XXH3_64bits(name, strlen(name)), suffix);
    return CAIRN_OK;
}
