/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of the node service: HELLO, all others, and the descriptors inside SHARDS. Accepted
 * ones encode again to the same bytes. */
#include "fuzz.h"

#include "service/proto.h"
#include "service/shards.h"

/* Any version is replaced by the current one, so the seeds stay useful when it changes. */
static void hello(uint8_t *data, size_t size)
{
    struct crn_buf at = {.data = data, .len = size, .cap = size};
    struct crn_buf again = {0};
    struct crn_hello h;

    if (crn_hello_decode(data, size, &h, NULL) == CAIRN_OK)
        crn_hello_free(&h);
    if (size >= 5)
        crn_buf_set_u32(&at, 1, CRN_PROTO_VERSION);
    if (crn_hello_decode(data, size, &h, NULL) != CAIRN_OK)
        return;
    if (crn_hello_encode(&h, &again, NULL) != CAIRN_OK || again.len != size ||
        memcmp(again.data, data, size) != 0)
        abort();
    crn_buf_free(&again);
    crn_hello_free(&h);
}

/* Reads every checksum that a shard claims to have. */
static void read_hashes(const struct crn_source *s)
{
    uint64_t sum = 0;
    uint64_t at;
    uint32_t i;

    for (i = 0; s->hash_chunk_bytes != 0 && i < s->shard.nregions; i++)
        for (at = 0; s->hashes[i] != NULL && at < s->shard.regions[i].bytes;
             at += s->hash_chunk_bytes)
            sum += s->hashes[i][at / s->hash_chunk_bytes];
    __asm__ volatile("" : : "r"(sum)); /* forces the reads */
}

/* Makes the descriptor of the first shard valid, so that the bytes behind it are reached. */
static void seal_first(struct crn_blob *b)
{
    struct crn_view v = crn_view_of(b->data, b->bytes);
    uint32_t len;

    (void)crn_view_u32(&v);
    len = crn_view_u32(&v);
    if (!v.failed && len <= crn_view_left(&v))
        fuzz_seal(b->data + v.at, len);
}

static void shards(const struct crn_blob *b)
{
    struct crn_remote r = {0};
    struct crn_buf again = {0};
    uint32_t i;

    if (crn_shards_decode(b->data, b->bytes, 3, 1, &r, NULL) == CAIRN_OK) {
        for (i = 0; i < r.n; i++)
            read_hashes(&r.sources[i]);
        if (crn_shards_encode(r.sources, r.n, &again, NULL) != CAIRN_OK)
            abort();
    }
    crn_buf_free(&again);
    crn_remote_free(&r);
}

static void message(const uint8_t *data, size_t size)
{
    struct crn_buf again = {0};
    struct crn_msg m;

    if (crn_msg_decode(data, size, &m, NULL) != CAIRN_OK)
        return;
    if (crn_msg_encode(&m, &again, NULL) != CAIRN_OK || again.len != size ||
        memcmp(again.data, data, size) != 0)
        abort();
    if (m.type == CRN_MSG_SHARDS) {
        shards(&m.shards.shards);
        seal_first(&m.shards.shards);
        shards(&m.shards.shards);
    }
    crn_buf_free(&again);
    crn_msg_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size > 0 ? size : 1);

    if (exact == NULL)
        return 0;
    if (size > 0)
        memcpy(exact, data, size);
    if (crn_msg_type(exact, size) == CRN_MSG_HELLO)
        hello(exact, size);
    else
        message(exact, size);
    free(exact);
    return 0;
}
