/* SPDX-License-Identifier: BSD-3-Clause */
/* Metrics for Prometheus: OpenMetrics text at /metrics, over libevent's HTTP server. The names
 * are an interface and do not change. */
#include "broker/server_priv.h"

#include <event2/buffer.h>
#include <stdlib.h>
#include <string.h>

#include "broker/address.h"

#define HTTP_TIMEOUT_S 5
#define MAX_HEADERS    4096

/* One family, a line per token. */
struct family {
    const char *name, *type, *help;
    double (*value)(const struct crn_turns_totals *t);
};

static double metrics_slots(const struct crn_turns_totals *t)
{
    return t->row.slots;
}
static double metrics_holders(const struct crn_turns_totals *t)
{
    return t->row.holders;
}
static double metrics_waiting(const struct crn_turns_totals *t)
{
    return t->row.waiting;
}
static double metrics_draining(const struct crn_turns_totals *t)
{
    return t->row.is_draining;
}
static double metrics_oldest(const struct crn_turns_totals *t)
{
    return (double)t->row.oldest_ns * 1e-9;
}
static double metrics_granted(const struct crn_turns_totals *t)
{
    return (double)t->row.granted;
}
static double metrics_returned(const struct crn_turns_totals *t)
{
    return (double)t->row.returned;
}
static double metrics_taken(const struct crn_turns_totals *t)
{
    return (double)t->row.taken;
}
static double metrics_canceled(const struct crn_turns_totals *t)
{
    return (double)t->row.canceled;
}
static double metrics_learned(const struct crn_turns_totals *t)
{
    return (double)t->learned;
}
static double metrics_overlapping(const struct crn_turns_totals *t)
{
    return (double)t->overlapping;
}
static double metrics_dry(const struct crn_turns_totals *t)
{
    return t->row.is_dry;
}
static double metrics_dry_granted(const struct crn_turns_totals *t)
{
    return (double)t->dry_granted;
}
static double metrics_dry_wait(const struct crn_turns_totals *t)
{
    return t->dry_wait_s;
}
static double wait_s(const struct crn_turns_totals *t)
{
    return t->wait_s;
}
static double held_s(const struct crn_turns_totals *t)
{
    return t->held_s;
}

static const struct family families[] = {
    {"cairn_broker_slots", "gauge", "Jobs that may hold the token at a time.", metrics_slots},
    {"cairn_broker_holders", "gauge", "Jobs that hold the token.", metrics_holders},
    {"cairn_broker_waiting", "gauge", "Requests that wait.", metrics_waiting},
    {"cairn_broker_draining", "gauge", "1 while an administrator has stopped the token.",
     metrics_draining},
    {"cairn_broker_oldest_wait_seconds", "gauge", "Age of the oldest request that waits.",
     metrics_oldest},
    {"cairn_broker_granted", "counter", "Requests that were let go.", metrics_granted},
    {"cairn_broker_returned", "counter", "Tokens that were returned.", metrics_returned},
    {"cairn_broker_taken", "counter", "Tokens that were taken back.", metrics_taken},
    {"cairn_broker_canceled", "counter", "Requests that ended while they waited.",
     metrics_canceled},
    {"cairn_broker_learned", "counter", "Holders that this broker did not let go itself.",
     metrics_learned},
    {"cairn_broker_overlapping", "counter",
     "Requests that were let go while others held the token.", metrics_overlapping},
    {"cairn_broker_dry_run", "gauge", "1 if the token lets all go at once and only decides.",
     metrics_dry},
    {"cairn_broker_dry_granted", "counter", "Dry run: requests that would have been let go.",
     metrics_dry_granted},
    {"cairn_broker_dry_wait_seconds", "counter", "Dry run: time that these would have waited.",
     metrics_dry_wait},
    {"cairn_broker_wait_seconds", "counter", "Time waited by all that were let go.", wait_s},
    {"cairn_broker_held_seconds", "counter", "Time held by all that ended.", held_s},
};

static void put_family(struct evbuffer *out, const struct crn_server *s, const struct family *f,
                       const struct crn_turns_totals *totals)
{
    size_t i, n = crn_turns_tokens(s->turns);
    const char *suffix = strcmp(f->type, "counter") == 0 ? "_total" : "";

    (void)evbuffer_add_printf(out, "# TYPE %s %s\n# HELP %s %s\n", f->name, f->type, f->name,
                              f->help);
    for (i = 0; i < n; i++)
        (void)evbuffer_add_printf(out, "%s%s{token=\"%s\"} %.9g\n", f->name, suffix,
                                  totals[i].row.token, f->value(&totals[i]));
}

static void put_one(struct evbuffer *out, const char *name, const char *type, const char *help,
                    double value)
{
    (void)evbuffer_add_printf(out, "# TYPE %s %s\n# HELP %s %s\n%s%s %.9g\n", name, type, name,
                              help, name, strcmp(type, "counter") == 0 ? "_total" : "", value);
}

