/* SPDX-License-Identifier: BSD-3-Clause */
/* A directory into which a program writes its checkpoints: which sets of files exist, and which
 * files are finished. A program may close a file and reopen it to write more, so a closed file
 * must settle for a while. A file renamed to its final name is finished. inotify tells when to
 * look, and which files were closed or renamed. Periodic looks find what inotify cannot see
 * (other hosts of a network file system). Directories below it are watched if the patterns name
 * them. */
#ifndef CRN_CLI_WATCH_H
#define CRN_CLI_WATCH_H

#include "base/clock.h"
#include "cli/sets.h"

/* A watched directory. */
struct watch_dir {
    char *name; /* owned; below the watched one, which is "" */
    int wd;     /* of inotify */
};

/* What is known of a file. */
struct watch_file {
    char *name; /* owned; with its directories */
    struct stat st;
    int64_t since_ns; /* when a change or close was last seen */
    int is_renamed;   /* it was renamed to its name then */
};

/* A file was closed after writing, or renamed. */
struct watch_event {
    char *name; /* owned */
    size_t number;
    int is_renamed;
};

struct watch {
    const struct crn_fs *fs;
    const struct cli_patterns *patterns; /* owned by the caller */
    uint32_t ranks;
    int64_t settle_ns; /* a file is finished after this long without changes */
    char *dir;         /* owned */
    int dfd;
    int fd;                  /* of inotify; -1: none, only periodic looks */
    struct watch_dir *below; /* owned; the directory itself and those below */
    size_t nbelow, below_room;
    struct watch_file *file; /* owned; by name */
    size_t n;
    struct watch_event *event; /* owned; since the last look */
    size_t nevents, room;
    int has_lost_events; /* any file may have been closed since the last look */
    int is_gone;         /* the directory itself */
};

CAIRN_CHECKED cairn_err crn_watch_open(struct watch *w, const char *dir, struct crn_errinfo *ei);
void crn_watch_close(struct watch *w);
/* Looks at the directory; fills in st of the files of the sets. */
CAIRN_CHECKED cairn_err crn_watch_look(struct watch *w, struct cli_sets *ret,
                                       struct crn_errinfo *ei);
/* Estimated time until all files of a set are finished; 0: they are. */
int64_t crn_watch_unfinished_ns(const struct watch *w, const struct cli_set *s);
/* Was a file of the set closed or renamed since the last look? */
int crn_watch_was_touched(struct watch *w, const struct cli_set *s);
/* Waits for events or the timeout; 0, or -1 after a signal (signals in mask are delivered only
 * while waiting). */
int crn_watch_wait(struct watch *w, int64_t ns, const sigset_t *mask);

#endif
