/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn config: the configuration in effect, as a usable INI file; or the reference of all keys. */
#include "cli/cli.h"

static int print_json(struct cli *cli)
{
    struct crn_json *j = crn_cli_json(cli);
    char value[CRN_PATH_MAX];
    size_t i, n;
    const struct crn_key *keys = crn_config_keys(&n);

    crn_json_object(j, "cairn");
    for (i = 0; i < n; i++) {
        crn_config_format(&cli->cfg, &keys[i], value, sizeof(value));
        crn_json_str(j, keys[i].name, value);
    }
    crn_json_end_object(j);
    crn_json_array(j, "overrides");
    for (i = 0; i < cli->cfg.noverrides; i++)
        crn_json_str(j, NULL, cli->cfg.overrides[i].name);
    crn_json_end_array(j);
    return crn_cli_json_end(cli, CLI_OK);
}

static int config_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {{"all", no_argument, NULL, 'a'},
                                          {"doc", no_argument, NULL, 'd'},
                                          {"help-keys", no_argument, NULL, 'k'},
                                          {"man", no_argument, NULL, 'm'},
                                          {0}};
    int is_all = 0;
    int with_help = 0;
    int doc = 0;
    int manual = 0;
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "", longs)) != -1) {
        if (c == '?')
            return CLI_USAGE;
        doc |= c == 'd';
        manual |= c == 'm';
        with_help |= c == 'k';
        is_all |= c == 'a';
    }
    if (optind < argc)
        return crn_cli_usage(cli, "unexpected argument '%s'", argv[optind]);
    if (manual)
        crn_manual_config();
    else if (doc)
        (void)crn_config_doc(stdout);
    else if (cli->is_json)
        return print_json(cli);
    else
        (void)crn_config_show(&cli->cfg, stdout, is_all, with_help);
    return crn_cli_end(cli, CLI_OK);
}

const struct cli_command crn_cmd_config = {
    .name = "config",
    .args = "[--all] [--help-keys] | --doc | --man",
    .help = "Prints the configuration in effect, as an INI file",
    .about = "The configuration in effect, as an INI file; or the reference of all keys. Advanced "
             "keys are shown if they differ from their default.",
    .run = config_run,
    .options = "  --all             advanced keys, too\n"
               "  --help-keys       with what each key means\n"
               "  --doc             the reference of all keys, as in docs/config.md\n"
               "  --man             the same as a manual page: cairn config --man | man -l -\n",
};
