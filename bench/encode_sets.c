/* SPDX-License-Identifier: BSD-3-Clause */
/* The sets of bench/encode. The comment of each set says what it imitates. All numbers come from
 * seeds, so every run has the same bytes. */
#include "encode_sets.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/rng.h"

#define REGIONS_MAX 9000

/* ---- building ------------------------------------------------------------------------------- */

static void die(const char *why)
{
    (void)fprintf(stderr, "bench/encode: %s\n", why);
    exit(1);
}

static void *room(size_t n)
{
    void *p = calloc(1, n > 0 ? n : 1);

    if (p == NULL)
        die("out of memory");
    return p;
}

static struct bench_set *set_new(const char *name, uint32_t ranks)
{
    struct bench_set *s = room(sizeof(*s));
    uint32_t r;

    s->name = name;
    s->ranks = ranks;
    s->shards = room(ranks * sizeof(*s->shards));
    s->first_region = room((ranks + 1) * sizeof(*s->first_region));
    s->data[0] = room(ranks * (size_t)REGIONS_MAX * sizeof(unsigned char *));
    s->data[1] = room(ranks * (size_t)REGIONS_MAX * sizeof(unsigned char *));
    for (r = 0; r < ranks; r++) {
        s->shards[r].rank = r;
        s->shards[r].regions = room(REGIONS_MAX * sizeof(struct crn_region));
        s->first_region[r] = r * REGIONS_MAX;
    }
    return s;
}

void bench_set_free(struct bench_set *s)
{
    uint32_t r;
    uint32_t i;

    for (r = 0; r < s->ranks; r++) {
        for (i = 0; i < s->shards[r].nregions; i++) {
            free(s->data[0][s->first_region[r] + i]);
            free(s->data[1][s->first_region[r] + i]);
        }
        free(s->shards[r].regions);
    }
    free(s->data[0]);
    free(s->data[1]);
    free(s->first_region);
    free(s->shards);
    free(s);
}

const unsigned char *bench_set_region(const struct bench_set *s, int step, uint32_t rank,
                                      uint32_t region)
{
    return s->data[step][s->first_region[rank] + region];
}

/* Memory of a region at a step; the region is added the first time. dims end with 0. */
static void *region(struct bench_set *s, int step, uint32_t rank, const char *name, cairn_type type,
                    const uint64_t *dims)
{
    struct crn_shard *shard = &s->shards[rank];
    struct crn_region r = {.type = (uint8_t)type};
    struct crn_errinfo ei = {0};
    uint32_t i;

    (void)snprintf(r.name, sizeof(r.name), "%s", name);
    for (; dims[r.ndims] > 0; r.ndims++)
        r.dims[r.ndims] = dims[r.ndims];
    if (crn_region_check(&r, &ei) != CAIRN_OK)
        die(ei.msg);
    for (i = 0; i < shard->nregions; i++)
        if (strcmp(shard->regions[i].name, name) == 0)
            return s->data[step][s->first_region[rank] + i];
    if (i == REGIONS_MAX)
        die("too many regions");
    shard->regions[shard->nregions++] = r;
    s->bytes += r.bytes;
    s->data[0][s->first_region[rank] + i] = room(r.bytes);
    s->data[1][s->first_region[rank] + i] = room(r.bytes);
    return s->data[step][s->first_region[rank] + i];
}

#define DIMS(...)                                                                                  \
    (const uint64_t[])                                                                             \
    {                                                                                              \
        __VA_ARGS__, 0                                                                             \
    }

/* Data that every code keeps beside its fields. */
static void add_scalars(struct bench_set *s, int step)
{
    uint32_t r;

    for (r = 0; r < s->ranks; r++) {
        *(double *)region(s, step, r, "time", CAIRN_F64, DIMS(1)) = 0.125 * (step + 3);
        *(int64_t *)region(s, step, r, "cycle", CAIRN_I64, DIMS(1)) = 4000 + 100 * step;
        *(int32_t *)region(s, step, r, "rank", CAIRN_I32, DIMS(1)) = (int32_t)r;
    }
}

/* ---- fields computed from a formula ---------------------------------------------------------- */

static double hashed(int64_t x, int64_t y, int64_t z, uint64_t seed)
{
    uint64_t h = seed + (uint64_t)x * 0x9e3779b97f4a7c15U + (uint64_t)y * 0xc2b2ae3d27d4eb4fU +
                 (uint64_t)z * 0x165667b19e3779f9U;

    h = (h ^ (h >> 29)) * 0xbf58476d1ce4e5b9U;
    h = (h ^ (h >> 32)) * 0x94d049bb133111ebU;
    return (double)((h ^ (h >> 31)) >> 11) * 0x1p-52 - 1;
}

