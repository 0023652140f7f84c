/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of the jobs on a platform, event by event. Three clocks drive it: the timers of the jobs
 * (a checkpoint is due, the work is done), the file system (a request ends) and the failures.
 *
 * Rules: a failed job restarts at once on the same nodes, from its last committed checkpoint, or
 * from its input if there is none. A failure during a commit keeps nothing of it. When the
 * holder of the token ends or fails, the next request starts at that instant. Work done while a
 * checkpoint waits for the token belongs to that checkpoint. Lost work is booked when it is
 * lost. */
#include "sim/simulate.h"

#include <math.h>
#include <stdlib.h>
#include "sim/pfs.h"
#include "sim/workload.h"

struct simulate_job {
    uint32_t cls;
    int is_alive;
    int has_saved; /* there is a committed checkpoint */
    int has_read;  /* input or recovery is done */
    enum crn_sim_use use;
    double use_since_s;   /* clamped to the measured days */
    double work_s;        /* total */
    double saved_s;       /* of it: committed */
    double captured_s;    /* of it: in the checkpoint being written ... */
    double captured_at_s; /* ... taken then */
    double newest_s; /* strategies that capture at times of their own: of it, in the newest ... */
    double newest_at_s; /* ... taken then */
    double progress_s;  /* of it: done at run_since_s */
    double run_since_s;
    double risk_since_s; /* older work is committed */
    int is_asking;       /* waits for the file system or uses it */
    enum crn_io_kind kind;
    double asked_s;
    double request_at_s; /* time of the next checkpoint request */
};

struct sim {
    const struct crn_model *m;
    struct crn_sim_result *out;
    struct crn_workload workload;
    struct crn_rng failures;
    double now_s, next_failure_s;
    double free_nodes, free_since_s;
    double busy_since_s; /* of the file system; < 0: idle */
    struct simulate_job *job;
    uint32_t capacity, high; /* slots; those below high have been used */
    uint32_t *spare, nspare; /* free slots below high */
    struct crn_heap timers;
    struct crn_pfs device;
};

static const struct crn_model_class *class_of(const struct sim *s, const struct simulate_job *j)
{
    return &s->m->cls[j->cls];
}

static struct crn_sim_class_result *result_of(struct sim *s, const struct simulate_job *j)
{
    return &s->out->cls[j->cls];
}

static int is_measured(const struct sim *s)
{
    return s->now_s >= s->m->start_s;
}

/* Measured seconds within [since, now]; the simulation stops where measuring ends. */
static double simulate_measured(const struct sim *s, double since_s)
{
    return fmax(0, s->now_s - fmax(since_s, s->m->start_s));
}

static void set_use(struct sim *s, struct simulate_job *j, enum crn_sim_use use)
{
    result_of(s, j)->use[j->use] += class_of(s, j)->nodes * simulate_measured(s, j->use_since_s);
    j->use = use;
    j->use_since_s = s->now_s;
}

static double progress_now(const struct sim *s, const struct simulate_job *j)
{
    return j->use == CRN_USE_COMPUTE ? j->progress_s + (s->now_s - j->run_since_s) : j->progress_s;
}

/* Fires when the work is done, or when a checkpoint is due that has not been requested. */
static void set_timer(struct sim *s, uint32_t slot)
{
    const struct simulate_job *j = &s->job[slot];
    double at = j->run_since_s + (j->work_s - j->progress_s);

    if (!j->is_asking || s->m->strategy.is_newest)
        at = fmin(at, j->request_at_s);
    crn_heap_set(&s->timers, slot, at);
}

static void simulate_compute(struct sim *s, uint32_t slot)
{
    struct simulate_job *j = &s->job[slot];

    set_use(s, j, CRN_USE_COMPUTE);
    j->run_since_s = s->now_s;
    set_timer(s, slot);
}

static void stop_computing(struct sim *s, uint32_t slot, enum crn_sim_use use)
{
    struct simulate_job *j = &s->job[slot];

    j->progress_s = progress_now(s, j);
    set_use(s, j, use);
    crn_heap_remove(&s->timers, slot);
}

static double duration_of(const struct sim *s, const struct simulate_job *j)
{
    const struct crn_model_class *c = class_of(s, j);

    if (j->kind == CRN_IO_INPUT)
        return c->input_s;
    return j->kind == CRN_IO_OUTPUT ? c->output_s : c->checkpoint_s;
}

