/* SPDX-License-Identifier: BSD-3-Clause */
/* Configuration: one table of keys with type, default, range, unit and help, from which the parser,
 * `cairn config` and docs/config.md are made. Sources, weakest first: defaults, INI file, CAIRN_*
 * variables, settings of the call. */
#ifndef CRN_CONFIG_H
#define CRN_CONFIG_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "base/err.h"

#define CRN_PATH_MAX 1024

enum crn_arena_full { CRN_FULL_AUTO, CRN_FULL_WAIT, CRN_FULL_SPILL, CRN_FULL_SUPERSEDE };
enum crn_restart_unsaved { CRN_UNSAVED_FAIL, CRN_UNSAVED_OLDER };
enum crn_on_failure { CRN_FAIL_STRICT, CRN_FAIL_RETRY, CRN_FAIL_CONTINUE };
enum crn_io { CRN_IO_BUFFERED, CRN_IO_BEHIND, CRN_IO_DIRECT, CRN_IO_AUTO };
enum crn_background_cores { CRN_CORES_ALL, CRN_CORES_OWN };
enum crn_reuse { CRN_REUSE_AUTO, CRN_REUSE_OFF };
enum crn_encode {
    CRN_ENCODE_NONE,
    CRN_ENCODE_ADAPTIVE,
    CRN_ENCODE_AGNOSTIC,
    CRN_ENCODE_AGNOSTIC_BLOCK,
    CRN_ENCODE_AWARE,
    CRN_ENCODE_AWARE_BLOCK,
    CRN_ENCODE_AUTO
};
enum crn_service_kind { CRN_SERVICE_EMBEDDED, CRN_SERVICE_DAEMON };
enum crn_comm_kind { CRN_COMM_OVER_MPI, CRN_COMM_OVER_UCX };

#define CRN_SIZE_AUTO UINT64_MAX /* of keys whose default is a number */

/* How often: every count-th time, or after ns since the last time. Both 0: never. */
struct crn_every {
    uint64_t count;
    uint64_t ns;
};

/* Keys that may differ by checkpoint name: section [checkpoint NAME] of the file. */
struct crn_name_config {
    char name[CAIRN_MAX_NAME];
    uint64_t on_failure;     /* enum crn_on_failure */
    uint64_t retries;        /* with retry: how often a failed flush is retried */
    uint64_t retry_delay_ns; /* before the first retry; doubles each time */
    uint64_t fresh;          /* versions of other runs may be overwritten */
    uint64_t keep_last;      /* versions kept on the PFS; 0: all */
    uint64_t keep_every;     /* and every m-th version, never removed; 0: none */
    uint64_t keep_local;     /* versions kept on the node-local disk after the flush */
    uint64_t keep_protected; /* versions that are not flushed: the newest ones stay on the nodes */
    struct crn_every persistent_every; /* which versions are flushed although nobody waits */
    struct crn_every protect_every;    /* which versions get parity */
    char protect[16];                  /* scheme against lost nodes */
    uint64_t supersede;         /* one that waits for its turn may be dropped for a newer one */
    uint64_t period_ns;         /* advised interval between checkpoints; 0: Young/Daly */
    uint64_t encode;            /* enum crn_encode */
    uint64_t encode_block;      /* block schemes: bytes taken from each rank in turn */
    uint64_t encode_full_every; /* every n-th version is full; others may need the previous one */
    char encode_pipe[96];       /* auto, adaptive, paper or stages */
    char encode_match[256];     /* regular expressions: which names form one variable */
    char encode_lossy[256];     /* regions that may be encoded lossily, with their tolerance */
    uint64_t is_set;            /* overrides: bit i if this name sets the i-th of these keys */
};

