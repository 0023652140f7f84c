/* SPDX-License-Identifier: BSD-3-Clause */
/* Parallel HDF5: a file for each group, with one dataset of bytes, written collectively. Closing
 * an HDF5 file does not make it durable, so one rank calls fsync. */
#include "flush.h"

#include <fcntl.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static hid_t ok(hid_t id)
{
    if (id < 0)
        flush_die("HDF5", "a call failed");
    return id;
}

/* The dataset of the file and this rank's part of it: written, or read into buf. */
static void transfer(const struct flush_case *c, hid_t file, unsigned char *buf)
{
    hsize_t all = c->group_bytes, from = c->group_offset, count = c->bytes;
    hid_t space = ok(H5Screate_simple(1, &all, NULL));
    hid_t memory = ok(H5Screate_simple(1, &count, NULL));
    hid_t plist = ok(H5Pcreate(H5P_DATASET_XFER));
    hid_t set;

    ok(H5Pset_dxpl_mpio(plist, H5FD_MPIO_COLLECTIVE));
    ok(H5Sselect_hyperslab(space, H5S_SELECT_SET, &from, NULL, &count, NULL));
    if (buf == NULL) {
        set = ok(H5Dcreate(file, "data", H5T_NATIVE_UCHAR, space, H5P_DEFAULT, H5P_DEFAULT,
                           H5P_DEFAULT));
        ok(H5Dwrite(set, H5T_NATIVE_UCHAR, memory, space, plist, c->src));
    } else {
        set = ok(H5Dopen(file, "data", H5P_DEFAULT));
        ok(H5Dread(set, H5T_NATIVE_UCHAR, memory, space, plist, buf));
    }
    ok(H5Dclose(set));
    ok(H5Pclose(plist));
    ok(H5Sclose(memory));
    ok(H5Sclose(space));
}

static void hdf5_write(const struct flush_case *c)
{
    hid_t access = ok(H5Pcreate(H5P_FILE_ACCESS));
    char path[600];
    hid_t file;
    int fd;

    flush_path(c, "hdf5", c->group_no, path, sizeof(path));
    ok(H5Pset_fapl_mpio(access, c->group, MPI_INFO_NULL));
    file = ok(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access));
    transfer(c, file, NULL);
    ok(H5Fclose(file));
    ok(H5Pclose(access));
    if (c->group_rank != 0)
        return;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    flush_check_errno(fd, path);
    flush_check_errno(fsync(fd), path);
    (void)close(fd);
    flush_sync_dir(c);
}

static void hdf5_check(const struct flush_case *c)
{
    hid_t access = ok(H5Pcreate(H5P_FILE_ACCESS));
    unsigned char *buf = malloc(c->bytes);
    char path[600];
    hid_t file;

    if (buf == NULL)
        flush_die("memory", "there is not enough");
    flush_path(c, "hdf5", c->group_no, path, sizeof(path));
    ok(H5Pset_fapl_mpio(access, c->group, MPI_INFO_NULL));
    file = ok(H5Fopen(path, H5F_ACC_RDONLY, access));
    transfer(c, file, buf);
    ok(H5Fclose(file));
    ok(H5Pclose(access));
    flush_compare(c, buf, 0, c->bytes, path);
    free(buf);
}

const struct flush_method flush_hdf5 = {"hdf5-collective", hdf5_write, hdf5_check};
