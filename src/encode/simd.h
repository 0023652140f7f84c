/* SPDX-License-Identifier: BSD-3-Clause */
/* Plain C that compilers vectorise. CRN_WIDE compiles a function twice, for any x86-64 and for
 * those with AVX2 and BMI2, and selects one at load time. It does nothing on other machines,
 * under sanitizers (which start too late for the selection) and for clang (whose clones other
 * files cannot call). */
#ifndef CRN_SIMD_H
#define CRN_SIMD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__OPTIMIZE__) && !defined(__clang__) &&   \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CRN_WIDE __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define CRN_WIDE
#endif

#define CRN_INLINE static inline __attribute__((always_inline))

/* The encodings are little-endian, and so is every machine with MPI that we know of. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "loads and stores need swapping here");

/* Words at any address, of any declared type: numbers in a chunk are unaligned. */
typedef uint64_t __attribute__((aligned(1), may_alias)) crn_u64;
typedef uint32_t __attribute__((aligned(1), may_alias)) crn_u32;
typedef uint16_t __attribute__((aligned(1), may_alias)) crn_u16;

CRN_INLINE uint64_t crn_load64(const void *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

CRN_INLINE uint32_t crn_load32(const void *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

CRN_INLINE void crn_store64(void *p, uint64_t v)
{
    memcpy(p, &v, sizeof(v));
}

#endif
