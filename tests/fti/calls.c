/* SPDX-License-Identifier: BSD-3-Clause */
/* Every call of FTI's interface. Each FTI_Init after a FTI_Init without FTI_Finalize is what a start
 * after a crash is. */
#include <glob.h>

#include "fti_test.h"

#define N 50000

struct cell {
    int id;
    double v[3];
};

static double field[N];
static struct cell *cells;
static int64_t ncells;
static int step;
static fti_id_t cell_type;
static char note[24]; /* of a type without fields */
static fti_id_t note_type;

static void set(int version)
{
    step = version;
    ncells = 100 + 10 * rank + version;
    cells = (struct cell *)realloc(cells, (size_t)ncells * sizeof(*cells));
    REQUIRE(cells != NULL);
    fill(field, sizeof(field), version, rank, 0);
    fill(note, sizeof(note), version, rank, 2);
    fill(cells, (size_t)ncells * sizeof(*cells), version, rank, 1);
}

static void spoil(void)
{
    step = -1;
    memset(field, 7, sizeof(field));
    memset(note, 7, sizeof(note));
    memset(cells, 7, (size_t)ncells * sizeof(*cells));
}

static int is(int version)
{
    return step == version && holds(field, sizeof(field), version, rank, 0) &&
           holds(note, sizeof(note), version, rank, 2) && ncells == 100 + 10 * rank + version &&
           holds(cells, (size_t)ncells * sizeof(*cells), version, rank, 1);
}

static void protect(void)
{
    int64_t dims[1] = {3};

    cell_type = FTI_InitCompositeType("cell", sizeof(struct cell), NULL);
    REQUIRE(cell_type > FTI_LDBE);
    OK(FTI_AddScalarField(cell_type, "id", FTI_INTG, offsetof(struct cell, id)));
    OK(FTI_AddVectorField(cell_type, "v", FTI_DBLE, offsetof(struct cell, v), 1, dims));
    FAILS(FTI_AddScalarField(cell_type, "x", FTI_DBLE, sizeof(struct cell)));
    FAILS(FTI_InitType(&note_type, 0));
    OK(FTI_InitType(&note_type, 8));
    OK(FTI_Protect(0, &step, 1, FTI_INTG));
    OK(FTI_Protect(1, field, N, FTI_DBLE));
    OK(FTI_Protect(4, note, sizeof(note) / 8, note_type));
    OK(FTI_Protect(2, cells, ncells, cell_type));
    OK(FTI_Protect(9, &ncells, 1, FTI_LONG));
    FAILS(FTI_Protect(3, field, N, 999));
}

/* After a start: what is stored is known before anything is protected. */
static void restart(int version, int status)
{
    int64_t bytes = (int64_t)sizeof(struct cell) * (100 + 10 * rank + version);

    REQUIRE(FTI_Status() == status);
    REQUIRE(FTI_GetStoredSize(2) == bytes && FTI_GetStoredSize(77) == 0);
    REQUIRE(FTI_getIDFromString("field") == 1 && FTI_getIDFromString("none") == -1);
    ncells = 1;
    protect();
    cells = (struct cell *)FTI_Realloc(2, cells);
    spoil();
    if (rank % 2 == 0) { /* per rank, as each likes */
        OK(FTI_Recover());
    } else {
        OK(FTI_RecoverVarInit());
        OK(FTI_RecoverVar(0));
        OK(FTI_RecoverVar(1));
        OK(FTI_RecoverVar(2));
        OK(FTI_RecoverVar(4));
        OK(FTI_RecoverVar(9));
        FAILS(FTI_RecoverVar(5));
        OK(FTI_RecoverVarFinalize());
    }
    REQUIRE(is(version));
    REQUIRE(FTI_Status() == 0);
}

static size_t count_manifests(void)
{
    char path[200];
    glob_t g;
    size_t n;

    barrier();
    (void)snprintf(path, sizeof(path), "%s/global/cairn/fti-*/*/manifest", dir);
    n = glob(path, 0, NULL, &g) == 0 ? g.gl_pathc : 0;
    globfree(&g);
    barrier();
    return n;
}

