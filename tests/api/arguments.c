/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls every public function with each argument wrong in turn (make_calls.py). Each call
 * returns CAIRN_EINVAL or -1 and a text that names the argument; the session stays usable.
 *
 *     arguments DIR */
#include "calls_setup.h"

static int failed_opens;

static void call_wrongly(void)
{
    size_t i;

    for (i = 0; i < COUNT(wrong_calls); i++) {
        const struct wrong_call *w = &wrong_calls[i];
        long got;

        /* An old text must not pass for this call's. */
        if (cairn_file_route(session, "heat", 0, "x", text, 2) == CAIRN_OK)
            failures++;
        another = (cairn_session *)(void *)memory;
        got = w->call();
        if (got != w->expected || strstr(cairn_last_error(), w->says) == NULL) {
            (void)fprintf(stderr, "%s with %s: %ld, not %ld; '%s' shall name '%s'\n", w->function,
                          w->with, got, w->expected, cairn_last_error(), w->says);
            failures++;
        }
        if (strncmp(w->function, "cairn_open", 10) != 0)
            continue;
        failed_opens++;
        if (strstr(w->with, "ret_session") == NULL && another != NULL) {
            (void)fprintf(stderr, "%s with %s leaves a session\n", w->function, w->with);
            failures++;
        }
    }
}

/* The arguments that wrong calls pass as right ones are right. */
static void call_rightly(void)
{
    size_t i;

    for (i = 0; i < COUNT(right_calls); i++) {
        const struct right_call *r = &right_calls[i];
        long got;

        if (strcmp(r->function, "cairn_close") == 0 || strcmp(r->function, "cairn_unprotect") == 0)
            continue; /* they end what other calls need */
        got = r->call();
        if (got == (r->is_int ? -1 : CAIRN_EINVAL)) {
            (void)fprintf(stderr, "%s: %ld: %s\n", r->function, got, cairn_last_error());
            failures++;
        }
        if (r->has_session)
            continue;
        must((cairn_err)got, r->function);
        must(cairn_close(another), "close another");
    }
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
#ifdef CRN_TEST_MPI
    (void)MPI_Init(&argc, &argv);
#endif
    set_up(argv[1]);
    must(cairn_open(&options, &session), "open");
    take(1);
    check_texts();
    call_wrongly();
    take(2);
    memset(memory, 0, sizeof(memory));
    must(cairn_restart(session, "heat", NULL, &found), "restart");
    check_memory(2, "restart");
    call_rightly();
    must(cairn_close(NULL), "close NULL");
    must(cairn_close(session), "close");
#ifdef CRN_TEST_MPI
    (void)MPI_Finalize();
#endif
    (void)printf("%zu wrong calls of %zu functions, %d failures, %d opens\n", COUNT(wrong_calls),
                 COUNT(right_calls), failures, failed_opens);
    return failures != 0;
}
