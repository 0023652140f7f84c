/* SPDX-License-Identifier: BSD-3-Clause */
/* Looks at the slots of an arena as a reader of its file: nothing is mapped, locked or changed. */
#include <errno.h>
#include <stdlib.h>

#include "tier/arena_layout.h"

static uint64_t word_of_slot(const struct arena_header *h, uint32_t slot)
{
    return atomic_load_explicit(&h->slot[slot].word, memory_order_relaxed);
}

/* Reads the head twice: a slot is whole if its word is the same before and after. */
static cairn_err read_head(const struct crn_fs *fs, int fd, const char *what, size_t bytes,
                           struct arena_header **ret_head, struct arena_header **ret_again,
                           struct crn_errinfo *ei)
{
    struct arena_header *head = malloc(bytes);
    struct arena_header *again = malloc(bytes);
    cairn_err rc;

    if (head == NULL || again == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu bytes to look at %s", bytes, what);
    else
        rc = crn_fs_read_all(fs, fd, head, bytes, 0, what, ei);
    if (rc == CAIRN_OK)
        rc = crn_fs_read_all(fs, fd, again, bytes, 0, what, ei);
    if (rc != CAIRN_OK) {
        free(head);
        free(again);
        return rc;
    }
    *ret_head = head;
    *ret_again = again;
    return CAIRN_OK;
}

cairn_err crn_arena_glance(const struct crn_fs *fs, int fd, const char *what, crn_slot_seen seen,
                           void *arg, struct crn_arena_glance *ret, struct crn_errinfo *ei)
{
    struct arena_header first = {0};
    struct arena_header *head, *again;
    struct crn_slot_info info;
    struct stat st;
    cairn_err rc;
    uint32_t i;

    rc = crn_fs_check(fs->fstat(fs, fd, &st), ei, "stat %s", what);
    if (rc == CAIRN_OK)
        rc = crn_fs_read_all(fs, fd, &first, sizeof(first), 0, what, ei);
    if (rc == CAIRN_OK && first.magic == 0)
        return crn_fail(ei, CAIRN_ENOENT, 0, "%s was never finished", what);
    if (rc == CAIRN_OK && !arena_is_sound(&first, first.nslots, (size_t)st.st_size))
        rc = crn_fail(ei, CAIRN_EFORMAT, 0, "%s is not an arena of this version of Cairn", what);
    if (rc == CAIRN_OK)
        rc = read_head(fs, fd, what, arena_head_bytes(first.nslots), &head, &again, ei);
    if (rc != CAIRN_OK)
        return rc;
    for (i = 0; i < first.nslots; i++) {
        uint64_t word = word_of_slot(head, i);

        if (slot_state_in(word) != CRN_SLOT_FREE && word == word_of_slot(again, i) &&
            crn_slot_copy(&head->slot[i], first.data_bytes, &info))
            seen(arg, slot_state_in(word), &info);
    }
    *ret = (struct crn_arena_glance){.rank = first.rank, .data_bytes = first.data_bytes};
    free(head);
    free(again);
    return CAIRN_OK;
}
