/* SPDX-License-Identifier: BSD-3-Clause */
/* The statistics of a flush as lines of words and numbers (docs/format.md, section 10). The last
 * line is a hash of all others: the file is not fsynced, so a crash may truncate it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/stats.h"

#define HEAD        "cairn-stats 1\n"
#define MAX_WRITERS 64
#define MAX_PEERS   (1 << 20)
#define MAX_NUMBERS 8
#define MAX_NUMBER  (INT64_C(1) << 56) /* bytes, or two years: sums over all writers still fit */

/* To text. ------------------------------------------------------------------------------------- */

static void put_spans(FILE *out, const char *what, uint32_t writer, const struct crn_timeline *t)
{
    uint32_t i;

    for (i = 0; i < t->nspans; i++)
        (void)fprintf(out, "%s %" PRIu32 " %" PRId64 " %" PRId64 " %" PRIu64 "\n", what, writer,
                      t->span[i].start_ns, t->span[i].end_ns, t->span[i].bytes);
}

static void put_track(FILE *out, const char *what, uint32_t writer, const struct crn_timeline *t)
{
    (void)fprintf(out, "%s %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 "\n", what,
                  writer, t->sum.n, t->sum.bytes, t->sum.ns, t->sum.max_ns);
}

static int took_part(const struct crn_writer_stats *w)
{
    return w->local.sum.n + w->received.sum.n > 0;
}

/* Writes the writers that took part, at least one. Idle ones are omitted, as they would distort
 * averages. */
static void put_writers(FILE *out, const struct crn_flush_stats *s)
{
    uint32_t n = 0;
    uint32_t i, number;

    for (i = 0; i < s->nwriters; i++)
        n += took_part(&s->writer[i]) ? 1 : 0;
    (void)fprintf(out, "counts %" PRIu32 " %" PRIu32 "\n", n > 0 || s->nwriters == 0 ? n : 1,
                  s->npeers);
    for (i = number = 0; i < s->nwriters; i++) {
        const struct crn_writer_stats *w = &s->writer[i];

        if (!took_part(w) && (n > 0 || i > 0))
            continue;
        put_track(out, "local", number, &w->local);
        put_track(out, "received", number, &w->received);
        (void)fprintf(out, "idle %" PRIu32 " %" PRId64 "\n", number, w->idle_ns);
        put_spans(out, "span-local", number, &w->local);
        put_spans(out, "span-received", number, &w->received);
        number++;
    }
}

static void put_all(FILE *out, const struct crn_flush_stats *s)
{
    char run[CRN_RUN_HEX];
    uint32_t i;

    crn_run_hex(s->id.run, run);
    (void)fprintf(out, HEAD "capture %s %" PRIu64 "\n", run, s->id.seq);
    (void)fprintf(out, "leader %" PRIu32 " %" PRIu32 " %" PRId64 "\n", s->node, s->first_node,
                  s->wall_ns);
    (void)fprintf(out,
                  "flush %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64 "\n"
                  "pool %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 "\n"
                  "queue %" PRIu64 " %" PRId64 "\n"
                  "held %" PRId64 "\n"
                  "levels %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n",
                  s->bytes, s->remote_bytes, s->assisted_bytes, s->write_ns, s->finish_ns,
                  s->total_ns, s->blocks, s->block_bytes, s->most_blocks, s->pool_waits, s->pool_ns,
                  s->queue_waits, s->queue_ns, s->held_ns, s->copy_ns, s->captured_ns, s->local_ns,
                  s->protected_ns);
    put_writers(out, s);
    for (i = 0; i < s->npeers; i++) {
        const struct crn_peer_stats *p = &s->peer[i];

        if (p->n > 0)
            (void)fprintf(out,
                          "peer %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRIu64
                          " %" PRIu64 " %" PRId64 " %" PRId64 "\n",
                          i, p->n, p->bytes, p->ns, p->sent, p->sent_bytes, p->send_ns,
                          p->gather_ns);
    }
    put_track(out, "receive", 0, &s->receive);
    put_track(out, "send", 0, &s->send);
    put_spans(out, "span-receive", 0, &s->receive);
    put_spans(out, "span-send", 0, &s->send);
}

cairn_err crn_flush_stats_encode(const struct crn_flush_stats *s, struct crn_buf *ret,
                                 struct crn_errinfo *ei)
{
    char *text = NULL;
    char sum[24];
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    int failed = 1;

