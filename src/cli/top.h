/* SPDX-License-Identifier: BSD-3-Clause */
/* The terminal of `cairn top`: a screen that is drawn over and over, and keys. */
#ifndef CRN_CLI_TOP_H
#define CRN_CLI_TOP_H

#include <stddef.h>
#include <stdint.h>

/* Takes the terminal until crn_screen_end, which gives it back as it was. 0, or -1 if standard
 * output is no terminal. */
int crn_screen_begin(void);
void crn_screen_end(void);
/* Draws text from the top left corner; cuts lines and rows that do not fit. */
void crn_screen_draw(const char *text);
/* Waits for a key: its byte, 0 after timeout_ms or when the screen must be drawn again, -1 when a
 * signal asks to end. */
int crn_screen_key(int64_t timeout_ms);

#endif
