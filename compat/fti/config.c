/* SPDX-License-Identifier: BSD-3-Clause */
/* All keys of FTI are known. Those for which Cairn has no use (ckpt_io, transfer_size, ...) are read for FTI_GetConfig, or dropped. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config_impl.h"

enum kind { NUMBER, FLAG, TEXT, DROPPED };

#define IN(field)  offsetof(struct crn_fti_config, all.field)
#define OWN(field) offsetof(struct crn_fti_config, field)

static const struct row {
    const char *section, *key;
    enum kind kind;
    size_t at;
} rows[] = {
    {"basic", "head", NUMBER, OWN(has_heads)},
    {"basic", "node_size", NUMBER, IN(topology.nodeSize)},
    {"basic", "group_size", NUMBER, IN(topology.groupSize)},
    {"basic", "ckpt_dir", TEXT, IN(configuration.localDir)},
    {"basic", "glbl_dir", TEXT, IN(configuration.glbalDir)},
    {"basic", "meta_dir", TEXT, IN(configuration.metadDir)},
    {"basic", "ckpt_l1", NUMBER, IN(ckpt[1].ckptIntv)},
    {"basic", "ckpt_l2", NUMBER, IN(ckpt[2].ckptIntv)},
    {"basic", "ckpt_l3", NUMBER, IN(ckpt[3].ckptIntv)},
    {"basic", "ckpt_l4", NUMBER, IN(ckpt[4].ckptIntv)},
    {"basic", "dcp_l4", NUMBER, IN(ckpt[4].ckptDcpIntv)},
    {"basic", "inline_l2", NUMBER, IN(ckpt[2].isInline)},
    {"basic", "inline_l3", NUMBER, IN(ckpt[3].isInline)},
    {"basic", "inline_l4", NUMBER, IN(ckpt[4].isInline)},
    {"basic", "keep_last_ckpt", NUMBER, IN(configuration.saveLastCkpt)},
    {"basic", "keep_l4_ckpt", FLAG, IN(configuration.keepL4Ckpt)},
    {"basic", "keep_heads_alive", FLAG, IN(configuration.keepHeadsAlive)},
    {"basic", "enable_staging", FLAG, IN(configuration.stagingEnabled)},
    {"basic", "enable_dcp", FLAG, IN(configuration.dcpEnabled)},
    {"basic", "dcp_mode", NUMBER, IN(configuration.dcpMode)},
    {"basic", "dcp_block_size", NUMBER, IN(configuration.dcpBlockSize)},
    {"basic", "max_sync_intv", NUMBER, OWN(sync_intv)},
    {"basic", "ckpt_io", NUMBER, IN(configuration.ioMode)},
    {"basic", "verbosity", NUMBER, IN(configuration.verbosity)},
    {"basic", "h5_single_file_enable", FLAG, IN(configuration.h5SingleFileEnable)},
    {"basic", "h5_single_file_keep", FLAG, IN(configuration.h5SingleFileKeep)},
    {"basic", "h5_single_file_dir", TEXT, IN(configuration.h5SingleFileDir)},
    {"basic", "h5_single_file_prefix", TEXT, IN(configuration.h5SingleFilePrefix)},
    {"basic", "h5_single_file_inline", DROPPED, 0},
    {"restart", "failure", NUMBER, OWN(failure)},
    {"restart", "exec_id", TEXT, IN(execution.id)},
    {"injection", "rank", NUMBER, IN(injection.rank)},
    {"injection", "index", NUMBER, IN(injection.index)},
    {"injection", "position", NUMBER, IN(injection.position)},
    {"injection", "number", NUMBER, IN(injection.number)},
    {"injection", "frequency", NUMBER, IN(injection.frequency)},
    {"advanced", "block_size", NUMBER, IN(configuration.blockSize)},
    {"advanced", "transfer_size", NUMBER, IN(configuration.transferSize)},
    {"advanced", "general_tag", NUMBER, IN(configuration.generalTag)},
    {"advanced", "mpi_tag", NUMBER, IN(configuration.generalTag)},
    {"advanced", "ckpt_tag", NUMBER, IN(configuration.ckptTag)},
    {"advanced", "stage_tag", NUMBER, IN(configuration.stageTag)},
    {"advanced", "final_tag", NUMBER, IN(configuration.finalTag)},
    {"advanced", "local_test", NUMBER, IN(configuration.test)},
    {"advanced", "lustre_striping_unit", DROPPED, 0},
    {"advanced", "lustre_striping_factor", DROPPED, 0},
    {"advanced", "lustre_striping_offset", DROPPED, 0},
    {"advanced", "gpu_buffer_size", DROPPED, 0},
    {"advanced", "fastforward", DROPPED, 0},
    {"advanced", "l3_word_size", DROPPED, 0},
};

static void config_ignore(struct crn_fti_config *cfg, const char *key)
{
    size_t used = strlen(cfg->ignored);

    (void)snprintf(cfg->ignored + used, sizeof(cfg->ignored) - used, "%s%s", used > 0 ? ", " : "",
                   key);
}

static cairn_err config_set(struct crn_fti_config *cfg, const struct row *r, const char *value,
                            const char *where, struct crn_errinfo *ei)
{
    char *field = (char *)cfg + r->at;
    char *end;
    long n;

    if (r->kind == DROPPED)
        return CAIRN_OK;
    if (r->kind == TEXT)
        return snprintf(field, FTI_BUFS, "%s", value) < FTI_BUFS
                   ? CAIRN_OK
                   : crn_fail(ei, CAIRN_ECONFIG, 0, "%s: the value of '%s' is too long", where,
                              r->key);
    n = strtol(value, &end, 10);
    if (end == value || end[strspn(end, " \t")] != '\0')
        return crn_fail(ei, CAIRN_ECONFIG, 0, "%s: %s = %s is not a number", where, r->key, value);
    if (r->kind == FLAG)
        *(bool *)field = n != 0;
    else
        *(int *)(void *)field = (int)n;
    return CAIRN_OK;
}

static cairn_err on_pair(void *arg, const char *section, const char *key, const char *value,
                         const char *where, struct crn_errinfo *ei)
{
    struct crn_fti_config *cfg = arg;
    size_t i;

    if (key == NULL)
        return CAIRN_OK;
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcasecmp(rows[i].section, section) == 0 && strcasecmp(rows[i].key, key) == 0)
            return config_set(cfg, &rows[i], value, where, ei);
    config_ignore(cfg, key);
    return CAIRN_OK;
}

cairn_err crn_fti_config_parse(const char *text, struct crn_fti_config *ret, struct crn_errinfo *ei)
{
    FTIT_configuration *c = &ret->all.configuration;
    cairn_err rc;
    int i;

    memset(ret, 0, sizeof(*ret));
    ret->all.topology.nodeSize = 2;
    ret->all.topology.groupSize = 2;
    ret->sync_intv = 512;
    c->verbosity = FTI_INFO;
    c->ioMode = 1;
    c->generalTag = 2612;
    c->ckptTag = 711;
    c->stageTag = 406;
    c->finalTag = 3107;
    (void)snprintf(c->h5SingleFilePrefix, sizeof(c->h5SingleFilePrefix), "VPR-h5");
    for (i = 1; i <= 4; i++)
        ret->all.ckpt[i].isInline = 1;
    rc = crn_config_ini_text(text, "FTI's configuration", on_pair, ret, ei);
    if (rc == CAIRN_OK && (c->localDir[0] == '\0' || c->glbalDir[0] == '\0'))
        rc = crn_fail(ei, CAIRN_ECONFIG, 0, "FTI's configuration has no %s",
                      c->localDir[0] == '\0' ? "ckpt_dir" : "glbl_dir");
    if (rc == CAIRN_OK && (ret->failure < 0 || ret->failure > 3))
        rc = crn_fail(ei, CAIRN_ECONFIG, 0, "failure = %d: it is 0, 1, 2 or 3", ret->failure);
    if (rc == CAIRN_OK && ret->all.topology.nodeSize < 1)
        rc = crn_fail(ei, CAIRN_ECONFIG, 0, "node_size = %d", ret->all.topology.nodeSize);
    if (rc == CAIRN_OK && ret->has_heads && ret->all.topology.nodeSize < 2)
        rc = crn_fail(ei, CAIRN_ECONFIG, 0, "head = 1 needs a node_size of at least 2");
    if (ret->sync_intv <= 0)
        ret->sync_intv = 512;
    return rc;
}

/* Writing. ------------------------------------------------------------------------------------- */

