/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by scatter.c, send.c and receive.c: the state of one crn_scatter_run. Inside src/restart
 * only. Only the application's thread uses it. */
#ifndef CRN_RESTART_SCATTER_IMPL_H
#define CRN_RESTART_SCATTER_IMPL_H

#include "comm/mail.h"
#include "restart/pass.h"
#include "restart/scatter.h"

#define CRN_SCATTER_INLINE  4096 /* up to this size, bytes travel with their head */
#define CRN_SCATTER_BUFFERS 2    /* for packed runs in flight, on each side */

/* What each rank tells the others first. */
struct crn_member {
    uint32_t rank; /* in the version */
    uint32_t nparts;
    uint32_t is_whole;
    uint32_t has_it;
    uint32_t node;
    uint32_t where;
};

/* A part that a rank wants; sorted by rank and region of the version. */
struct crn_wish {
    int who;       /* rank in the team */
    uint32_t part; /* the number that this rank gave the part */
    const struct crn_slice *p;
};

/* Precedes all bytes. */
enum crn_head_kind { CRN_HEAD_INLINE, CRN_HEAD_FOLLOWS, CRN_HEAD_END };
struct crn_head {
    uint32_t kind;
    uint32_t part;       /* number that the receiver gave the part */
    uint64_t begin, end; /* in the stored region */
    uint64_t bytes;      /* of the part in that range; END: bytes that will not come */
    uint64_t brought;    /* END: bytes that the reader has copied into the receiver's memory */
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
    struct crn_slice *all;      /* readers only: the parts of all members, most entries for each */
    uint32_t most;
    size_t message_bytes; /* the largest message */

    /* Readers only. */
    struct crn_pass *pass;
    int *whole_of; /* by rank of the version: the member that wants all of it; -1: none */
    struct crn_wish *wishes;
    size_t nwishes;
    struct crn_mate *mates;   /* by rank of the team, with this one; memory NULL: send */
    uint64_t *own_at;         /* mates[this rank].at */
    uint64_t *lost, *brought; /* by rank of the team: bytes */
    int has_told_end;
    struct crn_sending *sending;
    struct crn_buffer pack[CRN_SCATTER_BUFFERS];

    /* All ranks. */
    uint64_t expected, got, missed; /* bytes; missed ones will not come */
    struct crn_coming *coming, **coming_end;
    struct crn_buffer scratch[CRN_SCATTER_BUFFERS];
};

/* receive.c */
/* Takes messages that have arrived; sets *busy if there were any. */
CAIRN_CHECKED cairn_err crn_receive(struct crn_scatter_run *r, int *busy, struct crn_errinfo *ei);
void crn_receive_fini(struct crn_scatter_run *r);

/* send.c */
/* Distributes the data of a block. The block is put back once its last byte is sent. */
CAIRN_CHECKED cairn_err crn_send_block(struct crn_scatter_run *r, struct crn_pass_block *b,
                                       struct crn_errinfo *ei);
/* Tells every rank how many bytes were copied to its memory, and how many will not come. */
CAIRN_CHECKED cairn_err crn_send_end(struct crn_scatter_run *r, struct crn_errinfo *ei);
/* Transfers in flight will never complete: MPI owns their memory from now on, and nothing is read
 * into it any more. */
void crn_send_abandon(struct crn_scatter_run *r);
/* Completes finished sends. */
CAIRN_CHECKED cairn_err crn_send_progress(struct crn_scatter_run *r, int *busy,
                                          struct crn_errinfo *ei);

struct crn_buffer *crn_buffer_take(struct crn_buffer *buffers); /* NULL: all are in use */

#endif