static void put_server(struct evbuffer *out, const struct crn_server *s)
{
    const struct server_counts *c = &s->counts;

    put_one(out, "cairn_broker_jobs", "gauge", "Jobs that are known.", crn_turns_jobs(s->turns));
    put_one(out, "cairn_broker_connections", "gauge", "Open connections.", s->npeers);
    put_one(out, "cairn_broker_logins", "gauge", "Logins under way.", s->nlogins);
    put_one(out, "cairn_broker_accepted", "counter", "Connections accepted.", (double)c->accepted);
    put_one(out, "cairn_broker_refused", "counter", "Connections over a limit.",
            (double)c->refused);
    put_one(out, "cairn_broker_evicted", "counter", "Logins replaced by newer ones.",
            (double)c->evicted);
    put_one(out, "cairn_broker_full", "counter", "Users over a limit on connections.",
            (double)c->full);
    put_one(out, "cairn_broker_idle", "counter", "Connections closed because they were idle.",
            (double)c->idle);
    put_one(out, "cairn_broker_rejected", "counter", "Logins that failed.", (double)c->rejected);
    put_one(out, "cairn_broker_garbage", "counter", "Connections that did not speak the protocol.",
            (double)c->garbage);
    put_one(out, "cairn_broker_login_timeouts", "counter", "Connections that did not log in.",
            (double)c->timeouts);
    put_one(out, "cairn_broker_slow", "counter", "Connections that did not read.", (double)c->slow);
    put_one(out, "cairn_broker_messages", "counter", "Messages read.", (double)c->messages);
    put_one(out, "cairn_broker_decision_seconds", "counter", "Time spent on reports.",
            c->decision_s);
    put_one(out, "cairn_broker_decision_max_seconds", "gauge", "Longest time for one report.",
            c->decision_max_s);
    put_one(out, "cairn_broker_uptime_seconds", "gauge", "Time since the start.",
            (double)(server_now(s) - s->started_ns) * 1e-9);
}

static void on_metrics(struct evhttp_request *req, void *arg)
{
    struct crn_server *s = arg;
    struct crn_turns_totals totals[CRN_BROKER_TOKENS];
    struct evbuffer *out = evbuffer_new();
    size_t i;

    if (out == NULL) {
        evhttp_send_error(req, HTTP_INTERNAL, NULL);
        return;
    }
    for (i = 0; i < crn_turns_tokens(s->turns); i++)
        crn_turns_totals(s->turns, server_now(s), i, &totals[i]);
    for (i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        put_family(out, s, &families[i], totals);
    put_server(out, s);
    (void)evbuffer_add_printf(out, "# EOF\n");
    (void)evhttp_add_header(evhttp_request_get_output_headers(req), "Content-Type",
                            "application/openmetrics-text; version=1.0.0; charset=utf-8");
    evhttp_send_reply(req, HTTP_OK, "OK", out);
    evbuffer_free(out);
}

cairn_err crn_metrics_open(struct crn_server *s, struct crn_errinfo *ei)
{
    struct crn_address address;
    struct evhttp_bound_socket *bound;
    struct sockaddr_in6 at = {0}; /* the larger of the two types */
    socklen_t len = sizeof(at);
    cairn_err rc;

    if (s->conf->metrics[0] == '\0')
        return CAIRN_OK;
    rc = crn_address_parse(s->conf->metrics, "9735", &address, ei);
    if (rc != CAIRN_OK)
        return rc;
    s->http = evhttp_new(s->base);
    if (s->http == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory for the HTTP server");
    evhttp_set_allowed_methods(s->http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
    evhttp_set_max_headers_size(s->http, MAX_HEADERS);
    evhttp_set_max_body_size(s->http, 0);
    evhttp_set_timeout(s->http, HTTP_TIMEOUT_S);
    (void)evhttp_set_cb(s->http, "/metrics", on_metrics, s);
    if (s->conf->page != CRN_PAGE_OFF)
        (void)evhttp_set_cb(s->http, "/", crn_page_serve, s);
    bound =
        evhttp_bind_socket_with_handle(s->http, address.host[0] != '\0' ? address.host : "0.0.0.0",
                                       (ev_uint16_t)strtoul(address.port, NULL, 10));
    if (bound == NULL || address.is_unix)
        return crn_fail(ei, CAIRN_EIO, 0, "metrics: cannot listen on %s", s->conf->metrics);
    if (getsockname(evhttp_bound_socket_get_fd(bound), (struct sockaddr *)&at, &len) == 0)
        crn_log(&s->log, CRN_INFO, "metrics on %s port %u", address.host, ntohs(at.sin6_port));
    return CAIRN_OK;
}
