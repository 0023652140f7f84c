/* SPDX-License-Identifier: BSD-3-Clause */
/* stopped --list: the names of the calls below.
 * stopped [--full] [--gpu] PID...: makes every call of the library while cairnd (PID) is
 * stopped. Each call must return, and so must the cairn_close after it. Each call has a session
 * of its own, with a committed version. All sessions are opened before cairnd is stopped, and
 * the calls run concurrently, so their deadlines do too. --full: the socket to cairnd accepts no
 * more messages. --gpu: the memory is on a device. tests/support/deadline.c ends a call that
 * hangs. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include "../mpi/mpi_test.h"

#ifdef CRN_TEST_SINGLE
#define OPEN(opt, ret) cairn_open(opt, ret)
#define BARRIER()
#else
#define OPEN(opt, ret) cairn_open_mpi(MPI_COMM_WORLD, opt, ret)
#define BARRIER()      (void)MPI_Barrier(MPI_COMM_WORLD)
#endif

#define N        1000
#define MESSAGES 480 /* fewer than a session remembers, more than a socket holds */
#define READY_MS 100000

/* A call and its requirements. */
struct one {
    const struct call *call;
    cairn_session *s;
    char name[64]; /* of its checkpoints; version 1 is committed */
    uint64_t *data;
    cairn_err rc;
    cairn_err closed;
    char why[600];
    pthread_t thread;
};

struct call {
    const char *name;
    cairn_err (*run)(struct one *o);
    void (*before)(struct one *o); /* while cairnd runs; NULL: nothing */
    int needs_service;             /* CAIRN_ETIMEDOUT and CAIRN_ESERVICE are valid answers, too */
};

static int is_full, has_gpu;

/* The calls. -------------------------------------------------------------------------------------------- */

static cairn_err run_abandon(struct one *o)
{
    return cairn_abandon(o->s, o->name, 7, "a test");
}

static cairn_err run_capture(struct one *o)
{
    return cairn_capture(o->s, o->name, 7, NULL);
}

static cairn_err run_checkpoint(struct one *o)
{
    return cairn_checkpoint(o->s, o->name, 7, NULL);
}

static cairn_err run_checkpoint_with(struct one *o)
{
    struct cairn_checkpoint_options options = {.size = sizeof(options), .level = CAIRN_PERSISTENT};

    return cairn_checkpoint_with(o->s, o->name, 7, &options);
}

static cairn_err run_source_free(struct one *o)
{
    struct cairn_checkpoint_options options = {.size = sizeof(options), .flags = CAIRN_LAZY};
    cairn_err rc = cairn_checkpoint_with(o->s, o->name, 7, &options);

    return rc == CAIRN_OK ? cairn_source_free(o->s) : rc;
}

static cairn_err run_close(struct one *o)
{
    cairn_session *s = o->s;

    o->s = NULL;
    return cairn_close(s);
}

static cairn_err run_drop_local(struct one *o)
{
    return cairn_drop_local(o->s, o->name);
}

static cairn_err run_list(struct one *o)
{
    size_t n;

    return cairn_list(o->s, o->name, NULL, 0, &n);
}

static cairn_err run_remove(struct one *o)
{
    cairn_err rc = cairn_remove(o->s, o->name, 99);

    return rc == CAIRN_ENOENT ? CAIRN_OK : rc;
}

static cairn_err run_error_name(struct one *o)
{
    (void)o;
    return cairn_error_name(CAIRN_OK) != NULL ? CAIRN_OK : CAIRN_EBUG;
}

static cairn_err run_event_fd(struct one *o)
{
    return cairn_event_fd(o->s) >= 0 ? CAIRN_OK : CAIRN_EBUG;
}

static void before_file(struct one *o)
{
    char path[4096];
    FILE *f;

    OK(cairn_file_route(o->s, o->name, 2, "f", path, sizeof(path)));
    f = fopen(path, "w");
    REQUIRE(f != NULL && fputs("text", f) >= 0 && fclose(f) == 0);
    OK(cairn_checkpoint(o->s, o->name, 2, NULL));
    OK(cairn_wait(o->s, o->name, 2, CAIRN_PERSISTENT, READY_MS));
}

static cairn_err run_file_restore(struct one *o)
{
    char path[4096];

    return cairn_file_restore(o->s, o->name, 2, CAIRN_OWN_RANK, "f", path, sizeof(path));
}

static cairn_err run_file_route(struct one *o)
{
    char path[4096];

    return cairn_file_route(o->s, o->name, 7, "f", path, sizeof(path));
}

static cairn_err run_find(struct one *o)
{
    int64_t v;

    return cairn_find(o->s, o->name, CAIRN_NEWEST, &v);
}

