/* SPDX-License-Identifier: BSD-3-Clause */
/* Files through VELOC_Route_file: a path in scratch, the same bytes at the original name after the
 * flush, and again at a path on restart. */
#include "veloc_test.h"

enum { BYTES = 3 * 1024 * 1024 + 77 };

static unsigned char *data, *back;

static void write_at(const char *path, int version)
{
    FILE *f = fopen(path, "wb");

    fill(data, BYTES, version, rank, 0);
    REQUIRE(f != NULL && fwrite(data, 1, BYTES, f) == BYTES && fclose(f) == 0);
}

/* Exactly these bytes, not one more. */
static int lies_at(const char *path, int version, int who)
{
    FILE *f = fopen(path, "rb");
    int is_same;

    if (f == NULL)
        return 0;
    is_same = fread(back, 1, BYTES, f) == BYTES && fgetc(f) == EOF;
    (void)fclose(f);
    return is_same && holds(back, BYTES, version, who, 0);
}

static int is_in_scratch(const char *path)
{
    char scratch[96];

    (void)snprintf(scratch, sizeof(scratch), "%s/s/", dir);
    return strncmp(path, scratch, strlen(scratch)) == 0;
}

static void checkpoint(const char *name, int version, const char *original)
{
    char routed[VELOC_MAX_NAME];

    OK(VELOC_Checkpoint_begin(name, version));
    OK(VELOC_Route_file(original, routed));
    REQUIRE(is_in_scratch(routed));
    write_at(routed, version);
    OK(VELOC_Checkpoint_end(1));
}

static void restart(const char *name, int version, const char *original)
{
    char routed[VELOC_MAX_NAME], again[VELOC_MAX_NAME];

    OK(VELOC_Restart_begin(name, version));
    OK(VELOC_Route_file(original, routed));
    REQUIRE(is_in_scratch(routed) && lies_at(routed, version, rank));
    OK(VELOC_Route_file(original, again));
    REQUIRE(strcmp(routed, again) == 0);
    REQUIRE(VELOC_Recover_size(0) == -1);
    OK(VELOC_Recover_mem()); /* nothing to do */
    OK(VELOC_Restart_end(1));
}

static void original_name(char *path, size_t size, int version)
{
    (void)snprintf(path, size, "%s/out-%d-%d.dat", dir, version, rank);
}

static void absolute_and_relative(void)
{
    char original[128], name[64];
    int v;

    for (v = 1; v <= 4; v++) {
        original_name(original, sizeof(original), v);
        checkpoint("file", v, original);
    }
    OK(VELOC_Checkpoint_wait());
    for (v = 1; v <= 4; v++) {
        original_name(original, sizeof(original), v);
        REQUIRE(lies_at(original, v, rank));
    }
    /* A version again, over its file of before. */
    original_name(original, sizeof(original), 4);
    checkpoint("file", 4, original);
    OK(VELOC_Checkpoint_wait());
    REQUIRE(lies_at(original, 4, rank));

    (void)snprintf(name, sizeof(name), "relative-%d", rank);
    REQUIRE(chdir(dir) == 0);
    checkpoint("file", 5, name);
    REQUIRE(chdir("/") == 0); /* the directory of the call counts */
    OK(VELOC_Checkpoint_wait());
    (void)snprintf(original, sizeof(original), "%s/relative-%d", dir, rank);
    REQUIRE(lies_at(original, 5, rank));

    REQUIRE(VELOC_Restart_test("file", 0) == 5);
    for (v = 1; v <= 5; v++)
        restart("file", v, original);
}

/* The buffer of the result may be that of the name; the name may say nothing; all ranks may give the
 * same one: then it holds the file of one of them, whole. */
