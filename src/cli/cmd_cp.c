/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn cp: copies a version into another directory. The copy is read back and checked against
 * the checksums of the index before the manifest makes it a version. A copy is therefore
 * complete and correct, or it is debris. It keeps the capture's identity, so it can be
 * recognised as a copy. Data encoded against older versions is encoded again without them: a
 * copy needs no other version. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/whole.h"

#define STEP ((size_t)8 << 20)

struct copy {
    const struct crn_fs *fs;
    const struct crn_store *from;
    const struct crn_store *to;
    struct crn_version *v;
    const struct crn_manifest *m; /* of the source */
    struct crn_manifest out;      /* of the copy; its files are owned */
    unsigned char *buf;
    size_t room;
    const struct cli *cli;
    struct cli_progress progress;
};

static cairn_err make_room(struct copy *c, uint64_t bytes, struct crn_errinfo *ei)
{
    if (bytes <= c->room)
        return CAIRN_OK;
    free(c->buf);
    c->buf = malloc(bytes);
    c->room = c->buf != NULL ? bytes : 0;
    if (c->buf == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a buffer of %" PRIu64 " bytes", bytes);
    return CAIRN_OK;
}

static cairn_err copy_bytes(struct copy *c, int in, int out, uint64_t bytes, const char *file,
                            struct crn_errinfo *ei)
{
    cairn_err rc = make_room(c, STEP, ei);
    uint64_t at;
    size_t n;

    for (at = 0; rc == CAIRN_OK && at < bytes; at += n) {
        n = bytes - at < STEP ? (size_t)(bytes - at) : STEP;
        rc = crn_fs_read_all(c->fs, in, c->buf, n, at, file, ei);
        if (rc == CAIRN_OK)
            rc = crn_fs_write_all(c->fs, out, c->buf, n, at, file, ei);
        crn_progress_add(&c->progress, n);
    }
    return rc;
}

/* Copies the data unchanged. */
static cairn_err fill_bytes(struct copy *c, uint32_t file_no, const struct crn_data_file *in,
                            int fd, struct crn_index *ret, uint64_t *ret_end,
                            struct crn_errinfo *ei)
{
    const struct crn_manifest_file *mf = &c->m->files[file_no];

    *ret = *in->index;
    *ret_end = mf->trailer.index_offset;
    return copy_bytes(c, in->fd, fd, mf->trailer.index_offset, mf->name, ei);
}

/* Fills the new data file and completes it; closes fd. */
static cairn_err cp_fill(struct copy *c, uint32_t file_no, const struct crn_data_file *in, int fd,
                         const char *file, struct crn_errinfo *ei)
{
    struct crn_index x = {0};
    struct crn_data_file data = {.fs = c->fs, .fd = fd, .index = &x, .what = file};
    uint64_t end = 0;
    cairn_err rc;

    rc = in->chain != NULL ? crn_cli_make_whole(in, fd, file, &c->progress, &x, &end, ei)
                           : fill_bytes(c, file_no, in, fd, &x, &end, ei);
    if (rc == CAIRN_OK)
        rc = crn_err_context(ei, crn_data_verify(&data, NULL, NULL, ei),
                             "copy of '%s'; run `cairn verify` on the source", in->what);
    if (rc == CAIRN_OK)
        rc = crn_store_finish_data(c->to, fd, file, end, &x, &c->out.files[file_no], ei);
    else
        (void)c->fs->close(c->fs, fd); /* debris */
    if (in->chain != NULL)
        crn_streams_free(x.streams, x.nstreams);
    return rc;
}

/* Copies the flush statistics, if possible; the copy does not depend on them. */
static void copy_stats(struct copy *c, uint32_t file_no, const char *file)
{
    struct crn_errinfo ignored = {0};
    void *text = NULL;
    size_t len;

    if (crn_store_read_stats(c->from, c->m->name, c->m->version, c->m->files[file_no].name, &text,
                             &len, &ignored) == CAIRN_OK &&
        crn_store_write_stats(c->to, c->m->name, c->m->version, file, text, len, &ignored) !=
            CAIRN_OK)
        crn_err_clear(&ignored);
    free(text);
}

/* Opens the source, its index and its chain. */
static cairn_err open_source(struct copy *c, int dfd, uint32_t file_no, struct crn_data_file *ret,
                             struct crn_base_chain **ret_chain, struct crn_errinfo *ei)
{
    const char *file = c->m->files[file_no].name;
    cairn_err rc;

    *ret = (struct crn_data_file){.fs = c->fs, .dfd = dfd, .what = file};
    rc = crn_version_index(c->v, file_no, &ret->index, ei);
    if (rc == CAIRN_OK)
        rc = crn_base_chain_load(c->fs, dfd, ret->index, file, ret_chain, ei);
    if (rc != CAIRN_OK)
        return rc;
    ret->chain = *ret_chain;
    ret->fd = c->fs->openat(c->fs, dfd, file, O_RDONLY | O_NOFOLLOW, 0);
    if (ret->fd >= 0)
        return CAIRN_OK;
    crn_base_chain_free(*ret_chain);
    return crn_fail_errno(ei, -ret->fd, "open '%s'", file);
}

static cairn_err copy_file(struct copy *c, int dfd, uint32_t file_no, struct crn_errinfo *ei)
{
    struct crn_base_chain *chain = NULL;
    char file[CRN_FILE_NAME];
    struct crn_data_file in;
    cairn_err rc;
    int fd;

    rc = open_source(c, dfd, file_no, &in, &chain, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_store_create_data(c->to, c->m->name, c->m->version, file_no, file, &fd, ei);
    if (rc == CAIRN_OK) {
        rc = cp_fill(c, file_no, &in, fd, file, ei);
        if (rc == CAIRN_OK) {
            c->out.nfiles = file_no + 1;
            copy_stats(c, file_no, file);
        } else if (crn_store_discard_data(c->to, c->m->name, c->m->version, file, NULL) !=
                   CAIRN_OK) {
            rc = crn_err_context(ei, rc, "'%s' is left over, a sweep removes it", file);
        }
    }
    (void)c->fs->close(c->fs, in.fd);
    crn_base_chain_free(chain);
    return rc;
}

/* After a failure: removes the copied files. If that fails too, a sweep removes them. */
static void cp_discard(struct copy *c)
{
    uint32_t f;

    for (f = 0; f < c->out.nfiles; f++)
        if (crn_store_discard_data(c->to, c->m->name, c->m->version, c->out.files[f].name, NULL) !=
            CAIRN_OK)
            return;
}

static cairn_err copy_files(struct copy *c, struct crn_errinfo *ei)
{
    cairn_err rc;
    uint32_t f;
    int dfd;

    rc = crn_store_version_dir(c->from, c->m->name, c->m->version, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    for (f = 0; rc == CAIRN_OK && f < c->m->nfiles; f++)
        rc = copy_file(c, dfd, f, ei);
    (void)c->fs->close(c->fs, dfd);
    if (rc == CAIRN_OK)
        rc = crn_store_publish(c->to, &c->out, ei);
    if (rc != CAIRN_OK)
        cp_discard(c);
    return rc;
}

/* Does the target have a complete version already? If it is the same capture, there is nothing
 * to do. */
static cairn_err check_target(const struct copy *c, int force, int *ret_is_there,
                              struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    struct crn_manifest there;
    cairn_err rc;

    *ret_is_there = 0;
    rc = crn_store_check_pin(c->to, c->m->name, c->m->version, force ? NULL : &c->m->id, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_store_manifest(c->to, c->m->name, c->m->version, &there, &why);
    if (rc == CAIRN_ENOENT || rc == CAIRN_EDAMAGED || (rc == CAIRN_EFORMAT && force))
        return CAIRN_OK; /* none, or an unusable one */
    if (rc != CAIRN_OK) {
        crn_err_keep(ei, &why);
        return rc;
    }
    if (!force) {
        *ret_is_there = crn_capture_id_equal(&there.id, &c->m->id);
        if (!*ret_is_there)
            rc =
                crn_fail(ei, CAIRN_EBUSY, 0, "'%s' has another %s@%" PRId64 "; --force replaces it",
                         c->to->path, c->m->name, c->m->version);
    }
    crn_manifest_free(&there);
    return rc;
}

static cairn_err copy_locked(struct copy *c, int force, int *ret_is_there, struct crn_errinfo *ei)
{
    cairn_err rc;
    int lock;

    rc = crn_store_lock_name(c->to, c->m->name, "cairn cp", &lock, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = check_target(c, force, ret_is_there, ei);
    if (rc == CAIRN_OK && !*ret_is_there)
        rc = copy_files(c, ei);
    if (lock >= 0)
        (void)c->fs->close(c->fs, lock);
    return rc;
}

static cairn_err copy_version(struct copy *c, const struct cli_target *t, int force,
                              int *ret_is_there, struct crn_errinfo *ei)
{
    cairn_err rc;

    rc = crn_version_open(c->from, t->name, t->version, &c->v, ei);
    if (rc == CAIRN_OK)
        rc = crn_version_load_all(c->v, ei);
    if (rc != CAIRN_OK)
        return rc;
    c->m = crn_version_manifest(c->v);
    c->out = *c->m;
    c->out.nfiles = 0;
    c->out.files = calloc(c->m->nfiles + 1U, sizeof(*c->out.files));
    if (c->out.files == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "copy of %s", t->name);
    crn_progress_begin(&c->progress, c->cli, "copy", c->m->data_bytes);
    rc = copy_locked(c, force, ret_is_there, ei);
    crn_progress_end(&c->progress);
    return rc;
}

static void free_copy(struct copy *c)
{
    if (c->out.files != NULL)
        crn_manifest_free(&c->out);
    crn_version_close(c->v);
    free(c->buf);
}

static int cp_report(struct cli *cli, const struct cli_target *t, const char *dir, uint64_t bytes,
                     int is_there)
{
    char size[32];

    if (cli->is_json) {
        struct crn_json *j = crn_cli_json(cli);

        crn_json_str(j, "name", t->name);
        crn_json_i64(j, "version", t->version);
        crn_json_str(j, "to", dir);
        crn_json_u64(j, "bytes", bytes);
        crn_json_bool(j, "copied", !is_there);
        return crn_cli_json_end(cli, CLI_OK);
    }
    crn_human_bytes(bytes, size, sizeof(size));
    (void)printf("%s@%" PRId64 ": %s in '%s'%s\n", t->name, t->version, size, dir,
                 is_there ? ", was there already" : ", verified");
    return crn_cli_end(cli, CLI_OK);
}

static int copy_to(struct cli *cli, const char *text, const char *dir, int force)
{
    struct copy c = {.cli = cli, .fs = crn_fs_default(), .from = &cli->store};
    struct crn_store to;
    struct cli_target t;
    uint64_t bytes = 0;
    int is_there = 0;
    int status = CLI_OK;
    cairn_err rc;

    rc = crn_cli_pick(&cli->store, text, &t, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_store_open(c.fs, dir, 1, &to, cli->ei);
    if (rc != CAIRN_OK)
        return crn_cli_fail(cli);
    c.to = &to;
    rc = copy_version(&c, &t, force, &is_there, cli->ei);
    if (rc == CAIRN_OK)
        bytes = c.m->data_bytes;
    else
        status = crn_cli_fail_reading(cli, c.v, NULL);
    free_copy(&c);
    crn_store_close(&to);
    return rc != CAIRN_OK ? status : cp_report(cli, &t, dir, bytes, is_there);
}

static int cp_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {{"force", no_argument, NULL, 'f'}, {0}};
    int force = 0;
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "f", longs)) != -1) {
        if (c == '?')
            return CLI_USAGE;
        force = 1;
    }
    if (argc - optind != 2)
        return crn_cli_usage(cli, "a checkpoint and a directory are needed");
    return copy_to(cli, argv[optind], argv[optind + 1], force);
}

const struct cli_command crn_cmd_cp = {
    .name = "cp",
    .args = "[-f] NAME[@VERSION] DIRECTORY",
    .help = "Copies a version to another checkpoints' directory, verified and atomic",
    .about = "Copies a version to another directory. The copy is read back and checked "
             "before it becomes visible. A copy needs no other version: what was "
             "encoded against older ones is encoded again without them.",
    .needs_store = 1,
    .run = cp_run,
    .options = "  -f, --force       replace another version of this number there\n",
};
