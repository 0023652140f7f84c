/* SPDX-License-Identifier: BSD-3-Clause */
/* "Should I checkpoint now?", "should I stop?": all ranks get the same answer, from the slowest
 * rank's figures. The stop flag belongs to the process, as signals do. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>

#include "client/outside.h"

#define MAX_SIGNALS 8
#define LEASE_NS    1000000000LL /* that a turn lasts beyond the agreements of the ranks */
#define LATE_NS     5000000000LL /* see advice_comes_late */

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
                            "stop_signals: '%s' is not one of USR1, USR2, TERM, INT, HUP, XCPU",
                            name);
        if (sigaction(number, &sa, &installed[ninstalled].before) < 0)
            return crn_fail_errno(ei, errno, "install a handler for %s", name);
        installed[ninstalled++].number = number;
    }
    return CAIRN_OK;
}

cairn_err crn_advice_signals_install(cairn_session *s, struct crn_errinfo *ei)
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

void crn_advice_signals_remove(cairn_session *s)
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
enum { STOP, ELAPSED, COST, FLUSH, HAS_COST, HAS_TURN, STEP, GAIN, NVALUES };
/* Values of STOP. With the last, a checkpoint has just been taken: another one is not due. */
enum { GO_ON, STOP_NOW, STOP_AFTER_CHECKPOINT };

/* What the first rank hears from `cairn halt` and from Slurm. */
static int64_t outside_stop(cairn_session *s, int64_t now)
{
    struct crn_outside_view view;

    if (s->advice.outside == NULL)
        s->advice.outside = crn_outside_open(s);
    if (s->advice.outside == NULL)
        return GO_ON;
    view = crn_outside_look(s->advice.outside);
    if (view.is_now || (view.end_ns > 0 && view.end_ns - now <= (int64_t)s->cfg.wall_margin_ns))
        return STOP_NOW;
    if (!view.is_next)
        s->advice.next_after = 0;
    else if (s->advice.next_after == 0)
        s->advice.next_after = s->seq + 1;
    return view.is_next && s->seq >= s->advice.next_after ? STOP_AFTER_CHECKPOINT : GO_ON;
}

/* Hears the node service, and agrees with the other ranks. */
static cairn_err advice_gather(cairn_session *s, struct crn_pace_of *pace, int64_t value[NVALUES],
                               struct crn_errinfo *ei)
{
    int64_t now = s->clock->mono_ns(s->clock);
    int64_t left = (int64_t)s->cfg.wall_limit_ns - (now - s->advice.opened_ns);
    struct crn_errinfo lost = {0};
    cairn_err rc;

    if (crn_service_link_pump(s, 0, &lost) != CAIRN_OK) {
        crn_log(&s->log, CRN_DEBUG, "%s", lost.msg);
        if (s->advice.wish == CRN_WISH_ASKED)
            s->advice.wish = CRN_WISH_COME; /* nobody will answer */
    }
    if ((s->has_signals && stop_seen) ||
        (s->cfg.wall_limit_ns > 0 && left <= (int64_t)s->cfg.wall_margin_ns))
        value[STOP] = STOP_NOW;
    else
        value[STOP] = s->rank == 0 ? outside_stop(s, now) : GO_ON;
    value[ELAPSED] = now - s->advice.last_ns;
    value[COST] = s->advice.cost_ns;
    value[FLUSH] = s->advice.flush_ns;
    value[HAS_COST] = s->advice.has_cost;
    value[HAS_TURN] = s->rank == 0 && s->advice.wish == CRN_WISH_COME;
    rc = crn_agree_now(s, now, pace, value, NVALUES, ei);
    if (rc == CAIRN_OK && value[STOP] != GO_ON && s->advice.stop == GO_ON)
        crn_wait_insist_newest(s); /* the job may end before it takes another checkpoint */
    if (rc == CAIRN_OK)
        s->advice.stop = value[STOP];
    return rc;
}

#define MAX_OVERHEAD 0.1 /* of the time is spent on checkpoints, whatever the formula says */

