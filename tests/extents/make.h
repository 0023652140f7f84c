/* SPDX-License-Identifier: BSD-3-Clause */
/* HDF5 and netCDF files of all layouts, with known elements. */
#ifndef EXTENTS_MAKE_H
#define EXTENTS_MAKE_H

#define ROWS 60
#define COLS 70

/* The i-th element of every array. */
static inline double element(unsigned long i)
{
    return 1.5 * (double)i - 100;
}

/* Makes old.h5, new.h5 (latest formats), user.h5 (user block), 1.nc, 2.nc, 5.nc (classic), 4.nc in a
 * directory; exits where that fails. */
void make_files(const char *dir);

#endif