struct crn_config {
    char persistent[CRN_PATH_MAX]; /* directory on the PFS */
    char local[CRN_PATH_MAX];      /* node-local directory; empty: none */
    char run_dir[CRN_PATH_MAX];    /* sockets; empty: $XDG_RUNTIME_DIR/cairn or /tmp/cairn-UID */
    char shm_dir[CRN_PATH_MAX];    /* arenas; a tmpfs */
    char job[CAIRN_MAX_NAME];      /* for display; default: the batch system's job id */
    uint64_t service;              /* enum crn_service_kind */
    uint64_t comm;                 /* enum crn_comm_kind */
    uint64_t ranks_per_node;       /* 0: by host */
    uint64_t protect_set;          /* nodes of a set; 0: as the scheme wants */
    char failure_domain[CRN_PATH_MAX]; /* host, node, env:NAME or file:PATH */
    uint64_t scrub_ns;                 /* period of the scrub of what a service holds; 0: none */
    uint64_t arena_bytes;              /* 0: auto, from the first checkpoint */
    uint64_t arena_full;               /* enum crn_arena_full */
    uint64_t gpu;                      /* recognise regions in GPU memory */
    uint64_t device_cache;             /* GPU memory for checkpoints; or CRN_SIZE_AUTO */
    uint64_t local_cache;              /* bytes of the local directory for captures */
    uint64_t discard_consumed;         /* a version that was restored is no longer flushed */
    uint64_t block_bytes;
    uint64_t blocks;
    uint64_t chunk_bytes;
    uint64_t align_bytes;
    char files[24];            /* number of data files, or a ratio to nodes */
    uint64_t leaders_per_file; /* 0: auto */
    uint64_t reroute;
    uint64_t writers;     /* 0: auto */
    uint64_t io;          /* enum crn_io */
    uint64_t reuse_files; /* enum crn_reuse */
    uint64_t stripe_count;
    uint64_t background_cores; /* enum crn_background_cores */
    uint64_t bandwidth;        /* cap of a node's background I/O, bytes/s; 0: none */
    uint64_t calm_bandwidth;   /* cap while nobody waits for a flush; 0: auto */
    uint64_t phase_patience_ns;
    char hdf5_reader[CRN_PATH_MAX]; /* program; empty: none */
    uint64_t encode_aim;            /* enum crn_aim of src/encode: ratio, speed, time */
    uint64_t encode_chunk;          /* bytes that are encoded independently */
    uint64_t encode_threads;        /* writer threads for encoded data; 0: same as writers */
    uint64_t free_reserve_bytes;    /* space that stays free on the PFS */
    uint64_t space_wait_ns;         /* how long a flush waits for free space */
    uint64_t restart_unsaved;       /* enum crn_restart_unsaved */
    uint64_t restart_check;         /* 0: off */
    uint64_t wait_timeout_ns;
    uint64_t service_timeout_ns;
    uint64_t commit_timeout_ns; /* a rank later than this fails the version */
    uint64_t mtbf_ns;
    uint64_t wall_limit_ns; /* of the allocation, from session open; 0: none */
    uint64_t wall_margin_ns;
    char stop_signals[64];             /* "USR1,TERM" */
    char broker[CRN_PATH_MAX];         /* addresses of cairn-broker; empty: none */
    char broker_token[64];             /* which token; empty: by the path of persistent */
    char broker_auth[16];              /* auto, munge, key or peer */
    char broker_key[CRN_PATH_MAX];     /* key file, for login by key */
    char broker_munge[CRN_PATH_MAX];   /* socket of munged; empty: MUNGE's default */
    char broker_user[CRN_PATH_MAX];    /* who may run it */
    uint64_t broker_give_up_ns;        /* after this time without an answer, flush without it */
    uint64_t broker_max_wait_ns;       /* longest wait for a turn; 0: no limit */
    uint64_t log_level;                /* enum crn_log_level */
    char log_file[CRN_PATH_MAX];       /* with %j, %r, %h; empty: stderr */
    struct crn_name_config names;      /* defaults for every name */
    struct crn_name_config *overrides; /* owned */
    size_t noverrides;
    /* A warning: a setting that is retired, or the variables that are no keys; empty: none. */
    char retired[256];
};

void crn_config_defaults(struct crn_config *cfg);
void crn_config_fini(struct crn_config *cfg);
/* Reads an INI file over the present settings. An unknown key fails; the message names the nearest
 * known key. */
CAIRN_CHECKED cairn_err crn_config_file(struct crn_config *cfg, const char *path,
                                        struct crn_errinfo *ei);
/* Same, from memory. what names the source in messages. */
CAIRN_CHECKED cairn_err crn_config_text(struct crn_config *cfg, const char *text, const char *what,
                                        struct crn_errinfo *ei);
/* Sets one key, for a setting of the call or an environment variable. */
CAIRN_CHECKED cairn_err crn_config_set(struct crn_config *cfg, const char *key, const char *value,
                                       const char *what, struct crn_errinfo *ei);
/* Reads every CAIRN_<KEY> of the environment. Any other CAIRN_ variable fails, with the nearest
 * key in the message. Exceptions: CAIRN_CONFIG; the variables that build and module systems set
 * (CAIRN_ROOT, CAIRN_DIR, CAIRN_HOME, CAIRN_PREFIX); CAIRN_FAULT_* and CAIRN_TEST_* of the
 * tests. */
CAIRN_CHECKED cairn_err crn_config_env(struct crn_config *cfg, char *const *environment,
                                       struct crn_errinfo *ei);
/* Checks that involve several keys. */
CAIRN_CHECKED cairn_err crn_config_check(const struct crn_config *cfg, struct crn_errinfo *ei);
/* Loads the configuration of a session: defaults, file (or $CAIRN_CONFIG), environment, settings,
 * then crn_config_check. settings may be NULL. On failure cfg needs no fini. */