/* Values on a lattice, joined smoothly. */
static double noise(double x, double y, double z, uint64_t seed)
{
    double fx = floor(x), fy = floor(y), fz = floor(z);
    double t[3] = {x - fx, y - fy, z - fz};
    double sum = 0;
    int k;

    for (k = 0; k < 3; k++)
        t[k] = t[k] * t[k] * (3 - 2 * t[k]);
    for (k = 0; k < 8; k++)
        sum += hashed((int64_t)fx + (k & 1), (int64_t)fy + (k >> 1 & 1), (int64_t)fz + (k >> 2),
                      seed) *
               (k & 1 ? t[0] : 1 - t[0]) * (k & 2 ? t[1] : 1 - t[1]) * (k & 4 ? t[2] : 1 - t[2]);
    return sum;
}

/* Turbulence: each octave half as long and 0.6 as strong. */
static double turbulent(double x, double y, double z, uint64_t seed, int octaves)
{
    double sum = 0;
    double strength = 1;
    int k;

    for (k = 0; k < octaves; k++) {
        sum += strength * noise(x, y, z, seed + (uint64_t)k);
        x *= 2;
        y *= 2;
        z *= 2;
        strength *= 0.6;
    }
    return sum;
}

/* ---- the sets -------------------------------------------------------------------------------- */

/* Enzo's Implosion of the paper, in single or double precision: 4 x 4 ranks, a block of cells each. */
static struct bench_set *make_implosion(const char *name, unsigned scale, cairn_type type)
{
    static const char *const names[4] = {"Density", "x-velocity", "y-velocity", "Pressure"};
    struct bench_set *s = set_new(name, 16);
    size_t block = scale > 1 ? 160 : 64;
    size_t n = 4 * block;
    double *f[4];
    size_t i;
    size_t k;
    int step;
    uint32_t r;

    for (k = 0; k < 4; k++)
        f[k] = room(n * n * sizeof(double));
    f[0][0] = -1;
    for (step = 0; step < 2; step++) {
        bench_euler(n, step == 0 ? 2 * (unsigned)n : 4, f[0], f[1], f[2], f[3]);
        add_scalars(s, step);
        for (r = 0; r < 16; r++)
            for (k = 0; k < 4; k++) {
                void *p = region(s, step, r, names[k], type, DIMS(block, block));

                for (i = 0; i < block * block; i++) {
                    size_t at = (r / 4 * block + i / block) * n + r % 4 * block + i % block;

                    if (type == CAIRN_F32)
                        ((float *)p)[i] = (float)f[k][at];
                    else
                        ((double *)p)[i] = f[k][at];
                }
            }
    }
    for (k = 0; k < 4; k++)
        free(f[k]);
    return s;
}

/* Enzo's Cosmology: grids of all sizes on three levels, named by number, fields in single precision, and
 * a few particles in each. */
static void fill_grid(struct bench_set *s, int step, uint32_t rank, int number, struct crn_rng *rng)
{
    static const char *const names[] = {"Density", "Temperature", "x-velocity",
                                        "Dark_Matter_Density"};
    double spacing = 0.05 / (double)(1 << (number % 3));
    int octaves = 3 + number % 3; /* the shortest wave is five cells long */
    double at[3] = {40 * crn_rng_unit(rng), 40 * crn_rng_unit(rng), 40 * crn_rng_unit(rng)};
    uint64_t n[3], i, total;
    char name[64];
    int32_t *flags;
    double *positions;
    int k;

    for (k = 0; k < 3; k++)
        n[k] = 8 + 2 * crn_rng_below(rng, 10);
    total = n[0] * n[1] * n[2];
    for (k = 0; k < 4; k++) {
        float *p;

        (void)snprintf(name, sizeof(name), "Grid%05d/%s", number, names[k]);
        p = region(s, step, rank, name, CAIRN_F32, DIMS(n[0], n[1], n[2]));
        for (i = 0; i < total; i++) {
            double x = at[0] + spacing * (double)(i % n[2]);
            double y = at[1] + spacing * (double)(i / n[2] % n[1]);
            double z = at[2] + spacing * (double)(i / n[2] / n[1]); /* NOLINT */
            double v = turbulent(x, y, z + 0.01 * step, (uint64_t)k * 100, octaves);

            p[i] = (float)(k == 0   ? exp(2 * v)
                           : k == 1 ? pow(10, 4 + v)
                           : k == 2 ? 2e-3 * v
                                    : exp(3 * v) * (v > -0.4));
        }
    }
    (void)snprintf(name, sizeof(name), "Grid%05d/flags", number);
    flags = region(s, step, rank, name, CAIRN_I32, DIMS(n[0], n[1], n[2]));
    for (i = 0; i < total; i++)
        flags[i] = (int32_t)(i / n[2] % 4 == 0 ? number % 3 : 0);
    (void)snprintf(name, sizeof(name), "Grid%05d/particle_position_x", number);
    positions = region(s, step, rank, name, CAIRN_F64, DIMS(total / 8));
    for (i = 0; i < total / 8; i++)
        positions[i] = at[0] + spacing * (double)n[2] * crn_rng_unit(rng);
}

