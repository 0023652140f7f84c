/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/flush_stats.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Loading. ------------------------------------------------------------------------------------- */

/* Adds one statistics text of a file; 0, or -1 if it belongs to another capture. */
static int flush_stats_add(struct cli_flush *f, const struct crn_manifest *m, const char *file,
                           const char *text, size_t len, struct crn_errinfo *ei)
{
    struct cli_leader *l;

    if (f->n == f->room) {
        l = realloc(f->leader, (2 * f->room + 16) * sizeof(*l));
        if (l == NULL)
            return -1;
        f->leader = l;
        f->room = 2 * f->room + 16;
    }
    l = &f->leader[f->n];
    memset(l, 0, sizeof(*l));
    if (crn_flush_stats_decode(text, len, &l->s, ei) != CAIRN_OK)
        return -1;
    if (!crn_capture_id_equal(&l->s.id, &m->id)) {
        crn_flush_stats_free(&l->s);
        (void)!crn_fail(ei, CAIRN_ENOENT, 0, "'%s' has statistics of another capture", file);
        return -1;
    }
    (void)snprintf(l->file, sizeof(l->file), "%s", file);
    f->n++;
    return 0;
}

/* Loads the leader of a file, then its assistants; 0, or -1 if there is no leader. */
static int load_file(const struct crn_store *st, const struct crn_manifest *m, const char *file,
                     struct cli_flush *f, struct crn_errinfo *ei)
{
    size_t len = 0, at = 0, n;
    size_t first = f->n;
    void *text = NULL;

    if (crn_store_read_stats(st, m->name, m->version, file, &text, &len, ei) != CAIRN_OK)
        return -1;
    do {
        n = crn_flush_stats_text_len((const char *)text + at, len - at);
        if (flush_stats_add(f, m, file, (const char *)text + at, n, ei) != 0)
            break;
        f->leader[f->n - 1].is_assistant = f->n - 1 > first;
        at += n;
    } while (at < len);
    free(text);
    return f->n > first ? 0 : -1;
}

cairn_err crn_cli_flush_load(const struct crn_store *st, const struct crn_manifest *m,
                             struct cli_flush *ret, struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    struct cli_flush f = {0};
    uint32_t i;

    for (i = 0; i < m->nfiles; i++)
        f.missing += load_file(st, m, m->files[i].name, &f, &why) != 0;
    if (f.n == 0) {
        crn_cli_flush_free(&f);
        return crn_fail(ei, CAIRN_ENOENT, 0, "%s@%" PRId64 " has no statistics of its flush: %s",
                        m->name, m->version, why.msg);
    }
    *ret = f;
    return CAIRN_OK;
}

void crn_cli_flush_free(struct cli_flush *f)
{
    size_t i;

    for (i = 0; i < f->n; i++)
        crn_flush_stats_free(&f->leader[i].s);
    free(f->leader);
    memset(f, 0, sizeof(*f));
}

double crn_flush_stats_local_s(const struct crn_flush_stats *s)
{
    return s->nwriters > 0 ? (double)crn_stats_local(s).ns * 1e-9 / s->nwriters : 0;
}

double crn_flush_stats_received_s(const struct crn_flush_stats *s)
{
    return s->nwriters > 0 ? (double)crn_stats_received(s).ns * 1e-9 / s->nwriters : 0;
}

/* Tables. -------------------------------------------------------------------------------------- */

static void add_bytes(struct cli_table *t, uint64_t bytes)
{
    char text[32];

    crn_human_bytes(bytes, text, sizeof(text));
    crn_table_add(t, "%s", text);
}

static void add_time(struct cli_table *t, double seconds)
{
    char text[32];

    crn_human_time(seconds, text, sizeof(text));
    crn_table_add(t, "%s", text);
}

static void add_rate(struct cli_table *t, uint64_t bytes, double seconds)
{
    if (bytes == 0 || seconds <= 0)
        crn_table_add(t, "-");
    else
        crn_table_add(t, "%.0f MB/s", (double)bytes / seconds * 1e-6);
}

static void add_words(struct cli_table *t, const char *const *words, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        crn_table_add(t, "%s", words[i]);
}