/* Is this line "key = value" of the key? */
static int is_key(const char *line, const char *key)
{
    size_t len = strlen(key);

    line += strspn(line, " \t");
    return strncasecmp(line, key, len) == 0 && line[len + strspn(line + len, " \t")] == '=';
}

static void put_missing(FILE *out, int failure, const char *exec_id, const int seen[2])
{
    if (!seen[0])
        (void)fprintf(out, "failure = %d\n", failure);
    if (!seen[1])
        (void)fprintf(out, "exec_id = %s\n", exec_id);
}

cairn_err crn_fti_config_edit(const char *text, int failure, const char *exec_id, char **ret,
                              struct crn_errinfo *ei)
{
    int seen[2] = {0, 0};
    int is_in = 0, was_in = 0;
    size_t size = 0;
    FILE *out = open_memstream(ret, &size);

    if (out == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "FTI's configuration");
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");

        if (text[strspn(text, " \t")] == '[') {
            if (is_in)
                put_missing(out, failure, exec_id, seen);
            is_in = strncasecmp(text + strspn(text, " \t"), "[restart]", 9) == 0;
            was_in |= is_in;
        }
        if (is_in && is_key(text, "failure")) {
            (void)fprintf(out, "failure = %d\n", failure);
            seen[0] = 1;
        } else if (is_in && is_key(text, "exec_id")) {
            (void)fprintf(out, "exec_id = %s\n", exec_id);
            seen[1] = 1;
        } else {
            (void)fprintf(out, "%.*s\n", (int)n, text);
        }
        text += n + (text[n] == '\n');
    }
    if (!was_in)
        (void)fprintf(out, "[restart]\n");
    if (!was_in || is_in)
        put_missing(out, failure, exec_id, seen);
    return fclose(out) == 0 ? CAIRN_OK : crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "FTI's configuration");
}