static struct bench_set *make_amr(const char *name, unsigned scale)
{
    struct bench_set *s = set_new(name, 16);
    int step, g;
    uint32_t r;

    for (step = 0; step < 2; step++) {
        struct crn_rng rng;

        crn_rng_seed(&rng, 7);
        for (r = 0; r < 16; r++)
            for (g = 0; g < (scale > 1 ? 12 : 3); g++)
                fill_grid(s, step, r, (int)r * 12 + g, &rng);
        add_scalars(s, step);
    }
    return s;
}

/* Molecular dynamics: atoms near the places of a crystal, in the order of cells; velocities have no
 * structure but their size. */
static void fill_atoms(struct bench_set *s, int step, uint32_t rank, uint64_t n)
{
    struct crn_rng rng;
    double *x = region(s, step, rank, "x", CAIRN_F64, DIMS(n, 3));
    double *v = region(s, step, rank, "v", CAIRN_F64, DIMS(n, 3));
    int64_t *id = region(s, step, rank, "id", CAIRN_I64, DIMS(n));
    int32_t *type = region(s, step, rank, "type", CAIRN_I32, DIMS(n));
    int32_t *image = region(s, step, rank, "image", CAIRN_I32, DIMS(n, 3));
    float *charge = region(s, step, rank, "charge", CAIRN_F32, DIMS(n));
    uint64_t i;
    int k;

    crn_rng_seed(&rng, 50 + rank);
    for (i = 0; i < n; i++) {
        uint64_t place[3] = {i % 24, i / 24 % 24, i / 576 + 60 * (uint64_t)rank};

        for (k = 0; k < 3; k++) {
            double g = crn_rng_unit(&rng) + crn_rng_unit(&rng) + crn_rng_unit(&rng) - 1.5;

            v[3 * i + (uint64_t)k] = g * (1 + 0.001 * step);
            x[3 * i + (uint64_t)k] = 1.7 * (double)place[k] + 0.15 * g * (1 + 0.01 * step);
            image[3 * i + (uint64_t)k] = crn_rng_below(&rng, 50) == 0 ? 1 : 0;
        }
        id[i] = (int64_t)((uint64_t)rank * n + (i ^ (crn_rng_below(&rng, 8) == 0)) + 1);
        type[i] = (int32_t)(1 + (i + i / 24) % 2);
        charge[i] = type[i] == 1 ? 0.41F : -0.82F;
    }
}

static struct bench_set *make_particles(const char *name, unsigned scale)
{
    struct bench_set *s = set_new(name, 16);
    int step;
    uint32_t r;

    for (step = 0; step < 2; step++) {
        for (r = 0; r < 16; r++)
            fill_atoms(s, step, r, scale > 1 ? 24000 : 5000);
        add_scalars(s, step);
    }
    return s;
}

/* Cactus: a wave on a grid in blocks with three ghost zones, many smooth variables in doubles. */
static double wave(int64_t i, int64_t j, int64_t k, int variable, int step)
{
    double x = (double)i / 21 - 1.3;
    double y = (double)j / 19 - 1.9;
    double z = (double)k / 23 - 1.6;
    double d = sqrt(x * x + 1.3 * y * y + 0.8 * z * z + 0.2 * x * y);
    double v = exp(-d * d / 3) * cos(5 * d - 0.05 * step + variable);

    /* What rounding leaves after some thousand steps. */
    return (variable == 0) + v + 1e-14 * hashed(i, j, k, 10 * (uint64_t)variable + (uint64_t)step);
}

