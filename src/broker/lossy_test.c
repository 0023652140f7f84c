/* SPDX-License-Identifier: BSD-3-Clause */
/* Broker and jobs over a bad network, in virtual time: messages are lost, late, repeated and out of
 * order, connections break on one side only, jobs die and hang, the broker is killed and restarts
 * with an empty memory. Core, agents and encoding are the real ones; the seed decides everything
 * else.
 *
 * Checked at every step: the broker's invariants, and that no more jobs than slots transfer
 * under its grants at once, counting those that heard from it within the grace. Checked at the
 * end, after the network has recovered: every job was served, no token is held, no job waits. */
#include "base/test.h"

#include "base/rng.h"
#include "broker/agent.h"
#include "broker/turns.h"

#define MS       1000000LL
#define S        (1000 * MS)
#define STEP     (50 * MS)
#define JOBS     10
#define CONNS    64
#define SLOTS    2
#define FLIGHT   4096 /* messages in flight */
#define GRACE    (12 * S)
#define MAX_LATE (2 * S)

struct weather {
    unsigned lose, repeat; /* per 1000 messages */
    int64_t late_ns;       /* at most */
    unsigned cut;          /* per 100,000 steps and job: connection breaks */
    unsigned kill_job, hang_job;
    unsigned kill_broker; /* per 100,000 steps */
};

struct lossy_test_message {
    int64_t at_ns;
    uint32_t conn;
    int to_broker;
    struct crn_buf frame;
};

struct connection {
    int is_up; /* at the job's end */
    int at_broker;
    uint32_t job;
    int64_t broker_hears_ns; /* of the break; 0: not broken */
};

struct lossy_test_job {
    struct crn_agent agent;
    int is_dead;
    int64_t hangs_until_ns;
    uint32_t conn; /* CONNS: none */
    int64_t connect_ns;
    int64_t heard_ns; /* last status */
    uint32_t ticket;  /* 0: computing */
    int64_t until_ns; /* computing, or transferring if is_moving */
    int64_t patience_ns;
    int is_moving;
    unsigned served, asked;
    int64_t waited_ns; /* longest */
};

struct lossy_test_world {
    struct crn_rng rng;
    struct weather weather;
    int64_t now;
    struct crn_turns *turns; /* NULL: the broker is down */
    int64_t start_broker_ns;
    uint64_t epoch;
    struct lossy_test_job job[JOBS];
    struct connection conn[CONNS];
    struct lossy_test_message flight[FLIGHT];
    size_t nflight;
    int is_closing; /* no new requests */
    unsigned restarts, overlaps;
    uint64_t trace; /* over all deliveries */
};

static unsigned chance(struct lossy_test_world *w, unsigned of_100000)
{
    return crn_rng_below(&w->rng, 100000) < of_100000;
}

static int64_t between(struct lossy_test_world *w, int64_t low, int64_t high)
{
    return low + (int64_t)crn_rng_below(&w->rng, (uint64_t)(high - low) + 1);
}

/* Network. ------------------------------------------------------------------------------------- */

static void put_in_flight(struct lossy_test_world *w, uint32_t conn, int to_broker,
                          const struct crn_bp_msg *msg)
{
    struct lossy_test_message *m;

    assert_true(w->nflight < FLIGHT);
    m = &w->flight[w->nflight++];
    *m = (struct lossy_test_message){.conn = conn, .to_broker = to_broker};
    m->at_ns = w->now + between(w, MS, w->weather.late_ns);
    crn_bp_encode(msg, &m->frame);
}

static void send(struct lossy_test_world *w, uint32_t conn, int to_broker,
                 const struct crn_bp_msg *msg)
{
    if (crn_rng_below(&w->rng, 1000) < w->weather.lose)
        return;
    put_in_flight(w, conn, to_broker, msg);
    while (crn_rng_below(&w->rng, 1000) < w->weather.repeat)
        put_in_flight(w, conn, to_broker, msg);
}

static void forget_flights(struct lossy_test_world *w, uint32_t conn)
{
    size_t i = 0;

    while (i < w->nflight) {
        if (w->flight[i].conn != conn) {
            i++;
            continue;
        }
        crn_buf_free(&w->flight[i].frame);
        w->flight[i] = w->flight[--w->nflight];
    }
}

