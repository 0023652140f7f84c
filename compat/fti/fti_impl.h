/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of libfti between two calls: one per process, of the calling thread. */
#ifndef CRN_FTI_IMPL_H
#define CRN_FTI_IMPL_H

#include "common/face.h"
#include "common/levels.h"
#include "common/publish.h"
#include "config.h"

#define CRN_FTI_META "fti.meta"
#define CRN_FTI_DIMS CAIRN_MAX_DIMS

struct crn_fti_type {
    size_t size;
    cairn_type type; /* CAIRN_BYTES: opaque */
};

/* A block of an array that all processes share. */
struct crn_fti_block {
    int did; /* of the array; -1: a variable of this process alone */
    uint64_t offset[CRN_FTI_DIMS], count[CRN_FTI_DIMS];
};

struct crn_fti_var {
    int id;
    void *ptr;
    int64_t count;
    size_t bytes;
    cairn_type type;
    char name[FTI_BUFS];
    FTIT_dimension dim;
    struct crn_fti_block block;
    void *copy; /* between FTI_AddVarICP and FTI_FinalizeICP */
};

struct crn_fti_array {
    int id, ndims;
    fti_id_t type;
    uint64_t dims[CRN_FTI_DIMS];
    FTIT_hsize_t span[CRN_FTI_DIMS]; /* what FTI_GetDatasetSpan returns */
    char name[2 * FTI_BUFS + 2];     /* with its group */
};

/* Names that checkpoints carry. */
struct crn_fti_name {
    int id;
    char name[FTI_BUFS];
};

struct crn_fti {
    struct crn_face face;
    struct crn_fti_config cfg;
    char cfg_file[FTI_BUFS];
    MPI_Comm global; /* the program's */
    MPI_Comm comm;   /* a duplicate of FTI_COMM_WORLD */
    int rank;
    char name[CAIRN_MAX_NAME];   /* Cairn's, of this execution */
    char single[CAIRN_MAX_NAME]; /* Cairn's, of single files; all executions share it */
    int status;                  /* FTI_Status */
    const char *from;            /* name and version to recover from; NULL: none */
    int64_t from_version;
    int64_t next;            /* version of the next checkpoint */
    int has_single;          /* this run took a checkpoint of level FTI_L4_H5_SINGLE */
    int failure;             /* as in the file */
    struct crn_fti_var *var; /* owned */
    size_t nvars;
    struct crn_fti_type *type; /* owned */
    size_t ntypes;
    struct crn_fti_array *array; /* owned */
    size_t narrays;
    struct crn_fti_name *known; /* owned */
    size_t nknown;
    int icp_id, icp_level; /* level 0: no FTI_InitICP is open; -1: open, but not active */
    /* FTI_Snapshot. */
    uint64_t calls, every;
    double begun, last_look;
    int minute;  /* the last one that was looked at */
    int ckpt_id; /* of the last checkpoint */
    /* Staging. */
    struct crn_publisher *publisher;
    struct crn_fti_stage *stage; /* owned */
    size_t nstages;
    int flips;
    double last_flip;
};

/* The session, or NULL after logging an error that names the function. */
struct crn_fti *crn_fti_get(const char *function);
/* Ends a call: FTI_SCES, or failed after logging the reason. */
int crn_fti_end(const struct crn_fti *f, const char *function, int failed, cairn_err rc,
                const struct crn_errinfo *ei);

/* vars.c */
CAIRN_CHECKED cairn_err crn_fti_types_init(struct crn_fti *f, struct crn_errinfo *ei);
struct crn_fti_var *crn_fti_var(struct crn_fti *f, int id);
const struct crn_fti_array *crn_fti_array(const struct crn_fti *f, int did);
CAIRN_CHECKED cairn_err crn_fti_name_add(struct crn_fti *f, int id, const char *name,
                                         struct crn_errinfo *ei);
/* Declares a variable to Cairn; region: CAIRN_MAX_NAME bytes for its name there. */
CAIRN_CHECKED cairn_err crn_fti_declare(struct crn_fti *f, const struct crn_fti_var *v,
                                        const void *memory, char *region, struct crn_errinfo *ei);
void crn_fti_vars_free(struct crn_fti *f);

/* recover.c */
/* Reads the names that the checkpoint carries. */
CAIRN_CHECKED cairn_err crn_fti_read_meta(struct crn_fti *f, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_fti_recover(struct crn_fti *f, struct crn_errinfo *ei);

/* fti.c: a checkpoint was taken, so a restart is possible. */
void crn_fti_taken(struct crn_fti *f);

/* stage.c */
void crn_fti_stages_free(struct crn_fti *f);

#endif
