/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of libveloc-client between two calls. VELOC's interface has no handle, so there is
 * at most one client; it belongs to the calling thread. */
#ifndef CRN_VLC_CLIENT_H
#define CRN_VLC_CLIENT_H

#include <limits.h>

#include "common/face.h"
#include "common/publish.h"
#include "config.h"
#include "regions.h"

#define VELOC_API    CRN_FACE_API
#define CRN_VLC_FILE "routed.dat" /* Cairn's name of the one file that a process may add */

/* A checkpoint that VELOC_Checkpoint_wait has not waited for yet. */
struct crn_vlc_pending {
    struct crn_vlc_pending *next;
    char name[CAIRN_MAX_NAME];
    int version;
    struct crn_publish_copy *copy; /* of its file; NULL: none */
};

/* Cairn numbers checkpoints in the same order on all ranks, so a phase must take exactly one
 * number. */
enum crn_vlc_capture {
    CRN_VLC_NOT_ASKED, /* Cairn does not know this checkpoint yet */
    CRN_VLC_HELD,      /* Cairn has a copy */
    CRN_VLC_LOST       /* Cairn failed to make one, and all ranks will learn of it */
};

/* The phase between VELOC_Checkpoint_begin and _end. */
struct crn_vlc_phase {
    int is_open;
    char *group;               /* VELOC's name of the checkpoint, which selects its regions */
    char name[CAIRN_MAX_NAME]; /* Cairn's */
    int version;
    enum crn_vlc_capture capture;
    int is_bad;              /* the last selection of memory failed */
    char path[PATH_MAX];     /* of the routed file; "": none */
    char original[PATH_MAX]; /* absolute; "": no copy wanted */
};

/* The version opened by the last successful VELOC_Restart_begin. */
struct crn_vlc_restart {
    int is_open;
    char *group;
    char name[CAIRN_MAX_NAME];
    int version;
    char path[PATH_MAX]; /* of the restored file; "": not requested yet */
};

/* Prefetch hints. The versions are queued until a name is known. */
struct crn_vlc_hints {
    char name[CAIRN_MAX_NAME]; /* Cairn's, of the last phase; "": none yet */
    int *version;              /* owned */
    size_t n;
};

struct crn_vlc_client {
    struct crn_face face;
    struct crn_vlc_config cfg;
    int64_t id; /* of VELOC_Init_single; -1 with MPI */
    struct crn_vlc_regions regions;
    struct crn_vlc_phase phase;
    struct crn_vlc_restart restart;
    struct crn_vlc_hints hints;
    struct crn_vlc_pending *pending; /* oldest first */
    struct crn_errinfo failure;      /* the first since the last wait */
    struct crn_publisher *publisher;
};

/* The client, or NULL after logging an error that names the function. */
struct crn_vlc_client *crn_vlc_get(const char *function);
/* Ends a call: VELOC_SUCCESS, or VELOC_FAILURE after logging the reason. */
int crn_vlc_end(const struct crn_vlc_client *c, const char *function, cairn_err rc,
                const struct crn_errinfo *ei);

/* checkpoint.c */
/* Waits for all checkpoints in flight. Returns a failure since the last call, once. */
CAIRN_CHECKED cairn_err crn_vlc_wait(struct crn_vlc_client *c, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_vlc_route_new(struct crn_vlc_client *c, const char *original,
                                          struct crn_errinfo *ei);
void crn_vlc_phase_close(struct crn_vlc_phase *ph);

/* restart.c */
CAIRN_CHECKED cairn_err crn_vlc_route_old(struct crn_vlc_client *c, struct crn_errinfo *ei);
void crn_vlc_restart_close(struct crn_vlc_restart *r);

/* prefetch.c */
/* A phase of this name begins: hints queued so far refer to it. */
void crn_vlc_hints_name(struct crn_vlc_client *c, const char *cairn_name);
void crn_vlc_hints_close(struct crn_vlc_hints *h);

#endif
