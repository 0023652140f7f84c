/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/test_chain.h"

void take(struct store_env *e, int i, int64_t version, int older)
{
    struct crn_errinfo *ei = &e->info;

    e->t[i] = (struct tv){.name = "heat",
                          .version = version,
                          .seq = (uint64_t)i + 1,
                          .seed = (uint32_t)(3 * i + 1),
                          .ranks = RANKS,
                          .files = FILES,
                          .pipe = older >= 0 ? "delta:1,zstd" : "delta,zstd",
                          .older = older >= 0 ? &e->t[older] : NULL};
    crn_err_clear(ei);
    assert_ok(tv_write(&e->st, &e->t[i], ei));
}

cairn_err compare_file(struct store_env *e, int i, const char *file)
{
    struct crn_data_file f = {.fs = e->st.fs, .what = file};
    struct crn_errinfo *ei = &e->info;
    struct crn_decoder *decoder = NULL;
    struct crn_manifest_file mf = {0};
    struct crn_base_chain *chain = NULL;
    unsigned char want[256], got[TV_CHUNK];
    struct crn_index x = {0};
    char what[400];
    uint64_t k, n;
    cairn_err rc;

    crn_err_clear(ei);
    (void)snprintf(what, sizeof(what), "%s/heat/%lld/%s", e->dir, (long long)e->t[i].version, file);
    f.what = what;
    assert_ok(crn_store_version_dir(&e->st, "heat", e->t[i].version, &f.dfd, ei));
    f.fd = open(what, O_RDONLY);
    rc = crn_store_describe_data(&e->st, "heat", e->t[i].version, file, &mf, &x, ei);
    if (rc == CAIRN_OK)
        rc = crn_base_chain_load(f.fs, f.dfd, &x, what, &chain, ei);
    f.index = &x;
    f.chain = chain;
    for (n = 0; rc == CAIRN_OK && n < x.nextents; n++)
        for (k = 0; rc == CAIRN_OK && k * TV_CHUNK < x.extents[n].bytes; k++) {
            const struct crn_extent *ext = &x.extents[n];

            rc = crn_data_chunk(&f, ext, k, &decoder, got, ei);
            (void)tv_content(&e->t[i], x.shards[ext->shard].rank, ext->region, want);
            if (rc == CAIRN_OK)
                assert_memory_equal(got, want + ext->offset + k * TV_CHUNK,
                                    crn_data_chunk_bytes(&x, ext, k));
        }
    crn_decoder_free(decoder);
    crn_base_chain_free(chain);
    crn_manifest_file_free(&mf);
    crn_index_free(&x);
    (void)close(f.fd);
    (void)close(f.dfd);
    return rc;
}

void expect_whole(struct store_env *e, int i)
{
    struct crn_errinfo *ei = &e->info;
    struct crn_manifest m;
    uint32_t k;

    crn_err_clear(ei);
    assert_ok(crn_store_manifest(&e->st, "heat", e->t[i].version, &m, ei));
    assert_int_equal(m.id.seq, e->t[i].seq);
    for (k = 0; k < m.nfiles; k++)
        assert_ok(compare_file(e, i, m.files[k].name));
    crn_manifest_free(&m);
}