/* Two nodes keep levels 2 and 3 on each other; one node alone has only the file system. */
static void levels_of_nodes(void)
{
    DONE(FTI_Checkpoint(1, FTI_L2));
    DONE(FTI_Checkpoint(2, FTI_L3));
    REQUIRE((count_manifests() == 0) == (ranks == 4));
}

static void first_run(void)
{
    FTIT_attribute a = {.name = "field"};
    int level;

    FAILS(FTI_Checkpoint(1, 1));
    FAILS(FTI_Protect(0, &step, 1, FTI_INTG));
    OK(FTI_Init(conf, MPI_COMM_WORLD));
    REQUIRE(FTI_Status() == 0);
    REQUIRE(FTI_Recover() == FTI_NREC);
    set(1);
    protect();
    OK(FTI_SetAttribute(1, a, FTI_ATTRIBUTE_NAME));
    FAILS(FTI_SetAttribute(55, a, FTI_ATTRIBUTE_NAME));
    FAILS(FTI_Checkpoint(1, 0));
    FAILS(FTI_Checkpoint(1, 10));
    REQUIRE(failure() == 0);
    levels_of_nodes();
    for (level = 1; level <= 8; level++) {
        set(level);
        OK(FTI_Protect(2, cells, ncells, cell_type)); /* it moves and grows */
        DONE(FTI_Checkpoint(level, level));
    }
    REQUIRE(failure() == 1);
    spoil();
    OK(FTI_Recover()); /* straight after a checkpoint */
    REQUIRE(is(8));
}

static void in_steps(void)
{
    set(20);
    OK(FTI_Protect(2, cells, ncells, cell_type));
    FAILS(FTI_AddVarICP(0));
    FAILS(FTI_FinalizeICP());
    OK(FTI_InitICP(20, 1, 0)); /* not active */
    OK(FTI_AddVarICP(0));
    OK(FTI_FinalizeICP());
    OK(FTI_InitICP(20, 1, 1));
    FAILS(FTI_Checkpoint(20, 1));
    OK(FTI_AddVarICP(1));
    memset(field, 9, sizeof(field)); /* it has its copy */
    OK(FTI_AddVarICP(0));
    FAILS(FTI_AddVarICP(0));
    OK(FTI_AddVarICP(2));
    OK(FTI_FinalizeICP());
    OK(FTI_Recover());
    REQUIRE(is(20));
}

static void names(void)
{
    int id = FTI_setIDFromString("speed");

    REQUIRE(id >= 0 && id != 0 && id != 1 && id != 2 && id != 9);
    REQUIRE(FTI_setIDFromString("speed") == id && FTI_getIDFromString("speed") == id);
}

static void flips(void)
{
    double before = field[2];
    int rc = FTI_BitFlip(1);

    REQUIRE(rc == (rank == 0 ? FTI_SCES : FTI_NSCS));
    REQUIRE((memcmp(&before, &field[2], sizeof(before)) != 0) == (rank == 0));
    REQUIRE(FTI_BitFlip(1) == FTI_NSCS); /* one is allowed */
    field[2] = before;
}

static void staging(void)
{
    char from[400], to[200], stage[300];
    FILE *f;
    int id;

    OK(FTI_GetStageDir(stage, (int)sizeof(stage)));
    FAILS(FTI_GetStageDir(stage, 3));
    (void)snprintf(from, sizeof(from), "%s/out", stage);
    (void)snprintf(to, sizeof(to), "%s/global/out.%d", dir, rank);
    f = fopen(from, "w");
    REQUIRE(f != NULL && fputs("staged", f) >= 0 && fclose(f) == 0);
    id = FTI_SendFile(from, to);
    REQUIRE(id >= 0);
    while (FTI_GetStageStatus(id) == FTI_SI_ACTV || FTI_GetStageStatus(id) == FTI_SI_PEND)
        (void)usleep(1000);
    REQUIRE(FTI_GetStageStatus(id) == FTI_SI_SCES);
    REQUIRE(access(to, R_OK) == 0 && access(from, R_OK) != 0);
    FAILS(FTI_SendFile("/does/not/exist", to));
    REQUIRE(FTI_GetStageStatus(99) == FTI_SI_NINI);
}

