/* SPDX-License-Identifier: BSD-3-Clause */
#include "make.h"

#include <hdf5.h>
#include <netcdf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static const char *where_to;

static char *path_of(const char *name)
{
    static char path[1200];

    (void)snprintf(path, sizeof(path), "%s/%s", where_to, name);
    return path;
}

#define must(ok)                                                                                   \
    do {                                                                                           \
        if (!(ok)) {                                                                               \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #ok);                         \
            exit(2);                                                                               \
        }                                                                                          \
    } while (0)

static void h5_write(hid_t where, const char *name, hid_t file_type, hid_t plist, hsize_t rows)
{
    hsize_t dims[2] = {rows, COLS}, most[2] = {H5S_UNLIMITED, COLS};
    int is_chunked = plist != H5P_DEFAULT && H5Pget_layout(plist) == H5D_CHUNKED;
    hid_t space = H5Screate_simple(2, dims, is_chunked ? most : NULL);
    hid_t links = H5Pcreate(H5P_LINK_CREATE);
    double *data = calloc(rows * COLS, sizeof(*data));
    hid_t set;
    uint64_t i;

    must(data != NULL);
    for (i = 0; i < rows * COLS; i++)
        data[i] = element(i);
    (void)H5Pset_create_intermediate_group(links, 1);
    set = H5Dcreate2(where, name, file_type, space, links, plist, H5P_DEFAULT);
    must(set >= 0);
    must(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
    (void)H5Dclose(set);
    (void)H5Pclose(links);
    (void)H5Sclose(space);
    free(data);
}

static hid_t chunked(int with_deflate)
{
    hsize_t chunk[2] = {16, 32};
    hid_t p = H5Pcreate(H5P_DATASET_CREATE);

    (void)H5Pset_chunk(p, 2, chunk);
    if (with_deflate)
        (void)H5Pset_deflate(p, 4);
    return p;
}

static void h5_virtual(hid_t file)
{
    hsize_t dims[2] = {ROWS, COLS};
    hid_t space = H5Screate_simple(2, dims, NULL);
    hid_t p = H5Pcreate(H5P_DATASET_CREATE);
    hid_t set;

    must(H5Pset_virtual(p, space, ".", "/plain", space) >= 0);
    set = H5Dcreate2(file, "virtual", H5T_IEEE_F64LE, space, H5P_DEFAULT, p, H5P_DEFAULT);
    must(set >= 0);
    (void)H5Dclose(set);
    (void)H5Pclose(p);
    (void)H5Sclose(space);
}

/* Complex numbers and a type that is no number. */
static void h5_compounds(hid_t file)
{
    hsize_t dims[1] = {500};
    hid_t space = H5Screate_simple(1, dims, NULL);
    hid_t z = H5Tcreate(H5T_COMPOUND, 16), odd = H5Tcreate(H5T_COMPOUND, 12);
    double data[1000];
    hid_t set;
    int i;

    for (i = 0; i < 1000; i++)
        data[i] = element((uint64_t)i);
    (void)H5Tinsert(z, "r", 0, H5T_IEEE_F64LE);
    (void)H5Tinsert(z, "i", 8, H5T_IEEE_F64LE);
    (void)H5Tinsert(odd, "a", 0, H5T_IEEE_F64LE);
    (void)H5Tinsert(odd, "b", 8, H5T_STD_I32LE);
    set = H5Dcreate2(file, "complex", z, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    must(H5Dwrite(set, z, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
    (void)H5Dclose(set);
    set = H5Dcreate2(file, "particles", odd, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    (void)H5Dclose(set);
    (void)H5Tclose(z);
    (void)H5Tclose(odd);
    (void)H5Sclose(space);
}

static void make_hdf5(const char *name, hsize_t user_block, int is_latest)
{
    hid_t create = H5Pcreate(H5P_FILE_CREATE), access = H5Pcreate(H5P_FILE_ACCESS);
    hid_t compact = H5Pcreate(H5P_DATASET_CREATE), external = H5Pcreate(H5P_DATASET_CREATE);
    hid_t chunks = chunked(0), deflate = chunked(1);
    hid_t file;

    (void)H5Pset_userblock(create, user_block);
    if (is_latest)
        (void)H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    file = H5Fcreate(path_of(name), H5F_ACC_TRUNC, create, access);
    must(file >= 0);
    (void)H5Pset_layout(compact, H5D_COMPACT);
    (void)H5Pset_external(external, path_of("external.raw"), 0, H5F_UNLIMITED);
    h5_write(file, "plain", H5T_IEEE_F64LE, H5P_DEFAULT, ROWS);
    h5_write(file, "fields/float", H5T_IEEE_F32LE, H5P_DEFAULT, ROWS);
    h5_write(file, "fields/deep/int", H5T_STD_I32LE, H5P_DEFAULT, ROWS);
    h5_write(file, "big", H5T_IEEE_F64BE, H5P_DEFAULT, ROWS);
    h5_write(file, "chunked", H5T_IEEE_F64LE, chunks, ROWS);
    h5_write(file, "deflated", H5T_IEEE_F64LE, deflate, ROWS);
    h5_write(file, "compact", H5T_IEEE_F64LE, compact, 5);
    h5_write(file, "external", H5T_IEEE_F64LE, external, ROWS);
    h5_virtual(file);
    h5_compounds(file);
    must(H5Fclose(file) >= 0);
    (void)H5Pclose(create);
    (void)H5Pclose(access);
    (void)H5Pclose(compact);
    (void)H5Pclose(external);
    (void)H5Pclose(chunks);
    (void)H5Pclose(deflate);
}

static void make_netcdf(const char *name, int mode)
{
    static double data[5 * ROWS * COLS];
    int file, dims[3], v[5];
    uint64_t i;

    for (i = 0; i < 5UL * ROWS * COLS; i++)
        data[i] = element(i);
    must(nc_create(path_of(name), mode | NC_CLOBBER, &file) == 0);
    (void)nc_set_fill(file, NC_NOFILL, NULL);
    must(nc_def_dim(file, "t", NC_UNLIMITED, &dims[0]) == 0);
    must(nc_def_dim(file, "y", ROWS, &dims[1]) == 0);
    must(nc_def_dim(file, "x", COLS, &dims[2]) == 0);
    must(nc_put_att_text(file, NC_GLOBAL, "title", 5, "title") == 0);
    must(nc_def_var(file, "plain", NC_DOUBLE, 2, dims + 1, &v[0]) == 0);
    must(nc_def_var(file, "float", NC_FLOAT, 2, dims + 1, &v[1]) == 0);
    must(nc_def_var(file, "u", NC_DOUBLE, 3, dims, &v[2]) == 0);
    must(nc_def_var(file, "s", NC_SHORT, 1, dims, &v[3]) == 0);
    must(nc_def_var(file, "w", NC_INT, 3, dims, &v[4]) == 0);
    must(nc_put_att_text(file, v[0], "units", 1, "K") == 0);
    must(nc_enddef(file) == 0);
    must(nc_put_var_double(file, v[0], data) == 0);
    must(nc_put_var_double(file, v[1], data) == 0);
    for (i = 0; i < 5; i++) {
        size_t start[3] = {i}, count[3] = {1, ROWS, COLS};

        must(nc_put_vara_double(file, v[2], start, count, data + i * ROWS * COLS) == 0);
        must(nc_put_vara_double(file, v[3], start, count, data) == 0);
        must(nc_put_vara_double(file, v[4], start, count, data + i * ROWS * COLS) == 0);
    }
    must(nc_close(file) == 0);
}

void make_files(const char *dir)
{
    where_to = dir;
    make_hdf5("old.h5", 0, 0);
    make_hdf5("new.h5", 0, 1);
    make_hdf5("user.h5", 1024, 0);
    make_netcdf("1.nc", 0);
    make_netcdf("2.nc", NC_64BIT_OFFSET);
    make_netcdf("5.nc", NC_64BIT_DATA);
    make_netcdf("4.nc", NC_NETCDF4);
}
