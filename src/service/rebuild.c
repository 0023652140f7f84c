/* SPDX-License-Identifier: BSD-3-Clause */
/* A piece counts only if it is proved: a data file by the checksums of all its chunks and the identity
 * that the parity names, a cell of parity by its own checksum. A rebuilt file is one more data file: its
 * index carries the checksums that the capture took, and the publisher verifies them. */
#include "service/rebuild.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protect/field.h"
#include "protect/stripes.h"
#include "store/data.h"

#define COPY_BLOCK ((uint64_t)4 << 20)
#define HEAD_MOST  ((uint64_t)1 << 34)

/* Files. --------------------------------------------------------------------------------------- */

static cairn_err read_head(const struct crn_fs *fs, int fd, const char *what,
                           struct crn_parity *ret, struct crn_errinfo *ei)
{
    unsigned char mark[CRN_PARITY_MARK];
    uint64_t head = 0;
    struct stat st;
    cairn_err rc;
    void *buf;

    rc = crn_fs_check(fs->fstat(fs, fd, &st), ei, "stat '%s'", what);
    if (rc == CAIRN_OK && st.st_size < CRN_PARITY_MARK)
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: the file was never finished", what);
    if (rc == CAIRN_OK)
        rc = crn_fs_read_all(fs, fd, mark, sizeof(mark), (uint64_t)st.st_size - sizeof(mark), what,
                             ei);
    if (rc == CAIRN_OK)
        rc = crn_parity_decode_mark(mark, (uint64_t)st.st_size, what, &head, ei);
    if (rc == CAIRN_OK && head > HEAD_MOST)
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: its head is too long", what);
    if (rc != CAIRN_OK)
        return rc;
    buf = malloc(head + 1);
    if (buf == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the head of '%s'", what);
    rc =
        crn_fs_read_all(fs, fd, buf, head, (uint64_t)st.st_size - CRN_PARITY_MARK - head, what, ei);
    if (rc == CAIRN_OK)
        rc = crn_parity_decode(buf, head, what, ret, ei);
    free(buf);
    if (rc == CAIRN_OK &&
        crn_parity_rows_bytes(ret) != (uint64_t)st.st_size - CRN_PARITY_MARK - head) {
        crn_parity_free(ret);
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: its rows do not fit its size", what);
    }
    return rc;
}

cairn_err crn_rebuild_load(const struct crn_fs *fs, int dfd, const char *file, const char *what,
                           struct crn_parity *ret, int *ret_fd, struct crn_errinfo *ei)
{
    int fd = fs->openat(fs, dfd, file, O_RDONLY | O_NOFOLLOW, 0);
    cairn_err rc;

    if (fd < 0)
        return crn_fail_errno(ei, -fd, "open '%s'", what);
    rc = read_head(fs, fd, what, ret, ei);
    if (rc != CAIRN_OK) {
        (void)fs->close(fs, fd);
        return rc;
    }
    *ret_fd = fd;
    return CAIRN_OK;
}

/* fsync, and close in any case. */
static cairn_err end_file(const struct crn_fs *fs, int fd, cairn_err rc, const char *file,
                          struct crn_errinfo *ei)
{
    int r;

