/* SPDX-License-Identifier: BSD-3-Clause */
/* make_golden DIR [encoded | chained | types | packed | generation | chunks]: writes the golden
 * files of the current format version, or those with encoded data, with data encoded against older
 * versions, with types from 13 on, with a packed index, with a generation, or one chunk for each
 * encoding stage. Golden files are made once for each version and never again; this program
 * documents how. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "encode/work.h"
#include "test_golden.h"
#include "golden_chunks.h"

static cairn_err make(const struct crn_store *st, struct crn_errinfo *ei)
{
    struct tv first = golden_version(8, 2);
    struct tv again = golden_version(8, 3);
    struct tv pinned = golden_version(7, 1);
    cairn_err rc;

    rc = tv_write(st, &pinned, ei);
    if (rc == CAIRN_OK)
        rc = tv_write(st, &first, ei);
    if (rc == CAIRN_OK)
        rc = tv_write(st, &again, ei);
    if (rc == CAIRN_OK)
        rc = crn_store_pin(st, "golden", 7, 1, ei);
    if (rc == CAIRN_OK)
        rc = crn_store_reject(st, "golden", 8, GOLDEN_REASON, ei);
    return rc;
}

static cairn_err make_encoded(const struct crn_store *st, struct crn_errinfo *ei)
{
    struct tv t = golden_encoded();

    return tv_write(st, &t, ei);
}

static cairn_err make_types(const struct crn_store *st, struct crn_errinfo *ei)
{
    struct tv t = golden_types();

    return tv_write(st, &t, ei);
}

static cairn_err make_chained(const struct crn_store *st, struct crn_errinfo *ei)
{
    struct golden_chain c;
    cairn_err rc;

    golden_chain(&c);
    rc = tv_write(st, &c.ten, ei);
    if (rc == CAIRN_OK)
        rc = tv_write(st, &c.eleven, ei);
    if (rc == CAIRN_OK)
        rc = tv_write(st, &c.twelve, ei);
    if (rc == CAIRN_OK)
        rc = tv_write(st, &c.again, ei);
    return rc;
}

static cairn_err make_packed(struct crn_store *st, struct crn_errinfo *ei)
{
    struct tv t = golden_packed();

    st->index_pipe = GOLDEN_INDEX_PIPE;
    return tv_write(st, &t, ei);
}

/* Another run has written since: the name's generation is one higher. */
static cairn_err make_generation(const struct crn_store *st, struct crn_errinfo *ei)
{
    struct golden_run r;
    uint64_t next;
    cairn_err rc;

    golden_run(&r);
    rc = tv_write(st, &r.fifteen, ei);
    if (rc == CAIRN_OK)
        rc = tv_write(st, &r.sixteen, ei);
    if (rc == CAIRN_OK)
        rc = tv_write(st, &r.seventeen, ei);
    if (rc == CAIRN_OK)
        rc = crn_store_raise_generation(st, "golden", &next, ei);
    return rc;
}

/* Encoded chunks, each in a file. */
static cairn_err make_chunks(int dfd, struct crn_errinfo *ei)
{
    unsigned char now[GOLDEN_CHUNK], older[GOLDEN_CHUNK], chunk[GOLDEN_CHUNK];
    struct crn_encode_work *work = NULL;
    cairn_err rc = crn_work_new(&work, ei);
    char name[32];
    size_t k;

    for (k = 0; rc == CAIRN_OK && k < GOLDEN_CHUNKS; k++) {
        struct crn_run run = golden_chunk_run(k);
        struct crn_data data = {.type = golden_chunks[k].type, .nruns = 1, .runs = &run};
        struct crn_pipe pipe, used;
        size_t n = 0;

        golden_chunk(k, name, now, older);
        rc = crn_pipe_parse(golden_chunks[k].pipe, &pipe, ei);
        if (rc == CAIRN_OK && crn_pipe_needs_previous(&pipe))
            data.previous = older;
        if (rc == CAIRN_OK)
            rc = crn_chunk_encode(work, &pipe, &data, now, sizeof(now), chunk, &n, &used, ei);
        if (rc == CAIRN_OK && !crn_pipe_equal(&pipe, &used))
            rc = crn_fail(ei, CAIRN_EINVAL, 0, "%s does not suit its data", golden_chunks[k].pipe);
        if (rc == CAIRN_OK)
            rc = crn_fs_replace(crn_fs_posix(), dfd, name, chunk, n, ei);
    }
    crn_work_free(work);
    return rc;
}

int main(int argc, char **argv)
{
    struct crn_errinfo info = {0};
    struct crn_store st;
    cairn_err rc;

    if ((argc != 2 && argc != 3) || access(argv[1], F_OK) == 0) {
        (void)fprintf(stderr, "usage: make_golden NEW-DIRECTORY "
                              "[encoded | chained | types | packed | generation]\n");
        return 2;
    }
    rc = crn_store_open(crn_fs_posix(), argv[1], 1, &st, &info);
    if (rc == CAIRN_OK) {
        rc = argc == 2                            ? make(&st, &info)
             : strcmp(argv[2], "chained") == 0    ? make_chained(&st, &info)
             : strcmp(argv[2], "types") == 0      ? make_types(&st, &info)
             : strcmp(argv[2], "packed") == 0     ? make_packed(&st, &info)
             : strcmp(argv[2], "chunks") == 0     ? make_chunks(st.dfd, &info)
             : strcmp(argv[2], "generation") == 0 ? make_generation(&st, &info)
                                                  : make_encoded(&st, &info);
        crn_store_close(&st);
    }
    if (rc != CAIRN_OK)
        (void)fprintf(stderr, "make_golden: %s\n", info.msg);
    return rc == CAIRN_OK ? 0 : 1;
}
