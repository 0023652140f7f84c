/* SPDX-License-Identifier: BSD-3-Clause */
/* A list of lines under one lock, and the thread that takes them. */
#include "base/log_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"

struct log_line {
    struct log_line *next;
    struct crn_log log; /* its file is text; it names no writer */
    const char *line;   /* in text */
    size_t n;
    char text[];
};

struct crn_log_writer {
    struct crn_mutex mu;
    struct crn_cond changed;
    struct log_line *first, **end; /* mu */
    uint32_t nwaiting;             /* mu */
    uint64_t ndropped;             /* mu: since lines were last taken */
    int is_closed;                 /* mu */
    pthread_t thread;
};

static void log_writer_put(struct crn_log_writer *w, const struct crn_log *log, const char *line,
                           size_t n)
{
    size_t file = strlen(log->file) + 1;
    struct log_line *l = malloc(sizeof(*l) + file + n);

    if (l != NULL) {
        l->next = NULL;
        memcpy(l->text, log->file, file);
        memcpy(l->text + file, line, n);
        l->log = *log;
        l->log.file = l->text;
        l->log.writer = NULL;
        l->line = l->text + file;
        l->n = n;
    }
    crn_lock(&w->mu);
    if (l != NULL && w->nwaiting < CRN_LOG_WAITING) {
        *w->end = l;
        w->end = &l->next;
        w->nwaiting++;
        l = NULL;
    } else {
        w->ndropped++;
    }
    crn_cond_signal(&w->changed);
    crn_unlock(&w->mu);
    free(l);
}

void crn_log_writer_use(struct crn_log_writer *w, struct crn_log *log)
{
    log->writer = w;
    log->put = log_writer_put;
}

static void write_lines(struct log_line *first, uint64_t ndropped)
{
    while (first != NULL) {
        struct log_line *l = first;

        first = l->next;
        crn_log_write(&l->log, l->line, l->n);
        if (first == NULL && ndropped > 0)
            crn_log(&l->log, CRN_WARN,
                    "%llu lines are lost: log_file '%s' took them too slowly, continuing",
                    (unsigned long long)ndropped, l->log.file);
        free(l);
    }
}

static void *log_writer_main(void *arg)
{
    struct crn_log_writer *w = arg;
    int is_closed;

    do {
        struct log_line *first;
        uint64_t ndropped;

        crn_lock(&w->mu);
        while (w->first == NULL && !w->is_closed)
            crn_cond_wait(&w->changed, &w->mu);
        first = w->first;
        ndropped = w->ndropped;
        is_closed = w->is_closed;
        w->first = NULL;
        w->end = &w->first;
        w->nwaiting = 0;
        w->ndropped = 0;
        crn_unlock(&w->mu);
        write_lines(first, ndropped);
    } while (!is_closed);
    return NULL;
}

cairn_err crn_log_writer_open(struct crn_log_writer **ret, struct crn_errinfo *ei)
{
    struct crn_log_writer *w = calloc(1, sizeof(*w));
    cairn_err rc;

    if (w == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the writer of log_file");
    w->end = &w->first;
    crn_mutex_init(&w->mu, CRN_RANK_LOG);
    crn_cond_init(&w->changed);
    rc = crn_thread_start(&w->thread, "cairn-log", log_writer_main, w, ei);
    if (rc != CAIRN_OK) {
        crn_cond_fini(&w->changed);
        crn_mutex_fini(&w->mu);
        free(w);
        return rc;
    }
    *ret = w;
    return CAIRN_OK;
}

void crn_log_writer_close(struct crn_log_writer *w)
{
    if (w == NULL)
        return;
    crn_lock(&w->mu);
    w->is_closed = 1;
    crn_cond_signal(&w->changed);
    crn_unlock(&w->mu);
    (void)pthread_join(w->thread, NULL);
    crn_cond_fini(&w->changed);
    crn_mutex_fini(&w->mu);
    free(w);
}