static void simulate_ask(struct sim *s, uint32_t slot, enum crn_io_kind kind)
{
    struct simulate_job *j = &s->job[slot];
    const struct crn_model_class *c = class_of(s, j);
    struct crn_io_request r;

    j->kind = kind;
    j->is_asking = 1;
    j->asked_s = s->now_s;
    r = (struct crn_io_request){
        .kind = kind,
        .nodes = c->nodes,
        .duration_s = duration_of(s, j),
        .since_s = s->now_s,
        .last_checkpoint_s = j->risk_since_s,
        .recovery_s = c->checkpoint_s,
        .node_mtbf_s = s->m->node_mtbf_s,
        .period_s = c->period_s,
    };
    crn_pfs_ask(&s->device, slot, &r);
}

/* Reads the checkpoint or the input, at the start and after a failure. */
static void simulate_begin(struct sim *s, uint32_t slot)
{
    struct simulate_job *j = &s->job[slot];

    j->progress_s = j->newest_s = j->saved_s;
    j->has_read = 0;
    set_use(s, j, j->has_saved ? CRN_USE_WAIT_RECOVERY : CRN_USE_WAIT_INPUT);
    simulate_ask(s, slot, j->has_saved ? CRN_IO_RECOVERY : CRN_IO_INPUT);
}

static void account_wait(struct sim *s, const struct simulate_job *j)
{
    struct crn_sim_class_result *r = result_of(s, j);
    double wait_s = s->now_s - j->asked_s;

    if (!is_measured(s))
        return;
    r->waits++;
    r->wait_s += wait_s;
    r->longest_wait_s = fmax(r->longest_wait_s, wait_s);
}

static void simulate_started(struct sim *s, uint32_t slot)
{
    static const enum crn_sim_use uses[CRN_IO_KINDS] = {CRN_USE_INPUT, CRN_USE_OUTPUT,
                                                        CRN_USE_RECOVERY, CRN_USE_CHECKPOINT};
    struct simulate_job *j = &s->job[slot];

    account_wait(s, j);
    if (j->kind == CRN_IO_CHECKPOINT && s->m->strategy.is_newest) {
        j->captured_s = j->newest_s;
        j->captured_at_s = j->newest_at_s;
        return; /* it computes on, or captures a newer one */
    }
    j->captured_at_s = s->now_s;
    stop_computing(s, slot, uses[j->kind]);
    j->captured_s = j->progress_s;
    if (j->kind == CRN_IO_CHECKPOINT && s->m->strategy.is_async)
        crn_heap_set(&s->timers, slot, s->now_s + class_of(s, j)->block_s);
}

static void simulate_committed(struct sim *s, uint32_t slot)
{
    struct simulate_job *j = &s->job[slot];
    const struct crn_model_class *c = class_of(s, j);
    struct crn_sim_class_result *r = result_of(s, j);
    int is_async = s->m->strategy.is_async;

    j->saved_s = j->captured_s;
    j->has_saved = 1;
    j->risk_since_s = is_async ? j->captured_at_s : s->now_s;
    if (!s->m->strategy.is_newest)
        j->request_at_s = s->now_s + c->request_after_s;
    if (is_measured(s)) {
        r->checkpoints++;
        r->slowdown += (s->now_s - j->asked_s) / c->checkpoint_s;
    }
    if (s->m->strategy.is_newest) {
        if (j->newest_s > j->captured_s)
            simulate_ask(s, slot, CRN_IO_CHECKPOINT);
    } else if (j->use == CRN_USE_COMPUTE) {
        set_timer(s, slot);
    } else {
        simulate_compute(s, slot);
    }
}

/* A capture at a time of the job's own; it is written when the turn comes, if it is the newest. */
static void simulate_captured(struct sim *s, uint32_t slot)
{
    struct simulate_job *j = &s->job[slot];

    j->newest_s = j->progress_s;
    j->newest_at_s = s->now_s;
    j->request_at_s = s->now_s + class_of(s, j)->request_after_s;
    if (!j->is_asking)
        simulate_ask(s, slot, CRN_IO_CHECKPOINT);
}

static void free_nodes(struct sim *s, double nodes)
{
    s->out->idle += s->free_nodes * simulate_measured(s, s->free_since_s);
    s->free_since_s = s->now_s;
    s->free_nodes += nodes;
}