/* The job's end breaks. The broker notices later, or only by the lease. */
static void break_connection(struct lossy_test_world *w, uint32_t c)
{
    struct connection *conn = &w->conn[c];
    struct lossy_test_job *job = &w->job[conn->job];

    conn->is_up = 0;
    conn->broker_hears_ns = w->now + (chance(w, 50000) ? between(w, 0, S) : 60 * S);
    crn_agent_offline(&job->agent, w->now);
    job->conn = CONNS;
    job->connect_ns = w->now + between(w, 10 * MS, 3 * S);
}

static void connect_job(struct lossy_test_world *w, uint32_t j)
{
    struct crn_bp_welcome welcome = {.epoch = w->epoch, .report_ns = (uint64_t)(2 * S)};
    struct lossy_test_job *job = &w->job[j];
    uint32_t c;

    job->connect_ns = w->now + between(w, 100 * MS, 2 * S);
    if (w->turns == NULL)
        return;
    for (c = 0; c < CONNS && (w->conn[c].is_up || w->conn[c].at_broker); c++)
        ;
    if (c == CONNS)
        return;
    w->conn[c] = (struct connection){.is_up = 1, .at_broker = 1, .job = j};
    crn_turns_opened(w->turns, c, j % 2 == 0 ? "alice" : "bob", 0);
    job->conn = c;
    crn_agent_online(&job->agent, &welcome);
}

static void deliver(struct lossy_test_world *w, const struct lossy_test_message *m)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct connection *conn = &w->conn[m->conn];
    struct crn_bp_msg msg;

    assert_ok(crn_bp_decode(m->frame.data, m->frame.len, &msg, ei));
    w->trace = w->trace * 31 + crn_hash(m->frame.data, m->frame.len);
    if (m->to_broker) {
        if (w->turns != NULL && conn->at_broker)
            assert_ok(crn_turns_report(w->turns, w->now, m->conn, &msg.u.report, ei));
    } else if (conn->is_up && !w->job[conn->job].is_dead) {
        struct lossy_test_job *job = &w->job[conn->job];

        if (w->now < job->hangs_until_ns)
            return; /* lost; harsher than keeping it in the socket until the job wakes up */
        crn_agent_status(&job->agent, w->now, &msg.u.status);
        job->heard_ns = w->now;
    }
}

static void deliver_due(struct lossy_test_world *w)
{
    size_t i = 0;

    while (i < w->nflight) {
        struct lossy_test_message m = w->flight[i];

        if (m.at_ns > w->now) {
            i++;
            continue;
        }
        w->flight[i] = w->flight[--w->nflight];
        deliver(w, &m);
        crn_buf_free(&m.frame);
    }
}

/* Broker. -------------------------------------------------------------------------------------- */

static void start_broker(struct lossy_test_world *w)
{
    static const struct crn_turns_token token = {
        .name = "t", .slots = SLOTS, .policy = &crn_policy_least_waste, .node_mtbf_s = 1e7};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_turns_config cfg = {.token = &token,
                                   .ntokens = 1,
                                   .epoch = ++w->epoch,
                                   .lease_ns = 15 * S,
                                   .grace_ns = GRACE,
                                   .settle_ns = 5 * S,
                                   .stall_ns = 30 * S,
                                   .starve_ns = 200 * S,
                                   .forecast_ns = 2 * S,
                                   .max_conns = CONNS,
                                   .max_jobs = 2 * JOBS,
                                   .max_user_jobs = 2 * JOBS};

    assert_ok(crn_turns_new(&cfg, w->now, &w->turns, ei));
}

static void kill_broker(struct lossy_test_world *w)
{
    uint32_t c;

    crn_turns_free(w->turns);
    w->turns = NULL;
    w->restarts++;
    w->start_broker_ns = w->now + between(w, 100 * MS, 20 * S);
    for (c = 0; c < CONNS; c++) {
        w->conn[c].at_broker = 0;
        forget_flights(w, c);
        if (w->conn[c].is_up)
            break_connection(w, c);
    }
}

static void run_broker(struct lossy_test_world *w)
{
    struct crn_bp_msg msg = {.type = CRN_BP_STATUS};
    uint32_t c;

    if (w->turns == NULL) {
        if (w->now >= w->start_broker_ns)
            start_broker(w);
        return;
    }
    for (c = 0; c < CONNS; c++)
        if (w->conn[c].at_broker && !w->conn[c].is_up && w->now >= w->conn[c].broker_hears_ns) {
            crn_turns_closed(w->turns, w->now, c);
            w->conn[c].at_broker = 0;
            forget_flights(w, c);
        }
    crn_turns_tick(w->turns, w->now);
    while (crn_turns_next(w->turns, w->now, &c, &msg.u.status))
        send(w, c, 0, &msg);
    assert_null(crn_turns_check(w->turns));
}

