/* SPDX-License-Identifier: BSD-3-Clause */
/* How errors are recorded: one record per request, the first writer wins, and texts carry the
 * system's reason. Depends on no other module. */
#define CRN_ERR_C
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_error[CRN_ERR_TEXT + 64] = "no error";

static void err_append(struct crn_errinfo *ei, const char *text)
{
    size_t used = strlen(ei->msg);

    (void)snprintf(ei->msg + used, sizeof(ei->msg) - used, "%s", text);
}

static cairn_err __attribute__((format(printf, 4, 0)))
err_record(struct crn_errinfo *ei, cairn_err code, int sys_errno, const char *fmt, va_list ap)
{
    char reason[128];

    if (ei == NULL || ei->code != CAIRN_OK)
        return code;
    ei->code = code;
    ei->sys_errno = sys_errno;
    (void)vsnprintf(ei->msg, sizeof(ei->msg), fmt, ap);
    if (sys_errno != 0) {
        err_append(ei, ": ");
        err_append(ei, strerror_r(sys_errno, reason, sizeof(reason)));
    }
    return code;
}

cairn_err crn_fail(struct crn_errinfo *ei, cairn_err code, int sys_errno, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    code = err_record(ei, code, sys_errno, fmt, ap);
    va_end(ap);
    return code;
}

cairn_err crn_fail_errno(struct crn_errinfo *ei, int sys_errno, const char *fmt, ...)
{
    cairn_err code;
    va_list ap;

    va_start(ap, fmt);
    code = err_record(ei, crn_errno_code(sys_errno), sys_errno, fmt, ap);
    va_end(ap);
    return code;
}

cairn_err crn_err_context(struct crn_errinfo *ei, cairn_err code, const char *fmt, ...)
{
    char old[CRN_ERR_TEXT];
    va_list ap;

    if (ei == NULL || code == CAIRN_OK)
        return code;
    memcpy(old, ei->msg, sizeof(old));
    va_start(ap, fmt);
    (void)vsnprintf(ei->msg, sizeof(ei->msg), fmt, ap);
    va_end(ap);
    err_append(ei, ": ");
    err_append(ei, old);
    return code;
}

cairn_err crn_errno_code(int sys_errno)
{
    switch (sys_errno) {
    case 0:
        return CAIRN_OK;
    case ENOMEM:
        return CAIRN_ENOMEM;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return CAIRN_ENOSPC;
    case ENOENT:
    case ENOTDIR:
        return CAIRN_ENOENT;
    case EACCES:
    case EPERM:
    case EROFS:
        return CAIRN_EPERM;
    case EMFILE:
    case ENFILE:
        return CAIRN_ELIMIT;
    default:
        return CAIRN_EIO;
    }
}

int crn_err_is_shortage(cairn_err code)
{
    return code == CAIRN_ENOMEM || code == CAIRN_ELIMIT;
}

void crn_err_clear(struct crn_errinfo *ei)
{
    memset(ei, 0, sizeof(*ei));
}

void crn_err_keep(struct crn_errinfo *dst, const struct crn_errinfo *src)
{
    if (dst != NULL && dst->code == CAIRN_OK)
        *dst = *src;
}

void crn_err_publish(const struct crn_errinfo *ei)
{
    (void)snprintf(last_error, sizeof(last_error), "%s: %s", cairn_error_name(ei->code),
                   ei->msg[0] != '\0' ? ei->msg : "no further detail");
}

const char *cairn_last_error(void)
{
    return last_error;
}

const char *cairn_error_name(cairn_err code)
{
#define NAME(sym, num, text)                                                                       \
    case sym:                                                                                      \
        return #sym;
    switch (code) {
        CAIRN_ERRORS(NAME)
    }
#undef NAME
    return "CAIRN_E?";
}

const char *cairn_version_string(void)
{
    return CAIRN_VERSION;
}

size_t cairn_type_size(cairn_type type)
{
    static const size_t size[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8, 16, 2, 2, 1, 1, 1};

    return (size_t)type < sizeof(size) / sizeof(size[0]) ? size[type] : 0;
}
