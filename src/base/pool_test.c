/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "base/pool.h"
#include "base/queue.h"
#include "base/test.h"

static void *put_back(void *arg)
{
    void **pair = arg;

    crn_pool_put(pair[0], pair[1]);
    return NULL;
}

static void an_empty_pool_waits_and_counts(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_pool p;
    pthread_t t;
    void *a, *b, *pair[2];

    (void)state;
    assert_ok(crn_pool_init(&p, 2, 4096, ei));
    a = crn_pool_get(&p);
    b = crn_pool_get(&p);
    assert_ptr_not_equal(a, b);
    assert_null(crn_pool_try_get(&p));
    pair[0] = &p;
    pair[1] = a;
    assert_int_equal(pthread_create(&t, NULL, put_back, pair), 0);
    assert_ptr_equal(crn_pool_get(&p), a);
    (void)pthread_join(t, NULL);
    assert_int_equal(p.most_used, 2);
    crn_pool_put(&p, a);
    crn_pool_put(&p, b);
    crn_pool_fini(&p);
}

static size_t pages_there(const struct crn_pool *p)
{
    static unsigned char there[4 * 1024];
    size_t n = 0;
    size_t i;

    assert_int_equal(mincore(p->memory, p->blocks * p->block_bytes, there), 0);
    for (i = 0; i < p->blocks * p->block_bytes / 4096; i++)
        n += there[i] & 1;
    return n;
}

static void unused_blocks_take_no_memory(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    const size_t bytes = (size_t)4 << 20;
    struct crn_pool p;
    void *block;
    int i;

    (void)state;
    assert_ok(crn_pool_init(&p, 4, bytes, ei));
    assert_int_equal(pages_there(&p), 0);
    for (i = 0; i < 3; i++) { /* gets the same block each time */
        block = crn_pool_get(&p);
        memset(block, i, bytes);
        crn_pool_put(&p, block);
    }
    assert_in_range(pages_there(&p), bytes / 4096, 2 * bytes / 4096); /* huge pages overlap */
    crn_pool_fini(&p);
}

static void a_block_is_replaced(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    unsigned char *lost, *a, *b;
    size_t number;
    struct crn_pool p;

    (void)state;
    assert_ok(crn_pool_init(&p, 2, 4096, ei));
    lost = crn_pool_get(&p);
    number = crn_pool_number(&p, lost);
    assert_ptr_equal(crn_pool_block(&p, number), lost);
    a = crn_pool_replace(&p, lost + 100); /* any address inside the block */
    assert_ptr_equal(crn_pool_block(&p, number), a);
    assert_int_equal(crn_pool_number(&p, a + 4095), number);
    b = crn_pool_replace(&p, lost + 200); /* a second writer of the lost block */
    assert_ptr_equal(crn_pool_block(&p, number), b);
    crn_pool_put(&p, b);
    a = crn_pool_get(&p);
    b = crn_pool_get(&p);
    assert_ptr_not_equal(a, lost);
    assert_ptr_not_equal(b, lost);
    assert_int_equal(crn_pool_number(&p, a), number);
    assert_int_equal(crn_pool_number(&p, b), 1 - number);
    assert_null(crn_pool_try_get(&p));
    memset(a, 1, 4096);
    memset(b, 2, 4096);
    crn_pool_put(&p, a);
    crn_pool_put(&p, NULL); /* no memory for a replacement */
    assert_ptr_equal(crn_pool_get(&p), a);
    assert_null(crn_pool_try_get(&p));
    crn_pool_put(&p, a);
    crn_pool_fini(&p);
    memset(lost, 3, 4096); /* still mapped */
}

static void a_closed_queue_hands_out_what_it_holds(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_queue q;
    int x, y;

    (void)state;
    assert_ok(crn_queue_init(&q, 4, ei));
    assert_int_equal(crn_queue_push(&q, &x), 0);
    assert_int_equal(crn_queue_push(&q, &y), 0);
    crn_queue_close(&q);
    assert_int_equal(crn_queue_push(&q, &x), -1);
    assert_ptr_equal(crn_queue_pop(&q), &x);
    assert_ptr_equal(crn_queue_pop(&q), &y);
    assert_null(crn_queue_pop(&q));
    crn_queue_fini(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_pool_waits_and_counts),
        cmocka_unit_test(unused_blocks_take_no_memory),
        cmocka_unit_test(a_block_is_replaced),
        cmocka_unit_test(a_closed_queue_hands_out_what_it_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