    if (rc == CAIRN_OK)
        rc = crn_fs_check(fs->fsync(fs, fd), ei, "fsync '%s'", file);
    if (rc != CAIRN_OK)
        (void)fs->ftruncate(fs, fd, 0); /* it may look whole in the page cache */
    r = fs->close(fs, fd);
    return rc == CAIRN_OK ? crn_fs_check(r, ei, "close '%s'", file) : rc;
}

cairn_err crn_rebuild_raise_data(const struct crn_store *st, const struct crn_nodefile *f,
                                 char ret_file[CRN_FILE_NAME], struct crn_errinfo *ei)
{
    unsigned char *block = malloc(COPY_BLOCK);
    const struct crn_index *x = &f->index;
    const struct crn_fs *fs = st->fs;
    cairn_err rc;
    uint64_t at;
    int fd;

    if (block == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a block of a data file");
    rc = crn_store_create_data(st, x->name, x->version, x->file_no, ret_file, &fd, ei);
    if (rc != CAIRN_OK) {
        free(block);
        return rc;
    }
    for (at = 0; rc == CAIRN_OK && at < f->bytes; at += COPY_BLOCK) {
        uint64_t n = f->bytes - at < COPY_BLOCK ? f->bytes - at : COPY_BLOCK;

        rc = crn_nodefile_read(f, at, n, block, ei);
        if (rc == CAIRN_OK)
            rc = crn_fs_write_all(fs, fd, block, n, at, ret_file, ei);
    }
    free(block);
    if (rc == CAIRN_OK) /* it may be a reused file */
        rc = crn_fs_check(fs->ftruncate(fs, fd, (off_t)f->bytes), ei, "truncate '%s'", ret_file);
    return end_file(fs, fd, rc, ret_file, ei);
}

cairn_err crn_rebuild_raise_parity(const struct crn_store *st, const struct crn_parity *p, int from,
                                   struct crn_errinfo *ei)
{
    unsigned char *block = malloc(COPY_BLOCK);
    const struct crn_fs *fs = st->fs;
    char file[CRN_FILE_NAME];
    struct stat sb;
    cairn_err rc;
    uint64_t at;
    int to;

    if (block == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a block of parity");
    rc = crn_fs_check(fs->fstat(fs, from, &sb), ei, "stat a parity file");
    if (rc == CAIRN_OK)
        rc = crn_store_create_parity(st, p->name, p->version, p->member[p->place].node, file, &to,
                                     ei);
    if (rc != CAIRN_OK) {
        free(block);
        return rc;
    }
    for (at = 0; rc == CAIRN_OK && at < (uint64_t)sb.st_size; at += COPY_BLOCK) {
        uint64_t left = (uint64_t)sb.st_size - at;
        size_t n = left < COPY_BLOCK ? left : COPY_BLOCK;

        rc = crn_fs_read_all(fs, from, block, n, at, "parity", ei);
        if (rc == CAIRN_OK)
            rc = crn_fs_write_all(fs, to, block, n, at, file, ei);
    }
    free(block);
    return end_file(fs, to, rc, file, ei);
}

/* What is there. ------------------------------------------------------------------------------- */

struct rebuild_row {
    struct crn_parity head;
    int fd;
    int is_done; /* its set has been handled */
};

/* One set of the version, by place of its members. */
struct rebuild_set {
    const struct crn_store *st;
    const struct crn_parity *head; /* of any of its parity files */
    struct crn_stripes plan;
    int dfd;
    int data[CRN_SET_MAX];                /* -1: missing */
    struct rebuild_row *row[CRN_SET_MAX]; /* NULL: missing */
    unsigned char *sum, *piece;           /* a cell each */
};

static int is_same_set(const struct crn_parity *a, const struct crn_parity *b)
{
    return a->nmembers == b->nmembers && a->scheme == b->scheme && a->rows == b->rows &&
           a->cell_bytes == b->cell_bytes &&
           memcmp(a->member, b->member, a->nmembers * sizeof(a->member[0])) == 0;
}

/* Is this the stream of the member, bit for bit? */
static cairn_err prove_data(const struct rebuild_set *s, const char *file, uint32_t place, int *ret,
                            struct crn_errinfo *ei)
{
    const struct crn_parity_member *m = &s->head->member[place];
    const struct crn_parity *p = s->head;
    struct crn_errinfo why = {0};
    struct crn_manifest_file mf = {0};
    struct crn_index x = {0};
    cairn_err rc;
    int fd = -1;

    rc = crn_store_describe_data(s->st, p->name, p->version, file, &mf, &x, &why);
    if (rc == CAIRN_OK && mf.bytes == m->bytes && mf.trailer.index_hash == m->index_hash &&
        crn_capture_id_equal(&x.id, &p->id)) {
        struct crn_data_file data = {.fs = s->st->fs, .dfd = s->dfd, .index = &x, .what = file};

        fd = s->st->fs->openat(s->st->fs, s->dfd, file, O_RDONLY | O_NOFOLLOW, 0);
        data.fd = fd;
        rc = fd < 0 ? crn_fail_errno(&why, -fd, "open '%s'", file)
                    : crn_data_verify(&data, NULL, NULL, &why);
    }
    crn_manifest_file_free(&mf);
    crn_index_free(&x);
    if (rc == CAIRN_OK && fd >= 0) {
        *ret = fd;
        return CAIRN_OK;
    }
    if (fd >= 0)
        (void)s->st->fs->close(s->st->fs, fd);
    if (rc == CAIRN_OK || rc == CAIRN_EDAMAGED || rc == CAIRN_EFORMAT || rc == CAIRN_ENOENT)
        return CAIRN_OK; /* another capture, or not whole */
    crn_err_keep(ei, &why);
    return rc;
}

static cairn_err find_data(struct rebuild_set *s, const struct crn_names *names,
                           struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    uint32_t no, attempt, i;
    size_t k;

    for (k = 0; rc == CAIRN_OK && k < names->n; k++) {
        if (crn_data_name_parse(names->name[k], &no, &attempt) != 0)
            continue;
        for (i = 0; i < s->head->nmembers && s->head->member[i].node != no; i++)
            ;
        if (i < s->head->nmembers && s->data[i] < 0)
            rc = prove_data(s, names->name[k], i, &s->data[i], ei);
    }
    return rc;
}

/* Rebuilding. ---------------------------------------------------------------------------------- */

/* Which pieces of the stripe are there. */
static void list_pieces(const struct rebuild_set *s, uint32_t stripe, unsigned char *has)
{
    struct crn_segment x;
    uint32_t c, r;

    for (c = 0; c < s->plan.columns; c++) {
        crn_stripes_segment(&s->plan, stripe, c, &x);
        has[c] = s->data[x.member] >= 0 || x.bytes == 0;
    }
    for (r = 0; r < s->plan.scheme.parity; r++)
        has[c + r] = s->row[crn_stripes_keeper(&s->plan, stripe, r)] != NULL;
}

/* Reads a cell of parity. A damaged one makes the whole file count as missing. */
static cairn_err read_cell(struct rebuild_set *s, uint32_t keeper, uint32_t row, uint64_t off,
                           uint64_t bytes, struct crn_errinfo *ei)
{
    struct rebuild_row *p = s->row[keeper];
    uint64_t cell = p->head.cell_bytes;
    uint64_t hash = off / cell;
    uint64_t at = off;
    cairn_err rc;
    uint32_t r;

    for (r = 0; r < row; r++) {
        at += p->head.row_bytes[r];
        hash += p->head.row_bytes[r] / cell + (p->head.row_bytes[r] % cell != 0);
    }
    rc = crn_fs_read_all(s->st->fs, p->fd, s->piece, bytes, at, "parity", ei);
    if (rc == CAIRN_OK && crn_hash(s->piece, bytes) != p->head.hashes[hash])
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "parity of node %u: its checksum is wrong",
                      p->head.member[keeper].node);
    if (rc == CAIRN_EDAMAGED)
        s->row[keeper] = NULL;
    return rc;
}

/* Adds one piece of a stripe, at offset `off` of its row, to the sum. */
static cairn_err add_piece(struct rebuild_set *s, uint32_t stripe, uint32_t piece, uint8_t factor,
                           uint64_t off, uint64_t bytes, struct crn_errinfo *ei)
{
    uint32_t row = piece - s->plan.columns;
    struct crn_segment x;
    cairn_err rc;

    if (piece >= s->plan.columns) {
        rc = read_cell(s, crn_stripes_keeper(&s->plan, stripe, row), row, off, bytes, ei);
    } else {
        crn_stripes_segment(&s->plan, stripe, piece, &x);
        if (x.bytes <= off)
            return CAIRN_OK;
        bytes = x.bytes - off < bytes ? x.bytes - off : bytes;
        rc = crn_fs_read_all(s->st->fs, s->data[x.member], s->piece, bytes, x.offset + off,
                             "a data file", ei);
    }
    if (rc == CAIRN_OK)
        crn_field_add(s->sum, s->piece, factor, bytes);
    return rc;
}

/* CAIRN_ENOENT: too much of the set is missing. */
static cairn_err rebuild_segment(struct rebuild_set *s, uint32_t place, uint32_t segment, int fd,
                                 const char *file, struct crn_errinfo *ei)
{
    uint32_t stripe = crn_stripes_of(&s->plan, place, segment);
    uint64_t row = crn_stripes_row_bytes(&s->plan, stripe);
    uint64_t cell = s->head->cell_bytes;
    unsigned char has[2 * CRN_SET_MAX];
    uint8_t factors[2 * CRN_SET_MAX];
    struct crn_segment x;
    cairn_err rc = CAIRN_OK;
    uint64_t off;
    uint32_t p;

    crn_stripes_segment(&s->plan, stripe, segment, &x);
    list_pieces(s, stripe, has);
    if (x.bytes > 0 &&
        crn_scheme_rebuild(s->plan.scheme, s->plan.columns, has, segment, factors) != 0)
        return crn_fail(ei, CAIRN_ENOENT, 0, "too many members of its set are missing");
    for (off = 0; rc == CAIRN_OK && off < x.bytes; off += cell) {
        uint64_t bytes = row - off < cell ? row - off : cell;

        memset(s->sum, 0, bytes);
        for (p = 0; rc == CAIRN_OK && p < s->plan.columns + s->plan.scheme.parity; p++)
            if (factors[p] != 0)
                rc = add_piece(s, stripe, p, factors[p], off, bytes, ei);
        if (x.bytes - off < bytes)
            bytes = x.bytes - off;
        if (rc == CAIRN_OK)
            rc = crn_fs_write_all(s->st->fs, fd, s->sum, bytes, x.offset + off, file, ei);
    }
    return rc;
}

/* CAIRN_EDAMAGED: a parity file was found damaged, and is missing from now on. */
static cairn_err rebuild_member(struct rebuild_set *s, uint32_t place, struct crn_errinfo *ei)
{
    const struct crn_parity *p = s->head;
    const struct crn_fs *fs = s->st->fs;
    struct crn_errinfo ignored = {0};
    char file[CRN_FILE_NAME];
    cairn_err rc;
    uint32_t c;
    int fd;

    rc = crn_store_create_data(s->st, p->name, p->version, p->member[place].node, file, &fd, ei);
    if (rc != CAIRN_OK)
        return rc;
    for (c = 0; rc == CAIRN_OK && c < s->plan.columns; c++)
        rc = rebuild_segment(s, place, c, fd, file, ei);
    if (rc == CAIRN_OK)
        rc = crn_fs_check(fs->ftruncate(fs, fd, (off_t)p->member[place].bytes), ei, "truncate '%s'",
                          file);
    rc = end_file(fs, fd, rc, file, ei);
    if (rc != CAIRN_OK &&
        crn_store_discard_data(s->st, p->name, p->version, file, &ignored) != CAIRN_OK)
        crn_err_clear(&ignored); /* a sweep removes it */
    return rc;
}

static uint32_t count_rows(const struct rebuild_set *s)
{
    uint32_t n = 0;
    uint32_t i;

    for (i = 0; i < s->plan.members; i++)
        n += s->row[i] != NULL;
    return n;
}

/* Adds the node to the text, and the nodes whose data or parity it comes from. */
static void note_rebuilt(const struct rebuild_set *s, uint32_t place, struct crn_rebuilt *ret)
{
    char scheme[CRN_SCHEME_TEXT];
    size_t size = sizeof(ret->text);
    size_t n = strlen(ret->text);
    const char *comma = "";
    uint32_t i;

    crn_scheme_text(s->plan.scheme, scheme);
    n += (size_t)snprintf(ret->text + n, size - n, "%snode %u from ", n > 0 ? ", " : "",
                          s->head->member[place].node);
    for (i = 0; i < s->plan.members && n < size; i++) {
        if (s->data[i] < 0 && s->row[i] == NULL)
            continue;
        n += (size_t)snprintf(ret->text + n, size - n, "%s%u", comma, s->head->member[i].node);
        comma = "+";
    }
    if (n < size)
        (void)snprintf(ret->text + n, size - n, " (%s)", scheme);
    ret->files++;
}

/* Rebuilds what is missing of a set, as far as possible. */
static cairn_err rebuild_missing(struct rebuild_set *s, struct crn_rebuilt *ret,
                                 struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    for (i = 0; rc == CAIRN_OK && i < s->plan.members; i++) {
        uint32_t before;

        if (s->data[i] >= 0)
            continue;
        do {
            crn_err_clear(ei);
            before = count_rows(s);
            rc = rebuild_member(s, i, ei);
        } while (rc == CAIRN_EDAMAGED && count_rows(s) < before);
        if (rc == CAIRN_OK)
            note_rebuilt(s, i, ret);
    }
    if (rc != CAIRN_ENOENT)
        return rc;
    crn_err_clear(ei);
    return CAIRN_OK;
}

static cairn_err open_set(struct rebuild_set *s, struct rebuild_row *rows, size_t n,
                          struct crn_errinfo *ei)
{
    const struct crn_parity *p = s->head;
    struct crn_protection scheme = {p->scheme, p->rows};
    uint64_t length[CRN_SET_MAX];
    uint32_t i, r;
    size_t k;

    for (i = 0; i < CRN_SET_MAX; i++)
        s->data[i] = -1;
    if (!crn_scheme_fits(scheme, p->nmembers))
        return crn_fail(ei, CAIRN_EFORMAT, 0, "parity of a scheme that this Cairn does not know");
    for (i = 0; i < p->nmembers; i++)
        length[i] = p->member[i].bytes;
    crn_stripes_plan(scheme, p->nmembers, length, &s->plan);
    for (k = 0; k < n; k++) {
        struct crn_parity *q = &rows[k].head;
        int does_fit = is_same_set(p, q);

        for (r = 0; does_fit && r < q->rows; r++)
            does_fit = q->row_bytes[r] ==
                       crn_stripes_row_bytes(&s->plan, crn_stripes_kept(&s->plan, q->place, r));
        rows[k].is_done |= is_same_set(p, q);
        if (does_fit)
            s->row[q->place] = &rows[k];
    }
    s->sum = malloc(p->cell_bytes);
    s->piece = malloc(p->cell_bytes);
    if (s->sum == NULL || s->piece == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a rebuild");
    return CAIRN_OK;
}

static cairn_err rebuild_one_set(const struct crn_store *st, int dfd, const struct crn_names *names,
                                 struct rebuild_row *rows, size_t n, size_t first,
                                 struct crn_rebuilt *ret, struct crn_errinfo *ei)
{
    struct rebuild_set s = {.st = st, .head = &rows[first].head, .dfd = dfd};
    cairn_err rc;
    uint32_t i;

    rows[first].is_done = 1;
    rc = open_set(&s, rows, n, ei);
    if (rc == CAIRN_OK)
        rc = find_data(&s, names, ei);
    if (rc == CAIRN_OK)
        rc = rebuild_missing(&s, ret, ei);
    for (i = 0; i < s.head->nmembers; i++)
        if (s.data[i] >= 0)
            (void)st->fs->close(st->fs, s.data[i]);
    free(s.sum);
    free(s.piece);
    return rc;
}

/* All whole parity files of the capture. */
static cairn_err load_rows(const struct crn_store *st, int dfd, const struct crn_names *names,
                           const struct crn_capture_id *id, struct rebuild_row *rows, size_t *ret_n,
                           struct crn_errinfo *ei)
{
    uint32_t node, attempt;
    size_t i;

    for (i = 0; i < names->n; i++) {
        struct rebuild_row *row = &rows[*ret_n];
        struct crn_errinfo why = {0};
        cairn_err rc;

        if (crn_parity_name_parse(names->name[i], &node, &attempt) != 0)
            continue;
        rc = crn_rebuild_load(st->fs, dfd, names->name[i], names->name[i], &row->head, &row->fd,
                              &why);
        if (rc == CAIRN_EDAMAGED || rc == CAIRN_EFORMAT || rc == CAIRN_ENOENT)
            continue; /* torn, or from a newer Cairn */
        if (rc != CAIRN_OK) {
            crn_err_keep(ei, &why);
            return rc;
        }
        ++*ret_n;
        if (crn_capture_id_equal(&row->head.id, id))
            continue;
        --*ret_n; /* of another capture */
        crn_parity_free(&row->head);
        (void)st->fs->close(st->fs, row->fd);
        *row = (struct rebuild_row){0};
    }
    return CAIRN_OK;
}

cairn_err crn_rebuild_version(const struct crn_store *st, const char *name, int64_t version,
                              const struct crn_capture_id *id, struct crn_rebuilt *ret,
                              struct crn_errinfo *ei)
{
    struct rebuild_row *rows = NULL;
    struct crn_names names = {0};
    struct crn_rebuilt rebuilt = {0};
    size_t n = 0;
    cairn_err rc;
    size_t i;
    int dfd;

    rc = crn_store_version_dir(st, name, version, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_fs_names(st->fs, dfd, name, &names, ei);
    if (rc == CAIRN_OK) {
        rows = calloc(names.n + 1, sizeof(*rows));
        rc = rows == NULL ? crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a rebuild")
                          : load_rows(st, dfd, &names, id, rows, &n, ei);
    }
    for (i = 0; rc == CAIRN_OK && i < n; i++)
        if (!rows[i].is_done)
            rc = rebuild_one_set(st, dfd, &names, rows, n, i, &rebuilt, ei);
    for (i = 0; i < n; i++) {
        crn_parity_free(&rows[i].head);
        (void)st->fs->close(st->fs, rows[i].fd);
    }
    free(rows);
    crn_names_free(&names);
    (void)st->fs->close(st->fs, dfd);
    *ret = rebuilt;
    return crn_err_context(ei, rc, "rebuild of %s@%" PRId64, name, version);
}

void crn_rebuild_clean(const struct crn_store *st, const char *name, int64_t version)
{
    struct crn_errinfo ignored = {0};
    struct crn_names names = {0};
    uint32_t node, attempt;
    size_t i;
    int dfd;

    if (crn_store_version_dir(st, name, version, &dfd, &ignored) != CAIRN_OK)
        return;
    if (crn_fs_names(st->fs, dfd, name, &names, &ignored) == CAIRN_OK)
        for (i = 0; i < names.n; i++)
            if (crn_parity_name_parse(names.name[i], &node, &attempt) == 0)
                (void)st->fs->unlinkat(st->fs, dfd, names.name[i], 0);
    crn_names_free(&names);
    (void)st->fs->close(st->fs, dfd);
}
