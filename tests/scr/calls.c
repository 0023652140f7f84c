/* SPDX-License-Identifier: BSD-3-Clause */
/* Every call of SCR's interface, with files in the prefix (direct) or in Cairn's versions (cached).
 * usage: calls direct|cached */
#include "scr_test.h"

static int is_cached;

static void take(int v, int flags)
{
    char name[50], path[SCR_MAX_FILENAME];

    (void)snprintf(name, sizeof(name), "step/%d", v); /* with a slash, as users have them */
    OK(SCR_Start_output(name, flags));
    OK(SCR_Route_file(file_name(v, "a", rank), path));
    REQUIRE((strcmp(path, file_name(v, "a", rank)) == 0) != is_cached);
    write_file(path, v, rank, 0);
    OK(SCR_Route_file(file_name(v, "b", rank), path));
    write_file(path, v, rank, 1);
    OK(SCR_Complete_output(1));
}

/* Restarts, and expects this version. */
static void restart(int v)
{
    char name[SCR_MAX_FILENAME] = "", again[SCR_MAX_FILENAME] = "", path[SCR_MAX_FILENAME];
    char want[50];
    int flag = 7;

    OK(SCR_Have_restart(&flag, name));
    REQUIRE(flag == 1);
    (void)snprintf(want, sizeof(want), "step/%d", v);
    REQUIRE(strcmp(name, want) == 0);
    OK(SCR_Start_restart(again));
    REQUIRE(strcmp(name, again) == 0);
    OK(SCR_Route_file(file_name(v, "b", rank), path));
    REQUIRE(file_holds(path, v, rank, 1));
    OK(SCR_Route_file(file_name(v, "a", (rank + 1) % ranks), path)); /* of a neighbour */
    REQUIRE(file_holds(path, v, (rank + 1) % ranks, 0));
    FAILS(SCR_Route_file(file_name(v, "c", rank), path));
}

static int published(int v, int who)
{
    return file_holds(file_name(v, "a", who), v, who, 0) &&
           file_holds(file_name(v, "b", who), v, who, 1);
}

static void one_file_of_all(void)
{
    char path[SCR_MAX_FILENAME];
    FILE *f;

    OK(SCR_Start_output("shared", SCR_FLAG_CHECKPOINT));
    OK(SCR_Route_file(file_name(50, "all", 0), path));
    f = fopen(path, rank == 0 ? "wb" : "ab");
    REQUIRE(f != NULL && fclose(f) == 0);
    barrier();
    if (rank == 0 || is_cached)
        write_file(path, 50, 0, 0);
    if (is_cached && ranks > 1) {
        FAILS(SCR_Complete_output(1));
        return;
    }
    OK(SCR_Complete_output(1));
    OK(SCR_Current("shared"));
    OK(SCR_Start_restart(NULL));
    OK(SCR_Route_file(file_name(50, "all", 0), path));
    REQUIRE(file_holds(path, 50, 0, 0));
    OK(SCR_Complete_restart(1));
    OK(SCR_Delete("shared"));
    REQUIRE(access(file_name(50, "all", 0), F_OK) != 0);
}

/* Calls in the wrong state return an error and change nothing. */
static void states(void)
{
    char path[SCR_MAX_FILENAME] = "";
    int flag;

    FAILS(SCR_Start_checkpoint());
    FAILS(SCR_Finalize());
    FAILS(SCR_Route_file("x", path));
    FAILS(SCR_Have_restart(&flag, NULL));
    OK(SCR_Init());
    FAILS(SCR_Init());
    FAILS(SCR_Complete_output(1));
    FAILS(SCR_Complete_restart(1));
    FAILS(SCR_Start_restart(NULL)); /* there is none */
    OK(SCR_Have_restart(&flag, NULL));
    REQUIRE(flag == 0);
    OK(SCR_Route_file("some/name", path));
    REQUIRE(strcmp(path, "some/name") == 0);
    OK(SCR_Start_checkpoint());
    FAILS(SCR_Start_output("x", SCR_FLAG_OUTPUT));
    FAILS(SCR_Finalize());
    FAILS(SCR_Route_file("/outside/of/the/prefix", path));
    OK(SCR_Complete_checkpoint(1)); /* of no files */
    OK(SCR_Drop("scr.dataset.1"));
    REQUIRE(strcmp(SCR_Get_version(), SCR_VERSION) == 0);
    one_file_of_all();
    OK(SCR_Finalize());
}

static void a_rank_without_data(void)
{
    char path[SCR_MAX_FILENAME];
    int flag;

    OK(SCR_Start_output("bad", SCR_FLAG_CHECKPOINT));
    OK(SCR_Route_file(file_name(99, "a", rank), path));
    write_file(path, 99, rank, 0);
    FAILS(SCR_Complete_output(rank != ranks - 1));
    OK(SCR_Start_output("missing", SCR_FLAG_CHECKPOINT));
    OK(SCR_Route_file(file_name(98, "a", rank), path));
    if (rank != 0)
        write_file(path, 98, rank, 0);
    FAILS(SCR_Complete_output(1));
    OK(SCR_Have_restart(&flag, NULL));
}