    if (out != NULL) {
        put_all(out, s);
        failed = fclose(out) != 0;
    }
    if (!failed) {
        (void)snprintf(sum, sizeof(sum), "%016" PRIx64 "\n", crn_hash(text, len));
        crn_buf_put(ret, text, len);
        crn_buf_put(ret, sum, strlen(sum));
        crn_buf_put(ret, s->helpers.data, s->helpers.len);
    }
    free(text);
    if (failed || ret->failed)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the statistics of a flush");
    return CAIRN_OK;
}

cairn_err crn_flush_stats_keep(const struct crn_flush_stats *s, const struct crn_store *st,
                               const struct crn_index *head, const char *file,
                               struct crn_errinfo *ei)
{
    struct crn_buf text = {0};
    cairn_err rc = crn_flush_stats_encode(s, &text, ei);

    if (rc == CAIRN_OK)
        rc = crn_store_write_stats(st, head->name, head->version, file, text.data, text.len, ei);
    crn_buf_free(&text);
    return rc;
}

size_t crn_flush_stats_text_len(const char *text, size_t len)
{
    size_t at = 0;

    while (at < len) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end != NULL ? (size_t)(end - text) - at : 0;

        if (end == NULL)
            return 0;
        if (n == 16 && strspn(text + at, "0123456789abcdef") == 16)
            return at + n + 1; /* the hash */
        at += n + 1;
    }
    return 0;
}

/* From text. ----------------------------------------------------------------------------------- */

/* A line: its word and its numbers. */
struct line {
    char word[24];
    int64_t v[MAX_NUMBERS];
    int n;
};

static int take_line(const char *text, struct line *ret)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz-");
    int64_t limit;
    char *end;

    memset(ret, 0, sizeof(*ret));
    if (n == 0 || n >= sizeof(ret->word))
        return -1;
    memcpy(ret->word, text, n);
    limit = strcmp(ret->word, "leader") == 0 ? INT64_MAX : MAX_NUMBER; /* it has a date */
    for (text += n; ret->n < MAX_NUMBERS && *text != '\0'; text = end) {
        int64_t v;

        errno = 0;
        v = strtoll(text, &end, 10);
        if (end == text || errno != 0 || v > limit || v < -limit)
            return -1;
        ret->v[ret->n++] = v;
    }
    return *text == '\0' ? 0 : -1;
}

/* Only the times of a span may precede the start of the flush. */
static int has_negative(const struct line *l)
{
    int is_span = strncmp(l->word, "span-", 5) == 0;
    int i;

    for (i = 0; i < l->n; i++)
        if (l->v[i] < 0 && !(is_span && (i == 1 || i == 2)))
            return 1;
    return 0;
}

static int take_capture(const char *text, struct crn_flush_stats *s)
{
    char hex[CRN_RUN_HEX];
    unsigned byte;
    int at = 0;
    int i;

    if (sscanf(text, "capture %32[0-9a-f] %" SCNu64 "%n", hex, &s->id.seq, &at) != 2 ||
        text[at] != '\0' || strlen(hex) != 32)
        return -1;
    for (i = 0; i < 16; i++)
        if (sscanf(hex + 2 * (size_t)i, "%2x", &byte) == 1)
            s->id.run[i] = (uint8_t)byte;
    return 0;
}

static void take_sums(const struct line *l, struct crn_timeline *t)
{
    t->sum = (struct crn_sums){(uint64_t)l->v[1], (uint64_t)l->v[2], l->v[3], l->v[4]};
}

static int take_span(const struct line *l, struct crn_timeline *t)
{
    if (t->nspans == CRN_SPANS)
        return -1;
    t->span[t->nspans++] = (struct crn_span){l->v[1], l->v[2], (uint64_t)l->v[3]};
    return 0;
}

static int take_counts(const struct line *l, struct crn_flush_stats *s)
{
    if (s->writer != NULL || l->v[0] < 0 || l->v[0] > MAX_WRITERS || l->v[1] < 0 ||
        l->v[1] > MAX_PEERS)
        return -1;
    s->nwriters = (uint32_t)l->v[0];
    s->npeers = (uint32_t)l->v[1];
    s->writer = calloc(s->nwriters + (size_t)1, sizeof(*s->writer));
    s->peer = calloc(s->npeers + (size_t)1, sizeof(*s->peer));
    return s->writer != NULL && s->peer != NULL ? 0 : -1;
}

