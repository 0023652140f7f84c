/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of the arguments of public functions. */
#include "client/args.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "base/fork.h"
#include "base/level.h"
#include "client/session.h"

cairn_err crn_arg_session(const cairn_session *s, struct crn_errinfo *ei)
{
    if (s == NULL)
        return crn_fail(ei, CAIRN_EINVAL, 0, "the session is NULL: was it opened?");
    if (s->process != crn_fork_process())
        return crn_fail(ei, CAIRN_ESTATE, 0,
                        "the session belongs to the process that opened it, not to this forked "
                        "child: open one here, or call Cairn only in the parent");
    return CAIRN_OK;
}

cairn_err crn_arg_pointer(const char *arg, const void *p, struct crn_errinfo *ei)
{
    if (p == NULL)
        return crn_fail(ei, CAIRN_EINVAL, 0, "%s is NULL", arg);
    return CAIRN_OK;
}

cairn_err crn_arg_struct(const char *arg, const void *p, const char *type, size_t bytes,
                         struct crn_errinfo *ei)
{
    size_t size;

    if (p == NULL)
        return crn_fail(ei, CAIRN_EINVAL, 0, "%s is NULL", arg);
    memcpy(&size, p, sizeof(size));
    if (size != bytes)
        return crn_fail(ei, CAIRN_EINVAL, 0, "%s->size is %zu, not sizeof(struct %s), which is %zu",
                        arg, size, type, bytes);
    return CAIRN_OK;
}

cairn_err crn_arg_text(const char *arg, const char *p, size_t size, struct crn_errinfo *ei)
{
    if (p == NULL)
        return crn_fail(ei, CAIRN_EINVAL, 0, "%s is NULL", arg);
    if (size == 0)
        return crn_fail(ei, CAIRN_EINVAL, 0, "%s_size is 0", arg);
    return CAIRN_OK;
}

cairn_err crn_arg_range(const char *arg, int64_t value, int64_t least, int64_t most,
                        struct crn_errinfo *ei)
{
    if (value >= least && value <= most)
        return CAIRN_OK;
    if (most >= INT_MAX)
        return crn_fail(ei, CAIRN_EINVAL, 0, "%s is %" PRId64 "; the minimum is %" PRId64, arg,
                        value, least);
    return crn_fail(ei, CAIRN_EINVAL, 0, "%s is %" PRId64 ", not one of %" PRId64 " to %" PRId64,
                    arg, value, least, most);
}

cairn_err crn_arg_level(const char *arg, cairn_level level, struct crn_errinfo *ei)
{
    if (!crn_level_is_known(level))
        return crn_fail(ei, CAIRN_EINVAL, 0, "%s is %d, which is no level", arg, (int)level);
    return CAIRN_OK;
}

cairn_err crn_arg_checkpoint(const cairn_session *s, const char *name, int64_t version,
                             struct crn_errinfo *ei)
{
    cairn_err rc;

    rc = crn_arg_session(s, ei);
    if (rc == CAIRN_OK)
        rc = crn_check_name("checkpoint name", name, ei);
    if (rc == CAIRN_OK)
        rc = crn_arg_range("version", version, 0, INT64_MAX, ei);
    return rc;
}

cairn_err crn_arg_shard(const cairn_session *s, const char *name, int64_t version, int old_rank,
                        struct crn_errinfo *ei)
{
    cairn_err rc;

    rc = crn_arg_checkpoint(s, name, version, ei);
    if (rc == CAIRN_OK)
        rc = crn_arg_range("old_rank", old_rank, CAIRN_OWN_RANK, INT_MAX, ei);
    return rc;
}