/* Jobs. ---------------------------------------------------------------------------------------- */

static void start_job(struct lossy_test_world *w, uint32_t j)
{
    struct crn_agent_config cfg = {.nodes = 1 + j * 10, .give_up_ns = 5 * S};
    struct lossy_test_job *job = &w->job[j];
    unsigned served = job->served;
    uint64_t id;

    memset(job, 0, sizeof(*job));
    job->served = served;
    cfg.job[0] = (uint8_t)j;
    id = crn_rng_u64(&w->rng);
    memcpy(cfg.job + 8, &id, sizeof(id));
    crn_agent_init(&job->agent, &cfg, w->now);
    job->conn = CONNS;
    job->connect_ns = w->now;
    job->until_ns = w->now + between(w, 0, 20 * S);
}

static void begin_request(struct lossy_test_world *w, struct lossy_test_job *job)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_turn_ask ask = {.kind = (enum crn_io_kind)between(w, 0, CRN_IO_KINDS - 1),
                               .bytes = 1000,
                               .duration_ns = between(w, S, 8 * S),
                               .at_risk_ns = 60 * S};

    assert_ok(crn_agent_ask(&job->agent, w->now, &ask, &job->ticket, ei));
    job->until_ns = w->now + ask.duration_ns;
    job->patience_ns = chance(w, 10000) ? w->now + between(w, 0, 20 * S) : INT64_MAX;
    job->asked++;
}

static void end_request(struct lossy_test_world *w, struct lossy_test_job *job)
{
    crn_agent_return(&job->agent, w->now, job->ticket);
    job->ticket = 0;
    job->is_moving = 0;
    job->until_ns = w->now + between(w, 0, 15 * S);
}

static void look_at_turn(struct lossy_test_world *w, struct lossy_test_job *job)
{
    struct crn_turn turn = crn_agent_look(&job->agent, w->now, job->ticket);

    if (turn.waited_ns > job->waited_ns)
        job->waited_ns = turn.waited_ns;
    if (turn.state == CRN_TURN_CANCELED || w->now > job->patience_ns) {
        end_request(w, job);
    } else if (turn.state != CRN_TURN_WAITING && !job->is_moving) {
        job->is_moving = 1;
        job->until_ns = w->now + between(w, S, 8 * S);
    } else if (job->is_moving && w->now >= job->until_ns) {
        job->served++;
        end_request(w, job);
    } else if (job->is_moving) {
        crn_agent_progress(&job->agent, job->ticket, (uint64_t)(w->now / STEP));
    }
}

static void run_job(struct lossy_test_world *w, uint32_t j)
{
    struct crn_bp_msg msg = {.type = CRN_BP_REPORT};
    struct lossy_test_job *job = &w->job[j];

    if (job->is_dead || w->now < job->hangs_until_ns)
        return;
    if (job->conn == CONNS && w->now >= job->connect_ns)
        connect_job(w, j);
    crn_agent_tick(&job->agent, w->now);
    if (job->ticket != 0)
        look_at_turn(w, job);
    else if (w->now >= job->until_ns && !w->is_closing)
        begin_request(w, job);
    if (crn_agent_is_stuck(&job->agent, w->now))
        break_connection(w, job->conn);
    if (job->conn != CONNS && crn_agent_report(&job->agent, w->now, &msg.u.report))
        send(w, job->conn, 1, &msg);
}

static void storm(struct lossy_test_world *w, uint32_t j)
{
    struct lossy_test_job *job = &w->job[j];

    if (job->is_dead) {
        if (chance(w, 100))
            start_job(w, j);
        return;
    }
    if (job->conn != CONNS && chance(w, w->weather.cut))
        break_connection(w, job->conn);
    if (chance(w, w->weather.hang_job))
        job->hangs_until_ns = w->now + between(w, S, 30 * S);
    if (chance(w, w->weather.kill_job)) {
        if (job->conn != CONNS)
            break_connection(w, job->conn);
        job->is_dead = 1;
    }
}

/* Jobs that transfer under this broker's grant and heard from it recently. */
static void check_overlap(struct lossy_test_world *w)
{
    unsigned going = 0;
    uint32_t j;
    size_t i;

    for (j = 0; j < JOBS; j++) {
        struct lossy_test_job *job = &w->job[j];

        if (job->is_dead || w->now - job->heard_ns > GRACE - 2 * MAX_LATE - S)
            continue;
        for (i = 0; i < CRN_BP_MAX_ASKS; i++)
            going += job->agent.req[i].is_open && job->agent.req[i].state == CRN_BP_HOLDING &&
                     job->agent.req[i].epoch == w->epoch;
    }
    assert_in_range(going, 0, SLOTS);
    w->overlaps += going > 1;
}

