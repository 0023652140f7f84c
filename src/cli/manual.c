/* SPDX-License-Identifier: BSD-3-Clause */
/* Manual pages, written as roff from the same texts as --help. */
#include "cli/cli.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Escapes one line of text; `literals` become bold. Stops at the end of the line. */
static void put_text(const char *text, size_t len)
{
    int bold = 0;
    size_t i;

    if (len > 0 && (text[0] == '.' || text[0] == '\''))
        (void)printf("\\&");
    for (i = 0; i < len; i++) {
        if (text[i] == '`') {
            bold = !bold;
            (void)printf(bold ? "\\fB" : "\\fR");
        } else if (text[i] == '-') {
            (void)printf("\\-");
        } else if (text[i] == '\\') {
            (void)printf("\\e");
        } else {
            (void)putchar(text[i]);
        }
    }
}

/* at_head: the first one follows a heading, which has its own space. */
static void put_paragraphs(const char *text, int at_head)
{
    for (; text != NULL && *text != '\0'; at_head = 0) {
        size_t len = strcspn(text, "\n");

        if (!at_head)
            (void)printf(".PP\n");
        put_text(text, len);
        (void)putchar('\n');
        text += len + (text[len] == '\n');
    }
}

/* Length of the option itself in a line "  -o, --output FILE where to": up to two spaces, or up to
 * the column where explanations begin. */
static size_t option_width(const char *line, size_t len)
{
    size_t i;

    for (i = 2; i + 1 < len; i++)
        if (line[i] == ' ' && (line[i + 1] == ' ' || i == 19))
            return i;
    return len;
}

/* Lines of options: two spaces, the option, its text; deeper lines continue the text; a line
 * without spaces before it is a heading. */
static void put_options(const char *text)
{
    while (text != NULL && *text != '\0') {
        size_t len = strcspn(text, "\n");
        size_t indent = strspn(text, " ");
        size_t width;

        if (indent == 0) {
            (void)printf(".SS ");
            put_text(text, len);
        } else if (indent > 2) {
            put_text(text + indent, len - indent);
        } else {
            width = option_width(text, len);
            (void)printf(".TP\n.B ");
            put_text(text + 2, width - 2);
            (void)putchar('\n');
            width += strspn(text + width, " ");
            put_text(text + width, len - width);
        }
        (void)putchar('\n');
        text += len + (text[len] == '\n');
    }
}

static void put_shared(void)
{
    (void)printf(".SH OPTIONS OF ALL COMMANDS\n");
    put_options(crn_shared_options);
    (void)printf(".SH EXIT STATUS\n0 fine; 1 a problem was found (an error, damage, a difference); "
                 "2 wrong usage.\n");
}

static void put_title(const char *page, int section, const char *name, const char *help)
{
    size_t i;

    (void)printf(".\\\" written by cairn\n.TH \"");
    for (i = 0; page[i] != '\0'; i++)
        (void)putchar(toupper((unsigned char)page[i]));
    (void)printf("\" %d \"\" \"Cairn %s\" \"Cairn\"\n.SH NAME\n%s \\- ", section, CAIRN_VERSION,
                 name);
    (void)putchar(tolower((unsigned char)help[0]));
    put_text(help + 1, strlen(help + 1));
    (void)putchar('\n');
}

static void put_header(const char *page, const char *name, const char *help)
{
    put_title(page, 1, name, help);
    (void)printf(".SH SYNOPSIS\n");
}

static void manual_command(const struct cli_command *c)
{
    char page[64];

    (void)snprintf(page, sizeof(page), "cairn-%s", c->name);
    put_header(page, page, c->help);
    (void)printf(".B cairn %s\n", c->name);
    put_text(c->args, strlen(c->args));
    (void)printf("\n.SH DESCRIPTION\n");
    put_text(c->help, strlen(c->help));
    (void)printf(".\n");
    put_paragraphs(c->about, 0);
    if (c->options != NULL) {
        (void)printf(".SH OPTIONS\n");
        put_options(c->options);
    }
    put_shared();
    (void)printf(".SH SEE ALSO\n.BR cairn (1),\n.BR cairn (5)\n");
}

static const char description[] =
    "`cairn` works on a directory of checkpoints that programs have written through libcairn. A "
    "checkpoint has a name and a version, written NAME@VERSION. Where a command takes "
    "NAME[@VERSION], the newest whole version is meant if none is given; NAME@latest says so.\n"
    "Each command has a page of its own: `man cairn-ls`, or `cairn help ls`.\n";

