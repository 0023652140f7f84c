/* SPDX-License-Identifier: BSD-3-Clause */
/* A file has a header, the packed tree, and perhaps a checksum. A packed tree is the number of its
 * elements, then each element: a text with its final zero, and the packed tree below it. All numbers
 * are big-endian. */
#include "cli/kvtree.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC        UINT32_C(0x951fc3f5)
#define HEADER_BYTES 20
#define HAS_CRC32    1U
#define MAX_DEPTH    64
#define LEAST_BYTES  5 /* of an element: an empty text and a count of 0 */

struct kvtree_cursor {
    const char *p, *end;
    struct crn_kvtree *tree;
    uint32_t room; /* for nodes */
};

static uint32_t be32(const char *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return be32toh(v);
}

/* CRC-32 of IEEE 802.3; these files are small. */
static uint32_t crc32_of(const char *p, size_t n)
{
    uint32_t crc = UINT32_MAX;
    size_t i;
    int k;

    for (i = 0; i < n; i++) {
        crc ^= (unsigned char)p[i];
        for (k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
    }
    return ~crc;
}

/* Reads the elements below a node; 0, or -1 if they are not well formed. */
static int unpack(struct kvtree_cursor *c, uint32_t parent, int depth)
{
    uint32_t last = 0;
    uint32_t count, i;

    if (depth == MAX_DEPTH || c->end - c->p < 4)
        return -1;
    count = be32(c->p);
    c->p += 4;
    if (count > (size_t)(c->end - c->p) / LEAST_BYTES)
        return -1;
    for (i = 0; i < count; i++) {
        const char *zero = memchr(c->p, 0, (size_t)(c->end - c->p));
        uint32_t at = c->tree->n;

        if (zero == NULL || at == c->room)
            return -1;
        c->tree->n++;
        c->tree->node[at] = (struct crn_kvnode){.key = c->p};
        if (last == 0)
            c->tree->node[parent].first = at;
        else
            c->tree->node[last].next = at;
        last = at;
        c->p = zero + 1;
        if (unpack(c, at, depth + 1) != 0)
            return -1;
    }
    return 0;
}

/* The packed tree of a file, between *ret_from and *ret_to; NULL or what is wrong. */
static const char *kvtree_frame(const char *p, size_t n, size_t *ret_from, size_t *ret_to)
{
    uint64_t bytes;
    uint32_t flags;

    if (n < HEADER_BYTES)
        return "it is too short";
    if (be32(p) != MAGIC)
        return "it is no file of KVTree";
    memcpy(&bytes, p + 8, sizeof(bytes));
    bytes = be64toh(bytes);
    flags = be32(p + 16);
    *ret_from = HEADER_BYTES;
    if (bytes > n || bytes < HEADER_BYTES + (flags & HAS_CRC32 ? 4U : 0U))
        return "it is cut off";
    *ret_to = (size_t)bytes;
    if (!(flags & HAS_CRC32))
        return NULL;
    *ret_to -= 4;
    return be32(p + *ret_to) == crc32_of(p, *ret_to) ? NULL : "its checksum is wrong";
}

cairn_err crn_kvtree_parse(const void *file, size_t bytes, size_t offset, struct crn_kvtree *ret,
                           struct crn_errinfo *ei)
{
    const char *wrong;
    struct kvtree_cursor c = {.tree = ret};
    size_t from = 0, to = 0;

    memset(ret, 0, sizeof(*ret));
    wrong = offset > bytes ? "it is too short"
                           : kvtree_frame((const char *)file + offset, bytes - offset, &from, &to);
    if (wrong == NULL && (to - from) / LEAST_BYTES >= UINT32_MAX - 1)
        wrong = "it is too large";
    if (wrong != NULL)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s", wrong);
    c.room = (uint32_t)((to - from) / LEAST_BYTES) + 1;
    ret->bytes = malloc(to - from + 1);
    ret->node = calloc(c.room, sizeof(*ret->node));
    if (ret->bytes == NULL || ret->node == NULL) {
        crn_kvtree_free(ret);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a tree of %zu bytes", to - from);
    }
    memcpy(ret->bytes, (const char *)file + offset + from, to - from);
    c.p = ret->bytes;
    c.end = ret->bytes + (to - from);
    ret->node[0].key = "";
    ret->n = 1;
    if (unpack(&c, 0, 0) == 0 && c.p == c.end)
        return CAIRN_OK;
    crn_kvtree_free(ret);
    return crn_fail(ei, CAIRN_EDAMAGED, 0, "its tree is not well formed");
}

void crn_kvtree_free(struct crn_kvtree *t)
{
    free(t->bytes);
    free(t->node);
    memset(t, 0, sizeof(*t));
}

static const struct crn_kvnode *node_at(const struct crn_kvtree *t, uint32_t at)
{
    return at != 0 ? &t->node[at] : NULL;
}

const struct crn_kvnode *crn_kvtree_first(const struct crn_kvtree *t, const struct crn_kvnode *of)
{
    return of != NULL ? node_at(t, of->first) : NULL;
}

const struct crn_kvnode *crn_kvtree_next(const struct crn_kvtree *t, const struct crn_kvnode *child)
{
    return node_at(t, child->next);
}

const struct crn_kvnode *crn_kvtree_get(const struct crn_kvtree *t, const struct crn_kvnode *of,
                                        const char *key)
{
    const struct crn_kvnode *child;

    for (child = crn_kvtree_first(t, of); child != NULL; child = crn_kvtree_next(t, child))
        if (strcmp(child->key, key) == 0)
            return child;
    return NULL;
}

const char *crn_kvtree_value(const struct crn_kvtree *t, const struct crn_kvnode *of,
                             const char *key)
{
    const struct crn_kvnode *child = crn_kvtree_first(t, crn_kvtree_get(t, of, key));

    return child != NULL ? child->key : NULL;
}
