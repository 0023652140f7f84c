/* SPDX-License-Identifier: BSD-3-Clause */
#include <signal.h>

#include "cli/watch.h"

#include "base/config.h"

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
#define GONE (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT)

/* The watched directory with this descriptor of inotify; NULL: it is no longer watched. */
static struct watch_dir *dir_of(const struct watch *w, int wd)
{
    size_t i;

    for (i = 0; i < w->nbelow; i++)
        if (w->below[i].wd == wd)
            return &w->below[i];
    return NULL;
}

/* Lets inotify tell what happens in a directory below; 0 if that is impossible: then only periodic
 * looks find its files. */
static int watch_below(struct watch *w, const char *name)
{
    char path[CRN_PATH_MAX];
    char *copy;
    int wd;

    if (snprintf(path, sizeof(path), "%s/%s", w->dir, name) >= (int)sizeof(path))
        return 0;
    wd = inotify_add_watch(w->fd, path, EVENTS);
    if (wd < 0 || (dir_of(w, wd) != NULL && strcmp(dir_of(w, wd)->name, name) == 0))
        return wd >= 0;
    if (w->nbelow == w->below_room) {
        size_t room = 2 * w->below_room + 16;
        struct watch_dir *grown = realloc(w->below, room * sizeof(*grown));

        if (grown == NULL)
            return 0;
        w->below = grown;
        w->below_room = room;
    }
    copy = strdup(name);
    if (copy != NULL)
        w->below[w->nbelow++] = (struct watch_dir){.name = copy, .wd = wd};
    return copy != NULL;
}

/* A directory below is gone or elsewhere. */
static void forget_below(struct watch *w, struct watch_dir *d)
{
    (void)inotify_rm_watch(w->fd, d->wd); /* it may be gone already */
    free(d->name);
    *d = w->below[--w->nbelow];
}

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
    if (w->fd >= 0 && !watch_below(w, "")) {
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
    while (w->nbelow > 0)
        free(w->below[--w->nbelow].name);
    free(w->below);
    free(w->dir);
    if (w->fd >= 0)
        (void)close(w->fd);
    (void)w->fs->close(w->fs, w->dfd);
}

/* Events. -------------------------------------------------------------------------------------- */

