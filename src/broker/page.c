/* SPDX-License-Identifier: BSD-3-Clause */
/* The status page at /: one HTML document with its style and pictures inside, without scripts, which
 * the browser loads anew now and then. It is read-only. Over plain HTTP everyone may read it, so
 * it has totals; names of users and jobs only with page = details. */
#include "broker/server_priv.h"

#include <event2/buffer.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/config.h"

#define REFRESH_S 10
#define MAX_ROWS  500
#define MAX_USERS 50
/* The picture, in units of the SVG: two panels above each other. */
#define PICTURE_W 720.0
#define PANEL_H   64.0
#define LEFT      44.0
#define GAP       18.0

static const char page_head[] =
    "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
    "<title>cairn-broker</title><style>"
    ":root{color-scheme:light dark;--ink:#1b1f24;--dim:#5f6b7a;--line:#d5dae1;--paper:#f6f7f9;"
    "--card:#fff;--use:#0072b2;--wait:#d55e00;--good:#1a7f37;--bad:#b35900}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e9ee;--dim:#9aa5b3;--line:#363d47;"
    "--paper:#15181c;--card:#1d2127;--use:#56b4e9;--wait:#e69f00;--good:#4ac26b;--bad:#e69f00}}"
    "body{margin:0 auto;max-width:64rem;padding:1.5rem;background:var(--paper);color:var(--ink);"
    "font:15px/1.45 system-ui,sans-serif}h1{font-size:1.3rem;margin:0}h2{font-size:1.1rem;margin:0}"
    "header,section h2{display:flex;gap:.8rem;align-items:baseline;flex-wrap:wrap}"
    "header p,small,figcaption,th,footer{color:var(--dim);font-weight:400;margin:0}"
    "section{background:var(--card);border:1px solid var(--line);border-radius:8px;"
    "padding:1rem 1.2rem;margin:1rem 0}dl{display:flex;flex-wrap:wrap;gap:.4rem 2rem;margin:.8rem "
    "0}dt{color:var(--dim);font-size:.8rem}dd{margin:0;font-size:1.15rem;font-variant-numeric:"
    "tabular-nums}figure{margin:0}svg{width:100%;height:auto;font:11px system-ui,sans-serif}"
    ".state{border-radius:4px;padding:0 .5rem;font-size:.8rem;border:1px solid}"
    ".open{color:var(--good)}.shut{color:var(--bad)}table{border-collapse:collapse;width:100%;"
    "font-variant-numeric:tabular-nums;font-size:.9rem}th,td{text-align:left;padding:.25rem .6rem "
    ".25rem 0;border-bottom:1px solid "
    "var(--line);white-space:nowrap}td.name{white-space:normal;overflow-wrap:anywhere}.n{text-"
    "align:right}.scroll{overflow-x:auto}"
    "</style>";

/* Text of users, which may hold anything. */
static void page_text(struct evbuffer *out, const char *s)
{
    for (; *s != '\0'; s++) {
        switch (*s) {
        case '&':
            (void)evbuffer_add_printf(out, "&amp;");
            break;
        case '<':
            (void)evbuffer_add_printf(out, "&lt;");
            break;
        case '>':
            (void)evbuffer_add_printf(out, "&gt;");
            break;
        case '"':
            (void)evbuffer_add_printf(out, "&quot;");
            break;
        default:
            (void)evbuffer_add(out, s, 1);
        }
    }
}

static void page_time(struct evbuffer *out, uint64_t ns)
{
    char text[32];

    if (ns == CRN_BP_UNKNOWN) {
        (void)evbuffer_add_printf(out, "unknown");
        return;
    }
    crn_human_time((double)ns * 1e-9, text, sizeof(text));
    (void)evbuffer_add_printf(out, "%s", text);
}

/* The picture. --------------------------------------------------------------------------------- */

/* What a panel shows of a bucket. */
typedef double (*bucket_fn)(const struct crn_history_bucket *b);

static double bucket_holders(const struct crn_history_bucket *b)
{
    return b->holders;
}

static double bucket_waiting(const struct crn_history_bucket *b)
{
    return b->waiting;
}

/* 1, 2 or 5 times a power of ten, not below the largest value. */
static double nice_top(const struct crn_history_bucket *b, size_t n, bucket_fn value)
{
    static const double step[] = {1, 2, 5};
    double most = 1, power;
    size_t i;

    for (i = 0; i < n; i++)
        most = fmax(most, value(&b[i]));
    power = pow(10, floor(log10(most)));
    for (i = 0; i < 3; i++)
        if (step[i] * power >= most)
            return step[i] * power;
    return 10 * power;
}

