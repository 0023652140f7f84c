/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments for the calls of make_calls.py, and the tables that it writes (calls.h). */
#ifndef CRN_TEST_CALLS_SETUP_H
#define CRN_TEST_CALLS_SETUP_H

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef CRN_TEST_MPI
#include "cairn/cairn_mpi.h"
#else
#include "cairn/cairn.h"
#endif
#ifdef CRN_TEST_UCX
#include "cairn/cairn_ucx.h"
#endif

#define N      ((size_t)50000)
#define LENGTH (sizeof("persistent=") + 300)

struct wrong_call {
    const char *function, *with;
    const char *says; /* what the last error must name */
    long (*call)(void);
    long expected;
};

struct right_call {
    const char *function;
    long (*call)(void);
    int has_session;
    int is_int; /* the function returns -1 on failure, not a code */
};

static uint64_t memory[N];
static char text[4096];
static char too_long[CAIRN_MAX_NAME + 1];
static char settings_text[3][LENGTH];
static const char *settings[8] = {settings_text[0], settings_text[1], settings_text[2],
                                  "log_level=error"};
static struct cairn_options options = {.size = sizeof(options), .settings = settings};
static cairn_session *session, *another;
static int yes;
static int64_t found;
static size_t listed;

static struct cairn_array array = {
    .size = sizeof(array), .type = CAIRN_U64, .ndims = 1, .dims = {N}};
static struct cairn_array array_no_dims, array_nine_dims, array_no_type, array_outside;
static struct cairn_checkpoint_options with = {.size = sizeof(with), .level = CAIRN_PERSISTENT};
static struct cairn_checkpoint_options with_no_level = {.size = sizeof(with),
                                                        .level = (cairn_level)11};
static struct cairn_checkpoint_options with_flags = {.size = sizeof(with), .flags = 1U << 31};
static struct cairn_checkpoint_options wrong_with[2] = {{.size = 0}, {.size = sizeof(with) + 8}};
static struct cairn_array array_out = {.size = sizeof(array_out)};
static struct cairn_stats stats_out = {.size = sizeof(stats_out)};
static struct cairn_version_info info_out = {.size = sizeof(info_out)};
static struct cairn_options wrong_options[2] = {{.size = 0}, {.size = sizeof(options) + 8}};
static struct cairn_array wrong_array[2], wrong_array_out[2];
static struct cairn_stats wrong_stats_out[2] = {{.size = 0}, {.size = sizeof(stats_out) + 8}};
static struct cairn_version_info wrong_info_out[2] = {{.size = 0}, {.size = sizeof(info_out) + 8}};

static int failures;

static inline void check_text(const char *function, const char *got)
{
    if (got == NULL || got[0] == '\0') {
        (void)fprintf(stderr, "%s returns no text\n", function);
        failures++;
    }
}

static inline void check_zero(const char *function, size_t got)
{
    if (got != 0) {
        (void)fprintf(stderr, "%s returns %zu\n", function, got);
        failures++;
    }
}

#ifdef CRN_TEST_UCX
static inline int gather_alone(void *arg, const void *in, size_t bytes, void *out)
{
    (void)arg;
    memcpy(out, in, bytes);
    return 0;
}
#endif

#include "calls.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* Ends the program unless rc is CAIRN_OK. */
static inline void must(cairn_err rc, const char *what)
{
    if (rc == CAIRN_OK)
        return;
    (void)fprintf(stderr, "%s: %s: %s\n", what, cairn_error_name(rc), cairn_last_error());
    exit(1);
}

static inline uint64_t value(int64_t version, size_t i)
{
    return ((uint64_t)version << 32) * 0x9e3779b97f4a7c15U + i * 0xbf58476d1ce4e5b9U;
}

static inline void fill_memory(int64_t version)
{
    size_t i;

    for (i = 0; i < N; i++)
        memory[i] = value(version, i);
}

static inline void check_memory(int64_t version, const char *what)
{
    size_t i;

    for (i = 0; i < N; i++)
        if (memory[i] != value(version, i)) {
            (void)fprintf(stderr, "%s: element %zu of version %lld is wrong\n", what, i,
                          (long long)version);
            exit(1);
        }
}

/* Everything lies below dir. The caller may add settings from settings[4] on. */
static inline void set_up(const char *dir)
{
    (void)snprintf(settings_text[0], LENGTH, "persistent=%.250s/p", dir);
    (void)snprintf(settings_text[1], LENGTH, "shm_dir=%.250s/m", dir);
    (void)snprintf(settings_text[2], LENGTH, "run_dir=%.250s/r", dir);
    memset(too_long, 'x', CAIRN_MAX_NAME);
    array_no_dims = array_nine_dims = array_no_type = array_outside = array;
    array_no_dims.ndims = 0;
    array_nine_dims.ndims = CAIRN_MAX_DIMS + 1;
    array_no_type.type = (cairn_type)256;
    array_outside.global_dims[0] = N - 1;
    wrong_array[0] = wrong_array[1] = wrong_array_out[0] = wrong_array_out[1] = array;
    wrong_array[0].size = wrong_array_out[0].size = 0;
    wrong_array[1].size = wrong_array_out[1].size = sizeof(array) + 8;
}

/* Takes a version with a file, and waits until it is committed. */
static inline void take(int64_t version)
{
    FILE *f;

    fill_memory(version);
    must(cairn_protect(session, "t", memory, CAIRN_U64, N), "protect");
    must(cairn_file_route(session, "heat", version, "f", text, sizeof(text)), "route");
    f = fopen(text, "w");
    if (f == NULL || fputs("a file\n", f) < 0 || fclose(f) != 0) {
        perror(text);
        exit(1);
    }
    must(cairn_checkpoint(session, "heat", version, NULL), "checkpoint");
    must(cairn_wait(session, "heat", version, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG), "wait");
}

#endif