static struct bench_set *make_segmented(const char *name, unsigned scale)
{
    struct bench_set *s = set_new(name, 8);
    uint64_t n = (scale > 1 ? 64 : 40) + 6;
    int64_t shift = (int64_t)n - 6;
    int step, k;
    uint32_t r;
    uint64_t i;
    char var[32];

    for (step = 0; step < 2; step++) {
        add_scalars(s, step);
        for (r = 0; r < 8; r++)
            for (k = 0; k < 3; k++) {
                double *p;

                (void)snprintf(var, sizeof(var), "ADMBASE::g%d", k);
                p = region(s, step, r, var, CAIRN_F64, DIMS(n, n, n));
                for (i = 0; i < n * n * n; i++)
                    p[i] = wave((int64_t)(i % n) + (r & 1 ? shift : 0),
                                (int64_t)(i / n % n) + (r & 2 ? shift : 0),
                                (int64_t)(i / n / n) + (r & 4 ? shift : 0), k, step);
            }
    }
    return s;
}

/* Perhaps ALE3D: one mesh whose rows go to the ranks in turn, so that similar data is on
 * different ranks; coordinates, a field, and the nodes of each element. */
static struct bench_set *make_strided(const char *name, unsigned scale)
{
    uint32_t ranks = 16;
    struct bench_set *s = set_new(name, ranks);
    uint64_t columns = 256, rows = scale > 1 ? 160 : 40, i;
    int step;
    uint32_t r;

    for (step = 0; step < 2; step++) {
        for (r = 0; r < ranks; r++) {
            double *x = region(s, step, r, "mesh/x", CAIRN_F64, DIMS(rows * columns));
            double *e = region(s, step, r, "zone/energy", CAIRN_F64, DIMS(rows * columns));
            int32_t *nodes = region(s, step, r, "mesh/nodes", CAIRN_I32, DIMS(rows * columns, 4));

            for (i = 0; i < rows * columns; i++) {
                uint64_t row = i / columns * ranks + r;
                uint64_t column = i % columns;
                int32_t node = (int32_t)(row * (columns + 1) + column);

                x[i] = (double)column * 0.01 +
                       1e-3 * turbulent((double)column / 40, (double)row / 40, 0.1 * step, 5, 4);
                e[i] = exp(3 * turbulent((double)column / 30, (double)row / 30, 0.1 * step, 9, 7));
                nodes[4 * i] = node;
                nodes[4 * i + 1] = node + 1;
                nodes[4 * i + 2] = node + (int32_t)columns + 2;
                nodes[4 * i + 3] = node + (int32_t)columns + 1;
            }
        }
        add_scalars(s, step);
    }
    return s;
}

/* Every rank holds a copy of the same rough table (opacities), and a field of its own. */
static struct bench_set *make_repeated(const char *name, unsigned scale)
{
    struct bench_set *s = set_new(name, 8);
    uint64_t table = scale > 1 ? 150000 : 40000, field = table / 2, i;
    int step;
    uint32_t r;

    for (step = 0; step < 2; step++) {
        for (r = 0; r < 8; r++) {
            double *t = region(s, step, r, "opacity", CAIRN_F64, DIMS(table));
            double *f = region(s, step, r, "radiation", CAIRN_F64, DIMS(field));

            for (i = 0; i < table; i++)
                t[i] = pow(10, 3 * hashed((int64_t)i, 1, 1, 77));
            for (i = 0; i < field; i++)
                f[i] = turbulent((double)i / 50, r, 0.1 * step, 3, 6);
        }
        add_scalars(s, step);
    }
    return s;
}

/* Numbers without any structure, which an encoder must leave alone. */
static struct bench_set *make_random(const char *name, unsigned scale)
{
    struct bench_set *s = set_new(name, 4);
    uint64_t n = scale > 1 ? 1000000 : 200000, i;
    struct crn_rng rng;
    int step;
    uint32_t r;

    crn_rng_seed(&rng, 11);
    for (step = 0; step < 2; step++)
        for (r = 0; r < 4; r++) {
            uint64_t *p = region(s, step, r, "noise", CAIRN_F64, DIMS(n));

            for (i = 0; i < n; i++)
                p[i] = crn_rng_u64(&rng);
        }
    return s;
}

/* ---- sets of many or opaque variables --------------------------------------------------------- */

/* One small variable: doubles that are smooth, constant or rough; integers that are flags, lists or
 * counters; text. */
