/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn-hdf5-extents: reads an HDF5 file from standard input and writes the locations of its
 * datasets to standard output, as crn_extents_encode formats them. A separate program with limits
 * on time and memory contains whatever libhdf5 does with a damaged file. It reads only metadata;
 * filters and plugins never run.
 *
 * Contiguous datasets and unfiltered chunks of integers, floating-point and complex numbers have
 * extents; compressed, compact, virtual and external ones and other types have none. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "encode/extents.h"

#define SECONDS_CPU  20
#define SECONDS_WALL 60
#define MEMORY       ((rlim_t)4 << 30)

#if H5_VERSION_GE(1, 12, 0)
typedef H5O_info2_t object_info;
#define VISIT(file, fn, arg)                                                                       \
    H5Ovisit3((file), H5_INDEX_NAME, H5_ITER_NATIVE, (fn), (arg), H5O_INFO_BASIC)
#else
typedef H5O_info_t object_info;
#define VISIT(file, fn, arg)                                                                       \
    H5Ovisit2((file), H5_INDEX_NAME, H5_ITER_NATIVE, (fn), (arg), H5O_INFO_BASIC)
#endif

/* The result of the visit. */
struct hdf5_extents_found {
    struct crn_file_extents x;
    hsize_t user_block; /* bytes before the HDF5 data */
};

struct dataset {
    const char *key;
    cairn_type type;
    int is_big_endian;
    int ndims;
    hsize_t dims[H5S_MAX_RANK];
};

/* Types. --------------------------------------------------------------------------------------- */

static int is_plain_integer(hid_t t)
{
    size_t size = H5Tget_size(t);

    return (size == 1 || size == 2 || size == 4 || size == 8) && H5Tget_precision(t) == 8 * size &&
           H5Tget_offset(t) == 0;
}

static cairn_type integer_type(hid_t t)
{
    int is_signed = H5Tget_sign(t) == H5T_SGN_2;

    switch (H5Tget_size(t)) {
    case 1:
        return is_signed ? CAIRN_I8 : CAIRN_U8;
    case 2:
        return is_signed ? CAIRN_I16 : CAIRN_U16;
    case 4:
        return is_signed ? CAIRN_I32 : CAIRN_U32;
    default:
        return is_signed ? CAIRN_I64 : CAIRN_U64;
    }
}

/* 0 and the type, or -1 if it is not IEEE. */
static int float_type(hid_t t, cairn_type *ret)
{
    if (H5Tequal(t, H5T_IEEE_F32LE) > 0 || H5Tequal(t, H5T_IEEE_F32BE) > 0)
        *ret = CAIRN_F32;
    else if (H5Tequal(t, H5T_IEEE_F64LE) > 0 || H5Tequal(t, H5T_IEEE_F64BE) > 0)
        *ret = CAIRN_F64;
    else
        return -1;
    return 0;
}

/* A compound of two equal floating-point numbers and nothing else. */
static int complex_type(hid_t t, struct dataset *d)
{
    hid_t a = H5Tget_nmembers(t) == 2 ? H5Tget_member_type(t, 0) : H5I_INVALID_HID;
    hid_t b = a >= 0 ? H5Tget_member_type(t, 1) : H5I_INVALID_HID;
    int rc = -1;

    if (b >= 0 && H5Tget_class(a) == H5T_FLOAT && H5Tequal(a, b) > 0 &&
        H5Tget_member_offset(t, 0) == 0 && H5Tget_member_offset(t, 1) == H5Tget_size(a) &&
        H5Tget_size(t) == 2 * H5Tget_size(a) && float_type(a, &d->type) == 0) {
        d->is_big_endian = H5Tget_order(a) == H5T_ORDER_BE;
        d->type = d->type == CAIRN_F32 ? CAIRN_C64 : CAIRN_C128;
        rc = d->is_big_endian ? -1 : 0;
    }
    if (a >= 0)
        (void)H5Tclose(a);
    if (b >= 0)
        (void)H5Tclose(b);
    return rc;
}

static int type_of(hid_t t, struct dataset *d)
{
    d->is_big_endian = H5Tget_order(t) == H5T_ORDER_BE;
    switch (H5Tget_class(t)) {
    case H5T_INTEGER:
        d->type = integer_type(t);
        return is_plain_integer(t) ? 0 : -1;
    case H5T_FLOAT:
        return float_type(t, &d->type);
    case H5T_COMPOUND:
        return complex_type(t, d);
    default:
        return -1;
    }
}

/* Locations. ----------------------------------------------------------------------------------- */

static void hdf5_extents_add(struct crn_file_extents *x, const struct dataset *d, haddr_t at,
                             const hsize_t *dims)
{
    uint64_t shape[H5S_MAX_RANK];
    int i;

    for (i = 0; i < d->ndims; i++)
        shape[i] = dims[i];
    crn_extents_add(x, d->key, d->type, d->is_big_endian, at, shape, (unsigned)d->ndims);
}

/* Queries every position of the chunk grid, which is cheaper than querying by number. Chunks at
 * the edges are stored whole. */