static void note_event(struct watch *w, const char *dir, const char *name, int is_renamed)
{
    char path[CRN_PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s%s%s", dir, dir[0] != '\0' ? "/" : "", name);
    if (w->nevents == w->room) {
        size_t room = 2 * w->room + 64;
        struct watch_event *grown = realloc(w->event, room * sizeof(*grown));

        if (grown != NULL) {
            w->event = grown;
            w->room = room;
        }
    }
    if (w->nevents < w->room && (w->event[w->nevents].name = strdup(path)) != NULL) {
        w->event[w->nevents].number = w->nevents;
        w->event[w->nevents++].is_renamed = is_renamed;
    } else {
        w->has_lost_events = 1;
    }
}

static void take_event(struct watch *w, const struct inotify_event *e)
{
    struct watch_dir *d = dir_of(w, e->wd);

    if (e->mask & IN_Q_OVERFLOW)
        w->has_lost_events = 1;
    else if (d == NULL)
        return;
    else if ((e->mask & GONE) != 0 && d->name[0] == '\0')
        w->is_gone = 1;
    else if ((e->mask & GONE) != 0)
        forget_below(w, d);
    else if (e->len > 0 && (e->mask & (IN_CLOSE_WRITE | IN_MOVED_TO)) != 0)
        note_event(w, d->name, e->name, (e->mask & IN_MOVED_TO) != 0);
}

static void take_events(struct watch *w)
{
    char buf[16384] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t got, at;

    while (w->fd >= 0 && (got = read(w->fd, buf, sizeof(buf))) > 0)
        for (at = 0; at < got;) {
            const struct inotify_event *e = (const void *)(buf + at);

            take_event(w, e);
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
    struct cli_match m;
    size_t i;

    for (i = 0; i < w->patterns->n; i++)
        if (crn_sets_match(w->patterns->text[i], name, &m))
            return 1;
    return 0;
}

static int watch_fits_dir(const struct watch *w, const char *name)
{
    size_t i;

    for (i = 0; i < w->patterns->n; i++)
        if (crn_sets_match_dir(w->patterns->text[i], name))
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

/* The files and directories that are found in a look. */
struct looked {
    struct watch *w;
    int64_t now_ns;
    struct watch_file *file;
    size_t n, room;
    char **dir; /* below, to be looked at */
    size_t ndirs, dir_room;
};

/* Makes space for one more entry of this size; 0 if out of memory. */
static int looked_grow(void **array, size_t n, size_t *room, size_t size)
{
    size_t want = 2 * *room + 64;
    void *grown;

    if (n < *room)
        return 1;
    grown = realloc(*array, want * size);
    if (grown == NULL)
        return 0;
    *array = grown;
    *room = want;
    return 1;
}

/* Notes a file of ours, or a directory with such files. Takes ownership of name. */
static cairn_err look_at_name(struct looked *l, char *name, struct crn_errinfo *ei)
{
    int is_kept = 0;

    if (name == NULL || !looked_grow((void **)&l->file, l->n, &l->room, sizeof(*l->file)) ||
        !looked_grow((void **)&l->dir, l->ndirs, &l->dir_room, sizeof(*l->dir))) {
        free(name);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a list of %zu files", l->n);
    }
    if (look_at(l->w, name, l->now_ns, &l->file[l->n])) {
        l->file[l->n++].name = name;
        is_kept = 1;
    } else if (watch_fits_dir(l->w, name)) {
        l->dir[l->ndirs++] = name;
        is_kept = 1;
    }
    if (!is_kept)
        free(name);
    return CAIRN_OK;
}

/* Looks at a directory; dir is "" for the watched one. One below may be gone, or a file. */
static cairn_err look_into(struct looked *l, const char *dir, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = l->w->fs;
    struct crn_names names;
    int fd = l->w->dfd;
    cairn_err rc;
    size_t i;

    if (dir[0] != '\0') {
        fd = fs->openat(fs, l->w->dfd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
        if (fd == -ENOENT || fd == -ENOTDIR)
            return CAIRN_OK;
        rc = crn_fs_check(fd, ei, "open the directory '%s/%s'", l->w->dir, dir);
        if (rc != CAIRN_OK)
            return rc;
        if (l->w->fd >= 0)
            (void)watch_below(l->w, dir); /* before its names are read: none is missed */
    }
    rc = crn_fs_names(fs, fd, dir[0] != '\0' ? dir : l->w->dir, &names, ei);
    if (dir[0] != '\0')
        (void)fs->close(fs, fd);
    if (rc != CAIRN_OK)
        return rc;
    for (i = 0; rc == CAIRN_OK && i < names.n; i++) {
        char *name = NULL;

        if (asprintf(&name, "%s%s%s", dir, dir[0] != '\0' ? "/" : "", names.name[i]) < 0)
            name = NULL;
        rc = look_at_name(l, name, ei);
    }
    crn_names_free(&names);
    return rc;
}

static cairn_err watch_look(struct watch *w, struct crn_errinfo *ei)
{
    const struct crn_clock *clock = crn_clock_real();
    struct looked l = {.w = w, .now_ns = clock->mono_ns(clock)};
    cairn_err rc;
    size_t i;

    if (w->nevents > 0)
        qsort(w->event, w->nevents, sizeof(*w->event), by_name_and_number);
    rc = look_into(&l, "", ei);
    for (i = 0; rc == CAIRN_OK && i < l.ndirs; i++)
        rc = look_into(&l, l.dir[i], ei);
    while (l.ndirs > 0)
        free(l.dir[--l.ndirs]);
    free(l.dir);
    if (rc != CAIRN_OK) {
        free_files(l.file, l.n);
        return rc;
    }
    if (l.n > 0)
        qsort(l.file, l.n, sizeof(*l.file), by_name);
    forget_events(w);
    free_files(w->file, w->n);
    w->file = l.file;
    w->n = l.n;
    return CAIRN_OK;
}

static int64_t newest_ns(const struct cli_set *s)
{
    int64_t newest = INT64_MIN;
    size_t i;

    for (i = 0; i < s->n; i++) {
        const struct timespec *t = &s->file[i].st.st_mtim;
        int64_t ns = (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;

        newest = ns > newest ? ns : newest;
    }
    return newest;
}

/* Without steps the times tell which set was written first. */
static int by_time(const void *a, const void *b)
{
    int64_t x = newest_ns(a), y = newest_ns(b);

    return (x > y) - (x < y);
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
    if (rc == CAIRN_OK && !crn_sets_have_steps(w->patterns) && ret->n > 1)
        qsort(ret->set, ret->n, sizeof(*ret->set), by_time);
    for (i = 0; path != NULL && i < w->n; i++)
        free(path[i]);
    free(path);
    return rc;
}

cairn_err crn_watch_look(struct watch *w, struct cli_sets *ret, struct crn_errinfo *ei)
{
    struct stat st;
    cairn_err rc;

    take_events(w); /* a file closed before this look must settle */
    /* Our descriptor keeps a removed directory alive without any event. */
    if (w->is_gone || (w->fs->fstat(w->fs, w->dfd, &st) == 0 && st.st_nlink == 0))
        return crn_fail(ei, CAIRN_ENOENT, ENOENT, "the directory '%s' was removed", w->dir);
    rc = watch_look(w, ei);
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
