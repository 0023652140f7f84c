/* SPDX-License-Identifier: BSD-3-Clause */
/* Two-dimensional Euler equations, the implosion of R. Liska and B. Wendroff (SIAM J. Sci. Comput.
 * 25(3), 2003): a diamond of thin gas in a corner, reflecting walls. Second order in space (limited
 * slopes), HLL fluxes, dimension by dimension. */
#include "encode_sets.h"

#include <math.h>
#include <stdlib.h>

#define GAMMA 1.4
#define GHOST 2

struct cell {
    double q[4]; /* density, momentum along, momentum across, energy */
};

static double pressure_of(const struct cell *c)
{
    double kinetic = 0.5 * (c->q[1] * c->q[1] + c->q[2] * c->q[2]) / c->q[0];

    return (GAMMA - 1) * (c->q[3] - kinetic);
}

static double limited(double a, double b)
{
    if (a * b <= 0)
        return 0;
    return fabs(a) < fabs(b) ? a : b;
}

static void flux_of(const struct cell *c, double f[4])
{
    double speed = c->q[1] / c->q[0];
    double p = pressure_of(c);

    f[0] = c->q[1];
    f[1] = c->q[1] * speed + p;
    f[2] = c->q[2] * speed;
    f[3] = (c->q[3] + p) * speed;
}

static void hll(const struct cell *l, const struct cell *r, double f[4])
{
    double cl = sqrt(GAMMA * fmax(pressure_of(l), 1e-12) / l->q[0]);
    double cr = sqrt(GAMMA * fmax(pressure_of(r), 1e-12) / r->q[0]);
    double ul = l->q[1] / l->q[0];
    double ur = r->q[1] / r->q[0];
    double sl = fmin(fmin(ul - cl, ur - cr), 0);
    double sr = fmax(fmax(ul + cl, ur + cr), 0);
    double fl[4];
    double fr[4];
    int k;

    flux_of(l, fl);
    flux_of(r, fr);
    for (k = 0; k < 4; k++)
        f[k] = (sr * fl[k] - sl * fr[k] + sl * sr * (r->q[k] - l->q[k])) / (sr - sl);
}

/* One row of n cells with GHOST more at each end. */
static void sweep(struct cell *row, size_t n, double dt_dx, struct cell *left, struct cell *right)
{
    size_t i;
    int k;

    for (i = 0; i < GHOST; i++) { /* walls */
        row[i] = row[2 * GHOST - 1 - i];
        row[i].q[1] = -row[i].q[1];
        row[n + GHOST + i] = row[n + GHOST - 1 - i];
        row[n + GHOST + i].q[1] = -row[n + GHOST + i].q[1];
    }
    for (i = 1; i < n + 2 * GHOST - 1; i++)
        for (k = 0; k < 4; k++) {
            double slope =
                0.5 * limited(row[i].q[k] - row[i - 1].q[k], row[i + 1].q[k] - row[i].q[k]);

            left[i].q[k] = row[i].q[k] - slope;
            right[i].q[k] = row[i].q[k] + slope;
        }
    for (i = GHOST; i <= n + GHOST; i++) {
        double f[4];

        hll(&right[i - 1], &left[i], f);
        for (k = 0; k < 4; k++) {
            if (i > GHOST)
                row[i - 1].q[k] -= dt_dx * f[k];
            if (i < n + GHOST)
                row[i].q[k] += dt_dx * f[k];
        }
    }
}

static void start(size_t n, double *d, double *u, double *v, double *p)
{
    size_t i;

    for (i = 0; i < n * n; i++) {
        double x = ((double)(i % n) + 0.5) / (double)n * 0.3;
        double y =
            ((double)(i / n) + 0.5) / (double)n * 0.3; /* NOLINT(bugprone-integer-division) */
        int is_thin = x + y < 0.15;

        d[i] = is_thin ? 0.125 : 1;
        p[i] = is_thin ? 0.14 : 1;
        u[i] = v[i] = 0;
    }
}

/* All rows in one direction. The fields are kept as primitives between sweeps. */
static void sweep_all(size_t n, int is_y, double dt_dx, double *d, double *u, double *v, double *p,
                      struct cell *room)
{
    struct cell *row = room;
    struct cell *left = room + n + 2 * GHOST;
    struct cell *right = left + n + 2 * GHOST;
    double *along = is_y ? v : u;
    double *across = is_y ? u : v;
    size_t i;
    size_t k;

    for (k = 0; k < n; k++) {
        for (i = 0; i < n; i++) {
            size_t at = is_y ? i * n + k : k * n + i;
            struct cell *c = &row[GHOST + i];

            c->q[0] = d[at];
            c->q[1] = d[at] * along[at];
            c->q[2] = d[at] * across[at];
            c->q[3] = p[at] / (GAMMA - 1) +
                      0.5 * d[at] * (along[at] * along[at] + across[at] * across[at]);
        }
        sweep(row, n, dt_dx, left, right);
        for (i = 0; i < n; i++) {
            size_t at = is_y ? i * n + k : k * n + i;
            const struct cell *c = &row[GHOST + i];

            d[at] = fmax(c->q[0], 1e-6);
            along[at] = c->q[1] / d[at];
            across[at] = c->q[2] / d[at];
            p[at] = fmax(pressure_of(c), 1e-9);
        }
    }
}

void bench_euler(size_t n, unsigned steps, double *density, double *u, double *v, double *pressure)
{
    struct cell *room = calloc(3 * (n + 2 * GHOST), sizeof(*room));
    unsigned s;

    if (room == NULL)
        return;
    if (density[0] < 0)
        start(n, density, u, v, pressure);
    for (s = 0; s < steps; s++) {
        double dt_dx = 0.2; /* the fastest wave is below 2.5 */

        sweep_all(n, (int)(s % 2), dt_dx, density, u, v, pressure, room);
        sweep_all(n, (int)((s + 1) % 2), dt_dx, density, u, v, pressure, room);
    }
    free(room);
}