static void add_chunks(struct crn_file_extents *x, const struct dataset *d, hid_t data, hid_t plist)
{
    hsize_t chunk[H5S_MAX_RANK], at[H5S_MAX_RANK] = {0};
    hsize_t bytes;
    haddr_t place;
    unsigned mask;
    int i;

    if (H5Pget_chunk(plist, d->ndims, chunk) != d->ndims)
        return;
    for (i = 0; i < d->ndims; i++)
        if (d->dims[i] == 0 || chunk[i] == 0)
            return;
    for (;;) {
        if (x->n >= CRN_EXTENTS_MAX ||
            H5Dget_chunk_info_by_coord(data, at, &mask, &place, &bytes) < 0)
            return;
        if (place != HADDR_UNDEF && bytes > 0)
            hdf5_extents_add(x, d, place, chunk);
        for (i = d->ndims - 1; i >= 0 && (at[i] += chunk[i]) >= d->dims[i]; i--)
            at[i] = 0;
        if (i < 0)
            return;
    }
}

static void add_dataset(struct hdf5_extents_found *f, struct dataset *d, hid_t data, hid_t plist)
{
    haddr_t at;

    if (H5Pget_nfilters(plist) != 0)
        return;
    switch (H5Pget_layout(plist)) {
    case H5D_CONTIGUOUS:
        at = H5Pget_external_count(plist) == 0 ? H5Dget_offset(data) : HADDR_UNDEF;
        if (at != HADDR_UNDEF)
            hdf5_extents_add(&f->x, d, at, d->dims);
        return;
    case H5D_CHUNKED:
        if (f->user_block == 0) /* HDF5 releases differ in whether they count it here */
            add_chunks(&f->x, d, data, plist);
        return;
    default:
        return;
    }
}

static herr_t hdf5_extents_visit(hid_t file, const char *name, const object_info *info, void *arg)
{
    struct hdf5_extents_found *f = arg;
    struct dataset d = {0};
    hid_t data, type, space, plist;

    if (info->type != H5O_TYPE_DATASET)
        return 0;
    data = H5Dopen2(file, name, H5P_DEFAULT);
    if (data < 0)
        return 0; /* this one is plain */
    type = H5Dget_type(data);
    space = H5Dget_space(data);
    plist = H5Dget_create_plist(data);
    if (type >= 0 && space >= 0 && plist >= 0 && type_of(type, &d) == 0) {
        d.ndims = H5Sget_simple_extent_dims(space, d.dims, NULL);
        d.key = crn_extents_key(&f->x, name, strlen(name));
        if (d.ndims > 0)
            add_dataset(f, &d, data, plist);
    }
    if (plist >= 0)
        (void)H5Pclose(plist);
    if (space >= 0)
        (void)H5Sclose(space);
    if (type >= 0)
        (void)H5Tclose(type);
    (void)H5Dclose(data);
    return 0;
}

static void hdf5_extents_limit(void)
{
    const struct rlimit cpu = {SECONDS_CPU, SECONDS_CPU};
    const struct rlimit no_core = {0, 0};

    (void)alarm(SECONDS_WALL);
    (void)setrlimit(RLIMIT_CPU, &cpu);
    (void)setrlimit(RLIMIT_CORE, &no_core);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const struct rlimit memory = {MEMORY, MEMORY};

    (void)setrlimit(RLIMIT_AS, &memory);
#endif
}

static int write_all(const struct crn_buf *b)
{
    size_t done = 0;

    while (!b->failed && done < b->len) {
        ssize_t n = write(STDOUT_FILENO, b->data + done, b->len - done);

        if (n <= 0)
            return -1;
        done += (size_t)n;
    }
    return b->failed ? -1 : 0;
}

/* 0, or -1 if the file as a whole is not understood. */
static int hdf5_extents_look(hid_t file, struct hdf5_extents_found *f)
{
    hid_t plist = H5Fget_create_plist(file);
    int rc = -1;

    if (plist >= 0 && H5Pget_userblock(plist, &f->user_block) >= 0 &&
        VISIT(file, hdf5_extents_visit, f) >= 0)
        rc = f->x.failed ? -1 : 0;
    if (plist >= 0)
        (void)H5Pclose(plist);
    return rc;
}

int main(int argc, char **argv)
{
    struct hdf5_extents_found found = {0};
    struct crn_buf answer = {0};
    hid_t file;
    int status = 1;

    if (argc > 1 && strcmp(argv[1], "--version") == 0)
        return printf("cairn-hdf5-extents %s\n", CAIRN_VERSION) < 0;
    hdf5_extents_limit();
    (void)setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1); /* the writer's business is not ours */
    (void)H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    (void)H5PLset_loading_state(0);
    file = H5Fopen("/proc/self/fd/0", H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file >= 0 && hdf5_extents_look(file, &found) == 0) {
        crn_extents_encode(&found.x, &answer);
        status = write_all(&answer) == 0 ? 0 : 1;
    }
    crn_buf_free(&answer);
    crn_extents_free(&found.x);
    _exit(status); /* do not close the file: that may crash if it is damaged */
}