static cairn_err run_find_version(struct one *o)
{
    return cairn_find_version(o->s, o->name, 1);
}

static cairn_err run_verify(struct one *o)
{
    return cairn_verify(o->s, o->name, 1);
}

static cairn_err run_gpu_stream(struct one *o)
{
    cairn_err rc = cairn_gpu_stream(o->s, NULL);

    return rc == CAIRN_ENOTSUP && !has_gpu ? CAIRN_OK : rc;
}

static cairn_err run_last_error(struct one *o)
{
    (void)o;
    return cairn_last_error() != NULL ? CAIRN_OK : CAIRN_EBUG;
}

static cairn_err run_open(struct one *o)
{
    cairn_session *s;
    cairn_err rc = OPEN(NULL, &s);

    (void)o;
    return rc == CAIRN_OK ? cairn_close(s) : rc;
}

static cairn_err run_phase(struct one *o)
{
    return cairn_phase(o->s, CAIRN_PHASE_IO);
}

static cairn_err run_prefetch_cancel(struct one *o)
{
    cairn_err rc = cairn_prefetch_enqueue(o->s, o->name, 1);

    return rc == CAIRN_OK ? cairn_prefetch_cancel(o->s, o->name, 1) : rc;
}

static cairn_err run_prefetch_clear(struct one *o)
{
    return cairn_prefetch_clear(o->s);
}

static cairn_err run_prefetch_enqueue(struct one *o)
{
    return cairn_prefetch_enqueue(o->s, o->name, 1);
}

static cairn_err run_prefetch_start(struct one *o)
{
    cairn_err rc = cairn_prefetch_enqueue(o->s, o->name, 1);

    return rc == CAIRN_OK ? cairn_prefetch_start(o->s) : rc;
}

static cairn_err run_protect(struct one *o)
{
    return cairn_protect(o->s, "data", o->data, CAIRN_U64, N);
}

static cairn_err run_protect_array(struct one *o)
{
    struct cairn_array a = {.size = sizeof(a), .type = CAIRN_U64, .ndims = 1, .dims = {N}};

    return cairn_protect_array(o->s, "data", o->data, &a);
}

static cairn_err run_protect_replicated(struct one *o)
{
    struct cairn_array a = {.size = sizeof(a), .type = CAIRN_U64, .ndims = 1, .dims = {N}};

    return cairn_protect_replicated(o->s, "data", o->data, &a);
}

static cairn_err run_rank(struct one *o)
{
    return cairn_rank(o->s) >= 0 ? CAIRN_OK : CAIRN_EBUG;
}

static cairn_err run_ranks(struct one *o)
{
    return cairn_ranks(o->s) > 0 ? CAIRN_OK : CAIRN_EBUG;
}

static cairn_err run_region_at(struct one *o)
{
    struct cairn_array a = {.size = sizeof(a)};
    char region[CAIRN_MAX_NAME];

    return cairn_region_at(o->s, o->name, 1, CAIRN_OWN_RANK, 0, region, sizeof(region), &a);
}

static cairn_err run_region_info(struct one *o)
{
    struct cairn_array a = {.size = sizeof(a)};

    return cairn_region_info(o->s, o->name, 1, CAIRN_OWN_RANK, "data", &a);
}

static cairn_err run_reject(struct one *o)
{
    return cairn_reject(o->s, o->name, 1, "a test");
}

static cairn_err run_repairs(struct one *o)
{
    return cairn_repairs(o->s) == 0 ? CAIRN_OK : CAIRN_EBUG;
}

static cairn_err run_restart(struct one *o)
{
    int64_t v;

    return cairn_restart(o->s, o->name, NULL, &v);
}

static cairn_err run_restore(struct one *o)
{
    return cairn_restore(o->s, o->name, 1, NULL);
}

static cairn_err run_restore_from(struct one *o)
{
    return cairn_restore_from(o->s, o->name, 1, 0, NULL);
}

static cairn_err run_should_checkpoint(struct one *o)
{
    int yes;

    return cairn_should_checkpoint(o->s, o->name, &yes);
}

static cairn_err run_should_stop(struct one *o)
{
    int yes;

    return cairn_should_stop(o->s, &yes);
}

static cairn_err run_stats(struct one *o)
{
    struct cairn_stats st = {.size = sizeof(st)};

    return cairn_stats(o->s, o->name, 1, &st);
}

static void before_submit(struct one *o)
{
    OK(cairn_capture(o->s, o->name, 7, NULL));
}

static cairn_err run_submit(struct one *o)
{
    return cairn_submit(o->s);
}

static cairn_err run_test(struct one *o)
{
    cairn_err rc = cairn_checkpoint(o->s, o->name, 7, NULL);
    int reached = 0;

    return rc == CAIRN_OK ? cairn_test(o->s, o->name, 7, CAIRN_PERSISTENT, &reached) : rc;
}

