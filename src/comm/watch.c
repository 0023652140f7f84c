/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds ranks that exist but make no progress: a stopped process, a hanging host. MPI would wait
 * for them forever. During a watch every waiting rank sends heartbeats to its neighbours in the
 * tree of all ranks. A rank whose neighbour stays silent too long broadcasts a failure, and all
 * ranks fail with its text. Only neighbours exchange heartbeats, so the cost does not grow with the
 * number of ranks. Every rank has a neighbour that waits for it, because a watch covers only
 * collective calls. */
#include <string.h>

#include "base/clock.h"
#include "comm/mail_impl.h"

#define SECOND     1000000000LL
#define PER_PERIOD 8 /* heartbeats within the allowed silence */

enum { BEAT = 1, CRY = 2 };

static int64_t now_ns(void)
{
    const struct crn_clock *clock = crn_clock_real();

    return clock->mono_ns(clock);
}

void crn_watch_init(struct crn_watch *w, const struct crn_comm *whole)
{
    int child = whole->rank * CRN_MAIL_WIDTH + 1;
    int i;

    memset(w, 0, sizeof(*w));
    if (whole->rank > 0)
        w->who[w->n++] = (whole->rank - 1) / CRN_MAIL_WIDTH;
    for (i = 0; i < CRN_MAIL_WIDTH && child + i < whole->size; i++)
        w->who[w->n++] = child + i;
}

void crn_watch_begin(struct crn_watch *w, int64_t silence_ns)
{
    int i;

    w->silence_ns = silence_ns;
    w->told_ns = now_ns();
    for (i = 0; i < w->n; i++)
        w->heard_ns[i] = w->told_ns;
}

void crn_watch_heard(struct crn_watch *w, int from)
{
    int i;

    for (i = 0; w->silence_ns > 0 && i < w->n; i++)
        if (w->who[i] == from)
            w->heard_ns[i] = now_ns();
}

void crn_watch_take(struct crn_watch *w, uint32_t kind, const void *text, size_t bytes)
{
    char why[CRN_ERR_TEXT] = "";

    if (kind != CRY)
        return;
    memcpy(why, text, bytes < sizeof(why) - 1 ? bytes : sizeof(why) - 1);
    (void)!crn_fail(&w->failure, CAIRN_EPEER, 0, "%s", why);
}

static void watch_post(struct crn_comm *whole, int to, uint32_t kind, const char *text)
{
    struct crn_mail_head h = {.part = CRN_MAIL_WATCH, .round = kind};
    unsigned char raw[sizeof(h) + CRN_ERR_TEXT];
    struct crn_errinfo ignored = {0};
    size_t len = strlen(text) + 1;

    memcpy(raw, &h, sizeof(h));
    memcpy(raw + sizeof(h), text, len);
    if (whole->ops->post(whole, to, raw, sizeof(h) + len, &ignored) != CAIRN_OK)
        crn_err_clear(&ignored); /* a lost heartbeat shows as silence */
}

void crn_watch_tell(struct crn_watch *w, struct crn_comm *whole)
{
    int64_t now = w->silence_ns > 0 ? now_ns() : 0;
    int i;

    if (w->silence_ns == 0 || now - w->told_ns < w->silence_ns / PER_PERIOD)
        return;
    w->told_ns = now;
    for (i = 0; i < w->n; i++)
        watch_post(whole, w->who[i], BEAT, "");
}

cairn_err crn_watch_look(struct crn_watch *w, struct crn_comm *whole, struct crn_errinfo *ei)
{
    int64_t now;
    int i, k;

    if (w->silence_ns == 0)
        return CAIRN_OK;
    crn_watch_tell(w, whole);
    now = now_ns();
    for (i = 0; i < w->n && now - w->heard_ns[i] <= w->silence_ns; i++)
        ;
    if (i == w->n)
        return CAIRN_OK;
    (void)!crn_fail(&w->failure, CAIRN_EPEER, 0,
                    "rank %d was silent for %.1f s (commit_timeout) while all ranks "
                    "restart together: it hangs, or its host or network is down; end the job and "
                    "start it again without that host",
                    w->who[i], (double)(now - w->heard_ns[i]) / (double)SECOND);
    for (k = 0; k < whole->size; k++)
        if (k != whole->rank)
            watch_post(whole, k, CRY, w->failure.msg);
    crn_err_keep(ei, &w->failure);
    return w->failure.code;
}