static void start_jobs(struct sim *s)
{
    struct crn_workload_job next;

    while (crn_workload_take(&s->workload, s->now_s, s->free_nodes, &next)) {
        uint32_t slot = s->nspare > 0 ? s->spare[--s->nspare] : s->high++;
        struct simulate_job *j = &s->job[slot];

        *j = (struct simulate_job){.cls = next.cls,
                                   .is_alive = 1,
                                   .use = CRN_USE_WAIT_INPUT,
                                   .use_since_s = s->now_s,
                                   .work_s = next.work_s};
        free_nodes(s, -class_of(s, j)->nodes);
        simulate_begin(s, slot);
    }
}

static void end_job(struct sim *s, uint32_t slot)
{
    struct simulate_job *j = &s->job[slot];

    set_use(s, j, CRN_USE_OUTPUT);
    if (is_measured(s))
        result_of(s, j)->jobs++;
    j->is_alive = 0;
    crn_workload_end(&s->workload, s->now_s, j->cls);
    free_nodes(s, class_of(s, j)->nodes);
    s->spare[s->nspare++] = slot;
    start_jobs(s);
}

/* A request has been served. */
static void simulate_served(struct sim *s, uint32_t slot)
{
    struct simulate_job *j = &s->job[slot];

    j->is_asking = 0;
    if ((j->kind == CRN_IO_INPUT || j->kind == CRN_IO_OUTPUT) && is_measured(s))
        result_of(s, j)->io += class_of(s, j)->nodes * duration_of(s, j);
    if (j->kind == CRN_IO_CHECKPOINT) {
        simulate_committed(s, slot);
    } else if (j->kind == CRN_IO_OUTPUT) {
        end_job(s, slot);
    } else {
        j->has_read = 1;
        j->risk_since_s = s->now_s;
        j->request_at_s =
            s->m->strategy.policy == NULL ? INFINITY : s->now_s + class_of(s, j)->request_after_s;
        simulate_compute(s, slot);
    }
}

static void on_timer(struct sim *s, uint32_t slot)
{
    struct simulate_job *j = &s->job[slot];

    if (j->use == CRN_USE_CHECKPOINT) { /* the local capture is done, the write continues */
        if (s->m->strategy.is_newest)
            simulate_captured(s, slot);
        simulate_compute(s, slot);
    } else if (s->now_s >= j->run_since_s + (j->work_s - j->progress_s)) {
        crn_pfs_cancel(&s->device, slot, s->now_s); /* a checkpoint that is no longer needed */
        stop_computing(s, slot, CRN_USE_WAIT_OUTPUT);
        j->progress_s = j->work_s;
        simulate_ask(s, slot, CRN_IO_OUTPUT);
    } else if (s->m->strategy.is_newest) {
        stop_computing(s, slot, CRN_USE_CHECKPOINT);
        crn_heap_set(&s->timers, slot, s->now_s + class_of(s, j)->block_s);
    } else {
        simulate_ask(s, slot, CRN_IO_CHECKPOINT);
        if (s->m->strategy.policy->is_blocking)
            stop_computing(s, slot, CRN_USE_WAIT_CHECKPOINT);
        else
            set_timer(s, slot);
    }
}

static void simulate_fail(struct sim *s, uint32_t slot)
{
    struct simulate_job *j = &s->job[slot];
    struct crn_sim_class_result *r = result_of(s, j);

    if (is_measured(s)) {
        r->failures++;
        r->lost += class_of(s, j)->nodes * (progress_now(s, j) - j->saved_s);
        if (!j->has_saved && j->has_read) /* it will be read again */
            r->io -= class_of(s, j)->nodes * class_of(s, j)->input_s;
    }
    crn_pfs_cancel(&s->device, slot, s->now_s);
    crn_heap_remove(&s->timers, slot);
    simulate_begin(s, slot);
}

/* Any node may fail, with or without a job, with equal probability. */
static void on_failure(struct sim *s)
{
    double node = crn_rng_unit(&s->failures) * s->m->nodes;
    uint32_t slot;

    s->next_failure_s -= log1p(-crn_rng_unit(&s->failures)) * s->m->node_mtbf_s / s->m->nodes;
    for (slot = 0; slot < s->high; slot++) {
        if (!s->job[slot].is_alive)
            continue;
        if (node < class_of(s, &s->job[slot])->nodes) {
            simulate_fail(s, slot);
            return;
        }
        node -= class_of(s, &s->job[slot])->nodes;
    }
}

