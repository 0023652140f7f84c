/* SPDX-License-Identifier: BSD-3-Clause */
/* Error codes of Cairn. The numbers belong to the ABI and never change. The range says what a
 * caller should do: misuse (-1..), try again (-20..), data damaged or missing (-40..), system
 * (-60..), bug in Cairn (-90). */
#ifndef CAIRN_ERRORS_H
#define CAIRN_ERRORS_H

/* X(symbol, number, what it means) */
#define CAIRN_ERRORS(X)                                                                            \
    X(CAIRN_OK, 0, "success")                                                                      \
    X(CAIRN_EINVAL, -1, "invalid argument")                                                        \
    X(CAIRN_ECONFIG, -2, "invalid configuration")                                                  \
    X(CAIRN_ESTATE, -3, "not allowed in this state")                                               \
    X(CAIRN_ENOTSUP, -4, "not supported here")                                                     \
    X(CAIRN_EMISMATCH, -5, "stored data does not fit the request")                                 \
    X(CAIRN_EEXIST, -6, "versions of another run are there")                                       \
    X(CAIRN_EPINNED, -7, "the version is pinned")                                                  \
    X(CAIRN_EBUSY, -20, "in use by someone else")                                                  \
    X(CAIRN_ETIMEDOUT, -21, "timed out")                                                           \
    X(CAIRN_ECANCELED, -22, "canceled or superseded")                                              \
    X(CAIRN_ESERVICE, -23, "the node service is gone")                                             \
    X(CAIRN_EPEER, -24, "a peer failed")                                                           \
    X(CAIRN_EUNSAVED, -25, "newer checkpoints are not saved yet")                                  \
    X(CAIRN_ENOENT, -40, "not found")                                                              \
    X(CAIRN_EDAMAGED, -41, "data damaged")                                                         \
    X(CAIRN_EFORMAT, -42, "unknown format or version")                                             \
    X(CAIRN_EREJECTED, -43, "marked as bad")                                                       \
    X(CAIRN_ENOMEM, -60, "out of memory")                                                          \
    X(CAIRN_EIO, -61, "input/output error")                                                        \
    X(CAIRN_ENOSPC, -62, "no space left")                                                          \
    X(CAIRN_EPERM, -63, "no permission")                                                           \
    X(CAIRN_ELIMIT, -64, "a system limit is reached")                                              \
    X(CAIRN_EMPI, -65, "MPI error")                                                                \
    X(CAIRN_EDEVICE, -66, "a GPU failed")                                                          \
    X(CAIRN_EBUG, -90, "internal error in Cairn")

#define CAIRN_ERROR_ENUM(sym, num, text) sym = (num),
typedef enum cairn_err { CAIRN_ERRORS(CAIRN_ERROR_ENUM) } cairn_err;
#undef CAIRN_ERROR_ENUM

#endif
