/* SPDX-License-Identifier: BSD-3-Clause */
/* Internals of the core, shared by turns.c (events), turns_queue.c (queue, decisions, forecast)
 * and turns_view.c (what users see and change). */
#ifndef CRN_BROKER_TURNS_PRIV_H
#define CRN_BROKER_TURNS_PRIV_H

#include "broker/turns.h"

#define NONE        UINT32_MAX
#define NS_PER_S    1000000000LL
#define MAX_AGE_NS  (400LL * 86400 * NS_PER_S) /* larger claims are clamped */
#define MAX_TIME_NS (7LL * 86400 * NS_PER_S)

enum rq_state {
    RQ_FREE = 0, /* unused entry */
    RQ_WAITING,  /* queued if its job is connected */
    RQ_HELD,     /* counts in the token's holders */
    RQ_ENDED     /* kept to repeat the verdict until the job no longer lists it */
};

struct turns_request {
    enum rq_state state;
    uint32_t seq;
    uint32_t token;
    uint8_t kind;
    uint8_t code, why;  /* RQ_ENDED: the verdict */
    uint8_t is_listed;  /* in the report being processed */
    uint64_t id;        /* ticket: unique, increasing in order of arrival */
    int64_t since_ns;   /* time of the request */
    int64_t held_ns;    /* RQ_HELD: time of the grant */
    int64_t moved_ns;   /* RQ_HELD: time of the last progress */
    int64_t at_risk_ns; /* the computation since then is at risk */
    int64_t duration_ns, recovery_ns, period_ns;
    uint64_t bytes, done;
    double rate;        /* bytes/s that its transfer is expected to use; 0: unknown */
    uint8_t is_learned; /* RQ_HELD: no grant of this broker ... */
    int64_t learned_ns; /* ... and known to it since then */
    uint32_t at;    /* RQ_WAITING: index in the token's queue, NONE while the job is disconnected */
    uint32_t place; /* in the last forecast; 0: none yet */
    int64_t start_ns;    /* expected */
    uint32_t prev, next; /* RQ_HELD: the token's holders */
};

struct turns_link {
    uint32_t prev, next;
    struct turns_list *in; /* NULL: in no list */
};
struct turns_list {
    uint32_t head, tail;
};
enum link_kind { LINK_AGE, LINK_DIRTY, LINKS };

struct turns_job {
    uint8_t is_used;
    uint8_t id[16];
    uint32_t user;
    uint32_t conn; /* NONE: disconnected */
    uint32_t nodes;
    uint32_t hash_next; /* next of the same bucket, or of the free list */
    uint64_t report;    /* newest number seen */
    int64_t heard_ns;   /* or, if disconnected, since when */
    int64_t known_ns;   /* its first report */
    int64_t safe_ns;    /* its last flush that this broker saw began then; 0: none */
    double rate;        /* bytes/s of its flushes that this broker saw; 0: none */
    int64_t vain_ns;    /* its last transfer failed, and held the token so long; 0: none did */
    char name[CRN_BP_NAME];
    char batch[CRN_BP_NAME]; /* as the job says */
    uint32_t claimed;        /* nodes, as the job says */
    uint32_t confirmed;      /* nodes, as the batch system says; 0: not known */
    int64_t ask_ns;          /* the batch system is asked again then; MAX: it has been asked */
    uint32_t payer;          /* user, or account, whose share it uses */
    struct turns_link link[LINKS]; /* AGE: heard or cut; DIRTY: a status is due */
    struct turns_request req[CRN_BP_MAX_ASKS];
};

struct user {
    char name[CRN_BP_NAME];
    uint32_t refs; /* connections, jobs, and jobs that pay with its share; 0: free */
    uint32_t njobs;
    uint32_t nconns;
    double used_s;                 /* held seconds, decaying over SHARE_S, ... */
    int64_t used_ns;               /* ... as of this time */
    double alone_s;                /* that it may still hold without a grant, ... */
    int64_t alone_ns;              /* ... as of this time; 0: all of it */
    uint32_t hash_next;            /* next of the same bucket */
    uint32_t idle_prev, idle_next; /* refs 0: longest idle first; has the account until reused */
};

struct conn {
    uint8_t is_open, is_admin;
    uint32_t user;
    uint32_t job; /* NONE: has not reported yet */
};

struct token {
    struct crn_turns_token cfg;
    struct crn_io_request *queue; /* dense, in the form that policies read */
    uint32_t *queue_rid;          /* the request of each entry */
    uint32_t n;
    uint32_t holders;
    double rate; /* sum over the holders, as crn_turns_rate */
    uint32_t first_holder;
    int is_draining;
    int is_stale;        /* the queue has changed since the forecast */
    int64_t forecast_ns; /* time of the forecast */
    int64_t backlog_ns;  /* sum of all queued durations */
    uint64_t granted, returned, taken, canceled, learned, overlapping;
    struct turns_dry *dry; /* NULL: not a dry run */
    double wait_s, held_s;
};

/* In forecasts and dry runs: a transfer under way. */
struct turns_busy {
    int64_t end_ns;
    double rate;
    uint32_t bit; /* of its set */
};

/* What holders take: of the slots, of the budget and, with a policy that has sets, of these. */
struct queue_room {
    uint32_t holders;
    double rate;
    uint32_t busy; /* bit i: of set i */
};

