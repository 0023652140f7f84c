/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the fuzz targets of text parsers. */
#ifndef FUZZ_TEXT_H
#define FUZZ_TEXT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input followed by a NUL, in memory of exactly that size. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    if (text == NULL)
        exit(1);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

/* The output of print for arg, as text. */
static inline char *fuzz_print(void (*print)(const void *arg, FILE *out), const void *arg)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    if (out == NULL)
        exit(1);
    print(arg, out);
    if (fclose(out) != 0)
        exit(1);
    return text;
}

#endif
