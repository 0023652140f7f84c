/* SPDX-License-Identifier: BSD-3-Clause */
/* The argument checks that every public function makes first. Each check names the argument as
 * cairn.h does and returns CAIRN_EINVAL. */
#ifndef CRN_CLIENT_ARGS_H
#define CRN_CLIENT_ARGS_H

#include "base/err.h"

/* Is this a session of this process? CAIRN_EINVAL for NULL, CAIRN_ESTATE in a child that was forked
 * after the session was opened. Nothing of a session may be touched before this check. */
CAIRN_CHECKED cairn_err crn_arg_session(const cairn_session *s, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_arg_pointer(const char *arg, const void *p, struct crn_errinfo *ei);
/* Checks a struct that begins with its size. */
CAIRN_CHECKED cairn_err crn_arg_struct(const char *arg, const void *p, const char *type,
                                       size_t bytes, struct crn_errinfo *ei);
/* Checks a buffer for text. */
CAIRN_CHECKED cairn_err crn_arg_text(const char *arg, const char *p, size_t size,
                                     struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_arg_range(const char *arg, int64_t value, int64_t least, int64_t most,
                                      struct crn_errinfo *ei);

CAIRN_CHECKED cairn_err crn_arg_level(const char *arg, cairn_level level, struct crn_errinfo *ei);

/* Checks the session, and the name and version of a checkpoint. */
CAIRN_CHECKED cairn_err crn_arg_checkpoint(const cairn_session *s, const char *name,
                                           int64_t version, struct crn_errinfo *ei);
/* Also checks the rank that wrote a shard of it, or CAIRN_OWN_RANK. */
CAIRN_CHECKED cairn_err crn_arg_shard(const cairn_session *s, const char *name, int64_t version,
                                      int old_rank, struct crn_errinfo *ei);

#endif
