/* SPDX-License-Identifier: BSD-3-Clause */
#include <signal.h>

#include "cli/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define EVENTS                                                                                     \
    (IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)

cairn_err crn_watch_open(struct watch *w, const char *dir, struct crn_errinfo *ei)
{
    cairn_err rc;

    w->fd = -1;
    w->dfd = w->fs->openat(w->fs, AT_FDCWD, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    rc = crn_fs_check(w->dfd, ei, "open the directory '%s'", dir);
    if (rc != CAIRN_OK)
        return rc;
    w->dir = strdup(dir);
    if (w->dir == NULL) {
        (void)w->fs->close(w->fs, w->dfd);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "watch");
    }
    w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (w->fd >= 0 && inotify_add_watch(w->fd, dir, EVENTS) < 0) {
        (void)close(w->fd);
        w->fd = -1;
    }
    return CAIRN_OK;
}

static void free_files(struct watch_file *f, size_t n)
{
    while (n > 0)
        free(f[--n].name);
    free(f);
}

static void forget_events(struct watch *w)
{
    while (w->nevents > 0)
        free(w->event[--w->nevents].name);
    w->has_lost_events = 0;
}

void crn_watch_close(struct watch *w)
{
    free_files(w->file, w->n);
    forget_events(w);
    free(w->event);
    free(w->dir);
    if (w->fd >= 0)
        (void)close(w->fd);
    (void)w->fs->close(w->fs, w->dfd);
}

/* Events. -------------------------------------------------------------------------------------- */

static void note_event(struct watch *w, const char *name, int is_renamed)
{
    if (w->nevents == w->room) {
        size_t room = 2 * w->room + 64;
        struct watch_event *grown = realloc(w->event, room * sizeof(*grown));

        if (grown != NULL) {
            w->event = grown;
            w->room = room;
        }
    }
    if (w->nevents < w->room && (w->event[w->nevents].name = strdup(name)) != NULL) {
        w->event[w->nevents].number = w->nevents;
        w->event[w->nevents++].is_renamed = is_renamed;
    } else {
        w->has_lost_events = 1;
    }
}

static void take_events(struct watch *w)
{
    char buf[16384] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t got, at;

    while (w->fd >= 0 && (got = read(w->fd, buf, sizeof(buf))) > 0)
        for (at = 0; at < got;) {
            const struct inotify_event *e = (const void *)(buf + at);

            if (e->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT))
                w->is_gone = 1;
            else if (e->mask & IN_Q_OVERFLOW)
                w->has_lost_events = 1;
            else if (e->len > 0 && (e->mask & (IN_CLOSE_WRITE | IN_MOVED_TO)) != 0)
                note_event(w, e->name, (e->mask & IN_MOVED_TO) != 0);
            at += (ssize_t)(sizeof(*e) + e->len);
        }
}

static int by_name_and_number(const void *a, const void *b)
{
    const struct watch_event *x = a, *y = b;
    int c = strcmp(x->name, y->name);

    return c != 0 ? c : (x->number > y->number) - (x->number < y->number);
}

/* The last event of a file, or NULL; events are sorted. */
static const struct watch_event *last_event(const struct watch *w, const char *name)
{
    /* invariant: the last event with a name <= this one is below high */
    size_t low = 0, high = w->nevents;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(w->event[middle].name, name) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && strcmp(w->event[low - 1].name, name) == 0 ? &w->event[low - 1] : NULL;
}

int crn_watch_was_touched(struct watch *w, const struct cli_set *s)
{
    size_t i, k;

    take_events(w);
    for (i = 0; i < w->nevents; i++)
        for (k = 0; k < s->n; k++)
            if (strcmp(w->event[i].name, s->file[k].name) == 0)
                return 1;
    return w->has_lost_events;
}

/* Looking. ------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct watch_file *)a)->name, ((const struct watch_file *)b)->name);
}

static struct watch_file *watch_find(const struct watch *w, const char *name)
{
    struct watch_file key = {.name = (char *)name};

    return w->n == 0 ? NULL : bsearch(&key, w->file, w->n, sizeof(key), by_name);
}

static int is_as_before(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static int watch_fits(const struct watch *w, const char *name)
{
    uint32_t rank;
    int64_t step;
    size_t i;

    for (i = 0; i < w->patterns->n; i++)
        if (crn_sets_match(w->patterns->text[i], name, &step, &rank))
            return 1;
    return 0;
}

/* Updates what is known of a file; 0 if it is not one of ours. */
static int look_at(const struct watch *w, const char *name, int64_t now, struct watch_file *f)
{
    const struct watch_file *old = watch_find(w, name);
    const struct watch_event *e = last_event(w, name);

    memset(f, 0, sizeof(*f));
    if (!watch_fits(w, name) || w->fs->fstatat(w->fs, w->dfd, name, &f->st) < 0 ||
        !S_ISREG(f->st.st_mode))
        return 0;
    if (old != NULL && e == NULL && !w->has_lost_events && is_as_before(&old->st, &f->st)) {
        f->since_ns = old->since_ns;
        f->is_renamed = old->is_renamed;
    } else {
        f->since_ns = now;
        f->is_renamed = e != NULL && e->is_renamed;
    }
    return 1;
}

