/* SPDX-License-Identifier: BSD-3-Clause */
/* The token bucket is one time, next_ns: when the bytes admitted so far are paid for at the current
 * rate. A thread that asks earlier waits. A thread that asks later is charged from now, or from at
 * most CATCH_UP_NS earlier, so that a late wake-up costs no bandwidth. */
#include "base/gate.h"

#include <string.h>

#include "base/clock.h"

#define CATCH_UP_NS 20000000LL /* how much of a late wake-up is made up for */
#define LOOK_NS     2000000LL  /* how often a paused thread checks the application's phase */
#define STEP_MIN    ((uint64_t)64 << 10)
#define STEP_MAX    ((uint64_t)1 << 20)

void crn_gate_init(struct crn_gate *g, uint64_t rate, int64_t patience_ns,
                   int (*is_busy)(void *arg), void *arg)
{
    memset(g, 0, sizeof(*g));
    crn_mutex_init(&g->mu, CRN_RANK_LEAF);
    crn_cond_init(&g->changed);
    g->rate = rate;
    g->patience_ns = patience_ns;
    g->is_busy = is_busy;
    g->arg = arg;
}

void crn_gate_fini(struct crn_gate *g)
{
    crn_cond_fini(&g->changed);
    crn_mutex_fini(&g->mu);
}

void crn_gate_begin(struct crn_gate *g)
{
    crn_lock(&g->mu);
    g->held_ns = 0;
    g->refused_ns = 0;
    crn_unlock(&g->mu);
}

/* Pauses while the application is busy, until patience_ns is used up. All threads share one
 * account: time counts once, however many wait. */
static int is_held_locked(struct crn_gate *g, int64_t now_ns) CRN_REQUIRES(g->mu)
{
    if (g->is_busy == NULL || g->held_ns >= g->patience_ns || !g->is_busy(g->arg)) {
        g->refused_ns = 0;
        return 0;
    }
    if (g->refused_ns != 0 && now_ns > g->refused_ns)
        g->held_ns += now_ns - g->refused_ns;
    g->refused_ns = now_ns;
    return g->held_ns < g->patience_ns;
}

/* The lower of the cap and the calm rate; 0: neither is set. */
static uint64_t rate_locked(const struct crn_gate *g) CRN_REQUIRES(g->mu)
{
    if (g->rate == 0 || g->calm_rate == 0)
        return g->rate + g->calm_rate;
    return g->rate < g->calm_rate ? g->rate : g->calm_rate;
}

static int64_t wait_locked(struct crn_gate *g, uint64_t bytes, int64_t now_ns) CRN_REQUIRES(g->mu)
{
    uint64_t rate = rate_locked(g);

    if (g->is_open)
        return 0;
    if (is_held_locked(g, now_ns))
        return LOOK_NS;
    if (rate == 0)
        return 0;
    if (g->next_ns > now_ns)
        return g->next_ns - now_ns;
    if (g->next_ns < now_ns - CATCH_UP_NS)
        g->next_ns = now_ns - CATCH_UP_NS;
    g->next_ns += (int64_t)((double)bytes * 1e9 / (double)rate);
    return 0;
}

static int64_t ask_locked(struct crn_gate *g, uint64_t bytes, int64_t now_ns) CRN_REQUIRES(g->mu)
{
    int64_t wait_ns = wait_locked(g, bytes, now_ns);

    if (wait_ns > 0 && g->since_ns == 0) {
        g->since_ns = now_ns;
    } else if (wait_ns == 0 && g->since_ns != 0) {
        g->waited_ns += now_ns - g->since_ns;
        g->since_ns = 0;
    }
    return wait_ns;
}

/* Rescales the outstanding wait: bytes already admitted are paid for at the new rate. */
void crn_gate_calm(struct crn_gate *g, uint64_t rate, int64_t now_ns)
{
    double before, after;

    if (rate == g->calm_rate) /* only this thread writes it */
        return;
    crn_lock(&g->mu);
    before = (double)rate_locked(g);
    g->calm_rate = rate;
    after = (double)rate_locked(g);
    if (g->next_ns > now_ns)
        g->next_ns =
            now_ns + (after > 0 ? (int64_t)((double)(g->next_ns - now_ns) * before / after) : 0);
    crn_cond_broadcast(&g->changed);
    crn_unlock(&g->mu);
}

int64_t crn_gate_waited_ns(struct crn_gate *g)
{
    int64_t ns;

    if (g == NULL)
        return 0;
    crn_lock(&g->mu);
    ns = g->waited_ns;
    crn_unlock(&g->mu);
    return ns;
}

int64_t crn_gate_ask(struct crn_gate *g, uint64_t bytes, int64_t now_ns)
{
    int64_t wait_ns;

    crn_lock(&g->mu);
    wait_ns = ask_locked(g, bytes, now_ns);
    crn_unlock(&g->mu);
    return wait_ns;
}

void crn_gate_pass(struct crn_gate *g, uint64_t bytes)
{
    const struct crn_clock *clock = crn_clock_real();
    int64_t now_ns, wait_ns;

    crn_lock(&g->mu);
    for (;;) {
        now_ns = clock->mono_ns(clock);
        wait_ns = ask_locked(g, bytes, now_ns);
        if (wait_ns == 0)
            break;
        (void)crn_cond_wait_until(&g->changed, &g->mu, now_ns + wait_ns);
    }
    crn_unlock(&g->mu);
}

uint64_t crn_gate_step(struct crn_gate *g)
{
    uint64_t rate, step;

    crn_lock(&g->mu);
    rate = rate_locked(g);
    crn_unlock(&g->mu);
    step = rate / 8 / STEP_MIN * STEP_MIN;
    if (rate == 0)
        return g->is_busy == NULL ? UINT64_MAX : STEP_MAX;
    return step < STEP_MIN ? STEP_MIN : step > STEP_MAX ? STEP_MAX : step;
}

void crn_gate_open(struct crn_gate *g)
{
    crn_lock(&g->mu);
    g->is_open = 1;
    crn_cond_broadcast(&g->changed);
    crn_unlock(&g->mu);
}
