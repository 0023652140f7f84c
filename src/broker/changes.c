/* SPDX-License-Identifier: BSD-3-Clause */
#include "broker/changes.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fs.h"

#define MAX_TEXT ((size_t)CRN_BROKER_TOKENS * 4 * CRN_BP_NAME)

static void put_text(struct crn_buf *buf, const char *text)
{
    crn_buf_put(buf, text, strlen(text));
}

static void put_changes(struct crn_buf *buf, const struct crn_token_conf *conf,
                        const struct crn_bp_token_row *now)
{
    int is_other = strcmp(conf->policy, now->policy) != 0;

    if (!is_other && !now->is_draining)
        return;
    put_text(buf, "[");
    put_text(buf, now->token);
    put_text(buf, "]\n");
    if (is_other) {
        put_text(buf, "policy = ");
        put_text(buf, now->policy);
        put_text(buf, "\n");
    }
    if (now->is_draining)
        put_text(buf, "state = drained\n");
}

/* Writes a temporary file, fsyncs and renames it, so an interrupted save leaves the old file. */
static cairn_err changes_replace(const char *path, const struct crn_buf *buf,
                                 struct crn_errinfo *ei)
{
    const struct crn_fs *fs = crn_fs_default();
    char tmp[4096];
    cairn_err rc;
    int fd;

    if (snprintf(tmp, sizeof(tmp), "%s.new", path) >= (int)sizeof(tmp))
        return crn_fail(ei, CAIRN_EINVAL, ENAMETOOLONG, "'%s' is too long", path);
    fd = fs->openat(fs, AT_FDCWD, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    rc = crn_fs_check(fd, ei, "create '%s'", tmp);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_fs_write_all(fs, fd, buf->data, buf->len, 0, tmp, ei);
    if (rc == CAIRN_OK)
        rc = crn_fs_check(fs->fsync(fs, fd), ei, "fsync '%s'", tmp);
    (void)fs->close(fs, fd);
    if (rc == CAIRN_OK)
        rc = crn_fs_check(fs->renameat(fs, AT_FDCWD, tmp, AT_FDCWD, path), ei, "rename to '%s'",
                          path);
    return rc;
}

cairn_err crn_changes_save(const char *path, const struct crn_broker_conf *conf,
                           const struct crn_turns *turns, struct crn_errinfo *ei)
{
    struct crn_buf buf = {0};
    cairn_err rc;
    size_t i;

    put_text(&buf, "# What administrators changed; see cairn-broker(8), key state.\n");
    for (i = 0; i < conf->ntokens; i++) {
        struct crn_turns_totals totals;

        crn_turns_totals(turns, 0, i, &totals);
        put_changes(&buf, &conf->token[i], &totals.row);
    }
    if (buf.failed)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "what administrators changed");
    else
        rc = changes_replace(path, &buf, ei);
    crn_buf_free(&buf);
    return rc;
}

struct loading {
    struct crn_turns *turns;
    unsigned unknown;
};

static int on_key(void *arg, const char *token, const char *name, const char *value)
{
    struct crn_bp_control control = {0};
    struct loading *l = arg;
    struct crn_errinfo ei = {0};

    if (strcmp(name, "policy") == 0)
        control.op = CRN_BP_OP_POLICY;
    else if (strcmp(name, "state") == 0 && strcmp(value, "drained") == 0)
        control.op = CRN_BP_OP_DRAIN;
    else
        return 0;
    if (token[0] == '\0' || strlen(token) >= sizeof(control.token) ||
        strlen(value) >= sizeof(control.argument))
        return 0;
    memcpy(control.token, token, strlen(token));
    memcpy(control.argument, value, strlen(value));
    if (crn_turns_change(l->turns, &control, &ei) != CAIRN_OK)
        l->unknown++;
    return 1;
}

cairn_err crn_changes_load(const char *path, struct crn_turns *turns, unsigned *ret_unknown,
                           struct crn_errinfo *ei)
{
    struct loading l = {.turns = turns};
    struct crn_errinfo own = {0};
    void *text;
    size_t len;
    cairn_err rc;
    int line;

    rc = crn_fs_read_file(crn_fs_default(), AT_FDCWD, path, MAX_TEXT, &text, &len, &own);
    if (rc != CAIRN_OK && own.sys_errno == ENOENT)
        return CAIRN_OK; /* nothing was ever changed */
    if (rc != CAIRN_OK) {
        crn_err_keep(ei, &own);
        return rc;
    }
    line = ini_parse_string(text, on_key, &l);
    free(text);
    if (line != 0)
        return crn_fail(ei, CAIRN_ECONFIG, 0,
                        "%s:%d: malformed line; remove the file to drop the changes", path, line);
    *ret_unknown = l.unknown;
    return CAIRN_OK;
}
