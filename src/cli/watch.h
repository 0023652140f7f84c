/* SPDX-License-Identifier: BSD-3-Clause */
/* A directory into which a program writes its checkpoints: which sets of files are there, and which files
 * are finished. inotify tells when to look and what was closed; looking again now and then finds what
 * it cannot see (other hosts of a network file system, lost events). */
#ifndef CRN_CLI_WATCH_H
#define CRN_CLI_WATCH_H

#include "base/clock.h"
#include "cli/sets.h"

/* What is known of one file. */
struct watch_file {
    char *name; /* owned */
    struct stat st;
    int64_t since_ns; /* when it was first seen like this */
    int is_closed;    /* its writer was seen to close or rename it since then */
};

struct watch {
    const struct crn_fs *fs;
    const struct cli_patterns *patterns; /* of the caller */
    uint32_t ranks;
    int64_t settle_ns; /* a file that nobody was seen to close is finished when it rested so long */
    char *dir;         /* owned */
    int dfd;
    int fd;                  /* of inotify; -1: there is none, only looking now and then */
    struct watch_file *file; /* owned; by name */
    size_t n;
    char **closed; /* owned; names of events since the last look */
    size_t nclosed, room;
    int is_gone; /* the directory itself */
};

CAIRN_CHECKED cairn_err crn_watch_open(struct watch *w, const char *dir, struct crn_errinfo *ei);
void crn_watch_close(struct watch *w);
/* Looks at the directory; files of the sets have their st. */
CAIRN_CHECKED cairn_err crn_watch_look(struct watch *w, struct cli_sets *ret,
                                       struct crn_errinfo *ei);
/* How long until all files of a set are finished, as far as is known; 0: they are. */
int64_t crn_watch_unfinished_ns(const struct watch *w, const struct cli_set *s);
/* Waits for events or the end of the time; 0, or -1 where a signal came (signals in mask are taken while
 * waiting only). */
int crn_watch_wait(struct watch *w, int64_t ns, const sigset_t *mask);

#endif