static void odd_names(void)
{
    char path[VELOC_MAX_NAME];
    int who, found = 0;

    original_name(path, sizeof(path), 6);
    OK(VELOC_Checkpoint_begin("odd", 6));
    OK(VELOC_Route_file(path, path));
    REQUIRE(is_in_scratch(path));
    write_at(path, 6);
    OK(VELOC_Checkpoint_end(1));
    OK(VELOC_Checkpoint_wait());
    original_name(path, sizeof(path), 6);
    REQUIRE(lies_at(path, 6, rank));
    restart("odd", 6, path);

    checkpoint("odd", 7, "");
    OK(VELOC_Checkpoint_wait());
    restart("odd", 7, "");

    (void)snprintf(path, sizeof(path), "%s/shared.dat", dir);
    checkpoint("odd", 8, path);
    OK(VELOC_Checkpoint_wait());
    barrier(); /* a wait is for the own file; those of the others replace it */
    for (who = 0; who < ranks; who++)
        found += lies_at(path, 8, who);
    REQUIRE(found == 1);
    restart("odd", 8, path);
}

/* A file and memory in one version. */
static void with_memory(void)
{
    char routed[VELOC_MAX_NAME], late[VELOC_MAX_NAME];
    int x = 1000 + rank;

    OK(VELOC_Mem_protect(0, &x, 1, sizeof(x)));
    OK(VELOC_Checkpoint_begin("both", 1));
    OK(VELOC_Route_file("", routed));
    OK(VELOC_Checkpoint_mem());
    x = -1;
    write_at(routed, 1);
    OK(VELOC_Checkpoint_end(1));
    OK(VELOC_Checkpoint_wait());
    OK(VELOC_Restart("both", 1));
    OK(VELOC_Route_file("", routed));
    REQUIRE(x == 1000 + rank && lies_at(routed, 1, rank));
    /* In the other order VELOC would overwrite the one with the other. */
    OK(VELOC_Checkpoint_begin("both", 2));
    OK(VELOC_Checkpoint_mem());
    FAILS(VELOC_Route_file("", late));
    OK(VELOC_Checkpoint_end(1));
    OK(VELOC_Checkpoint_wait());
    OK(VELOC_Mem_clear());
}

static void what_fails(void)
{
    char routed[VELOC_MAX_NAME];

    FAILS(VELOC_Route_file("x", routed)); /* no phase */
    /* One rank does not write its file. */
    OK(VELOC_Checkpoint_begin("bad", 1));
    OK(VELOC_Route_file("", routed));
    if (rank != ranks - 1)
        write_at(routed, 1);
    OK(VELOC_Checkpoint_end(1));
    FAILS(VELOC_Checkpoint_wait());
    OK(VELOC_Checkpoint_wait());
    REQUIRE(VELOC_Restart_test("bad", 0) < 0);
    /* One rank knows that its file is bad. */
    OK(VELOC_Checkpoint_begin("bad", 2));
    OK(VELOC_Route_file("", routed));
    write_at(routed, 2);
    OK(VELOC_Checkpoint_end(rank != 0));
    FAILS(VELOC_Checkpoint_wait());
    OK(VELOC_Checkpoint_wait());
    REQUIRE(VELOC_Restart_test("bad", 0) < 0);
    /* The original name has no directory: told, and the checkpoint holds the file anyway. */
    checkpoint("bad", 3, "/nowhere/at/all/file");
    FAILS(VELOC_Checkpoint_wait());
    OK(VELOC_Checkpoint_wait());
    restart("bad", 3, "");
    checkpoint("bad", 4, "");
    OK(VELOC_Checkpoint_wait());
    restart("bad", 4, "");
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    data = (unsigned char *)malloc(BYTES);
    back = (unsigned char *)malloc(BYTES);
    configure("mode = async");
    OK(VELOC_Init(MPI_COMM_WORLD, conf));
    absolute_and_relative();
    odd_names();
    with_memory();
    what_fails();
    OK(VELOC_Finalize(1));
    /* Nothing temporary is left beside the originals. */
    barrier();
    REQUIRE(rank != 0 || shell("ls -A %s | grep -q '[.]tmp$'", dir) != 0);
    /* Another run finds them; scratch is gone. */
    barrier();
    REQUIRE(rank != 0 || shell("rm -rf %s/s", dir) == 0);
    barrier();
    OK(VELOC_Init(MPI_COMM_WORLD, conf));
    REQUIRE(VELOC_Restart_test("file", 0) == 5);
    restart("file", 5, "whatever");
    restart("file", 2, "whatever");
    OK(VELOC_Finalize(0));
    free(data);
    free(back);
    finish();
    return 0;
}
