/* SPDX-License-Identifier: BSD-3-Clause */
/* The least that the parity of a node costs: the bytes it is made of are copied once, block by block,
 * and go through the arithmetic of ISA-L. Used by the programs of bench/protect. */
#ifndef BENCH_PROTECT_H
#define BENCH_PROTECT_H

#include "common.h"
#include "protect/stripes.h"

struct plain_parity {
    struct crn_stripes plan; /* all members have as many bytes */
    unsigned char *stage;    /* a block for each column, as fetched */
    unsigned char *parity;
    unsigned char *tables; /* of each row */
};

/* 0, or -1 if the scheme does not fit or there is no memory. bytes: of each node. */
int plain_parity_init(struct plain_parity *p, const char *scheme, uint32_t nodes, uint64_t bytes);
void plain_parity_fini(struct plain_parity *p);
/* Bytes of parity that a node keeps. */
uint64_t plain_parity_bytes(const struct plain_parity *p);
/* The parity of one node. The data of one member stands for that of all others. */
void plain_parity_make(struct plain_parity *p, const unsigned char *data);
/* Compares its first bytes with the definition. */
int plain_parity_is_right(const struct plain_parity *p, const unsigned char *data);

#endif
