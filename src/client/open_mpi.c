/* SPDX-License-Identifier: BSD-3-Clause */
/* The public functions of libcairn_mpi: everything else is in libcairn, which knows no MPI. With
 * comm = ucx the session is opened by libcairn_ucx, which is loaded only then; MPI exchanges the
 * addresses. */
#include "cairn/cairn_mpi.h"

#include <assert.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cairn/cairn_ucx.h"
#include "client/open.h"
#include "comm/comm_mpi.h"

typedef cairn_err open_ucx_fn(int rank, int ranks, cairn_allgather *allgather, void *arg,
                              const struct cairn_options *options, cairn_session **ret_session);

static int open_mpi_allgather(void *arg, const void *in, size_t bytes, void *out)
{
    struct crn_comm *c = arg;
    struct crn_errinfo ignored = {0};

    return c->ops->allgather(c, in, bytes, out, &ignored) == CAIRN_OK ? 0 : 1;
}

#ifdef CRN_UCX_LIBRARY /* in the shared library, which has the same libcairn as that of UCX */
/* The library beside this one, else where the loader looks. */
static void *load_ucx(void)
{
    char path[PATH_MAX];
    const char *slash;
    void *library = NULL;
    Dl_info self;

    if (dladdr(__extension__(void *) load_ucx, &self) != 0 &&
        (slash = strrchr(self.dli_fname, '/')) != NULL &&
        snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - self.dli_fname), self.dli_fname,
                 CRN_UCX_LIBRARY) < (int)sizeof(path))
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return library != NULL ? library : dlopen(CRN_UCX_LIBRARY, RTLD_NOW | RTLD_LOCAL);
}

static cairn_err find_ucx(open_ucx_fn **ret, struct crn_errinfo *ei)
{
    void *library = load_ucx();
    const char *why;

    if (library == NULL) {
        why = dlerror();
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "comm = ucx needs libcairn_ucx: %s",
                        why != NULL ? why : "it cannot be loaded");
    }
    *(void **)ret = dlsym(library, "cairn_open_ucx");
    if (*ret == NULL)
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "%s has no cairn_open_ucx", CRN_UCX_LIBRARY);
    return CAIRN_OK;
}
#else
static cairn_err find_ucx(open_ucx_fn **ret, struct crn_errinfo *ei)
{
    *ret = NULL;
    return crn_fail(ei, CAIRN_ENOTSUP, 0,
                    "comm = ucx needs the shared library libcairn_mpi; this program has a copy of "
                    "its own: use comm = mpi");
}
#endif

/* All ranks load the library, or none opens a session. The first rank that cannot logs why. */
static cairn_err open_over_ucx(struct crn_comm *c, const struct cairn_options *options,
                               cairn_session **ret_session)
{
    struct crn_errinfo ei = {0};
    open_ucx_fn *open_ucx = NULL;
    cairn_err rc = find_ucx(&open_ucx, &ei);
    int64_t first = rc == CAIRN_OK ? INT64_MAX : c->rank;

    if (c->ops->allreduce(c, &first, 1, CRN_COMM_MIN, &ei) != CAIRN_OK) {
        rc = ei.code;
        first = c->rank;
    } else if (rc == CAIRN_OK && first != INT64_MAX) {
        rc = crn_fail(&ei, CAIRN_ENOTSUP, 0, "rank %" PRId64 " cannot load libcairn_ucx", first);
    }
    if (rc != CAIRN_OK)
        return cairn_private_refuse(c->rank, first != c->rank, &ei);
    assert(open_ucx != NULL); /* find_ucx found it */
    return open_ucx(c->rank, c->size, open_mpi_allgather, c, options, ret_session);
}

CAIRN_API cairn_err cairn_open_mpi(MPI_Comm comm, const struct cairn_options *options,
                                   cairn_session **ret_session)
{
    struct crn_errinfo ei = {0};
    struct crn_comm *c;
    cairn_err rc;

    if (ret_session != NULL)
        *ret_session = NULL;
    rc = crn_comm_mpi(comm, &c, &ei);
    if (rc != CAIRN_OK)
        return cairn_private_refuse(-1, 0, &ei);
    if (!cairn_private_wants_ucx(c, options))
        return cairn_private_open(c, options, ret_session);
    rc = open_over_ucx(c, options, ret_session);
    c->ops->free(c);
    return rc;
}

CAIRN_API cairn_err cairn_open_mpi_f(MPI_Fint comm, const struct cairn_options *options,
                                     cairn_session **ret_session)
{
    struct crn_errinfo ei = {0};
    cairn_err rc = crn_comm_mpi_check(&ei); /* the next call takes a handle already */

    if (rc != CAIRN_OK) {
        if (ret_session != NULL)
            *ret_session = NULL;
        return cairn_private_refuse(-1, 0, &ei);
    }
    return cairn_open_mpi(MPI_Comm_f2c(comm), options, ret_session);
}
