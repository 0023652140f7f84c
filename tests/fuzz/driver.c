/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a fuzz target without a fuzzer: on every seed of a folder, and on a fixed number of
 * random changes of each.
 *
 * usage: target SEED-DIRECTORY [CHANGES] */
#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "base/rng.h"
#include "fuzz.h"

#define MAX_SEED ((size_t)1 << 20)

static uint8_t *load(const char *dir, const char *name, size_t *ret_size)
{
    uint8_t *data = malloc(MAX_SEED);
    char path[1024];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "re");
    if (f == NULL || data == NULL) {
        (void)fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    *ret_size = fread(data, 1, MAX_SEED, f);
    (void)fclose(f);
    return data;
}

/* Changes bits, bytes and whole fields; sometimes truncates or appends. */
static size_t change(struct crn_rng *rng, uint8_t *data, size_t size, size_t room)
{
    static const uint8_t edges[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    size_t times = 1 + (size_t)crn_rng_below(rng, 4);
    size_t at, n;

    while (times-- > 0 && size > 0) {
        at = (size_t)crn_rng_below(rng, size);
        switch (crn_rng_below(rng, 5)) {
        case 0:
            data[at] ^= (uint8_t)(1U << crn_rng_below(rng, 8));
            break;
        case 1:
            data[at] = edges[crn_rng_below(rng, sizeof(edges))];
            break;
        case 2:
            n = (size_t)crn_rng_below(rng, 8) + 1;
            memset(data + at, edges[crn_rng_below(rng, sizeof(edges))],
                   n < size - at ? n : size - at);
            break;
        case 3:
            n = (size_t)crn_rng_below(rng, 16) + 1;
            if (n <= room - size) {
                memmove(data + at + n, data + at, size - at);
                size += n;
            }
            break;
        default:
            n = (size_t)crn_rng_below(rng, 16) + 1;
            if (n < size - at) {
                memmove(data + at, data + at + n, size - at - n);
                size -= n;
            }
        }
    }
    return size;
}

static void run_seed(const char *dir, const char *name, long changes)
{
    size_t size, room, changed;
    uint8_t *seed = load(dir, name, &size);
    uint8_t *data;
    struct crn_rng rng;

    (void)LLVMFuzzerTestOneInput(seed, size);
    room = size + 128;
    data = malloc(room);
    if (data == NULL)
        exit(1);
    crn_rng_seed(&rng, crn_hash(seed, size));
    while (changes-- > 0) {
        memcpy(data, seed, size);
        changed = change(&rng, data, size, room);
        (void)LLVMFuzzerTestOneInput(data, changed);
    }
    free(data);
    free(seed);
}

int main(int argc, char **argv)
{
    long changes = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    struct dirent *de;
    long seeds = 0;
    DIR *dir;

    dir = argc > 1 ? opendir(argv[1]) : NULL;
    if (dir == NULL) {
        (void)fprintf(stderr, "usage: %s SEED-DIRECTORY [CHANGES]\n", argv[0]);
        return 2;
    }
    while ((de = readdir(dir)) != NULL)
        if (de->d_name[0] != '.') {
            run_seed(argv[1], de->d_name, changes);
            seeds++;
        }
    (void)closedir(dir);
    (void)printf("%ld seeds, %ld changes of each\n", seeds, changes);
    return seeds > 0 ? 0 : 1;
}
