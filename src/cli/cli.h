/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the commands of `cairn`: common options, the open store, output as text or JSON, and
 * exit codes. One thread, except where a command starts its own. */
#ifndef CRN_CLI_H
#define CRN_CLI_H

#include <getopt.h>

#include "base/config.h"
#include "base/json.h"
#include "restart/version.h"

/* Of decoded chunks, for commands that go through the ranks in turn: a chunk may hold bytes of all. */
#define CLI_KEPT_CHUNKS ((size_t)512 << 20)

enum cli_exit { CLI_OK = 0, CLI_PROBLEM = 1, CLI_USAGE = 2 };

struct cli {
    const struct cli_command *command;
    const char *config_file;  /* -C */
    const char *settings[64]; /* --set and --dir, NULL at the end */
    size_t nsettings;
    int is_json;
    int is_quiet; /* -q: results and errors, nothing else */
    int has_json; /* the document has been started */
    struct crn_json json;
    struct crn_config cfg;   /* loaded before the command runs */
    struct crn_store store;  /* open if the command needs it */
    struct crn_errinfo info; /* of the last failed call */
    struct crn_errinfo *ei;  /* &info */
};

struct cli_command {
    const char *name;
    const char *args; /* for the usage line */
    const char *help; /* one line */
    /* What a reader of the manual wants to know besides. Plain text, literals in `backquotes`, one
     * paragraph a line; NULL: the line above says it all. */
    const char *about;
    int needs_store;
    int needs_nothing; /* not even a configuration */
    /* argv[0] is the command; the common options are removed. Returns cli_exit. */
    int (*run)(struct cli *cli, int argc, char **argv);
    const char *options; /* help text of the command's own options; lines */
    const char
        *words; /* for completion: what the first argument may be; NULL: names of the store */
};
extern const struct cli_command crn_cmd_ls, crn_cmd_show, crn_cmd_verify, crn_cmd_extract,
    crn_cmd_diff, crn_cmd_explain, crn_cmd_rm, crn_cmd_pin, crn_cmd_unpin, crn_cmd_sweep,
    crn_cmd_cp, crn_cmd_config, crn_cmd_drain, crn_cmd_doctor, crn_cmd_sim, crn_cmd_plot,
    crn_cmd_tune, crn_cmd_replay, crn_cmd_broker, crn_cmd_ingest, crn_cmd_import, crn_cmd_watch,
    crn_cmd_restore, crn_cmd_advise, crn_cmd_export, crn_cmd_report, crn_cmd_help, crn_cmd_halt,
    crn_cmd_run, crn_cmd_top, crn_cmd_scrub;
/* All commands, in the order of the manual. */
const struct cli_command *const *crn_cli_commands(size_t *ret_n);
const struct cli_command *crn_cli_find(const char *name); /* NULL: there is none */

/* help.c: `cairn --help`, `cairn COMMAND --help`. */
void crn_help_all(FILE *out);
void crn_help_command(const struct cli_command *c);
/* manual.c: the manual page of a command, or of cairn (NULL), as roff on stdout. */
void crn_manual(const struct cli_command *c);
/* The manual page of the configuration. */
void crn_manual_config(void);
extern const char crn_shared_options[];

/* Prints cli->info on stderr (with --json as an object, if no document was started);
 * CLI_PROBLEM. */