static void start_requests(struct sim *s)
{
    uint32_t slot;

    while ((slot = crn_pfs_start(&s->device, s->now_s)) != CRN_HEAP_OUT)
        simulate_started(s, slot);
    if (s->busy_since_s >= 0) {
        s->out->device_busy += simulate_measured(s, s->busy_since_s);
        s->busy_since_s = -1;
    }
    if (s->device.active.n > 0)
        s->busy_since_s = s->now_s;
}

/* Processes one event; 0 when the measured days are over. */
static int simulate_step(struct sim *s)
{
    uint32_t slot = crn_heap_top(&s->timers);
    double timer_s = slot != CRN_HEAP_OUT ? s->timers.key[slot] : INFINITY;
    double device_s = crn_pfs_next_s(&s->device);
    double next_s = fmin(fmin(timer_s, device_s), s->next_failure_s);

    if (next_s >= s->m->end_s) {
        s->now_s = s->m->end_s;
        return 0;
    }
    s->now_s = fmax(s->now_s, next_s);
    if (device_s <= next_s) {
        simulate_served(s, crn_pfs_finish(&s->device, s->now_s));
    } else if (timer_s <= next_s) {
        crn_heap_remove(&s->timers, slot);
        on_timer(s, slot);
    } else {
        on_failure(s);
    }
    start_requests(s);
    return 1;
}

static void close_books(struct sim *s)
{
    uint32_t slot;

    for (slot = 0; slot < s->high; slot++)
        if (s->job[slot].is_alive)
            set_use(s, &s->job[slot], s->job[slot].use);
    s->out->idle += s->free_nodes * simulate_measured(s, s->free_since_s);
    if (s->busy_since_s >= 0)
        s->out->device_busy += simulate_measured(s, s->busy_since_s);
}

static cairn_err sim_init(struct sim *s, const struct crn_model *m, uint64_t seed,
                          struct crn_errinfo *ei)
{
    double smallest = m->cls[0].nodes;
    size_t i;

    for (i = 1; i < m->nclasses; i++)
        smallest = fmin(smallest, m->cls[i].nodes);
    s->capacity = (uint32_t)(m->nodes / smallest);
    s->job = calloc(s->capacity, sizeof(*s->job));
    s->spare = calloc(s->capacity, sizeof(*s->spare));
    if (s->job == NULL || s->spare == NULL || crn_heap_init(&s->timers, s->capacity) != 0 ||
        crn_pfs_init(&s->device, m->strategy.policy, s->capacity) != 0)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "simulation of up to %u jobs", s->capacity);
    s->m = m;
    s->free_nodes = m->nodes;
    s->busy_since_s = -1;
    /* Separate random streams, so that jobs and failures are the same under every strategy. */
    crn_workload_init(&s->workload, m, 2 * seed);
    crn_rng_seed(&s->failures, 2 * seed + 1);
    s->next_failure_s = INFINITY;
    if (m->strategy.policy != NULL && m->node_mtbf_s > 0)
        s->next_failure_s = -log1p(-crn_rng_unit(&s->failures)) * m->node_mtbf_s / m->nodes;
    return CAIRN_OK;
}

cairn_err crn_simulate(const struct crn_model *m, uint64_t seed, struct crn_sim_result *ret,
                       struct crn_errinfo *ei)
{
    struct sim s = {0};
    cairn_err rc;

    *ret = (struct crn_sim_result){0};
    s.out = ret;
    rc = sim_init(&s, m, seed, ei);
    if (rc == CAIRN_OK) {
        start_jobs(&s);
        start_requests(&s);
        while (simulate_step(&s))
            ;
        close_books(&s);
    }
    free(s.job);
    free(s.spare);
    crn_heap_fini(&s.timers);
    crn_pfs_fini(&s.device);
    return rc;
}

const char *crn_sim_use_name(enum crn_sim_use use)
{
    static const char *const names[CRN_SIM_USES] = {
        "compute",    "input",       "output",        "recovery",        "checkpoint",
        "wait-input", "wait-output", "wait-recovery", "wait-checkpoint",
    };

    return names[use];
}

double crn_sim_occupied(const struct crn_sim_class_result *c)
{
    double sum = 0;
    int u;

    for (u = 0; u < CRN_SIM_USES; u++)
        sum += c->use[u];
    return sum;
}

double crn_sim_work(const struct crn_sim_class_result *c)
{
    return c->use[CRN_USE_COMPUTE] - c->lost;
}
