/* SPDX-License-Identifier: BSD-3-Clause */
/* Manual pages, written as roff from the same texts as --help. */
#include "cli/cli.h"

#include <ctype.h>
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

static void put_paragraphs(const char *text)
{
    while (text != NULL && *text != '\0') {
        size_t len = strcspn(text, "\n");

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

static void put_header(const char *page, const char *name, const char *help)
{
    size_t i;

    (void)printf(".\\\" written by `cairn help --man`\n.TH \"");
    for (i = 0; page[i] != '\0'; i++)
        (void)putchar(toupper((unsigned char)page[i]));
    (void)printf("\" 1 \"\" \"Cairn %s\" \"User Commands\"\n.SH NAME\n%s \\- ", CAIRN_VERSION,
                 name);
    (void)putchar(tolower((unsigned char)help[0]));
    put_text(help + 1, strlen(help + 1));
    (void)printf("\n.SH SYNOPSIS\n");
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
    put_paragraphs(c->about);
    if (c->options != NULL) {
        (void)printf(".SH OPTIONS\n");
        put_options(c->options);
    }
    put_shared();
    (void)printf(".SH SEE ALSO\n.BR cairn (1)\n");
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
    ".fi\n.SH SEE ALSO\n.BR cairnd (8),\n.BR cairn\\-broker (8)\n";

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
    put_paragraphs(description);
    (void)printf(".SH COMMANDS\n");
    for (i = 0; i < n; i++) {
        (void)printf(".TP\n.BR cairn\\-%s (1)\n", commands[i]->name);
        put_text(commands[i]->help, strlen(commands[i]->help));
        (void)printf(".\n");
    }
    put_shared();
    (void)printf("%s", closing);
}
