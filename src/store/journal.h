/* SPDX-License-Identifier: BSD-3-Clause */
/* The journal of a name: which versions failed, paused, were passed over or were repaired, for the
 * person who asks the next morning. A bounded text file beside the versions (docs/format.md,
 * section 11). Nothing depends on it: a record that cannot be written or read is skipped, and no
 * operation fails because of it.
 *
 * Any number of processes on any host may add records concurrently. */
#ifndef CRN_STORE_JOURNAL_H
#define CRN_STORE_JOURNAL_H

#include "store/store.h"

struct crn_log;

/* Kinds of records: docs/format.md. Readers also show kinds that they do not know. */
#define CRN_EVENT_FAILED      "failed"
#define CRN_EVENT_CANCELED    "canceled"
#define CRN_EVENT_PAUSED      "paused"
#define CRN_EVENT_PASSED_OVER "passed-over"
#define CRN_EVENT_REFUSED     "refused"
#define CRN_EVENT_REPAIRED    "repaired"
#define CRN_EVENT_UNSAVED     "unsaved"
#define CRN_EVENT_INCOMPLETE  "incomplete"
#define CRN_EVENT_DAMAGED     "damaged"

struct crn_event {
    uint64_t time_ns; /* since 1970; 0: time of the append */
    int64_t version;
    char kind[24];
    char run[CRN_RUN_HEX]; /* the run that wrote the record; "" if none */
    char job[CAIRN_MAX_NAME];
    char text[CRN_ERR_TEXT];
};

struct crn_journal {
    struct crn_event *v; /* oldest first */
    size_t n, cap;
};

/* Appends a record and makes it durable. Creates the name's directory if it is missing. Control
 * characters in texts become blanks. */
CAIRN_CHECKED cairn_err crn_journal_add(const struct crn_store *st, const char *name,
                                        const struct crn_event *event, struct crn_errinfo *ei);
/* Reads all valid records. A name without a journal has none; CAIRN_ENOENT if the name does not
 * exist. */
CAIRN_CHECKED cairn_err crn_journal_read(const struct crn_store *st, const char *name,
                                         struct crn_journal *ret, struct crn_errinfo *ei);
/* Parses text, which is modified, and appends its valid records to j. */
CAIRN_CHECKED cairn_err crn_journal_parse(char *text, size_t len, struct crn_journal *j,
                                          struct crn_errinfo *ei);
void crn_journal_free(struct crn_journal *j);
/* The names that have a journal. */
CAIRN_CHECKED cairn_err crn_journal_names(const struct crn_store *st, struct crn_names *ret,
                                          struct crn_errinfo *ei);

/* The author of records: the store and the run. */
struct crn_reporter {
    const struct crn_fs *fs;
    const struct crn_log *log;
    const char *root;   /* path of the store */
    const char *job;    /* may be "" */
    const uint8_t *run; /* NULL: none */
};
/* Adds a record to the store at r->root; time_ns 0: now. Callers may ignore the error: it is also
 * logged at debug level. */
cairn_err crn_journal_report(const struct crn_reporter *r, const char *name, int64_t version,
                             uint64_t time_ns, const char *kind, const char *text);

#endif
