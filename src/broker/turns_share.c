/* SPDX-License-Identifier: BSD-3-Clause */
/* What one user gets of the tokens, however many jobs the user submits: a share of their time while
 * others wait, and little time for transfers that were not granted. Used time decays, so that what
 * counts is the last hour or so. */
#include "broker/turns_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SHARE_S 3600.0 /* used time falls to a third in this time */
#define LEAST_S 60.0   /* less used time than this says nothing about shares */
#define REFILL  0.1    /* of the time: how fast a user's time without a grant comes back */

static double share_seconds(int64_t ns)
{
    return (double)ns / (double)NS_PER_S;
}

double crn_share_weight(const char *shares, const char *user)
{
    size_t len = strlen(user);
    double weight;
    char *end;

    for (; shares != NULL && *shares != '\0'; shares += strcspn(shares, " ,")) {
        shares += strspn(shares, " ,");
        if (strncmp(shares, user, len) != 0 || shares[len] != ':')
            continue;
        weight = strtod(shares + len + 1, &end);
        return end != shares + len + 1 && weight > 0 ? weight : 1;
    }
    return 1;
}

/* Used seconds of a user, as of now. */
static double used_now(const struct user *u, int64_t now_ns)
{
    return u->used_s * exp(-share_seconds(now_ns - u->used_ns) / SHARE_S);
}

void crn_share_account(struct crn_turns *t, uint32_t user, double held_s, int64_t now_ns)
{
    struct user *u = &t->user[user];

    u->used_s = used_now(u, now_ns) + held_s;
    u->used_ns = now_ns;
    t->used_s = t->used_s * exp(-share_seconds(now_ns - t->used_ns) / SHARE_S) + held_s;
    t->used_ns = now_ns;
}

int crn_share_is_over(const struct crn_turns *t, uint32_t user, int64_t now_ns)
{
    const struct user *u = &t->user[user];
    double all = t->used_s * exp(-share_seconds(now_ns - t->used_ns) / SHARE_S);
    double limit = t->cfg.user_share * crn_share_weight(t->cfg.shares, u->name);

    return limit > 0 && limit < 1 && all > LEAST_S && used_now(u, now_ns) > limit * all;
}

double crn_share_alone_left(const struct crn_turns *t, uint32_t user, int64_t now_ns)
{
    const struct user *u = &t->user[user];
    double most = share_seconds(t->cfg.alone_ns);

    if (t->cfg.alone_ns == 0)
        return INFINITY;
    if (u->alone_ns == 0)
        return most;
    return fmin(most, u->alone_s + REFILL * share_seconds(now_ns - u->alone_ns));
}

void crn_share_alone_used(struct crn_turns *t, uint32_t user, double held_s, int64_t now_ns)
{
    struct user *u = &t->user[user];

    if (t->cfg.alone_ns == 0)
        return;
    u->alone_s = fmax(0, crn_share_alone_left(t, user, now_ns) - held_s);
    u->alone_ns = now_ns;
}

/* Keeps ret sorted, and at most max of them. */
static size_t share_insert(struct crn_turns_user *ret, size_t n, size_t max,
                           const struct crn_turns_user *user)
{
    size_t at = n < max ? n : max - 1;

    if (n == max && ret[at].share >= user->share)
        return n;
    for (; at > 0 && ret[at - 1].share < user->share; at--)
        ret[at] = ret[at - 1];
    ret[at] = *user;
    return n < max ? n + 1 : n;
}

/* Seconds since the grants that the user holds now. */
static double share_holding(const struct crn_turns *t, uint32_t user, int64_t now_ns)
{
    double s = 0;
    uint32_t rid;
    size_t k;

    for (k = 0; k < t->cfg.ntokens; k++)
        for (rid = t->token[k].first_holder; rid != NONE; rid = request_of(t, rid)->next)
            if (job_of(t, rid)->payer == user && !request_of(t, rid)->is_learned)
                s += share_seconds(now_ns - request_of(t, rid)->held_ns);
    return s;
}

size_t crn_turns_users(const struct crn_turns *t, int64_t now_ns, struct crn_turns_user *ret,
                       size_t max)
{
    double all = t->used_s * exp(-share_seconds(now_ns - t->used_ns) / SHARE_S);
    size_t n = 0;
    uint32_t i;

    for (i = 0; i < t->nusers; i++)
        if (t->user[i].refs > 0)
            all += share_holding(t, i, now_ns);
    for (i = 0; max > 0 && i < t->nusers; i++) {
        const struct user *u = &t->user[i];
        struct crn_turns_user user = {.name = u->name, .jobs = u->njobs};
        double used = used_now(u, now_ns) + (u->refs > 0 ? share_holding(t, i, now_ns) : 0);

        user.share = all > 0 ? used / all : 0;
        if (u->name[0] == '\0' || (u->njobs == 0 && user.share < 0.001))
            continue;
        user.weight = crn_share_weight(t->cfg.shares, u->name);
        n = share_insert(ret, n, max, &user);
    }
    return n;
}
