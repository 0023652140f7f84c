/* SPDX-License-Identifier: BSD-3-Clause */
/* The error record that travels with a request across threads and the wire. */
#ifndef CRN_ERR_H
#define CRN_ERR_H

#include <stdarg.h>
#include "cairn/cairn.h"

#define CRN_ERR_TEXT 480

struct crn_errinfo {
    cairn_err code;
    int sys_errno; /* 0 if the cause is not a system call */
    char msg[CRN_ERR_TEXT];
};

/* Records an error and returns its code. The first writer wins, so that the root cause stays. ei
 * may be NULL. The text says what failed, where and, if it helps, what to do. */
CAIRN_CHECKED cairn_err crn_fail(struct crn_errinfo *ei, cairn_err code, int sys_errno,
                                 const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Maps an errno to a code. */
cairn_err crn_errno_code(int sys_errno);
/* True if memory, descriptors or threads ran out: says nothing about the data being read or
 * written. */
int crn_err_is_shortage(cairn_err code);
/* crn_fail with the code for sys_errno. */
CAIRN_CHECKED cairn_err crn_fail_errno(struct crn_errinfo *ei, int sys_errno, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Prepends context to the recorded text: "flush of heat@3: ...". Returns code. */
CAIRN_CHECKED cairn_err crn_err_context(struct crn_errinfo *ei, cairn_err code, const char *fmt,
                                        ...) __attribute__((format(printf, 3, 4)));
#if defined(__clang_analyzer__) && !defined(CRN_ERR_C)
/* The analyzer sees one file at a time: tell it that a failure is never CAIRN_OK. */
#define crn_fail(ei, code, ...)        ((void)crn_fail((ei), (code), __VA_ARGS__), (code))
#define crn_fail_errno(ei, ...)        ((void)crn_fail_errno((ei), __VA_ARGS__), CAIRN_EIO)
#define crn_err_context(ei, code, ...) ((void)crn_err_context((ei), (code), __VA_ARGS__), (code))
#endif
void crn_err_clear(struct crn_errinfo *ei);
/* Copies src to dst unless dst already holds an error; dst may be NULL. */
void crn_err_keep(struct crn_errinfo *dst, const struct crn_errinfo *src);

/* Sets the thread's last error, which cairn_last_error() returns. Only the public API calls it. */
void crn_err_publish(const struct crn_errinfo *ei);

#endif
