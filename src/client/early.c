/* SPDX-License-Identifier: BSD-3-Clause */
/* Samples of a source that is read in the background. A lazy capture is right only if its source
 * does not change before it has been read. To see whether it did, some bytes of every region are
 * compared: of host memory as they were when the application asked for the checkpoint, and of all
 * memory as they are when the copy is complete. */
#include <stdlib.h>
#include <string.h>

#include "client/session.h"

#define SAMPLE_BYTES 64
#define SAMPLES      512 /* shared by the regions according to their size, at least one each */
#define SAMPLES_GPU  64  /* each costs a copy of its own */

struct sample {
    uint32_t region;
    uint32_t bytes;
    uint64_t at;                        /* in the region */
    unsigned char before[SAMPLE_BYTES]; /* host memory: when the application called */
    unsigned char after[SAMPLE_BYTES];  /* device memory: when the regions were copied */
};

struct crn_early {
    size_t n;
    struct sample samples[];
};

static size_t samples_of(const struct crn_capture *c, uint32_t region, uint64_t total)
{
    uint64_t most = c->places[region].device != NULL ? SAMPLES_GPU : SAMPLES;
    uint64_t bytes = c->shard.regions[region].bytes;

    return bytes == 0 ? 0 : 1 + (size_t)((double)bytes / (double)total * (double)most);
}

/* Evenly spread; the last sample ends with the region. */
static void place_sample(struct sample *x, uint64_t bytes, size_t k, size_t n)
{
    uint64_t room = bytes > SAMPLE_BYTES ? bytes - SAMPLE_BYTES : 0;

    x->at = k == 0 ? 0 : k + 1 == n ? room : room / (n - 1) * k;
    x->bytes = bytes < SAMPLE_BYTES ? (uint32_t)bytes : SAMPLE_BYTES;
}

struct crn_early *crn_early_sample(const struct crn_capture *c)
{
    struct crn_early *e;
    uint64_t total = 0;
    size_t n = 0;
    uint32_t i;
    size_t k;

    for (i = 0; i < c->nmemory; i++)
        total += c->shard.regions[i].bytes;
    for (i = 0; i < c->nmemory; i++)
        n += samples_of(c, i, total);
    e = malloc(sizeof(*e) + n * sizeof(e->samples[0]));
    if (e == NULL)
        return NULL;
    e->n = 0;
    for (i = 0; i < c->nmemory; i++) {
        size_t of_region = samples_of(c, i, total);

        for (k = 0; k < of_region; k++) {
            struct sample *x = &e->samples[e->n++];

            x->region = i;
            place_sample(x, c->shard.regions[i].bytes, k, of_region);
            if (c->places[i].device == NULL)
                memcpy(x->before, (const char *)c->places[i].ptr + x->at, x->bytes);
        }
    }
    return e;
}

cairn_err crn_early_give(cairn_session *s, struct crn_capture *c, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    size_t i;

    for (i = 0; c->early != NULL && rc == CAIRN_OK && i < c->early->n; i++) {
        struct sample *x = &c->early->samples[i];
        struct crn_place place = c->places[x->region];

        if (place.device == NULL)
            continue;
        place.ptr = (char *)place.ptr + x->at;
        rc = crn_gpu_capture(s, &place, x->after, x->bytes, ei);
    }
    return rc;
}

static int has_changed(const struct crn_capture *c, const struct sample *x,
                       const unsigned char *image)
{
    const unsigned char *copy = image + c->image.at[x->region] + x->at;
    const struct crn_place *place = &c->places[x->region];

    if (place->device != NULL)
        return memcmp(copy, x->after, x->bytes) != 0;
    return memcmp(copy, x->before, x->bytes) != 0 ||
           memcmp(copy, (const char *)place->ptr + x->at, x->bytes) != 0;
}

cairn_err crn_early_check(const struct crn_capture *c, const unsigned char *image,
                          struct crn_errinfo *ei)
{
    size_t i;

    for (i = 0; c->early != NULL && i < c->early->n; i++)
        if (has_changed(c, &c->early->samples[i], image))
            return crn_fail(ei, CAIRN_ESTATE, 0,
                            "region '%s' changed before it was read; call cairn_source_free before "
                            "changing the memory of a lazy checkpoint",
                            c->shard.regions[c->early->samples[i].region].name);
    return CAIRN_OK;
}
