/* SPDX-License-Identifier: BSD-3-Clause */
/* SCR's Fortran interface: subroutines with lower-case names and a final underscore, arguments by
 * reference, lengths of texts after the arguments, blanks at the ends of texts. */
#include <stdlib.h>
#include <string.h>

#include "common/face.h"
#include "scr.h"

/* A C string of a Fortran text; NULL without memory. */
static char *from_fortran(const char *text, size_t len)
{
    while (len > 0 && text[len - 1] == ' ')
        len--;
    return strndup(text, len);
}

static void to_fortran(const char *text, char *ret, size_t len)
{
    size_t n = strlen(text);

    memset(ret, ' ', len);
    memcpy(ret, text, n < len ? n : len);
}

static int by_name(int (*call)(const char *name), const char *name, size_t len)
{
    char *text = from_fortran(name, len);
    int rc = text != NULL ? call(text) : 1;

    free(text);
    return rc;
}

void scr_init_(int *ierror);
void scr_finalize_(int *ierror);
void scr_get_version_(char *version, int *ierror, size_t len);
void scr_should_exit_(int *flag, int *ierror);
void scr_config_(const char *config, char *value, int *ierror, size_t len, size_t value_len);
void scr_route_file_(const char *name, char *file, int *ierror, size_t len, size_t file_len);
void scr_have_restart_(int *flag, char *name, int *ierror, size_t len);
void scr_start_restart_(char *name, int *ierror, size_t len);
void scr_complete_restart_(const int *valid, int *ierror);
void scr_need_checkpoint_(int *flag, int *ierror);
void scr_start_checkpoint_(int *ierror);
void scr_complete_checkpoint_(const int *valid, int *ierror);
void scr_start_output_(const char *name, const int *flags, int *ierror, size_t len);
void scr_complete_output_(const int *valid, int *ierror);
void scr_current_(const char *name, int *ierror, size_t len);
void scr_drop_(const char *name, int *ierror, size_t len);
void scr_delete_(const char *name, int *ierror, size_t len);

CRN_FACE_API void scr_init_(int *ierror)
{
    *ierror = SCR_Init();
}

CRN_FACE_API void scr_finalize_(int *ierror)
{
    *ierror = SCR_Finalize();
}

CRN_FACE_API void scr_get_version_(char *version, int *ierror, size_t len)
{
    to_fortran(SCR_Get_version(), version, len);
    *ierror = SCR_SUCCESS;
}

CRN_FACE_API void scr_should_exit_(int *flag, int *ierror)
{
    *ierror = SCR_Should_exit(flag);
}

/* value: blank if there is none, or if config sets one. */
CRN_FACE_API void scr_config_(const char *config, char *value, int *ierror, size_t len,
                              size_t value_len)
{
    char *text = from_fortran(config, len);
    const char *found = text != NULL ? SCR_Config(text) : NULL;

    to_fortran(found != NULL ? found : "", value, value_len);
    *ierror = text != NULL ? SCR_SUCCESS : 1;
    free((void *)(uintptr_t)found);
    free(text);
}

CRN_FACE_API void scr_route_file_(const char *name, char *file, int *ierror, size_t len,
                                  size_t file_len)
{
    char *text = from_fortran(name, len);
    char path[SCR_MAX_FILENAME] = "";

    *ierror = text != NULL ? SCR_Route_file(text, path) : 1;
    if (*ierror == SCR_SUCCESS && strlen(path) > file_len)
        *ierror = 1;
    if (*ierror == SCR_SUCCESS)
        to_fortran(path, file, file_len);
    free(text);
}

CRN_FACE_API void scr_have_restart_(int *flag, char *name, int *ierror, size_t len)
{
    char text[SCR_MAX_FILENAME] = "";

    *ierror = SCR_Have_restart(flag, text);
    to_fortran(text, name, len);
}

CRN_FACE_API void scr_start_restart_(char *name, int *ierror, size_t len)
{
    char text[SCR_MAX_FILENAME] = "";

    *ierror = SCR_Start_restart(text);
    to_fortran(text, name, len);
}

CRN_FACE_API void scr_complete_restart_(const int *valid, int *ierror)
{
    *ierror = SCR_Complete_restart(*valid);
}

CRN_FACE_API void scr_need_checkpoint_(int *flag, int *ierror)
{
    *ierror = SCR_Need_checkpoint(flag);
}

CRN_FACE_API void scr_start_checkpoint_(int *ierror)
{
    *ierror = SCR_Start_checkpoint();
}

CRN_FACE_API void scr_complete_checkpoint_(const int *valid, int *ierror)
{
    *ierror = SCR_Complete_checkpoint(*valid);
}

CRN_FACE_API void scr_start_output_(const char *name, const int *flags, int *ierror, size_t len)
{
    char *text = from_fortran(name, len);

    *ierror = text != NULL ? SCR_Start_output(text, *flags) : 1;
    free(text);
}

CRN_FACE_API void scr_complete_output_(const int *valid, int *ierror)
{
    *ierror = SCR_Complete_output(*valid);
}

CRN_FACE_API void scr_current_(const char *name, int *ierror, size_t len)
{
    *ierror = by_name(SCR_Current, name, len);
}

CRN_FACE_API void scr_drop_(const char *name, int *ierror, size_t len)
{
    *ierror = by_name(SCR_Drop, name, len);
}

CRN_FACE_API void scr_delete_(const char *name, int *ierror, size_t len)
{
    *ierror = by_name(SCR_Delete, name, len);
}