static int take_head(const struct line *l, struct crn_flush_stats *s)
{
    if (strcmp(l->word, "leader") == 0) {
        s->node = (uint32_t)l->v[0];
        s->first_node = (uint32_t)l->v[1];
        s->wall_ns = l->v[2];
    } else if (strcmp(l->word, "flush") == 0) {
        s->bytes = (uint64_t)l->v[0];
        s->remote_bytes = (uint64_t)l->v[1];
        s->assisted_bytes = (uint64_t)l->v[2];
        s->write_ns = l->v[3];
        s->finish_ns = l->v[4];
        s->total_ns = l->v[5];
    } else if (strcmp(l->word, "pool") == 0) {
        s->blocks = (uint64_t)l->v[0];
        s->block_bytes = (uint64_t)l->v[1];
        s->most_blocks = (uint64_t)l->v[2];
        s->pool_waits = (uint64_t)l->v[3];
        s->pool_ns = l->v[4];
    } else if (strcmp(l->word, "queue") == 0) {
        s->queue_waits = (uint64_t)l->v[0];
        s->queue_ns = l->v[1];
    } else if (strcmp(l->word, "held") == 0) {
        s->held_ns = l->v[0];
    } else if (strcmp(l->word, "levels") == 0) {
        s->copy_ns = l->v[0];
        s->captured_ns = l->v[1];
        s->local_ns = l->v[2];
        s->protected_ns = l->v[3];
    } else if (strcmp(l->word, "counts") == 0) {
        return take_counts(l, s);
    }
    return 0; /* skip words of newer versions */
}

static int take_writer(const struct line *l, struct crn_writer_stats *w)
{
    if (strcmp(l->word, "local") == 0)
        take_sums(l, &w->local);
    else if (strcmp(l->word, "received") == 0)
        take_sums(l, &w->received);
    else if (strcmp(l->word, "idle") == 0)
        w->idle_ns = l->v[1];
    else if (strcmp(l->word, "span-local") == 0)
        return take_span(l, &w->local);
    else
        return take_span(l, &w->received);
    return 0;
}

static int is_writers(const char *word)
{
    static const char *const words[] = {"local", "received", "idle", "span-local", "span-received"};
    size_t i;

    for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(word, words[i]) == 0)
            return 1;
    return 0;
}

static int stats_text_take(const char *text, struct crn_flush_stats *s)
{
    struct line l;

    if (strncmp(text, "capture ", 8) == 0)
        return take_capture(text, s);
    if (take_line(text, &l) != 0 || has_negative(&l))
        return -1;
    if (is_writers(l.word))
        return l.v[0] >= 0 && l.v[0] < s->nwriters ? take_writer(&l, &s->writer[l.v[0]]) : -1;
    if (strcmp(l.word, "peer") == 0) {
        if (l.v[0] < 0 || l.v[0] >= s->npeers)
            return -1;
        s->peer[l.v[0]] =
            (struct crn_peer_stats){(uint64_t)l.v[1], (uint64_t)l.v[2], l.v[3], (uint64_t)l.v[4],
                                    (uint64_t)l.v[5], l.v[6],           l.v[7]};
        return 0;
    }
    if (strcmp(l.word, "receive") == 0)
        take_sums(&l, &s->receive);
    else if (strcmp(l.word, "send") == 0)
        take_sums(&l, &s->send);
    else if (strcmp(l.word, "span-receive") == 0)
        return take_span(&l, &s->receive);
    else if (strcmp(l.word, "span-send") == 0)
        return take_span(&l, &s->send);
    return take_head(&l, s);
}

/* The text without its last line, if that is the hash of the rest; NULL otherwise. */
static char *stats_text_checked(const char *text, size_t len)
{
    size_t head = strlen(HEAD);
    char sum[24];

    if (len < head + 17 || memchr(text, '\0', len) != NULL || strncmp(text, HEAD, head) != 0)
        return NULL;
    (void)snprintf(sum, sizeof(sum), "%016" PRIx64 "\n", crn_hash(text, len - 17));
    return memcmp(text + len - 17, sum, 17) == 0 ? strndup(text + head, len - 17 - head) : NULL;
}

cairn_err crn_flush_stats_decode(const char *text, size_t len, struct crn_flush_stats *ret,
                                 struct crn_errinfo *ei)
{
    struct crn_flush_stats s = {0};
    char *copy = stats_text_checked(text, len);
    int failed = copy == NULL;
    char *save = NULL;
    char *line;

    for (line = copy != NULL ? strtok_r(copy, "\n", &save) : NULL; !failed && line != NULL;
         line = strtok_r(NULL, "\n", &save))
        failed = stats_text_take(line, &s) != 0;
    free(copy);
    if (failed || s.writer == NULL) {
        crn_flush_stats_free(&s);
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "the statistics are damaged or incomplete");
    }
    *ret = s;
    return CAIRN_OK;
}