static const char closing[] =
    ".SH ENVIRONMENT\n"
    ".TP\n.B CAIRN_CONFIG\nConfiguration file.\n"
    ".TP\n.BI CAIRN_ KEY\nAny configuration key, such as\n.BR CAIRN_PERSISTENT .\n"
    ".SH EXAMPLES\n.nf\n"
    "cairn \\-\\-dir /lustre/me/checkpoints ls\n"
    "cairn verify heat@300\n"
    "cairn extract heat temperature \\-o t.npy\n"
    "cairn diff \\-\\-relative 1e\\-12 heat@300 heat@400\n"
    "cairn tune \\-o tuned.ini /lustre/me/checkpoints\n"
    "cairn watch \\-\\-as heat \\-\\-pattern 'out.{step}.{rank}.h5' \\-\\-ranks 64 "
    "/scratch/me/run\n"
    ".fi\n.SH SEE ALSO\n.BR cairn (5),\n.BR libcairn (3),\n.BR cairnd (8),\n.BR cairn\\-broker "
    "(8)\n";

void crn_manual(const struct cli_command *command)
{
    size_t i, n;
    const struct cli_command *const *commands = crn_cli_commands(&n);

    if (command != NULL) {
        manual_command(command);
        return;
    }
    put_header("cairn", "cairn", "Look at, check, compare, extract, copy and remove checkpoints");
    (void)printf(".B cairn\nCOMMAND [OPTION...] [ARGUMENT...]\n.SH DESCRIPTION\n");
    put_paragraphs(description, 1);
    (void)printf(".SH COMMANDS\n");
    for (i = 0; i < n; i++) {
        (void)printf(".TP\n.BR cairn\\-%s (1)\n", commands[i]->name);
        put_text(commands[i]->help, strlen(commands[i]->help));
        (void)printf(".\n");
    }
    put_shared();
    (void)printf("%s", closing);
}

/* The configuration. --------------------------------------------------------------------------- */

static const char config_about[] =
    "Programs with Cairn, `cairnd` and the command `cairn` read their configuration from, the "
    "weakest first: defaults; an INI file, named by the program, by `-C` or by `CAIRN_CONFIG`; "
    "variables `CAIRN_KEY`, such as `CAIRN_PERSISTENT`; settings of the program or `--set`. `cairn "
    "config` prints what is in effect.\n"
    "An unknown key is an error; a variable that resembles none is ignored, with a warning. A key "
    "of an older release that is gone is ignored, with a warning.\n"
    "Sizes: 4096, 64M, 1.5G (powers of two). Times: 90s, 15m, 2h, 250ms; a bare number is seconds. "
    "Comments begin with # or ;. Paths may be relative to the current directory.\n";

static void put_key(const struct crn_key *key)
{
    char *values = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&values, &len);

    if (out == NULL)
        return;
    crn_config_doc_values(key, out);
    if (fclose(out) == 0) {
        (void)printf(".TP\n.BR %s \" = \"", key->name);
        put_text(key->def, strlen(key->def));
        (void)putchar('\n');
        put_text(key->help, strlen(key->help));
        (void)printf("\n.br\nValues: ");
        put_text(values, len);
        (void)putchar('\n');
    }
    free(values);
}

static void put_keys(int is_basic, int per_name)
{
    size_t i, n;
    const struct crn_key *keys = crn_config_keys(&n);

    for (i = 0; i < n; i++)
        if (keys[i].per_name == per_name && crn_key_is_basic(&keys[i]) == is_basic)
            put_key(&keys[i]);
}

void crn_manual_config(void)
{
    put_title("cairn", 5, "cairn", "Configuration of Cairn");
    (void)printf(".SH DESCRIPTION\n");
    put_paragraphs(config_about, 1);
    (void)printf(".SH EXAMPLE\n.nf\n[cairn]\npersistent = /lustre/me/checkpoints\nkeep_last = 5\n"
                 ".PP\n[checkpoint heat]\nkeep_last = 2\n.fi\n"
                 ".SH SECTION [cairn]\nKeys with their defaults.\n");
    put_keys(1, 0);
    (void)printf(".SH SECTION [cairn] OR [checkpoint NAME]\n"
                 "What a name sets for itself wins over everything said of all names.\n");
    put_keys(1, 1);
    (void)printf(".SH ADVANCED KEYS\nTheir defaults suit nearly all jobs.\n.SS Section [cairn]\n");
    put_keys(0, 0);
    (void)printf(".SS Section [cairn] or [checkpoint NAME]\n");
    put_keys(0, 1);
    (void)printf(".SH SEE ALSO\n.BR cairn (1),\n.BR cairn\\-config (1),\n.BR cairnd (8)\n");
}
