/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn help: help texts, manual pages and shell completion, all from the table of commands. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char crn_shared_options[] =
    "  --dir DIR         the checkpoints' directory (key persistent, $CAIRN_PERSISTENT)\n"
    "  -C, --config FILE configuration file ($CAIRN_CONFIG)\n"
    "  --set KEY=VALUE   a configuration key\n"
    "  --json            print JSON; an error is the object \"error\"\n"
    "  -q, --quiet       no warnings, notes and progress: results and errors only\n"
    "  -v, --verbose     log lines of level info (log_level)\n"
    "  -h, --help        this text\n"
    "  --version         version of Cairn\n";

void crn_help_all(FILE *out)
{
    size_t i, n;
    const struct cli_command *const *commands = crn_cli_commands(&n);

    (void)fprintf(out, "usage: cairn COMMAND [OPTION...] [ARGUMENT...]\n\n");
    for (i = 0; i < n; i++)
        (void)fprintf(out, "  %-9s %s\n", commands[i]->name, commands[i]->help);
    (void)fprintf(out,
                  "\nOptions of all commands:\n%s\n"
                  "`cairn help COMMAND` has the options of each.\n"
                  "Exit status: 0 fine, 1 a problem was found, 2 wrong usage.\n",
                  crn_shared_options);
}

/* Prints paragraphs, one a line, broken at 80 columns. */
static void print_filled(const char *text)
{
    size_t column = 0;

    while (*text != '\0') {
        size_t word = strcspn(text, " \n");

        if (column > 0 && column + 1 + word > 80) {
            (void)putchar('\n');
            column = 0;
        }
        column += (size_t)printf("%s%.*s", column > 0 ? " " : "", (int)word, text);
        text += word;
        if (*text == '\n') {
            (void)putchar('\n');
            column = 0;
        }
        text += *text != '\0';
    }
    (void)putchar('\n');
}

void crn_help_command(const struct cli_command *c)
{
    (void)printf("usage: cairn %s %s\n%s.\n\n", c->name, c->args, c->help);
    if (c->about != NULL) {
        print_filled(c->about);
        (void)putchar('\n');
    }
    if (c->options != NULL)
        (void)printf("Options:\n%s\n", c->options);
    (void)printf("Options of all commands:\n%s", crn_shared_options);
}

/* All commands as a page of the site. A '|' of a usage line stays outside of tables. */
static void help_reference(void)
{
    size_t i, n;
    const struct cli_command *const *commands = crn_cli_commands(&n);

    (void)printf("# The command line\n\nWritten by `cairn help --doc`; `make docs` writes it "
                 "again. `cairn help COMMAND` and `man cairn-COMMAND`\nhave the same. Exit status: "
                 "0 fine, 1 a problem was found, 2 wrong usage.\n\n| command | does |\n"
                 "|---|---|\n");
    for (i = 0; i < n; i++)
        (void)printf("| [`%s`](#cairn-%s) | %s |\n", commands[i]->name, commands[i]->name,
                     commands[i]->help);
    (void)printf("\n## Options of all commands\n\n```text\n%s```\n", crn_shared_options);
    for (i = 0; i < n; i++) {
        const struct cli_command *c = commands[i];

        (void)printf("\n## cairn %s\n\n", c->name);
        print_filled(c->about != NULL ? c->about : c->help);
        (void)printf("\n```text\ncairn %s %s\n%s%s```\n", c->name, c->args,
                     c->options != NULL ? "\n" : "", c->options != NULL ? c->options : "");
    }
}

/* Completion. ---------------------------------------------------------------------------------- */

static void help_propose(const char *start, const char *word, size_t len)
{
    if (strncmp(word, start, strlen(start)) == 0)
        (void)printf("%.*s\n", (int)len, word);
}

/* The words of an option text that begin with '-', up to the explanation. */
static void propose_options(const char *start, const char *text)
{
    for (; text != NULL && *text != '\0'; text += strcspn(text, "\n"), text += *text == '\n') {
        const char *word = text;

        while (strncmp(word, "  -", 3) == 0 || strncmp(word, ", -", 3) == 0) {
            size_t len = strcspn(word + 2, " ,[=\n");

            if (len > 2 || start[0] != '\0')
                help_propose(start, word + 2, len);
            word += 2 + len;
        }
    }
}

static void propose_words(const char *start, const char *words)
{
    size_t len;

    for (; *words != '\0'; words += len, words += *words == ' ') {
        len = strcspn(words, " ");
        help_propose(start, words, len);
    }
}

static void propose_keys(const char *start)
{
    size_t i, n;
    const struct crn_key *keys = crn_config_keys(&n);

    for (i = 0; i < n; i++)
        if (strncmp(keys[i].name, start, strlen(start)) == 0)
            (void)printf("%s=\n", keys[i].name);
}

static void propose_versions(const struct crn_store *st, const char *name, const char *start,
                             struct crn_errinfo *ei)
{
    struct crn_catalog c;
    char text[CAIRN_MAX_NAME + 32];
    size_t i;