struct crn_turns {
    struct crn_turns_config cfg;
    int64_t settled_ns; /* first time of grants */
    struct token *token;
    struct turns_job *job;
    struct conn *conn;
    struct user *user; /* nusers: each connection and job may have a different user and account */
    uint32_t nusers;
    uint32_t *job_bucket, *user_bucket;
    uint32_t nbuckets; /* of each; a power of two */
    uint32_t free_job;
    uint32_t idle_head, idle_tail; /* of users without connections and jobs */
    uint32_t njobs;
    struct turns_list heard; /* connected jobs with open requests, longest silent first */
    struct turns_list cut;   /* jobs whose connection broke, longest ago first */
    struct turns_list dirty;
    uint64_t next_id;
    uint64_t next_status;
    double used_s;   /* of all users, as in struct user ... */
    int64_t used_ns; /* ... as of this time */
    double *score;   /* scratch of decisions and forecasts */
    size_t *order;
    struct turns_busy *busy; /* scratch of the forecast: a heap */
};

/* A request id combines the index of its job and its index in that job. */
static inline struct turns_request *request_of(const struct crn_turns *t, uint32_t rid)
{
    return &t->job[rid / CRN_BP_MAX_ASKS].req[rid % CRN_BP_MAX_ASKS];
}
static inline struct turns_job *job_of(const struct crn_turns *t, uint32_t rid)
{
    return &t->job[rid / CRN_BP_MAX_ASKS];
}
static inline int is_settling(const struct crn_turns *t, int64_t now_ns)
{
    return now_ns < t->settled_ns;
}

/* turns_table.c */
void crn_turns_list_remove(struct crn_turns *t, uint32_t j, enum link_kind kind);
void crn_turns_list_move(struct crn_turns *t, struct turns_list *list, uint32_t j,
                         enum link_kind kind);
uint32_t crn_turns_find_job(const struct crn_turns *t, uint32_t user, const uint8_t *id);
uint32_t crn_turns_add_job(struct crn_turns *t, uint32_t user, const uint8_t *id); /* or NONE */
void crn_turns_remove_job(struct crn_turns *t, uint32_t j);
uint32_t crn_turns_ref_user(struct crn_turns *t, const char *name);
void crn_turns_unref_user(struct crn_turns *t, uint32_t user);

/* turns_queue.c */
void crn_turns_enqueue(struct crn_turns *t, uint32_t rid);
void crn_turns_dequeue(struct crn_turns *t, uint32_t rid); /* no effect if it is not queued */
void crn_turns_hold(struct crn_turns *t, uint32_t rid, int64_t held_ns, int64_t now_ns);
void crn_turns_release(struct crn_turns *t, uint32_t rid, int64_t now_ns);
/* What the request's transfer takes of its token's budget: all of it if that is unknown. */
double crn_turns_rate(const struct token *k, const struct turns_request *r);
/* The job has described a waiting request anew; it was as given. */
void crn_turns_refresh(struct crn_turns *t, uint32_t rid, const struct turns_request *was);
/* Grants the free slots of all tokens to the requests that the policies choose. */
void crn_turns_decide(struct crn_turns *t, int64_t now_ns);
void crn_turns_forecast(struct crn_turns *t, struct token *k, int64_t now_ns);
uint32_t crn_turns_queue_set_bit(const struct token *k, const struct crn_io_request *q);
/* May a request of this set and rate start? One may always start alone. */
int crn_turns_queue_fits(const struct token *k, const struct queue_room *room, uint32_t bit,
                         double rate);
/* A heap, earliest end first. */
void crn_busy_push(struct turns_busy *heap, uint32_t *n, struct turns_busy b);
struct turns_busy crn_busy_pop(struct turns_busy *heap, uint32_t *n);

/* turns_dry.c */
struct turns_dry *crn_dry_new(uint32_t cap); /* NULL: no memory */
void crn_dry_free(struct turns_dry *d);
/* The request, as policies read it, is about to be granted without a decision. */
void crn_dry_note(const struct crn_turns *t, struct token *k, uint32_t rid,
                  const struct crn_io_request *asked, int64_t now_ns);
void crn_dry_advance(const struct crn_turns *t, struct token *k, int64_t now_ns);
void crn_dry_totals(const struct token *k, struct crn_turns_totals *ret);

/* turns_share.c: bounds on what one user gets. */
void crn_share_account(struct crn_turns *t, uint32_t user, double held_s, int64_t now_ns);
/* Has the user had the share of the tokens' time that is the user's while others wait? */
int crn_share_is_over(const struct crn_turns *t, uint32_t user, int64_t now_ns);
/* Seconds that the user's transfers without a grant may still count as holders. */
double crn_share_alone_left(const struct crn_turns *t, uint32_t user, int64_t now_ns);
void crn_share_alone_used(struct crn_turns *t, uint32_t user, double held_s, int64_t now_ns);
double crn_share_weight(const char *shares, const char *user);

/* turns_batch.c: nodes of the job, of which it says `claimed`. */
void crn_batch_claim(const struct crn_turns *t, struct turns_job *job, uint32_t claimed);

/* turns.c: removes a request from queue or holders and records its verdict. */
void crn_turns_end(struct crn_turns *t, uint32_t rid, int64_t now_ns, uint8_t code, uint8_t why);

#endif
