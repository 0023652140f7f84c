/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration as text: an INI file that can be read back, and the reference manual. Also the
 * names of signals, the one value with a grammar of its own. */
#include "base/config.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/config_impl.h"

static void dump_names(const struct crn_config *cfg, FILE *out)
{
    char value[CRN_PATH_MAX];
    size_t i, k, n;
    const struct crn_key *keys = crn_config_keys(&n);

    for (i = 0; i < cfg->noverrides; i++) {
        const struct crn_name_config *o = &cfg->overrides[i];

        (void)fprintf(out, "\n[checkpoint %s]\n", o->name);
        for (k = 0; k < n; k++) {
            if (!keys[k].per_name || (o->is_set & crn_key_bit(&keys[k])) == 0)
                continue;
            crn_key_format(&keys[k], o, value, sizeof(value));
            (void)fprintf(out, "%s = %s\n", keys[k].name, value);
        }
    }
}

static int is_default(const struct crn_config *cfg, const struct crn_key *key)
{
    char value[CRN_PATH_MAX], def[CRN_PATH_MAX];
    struct crn_config plain;

    crn_config_defaults(&plain);
    crn_config_format(cfg, key, value, sizeof(value));
    crn_config_format(&plain, key, def, sizeof(def));
    return strcmp(value, def) == 0;
}

int crn_config_dump(const struct crn_config *cfg, FILE *out)
{
    return crn_config_show(cfg, out, 1, 0);
}

int crn_config_show(const struct crn_config *cfg, FILE *out, int is_all, int with_help)
{
    char value[CRN_PATH_MAX];
    size_t k, n;
    const struct crn_key *keys = crn_config_keys(&n);

    (void)fprintf(out, "[cairn]\n");
    for (k = 0; k < n; k++) {
        if (!is_all && !crn_key_is_basic(&keys[k]) && is_default(cfg, &keys[k]))
            continue;
        crn_config_format(cfg, &keys[k], value, sizeof(value));
        if (with_help)
            (void)fprintf(out, "\n# %s\n", keys[k].help);
        (void)fprintf(out, "%s =%s%s\n", keys[k].name, value[0] != '\0' ? " " : "", value);
    }
    dump_names(cfg, out);
    return fflush(out) != 0 || ferror(out) ? -1 : 0;
}

void crn_config_doc_values(const struct crn_key *key, FILE *out)
{
    char range[80];
    int i;

    switch (key->type) {
    case CRN_KEY_TEXT:
        (void)fputs("text", out);
        return;
    case CRN_KEY_ENUM:
        for (i = 0; key->values[i] != NULL; i++)
            (void)fprintf(out, "%s`%s`", i > 0 ? ", " : "", key->values[i]);
        return;
    case CRN_KEY_EVERY:
        (void)fputs("number or time", out);
        return;
    case CRN_KEY_U64:
    case CRN_KEY_BYTES:
    case CRN_KEY_TIME:
        break;
    }
    crn_key_range(key, range, sizeof(range));
    (void)fprintf(out, "%s%s", range, key->values != NULL ? ", `auto`" : "");
}

static void doc_table(int is_basic, int per_name, FILE *out)
{
    size_t k, n;
    const struct crn_key *keys = crn_config_keys(&n);

    (void)fputs("\n| key | default | values | meaning |\n|---|---|---|---|\n", out);
    for (k = 0; k < n; k++) {
        if (keys[k].per_name != per_name || crn_key_is_basic(&keys[k]) != is_basic)
            continue;
        (void)fprintf(out, "| `%s` | ", keys[k].name);
        if (keys[k].def[0] != '\0')
            (void)fprintf(out, "`%s`", keys[k].def);
        (void)fputs(" | ", out);
        crn_config_doc_values(&keys[k], out);
        (void)fprintf(out, " | %s |\n", keys[k].help);
    }
}

int crn_config_doc(FILE *out)
{
    (void)fputs(
        "# Configuration\n\n"
        "Written by `cairn config --doc`; change `src/base/config_keys.c` instead of this page.\n\n"
        "Sources, the weakest first: defaults, the INI file (`-C FILE`, the option `config_file`,\n"
        "or `$CAIRN_CONFIG`), variables `CAIRN_<KEY>`, settings of the program. `cairn config`\n"
        "prints what is in effect; `cairn config --all` adds the advanced keys. An unknown key is "
        "an\n"
        "error; a variable that resembles none is ignored, with a warning. So is a key of an "
        "older\n"
        "release that is gone.\n\n"
        "Sizes: `4096`, `64M`, `1.5G` (powers of two). Times: `90s`, `15m`, `2h`, `250ms`; a bare\n"
        "number is seconds. Comments begin with `#` or `;`. Paths may be relative to the current\n"
        "directory.\n\n"
        "    [cairn]\n"
        "    persistent = /lustre/me/checkpoints\n"
        "    keep_last = 5\n\n"
        "    [checkpoint heat]\n"
        "    keep_last = 2\n"
        "    on_failure = continue\n\n"
        "## Section [cairn]\n",
        out);
    doc_table(1, 0, out);
    (void)fputs("\n## Section [cairn] for all checkpoints, or [checkpoint NAME] for one\n\n"
                "What a name sets for itself wins over everything said of all names.\n",
                out);
    doc_table(1, 1, out);
    (void)fputs("\n## Advanced keys\n\n"
                "Their defaults suit nearly all jobs. Section [cairn]:\n",
                out);
    doc_table(0, 0, out);
    (void)fputs("\nSection [cairn], or [checkpoint NAME]:\n", out);
    doc_table(0, 1, out);
    return fflush(out) != 0 || ferror(out) ? -1 : 0;
}

static int signal_number(const char *name, size_t len)
{
    static const struct {
        const char *name;
        int number;
    } known[] = {
        {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"TERM", SIGTERM}, {"INT", SIGINT},   {"HUP", SIGHUP},
        {"ALRM", SIGALRM}, {"XCPU", SIGXCPU}, {"URG", SIGURG},   {"CONT", SIGCONT},
    };
    size_t i;

    if (len > 3 && strncmp(name, "SIG", 3) == 0) {
        name += 3;
        len -= 3;
    }
    for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strlen(known[i].name) == len && strncmp(known[i].name, name, len) == 0)
            return known[i].number;
    return -1;
}

cairn_err crn_config_parse_signals(const char *text, int *ret, size_t max, size_t *ret_n,
                                   struct crn_errinfo *ei)
{
    static const char gap[] = ", ";
    size_t n = 0;

    for (text += strspn(text, gap); *text != '\0'; text += strspn(text, gap)) {
        size_t len = strcspn(text, gap);
        int number = signal_number(text, len);

        if (number < 0 || n == max)
            return crn_fail(ei, CAIRN_ECONFIG, 0,
                            "stop_signals: '%.*s' is not one of USR1, USR2, TERM, INT, HUP, ALRM, "
                            "XCPU, URG, CONT",
                            (int)len, text);
        ret[n++] = number;
        text += len;
    }
    *ret_n = n;
    return CAIRN_OK;
}
