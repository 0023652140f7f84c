/* SPDX-License-Identifier: BSD-3-Clause */
/* The constants and signatures that VELOC publishes. A deviation does not compile;
 * libveloc-client.symbols has the names that the library exports. */
#include "veloc.h"

_Static_assert(VELOC_SUCCESS == 0 && VELOC_FAILURE == -1, "results");
_Static_assert(VELOC_RECOVER_ALL == 0 && VELOC_RECOVER_SOME == 1 && VELOC_RECOVER_REST == 2,
               "what to recover");
_Static_assert(VELOC_CKPT_ALL == 0 && VELOC_CKPT_SOME == 1 && VELOC_CKPT_REST == 2,
               "what to checkpoint");

#define IS(function, type)                                                                         \
    _Static_assert(__builtin_types_compatible_p(__typeof__(function), type), #function)

IS(VELOC_Init, int(MPI_Comm, const char *));
IS(VELOC_Init_single, int(unsigned int, const char *));
IS(VELOC_Finalize, int(int));
IS(VELOC_Mem_protect, int(int, void *, size_t, size_t));
IS(VELOC_Mem_unprotect, int(int));
IS(VELOC_Mem_clear, int(void));
IS(VELOC_Route_file, int(const char *, char *));
IS(VELOC_Checkpoint_begin, int(const char *, int));
IS(VELOC_Checkpoint_mem, int(void));
IS(VELOC_Checkpoint_end, int(int));
IS(VELOC_Checkpoint_wait, int(void));
IS(VELOC_Checkpoint_finished, int(void));
IS(VELOC_Checkpoint, int(const char *, int));
IS(VELOC_Restart_test, int(const char *, int));
IS(VELOC_Restart_begin, int(const char *, int));
IS(VELOC_Recover_selective, int(int, int *, int));
IS(VELOC_Recover_size, int(int));
IS(VELOC_Recover_mem, int(void));
IS(VELOC_Restart_end, int(int));
IS(VELOC_Restart, int(const char *, int));
