/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration of cairn-broker: an INI file with [broker] and a section [token NAME] for
 * each file system, or share of one, that jobs take turns on. There is one table of keys per
 * section; the parser, `cairn-broker --dump` and the manual page follow it. */
#ifndef CRN_BROKER_CONF_H
#define CRN_BROKER_CONF_H

#include "broker/auth.h"
#include "broker/turns.h"

#define CRN_BROKER_TOKENS 32
#define CRN_BROKER_LIST   2048 /* bytes of a list of names or addresses */

/* What the HTTP server shows at /. */
enum crn_broker_page { CRN_PAGE_OFF, CRN_PAGE_TOTALS, CRN_PAGE_DETAILS };

struct crn_token_conf {
    char name[CRN_BP_NAME];
    char paths[CRN_TURNS_PATHS];
    uint64_t slots;
    uint64_t bandwidth, budget;
    char policy[CRN_BP_NAME];
    uint64_t node_mtbf_ns;
    uint64_t is_dry;
};

struct crn_broker_conf {
    char listen[CRN_BROKER_LIST];    /* addresses, separated by commas */
    char metrics[CRN_BP_NAME * 2];   /* address of the HTTP server; empty: none */
    char auth[CRN_BP_NAME];          /* accepted methods, separated by commas */
    char admins[CRN_BROKER_LIST];    /* user names */
    char state[CRN_BROKER_LIST];     /* file with the administrators' changes; empty: none */
    char peers[CRN_BROKER_LIST];     /* addresses of the site's brokers; empty: only this one */
    uint64_t takeover_ns;            /* without an answer of them this one serves */
    char decisions[CRN_BROKER_LIST]; /* file with a line for each decision; empty: none */
    struct crn_auth_config login;
    uint64_t lease_ns, grace_ns, settle_ns, stall_ns, hold_ns, starve_ns, forecast_ns;
    uint64_t max_connections; /* logged in; logins come on top */
    uint64_t max_user_connections;
    uint64_t admin_connections; /* of max_connections: for administrators alone */
    uint64_t idle_ns;           /* a connection without a request ends after this silence */
    uint64_t max_user_jobs;
    uint64_t user_share;          /* percent of a token's time, while others wait */
    char shares[CRN_BROKER_LIST]; /* "user:weight,@account:weight,..." */
    uint64_t slurm;               /* is asked what jobs have */
    uint64_t share_by;            /* 1: accounts instead of users */
    uint64_t max_nodes;           /* that a job may claim; 0: any number */
    uint64_t alone_ns;            /* how long a user's transfers without a grant count as holders */
    uint64_t max_logins;          /* in progress at a time */
    uint64_t max_address_logins;  /* the same from one address */
    uint64_t login_timeout_ns;
    uint64_t messages_per_second; /* per connection; further ones are delayed */
    uint64_t backlog_bytes;       /* unread output after which a slow peer is dropped */
    uint64_t page;                /* enum crn_broker_page */
    uint64_t history_ns;          /* that the page shows */
    uint64_t log_level;           /* enum crn_log_level */
    struct crn_token_conf token[CRN_BROKER_TOKENS];
    size_t ntokens; /* >= 1 after load */
};

void crn_broker_conf_defaults(struct crn_broker_conf *conf);
/* Defaults, then the file (NULL: none), then checks. */
CAIRN_CHECKED cairn_err crn_broker_conf_load(struct crn_broker_conf *conf, const char *file,
                                             struct crn_errinfo *ei);
/* The same from text, on top of the current values, without checks; what names the source. */
CAIRN_CHECKED cairn_err crn_broker_conf_text(struct crn_broker_conf *conf, const char *text,
                                             const char *what, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_broker_conf_check(const struct crn_broker_conf *conf,
                                              struct crn_errinfo *ei);
/* The configuration as a file that load reads back; 0, or -1 if the stream fails. */
int crn_broker_conf_dump(const struct crn_broker_conf *conf, FILE *out, int with_help);

int crn_broker_list_has(const char *list, const char *item);

/* The core's configuration; token has space for CRN_BROKER_TOKENS. */
void crn_broker_conf_turns(const struct crn_broker_conf *conf, uint64_t epoch,
                           struct crn_turns_token *token, struct crn_turns_config *ret);

#endif
