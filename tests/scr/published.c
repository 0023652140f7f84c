/* SPDX-License-Identifier: BSD-3-Clause */
/* The constants and signatures that SCR 3.1 publishes. A deviation does not compile; libscr.symbols has the
 * names that the library exports. */
#include "scr.h"

_Static_assert(SCR_SUCCESS == 0, "SCR_SUCCESS");
_Static_assert(SCR_MAX_FILENAME == 1024, "SCR_MAX_FILENAME");
_Static_assert(SCR_FLAG_NONE == 0, "SCR_FLAG_NONE");
_Static_assert(SCR_FLAG_CHECKPOINT == 1, "SCR_FLAG_CHECKPOINT");
_Static_assert(SCR_FLAG_OUTPUT == 2, "SCR_FLAG_OUTPUT");

#define IS(function, type)                                                                         \
    _Static_assert(__builtin_types_compatible_p(__typeof__(function), type), #function)

IS(SCR_Init, int(void));
IS(SCR_Finalize, int(void));
IS(SCR_Config, const char *(const char *));
IS(SCR_Configf, const char *(const char *, ...));
IS(SCR_Route_file, int(const char *, char *));
IS(SCR_Have_restart, int(int *, char *));
IS(SCR_Start_restart, int(char *));
IS(SCR_Complete_restart, int(int));
IS(SCR_Need_checkpoint, int(int *));
IS(SCR_Start_checkpoint, int(void));
IS(SCR_Complete_checkpoint, int(int));
IS(SCR_Start_output, int(const char *, int));
IS(SCR_Complete_output, int(int));
IS(SCR_Current, int(const char *));
IS(SCR_Drop, int(const char *));
IS(SCR_Delete, int(const char *));
IS(SCR_Get_version, char *(void));
IS(SCR_Should_exit, int(int *));