static void run(struct lossy_test_world *w, int64_t ns)
{
    int64_t end = w->now + ns;
    uint32_t j;

    for (; w->now < end; w->now += STEP) {
        if (w->turns != NULL && chance(w, w->weather.kill_broker))
            kill_broker(w);
        for (j = 0; j < JOBS; j++)
            storm(w, j);
        deliver_due(w);
        run_broker(w);
        for (j = 0; j < JOBS; j++)
            run_job(w, j);
        check_overlap(w);
    }
}

/* After the faults end, every job is served in bounded time, then nothing is left. */
static void clear_up(struct lossy_test_world *w)
{
    struct crn_turns_totals totals;
    uint32_t j;

    w->weather = (struct weather){.late_ns = 10 * MS};
    run(w, 60 * S);
    for (j = 0; j < JOBS; j++) {
        w->job[j].asked = w->job[j].served = 0;
        w->job[j].waited_ns = 0;
        if (w->job[j].is_dead)
            start_job(w, j);
    }
    run(w, 400 * S);
    for (j = 0; j < JOBS; j++) {
        assert_true(w->job[j].served > 0);
        assert_true(w->job[j].waited_ns < 300 * S); /* starve_ns and the queue before it */
    }
    w->is_closing = 1;
    run(w, 150 * S);
    for (j = 0; j < JOBS; j++)
        assert_int_equal(w->job[j].ticket, 0);
    crn_turns_totals(w->turns, w->now, 0, &totals);
    assert_int_equal(totals.row.holders, 0);
    assert_int_equal(totals.row.waiting, 0);
    assert_null(crn_turns_check(w->turns));
}

static void live(struct lossy_test_world *w, uint64_t seed, const struct weather *weather)
{
    uint32_t j;

    memset(w, 0, sizeof(*w));
    crn_rng_seed(&w->rng, seed);
    w->weather = *weather;
    w->now = S;
    for (j = 0; j < JOBS; j++)
        start_job(w, j);
    start_broker(w);
    run(w, 300 * S);
    clear_up(w);
    crn_turns_free(w->turns);
    for (; w->nflight > 0; w->nflight--)
        crn_buf_free(&w->flight[w->nflight - 1].frame);
}

static struct lossy_test_world world; /* large */

static void live_seeds(const struct weather *weather, uint64_t first, uint64_t n)
{
    uint64_t seed;

    for (seed = first; seed < first + n; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        live(&world, seed, weather);
    }
}

static void fine(void **state)
{
    const struct weather weather = {.late_ns = 20 * MS};

    (void)state;
    live_seeds(&weather, 1, 2);
    assert_true(world.overlaps > 0); /* both slots are used */
}

static void lost_late_and_repeated(void **state)
{
    const struct weather weather = {.lose = 200, .repeat = 300, .late_ns = MAX_LATE};

    (void)state;
    live_seeds(&weather, 100, 15);
}

static void connections_break_jobs_die(void **state)
{
    const struct weather weather = {
        .lose = 20, .repeat = 20, .late_ns = 500 * MS, .cut = 200, .kill_job = 50, .hang_job = 100};

    (void)state;
    live_seeds(&weather, 200, 15);
}

static void the_broker_dies_too(void **state)
{
    const struct weather weather = {.lose = 50,
                                    .repeat = 50,
                                    .late_ns = S,
                                    .cut = 100,
                                    .kill_job = 30,
                                    .hang_job = 50,
                                    .kill_broker = 60};

    (void)state;
    live_seeds(&weather, 300, 15);
    assert_true(world.restarts > 0);
}

static void a_seed_gives_the_same_life(void **state)
{
    const struct weather weather = {
        .lose = 50, .repeat = 50, .late_ns = S, .cut = 100, .kill_broker = 60};
    uint64_t trace;

    (void)state;
    live(&world, 9, &weather);
    trace = world.trace;
    live(&world, 9, &weather);
    assert_true(trace == world.trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fine),
        cmocka_unit_test(lost_late_and_repeated),
        cmocka_unit_test(connections_break_jobs_die),
        cmocka_unit_test(the_broker_dies_too),
        cmocka_unit_test(a_seed_gives_the_same_life),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