static void put_panel(struct evbuffer *out, const struct crn_history_bucket *b, size_t n,
                      bucket_fn value, double y, const char *name, const char *color)
{
    double width = (PICTURE_W - LEFT) / CRN_HISTORY_BUCKETS;
    double first = PICTURE_W - width * (double)n;
    double top = nice_top(b, n, value);
    size_t i;

    (void)evbuffer_add_printf(
        out,
        "<path d=\"M%.0f %.1fH%.0fM%.0f %.1fH%.0f\" stroke=\"var(--line)\" fill=\"none\"/>"
        "<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\" fill=\"var(--dim)\">%g</text>"
        "<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\" fill=\"var(--dim)\">0</text>"
        "<text x=\"%.0f\" y=\"%.1f\" fill=\"var(--dim)\">%s</text><path d=\"M%.2f %.1f",
        LEFT, y, PICTURE_W, LEFT, y + PANEL_H, PICTURE_W, LEFT - 6, y + 9, top, LEFT - 6,
        y + PANEL_H, LEFT, y - 4, name, first, y + PANEL_H);
    for (i = 0; i < n; i++)
        (void)evbuffer_add_printf(out, "V%.2fH%.2f", y + PANEL_H * (1 - value(&b[i]) / top),
                                  first + width * (double)(i + 1));
    (void)evbuffer_add_printf(out,
                              "V%.1fZ\" fill=\"var(%s)\" fill-opacity=\".35\" "
                              "stroke=\"var(%s)\"/>",
                              y + PANEL_H, color, color);
}

static void put_picture(struct evbuffer *out, const struct crn_server *s, size_t token)
{
    struct crn_history_bucket b[CRN_HISTORY_BUCKETS];
    size_t n = crn_history_read(s->history, token, b);
    double below = 2 * (PANEL_H + GAP) + 12;

    (void)evbuffer_add_printf(out,
                              "<figure><svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
                              "aria-label=\"Jobs that write and jobs that wait, over time\">",
                              PICTURE_W, below + 4);
    put_panel(out, b, n, bucket_holders, GAP, "jobs with the token", "--use");
    put_panel(out, b, n, bucket_waiting, 2 * GAP + PANEL_H, "jobs that wait", "--wait");
    (void)evbuffer_add_printf(out, "<text x=\"%.0f\" y=\"%.0f\" fill=\"var(--dim)\">", LEFT, below);
    page_time(out, s->conf->history_ns);
    (void)evbuffer_add_printf(out,
                              " ago</text><text x=\"%.0f\" y=\"%.0f\" text-anchor=\"end\" "
                              "fill=\"var(--dim)\">now</text></svg></figure>",
                              PICTURE_W, below);
}

/* Tokens. -------------------------------------------------------------------------------------- */

static void put_pair(struct evbuffer *out, const char *name, uint64_t value)
{
    (void)evbuffer_add_printf(out, "<div><dt>%s</dt><dd>%llu</dd></div>", name,
                              (unsigned long long)value);
}

static void put_time_pair(struct evbuffer *out, const char *name, double seconds)
{
    (void)evbuffer_add_printf(out, "<div><dt>%s</dt><dd>", name);
    page_time(out, seconds > 0 ? (uint64_t)(seconds * 1e9) : 0);
    (void)evbuffer_add_printf(out, "</dd></div>");
}

static void put_token(struct evbuffer *out, const struct crn_server *s, size_t token)
{
    struct crn_turns_totals t;
    const char *state;

    crn_turns_totals(s->turns, server_now(s), token, &t);
    state = t.row.is_draining   ? "drained"
            : t.row.is_dry      ? "dry run"
            : t.row.is_settling ? "settling"
                                : "open";
    (void)evbuffer_add_printf(out, "<section><h2>");
    page_text(out, t.row.token);
    (void)evbuffer_add_printf(out, " <small>%s</small> <span class=\"state %s\">%s</span></h2><dl>",
                              t.row.policy, strcmp(state, "open") == 0 ? "open" : "shut", state);
    put_pair(out, "have the token", t.row.holders);
    put_pair(out, "at most", t.row.slots);
    put_pair(out, "wait", t.row.waiting);
    put_time_pair(out, "longest wait now", t.row.waiting > 0 ? (double)t.row.oldest_ns * 1e-9 : 0);
    put_time_pair(out, "mean wait", t.row.granted > 0 ? t.wait_s / (double)t.row.granted : 0);
    put_pair(out, "let go", t.row.granted);
    if (t.row.is_dry) {
        put_pair(out, "let go beside others", t.overlapping);
        put_pair(out, "would wait", t.dry_waiting);
        put_time_pair(out, "mean wait would be",
                      t.dry_granted > 0 ? t.dry_wait_s / (double)t.dry_granted : 0);
    }
    put_pair(out, "taken back", t.row.taken);
    (void)evbuffer_add_printf(out, "</dl>");
    put_picture(out, s, token);
    (void)evbuffer_add_printf(out, "</section>");
}

/* Details. ------------------------------------------------------------------------------------- */

static void put_cell(struct evbuffer *out, const char *text)
{
    (void)evbuffer_add_printf(out, "<td>");
    page_text(out, text);
    (void)evbuffer_add_printf(out, "</td>");
}

static void put_time_cell(struct evbuffer *out, uint64_t ns)
{
    (void)evbuffer_add_printf(out, "<td class=\"n\">");
    page_time(out, ns);
    (void)evbuffer_add_printf(out, "</td>");
}

