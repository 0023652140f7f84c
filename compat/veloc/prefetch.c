/* SPDX-License-Identifier: BSD-3-Clause */
/* Prefetching. VELOC's hints are versions without a name. They refer to the checkpoint that the
 * program takes or restores, whose name may not be known yet. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "veloc.h"

void crn_vlc_hints_close(struct crn_vlc_hints *h)
{
    free(h->version);
    memset(h, 0, sizeof(*h));
}

void crn_vlc_hints_name(struct crn_vlc_client *c, const char *cairn_name)
{
    struct crn_vlc_hints *h = &c->hints;
    size_t i;

    memcpy(h->name, cairn_name, strlen(cairn_name) + 1);
    for (i = 0; i < h->n; i++)
        if (cairn_prefetch_enqueue(c->face.session, h->name, h->version[i]) != CAIRN_OK)
            crn_log(&c->face.log, CRN_WARN, "a hint is ignored, continuing: %s",
                    cairn_last_error());
    h->n = 0;
}

static cairn_err prefetch_enqueue(struct crn_vlc_client *c, int version, struct crn_errinfo *ei)
{
    struct crn_vlc_hints *h = &c->hints;
    int *grown;

    if (version < 0)
        return crn_fail(ei, CAIRN_EINVAL, 0, "version %d is negative", version);
    if (h->name[0] != '\0')
        return crn_face_result(cairn_prefetch_enqueue(c->face.session, h->name, version), ei);
    grown = realloc(h->version, (h->n + 1) * sizeof(*grown));
    if (grown == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu hints", h->n + 1);
    h->version = grown;
    h->version[h->n++] = version;
    return CAIRN_OK;
}

VELOC_API int VELOC_Prefetch_enqueue(int version)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);
    struct crn_errinfo ei = {0};

    return c == NULL ? VELOC_FAILURE
                     : crn_vlc_end(c, __func__, prefetch_enqueue(c, version, &ei), &ei);
}

VELOC_API int VELOC_Prefetch_start(void)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);
    struct crn_errinfo ei = {0};

    return c == NULL
               ? VELOC_FAILURE
               : crn_vlc_end(c, __func__,
                             crn_face_result(cairn_prefetch_start(c->face.session), &ei), &ei);
}