static cairn_err run_type_size(struct one *o)
{
    (void)o;
    return cairn_type_size(CAIRN_U64) == 8 ? CAIRN_OK : CAIRN_EBUG;
}

static cairn_err run_unprotect(struct one *o)
{
    return cairn_unprotect(o->s, "data");
}

static cairn_err run_version_info(struct one *o)
{
    struct cairn_version_info info = {.size = sizeof(info)};

    return cairn_version_info(o->s, o->name, 1, &info);
}

static cairn_err run_version_string(struct one *o)
{
    (void)o;
    return cairn_version_string() != NULL ? CAIRN_OK : CAIRN_EBUG;
}

static cairn_err run_wait(struct one *o)
{
    cairn_err rc = cairn_checkpoint(o->s, o->name, 7, NULL);

    return rc == CAIRN_OK ? cairn_wait(o->s, o->name, 7, CAIRN_CAPTURED, CAIRN_WAIT_CONFIG) : rc;
}

static cairn_err run_wait_all(struct one *o)
{
    cairn_err rc = cairn_checkpoint(o->s, o->name, 7, NULL);

    return rc == CAIRN_OK ? cairn_wait_all(o->s, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG) : rc;
}

/* By name: the test compares the list with src/libcairn.symbols. */
static const struct call calls[] = {
    {"cairn_abandon", run_abandon, NULL, 0},
    {"cairn_capture", run_capture, NULL, 1},
    {"cairn_checkpoint", run_checkpoint, NULL, 1},
    {"cairn_checkpoint_with", run_checkpoint_with, NULL, 1},
    {"cairn_close", run_close, NULL, 1},
    {"cairn_drop_local", run_drop_local, NULL, 0},
    {"cairn_error_name", run_error_name, NULL, 0},
    {"cairn_event_fd", run_event_fd, NULL, 0},
    {"cairn_file_restore", run_file_restore, before_file, 0},
    {"cairn_file_route", run_file_route, NULL, 0},
    {"cairn_find", run_find, NULL, 0},
    {"cairn_find_version", run_find_version, NULL, 0},
    {"cairn_gpu_stream", run_gpu_stream, NULL, 0},
    {"cairn_last_error", run_last_error, NULL, 0},
    {"cairn_list", run_list, NULL, 0},
    {"cairn_open", run_open, NULL, 1},
    {"cairn_phase", run_phase, NULL, 0},
    {"cairn_prefetch_cancel", run_prefetch_cancel, NULL, 0},
    {"cairn_prefetch_clear", run_prefetch_clear, NULL, 0},
    {"cairn_prefetch_enqueue", run_prefetch_enqueue, NULL, 0},
    {"cairn_prefetch_start", run_prefetch_start, NULL, 0},
    {"cairn_protect", run_protect, NULL, 0},
    {"cairn_protect_array", run_protect_array, NULL, 0},
    {"cairn_protect_replicated", run_protect_replicated, NULL, 0},
    {"cairn_rank", run_rank, NULL, 0},
    {"cairn_ranks", run_ranks, NULL, 0},
    {"cairn_region_at", run_region_at, NULL, 0},
    {"cairn_region_info", run_region_info, NULL, 0},
    {"cairn_reject", run_reject, NULL, 0},
    {"cairn_remove", run_remove, NULL, 0},
    {"cairn_repairs", run_repairs, NULL, 0},
    {"cairn_restart", run_restart, NULL, 0},
    {"cairn_restore", run_restore, NULL, 0},
    {"cairn_restore_from", run_restore_from, NULL, 0},
    {"cairn_should_checkpoint", run_should_checkpoint, NULL, 0},
    {"cairn_should_stop", run_should_stop, NULL, 0},
    {"cairn_source_free", run_source_free, NULL, 1},
    {"cairn_stats", run_stats, NULL, 0},
    {"cairn_submit", run_submit, before_submit, 1},
    {"cairn_test", run_test, NULL, 1},
    {"cairn_type_size", run_type_size, NULL, 0},
    {"cairn_unprotect", run_unprotect, NULL, 0},
    {"cairn_verify", run_verify, NULL, 0},
    {"cairn_version_info", run_version_info, NULL, 0},
    {"cairn_version_string", run_version_string, NULL, 0},
    {"cairn_wait", run_wait, NULL, 1},
    {"cairn_wait_all", run_wait_all, NULL, 1},
};
#define NCALLS (sizeof(calls) / sizeof(calls[0]))

/* The test. ----------------------------------------------------------------------------------------------- */

