/* SPDX-License-Identifier: BSD-3-Clause */
/* Files in the format of KVTree, where SCR keeps its metadata: a tree of texts. Pure: bytes in, tree
 * out. */
#ifndef CRN_CLI_KVTREE_H
#define CRN_CLI_KVTREE_H

#include <stdint.h>

#include "base/err.h"

struct crn_kvnode {
    const char *key;      /* points into the bytes of the tree */
    uint32_t first, next; /* first child, next sibling; 0: none */
};

struct crn_kvtree {
    char *bytes;             /* owned */
    struct crn_kvnode *node; /* owned; node 0 is the root */
    uint32_t n;
};

/* Parses the tree that begins at an offset of the file's bytes. CAIRN_EDAMAGED if it is cut off, has
 * another checksum than it says, or is no tree. */
CAIRN_CHECKED cairn_err crn_kvtree_parse(const void *file, size_t bytes, size_t offset,
                                         struct crn_kvtree *ret, struct crn_errinfo *ei);
void crn_kvtree_free(struct crn_kvtree *t);

/* The child with this key; NULL if there is none, or if the node is NULL. */
const struct crn_kvnode *crn_kvtree_get(const struct crn_kvtree *t, const struct crn_kvnode *of,
                                        const char *key);
/* The key of the only child of that child: how KVTree stores a value. NULL: it has none. */
const char *crn_kvtree_value(const struct crn_kvtree *t, const struct crn_kvnode *of,
                             const char *key);
/* The first child, and the next one after a child; NULL at the end. */
const struct crn_kvnode *crn_kvtree_first(const struct crn_kvtree *t, const struct crn_kvnode *of);
const struct crn_kvnode *crn_kvtree_next(const struct crn_kvtree *t,
                                         const struct crn_kvnode *child);

#endif
