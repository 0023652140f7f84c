/* SPDX-License-Identifier: BSD-3-Clause */
/* "Should I checkpoint now?", "should I stop?": all ranks get the same answer, from the slowest
 * rank's figures. The stop flag belongs to the process, as signals do. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>

#include "client/session.h"

#define MAX_SIGNALS 8

static volatile sig_atomic_t stop_seen;

/* Handlers are installed once per process and counted by sessions; the first session chooses the
 * signals. */
static pthread_mutex_t signal_lock = PTHREAD_MUTEX_INITIALIZER;
static int signal_users;
static struct {
    int number;
    struct sigaction before;
} installed[MAX_SIGNALS];
static int ninstalled;

static void on_signal(int number)
{
    (void)number;
    stop_seen = 1;
}

static int signal_number(const char *name)
{
    static const struct {
        const char *name;
        int number;
    } known[] = {{"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"TERM", SIGTERM},
                 {"INT", SIGINT},   {"HUP", SIGHUP},   {"XCPU", SIGXCPU}};
    size_t i;

    if (strncmp(name, "SIG", 3) == 0)
        name += 3;
    for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(name, known[i].name) == 0)
            return known[i].number;
    return -1;
}

static cairn_err install_locked(const char *list, struct crn_errinfo *ei)
{
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    char copy[64];
    char *save = NULL;
    char *name;

    (void)strncpy(copy, list, sizeof(copy) - 1);
    copy[sizeof(copy) - 1] = '\0';
    for (name = strtok_r(copy, ", ", &save); name != NULL; name = strtok_r(NULL, ", ", &save)) {
        int number = signal_number(name);

        if (number < 0 || ninstalled == MAX_SIGNALS)
            return crn_fail(ei, CAIRN_ECONFIG, 0,
                            "stop_signals: '%s' is none of USR1, USR2, TERM, INT, HUP, XCPU", name);
        if (sigaction(number, &sa, &installed[ninstalled].before) < 0)
            return crn_fail_errno(ei, errno, "install a handler for %s", name);
        installed[ninstalled++].number = number;
    }
    return CAIRN_OK;
}

cairn_err crn_signals_install(cairn_session *s, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;

    if (s->cfg.stop_signals[0] == '\0')
        return CAIRN_OK;
    (void)pthread_mutex_lock(&signal_lock);
    if (signal_users == 0) {
        stop_seen = 0;
        rc = install_locked(s->cfg.stop_signals, ei);
    }
    signal_users++;
    s->has_signals = 1;
    (void)pthread_mutex_unlock(&signal_lock);
    return rc;
}

void crn_signals_remove(cairn_session *s)
{
    if (!s->has_signals)
        return;
    (void)pthread_mutex_lock(&signal_lock);
    if (--signal_users == 0)
        while (ninstalled > 0) {
            ninstalled--;
            (void)sigaction(installed[ninstalled].number, &installed[ninstalled].before, NULL);
        }
    (void)pthread_mutex_unlock(&signal_lock);
    s->has_signals = 0;
}

/* The values that the ranks reduce to their maximum. */
enum { STOP, ELAPSED, COST, FLUSH, HAS_COST, NVALUES };

static cairn_err advice_gather(cairn_session *s, int64_t value[NVALUES], struct crn_errinfo *ei)
{
    int64_t now = s->clock->mono_ns(s->clock);
    int64_t left = (int64_t)s->cfg.wall_limit_ns - (now - s->advice.opened_ns);

    value[STOP] = (s->has_signals && stop_seen) ||
                  (s->cfg.wall_limit_ns > 0 && left <= (int64_t)s->cfg.wall_margin_ns);
    value[ELAPSED] = now - s->advice.last_ns;
    value[COST] = s->advice.cost_ns;
    value[FLUSH] = s->advice.flush_ns;
    value[HAS_COST] = s->advice.has_cost;
    return s->comm->ops->allreduce(s->comm, value, NVALUES, CRN_COMM_MAX, ei);
}

/* Young's period sqrt(2 C mu), but not shorter than a flush takes, nor than the overhead cap
 * allows. */
static double period_of(const cairn_session *s, const struct crn_name_config *nc,
                        const int64_t value[NVALUES])
{
    double cost = (double)value[COST];
    double cap = (double)s->cfg.max_overhead_percent;
    double period;

    if (nc->period_ns > 0)
        period = (double)nc->period_ns;
    else
        period = sqrt(2.0 * cost * (double)s->cfg.mtbf_ns);
    if (nc->period_ns == 0 && period < (double)value[FLUSH])
        period = (double)value[FLUSH];
    if (cap > 0 && period < cost * 100.0 / cap)
        period = cost * 100.0 / cap;
    return period;
}

cairn_err cairn_should_checkpoint(cairn_session *s, const char *name, int *ret_yes)
{
    const struct crn_name_config *nc;
    int64_t value[NVALUES];
    struct crn_errinfo ei = {0};
    cairn_err rc;

    rc = crn_arg_checkpoint(s, name, 0, &ei);
    if (rc == CAIRN_OK)
        rc = crn_arg_pointer("ret_yes", ret_yes, &ei);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    nc = crn_config_name(&s->cfg, name);
    crn_node_listen(s);
    rc = advice_gather(s, value, &ei);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    if (value[STOP]) {
        *ret_yes = !s->advice.has_stopped;
        s->advice.has_stopped = 1;
    } else if (!value[HAS_COST] && nc->period_ns == 0) {
        *ret_yes = 1; /* the first one measures */
    } else {
        *ret_yes = (double)value[ELAPSED] >= period_of(s, nc, value);
    }
    return CAIRN_OK;
}

cairn_err cairn_should_stop(cairn_session *s, int *ret_yes)
{
    int64_t value[NVALUES];
    struct crn_errinfo ei = {0};
    cairn_err rc;

    rc = crn_arg_session(s, &ei);
    if (rc == CAIRN_OK)
        rc = crn_arg_pointer("ret_yes", ret_yes, &ei);
    if (rc == CAIRN_OK)
        rc = advice_gather(s, value, &ei);
    if (rc == CAIRN_OK)
        *ret_yes = value[STOP] != 0;
    return crn_api_end(&ei, rc);
}
