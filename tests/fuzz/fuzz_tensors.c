/* SPDX-License-Identifier: BSD-3-Clause */
/* safetensors, .npy and zip archives: the input is the file, for all three. */
#include "encode/extents.h"
#include "fuzz.h"
#include "fuzz_extents.h"

struct fuzz_file {
    struct crn_extents_file f; /* first */
    const uint8_t *data;
};

static size_t fuzz_read(const struct crn_extents_file *f, void *buf, size_t n, uint64_t offset)
{
    const struct fuzz_file *file = (const struct fuzz_file *)(const void *)f;

    if (offset > f->bytes || n > f->bytes - offset)
        return 0;
    memcpy(buf, file->data + offset, n);
    return n;
}

static void check(struct crn_file_extents *x, uint64_t bytes)
{
    crn_extents_finish(x, bytes);
    fuzz_extents_check(x, bytes);
    crn_extents_free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1); /* so that an access one byte beyond is detected */
    struct fuzz_file file = {.f = {.bytes = size, .read = fuzz_read}, .data = copy};
    struct crn_file_extents x;

    if (copy == NULL)
        return 0;
    if (size > 0)
        memcpy(copy, data, size);
    (void)crn_extents_safetensors(copy, size, size, &x);
    check(&x, size);
    memset(&x, 0, sizeof(x));
    crn_extents_npy(copy, size, 0, "a", 1, &x);
    check(&x, size);
    crn_extents_zip(&file.f, &x);
    check(&x, size);
    free(copy);
    return 0;
}