CAIRN_CHECKED cairn_err crn_config_load(struct crn_config *cfg, const char *file,
                                        const char *const *settings, struct crn_errinfo *ei);

/* The settings of a checkpoint name: its override, or the defaults. A key that the override does
 * not set follows the defaults. A key that it sets wins over CAIRN_ variables, because those apply
 * to every name. */
const struct crn_name_config *crn_config_name(const struct crn_config *cfg, const char *name);

/* What a full arena does; never CRN_FULL_AUTO. */
enum crn_arena_full crn_config_full(const struct crn_config *cfg);
/* With a broker: may a newer version take the place of this one while it waits for its turn? */
int crn_config_may_supersede(const struct crn_config *cfg, const char *name, int64_t version);
/* True if a version on the node-local disk is flushed only when needed: somebody waits for it, its
 * space is needed, or the run ends. Applies to histories that the application reads back once. */
int crn_config_is_lazy(const struct crn_config *cfg);
/* Is every version of the name flushed, even if nobody waits for it? */
int crn_config_flushes_all(const struct crn_config *cfg, const char *name);

/* The keys in order, for `cairn config`, docs and tests. */
enum crn_key_type {
    CRN_KEY_U64,
    CRN_KEY_BYTES,
    CRN_KEY_TIME,
    CRN_KEY_EVERY,
    CRN_KEY_ENUM,
    CRN_KEY_TEXT
};
struct crn_key {
    const char *name;
    enum crn_key_type type;
    const char *def;           /* as text */
    uint64_t min, max;         /* range of a number; for text, max is the field size */
    const char *const *values; /* enum: spellings, NULL at the end; bytes: "auto", CRN_SIZE_AUTO */
    const char *help;
    size_t offset; /* in crn_config, or in crn_name_config if per_name */
    int per_name;
};
const struct crn_key *crn_config_keys(size_t *ret_n);
/* True for the few keys that authors of applications set; the others are advanced. */
int crn_key_is_basic(const struct crn_key *key);
/* Settings of older releases. They load with a warning (crn_config.retired), so that no job fails
 * because of one. value NULL: the key no longer exists, and its value is ignored. */
struct crn_retired {
    const char *key;
    const char *value;
    const char *now; /* the value it means today; NULL if the key no longer exists */
};
/* The last row has a NULL key. */
const struct crn_retired *crn_config_retired(void);
/* The value of a key, in the form that the parser reads. */
void crn_config_format(const struct crn_config *cfg, const struct crn_key *key, char *buf,
                       size_t size);
/* Writes the whole configuration as INI text that crn_config_text reads back. The client sends
 * it to the service, and a job leaves it for the drain after its death. 0, or -1 if the stream
 * fails. */
int crn_config_dump(const struct crn_config *cfg, FILE *out);
/* The same for people: without the advanced keys that have their default, unless is_all. */
int crn_config_show(const struct crn_config *cfg, FILE *out, int is_all, int with_help);
/* Writes docs/config.md. */
int crn_config_doc(FILE *out);
/* The values that a key takes, as Markdown. */
void crn_config_doc_values(const struct crn_key *key, FILE *out);
/* Parses stop_signals into at most max signals; CAIRN_ECONFIG for an unknown name. */
CAIRN_CHECKED cairn_err crn_config_parse_signals(const char *text, int *ret, size_t max,
                                                 size_t *ret_n, struct crn_errinfo *ei);

/* "64M", "1.5G", "4096", "auto" (0) -> bytes; "90", "90s", "15m", "2h", "250ms" -> ns. */
CAIRN_CHECKED cairn_err crn_parse_bytes(const char *text, uint64_t *ret, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_parse_time(const char *text, uint64_t *ret_ns, struct crn_errinfo *ei);
/* "5": every fifth time; "30m": after 30 minutes; "0": never. A time needs its unit. */
CAIRN_CHECKED cairn_err crn_parse_every(const char *text, struct crn_every *ret,
                                        struct crn_errinfo *ei);
void crn_format_every(const struct crn_every *every, char *buf, size_t size);
void crn_format_bytes(uint64_t bytes, char *buf, size_t size); /* exact: "64M", "1000" */
void crn_format_time(uint64_t ns, char *buf, size_t size);     /* exact: "15m", "250ms" */
void crn_human_bytes(uint64_t bytes, char *buf, size_t size);  /* for people: "1.5 GiB" */
void crn_human_time(double seconds, char *buf, size_t size);   /* for people: "350 ms" */
/* Checks a checkpoint name: [A-Za-z0-9_.-]+, no leading '.', shorter than CAIRN_MAX_NAME. */
CAIRN_CHECKED cairn_err crn_check_name(const char *what, const char *name, struct crn_errinfo *ei);

#endif
