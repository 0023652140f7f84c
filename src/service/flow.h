/* SPDX-License-Identifier: BSD-3-Clause */
/* Data between the nodes of a group. The leader of a checkpoint requests extents from the other
 * nodes (followers), block by block, as its pool has free blocks. Nodes that assist it (assist.h)
 * do the same. A follower sends straight from the arenas where it can. All on the loop thread, the
 * only one that calls the communicator. The job's sender thread reads files and gathers extents. */
#ifndef CRN_SERVICE_FLOW_H
#define CRN_SERVICE_FLOW_H

#include "service/job.h"
#include "service/shards.h"
#include "service/source.h"

/* A transfer in flight. */
struct crn_flow {
    struct crn_flow *next;
    struct crn_job *job;
    struct crn_item *item;
    struct crn_transfer *transfer; /* NULL: a send that the gate throttles */
    const void *data;              /* send: the data; bytes its size */
    uint64_t bytes;
    uint32_t tag;
    int64_t deadline_ns;
    uint32_t node; /* the other side */
    int is_receive;
    int is_stream;                 /* send: for the protection of the other side */
    int is_gathered;               /* send: the block counts towards ngathered */
    const struct crn_write *write; /* receive: for the engine */
    struct crn_errand *errand;     /* receive: owned; for an assistant, instead of write */
    struct crn_ticket *ticket;     /* receive: for the protector, instead of write */
    void *block;                   /* receive: the engine's; send: owned, or NULL */
    int64_t gather_ns;             /* send: time from the request to the start */
    int64_t start_ns;
};

/* flow_group.c: before the data. */
/* Can the sources of this node be read? */
int crn_flow_is_serving(const struct crn_item *item);
/* SHARDS has come: takes what a follower has described. Returns 0 if the message is to be
 * dropped. */
int crn_flow_shards(struct crn_job *job, struct crn_item *item, const struct crn_msg *n);
void crn_flow_free(struct crn_job *job, struct crn_item *item);

/* flow.c: the data. */
/* How long to wait for another node: commit_timeout plus the time its gate may throttle. */
int64_t crn_flow_patience(const struct crn_job *job);
void crn_flow_asked(struct crn_job *job, struct crn_item *item, const struct crn_msg *n);
void crn_flow_stream_asked(struct crn_job *job, struct crn_item *item, const struct crn_msg *n);
void crn_flow_sent(struct crn_job *job, const struct crn_msg *n);
void crn_flow_not_sent(struct crn_job *job, const struct crn_msg *n);
void crn_flow_fetch(struct crn_job *job, struct crn_item *item, struct crn_work *w);
void crn_flow_send(struct crn_job *job, struct crn_item *item, struct crn_work *w);
/* Advances all transfers. Returns 1 if one ended. */
int crn_flows_poll(struct crn_service *svc);
/* Are all transfers throttled by gates? */
int crn_flows_are_held(const struct crn_service *svc);
/* The loop has ended: ends all transfers of this job and discards results. */
void crn_flows_refuse(struct crn_job *job);

/* Extents as FETCH and PIECE encode them; see crn_source_ask_encode. */
#define CRN_ASK_BYTES 24
CAIRN_CHECKED cairn_err crn_flow_ask_decode(struct crn_view *v, const struct crn_job *job,
                                            const struct crn_source *sources, uint32_t *ret_local,
                                            struct crn_extent *ret, struct crn_errinfo *ei);

/* On the sender: opens the sources of a follower; gathers extents. */
CAIRN_CHECKED cairn_err crn_flow_open_sources(struct crn_job *job, struct crn_work *w);
CAIRN_CHECKED cairn_err crn_flow_gather(struct crn_job *job, struct crn_work *w);

#endif
