/* SPDX-License-Identifier: BSD-3-Clause */
/* Huffman's lengths by the two-queue method over sorted counts, limited to CRN_CODE_BITS, and
 * canonical codes. Limiting leaves the sum of 2^-length above 1; the rarest values get longer
 * codes to compensate. */
#include "encode/huffman_code.h"

#include <string.h>

struct leaf {
    uint32_t count;
    uint8_t value;
};

/* Sorts by count, ascending; ties by value. A radix sort in two passes: a comparison sort takes
 * longer than coding a small plane. */
#define DIGIT_BITS 9
#define DIGITS     (1U << DIGIT_BITS)

static void sort_pass(struct leaf *dst, const struct leaf *src, int n, unsigned shift)
{
    int at[DIGITS + 1] = {0};
    unsigned d;
    int i;

    for (i = 0; i < n; i++)
        at[(src[i].count >> shift & (DIGITS - 1)) + 1]++;
    for (d = 0; d < DIGITS; d++)
        at[d + 1] += at[d];
    for (i = 0; i < n; i++)
        dst[at[src[i].count >> shift & (DIGITS - 1)]++] = src[i];
}

static int huffman_code_collect(const uint32_t count[256], struct leaf leaves[256])
{
    struct leaf other[256];
    uint32_t most = 0;
    unsigned shift;
    int n = 0;
    int i;

    for (i = 0; i < 256; i++)
        if (count[i] > 0) {
            leaves[n].count = count[i];
            leaves[n++].value = (uint8_t)i;
            most = count[i] > most ? count[i] : most;
        }
    for (shift = 0; shift < 32 && most >> shift > 0; shift += DIGIT_BITS) {
        sort_pass(other, leaves, n, shift);
        memcpy(leaves, other, (size_t)n * sizeof(*leaves));
    }
    return n;
}

/* Depths of n leaves in ascending order of their counts. Nodes 0..n-1 are leaves, the rest inner
 * nodes. Inner nodes are created in ascending order too, so two queues hold all candidates for
 * joining. */
static void huffman_code_depths(const struct leaf *leaves, int n, uint8_t depth[256])
{
    uint64_t weight[512];
    int parent[512];
    uint8_t level[512];
    int leaf = 0;
    int inner = n;
    int next;
    int side;

    for (next = 0; next < n; next++)
        weight[next] = leaves[next].count;
    for (next = n; next < 2 * n - 1; next++) {
        weight[next] = 0;
        for (side = 0; side < 2; side++) {
            int take =
                leaf < n && (inner >= next || weight[leaf] <= weight[inner]) ? leaf++ : inner++;

            weight[next] += weight[take];
            parent[take] = next;
        }
    }
    level[2 * n - 2] = 0;
    for (next = 2 * n - 3; next >= 0; next--)
        level[next] = (uint8_t)(level[parent[next]] + 1);
    memcpy(depth, level, (size_t)n);
}

/* Makes the sum of 2^(BITS-length) equal 2^BITS, starting with the rarest value. */
static void huffman_code_limit(int n, uint8_t depth[256])
{
    uint32_t sum = 0;
    int i;

    for (i = 0; i < n; i++) {
        if (depth[i] > CRN_CODE_BITS)
            depth[i] = CRN_CODE_BITS;
        sum += 1U << (CRN_CODE_BITS - depth[i]);
    }
    for (i = 0; sum > CRN_CODE_SIZE; i = i + 1 < n ? i + 1 : 0)
        if (depth[i] < CRN_CODE_BITS) {
            depth[i]++;
            sum -= 1U << (CRN_CODE_BITS - depth[i]);
        }
    for (i = n - 1; i >= 0 && sum < CRN_CODE_SIZE; i--)
        while (depth[i] > 1 && sum + (1U << (CRN_CODE_BITS - depth[i])) <= CRN_CODE_SIZE) {
            sum += 1U << (CRN_CODE_BITS - depth[i]);
            depth[i]--;
        }
}

void crn_huffman_code_lengths(const uint32_t count[256], uint8_t length[256])
{
    struct leaf leaves[256];
    uint8_t depth[256] = {0};
    int n = huffman_code_collect(count, leaves);
    int i;

    memset(length, 0, 256);
    if (n < 2 || n > 256)
        return; /* violates the contract: there is no tree */
    huffman_code_depths(leaves, n, depth);
    huffman_code_limit(n, depth);
    for (i = 0; i < n; i++)
        length[leaves[i].value] = depth[i];
}

static uint16_t huffman_code_reversed(uint32_t code, int bits)
{
    uint32_t r = 0;

    for (; bits > 0; bits--, code >>= 1)
        r = (r << 1) | (code & 1);
    return (uint16_t)r;
}

int crn_huffman_code_assign(const uint8_t length[256], uint16_t code[256])
{
    uint32_t of_length[CRN_CODE_BITS + 1] = {0};
    uint32_t next[CRN_CODE_BITS + 1];
    uint32_t first = 0;
    int i;

    for (i = 0; i < 256; i++) {
        if (length[i] > CRN_CODE_BITS)
            return -1;
        of_length[length[i]]++;
    }
    for (i = 1; i <= CRN_CODE_BITS; i++) {
        next[i] = first;
        first = (first + of_length[i]) << 1;
    }
    if (first != 2 * CRN_CODE_SIZE)
        return -1;
    for (i = 0; i < 256; i++)
        code[i] = length[i] > 0 ? huffman_code_reversed(next[length[i]]++, length[i]) : 0;
    return 0;
}