cairn_err crn_fti_config_read(const char *path, char **ret, struct crn_errinfo *ei)
{
    size_t size = 0;
    FILE *in = fopen(path, "re");
    FILE *out;
    int c;

    if (in == NULL)
        return crn_fail_errno(ei, errno, "FTI's configuration '%s'", path);
    out = open_memstream(ret, &size);
    while (out != NULL && (c = fgetc(in)) != EOF)
        (void)fputc(c, out);
    (void)fclose(in);
    return out != NULL && fclose(out) == 0
               ? CAIRN_OK
               : crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "FTI's configuration");
}

static cairn_err config_replace(const char *path, const char *text, struct crn_errinfo *ei)
{
    size_t len = strlen(text);
    char tmp[FTI_BUFS + 8];
    struct stat st;
    int ok, fd;

    (void)snprintf(tmp, sizeof(tmp), "%s.new", path);
    fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return crn_fail_errno(ei, errno, "create '%s'", tmp);
    if (stat(path, &st) == 0)
        (void)fchmod(fd, st.st_mode & 07777);
    ok = write(fd, text, len) == (ssize_t)len && fsync(fd) == 0;
    if (close(fd) != 0 || !ok || rename(tmp, path) != 0)
        return crn_fail_errno(ei, errno, "write '%s'", path);
    return CAIRN_OK;
}

cairn_err crn_fti_config_write(const char *path, int failure, const char *exec_id,
                               struct crn_errinfo *ei)
{
    char *old = NULL, *text = NULL;
    cairn_err rc;

    rc = crn_fti_config_read(path, &old, ei);
    if (rc == CAIRN_OK)
        rc = crn_fti_config_edit(old, failure, exec_id, &text, ei);
    if (rc == CAIRN_OK)
        rc = config_replace(path, text, ei);
    free(old);
    free(text);
    return rc;
}

void crn_fti_config_settings(const struct crn_fti_config *cfg, struct crn_face_settings *ret)
{
    const FTIT_configuration *c = &cfg->all.configuration;
    static const char *const log_levels[] = {"info", "debug", "info", "warn", "error"};

    crn_settings_set(ret, "persistent", "%s/cairn", c->glbalDir);
    crn_settings_set(ret, "local", "%s", c->localDir);
    crn_settings_set(ret, "arena_full", "spill");
    if (!c->keepL4Ckpt)
        crn_settings_set(ret, "keep_last", "2"); /* one to restart from if the newest is damaged */
    crn_settings_set(ret, "on_failure", "continue"); /* the call that waits reports it */
    crn_settings_set(ret, "fresh", "on");            /* every execution has a name of its own */
    crn_settings_set(ret, "restart_unsaved", "older");
    /* A group of FTI survives the loss of half of its nodes. */
    if (cfg->all.topology.groupSize > 1)
        crn_settings_set(ret, "protect_set", "%d",
                         cfg->all.topology.groupSize < CRN_FACE_SET_MAX
                             ? cfg->all.topology.groupSize
                             : CRN_FACE_SET_MAX);
    if (c->test) { /* nodes that are not there share a host */
        crn_settings_set(ret, "ranks_per_node", "%d",
                         cfg->all.topology.nodeSize - (cfg->has_heads ? 1 : 0));
        crn_settings_set(ret, "failure_domain", "node");
    }
    if (c->verbosity == FTI_DBUG || c->verbosity == FTI_EROR)
        crn_settings_set(ret, "log_level", "%s", log_levels[c->verbosity]);
}
