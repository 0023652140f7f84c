/* SPDX-License-Identifier: BSD-3-Clause */
/* An HDF5 file with one dataset of the region's name and shape. */
#include "cli/sink.h"

#include <hdf5.h>
#include <string.h>

struct h5 {
    hid_t file, type, space, data;
    int ndims;
    const char *path;
};

static hid_t complex_type(hid_t part)
{
    size_t n = H5Tget_size(part);
    hid_t t = H5Tcreate(H5T_COMPOUND, 2 * n);

    if (t >= 0 && (H5Tinsert(t, "r", 0, part) < 0 || H5Tinsert(t, "i", n, part) < 0)) {
        (void)H5Tclose(t);
        return H5I_INVALID_HID;
    }
    return t;
}

/* A float of 16 bits. */
static hid_t half_type(size_t mantissa)
{
    size_t exponent = 15 - mantissa;
    hid_t t = H5Tcopy(H5T_IEEE_F32LE);

    if (t >= 0 &&
        (H5Tset_fields(t, 15, mantissa, exponent, 0, mantissa) < 0 || H5Tset_size(t, 2) < 0 ||
         H5Tset_ebias(t, ((size_t)1 << (exponent - 1)) - 1) < 0)) {
        (void)H5Tclose(t);
        return H5I_INVALID_HID;
    }
    return t;
}

/* A type that the caller closes. */
static hid_t type_of(uint8_t type)
{
    switch (type) {
    case CAIRN_C64:
        return complex_type(H5T_NATIVE_FLOAT);
    case CAIRN_C128:
        return complex_type(H5T_NATIVE_DOUBLE);
    case CAIRN_F32:
        return H5Tcopy(H5T_NATIVE_FLOAT);
    case CAIRN_F64:
        return H5Tcopy(H5T_NATIVE_DOUBLE);
    case CAIRN_F16:
        return half_type(10);
    case CAIRN_BF16:
        return half_type(7);
    case CAIRN_I8:
        return H5Tcopy(H5T_NATIVE_INT8);
    case CAIRN_I16:
        return H5Tcopy(H5T_NATIVE_INT16);
    case CAIRN_U16:
        return H5Tcopy(H5T_NATIVE_UINT16);
    case CAIRN_I32:
        return H5Tcopy(H5T_NATIVE_INT32);
    case CAIRN_U32:
        return H5Tcopy(H5T_NATIVE_UINT32);
    case CAIRN_I64:
        return H5Tcopy(H5T_NATIVE_INT64);
    case CAIRN_U64:
        return H5Tcopy(H5T_NATIVE_UINT64);
    default:
        return H5Tcopy(H5T_NATIVE_UINT8);
    }
}

static cairn_err h5_open(void *ctx, const char *path, const struct cli_array *a,
                         struct crn_errinfo *ei)
{
    struct h5 *h = ctx;
    hsize_t dims[CAIRN_MAX_DIMS];
    int d;

    h->path = path;
    h->ndims = a->region.ndims;
    h->type = h->space = h->data = H5I_INVALID_HID;
    for (d = 0; d < h->ndims; d++)
        dims[d] = a->region.dims[d];
    (void)H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* our message is enough */
    h->file = H5Fcreate(path, H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
    if (h->file < 0)
        return crn_fail(ei, CAIRN_EIO, 0, "HDF5 cannot create '%s'", path);
    h->type = type_of(a->region.type);
    h->space = H5Screate_simple(h->ndims, dims, NULL);
    h->data = H5Dcreate2(h->file, a->region.name, h->type, h->space, H5P_DEFAULT, H5P_DEFAULT,
                         H5P_DEFAULT);
    if (h->data < 0)
        return crn_fail(ei, CAIRN_EIO, 0, "HDF5 cannot create the dataset '%s'", a->region.name);
    return CAIRN_OK;
}

static cairn_err h5_write(void *ctx, const struct cli_piece *p, const void *buf,
                          struct crn_errinfo *ei)
{
    struct h5 *h = ctx;
    hsize_t start[CAIRN_MAX_DIMS], count[CAIRN_MAX_DIMS];
    hid_t memory;
    herr_t r;
    int d;

    for (d = 0; d < h->ndims; d++) {
        start[d] = p->start[d];
        count[d] = p->count[d];
    }
    memory = H5Screate_simple(h->ndims, count, NULL);
    r = H5Sselect_hyperslab(h->space, H5S_SELECT_SET, start, NULL, count, NULL);
    if (r >= 0)
        r = H5Dwrite(h->data, h->type, memory, h->space, H5P_DEFAULT, buf);
    (void)H5Sclose(memory);
    if (r < 0)
        return crn_fail(ei, CAIRN_EIO, 0, "HDF5 cannot write to '%s'", h->path);
    return CAIRN_OK;
}

static cairn_err h5_finish(void *ctx, int ok, struct crn_errinfo *ei)
{
    struct h5 *h = ctx;
    herr_t r = 0;

    if (h->data >= 0)
        r |= H5Dclose(h->data);
    if (h->space >= 0)
        (void)H5Sclose(h->space);
    if (h->type >= 0)
        (void)H5Tclose(h->type);
    if (h->file >= 0)
        r |= H5Fclose(h->file);
    if (ok && r < 0)
        return crn_fail(ei, CAIRN_EIO, 0, "HDF5 cannot finish '%s'", h->path);
    return CAIRN_OK;
}

const struct cli_sink_ops crn_sink_hdf5 = {
    .name = "hdf5",
    .suffix = ".h5",
    .ctx_size = sizeof(struct h5),
    .open = h5_open,
    .write = h5_write,
    .finish = h5_finish,
};
