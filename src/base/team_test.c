/* SPDX-License-Identifier: BSD-3-Clause */
/* Every part runs exactly once, on whichever thread; the first failure ends the job; several jobs
 * run at once. */
#include "base/team.h"

#include <stdatomic.h>

#include "base/test.h"

#define PARTS 500

static struct crn_errinfo info;
static struct crn_errinfo *const ei = &info;

struct team_test_work {
    struct crn_team *team;
    atomic_int done[PARTS];
    atomic_int count;
    uint64_t bad; /* index of the part that fails; PARTS: none */
    cairn_err rc;
    struct crn_errinfo error;
};

static cairn_err part(void *arg, uint64_t i, struct crn_errinfo *why)
{
    struct team_test_work *w = arg;

    atomic_fetch_add(&w->done[i], 1);
    atomic_fetch_add(&w->count, 1);
    if (i == w->bad)
        return crn_fail(why, CAIRN_EIO, 0, "part %d", (int)i);
    return CAIRN_OK;
}

static void *bring(void *arg)
{
    struct team_test_work *w = arg;

    w->rc = crn_team_run(w->team, PARTS, part, w, &w->error);
    return NULL;
}

static struct crn_team *team(int helpers, int sharers)
{
    struct crn_team_options opt = {.helpers = helpers, .sharers = sharers};
    struct crn_team *t;

    assert_ok(crn_team_open(&opt, &t, ei));
    return t;
}

static void check_all(const struct team_test_work *w)
{
    int i;

    assert_int_equal(w->rc, CAIRN_OK);
    for (i = 0; i < PARTS; i++)
        assert_int_equal(w->done[i], 1);
}

static void every_part_once(void **state)
{
    const int helpers[] = {0, 1, 5};
    int k;

    (void)state;
    for (k = 0; k < 6; k++) {
        struct team_test_work w = {.team = team(helpers[k % 3], k / 3), .bad = PARTS};

        bring(&w);
        check_all(&w);
        assert_ok(crn_team_run(w.team, 0, part, &w, ei));
        assert_ok(crn_team_run(w.team, 1, part, &w, ei));
        assert_int_equal(w.count, PARTS + 1);
        crn_team_close(w.team);
    }
    crn_team_close(NULL);
}

static void a_failure_ends_it(void **state)
{
    struct team_test_work w = {.team = team(0, 0), .bad = 7};

    (void)state;
    bring(&w);
    assert_int_equal(w.rc, CAIRN_EIO);
    assert_string_equal(w.error.msg, "part 7");
    assert_int_equal(w.count, 8);
    crn_team_close(w.team);
}

static void several_at_once(void **state)
{
    struct crn_team *t = team(3, 0);
    struct team_test_work w[4] = {{.bad = PARTS}, {.bad = 7}, {.bad = PARTS}, {.bad = PARTS - 1}};
    pthread_t thread[4];
    int i;

    (void)state;
    for (i = 0; i < 4; i++) {
        w[i].team = t;
        assert_ok(crn_thread_start(&thread[i], "bring", bring, &w[i], ei));
    }
    for (i = 0; i < 4; i++)
        (void)pthread_join(thread[i], NULL);
    check_all(&w[0]);
    check_all(&w[2]);
    assert_int_equal(w[1].rc, CAIRN_EIO);
    assert_string_equal(w[1].error.msg, "part 7");
    assert_int_equal(w[3].rc, CAIRN_EIO);
    assert_int_equal(w[3].count, PARTS);
    crn_team_close(t);
}

/* Parts 0 and 1 wait for each other, so a helper must take one of them. */
struct team_test_pair {
    struct crn_mutex mu;
    struct crn_cond met;
    int here;
};

static cairn_err meet(void *arg, uint64_t i, struct crn_errinfo *why)
{
    struct team_test_pair *p = arg;

    (void)i;
    (void)why;
    crn_lock(&p->mu);
    p->here++;
    crn_cond_broadcast(&p->met);
    while (p->here < 2)
        crn_cond_wait(&p->met, &p->mu);
    crn_unlock(&p->mu);
    return CAIRN_OK;
}

static void helpers_help(void **state)
{
    struct crn_team *t = team(1, 0);
    struct team_test_pair p = {.here = 0};

    (void)state;
    crn_mutex_init(&p.mu, CRN_RANK_QUEUE);
    crn_cond_init(&p.met);
    assert_ok(crn_team_run(t, 2, meet, &p, ei));
    assert_int_equal(p.here, 2);
    crn_cond_fini(&p.met);
    crn_mutex_fini(&p.mu);
    crn_team_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_once),
        cmocka_unit_test(a_failure_ends_it),
        cmocka_unit_test(several_at_once),
        cmocka_unit_test(helpers_help),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