static void parameters(void)
{
    const char *value;

    REQUIRE(SCR_Config("SCR_FLUSH = 2") == NULL);
    value = SCR_Config("SCR_FLUSH");
    REQUIRE(value != NULL && strcmp(value, "2") == 0);
    free((void *)(uintptr_t)value);
    REQUIRE(SCR_Config("CKPT=0 INTERVAL=1 TYPE=SINGLE") == NULL);
    value = SCR_Configf("CKPT=%d TYPE", 0);
    REQUIRE(value != NULL && strcmp(value, "SINGLE") == 0);
    free((void *)(uintptr_t)value);
    REQUIRE(SCR_Configf("SCR_CACHE_BYPASS=%d", !is_cached) == NULL);
    REQUIRE(SCR_Configf("SCR_CACHE_BASE=%s/cache", dir) == NULL);
}

/* Damages a byte of one rank's file, where the bytes are. */
static void damage(int v)
{
    barrier();
    if (rank == 0 && !is_cached) {
        FILE *f = fopen(file_name(v, "b", ranks - 1), "r+b");

        REQUIRE(f != NULL && fseek(f, 1000, SEEK_SET) == 0 && fputc(0, f) == 0 &&
                fputc(1, f) == 1 && fclose(f) == 0);
    } else if (rank == 0) {
        REQUIRE(
            shell("f=$(ls -d %s/prefix/.scr/cairn/scr/*/ | sort -t/ -k1 -V | tail -1)data-0000; "
                  "printf 'xyz' | dd of=$f bs=1 seek=100000 conv=notrunc status=none; "
                  "rm -rf %s/cache/*",
                  dir, dir) == 0);
    }
    barrier();
}

int main(int argc, char **argv)
{
    int flag;

    scr_start(&argc, &argv);
    is_cached = strcmp(argv[1], "cached") == 0;
    parameters();
    states();

    OK(SCR_Init());
    take(10, SCR_FLAG_CHECKPOINT);
    take(20, SCR_FLAG_CHECKPOINT); /* the second one is flushed */
    take(21, SCR_FLAG_OUTPUT);
    take(30, SCR_FLAG_CHECKPOINT);
    barrier();
    REQUIRE(published(20, rank) && published(21, rank));
    REQUIRE(published(30, rank) == !is_cached);
    a_rank_without_data();
    OK(SCR_Need_checkpoint(&flag));
    REQUIRE(flag == 1);
    OK(SCR_Should_exit(&flag));
    REQUIRE(flag == 0);
    OK(SCR_Finalize());
    barrier();
    REQUIRE(published(30, rank)); /* Finalize brings the last one */

    /* The newest one, then older ones, because a rank says so. */
    OK(SCR_Init());
    restart(30);
    FAILS(SCR_Complete_restart(rank != 0));
    restart(20);
    OK(SCR_Complete_restart(1));
    OK(SCR_Have_restart(&flag, NULL));
    REQUIRE(flag == 0);
    take(40, SCR_FLAG_CHECKPOINT | SCR_FLAG_OUTPUT);
    REQUIRE(published(40, rank));
    OK(SCR_Finalize());

    /* The newest is damaged. */
    damage(40);
    OK(SCR_Init());
    restart(20);
    OK(SCR_Complete_restart(1));
    OK(SCR_Current("step/20"));
    restart(20);
    OK(SCR_Complete_restart(1));
    FAILS(SCR_Current("never was"));
    FAILS(SCR_Drop("never was"));
    FAILS(SCR_Delete("never was"));
    OK(SCR_Drop("step/20"));
    REQUIRE(published(20, rank));
    if (is_cached) /* neither flushed nor among the newest */
        FAILS(SCR_Current("step/10"));
    else
        OK(SCR_Current("step/10"));
    OK(SCR_Have_restart(&flag, NULL));
    REQUIRE(flag == !is_cached);
    take(60, SCR_FLAG_CHECKPOINT);
    take(60, SCR_FLAG_CHECKPOINT); /* the same name again */
    OK(SCR_Delete("step/21"));
    barrier();
    REQUIRE(access(file_name(21, "a", rank), F_OK) != 0);
    if (rank == 0)
        REQUIRE(shell("echo ExitReason=NOW > %s/prefix/.scr/cairn.halt", dir) == 0);
    barrier();
    OK(SCR_Should_exit(&flag));
    REQUIRE(flag == 1);
    OK(SCR_Need_checkpoint(&flag));
    REQUIRE(flag == 1);
    OK(SCR_Finalize());
    OK(SCR_Init());
    restart(60);
    OK(SCR_Complete_restart(1));
    OK(SCR_Finalize());
    finish();
    return 0;
}
