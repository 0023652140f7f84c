/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by scatter.c, wishes.c, send.c and receive.c: the state of one crn_scatter_run. Inside src/restart
 * only. Only the application's thread uses it. */
#ifndef CRN_RESTART_SCATTER_IMPL_H
#define CRN_RESTART_SCATTER_IMPL_H

#include "comm/mail.h"
#include "restart/mate.h"
#include "restart/pass.h"
#include "restart/scatter.h"

#define CRN_SCATTER_INLINE  4096 /* up to this size, bytes travel with their head */
#define CRN_SCATTER_BUFFERS 2    /* for packed runs in flight, on each side */

/* A rank that wants something of what this reader reads. */
struct crn_wisher {
    int rank; /* in the team */
    struct crn_mate mate;
    int is_self, is_reachable; /* else data travels in messages */
    uint64_t lost, brought;    /* bytes that will not come; that are in its memory */
};

/* A part that a rank wants; sorted by rank and region of the version. */
struct crn_wish {
    uint32_t who;  /* wisher */
    uint32_t part; /* the number that this rank gave the part */
    struct crn_slice p;
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
    int reader;           /* of this rank; -1: none */
    size_t message_bytes; /* the largest message */
    struct crn_mate_gate gate;

    /* Readers only. */
    struct crn_pass *pass;
    struct crn_wisher *wishers;
    uint32_t nwishers;
    struct crn_wish *wishes;
    size_t nwishes;
    int has_told_end;
    struct crn_sending *sending;
    struct crn_buffer pack[CRN_SCATTER_BUFFERS];

    /* All ranks. */
    uint64_t expected, got, missed; /* bytes; missed ones will not come */
    struct crn_coming *coming, **coming_end;
    struct crn_buffer scratch[CRN_SCATTER_BUFFERS];
};

/* wishes.c */
/* What the pass is told of readers and files; the same on all ranks. */
struct crn_pass_options crn_wishes_options(const struct crn_scatter *c,
                                           const struct crn_readers *team);
/* Collective. Tells each reader what this rank wants of its share, and nobody else. */
CAIRN_CHECKED cairn_err crn_wishes_exchange(struct crn_scatter_run *r, struct crn_errinfo *ei);
/* Collective: all ranks fail if one does. */
CAIRN_CHECKED cairn_err crn_scatter_agree(struct crn_comm *comm, cairn_err rc,
                                          struct crn_errinfo *ei);
/* The first wish for this region, or the first one sorted after it. */
size_t crn_wishes_first(const struct crn_scatter_run *r, uint32_t rank, uint32_t region);
int crn_wish_is_for(const struct crn_wish *w, uint32_t rank, uint32_t region);

/* Which of these parts each share reads, as pairs in ascending order. Pure but for memory. */
struct crn_route {
    uint32_t share;
    uint32_t part;
};
struct crn_routes {
    struct crn_route *v; /* owned */
    size_t n, cap;
};
CAIRN_CHECKED cairn_err crn_wishes_route(const struct crn_pass_options *o,
                                         const struct crn_slice *parts, uint32_t nparts,
                                         struct crn_routes *ret, struct crn_errinfo *ei);

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
