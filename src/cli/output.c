/* SPDX-License-Identifier: BSD-3-Clause */
/* Output for people: aligned tables, a progress bar, texts of types, shapes and times. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"

/* Texts. --------------------------------------------------------------------------------------- */

const char *crn_output_type(uint8_t type)
{
    static const char *const names[] = {"bytes", "i8",  "u8",   "i16",  "u16",     "i32",
                                        "u32",   "i64", "u64",  "f32",  "f64",     "c64",
                                        "c128",  "f16", "bf16", "bool", "f8_e4m3", "f8_e5m2"};

    return type < sizeof(names) / sizeof(names[0]) ? names[type] : "?";
}

void crn_output_shape(const uint64_t *dims, unsigned ndims, char *buf, size_t size)
{
    size_t used = 0;
    unsigned i;

    buf[0] = '\0';
    for (i = 0; i < ndims && used < size; i++)
        used +=
            (size_t)snprintf(buf + used, size - used, "%s%" PRIu64, i > 0 ? " x " : "", dims[i]);
}

void crn_output_age(uint64_t since_ns, char *buf, size_t size)
{
    const struct crn_clock *clock = crn_clock_real();

    if (since_ns == 0)
        (void)snprintf(buf, size, "-");
    else
        crn_human_time(((double)clock->wall_ns(clock) - (double)since_ns) * 1e-9, buf, size);
}

void crn_output_date(uint64_t ns, char *buf, size_t size)
{
    time_t t = (time_t)(ns / UINT64_C(1000000000));
    struct tm tm;

    if (localtime_r(&t, &tm) == NULL || strftime(buf, size, "%Y-%m-%d %H:%M:%S", &tm) == 0)
        (void)snprintf(buf, size, "?");
}

/* Colours. ------------------------------------------------------------------------------------- */

const char *crn_output_colour(enum cli_colour colour)
{
    static const char *const codes[] = {"\033[0m", "\033[1m", "\033[32m", "\033[33m", "\033[1;31m"};
    const char *no = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    if ((no != NULL && no[0] != '\0') || !isatty(STDOUT_FILENO) || term == NULL ||
        strcmp(term, "dumb") == 0)
        return "";
    return codes[colour];
}

/* Tables. -------------------------------------------------------------------------------------- */

void crn_cli_chain_text(int64_t against, uint32_t chain, char *buf, size_t size)
{
    buf[0] = '\0';
    if (chain > 0)
        (void)snprintf(buf, size, "encoded against version %lld (chain of %u)", (long long)against,
                       (unsigned)chain);
}

void crn_table_begin(struct cli_table *t, const char *align)
{
    memset(t, 0, sizeof(*t));
    t->align = align;
    t->columns = strlen(align);
}

void crn_table_add(struct cli_table *t, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    int n;

    if (t->n == t->cap) {
        size_t cap = t->cap == 0 ? 64 : 2 * t->cap;
        char **grown = realloc(t->cells, cap * sizeof(*grown));

        if (grown == NULL) {
            t->failed = 1;
            return;
        }
        t->cells = grown;
        t->cap = cap;
    }
    va_start(ap, fmt);
    n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0)
        t->failed = 1;
    else
        t->cells[t->n++] = text;
}

static int column_width(const struct cli_table *t, size_t column)
{
    size_t width = 0;
    size_t i;

    for (i = column; i < t->n; i += t->columns)
        if (strlen(t->cells[i]) > width)
            width = strlen(t->cells[i]);
    return (int)width;
}

/* Prints one line, without trailing blanks. */
static void print_row(const struct cli_table *t, char *const *cells, const int *width)
{
    size_t n = t->columns;
    size_t i;

    while (n > 0 && cells[n - 1][0] == '\0')
        n--;
    for (i = 0; i < n; i++) {
        int w = i + 1 < n || t->align[i] == 'r' ? width[i] : 0;

        (void)printf("%s%*s", i > 0 ? "  " : "", t->align[i] == 'r' ? w : -w, cells[i]);
    }
    (void)printf("\n");
}

void crn_table_print(struct cli_table *t)
{
    int width[32] = {0};
    size_t i;

    for (i = 0; i < t->columns; i++)
        width[i] = column_width(t, i);
    for (i = 0; i + t->columns <= t->n && t->columns > 0; i += t->columns) {
        (void)fputs(i == 0 ? crn_output_colour(CLI_BOLD) : "", stdout);
        print_row(t, t->cells + i, width);
        (void)fputs(i == 0 ? crn_output_colour(CLI_PLAIN) : "", stdout);
    }
    if (t->failed)
        (void)fprintf(stderr, "cairn: out of memory: the table is not complete\n");
    crn_table_free(t);
}

void crn_table_free(struct cli_table *t)
{
    size_t i;

    for (i = 0; i < t->n; i++)
        free(t->cells[i]);
    free(t->cells);
    memset(t, 0, sizeof(*t));
}

/* Progress. ------------------------------------------------------------------------------------ */

#define BAR     30
#define DRAW_NS 100000000

void crn_progress_begin(struct cli_progress *p, const struct cli *cli, const char *what,
                        uint64_t total)
{
    memset(p, 0, sizeof(*p));
    p->what = what;
    p->total = total;
    if (cli->is_quiet || !isatty(STDERR_FILENO) || total == 0)
        return;
    p->mu = malloc(sizeof(*p->mu));
    if (p->mu != NULL)
        crn_mutex_init(p->mu, CRN_RANK_LEAF);
}

void crn_progress_begin_count(struct cli_progress *p, const struct cli *cli, const char *what,
                              uint64_t total)
{
    crn_progress_begin(p, cli, what, total);
    p->is_count = 1;
}

static void amount_text(const struct cli_progress *p, uint64_t amount, char *buf, size_t size)
{
    if (p->is_count)
        (void)snprintf(buf, size, "%" PRIu64, amount);
    else
        crn_human_bytes(amount, buf, size);
}

static void output_draw(const struct cli_progress *p)
{
    static const char full[BAR + 1] = "##############################";
    char done[32], total[32];
    double share = (double)p->done / (double)p->total;
    int cells = share >= 1 ? BAR : (int)(share * BAR);

    amount_text(p, p->done, done, sizeof(done));
    amount_text(p, p->total, total, sizeof(total));
    (void)fprintf(stderr, "\r%s [%-*.*s] %s of %s \033[K", p->what, BAR, cells, full, done, total);
}

void crn_progress_add(struct cli_progress *p, uint64_t bytes)
{
    const struct crn_clock *clock = crn_clock_real();
    int64_t now;

    if (p->mu == NULL)
        return;
    crn_lock(p->mu);
    p->done += bytes;
    now = clock->mono_ns(clock);
    if (now >= p->next_ns) {
        p->next_ns = now + DRAW_NS;
        output_draw(p);
    }
    crn_unlock(p->mu);
}

void crn_progress_end(struct cli_progress *p)
{
    if (p->mu == NULL)
        return;
    (void)fprintf(stderr, "\r\033[K");
    crn_mutex_fini(p->mu);
    free(p->mu);
    p->mu = NULL;
}