static void fill_small(struct bench_set *s, int step, uint32_t rank, unsigned k)
{
    static const char *const words[] = {"Carpet::",
                                        "max_refinement_levels = ",
                                        "CoordBase::domainsize",
                                        "yes\n",
                                        "\"minmax\"\n",
                                        "ADMBase::evolution_method = ",
                                        "0.25\n",
                                        "IOHDF5::out_every = "};
    char name[64];
    unsigned i;

    (void)snprintf(name, sizeof(name), "%s::v%u",
                   k % 3 == 0   ? "GF"
                   : k % 3 == 1 ? "index"
                                : "par",
                   k);
    if (k % 3 == 0) {
        double *p = region(s, step, rank, name, CAIRN_F64, DIMS(256));

        for (i = 0; i < 256; i++)
            p[i] = k % 12 == 0 ? 1.5 * k
                               : turbulent(0.01 * i + rank, 0.1 * k, 0.1 * step, k, 2) +
                                     (k % 12 == 3 ? 1e-6 : 1e-13) * hashed(i, rank, step, k);
    } else if (k % 3 == 1) {
        int32_t *p = region(s, step, rank, name, CAIRN_I32, DIMS(512));

        for (i = 0; i < 512; i++)
            p[i] = k % 2 == 0
                       ? (int32_t)(hashed(i / 9, rank, k, 5) * 3)
                       : (int32_t)(512 * rank + i * (1 + k % 7) + (hashed(i, k, rank, 6) > 0.8));
    } else {
        char *p = region(s, step, rank, name, CAIRN_BYTES, DIMS(2048));
        size_t at = 0;

        for (i = 0; at < 2000; i++)
            at += (size_t)snprintf(p + at, 2048 - at, "%s%u",
                                   words[(unsigned)(8 * fabs(hashed(i, k, 0, 8))) % 8],
                                   (unsigned)(1000 * fabs(hashed(i, k, step, 9))));
    }
}

/* Cactus of the paper: 8,900 variables of 2 KB on each rank, a third of them doubles. */
static struct bench_set *make_cactus(const char *name, unsigned scale)
{
    struct bench_set *s = set_new(name, 4);
    unsigned k;
    uint32_t r;
    int step;

    for (step = 0; step < 2; step++)
        for (r = 0; r < 4; r++)
            for (k = 0; k < (scale > 1 ? 8900 : 2000); k++)
                fill_small(s, step, r, k);
    return s;
}

static double gauss(struct crn_rng *rng)
{
    double sum = 0;
    int k;

    for (k = 0; k < 6; k++)
        sum += crn_rng_unit(rng);
    return sum - 3;
}

/* Training: weights, and both moments of Adam, which are smaller and less regular, at two steps. */
static struct bench_set *make_ml(const char *name, unsigned scale)
{
    static const char *const names3[] = {"weight", "exp_avg", "exp_avg_sq"};
    struct bench_set *s = set_new(name, 2);
    uint64_t n = scale > 1 ? 400000 : 60000, i;
    struct crn_rng rng;
    uint32_t r, layer, k;
    char var[64];

    for (r = 0; r < 2; r++)
        for (layer = 0; layer < 4; layer++)
            for (k = 0; k < 3; k++) {
                float *a, *b;

                crn_rng_seed(&rng, 100 * r + 10 * layer + k);
                (void)snprintf(var, sizeof(var), "layers.%u.mlp.%s", layer, names3[k]);
                a = region(s, 0, r, var, CAIRN_F32, DIMS(n / 100, 100));
                b = region(s, 1, r, var, CAIRN_F32, DIMS(n / 100, 100));
                for (i = 0; i < n; i++) {
                    double g = gauss(&rng);

                    a[i] = (float)(k == 0 ? 0.02 * g : k == 1 ? 1e-4 * g : 1e-8 * g * g);
                    b[i] = a[i] + (float)(k == 0   ? 1e-4 * gauss(&rng)
                                          : k == 1 ? 1e-5 * gauss(&rng)
                                                   : 0.001 * a[i] * (gauss(&rng) - 1));
                }
            }
    return s;
}

static void put_big(unsigned char *p, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, 4);
    bits = __builtin_bswap32(bits);
    memcpy(p, &bits, 4);
}

/* Files of unknown format: records of five doubles after a header (a LAMMPS dump), and frames of
 * big-endian floats, positions then velocities (a GROMACS trajectory). */
static struct bench_set *make_opaque(const char *name, unsigned scale)
{
    struct bench_set *s = set_new(name, 4);
    uint64_t n = scale > 1 ? 60000 : 15000, i;
    struct crn_rng rng;
    uint32_t r;
    int step, k;