int crn_cli_fail(struct cli *cli);
/* The same for an error that the command itself detects. */
int crn_cli_problem(struct cli *cli, cairn_err code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* A usage error: prints the text and the usage line on stderr; CLI_USAGE. */
/* A line on stderr that is no error; nothing with --quiet. */
/* The same for an error while versions were read (NULL: not opened): says so if a job has removed or
 * replaced one meanwhile, which looks like damage. */
int crn_cli_fail_reading(struct cli *cli, const struct crn_version *v,
                         const struct crn_version *other);
void crn_cli_note(const struct cli *cli, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
int crn_cli_usage(struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* getopt_long with our usage messages; returns '?' after one. */
int crn_cli_option(struct cli *cli, int argc, char **argv, const char *letters,
                   const struct option *longs);
/* Parses an option's whole number >= 0; 0, or -1 after a usage error. */
int crn_cli_number(struct cli *cli, const char *what, const char *text, int64_t *ret);
/* The same for the argument (optarg) of the option with this value. */
int crn_cli_number_of(struct cli *cli, const struct option *longs, int value, int64_t *ret);
/* Calls take for each word of "a,b,c", the argument of the named option; stops at the first
 * error. */
CAIRN_CHECKED cairn_err crn_cli_words(const char *option, const char *list,
                                      cairn_err (*take)(void *arg, const char *word,
                                                        struct crn_errinfo *ei),
                                      void *arg, struct crn_errinfo *ei);
/* Parses the argument of the named option. NULL: none given, and ret stays unchanged. */
CAIRN_CHECKED cairn_err crn_cli_quantity(const char *option, const char *text,
                                         cairn_err (*parse)(const char *text, double *ret,
                                                            struct crn_errinfo *ei),
                                         double *ret, struct crn_errinfo *ei);

/* Path of a program beside this one; NULL if there is none. */
const char *crn_cli_program(const char *name, char *path, size_t size);
/* The program that reads HDF5 files: the one beside this program, or the configured one. NULL:
 * none. */
const char *crn_cli_hdf5(const struct cli *cli, char *path, size_t size);

/* The command's JSON document: an object. End it with crn_cli_json_end, which checks stdout. */
struct crn_json *crn_cli_json(struct cli *cli);
int crn_cli_json_end(struct cli *cli, int status);
/* Flushes stdout; CLI_PROBLEM if that fails (for example on a full disk). */
int crn_cli_end(struct cli *cli, int status);

/* "NAME", "NAME@VERSION", or "NAME@latest". */
struct cli_target {
    char name[CAIRN_MAX_NAME];
    int64_t version; /* -1: none */
};
CAIRN_CHECKED cairn_err crn_cli_target(const char *text, struct cli_target *ret,
                                       struct crn_errinfo *ei);
/* The same; without a version, the newest complete one. */
CAIRN_CHECKED cairn_err crn_cli_pick(const struct crn_store *st, const char *text,
                                     struct cli_target *ret, struct crn_errinfo *ei);
/* Calls fn for each version that the arguments name: all, those of a name, or one. Stops at the
 * first error of the store; accumulates the problems that fn reports. Returns cli_exit. */
typedef int (*cli_version_fn)(struct cli *cli, const char *name, const struct crn_version_entry *e,
                              void *arg);
int crn_cli_each(struct cli *cli, int argc, char **argv, cli_version_fn fn, void *arg);

/* Texts. */
#define CLI_S(n) ((n) == 1 ? "" : "s") /* "1 version", "2 versions" */
const char *crn_output_type(uint8_t type);
void crn_output_shape(const uint64_t *dims, unsigned ndims, char *buf, size_t size); /* "64 x 32" */
void crn_output_age(uint64_t since_ns, char *buf, size_t size);                      /* "3 min" */
void crn_output_date(uint64_t ns, char *buf, size_t size); /* local time, to the second */
/* "encoded against version 8 (chain of 3)"; empty if there is no chain. */
void crn_cli_chain_text(int64_t against, uint32_t chain, char *buf, size_t size);

/* Colours of a terminal, as escape sequences; empty strings if stdout is none, with NO_COLOR in the
 * environment. Columns of tables count bytes: colour whole last cells. */
enum cli_colour { CLI_PLAIN, CLI_BOLD, CLI_GOOD, CLI_BUSY, CLI_BAD };
const char *crn_output_colour(enum cli_colour colour);

/* A table on stdout: columns as wide as their widest cell. Alignment by column: 'l' or 'r'. The first
 * row has the heads of the columns, in capitals. */
struct cli_table {
    const char *align;
    size_t columns;
    char **cells; /* owned; row after row */
    size_t n, cap;
    int failed;
};
void crn_table_begin(struct cli_table *t, const char *align);
void crn_table_add(struct cli_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void crn_table_print(struct cli_table *t); /* and frees the cells */
void crn_table_free(struct cli_table *t);  /* also after printing */

/* A bar on stderr, if that is a terminal. Any thread may add. */
struct cli_progress {
    struct crn_mutex *mu; /* owned; NULL: hidden */
    const char *what;
    int is_count; /* counts items, not bytes */
    uint64_t done, total;
    int64_t next_ns; /* time of the next redraw */
};
void crn_progress_begin(struct cli_progress *p, const struct cli *cli, const char *what,
                        uint64_t total);
void crn_progress_begin_count(struct cli_progress *p, const struct cli *cli, const char *what,
                              uint64_t total);
void crn_progress_add(struct cli_progress *p, uint64_t bytes);
void crn_progress_end(struct cli_progress *p);

#endif
