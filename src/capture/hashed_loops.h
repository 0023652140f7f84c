/* SPDX-License-Identifier: BSD-3-Clause */
/* The loops of hashed.c for one vector width; included once for each. The includer defines WIDE
 * (the target attribute), NAME(x), and struct NAME(stripe) of 64 bytes with the functions load,
 * keep, stream, add (adds a stripe, mixed with a key, to the accumulators) and scramble. */

WIDE static void NAME(copy_all)(const struct hashed_progress *l, uint64_t bytes,
                                const unsigned char *secret)
{
    struct NAME(stripe) a0 = NAME(load)(l[0].acc), a1 = NAME(load)(l[1].acc);
    struct NAME(stripe) a2 = NAME(load)(l[2].acc), a3 = NAME(load)(l[3].acc);
    uint64_t at;
    int i;

    for (at = 0; at < bytes; at += STRIPE) {
        const unsigned char *key = secret + at / STRIPE % STRIPES * KEY_STEP;
        struct NAME(stripe) x0, x1, x2, x3;

        for (i = 0; i < CRN_HASHED_COPIES; i++)
            _mm_prefetch((const char *)l[i].src + at + AHEAD, _MM_HINT_T0); /* never faults */
        x0 = NAME(load)(l[0].src + at);
        x1 = NAME(load)(l[1].src + at);
        x2 = NAME(load)(l[2].src + at);
        x3 = NAME(load)(l[3].src + at);
        __asm__ volatile("" ::: "memory"); /* no second load: what is stored is what is hashed */
        NAME(stream)(l[0].dst + at, x0);
        NAME(stream)(l[1].dst + at, x1);
        NAME(stream)(l[2].dst + at, x2);
        NAME(stream)(l[3].dst + at, x3);
        a0 = NAME(add)(a0, x0, key);
        a1 = NAME(add)(a1, x1, key);
        a2 = NAME(add)(a2, x2, key);
        a3 = NAME(add)(a3, x3, key);
        if ((at + STRIPE) % BLOCK == 0) {
            a0 = NAME(scramble)(a0, secret + LAST_KEY);
            a1 = NAME(scramble)(a1, secret + LAST_KEY);
            a2 = NAME(scramble)(a2, secret + LAST_KEY);
            a3 = NAME(scramble)(a3, secret + LAST_KEY);
        }
    }
    NAME(keep)(l[0].acc, a0);
    NAME(keep)(l[1].acc, a1);
    NAME(keep)(l[2].acc, a2);
    NAME(keep)(l[3].acc, a3);
    _mm_sfence(); /* streaming stores are not ordered by a later release */
}

WIDE static void NAME(copy_one)(const struct hashed_progress *l, uint64_t bytes,
                                const unsigned char *secret)
{
    struct NAME(stripe) a = NAME(load)(l->acc);
    uint64_t at;

    for (at = 0; at < bytes; at += STRIPE) {
        struct NAME(stripe) x;

        _mm_prefetch((const char *)l->src + at + AHEAD, _MM_HINT_T0);
        x = NAME(load)(l->src + at);
        __asm__ volatile("" ::: "memory");
        NAME(stream)(l->dst + at, x);
        a = NAME(add)(a, x, secret + at / STRIPE % STRIPES * KEY_STEP);
        if ((at + STRIPE) % BLOCK == 0)
            a = NAME(scramble)(a, secret + LAST_KEY);
    }
    NAME(keep)(l->acc, a);
    _mm_sfence();
}