static cairn_err watch_look(struct watch *w, const struct crn_names *names, struct crn_errinfo *ei)
{
    const struct crn_clock *clock = crn_clock_real();
    struct watch_file *file = calloc(names->n + 1, sizeof(*file));
    int64_t now = clock->mono_ns(clock);
    size_t n = 0;
    size_t i;

    if (file == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a list of %zu files", names->n);
    if (w->nevents > 0)
        qsort(w->event, w->nevents, sizeof(*w->event), by_name_and_number);
    for (i = 0; i < names->n; i++) {
        if (!look_at(w, names->name[i], now, &file[n]))
            continue;
        file[n].name = strdup(names->name[i]);
        if (file[n].name == NULL) {
            free_files(file, n);
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a list of %zu files", names->n);
        }
        n++;
    }
    forget_events(w);
    free_files(w->file, w->n);
    w->file = file;
    w->n = n;
    return CAIRN_OK;
}

/* The sets of the known files. */
static cairn_err watch_sort(const struct watch *w, struct cli_sets *ret, struct crn_errinfo *ei)
{
    char **path = calloc(w->n + 1, sizeof(*path));
    cairn_err rc = CAIRN_OK;
    size_t i, k;

    for (i = 0; path != NULL && i < w->n; i++)
        if (asprintf(&path[i], "%s/%s", w->dir, w->file[i].name) < 0)
            break;
    if (path == NULL || i < w->n)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a list of %zu files", w->n);
    else
        rc = crn_sets_sort(w->patterns, path, w->n, w->ranks, ret, ei);
    for (i = 0; rc == CAIRN_OK && i < ret->n; i++)
        for (k = 0; k < ret->set[i].n; k++) {
            const struct watch_file *f = watch_find(w, ret->set[i].file[k].name);

            if (f != NULL)
                ret->set[i].file[k].st = f->st;
        }
    for (i = 0; path != NULL && i < w->n; i++)
        free(path[i]);
    free(path);
    return rc;
}

cairn_err crn_watch_look(struct watch *w, struct cli_sets *ret, struct crn_errinfo *ei)
{
    struct crn_names names;
    struct stat st;
    cairn_err rc;

    take_events(w); /* a file closed before this look must settle */
    /* Our descriptor keeps a removed directory alive without any event. */
    if (w->is_gone || (w->fs->fstat(w->fs, w->dfd, &st) == 0 && st.st_nlink == 0))
        return crn_fail(ei, CAIRN_ENOENT, ENOENT, "the directory '%s' is gone", w->dir);
    rc = crn_fs_names(w->fs, w->dfd, w->dir, &names, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = watch_look(w, &names, ei);
    crn_names_free(&names);
    return rc == CAIRN_OK ? watch_sort(w, ret, ei) : rc;
}

int64_t crn_watch_unfinished_ns(const struct watch *w, const struct cli_set *s)
{
    const struct crn_clock *clock = crn_clock_real();
    int64_t now = clock->mono_ns(clock);
    int64_t most = 0;
    size_t i;

    for (i = 0; i < s->n; i++) {
        const struct watch_file *f = watch_find(w, s->file[i].name);
        int64_t left = f == NULL || f->is_renamed ? 0 : f->since_ns + w->settle_ns - now;

        most = left > most ? left : most;
    }
    return most;
}

/* Waiting. ------------------------------------------------------------------------------------- */

int crn_watch_wait(struct watch *w, int64_t ns, const sigset_t *mask)
{
    int64_t wait_ns = w->nevents > 0 || w->has_lost_events ? 0 : ns;
    struct timespec t = {.tv_sec = wait_ns / 1000000000, .tv_nsec = wait_ns % 1000000000};
    struct pollfd p = {.fd = w->fd, .events = POLLIN};
    int n = ppoll(&p, w->fd >= 0 ? 1 : 0, &t, mask);

    if (n < 0 && errno == EINTR)
        return -1;
    return 0; /* the next look reads the events */
}