static void on_page_row(void *arg, const struct crn_bp_msg *msg)
{
    const struct crn_bp_request_row *r = &msg->u.request_row;
    struct evbuffer *out = arg;
    char size[32] = "";

    if (msg->type != CRN_BP_REQUEST_ROW)
        return;
    if (r->bytes > 0)
        crn_human_bytes(r->bytes, size, sizeof(size));
    (void)evbuffer_add_printf(out, "<tr>");
    put_cell(out, r->token);
    put_cell(out, r->user);
    (void)evbuffer_add_printf(out, "<td class=\"name\">");
    page_text(out, r->job);
    (void)evbuffer_add_printf(out, "</td>");
    (void)evbuffer_add_printf(out, "<td class=\"n\">%u</td>", r->nodes);
    put_cell(out, crn_io_kind_name((enum crn_io_kind)r->kind));
    put_cell(out, size);
    if (r->state == CRN_BP_WAITING)
        (void)evbuffer_add_printf(out, "<td>waits, place %u</td>", r->place);
    else
        put_cell(out, "has the token");
    put_time_cell(out, r->state == CRN_BP_WAITING ? r->age_ns : r->held_ns);
    if (r->state == CRN_BP_WAITING)
        put_time_cell(out, r->start_ns);
    else
        put_cell(out, "");
    put_cell(out, crn_bp_why_text(r->why));
    (void)evbuffer_add_printf(out, "</tr>");
}

static void put_requests(struct evbuffer *out, const struct crn_server *s)
{
    const struct crn_bp_query query = {.max_requests = MAX_ROWS};

    (void)evbuffer_add_printf(out,
                              "<section><h2>Jobs</h2><div class=\"scroll\"><table><tr><th>token"
                              "<th>user<th>job<th class=\"n\">nodes<th>kind<th>size<th>state"
                              "<th class=\"n\">for<th class=\"n\">starts in<th>why</tr>");
    (void)crn_turns_all(s->turns, server_now(s), &query, on_page_row, out);
    (void)evbuffer_add_printf(out, "</table></div></section>");
}

static void put_users(struct evbuffer *out, const struct crn_server *s)
{
    struct crn_turns_user user[MAX_USERS];
    size_t n = crn_turns_users(s->turns, server_now(s), user, MAX_USERS);
    size_t i;

    (void)evbuffer_add_printf(out, "<section><h2>Users <small>share of the tokens' time over the "
                                   "last hour or so</small></h2><div class=\"scroll\"><table><tr>"
                                   "<th>user<th class=\"n\">share<th class=\"n\">weight"
                                   "<th class=\"n\">jobs</tr>");
    for (i = 0; i < n; i++) {
        (void)evbuffer_add_printf(out, "<tr>");
        put_cell(out, user[i].name);
        (void)evbuffer_add_printf(out,
                                  "<td class=\"n\">%.1f %%</td><td class=\"n\">%g</td>"
                                  "<td class=\"n\">%u</td></tr>",
                                  100 * user[i].share, user[i].weight, user[i].jobs);
    }
    (void)evbuffer_add_printf(out, "</table></div></section>");
}

/* The document. -------------------------------------------------------------------------------- */

static void put_document(struct evbuffer *out, const struct crn_server *s)
{
    time_t now = time(NULL);
    char date[64] = "";
    struct tm utc;
    size_t i;

    if (gmtime_r(&now, &utc) != NULL)
        (void)strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S UTC", &utc);
    (void)evbuffer_add(out, page_head, sizeof(page_head) - 1);
    (void)evbuffer_add_printf(out,
                              "<meta http-equiv=\"refresh\" content=\"%d\"></head><body>"
                              "<header><h1>cairn-broker</h1><p>%u jobs, up ",
                              REFRESH_S, crn_turns_jobs(s->turns));
    page_time(out, (uint64_t)(server_now(s) - s->started_ns));
    (void)evbuffer_add_printf(out, "</p></header>");
    for (i = 0; i < crn_turns_tokens(s->turns); i++)
        put_token(out, s, i);
    if (s->conf->page == CRN_PAGE_DETAILS) {
        put_requests(out, s);
        put_users(out, s);
    }
    (void)evbuffer_add_printf(out, "<footer>%s, loads anew every %d s</footer></body></html>", date,
                              REFRESH_S);
}

void crn_page_serve(struct evhttp_request *req, void *arg)
{
    struct crn_server *s = arg;
    struct evbuffer *out = evbuffer_new();
    struct evkeyvalq *head = evhttp_request_get_output_headers(req);

    if (out == NULL) {
        evhttp_send_error(req, HTTP_INTERNAL, NULL);
        return;
    }
    put_document(out, s);
    (void)evhttp_add_header(head, "Content-Type", "text/html; charset=utf-8");
    (void)evhttp_add_header(head, "Cache-Control", "no-store");
    (void)evhttp_add_header(head, "X-Content-Type-Options", "nosniff");
    (void)evhttp_add_header(head, "Content-Security-Policy",
                            "default-src 'none'; style-src 'unsafe-inline'; "
                            "frame-ancestors 'none'; base-uri 'none'; form-action 'none'");
    evhttp_send_reply(req, HTTP_OK, "OK", out);
    evbuffer_free(out);
}