/* Host memory, or memory of the first GPU through its driver's own interface. */
static uint64_t *make_memory(void)
{
    static int (*allocate)(unsigned long long *, size_t);
    unsigned long long at = 0;

    if (!has_gpu)
        return calloc(N, sizeof(uint64_t));
    if (allocate == NULL) {
        void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
        int (*start)(unsigned) = NULL;
        int (*retain)(void **, int) = NULL;
        int (*push)(void *) = NULL;
        int (*get)(int *, int) = NULL;
        void *context = NULL;
        int device = -1;

        REQUIRE(cuda != NULL);
        *(void **)&start = dlsym(cuda, "cuInit");
        *(void **)&get = dlsym(cuda, "cuDeviceGet");
        *(void **)&retain = dlsym(cuda, "cuDevicePrimaryCtxRetain");
        *(void **)&push = dlsym(cuda, "cuCtxPushCurrent_v2");
        *(void **)&allocate = dlsym(cuda, "cuMemAlloc_v2");
        REQUIRE(start(0) == 0 && get(&device, 0) == 0 && retain(&context, device) == 0 &&
                push(context) == 0);
    }
    REQUIRE(allocate(&at, N * sizeof(uint64_t)) == 0);
    return (uint64_t *)(uintptr_t)at; // NOLINT(performance-no-int-to-ptr)
}

static void prepare(struct one *o, const struct call *call)
{
    o->call = call;
    (void)snprintf(o->name, sizeof(o->name), "by_%s", call->name);
    o->data = make_memory();
    REQUIRE(o->data != NULL);
    OK(OPEN(NULL, &o->s));
    OK(cairn_protect(o->s, "data", o->data, CAIRN_U64, N));
    OK(cairn_checkpoint(o->s, o->name, 1, NULL));
    OK(cairn_wait(o->s, o->name, 1, CAIRN_PERSISTENT, READY_MS));
    if (call->before != NULL)
        call->before(o);
}

/* Uses messages of half a KiB, which take more than twice that in the kernel. poll() reports
 * only that a quarter of the buffer is free. */
static void fill_socket(struct one *o)
{
    char reason[400];
    int i;

    memset(reason, 'x', sizeof(reason));
    reason[sizeof(reason) - 1] = '\0';
    for (i = 0; i < MESSAGES; i++)
        OK(cairn_abandon(o->s, o->name, 1000 + i, reason));
}

static void *call_and_close(void *arg)
{
    struct one *o = arg;

    if (is_full && o->call->before != before_submit) /* a capture would be given up */
        fill_socket(o);
    o->rc = o->call->run(o);
    (void)snprintf(o->why, sizeof(o->why), "%s", cairn_last_error());
    o->closed = cairn_close(o->s);
    return NULL;
}

static int is_answer(cairn_err rc, int needs_service)
{
    return rc == CAIRN_OK || (needs_service && (rc == CAIRN_ETIMEDOUT || rc == CAIRN_ESERVICE));
}

static int check(const struct one *o)
{
    if (is_answer(o->rc, o->call->needs_service) && is_answer(o->closed, 1))
        return 1;
    (void)fprintf(stderr, "%s: %s (%s), then cairn_close: %s\n", o->call->name,
                  cairn_error_name(o->rc), o->why, cairn_error_name(o->closed));
    return 0;
}

static int list(void)
{
    size_t i;

    for (i = 0; i < NCALLS; i++)
        (void)puts(calls[i].name);
    return 0;
}

int main(int argc, char **argv)
{
    static struct one one[NCALLS];
    int good = 1;
    size_t i;
    int a;

    if (argc > 1 && strcmp(argv[1], "--list") == 0)
        return list();
#ifndef CRN_TEST_SINGLE
    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &a);
#endif
    for (a = 1; a < argc && argv[a][0] == '-'; a++) {
        is_full |= strcmp(argv[a], "--full") == 0;
        has_gpu |= strcmp(argv[a], "--gpu") == 0;
    }
    for (i = 0; i < NCALLS; i++)
        prepare(&one[i], &calls[i]);
    BARRIER();
    for (; a < argc; a++)
        REQUIRE(kill((pid_t)strtol(argv[a], NULL, 10), SIGSTOP) == 0);
    BARRIER();
    for (i = 0; i < NCALLS; i++)
        REQUIRE(pthread_create(&one[i].thread, NULL, call_and_close, &one[i]) == 0);
    for (i = 0; i < NCALLS; i++) {
        REQUIRE(pthread_join(one[i].thread, NULL) == 0);
        good &= check(&one[i]);
    }
    REQUIRE(good);
    (void)printf("%zu calls beside a cairnd that is stopped: all return\n", NCALLS);
#ifndef CRN_TEST_SINGLE
    (void)MPI_Finalize();
#endif
    return 0;
}