static void groups_and_datasets(void)
{
    FTIT_H5Group outer, inner;
    int64_t dims[2] = {N / 2, 2};

    OK(FTI_InitGroup(&outer, "state", NULL));
    OK(FTI_InitGroup(&inner, "cells", &outer));
    OK(FTI_RenameGroup(&inner, "particles"));
    REQUIRE(strcmp(inner.name, "state/particles") == 0);
    OK(FTI_DefineDataset(1, 2, dims, "field", &inner));
    FAILS(FTI_DefineDataset(66, 2, dims, "x", NULL));
}

int main(int argc, char **argv)
{
    FTIT_allConfiguration all;
    int i;

    start(&argc, &argv);
    configure("keep_last_ckpt = 0\nenable_staging = 1", "");
    all = FTI_GetConfig(conf, MPI_COMM_WORLD);
    REQUIRE(all.topology.nodeSize == 2 && all.configuration.finalTag == 3107);
    first_run();
    OK(FTI_Init(conf, MPI_COMM_WORLD)); /* the process has died, so to speak */
    restart(8, 1);
    in_steps();
    names();
    flips();
    staging();
    groups_and_datasets();
    OK(FTI_Init(conf, MPI_COMM_WORLD));
    REQUIRE(FTI_Status() == 1 && FTI_getIDFromString("speed") < 0); /* named after the checkpoint */
    restart(20, 1);
    for (i = 0; i < 5; i++)
        REQUIRE(FTI_Snapshot() == FTI_SCES); /* no interval has passed */
    OK(FTI_Finalize());
    REQUIRE(failure() == 0);
    if (rank == 0)
        REQUIRE(shell("! ls %s/global/cairn/fti-*/*/manifest 2>/dev/null", dir) == 0);

    configure("keep_last_ckpt = 1\ninline_l4 = 0", "");
    OK(FTI_Init(conf, MPI_COMM_WORLD));
    REQUIRE(FTI_Status() == 0);
    set(30);
    protect();
    DONE(FTI_Checkpoint(1, FTI_L4));
    set(29); /* stays on the nodes, and does not take the place of the last two of level 4 */
    OK(FTI_Protect(2, cells, ncells, cell_type));
    DONE(FTI_Checkpoint(2, FTI_L1));
    set(31);
    OK(FTI_Protect(2, cells, ncells, cell_type));
    DONE(FTI_Checkpoint(3, FTI_L4));
    OK(FTI_Finalize());
    REQUIRE(failure() == 2);
    OK(FTI_Init(conf, MPI_COMM_WORLD));
    REQUIRE(FTI_Status() == 2);
    ncells = 1;
    protect();
    cells = (struct cell *)FTI_Realloc(2, cells);
    spoil();
    REQUIRE(FTI_Snapshot() == FTI_SCES); /* recovers */
    REQUIRE(is(31));
    OK(FTI_Finalize());

    /* The newest is damaged: the one before. */
    if (rank == 0)
        REQUIRE(
            shell("f=$(ls -d %s/global/cairn/fti-*/*/ | sort -V | tail -1)data-0000; printf xyz | "
                  "dd of=$f bs=1 seek=5000 conv=notrunc status=none; rm -rf %s/local/*",
                  dir, dir) == 0);
    barrier();
    OK(FTI_Init(conf, MPI_COMM_WORLD));
    ncells = 1;
    protect();
    cells = (struct cell *)FTI_Realloc(2, cells);
    OK(FTI_Recover());
    REQUIRE(is(30));
    OK(FTI_Finalize());

    /* All are gone. */
    barrier();
    if (rank == 0)
        REQUIRE(shell("rm -rf %s/global/cairn/* %s/local/*", dir, dir) == 0);
    barrier();
    REQUIRE(FTI_Init(conf, MPI_COMM_WORLD) == FTI_NREC);
    free(cells);
    finish();
    return 0;
}