static void print_leaders(const struct cli_flush *f)
{
    static const char *const words[] = {
        "FILE",     "LEADER", "RECEIVED", "TIME",  "RATE", "LOCAL",  "TIME", "RATE",
        "ASSISTED", "HELD",   "FSYNC",    "TOTAL", "RATE", "BLOCKS", "POOL", "WRITE QUEUE"};
    struct cli_table t;
    size_t i;

    crn_table_begin(&t, "lrrrrrrrrrrrrrrr");
    add_words(&t, words, sizeof(words) / sizeof(words[0]));
    for (i = 0; i < f->n; i++) {
        const struct crn_flush_stats *s = &f->leader[i].s;
        struct crn_sums received = crn_stats_received(s);
        struct crn_sums local = crn_stats_local(s);

        crn_table_add(&t, "%s%s", f->leader[i].file, f->leader[i].is_assistant ? " (assists)" : "");
        crn_table_add(&t, "%" PRIu32, s->node);
        add_bytes(&t, received.bytes);
        add_time(&t, crn_flush_stats_received_s(s));
        add_rate(&t, received.bytes, crn_flush_stats_received_s(s));
        add_bytes(&t, local.bytes);
        add_time(&t, crn_flush_stats_local_s(s));
        add_rate(&t, local.bytes, crn_flush_stats_local_s(s));
        add_bytes(&t, s->assisted_bytes);
        add_time(&t, (double)s->held_ns * 1e-9);
        add_time(&t, (double)s->finish_ns * 1e-9);
        add_time(&t, (double)s->total_ns * 1e-9);
        add_rate(&t, s->bytes, (double)s->total_ns * 1e-9);
        crn_table_add(&t, "%" PRIu64 "/%" PRIu64, s->most_blocks, s->blocks);
        add_time(&t, (double)s->pool_ns * 1e-9);
        add_time(&t, (double)s->queue_ns * 1e-9);
    }
    crn_table_print(&t);
}

static void print_writers(const struct cli_flush *f)
{
    static const char *const words[] = {"LEADER", "WRITER", "RECEIVED", "TIME", "RATE",
                                        "LOCAL",  "TIME",   "RATE",     "IDLE"};
    struct cli_table t;
    size_t i;
    uint32_t w;

    crn_table_begin(&t, "rrrrrrrrr");
    add_words(&t, words, sizeof(words) / sizeof(words[0]));
    for (i = 0; i < f->n; i++) {
        const struct crn_flush_stats *s = &f->leader[i].s;

        for (w = 0; w < s->nwriters; w++) {
            const struct crn_sums *received = &s->writer[w].received.sum;
            const struct crn_sums *local = &s->writer[w].local.sum;

            crn_table_add(&t, "%" PRIu32, s->node);
            crn_table_add(&t, "%" PRIu32, w);
            add_bytes(&t, received->bytes);
            add_time(&t, (double)received->ns * 1e-9);
            add_rate(&t, received->bytes, (double)received->ns * 1e-9);
            add_bytes(&t, local->bytes);
            add_time(&t, (double)local->ns * 1e-9);
            add_rate(&t, local->bytes, (double)local->ns * 1e-9);
            add_time(&t, (double)s->writer[w].idle_ns * 1e-9);
        }
    }
    crn_table_print(&t);
}

static void print_followers(const struct cli_flush *f)
{
    static const char *const words[] = {"LEADER", "FOLLOWER", "RECEIVED", "ON THE WAY",
                                        "SENT",   "SENDING",  "GATHERING"};
    struct cli_table t;
    size_t i;
    uint32_t p;
    int any = 0;

    crn_table_begin(&t, "rrrrrrr");
    add_words(&t, words, sizeof(words) / sizeof(words[0]));
    for (i = 0; i < f->n; i++)
        for (p = 0; p < f->leader[i].s.npeers; p++) {
            const struct crn_peer_stats *peer = &f->leader[i].s.peer[p];

            if (peer->n == 0)
                continue;
            any = 1;
            crn_table_add(&t, "%" PRIu32, f->leader[i].s.node);
            crn_table_add(&t, "%" PRIu32, f->leader[i].s.first_node + p);
            add_bytes(&t, peer->bytes);
            add_time(&t, (double)peer->ns * 1e-9);
            add_bytes(&t, peer->sent_bytes);
            add_time(&t, (double)peer->send_ns * 1e-9);
            add_time(&t, (double)peer->gather_ns * 1e-9);
        }
    if (any) {
        (void)printf("\n");
        crn_table_print(&t);
    }
    crn_table_free(&t);
}

void crn_cli_flush_print(const struct cli_flush *f)
{
    print_leaders(f);
    (void)printf("\n");
    print_writers(f);
    print_followers(f);
    if (f->missing > 0)
        (void)printf("\nno statistics of %" PRIu32 " other files\n", f->missing);
}

/* JSON. ---------------------------------------------------------------------------------------- */

