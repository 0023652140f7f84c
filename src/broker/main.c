/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn-broker: lets the jobs of a site take turns on the parallel file system. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/server.h"
#include "broker/standby.h"

static const char usage[] =
    "usage: cairn-broker [-c FILE]          serve, until SIGTERM\n"
    "       cairn-broker [-c FILE] --dump   print the configuration in effect, with help\n"
    "       cairn-broker --new-key USER     print a key for USER: one line of key_file\n"
    "       cairn-broker --policies         list the policies\n"
    "The file defaults to /etc/cairn/broker.conf; see cairn-broker(8).\n";

static int list_policies(void)
{
    size_t i, n;
    const struct crn_policy *const *policy = crn_policy_table(&n);

    for (i = 0; i < n; i++)
        (void)printf("%-20s %s\n", policy[i]->name, policy[i]->summary);
    return 0;
}

static int new_key(const char *user)
{
    char line[CRN_BP_NAME + 80];

    if (user[0] == '\0' || strlen(user) >= CRN_BP_NAME || strpbrk(user, " \t\n#") != NULL) {
        (void)fprintf(stderr, "cairn-broker: '%s' cannot be a user's name\n", user);
        return 2;
    }
    crn_auth_new_key(user, line, sizeof(line));
    (void)printf("%s\n", line);
    return 0;
}

/* Serves once; *newest becomes the epoch of the broker that has taken over, or 0. */
static cairn_err serve_once(const struct crn_broker_conf *conf, const struct crn_log *log,
                            uint64_t *newest, struct crn_errinfo *ei)
{
    struct crn_server *server = NULL;
    cairn_err rc;

    rc = crn_server_open(conf, log, *newest, &server, ei);
    if (rc == CAIRN_OK)
        rc = crn_server_run(server, ei);
    *newest = rc == CAIRN_OK ? crn_server_replaced_by(server) : 0;
    crn_server_close(server);
    return rc;
}

static int main_serve(const struct crn_broker_conf *conf)
{
    struct crn_log log = {.level = (enum crn_log_level)conf->log_level, .who = "broker"};
    struct crn_errinfo ei = {0};
    uint64_t newest = 0;
    cairn_err rc = CAIRN_OK;

    while (crn_standby_wait(conf, &log, &newest)) {
        rc = serve_once(conf, &log, &newest, &ei);
        if (newest == 0)
            break;
    }
    if (rc != CAIRN_OK)
        crn_log(&log, CRN_ERROR, "%s", ei.msg);
    return rc == CAIRN_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                            {"dump", no_argument, NULL, 'd'},
                                            {"new-key", required_argument, NULL, 'k'},
                                            {"policies", no_argument, NULL, 'p'},
                                            {"version", no_argument, NULL, 'V'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    static struct crn_broker_conf conf;
    const char *file = "/etc/cairn/broker.conf";
    struct crn_errinfo ei = {0};
    int is_dump = 0;
    int c;

    while ((c = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
        switch (c) {
        case 'c':
            file = optarg;
            break;
        case 'd':
            is_dump = 1;
            break;
        case 'k':
            return new_key(optarg);
        case 'p':
            return list_policies();
        case 'V':
            (void)printf("cairn-broker %s\n", cairn_version_string());
            return 0;
        default:
            (void)fputs(usage, c == 'h' ? stdout : stderr);
            return c == 'h' ? 0 : 2;
        }
    }
    if (optind < argc) {
        (void)fputs(usage, stderr);
        return 2;
    }
    if (crn_broker_conf_load(&conf, file, &ei) != CAIRN_OK) {
        (void)fprintf(stderr, "cairn-broker: %s\n", ei.msg);
        return 2;
    }
    return is_dump ? crn_broker_conf_dump(&conf, stdout, 1) != 0 : main_serve(&conf);
}