/* Young's period sqrt(2 C mu), but not shorter than a flush takes, nor than the overhead cap
 * allows. */
static double period_of(const cairn_session *s, const struct crn_name_config *nc,
                        const int64_t value[NVALUES])
{
    double cost = (double)value[COST];
    double period;

    if (nc->period_ns > 0)
        period = (double)nc->period_ns;
    else
        period = sqrt(2.0 * cost * (double)s->cfg.mtbf_ns);
    if (nc->period_ns == 0 && period < (double)value[FLUSH])
        period = (double)value[FLUSH];
    if (period < cost / MAX_OVERHEAD)
        period = cost / MAX_OVERHEAD;
    return period;
}

/* Would the file system be idle for a large part of the turn, because the steps are long against the
 * flush? Then the ranks capture at once, and that capture waits for the turn. */
static int advice_comes_late(int64_t round, const int64_t value[NVALUES])
{
    return round > LATE_NS && round > value[FLUSH] / 4;
}

/* A checkpoint is due; with a broker the ranks take it when the job's turn comes. They may need two
 * rounds of agreements to hear of the turn. */
static int advice_has_turn(cairn_session *s, const struct crn_pace_of *pace, double period,
                           const int64_t value[NVALUES])
{
    int64_t round = crn_agree_ns(pace, value[STEP]);

    if (s->cfg.broker[0] == '\0' || value[HAS_TURN] || advice_comes_late(round, value))
        return 1;
    if (s->rank == 0)
        crn_wish_ask(s, (int64_t)period, 2 * round + LEASE_NS);
    return 0;
}

static int advice_answer(cairn_session *s, const struct crn_name_config *nc,
                         const struct crn_pace_of *pace, const int64_t value[NVALUES])
{
    double period = period_of(s, nc, value);
    int is_first = !value[HAS_COST] && nc->period_ns == 0; /* it measures */

    if (!is_first && (double)value[ELAPSED] < period)
        return 0;
    return advice_has_turn(s, pace, is_first ? 0 : period, value);
}

/* Once a stop is requested the ranks agree in every call: it may be withdrawn. */
static int advice_is_due(cairn_session *s, const char *name, struct crn_pace_of **ret)
{
    return crn_agree_is_due(s, name, ret) || s->advice.stop != GO_ON;
}

cairn_err cairn_should_checkpoint(cairn_session *s, const char *name, int *ret_yes)
{
    struct crn_pace_of *pace;
    int64_t value[NVALUES];
    struct crn_errinfo ei = {0};
    cairn_err rc;

    rc = crn_arg_checkpoint(s, name, 0, &ei);
    if (rc == CAIRN_OK)
        rc = crn_arg_pointer("ret_yes", ret_yes, &ei);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    *ret_yes = 0;
    if (!advice_is_due(s, name, &pace))
        return CAIRN_OK;
    rc = advice_gather(s, pace, value, &ei);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    if (value[STOP] == GO_ON) {
        s->advice.has_stopped = 0;
        *ret_yes = advice_answer(s, crn_config_name(&s->cfg, name), pace, value);
    } else {
        *ret_yes = value[STOP] == STOP_NOW && !s->advice.has_stopped;
        s->advice.has_stopped = 1;
    }
    return CAIRN_OK;
}

cairn_err cairn_should_stop(cairn_session *s, int *ret_yes)
{
    struct crn_pace_of *pace;
    int64_t value[NVALUES];
    struct crn_errinfo ei = {0};
    cairn_err rc;

    rc = crn_arg_session(s, &ei);
    if (rc == CAIRN_OK)
        rc = crn_arg_pointer("ret_yes", ret_yes, &ei);
    if (rc == CAIRN_OK && advice_is_due(s, NULL, &pace))
        rc = advice_gather(s, pace, value, &ei);
    if (rc == CAIRN_OK)
        *ret_yes = s->advice.stop != GO_ON;
    return crn_api_end(&ei, rc);
}