static void json_time(struct crn_json *j, const char *key, int64_t ns)
{
    crn_json_f64(j, key, (double)ns * 1e-9);
}

static void json_track(struct crn_json *j, const char *key, const struct crn_timeline *t)
{
    uint32_t i;

    crn_json_object(j, key);
    crn_json_u64(j, "n", t->sum.n);
    crn_json_u64(j, "bytes", t->sum.bytes);
    json_time(j, "seconds", t->sum.ns);
    json_time(j, "longest_s", t->sum.max_ns);
    crn_json_array(j, "timeline");
    for (i = 0; i < t->nspans; i++) {
        crn_json_object(j, NULL);
        json_time(j, "start_s", t->span[i].start_ns);
        json_time(j, "end_s", t->span[i].end_ns);
        crn_json_u64(j, "bytes", t->span[i].bytes);
        crn_json_end_object(j);
    }
    crn_json_end_array(j);
    crn_json_end_object(j);
}

static void json_writers(struct crn_json *j, const struct crn_flush_stats *s)
{
    uint32_t w;

    crn_json_array(j, "writers");
    for (w = 0; w < s->nwriters; w++) {
        crn_json_object(j, NULL);
        json_track(j, "received", &s->writer[w].received);
        json_track(j, "local", &s->writer[w].local);
        json_time(j, "idle_s", s->writer[w].idle_ns);
        crn_json_end_object(j);
    }
    crn_json_end_array(j);
}

static void json_followers(struct crn_json *j, const struct crn_flush_stats *s)
{
    uint32_t p;

    crn_json_array(j, "followers");
    for (p = 0; p < s->npeers; p++) {
        const struct crn_peer_stats *peer = &s->peer[p];

        if (peer->n == 0)
            continue;
        crn_json_object(j, NULL);
        crn_json_u64(j, "node", s->first_node + p);
        crn_json_u64(j, "blocks", peer->n);
        crn_json_u64(j, "bytes", peer->bytes);
        json_time(j, "on_the_way_s", peer->ns);
        crn_json_u64(j, "sent_blocks", peer->sent);
        crn_json_u64(j, "sent_bytes", peer->sent_bytes);
        json_time(j, "send_s", peer->send_ns);
        json_time(j, "gather_s", peer->gather_ns);
        crn_json_end_object(j);
    }
    crn_json_end_array(j);
}

static void json_leader(struct crn_json *j, const struct cli_leader *l)
{
    const struct crn_flush_stats *s = &l->s;

    crn_json_object(j, NULL);
    crn_json_str(j, "file", l->file);
    crn_json_u64(j, "node", s->node);
    crn_json_bool(j, "assists", l->is_assistant);
    crn_json_i64(j, "began_ns", s->wall_ns);
    crn_json_u64(j, "bytes", s->bytes);
    crn_json_u64(j, "received_bytes", s->remote_bytes);
    crn_json_f64(j, "received_s", crn_flush_stats_received_s(s));
    crn_json_u64(j, "local_bytes", s->bytes - s->remote_bytes - s->assisted_bytes);
    crn_json_f64(j, "local_s", crn_flush_stats_local_s(s));
    crn_json_u64(j, "assisted_bytes", s->assisted_bytes);
    json_time(j, "write_s", s->write_ns);
    json_time(j, "held_s", s->held_ns);
    json_time(j, "finish_s", s->finish_ns);
    json_time(j, "total_s", s->total_ns);
    crn_json_f64(j, "bytes_per_s",
                 s->total_ns > 0 ? (double)s->bytes * 1e9 / (double)s->total_ns : 0);
    crn_json_u64(j, "blocks", s->blocks);
    crn_json_u64(j, "block_bytes", s->block_bytes);
    crn_json_u64(j, "most_blocks", s->most_blocks);
    crn_json_u64(j, "pool_waits", s->pool_waits);
    json_time(j, "pool_wait_s", s->pool_ns);
    crn_json_u64(j, "queue_waits", s->queue_waits);
    json_time(j, "queue_wait_s", s->queue_ns);
    json_writers(j, s);
    json_followers(j, s);
    json_track(j, "receives", &s->receive);
    json_track(j, "sends", &s->send);
    crn_json_end_object(j);
}

void crn_cli_flush_json(struct crn_json *j, const struct cli_flush *f)
{
    size_t i;

    crn_json_array(j, "leaders");
    for (i = 0; i < f->n; i++)
        json_leader(j, &f->leader[i]);
    crn_json_end_array(j);
    crn_json_u64(j, "files_without_statistics", f->missing);
}
