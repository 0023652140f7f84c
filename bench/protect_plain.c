/* SPDX-License-Identifier: BSD-3-Clause */
/* See protect.h. Blocks are small enough for the cache, so that parity is made of what was just copied. */
#include <stdlib.h>
#include <string.h>

#include "protect.h"
#include "protect/field.h"

#ifdef CRN_WITH_ISAL
#include <isa-l.h>
#endif

#define BLOCK ((uint64_t)64 << 10)

int plain_parity_init(struct plain_parity *p, const char *scheme, uint32_t nodes, uint64_t bytes)
{
    struct crn_errinfo ei = {0};
    struct crn_protection s;
    uint64_t length[CRN_SET_MAX];
    uint32_t i;

    memset(p, 0, sizeof(*p));
    if (crn_scheme_parse(scheme, "--scheme", &s, &ei) != CAIRN_OK || !crn_scheme_fits(s, nodes))
        return -1;
    for (i = 0; i < nodes; i++)
        length[i] = bytes;
    crn_stripes_plan(s, nodes, length, &p->plan);
    p->stage = aligned_alloc(64, BLOCK * p->plan.columns);
    p->parity = aligned_alloc(64, (plain_parity_bytes(p) + 63) / 64 * 64);
    p->tables = calloc((size_t)s.parity * p->plan.columns, 32);
    if (p->stage == NULL || p->parity == NULL || p->tables == NULL)
        return -1;
    memset(p->stage, 1, BLOCK * p->plan.columns);
    memset(p->parity, 1, plain_parity_bytes(p));
#ifdef CRN_WITH_ISAL
    for (i = 0; i < s.parity * p->plan.columns; i++)
        gf_vect_mul_init(
            crn_scheme_factor(s, p->plan.columns, i / p->plan.columns, i % p->plan.columns),
            p->tables + 32 * (size_t)i);
#endif
    return 0;
}

void plain_parity_fini(struct plain_parity *p)
{
    free(p->stage);
    free(p->parity);
    free(p->tables);
}

uint64_t plain_parity_bytes(const struct plain_parity *p)
{
    return crn_stripes_row_at(&p->plan, 0, p->plan.scheme.parity);
}

/* Parity of n bytes of each column, which are in the stage. */
static void encode_block(const struct plain_parity *p, uint32_t row, uint64_t n, unsigned char *dst)
{
    uint32_t columns = p->plan.columns;
    void *piece[CRN_SET_MAX + 1];
    uint32_t c;

    for (c = 0; c < columns; c++)
        piece[c] = p->stage + c * BLOCK;
#ifdef CRN_WITH_ISAL
    piece[columns] = dst;
    if (columns > 1 && p->plan.scheme.kind == CRN_SCHEME_XOR && n % 32 == 0 &&
        (uintptr_t)dst % 32 == 0)
        (void)xor_gen((int)columns + 1, (int)n, piece);
    else
        ec_encode_data((int)n, (int)columns, 1, p->tables + (size_t)row * columns * 32,
                       (unsigned char **)piece, &dst);
#else
    memset(dst, 0, n);
    for (c = 0; c < columns; c++)
        crn_field_add(dst, piece[c], crn_scheme_factor(p->plan.scheme, columns, row, c), n);
#endif
}

void plain_parity_make(struct plain_parity *p, const unsigned char *data)
{
    unsigned char *dst = p->parity;
    uint32_t row, c;
    uint64_t off;

    for (row = 0; row < p->plan.scheme.parity; row++) {
        uint32_t stripe = crn_stripes_kept(&p->plan, 0, row);
        uint64_t bytes = crn_stripes_row_bytes(&p->plan, stripe);

        for (off = 0; off < bytes; off += BLOCK) {
            uint64_t n = bytes - off < BLOCK ? bytes - off : BLOCK;

            for (c = 0; c < p->plan.columns; c++) {
                struct crn_segment x;
                uint64_t have;

                crn_stripes_segment(&p->plan, stripe, c, &x);
                have = x.bytes <= off ? 0 : x.bytes - off < n ? x.bytes - off : n;
                memcpy(p->plan.columns > 1 ? p->stage + c * BLOCK : dst, data + x.offset + off,
                       have);
                if (have < n)
                    memset((p->plan.columns > 1 ? p->stage + c * BLOCK : dst) + have, 0, n - have);
            }
            if (p->plan.columns > 1)
                encode_block(p, row, n, dst);
            dst += n;
        }
    }
}

int plain_parity_is_right(const struct plain_parity *p, const unsigned char *data)
{
    uint32_t stripe = crn_stripes_kept(&p->plan, 0, 0);
    uint64_t bytes = crn_stripes_row_bytes(&p->plan, stripe);
    unsigned char wanted[4096] = {0};
    uint32_t c;

    for (c = 0; c < p->plan.columns; c++) {
        struct crn_segment x;

        crn_stripes_segment(&p->plan, stripe, c, &x);
        crn_field_add_plain(wanted, data + x.offset,
                            crn_scheme_factor(p->plan.scheme, p->plan.columns, 0, c),
                            x.bytes < sizeof(wanted) ? x.bytes : sizeof(wanted));
    }
    return memcmp(wanted, p->parity, bytes < sizeof(wanted) ? bytes : sizeof(wanted)) == 0;
}
