/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes JSON to a stream, with commas and quoting. Keys are NULL inside arrays. */
#ifndef CRN_JSON_H
#define CRN_JSON_H

#include <stdint.h>
#include <stdio.h>

struct crn_json {
    FILE *out;
    int depth;
    unsigned char has_items[32]; /* by depth: a comma is due */
};

void crn_json_begin(struct crn_json *j, FILE *out);
void crn_json_object(struct crn_json *j, const char *key);
void crn_json_array(struct crn_json *j, const char *key);
void crn_json_end_object(struct crn_json *j);
void crn_json_end_array(struct crn_json *j);
void crn_json_str(struct crn_json *j, const char *key, const char *value); /* NULL: null */
void crn_json_i64(struct crn_json *j, const char *key, int64_t value);
void crn_json_u64(struct crn_json *j, const char *key, uint64_t value);
void crn_json_f64(struct crn_json *j, const char *key, double value); /* not finite: null */
void crn_json_bool(struct crn_json *j, const char *key, int value);
/* Ends the text with a newline; 0, or -1 if the stream has failed. */
int crn_json_finish(struct crn_json *j);

#endif
