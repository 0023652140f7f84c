/* SPDX-License-Identifier: BSD-3-Clause */
/* All components of a score only grow with the window. So for each first fragment the shortest
 * window that is large enough is the best, and two indices that only advance find them all. Sums
 * are updated by adding and subtracting, the two maxima (wait, age) with monotonic queues. */
#include "tier/window.h"

#include <string.h>

/* A monotonic queue: indices of fragments with falling values, so that the front is the window's
 * maximum. */
struct maximum {
    size_t *index;
    size_t front, back;
};

static void maximum_add(struct maximum *m, const struct crn_fragment *f, size_t i, int is_age)
{
    while (m->back > m->front) {
        const struct crn_fragment *last = &f[m->index[m->back - 1]];

        if (is_age ? last->age > f[i].age : last->wait_ns > f[i].wait_ns)
            break;
        m->back--;
    }
    m->index[m->back++] = i;
}

static void maximum_leave(struct maximum *m, size_t i)
{
    if (m->front < m->back && m->index[m->front] == i)
        m->front++;
}

static uint64_t window_pages(const struct crn_fragment *f)
{
    return (f->bytes + CRN_NEAR_PAGE - 1) / CRN_NEAR_PAGE;
}

int crn_window_compare(enum crn_evict policy, const struct crn_window *a,
                       const struct crn_window *b)
{
    if (policy == CRN_EVICT_SCORE) {
        if (a->wait_ns != b->wait_ns)
            return a->wait_ns < b->wait_ns ? -1 : 1;
        if (a->near != b->near)
            return a->near < b->near ? -1 : 1;
    }
    if (a->age != b->age)
        return a->age < b->age ? -1 : 1;
    if (a->evicted != b->evicted)
        return a->evicted < b->evicted ? -1 : 1;
    return 0;
}

int crn_window_find(const struct crn_space *s, enum crn_evict policy, uint64_t bytes,
                    struct crn_window *ret)
{
    struct maximum wait = {s->scratch, 0, 0};
    struct maximum age = {s->scratch + s->cap, 0, 0};
    const struct crn_fragment *f = s->f;
    struct crn_window w = {0};
    int found = 0;
    size_t end = 0; /* first fragment after the window */

    for (w.first = 0; w.first < s->n; w.first++) {
        while (end < s->n && w.bytes < bytes) {
            w.bytes += f[end].bytes;
            w.near += f[end].near * window_pages(&f[end]);
            w.evicted += f[end].owner != NULL ? f[end].bytes : 0;
            maximum_add(&wait, f, end, 0);
            maximum_add(&age, f, end, 1);
            end++;
        }
        if (w.bytes < bytes)
            break;
        w.wait_ns = f[wait.index[wait.front]].wait_ns;
        w.age = f[age.index[age.front]].age;
        if (w.wait_ns != CRN_PINNED && (!found || crn_window_compare(policy, &w, ret) < 0)) {
            found = 1;
            *ret = w;
            ret->count = end - w.first;
            ret->offset = f[w.first].offset;
        }
        w.bytes -= f[w.first].bytes;
        w.near -= f[w.first].near * window_pages(&f[w.first]);
        w.evicted -= f[w.first].owner != NULL ? f[w.first].bytes : 0;
        maximum_leave(&wait, w.first);
        maximum_leave(&age, w.first);
    }
    return found;
}

static const char *const names[CRN_EVICT_POLICIES] = {"score", "lru", "fifo"};

const char *crn_evict_name(enum crn_evict policy)
{
    return (unsigned)policy < CRN_EVICT_POLICIES ? names[policy] : "unknown";
}

enum crn_evict crn_evict_parse(const char *name)
{
    int i;

    for (i = 0; i < CRN_EVICT_POLICIES; i++)
        if (strcmp(name, names[i]) == 0)
            break;
    return (enum crn_evict)i;
}