    if (crn_store_catalog(st, name, &c, ei) != CAIRN_OK)
        return;
    for (i = 0; i < c.n; i++) {
        int len = snprintf(text, sizeof(text), "%s@%lld", name, (long long)c.v[i].version);

        help_propose(start, text, (size_t)len);
    }
    crn_catalog_free(&c);
}

/* Names of the store that the words before name, or the configuration does; after NAME@ its
 * versions. */
static void propose_checkpoints(struct cli *cli, const char *start)
{
    struct crn_names names;
    char name[CAIRN_MAX_NAME];
    size_t len = strcspn(start, "@");
    size_t i;

    if (crn_config_load(&cli->cfg, cli->config_file, cli->settings, cli->ei) != CAIRN_OK)
        return;
    if (crn_store_open(crn_fs_default(), cli->cfg.persistent, 0, &cli->store, cli->ei) ==
        CAIRN_OK) {
        if (start[len] == '@' && len < sizeof(name)) {
            (void)snprintf(name, sizeof(name), "%.*s", (int)len, start);
            propose_versions(&cli->store, name, start, cli->ei);
        } else if (crn_store_names(&cli->store, &names, cli->ei) == CAIRN_OK) {
            for (i = 0; i < names.n; i++)
                help_propose(start, names.name[i], strlen(names.name[i]));
            crn_names_free(&names);
        }
        crn_store_close(&cli->store);
    }
    crn_config_fini(&cli->cfg);
}

/* words: the command line so far, without "cairn"; the last word is the one to complete. */
static void propose_all(struct cli *cli, int n, char **words)
{
    const char *start = n > 0 ? words[n - 1] : "";
    const char *before = n > 1 ? words[n - 2] : "";
    const struct cli_command *c = NULL;
    size_t i, ncommands;
    const struct cli_command *const *commands = crn_cli_commands(&ncommands);
    int w, arguments = 0;

    for (w = 0; w + 1 < n; w++) {
        arguments += c != NULL && words[w][0] != '-';
        if (strcmp(words[w], "--dir") == 0 && w + 2 < n && cli->nsettings < 8) {
            char *text = NULL;

            if (asprintf(&text, "persistent=%s", words[w + 1]) > 0)
                cli->settings[cli->nsettings++] = text;
        } else if (c == NULL && (w == 0 || words[w - 1][0] != '-')) {
            c = crn_cli_find(words[w]);
        }
    }
    if (strcmp(before, "--set") == 0)
        propose_keys(start);
    else if (strcmp(before, "--dir") == 0 || strcmp(before, "-C") == 0 ||
             strcmp(before, "--config") == 0)
        return; /* files: the shell knows them */
    else if (start[0] == '-') {
        propose_options(start, c != NULL ? c->options : NULL);
        propose_options(start, crn_shared_options);
    } else if (c == NULL || c == &crn_cmd_help) {
        for (i = 0; i < ncommands; i++)
            help_propose(start, commands[i]->name, strlen(commands[i]->name));
    } else if (c->words != NULL && arguments == 0) {
        propose_words(start, c->words);
    } else if (c->needs_store || c == &crn_cmd_plot) {
        propose_checkpoints(cli, start);
    }
}

/* The command. --------------------------------------------------------------------------------- */

static int help_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {{"man", no_argument, NULL, 'm'},
                                          {"complete", no_argument, NULL, 'c'},
                                          {"doc", no_argument, NULL, 'd'},
                                          {0}};
    const struct cli_command *about = NULL;
    int manual = 0;
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "+", longs)) != -1) {
        if (c == '?')
            return CLI_USAGE;
        if (c == 'c') {
            optind += optind < argc && strcmp(argv[optind], "--") == 0;
            propose_all(cli, argc - optind, argv + optind);
            return crn_cli_end(cli, CLI_OK);
        }
        if (c == 'd') {
            help_reference();
            return crn_cli_end(cli, CLI_OK);
        }
        manual = 1;
    }
    if (argc - optind > 1)
        return crn_cli_usage(cli, "one command at a time");
    if (optind < argc && (about = crn_cli_find(argv[optind])) == NULL)
        return crn_cli_usage(cli, "'%s' is not a command", argv[optind]);
    if (manual)
        crn_manual(about);
    else if (about != NULL)
        crn_help_command(about);
    else
        crn_help_all(stdout);
    return crn_cli_end(cli, CLI_OK);
}

const struct cli_command crn_cmd_help = {
    .name = "help",
    .args = "[--man] [COMMAND] | --doc",
    .help = "Explains a command",
    .needs_nothing = 1,
    .run = help_run,
    .options = "  --man             the manual page, as roff: cairn help --man ls | man -l -\n"
               "  --doc             all commands, as in docs/commands.md\n"
               "  --complete -- WORD...  what may follow: for the completions of shells\n",
};
