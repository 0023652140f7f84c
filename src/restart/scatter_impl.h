/* SPDX-License-Identifier: BSD-3-Clause */
/* What scatter.c, send.c and receive.c share: one run of crn_scatter_run. Inside src/restart only.
 * Everything belongs to the application's thread. */
#ifndef CRN_RESTART_SCATTER_IMPL_H
#define CRN_RESTART_SCATTER_IMPL_H

#include "comm/mail.h"
#include "restart/pass.h"
#include "restart/scatter.h"

#define CRN_SCATTER_INLINE  4096 /* bytes that travel with their head */
#define CRN_SCATTER_BUFFERS 2    /* for runs on their way, on each side */

/* What a rank tells the others before. */
struct crn_member {
    uint32_t rank; /* in the version */
    uint32_t nparts;
    uint32_t is_whole;
    uint32_t has_it;
    uint32_t node;
    uint32_t where;
};

/* A part that someone wants; by rank and region of the version. */
struct crn_wish {
    int who;       /* of the team */
    uint32_t part; /* his number of it */
    const struct crn_slice *p;
};

/* In front of all bytes. */
enum crn_head_kind { CRN_HEAD_INLINE, CRN_HEAD_FOLLOWS, CRN_HEAD_END };
struct crn_head {
    uint32_t kind;
    uint32_t part;       /* of the receiver */
    uint64_t begin, end; /* in the stored region */
    uint64_t bytes;      /* of the part in that range; END: that will not come */
    uint64_t brought;    /* END: bytes that the reader has put into its memory */
};

struct crn_buffer {
    unsigned char *data;
    int is_used;
};

struct crn_sending; /* one transfer; send.c */
struct crn_coming;  /* one head whose bytes follow; receive.c */

struct crn_scatter_run {
    const struct crn_scatter *c;
    const struct crn_readers *team;
    struct crn_member *members; /* of the team */
    struct crn_slice *all;      /* readers: parts of all, most for each */
    uint32_t most;
    size_t message_bytes; /* the most that travels at once */

    /* Readers. */
    struct crn_pass *pass;
    int *whole_of; /* by rank of the version: who wants all of it; -1: nobody */
    struct crn_wish *wishes;
    size_t nwishes;
    struct crn_mate *mates;   /* by rank of the team, this one too; memory NULL: send it */
    uint64_t *own_at;         /* of mates[this] */
    uint64_t *lost, *brought; /* by rank of the team: bytes */
    int has_told_end;
    struct crn_sending *sending;
    struct crn_buffer pack[CRN_SCATTER_BUFFERS];

    /* All. */
    uint64_t expected, got, missed; /* bytes; missed will not come */
    struct crn_coming *coming, **coming_end;
    struct crn_buffer scratch[CRN_SCATTER_BUFFERS];
};

/* receive.c */
/* Takes what has arrived; *busy is set if there was something. */
CAIRN_CHECKED cairn_err crn_receive(struct crn_scatter_run *r, int *busy, struct crn_errinfo *ei);
void crn_receive_fini(struct crn_scatter_run *r);

/* send.c */
/* Hands out all that was read in a block, and puts the block back when the last byte is sent. */
CAIRN_CHECKED cairn_err crn_send_block(struct crn_scatter_run *r, struct crn_pass_block *b,
                                       struct crn_errinfo *ei);
/* Tells everybody how much was brought, and how much will not come. */
CAIRN_CHECKED cairn_err crn_send_end(struct crn_scatter_run *r, struct crn_errinfo *ei);
/* What is on its way will not end: its memory is MPI's from now on, and nothing is read to it any more. */
void crn_send_abandon(struct crn_scatter_run *r);
/* Retires what is sent. */
CAIRN_CHECKED cairn_err crn_send_progress(struct crn_scatter_run *r, int *busy,
                                          struct crn_errinfo *ei);

struct crn_buffer *crn_buffer_take(struct crn_buffer *buffers); /* NULL: all are used */

#endif
