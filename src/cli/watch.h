/* SPDX-License-Identifier: BSD-3-Clause */
/* A directory into which a program writes its checkpoints: which sets of files are there, and which files
 * are finished. A program may close a file and open it again to write more, so a file that was closed must
 * rest for a while; one that was renamed to its name is finished. inotify tells when to look, and what was
 * closed or renamed; looking again now and then finds what it cannot see (other hosts of a network file
 * system). */
#ifndef CRN_CLI_WATCH_H
#define CRN_CLI_WATCH_H

#include "base/clock.h"
#include "cli/sets.h"

/* What is known of one file. */
struct watch_file {
    char *name; /* owned */
    struct stat st;
    int64_t since_ns; /* when it was last seen to change or to be closed */
    int is_renamed;   /* it got its name then */
};

/* A file was closed after writing, or renamed. */
struct watch_event {
    char *name; /* owned */
    size_t number;
    int is_renamed;
};

struct watch {
    const struct crn_fs *fs;
    const struct cli_patterns *patterns; /* of the caller */
    uint32_t ranks;
    int64_t settle_ns; /* a file is finished when it has rested so long */
    char *dir;         /* owned */
    int dfd;
    int fd;                  /* of inotify; -1: there is none, only looking now and then */
    struct watch_file *file; /* owned; by name */
    size_t n;
    struct watch_event *event; /* owned; since the last look */
    size_t nevents, room;
    int has_lost_events; /* any file may have been closed since the last look */
    int is_gone;         /* the directory itself */
};

CAIRN_CHECKED cairn_err crn_watch_open(struct watch *w, const char *dir, struct crn_errinfo *ei);
void crn_watch_close(struct watch *w);
/* Looks at the directory; files of the sets have their st. */
CAIRN_CHECKED cairn_err crn_watch_look(struct watch *w, struct cli_sets *ret,
                                       struct crn_errinfo *ei);
/* How long until all files of a set are finished, as far as is known; 0: they are. */
int64_t crn_watch_unfinished_ns(const struct watch *w, const struct cli_set *s);
/* Whether a file of the set was closed or renamed since the last look. */
int crn_watch_was_touched(struct watch *w, const struct cli_set *s);
/* Waits for events or the end of the time; 0, or -1 where a signal came (signals in mask are taken while
 * waiting only). */
int crn_watch_wait(struct watch *w, int64_t ns, const sigset_t *mask);

#endif
