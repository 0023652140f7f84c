/* SPDX-License-Identifier: BSD-3-Clause */
/* The files of a run on its node, all below directories that only the user can enter:
 *
 *     <run_dir>/cairnd-<n>.sock                   n-th daemon of the host
 *     <shm_dir>/cairn-<uid>/<run>-n<node>/        lock (locked by the service and the ranks while
 *                                                 they live), run.ini, arena-<rank>, sock (embedded service),
 *                                                 gpu-<bus>-<rank> (the rank uses that GPU)
 *     <spool>                                     s-<rank>-<seq> spilled images,
 *                                                 tier-<rank> images that left the arena,
 *                                                 f-<rank>-<seq>-<region> handed-over files
 *     <local>/cairn-<uid>/<name>/<version>/       the local tier, with the layout of the PFS
 *
 * The spool is <local>/cairn-<uid>/spool-<run>-n<node>, or the run's directory if there is no local
 * disk. */
#ifndef CRN_SERVICE_RUNDIR_H
#define CRN_SERVICE_RUNDIR_H

#include "base/config.h"
#include "base/fs.h"
#include "format/format.h"

struct crn_rundir {
    const struct crn_fs *fs; /* used for everything below */
    char path[CRN_PATH_MAX + 64];
    char spool[CRN_PATH_MAX + 64];
    int dfd;
    int spool_dfd; /* may equal dfd */
};

/* Computes the paths of a run on a node; opens no directory of it. */
CAIRN_CHECKED cairn_err crn_rundir_paths(const struct crn_fs *fs, const struct crn_config *cfg,
                                         const uint8_t run[16], uint32_t node,
                                         struct crn_rundir *ret, struct crn_errinfo *ei);
/* Opens both directories; with create, makes them first. */
CAIRN_CHECKED cairn_err crn_rundir_open(const struct crn_fs *fs, const struct crn_config *cfg,
                                        const uint8_t run[16], uint32_t node, int create,
                                        struct crn_rundir *ret, struct crn_errinfo *ei);
void crn_rundir_close(struct crn_rundir *rd);
/* Removes both with all their contents. After a crash or an error either everything still exists,
 * or the remains are in <path>.gone, which nobody needs. */
#define CRN_RUNDIR_GONE ".gone"
CAIRN_CHECKED cairn_err crn_rundir_remove(const struct crn_rundir *rd, struct crn_errinfo *ei);
/* Finishes such a removal; needs only the paths. */
CAIRN_CHECKED cairn_err crn_rundir_finish(const struct crn_rundir *rd, struct crn_errinfo *ei);
/* Removes those of them that are empty. */
void crn_rundir_tidy(const struct crn_rundir *rd);

/* Is this the name of a run's directory, or of one being removed (is_gone)? */
int crn_rundir_parse(const char *name, uint8_t id[16], uint32_t *node, int *is_gone);

/* The lock file of a run's directory: the service locks its first byte, each rank of the node a
 * byte of its own. A drain locks the whole file, which proves that all of them are dead. Whoever
 * comes second gets CAIRN_EBUSY. CAIRN_ENOENT: the file does not exist; only a service creates it.
 * After any other error it is unknown who lives. */
CAIRN_CHECKED cairn_err crn_rundir_lock(const struct crn_rundir *rd, int *ret_fd,
                                        struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_rundir_lock_service(const struct crn_rundir *rd, int *ret_fd,
                                                struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_rundir_lock_rank(const struct crn_rundir *rd, uint32_t local,
                                             int *ret_fd, struct crn_errinfo *ei);
/* Does a rank of the run live, or a drain work on it? Takes no lock. 0 if that is unknown. */
int crn_rundir_has_living(const struct crn_rundir *rd);
/* The same for the run's service. */
int crn_rundir_has_service(const struct crn_rundir *rd);
/* For the service: is the rank dead? If so, service_fd holds its lock afterwards. */
int crn_rundir_rank_is_dead(const struct crn_rundir *rd, int service_fd, uint32_t local);

/* The directory for the daemons' sockets, private, created if needed. */
CAIRN_CHECKED cairn_err crn_rundir_socket_dir(const struct crn_config *cfg, char *path, size_t size,
                                              struct crn_errinfo *ei);
/* <local>/cairn-<uid>, created if needed. */
CAIRN_CHECKED cairn_err crn_rundir_local_root(const struct crn_fs *fs, const struct crn_config *cfg,
                                              char *path, size_t size, struct crn_errinfo *ei);
/* <shm_dir>/cairn-<uid>, created if needed. */
CAIRN_CHECKED cairn_err crn_rundir_shm_root(const struct crn_fs *fs, const struct crn_config *cfg,
                                            char *path, size_t size, struct crn_errinfo *ei);

#define CRN_SPOOL_NAME 64
void crn_rundir_arena_name(uint32_t rank, char name[CRN_SPOOL_NAME]);
void crn_rundir_spill_name(uint32_t rank, uint64_t seq, char name[CRN_SPOOL_NAME]);
/* The area of a rank (tier/area.h), if local_cache is set. */
void crn_rundir_area_name(uint32_t rank, char name[CRN_SPOOL_NAME]);
void crn_rundir_spool_file_name(uint32_t rank, uint64_t seq, uint32_t region,
                                char name[CRN_SPOOL_NAME]);

#endif
