/* SPDX-License-Identifier: BSD-3-Clause */
/* Internals of the server, shared by server.c (listeners, timers), peer.c (connections) and
 * metrics.c. The event loop's thread owns everything. */
#ifndef CRN_BROKER_SERVER_PRIV_H
#define CRN_BROKER_SERVER_PRIV_H

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "base/clock.h"
#include "broker/history.h"
#include "broker/questions.h"
#include "broker/server.h"
#include "broker/standby.h"
#include "broker/worker.h"

#define MAX_LISTENERS 16
#define NO_PEER       UINT32_MAX

/* Warnings that come at most once in a while, however often they apply. */
enum tell { TELL_FULL, TELL_USER, TELL_LOGINS, TELL_DECISIONS, TELL_BATCH, TELLS };

enum peer_state {
    PEER_FREE = 0,
    PEER_SILENT, /* has not sent HELLO */
    PEER_CHALLENGED,
    PEER_VERIFYING, /* the worker has its proof */
    PEER_OPEN,      /* known to the core */
    PEER_CLOSING    /* BYE is being sent */
};

struct peer {
    struct crn_server *server;
    uint32_t index; /* its number for the core */
    uint32_t next_free;
    enum peer_state state;
    int is_paused; /* credit exhausted: not read for a while */
    uint64_t serial;
    uint32_t prev_login, next_login; /* until the login succeeds */
    int64_t accepted_ns;
    int64_t heard_ns; /* last message */
    int is_admin;
    struct bufferevent *bev;
    struct in6_addr address; /* for the limit on logins; zero: Unix socket */
    struct crn_auth_talk talk;
    char user[CRN_BP_NAME];
    double credit; /* messages that it may send now */
    int64_t credit_ns;
};

/* Counters, for /metrics. */
struct server_counts {
    uint64_t accepted;
    uint64_t refused;  /* over a limit, before login */
    uint64_t rejected; /* login failed */
    uint64_t garbage;  /* not our protocol */
    uint64_t timeouts; /* no login in time */
    uint64_t slow;     /* does not read */
    uint64_t evicted;  /* a login that made room for another */
    uint64_t full;     /* logged in, but over a limit on connections */
    uint64_t idle;     /* silent for too long */
    uint64_t messages;
    double decision_s; /* spent in the core, over all messages */
    double decision_max_s;
};

struct crn_server {
    const struct crn_broker_conf *conf;
    struct crn_log log;
    const struct crn_clock *clock;
    struct event_base *base;
    struct evconnlistener *listener[MAX_LISTENERS];
    char unix_path[MAX_LISTENERS][sizeof(((struct sockaddr_un *)0)->sun_path)]; /* to unlink */
    size_t nlisteners;
    int is_accepting;
    struct event *tick;
    struct event *results;
    struct event *signals[2];
    struct evhttp *http;
    struct crn_worker *verifier;
    struct crn_worker *batch; /* NULL: slurm = off */
    struct event *facts;      /* of batch */
    struct crn_turns *turns;
    struct crn_history *history;
    uint64_t epoch;                  /* above that of any broker known to have served before */
    struct crn_standby_watch *watch; /* NULL: no peers */
    uint64_t replaced_by;            /* epoch of the broker that serves now; 0: this one does */
    int is_ending;
    int64_t started_ns;
    struct peer *peer; /* nslots: max_connections and max_logins */
    uint32_t nslots;
    uint32_t nopen;         /* logged in, without administrators */
    uint32_t idle_at;       /* where crn_peer_expire_idle continues */
    int64_t told_ns[TELLS]; /* when the log last had a warning of this kind */
    uint32_t free_peer;
    uint32_t npeers;
    uint32_t nlogins; /* peers not logged in yet, in a list, oldest first */
    uint32_t first_login, last_login;
    uint32_t npaused;
    uint64_t next_serial;
    struct crn_buf scratch; /* for one frame */
    struct server_counts counts;
};

static inline int64_t server_now(const struct crn_server *s)
{
    return s->clock->mono_ns(s->clock);
}

/* peer.c */
void crn_peer_accept(struct crn_server *s, evutil_socket_t fd, const struct sockaddr *from);
void crn_peer_bye(struct peer *p, cairn_err code, const char *text);
void crn_peer_drop(struct peer *p);
void crn_peer_resume(struct peer *p); /* if it has credit again */
void crn_peer_login(struct crn_server *s, const struct crn_login *login);
void crn_peer_batch(struct crn_server *s, const struct crn_batch *batch);
/* Ends logins that take too long. */
void crn_peer_expire_logins(struct crn_server *s);
/* Ends connections that have wanted nothing for too long; looks at some of them. */
void crn_peer_expire_idle(struct crn_server *s);
/* Sends the statuses that are due. */
void crn_peer_pump(struct crn_server *s);
/* 1: it is time for a warning of this kind. */
int crn_server_may_tell(struct crn_server *s, enum tell kind);
/* server.c: accepts again after an error. */
void crn_server_admit(struct crn_server *s);

/* metrics.c */
CAIRN_CHECKED cairn_err crn_metrics_open(struct crn_server *s, struct crn_errinfo *ei);

/* page.c: answers a request for /; arg is the server. */
void crn_page_serve(struct evhttp_request *req, void *arg);

#endif