    for (step = 0; step < 2; step++)
        for (r = 0; r < 4; r++) {
            unsigned char *dump = region(s, step, r, "dump.bin", CAIRN_BYTES, DIMS(100 + 40 * n));
            unsigned char *trr = region(s, step, r, "traj.trr", CAIRN_BYTES, DIMS(84 + 24 * n));

            crn_rng_seed(&rng, 70 + r);
            for (i = 0; i < n; i++) {
                double g[3] = {gauss(&rng), gauss(&rng), gauss(&rng)};
                double record[5] = {(double)(n * r + i + 1), (double)(1 + i % 2), 0, 0, 0};

                for (k = 0; k < 3; k++) {
                    uint64_t place = k == 0 ? i % 24 : k == 1 ? i / 24 % 24 : i / 576;

                    record[2 + k] = 1.7 * (double)place + 0.05 * g[k] * (1 + 0.01 * step);
                    put_big(trr + 84 + 12 * i + 4 * k, (float)record[2 + k]);
                    put_big(trr + 84 + 12 * (n + i) + 4 * k, (float)(0.4 * gauss(&rng)));
                }
                memcpy(dump + 100 + 40 * i, record, sizeof(record));
            }
        }
    return s;
}

/* A smooth field without rounding noise: slopes predict it better than values. */
static struct bench_set *make_smooth(const char *name, unsigned scale)
{
    struct bench_set *s = set_new(name, 4);
    uint64_t n = scale > 1 ? 1000 : 300, i;
    uint32_t r;
    int step;

    for (step = 0; step < 2; step++)
        for (r = 0; r < 4; r++) {
            float *p = region(s, step, r, "phi", CAIRN_F32, DIMS(n, n));
            double *q = region(s, step, r, "profile", CAIRN_F64, DIMS(n * n / 4));

            for (i = 0; i < n * n; i++) {
                uint64_t row = i / n;

                p[i] = (float)(2 + sin(0.01 * (double)(i % n) + r) *
                                       cos(0.013 * (double)row + 0.1 * step));
            }
            for (i = 0; i < n * n / 4; i++)
                q[i] = exp(1e-6 * (double)i) + sin(1e-4 * (double)i + r + 0.1 * step);
        }
    return s;
}

/* One array in slabs of two planes for each rank, which are not in the order of the ranks. */
static struct bench_set *make_slabs(const char *name, unsigned scale)
{
    uint32_t ranks = 16, planes = 2;
    struct bench_set *s = set_new(name, ranks);
    uint64_t n = scale > 1 ? 128 : 48, i;
    int step;
    uint32_t r;

    for (step = 0; step < 2; step++)
        for (r = 0; r < ranks; r++) {
            double *p = region(s, step, r, "pressure", CAIRN_F64, DIMS(planes, n, n));
            struct crn_region *described = &s->shards[r].regions[0];
            uint64_t first = (uint64_t)planes * (5 * r % ranks);

            described->is_global = 1;
            memcpy(described->global_dims, described->dims, sizeof(described->dims));
            described->global_dims[0] = (uint64_t)planes * ranks;
            described->offset[0] = first;
            for (i = 0; i < planes * n * n; i++)
                p[i] = wave((int64_t)(i % n), (int64_t)(i / n % n), (int64_t)(first + i / n / n), 1,
                            step);
        }
    return s;
}

static const struct {
    const char *name;
    struct bench_set *(*make)(const char *name, unsigned scale);
} sets[] = {
    {"amr", make_amr},         {"particles", make_particles}, {"segmented", make_segmented},
    {"strided", make_strided}, {"repeated", make_repeated},   {"random", make_random},
    {"cactus", make_cactus},   {"ml-steps", make_ml},         {"opaque", make_opaque},
    {"smooth", make_smooth},   {"slabs", make_slabs},
};

static const char *const names[] = {
    "implosion-f32", "implosion-f64", "amr",      "particles", "segmented", "strided", "repeated",
    "random",        "cactus",        "ml-steps", "opaque",    "smooth",    "slabs"};

const char *const *bench_set_names(size_t *ret_n)
{
    *ret_n = sizeof(names) / sizeof(names[0]);
    return names;
}

struct bench_set *bench_set_make(const char *name, unsigned scale)
{
    size_t i;

    if (strcmp(name, "implosion-f32") == 0)
        return make_implosion(name, scale, CAIRN_F32);
    if (strcmp(name, "implosion-f64") == 0)
        return make_implosion(name, scale, CAIRN_F64);
    for (i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        if (strcmp(name, sets[i].name) == 0)
            return sets[i].make(name, scale);
    return NULL;
}
