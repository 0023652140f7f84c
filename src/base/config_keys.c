/* SPDX-License-Identifier: BSD-3-Clause */
/* The one table of keys. A new key is a field in config.h and a row here; parser, environment, dump,
 * `cairn config` and docs/config.md follow. */
#include "base/config.h"

#include <string.h>

static const char *const service_values[] = {"embedded", "daemon", NULL};
static const char *const comm_values[] = {"mpi", "ucx", NULL};
static const char *const switch_values[] = {"off", "on", NULL};
static const char *const size_words[] = {"auto", NULL};
static const char *const full_values[] = {"auto", "wait", "spill", "supersede", NULL};
static const char *const failure_values[] = {"strict", "retry", "continue", NULL};
static const char *const io_values[] = {"buffered", "behind", "direct", "auto", NULL};
static const char *const background_cores_values[] = {"all", "own", NULL};
static const char *const reuse_values[] = {"auto", "off", NULL};
static const char *const unsaved_values[] = {"fail", "older", NULL};
static const char *const encode_values[] = {"none",  "adaptive",    "agnostic", "agnostic-block",
                                            "aware", "aware-block", "auto",     NULL};
static const char *const aim_values[] = {"ratio", "speed", "time", NULL};
static const char *const log_values[] = {"error", "warn", "info", "debug", "trace", NULL};

#define K                ((uint64_t)1 << 10)
#define M                ((uint64_t)1 << 20)
#define G                ((uint64_t)1 << 30)
#define T                ((uint64_t)1 << 40)
#define MS               UINT64_C(1000000)
#define SEC              (1000 * MS)
#define DAY              (86400 * SEC)

#define AT(field)        offsetof(struct crn_config, field), 0
#define AT_NAME(field)   offsetof(struct crn_name_config, field), 1
#define NAME_SIZE(field) sizeof(((struct crn_name_config *)0)->field)
#define SIZE(field)      sizeof(((struct crn_config *)0)->field)

static const struct crn_key keys[] = {
    /* Places. */
    {"persistent", CRN_KEY_TEXT, "cairn-checkpoints", 0, SIZE(persistent), NULL,
     "Directory on the parallel file system where checkpoints are committed.", AT(persistent)},
    {"local", CRN_KEY_TEXT, "", 0, SIZE(local), NULL,
     "Directory on a disk of the node, for spilled captures and local copies. Empty: none.",
     AT(local)},
    {"shm_dir", CRN_KEY_TEXT, "/dev/shm", 0, SIZE(shm_dir), NULL,
     "Directory in a memory file system, for the arenas.", AT(shm_dir)},
    {"run_dir", CRN_KEY_TEXT, "", 0, SIZE(run_dir), NULL,
     "Private directory for sockets and run files. Empty: $XDG_RUNTIME_DIR/cairn, else "
     "/tmp/cairn-UID.",
     AT(run_dir)},
    {"job", CRN_KEY_TEXT, "", 0, SIZE(job), NULL,
     "Name of the job, shown by the tools. Empty: from SLURM_JOB_ID, PBS_JOBID or LSB_JOBID.",
     AT(job)},

    /* Nodes and service. */
    {"service", CRN_KEY_ENUM, "embedded", 0, 0, service_values,
     "Where the node service runs: as threads in one rank of each node, or as the daemon "
     "cairnd.",
     AT(service)},
    {"comm", CRN_KEY_ENUM, "mpi", 0, 0, comm_values,
     "What carries the messages of a session that cairn_open_mpi opens. ucx: UCX, which needs no "
     "MPI_THREAD_MULTIPLE; MPI is used only while the session opens. Needs libcairn_ucx. Daemons "
     "use MPI between themselves.",
     AT(comm)},
    {"ranks_per_node", CRN_KEY_U64, "auto", 0, 1 << 20, NULL,
     "Ranks that share a node service. auto: all on the same host.", AT(ranks_per_node)},
    {"protect_set", CRN_KEY_U64, "auto", 0, 32, NULL,
     "With protect: nodes that protect each other. Leftover nodes make some sets larger. auto: 2 "
     "for partner, 8 for xor, M+4 for rs:M.",
     AT(protect_set)},
    {"failure_domain", CRN_KEY_TEXT, "host", 0, SIZE(failure_domain), NULL,
     "With protect: nodes that are lost together, and therefore do not protect each other. host: "
     "those of one host. node: each by itself. env:NAME: those with the same value of the variable "
     "(rack, switch). file:PATH: a file with lines `HOST LABEL`.",
     AT(failure_domain)},
    {"scrub", CRN_KEY_TIME, "0", 0, 366 * DAY, NULL,
     "How often an idle node service reads again what it holds, compares checksums and repairs: "
     "captures in memory, local copies, parity. 0: never.",
     AT(scrub_ns)},

    /* Capture. */
    {"arena_bytes", CRN_KEY_BYTES, "auto", 0, 1024 * T, NULL,
     "Shared memory of each rank for captured checkpoints. auto: twice the size of the first "
     "checkpoint, or three times with encode_full_every; with persistent_every, keep_protected "
     "times that size more.",
     AT(arena_bytes)},
    {"arena_full", CRN_KEY_ENUM, "auto", 0, 0, full_values,
     "When the arena is full: wait for a flush, spill to the local directory, or supersede the "
     "oldest version whose flush has not begun. auto: with a broker supersede, as the key of that "
     "name allows; else wait.",
     AT(arena_full)},
    {"gpu", CRN_KEY_ENUM, "on", 0, 0, switch_values,
     "Recognise regions in GPU memory by their pointer. off: treat all memory as host memory.",
     AT(gpu)},
    {"device_cache", CRN_KEY_BYTES, "0", 0, 1024 * T, size_words,
     "GPU memory for checkpoints of GPU regions, so that a capture is a copy inside the GPU. "
     "0: captures go to the arena. auto: as many images as an arena, at most half of what is free "
     "on the GPU, shared evenly by the ranks of the host that use it.",
     AT(device_cache)},
    {"local_cache", CRN_KEY_BYTES, "0", 0, 1024 * T, NULL,
     "Bytes of the local directory, for each process, that extend the arena: captures move "
     "there before they are flushed. 0: captures stay in the arena.",
     AT(local_cache)},
    {"discard_consumed", CRN_KEY_ENUM, "off", 0, 0, switch_values,
     "on: a checkpoint that a rank has restored whole is not flushed any more. With "
     "local_cache no checkpoint is flushed until a rank waits for it, space is needed or the "
     "session closes.",
     AT(discard_consumed)},

    /* Flush. */
    {"block_bytes", CRN_KEY_BYTES, "8M", 4 * K, 16 * G, NULL,
     "Size of a block, the unit of buffers and writes.", AT(block_bytes)},
    {"blocks", CRN_KEY_U64, "32", 1, 4096, NULL, "Blocks in the buffer pool of each node.",
     AT(blocks)},
    {"chunk_bytes", CRN_KEY_BYTES, "1M", 512, 1 * G, NULL,
     "Unit of checksums. Must divide block_bytes.", AT(chunk_bytes)},
    {"align_bytes", CRN_KEY_BYTES, "4K", 512, 64 * M, NULL,
     "Alignment of blocks in the data files: a power of two that divides block_bytes.",
     AT(align_bytes)},
    {"files", CRN_KEY_TEXT, "1:1", 0, sizeof(((struct crn_config *)0)->files), NULL,
     "Data files of a version: a number, or a ratio of files to nodes, such as 1:4. "
     "Neighbouring nodes share a file; the node with the most data writes it.",
     AT(files)},
    {"leaders_per_file", CRN_KEY_U64, "auto", 0, 1024, NULL,
     "Nodes that write a shared data file together: those with the most data. Needs "
     "align_bytes of at least 4K. auto: up to 4 with at least two blocks each, on Lustre up to "
     "stripe_count; 1 on NFS, SMB, CephFS, FUSE and unknown file systems, where several "
     "writers slow each other down.",
     AT(leaders_per_file)},
    {"reroute", CRN_KEY_ENUM, "on", 0, 0, switch_values,
     "A node that has finished its data file helps to write another one, where nodes share "
     "files.",
     AT(reroute)},
    {"writers", CRN_KEY_U64, "auto", 0, 64, NULL,
     "Writer threads of each node. auto: one, and a second while a core is idle.", AT(writers)},
    {"io", CRN_KEY_ENUM, "auto", 0, 0, io_values,
     "How data files are written. buffered: through the page cache. behind: buffered, with "
     "writeback started at once and written pages dropped. direct: O_DIRECT. If the file "
     "system refuses a method, buffered is used. auto: behind on a local disk (ext4, XFS), "
     "direct into reused files there (reuse_files), buffered elsewhere. `cairn tune` measures "
     "which is best.",
     AT(io)},
    {"reuse_files", CRN_KEY_ENUM, "auto", 0, 0, reuse_values,
     "Overwrite data files of versions that keep_last removes, which saves most of the file "
     "system's allocation. auto: on ext4, XFS and tmpfs, if a file has one name and no process "
     "has it open. Needs the space of one version while the session is open, which each flush "
     "needs anyway.",
     AT(reuse_files)},
    {"stripe_count", CRN_KEY_U64, "0", 0, 2000, NULL,
     "Lustre: targets that a data file is striped over, in stripes of block_bytes. 0: as its "
     "directory says.",
     AT(stripe_count)},
    {"background_cores", CRN_KEY_ENUM, "all", 0, 0, background_cores_values,
     "Where the background threads of a session run. all: on every core of the host that the "
     "job may use, even if its ranks are bound to cores; restart readers on all cores of the "
     "rank's NUMA node. own: on the cores of the thread that opens the session.",
     AT(background_cores)},
    {"bandwidth", CRN_KEY_BYTES, "0", 0, 1024 * T, NULL,
     "Upper limit of what a node writes and sends in the background, in bytes per second. 0: "
     "no limit.",
     AT(bandwidth)},
    {"calm_bandwidth", CRN_KEY_BYTES, "auto", 0, 1024 * T, NULL,
     "The same limit while nothing waits for the flush: no cairn_wait or cairn_close, no "
     "capture that needs space, no newer checkpoint, no broker. auto: a hundredth of the "
     "capture speed, or as much as is needed to finish in a tenth of the time between "
     "checkpoints (in half of it if other nodes protect the version). "
     "1P: no throttling.",
     AT(calm_bandwidth)},
    {"phase_patience", CRN_KEY_TIME, "5s", 0, 1 * DAY, NULL,
     "The longest total pause of a flush for cairn_phase: the node starts no new background "
     "writes and sends while a rank communicates or does I/O of its own. 0: cairn_phase has no "
     "effect.",
     AT(phase_patience_ns)},
    {"encode_aim", CRN_KEY_ENUM, "ratio", 0, 0, aim_values,
     "What the adaptive choice minimises: bytes, CPU time, or the time until the data is on "
     "the file system. With time, and with encode = auto, files whose encoding would take longer "
     "than it saves are not encoded.",
     AT(encode_aim)},
    {"encode_chunk", CRN_KEY_BYTES, "1M", 64 * K, 4 * M, NULL,
     "Size of the chunks that encoded data is cut into. Each chunk is decoded by itself.",
     AT(encode_chunk)},
    {"encode_threads", CRN_KEY_U64, "auto", 0, 64, NULL,
     "Threads of each node that encode and write. auto: as many as writers; if writers is auto "
     "too, up to 8, each while a core is idle.",
     AT(encode_threads)},
    {"hdf5_reader", CRN_KEY_TEXT, "cairn-hdf5-extents", 0, SIZE(hdf5_reader), NULL,
     "With encode: the program that finds variables in HDF5 files, searched in PATH unless it "
     "has a directory. Empty: none, HDF5 files are plain bytes.",
     AT(hdf5_reader)},
    {"free_reserve_bytes", CRN_KEY_BYTES, "64M", 0, 1024 * T, NULL,
     "Space to leave free on the persistent file system and in its quotas. A flush that would "
     "use it pauses and warns.",
     AT(free_reserve_bytes)},
    {"space_wait", CRN_KEY_TIME, "1h", 0, 366 * DAY, NULL,
     "How long a flush waits for free space on the persistent file system before it fails with "
     "CAIRN_ENOSPC. The checkpoint stays in memory for a drain.",
     AT(space_wait_ns)},

    /* Deadlines. */
    {"restart_unsaved", CRN_KEY_ENUM, "fail", 0, 0, unsaved_values,
     "What a restart does when newer checkpoints exist that it cannot read: in the memory of a "
     "dead run whose drain failed, of a living process, or of a missing node. It waits up to "
     "wait_timeout for a living process. fail: return CAIRN_EUNSAVED, which names them. older: "
     "log them and take an older version.",
     AT(restart_unsaved)},
    {"restart_check", CRN_KEY_ENUM, "on", 0, 0, switch_values,
     "on: after a restart from copies in the local directory, a thread of low priority reads the "
     "files on the file system that the restart did not need, and reports damage. off: only what "
     "is read is checked.",
     AT(restart_check)},
    {"wait_timeout", CRN_KEY_TIME, "1h", 0, 366 * DAY, NULL,
     "Time limit of waits that have none of their own.", AT(wait_timeout_ns)},
    {"service_timeout", CRN_KEY_TIME, "30s", 10 * MS, 366 * DAY, NULL,
     "How long a call waits for an answer of the node service.", AT(service_timeout_ns)},
    {"commit_timeout", CRN_KEY_TIME, "10m", 10 * MS, 366 * DAY, NULL,
     "A version fails if a rank captures it later than this after the first rank, or if one of "
     "its nodes is silent for longer. A restart fails if one of its ranks is silent for "
     "longer.",
     AT(commit_timeout_ns)},

    /* Advice. */
    {"mtbf", CRN_KEY_TIME, "1d", 1 * SEC, 36600 * DAY, NULL,
     "Mean time between failures of the allocation, for the Young/Daly interval.", AT(mtbf_ns)},
    {"wall_limit", CRN_KEY_TIME, "0", 0, 3660 * DAY, NULL,
     "Length of the allocation, counted from the opening of the session. 0: what Slurm says, else "
     "unknown.",
     AT(wall_limit_ns)},
    {"wall_margin", CRN_KEY_TIME, "5m", 0, 366 * DAY, NULL,
     "How long before wall_limit the advice is to checkpoint and stop.", AT(wall_margin_ns)},
    {"stop_signals", CRN_KEY_TEXT, "", 0, SIZE(stop_signals), NULL,
     "Signals that mean \"checkpoint and stop\", such as USR1,TERM. Empty: none is caught.",
     AT(stop_signals)},

    /* Turns on the file system. */
    {"broker", CRN_KEY_TEXT, "", 0, SIZE(broker), NULL,
     "Address of cairn-broker: host, host:port or unix:/path. With a standby: both, separated by a "
     "comma. Empty: flush without turns.",
     AT(broker)},
    {"broker_token", CRN_KEY_TEXT, "", 0, SIZE(broker_token), NULL,
     "The broker's token for the file system of persistent. Empty: the one whose paths hold it, or "
     "the first.",
     AT(broker_token)},
    {"broker_auth", CRN_KEY_TEXT, "auto", 0, SIZE(broker_auth), NULL,
     "How to log in to the broker: munge, key, or peer over a Unix socket. auto: peer on a "
     "Unix socket, else key if broker_key is set, else munge.",
     AT(broker_auth)},
    {"broker_key", CRN_KEY_TEXT, "", 0, SIZE(broker_key), NULL,
     "File with your key, readable only by you.", AT(broker_key)},
    {"broker_munge", CRN_KEY_TEXT, "", 0, SIZE(broker_munge), NULL,
     "Socket of munged. Empty: MUNGE's default.", AT(broker_munge)},
    {"broker_user", CRN_KEY_TEXT, "cairn, cairn-broker", 0, SIZE(broker_user), NULL,
     "Users, besides root and yourself, as whom cairn-broker may run. With munge, and with peer on "
     "a Unix socket, a broker of another user is refused.",
     AT(broker_user)},
    {"broker_give_up", CRN_KEY_TIME, "5s", 1 * MS, 1 * DAY, NULL,
     "After this time without an answer of the broker, flushes and restart reads start without "
     "a turn.",
     AT(broker_give_up_ns)},
    {"broker_max_wait", CRN_KEY_TIME, "4h", 0, 366 * DAY, NULL,
     "Longest wait for a turn; then the flush or restart read starts without one. 0: no limit.",
     AT(broker_max_wait_ns)},

    {"log_level", CRN_KEY_ENUM, "warn", 0, 0, log_values,
     "Least severe lines that are logged. info adds a line for each version and a summary when "
     "the session closes.",
     AT(log_level)},
    {"log_file", CRN_KEY_TEXT, "", 0, SIZE(log_file), NULL,
     "File to append log lines to. `%j` is the job (or run), `%r` the writer of the line "
     "(`rank12`, or `node3` for a node service), `%h` the host, `%%` a percent sign. If the "
     "file cannot be written, lines go to standard error, which is reported once. Empty: "
     "standard error.",
     AT(log_file)},

    /* May differ by checkpoint name. */
    {"on_failure", CRN_KEY_ENUM, "strict", 0, 0, failure_values,
     "After a failed flush. strict: the next checkpoint reports it and captures nothing. "
     "retry: the flush is retried first. continue: the failure is only reported.",
     AT_NAME(on_failure)},
    {"retries", CRN_KEY_U64, "3", 0, 1000, NULL, "With on_failure = retry: number of retries.",
     AT_NAME(retries)},
    {"retry_delay", CRN_KEY_TIME, "1s", 0, 1 * DAY, NULL,
     "Wait before the first retry; doubles each time.", AT_NAME(retry_delay_ns)},
    {"fresh", CRN_KEY_ENUM, "off", 0, 0, switch_values,
     "on: a run that has restored no version of the name may replace and remove versions of "
     "other runs. off: its first checkpoint fails with CAIRN_EEXIST if there are any.",
     AT_NAME(fresh)},
    {"keep_last", CRN_KEY_U64, "0", 0, UINT64_C(1) << 40, NULL,
     "Versions kept on the file system. 0: all.", AT_NAME(keep_last)},
    {"keep_every", CRN_KEY_U64, "0", 0, UINT64_C(1) << 40, NULL,
     "Versions divisible by this number are always kept. 0: none.", AT_NAME(keep_every)},
    {"protect", CRN_KEY_TEXT, "none", 0, NAME_SIZE(protect), NULL,
     "Keeps captures safe from lost nodes before they are on the file system. partner: a copy on "
     "another node. xor: parity; one node of a set may be lost. rs:M: M nodes of a set may be "
     "lost.",
     AT_NAME(protect)},
    {"protect_every", CRN_KEY_EVERY, "1", 0, 0, NULL,
     "With protect: which versions get parity: one in this many, or one after this time (10m). A "
     "version with parity gives way only to a newer one with parity, or on the file system. 0: "
     "only "
     "those that a rank waits for, or for which cairn_checkpoint_with asks.",
     AT_NAME(protect_every)},
    {"keep_local", CRN_KEY_U64, "1", 0, UINT64_C(1) << 40, NULL,
     "Versions kept in the local directory after the flush.", AT_NAME(keep_local)},
    {"persistent_every", CRN_KEY_EVERY, "1", 0, 0, NULL,
     "Which versions are flushed to the file system although nothing waits for them: one in this "
     "many, or one after this time (30m). The others stay in memory and in the local directory. "
     "The "
     "newest is flushed by cairn_wait_all, by cairn_close, when the job is told to stop, and by a "
     "drain. 0: only then.",
     AT_NAME(persistent_every)},
    {"keep_protected", CRN_KEY_U64, "1", 1, 1 << 20, NULL,
     "With persistent_every: versions that stay on the nodes although they are not flushed, the "
     "newest ones. They give way to a newer version on the file system.",
     AT_NAME(keep_protected)},
    {"supersede", CRN_KEY_ENUM, "on", 0, 0, switch_values,
     "With a broker: when the turn comes, the newest version that all ranks have captured is "
     "flushed, and older ones that wait are given up, but for those of keep_every and those that "
     "cairn_wait waits for. off: each version gets a turn of its own.",
     AT_NAME(supersede)},
    {"period", CRN_KEY_TIME, "0", 0, 366 * DAY, NULL,
     "Advice: fixed time between checkpoints. 0: Young/Daly.", AT_NAME(period_ns)},
    {"encode", CRN_KEY_ENUM, "none", 0, 0, encode_values,
     "How data is merged over ranks and compressed before it is written. none: not at all. "
     "adaptive: each variable of all ranks, with a pipeline chosen for it. auto: the same, but "
     "only "
     "files that are durable as soon as unencoded ones. The others are the four schemes of "
     "MCRENGINE.",
     AT_NAME(encode)},
    {"encode_pipe", CRN_KEY_TEXT, "auto", 0, NAME_SIZE(encode_pipe), NULL,
     "With encode: the stages, such as lorenzo:3,magnitude; or adaptive, or paper. auto: "
     "adaptive with encode = adaptive or auto, otherwise paper, the codecs of MCRENGINE.",
     AT_NAME(encode_pipe)},
    {"encode_block", CRN_KEY_BYTES, "64K", 4 * K, 1 * G, NULL,
     "The block schemes take this many bytes of each rank in turn.", AT_NAME(encode_block)},
    {"encode_full_every", CRN_KEY_U64, "1", 1, 256, NULL,
     "With encode: one version in this many is encoded by itself. The others may be encoded "
     "against the version before, which is then kept. 1: each by itself.",
     AT_NAME(encode_full_every)},
    {"encode_match", CRN_KEY_TEXT, "", 0, NAME_SIZE(encode_match), NULL,
     "Regular expressions, separated by blanks. All names that match one expression are one "
     "variable, whatever its groups match.",
     AT_NAME(encode_match)},
    {"encode_lossy", CRN_KEY_TEXT, "", 0, NAME_SIZE(encode_lossy), NULL,
     "Floating-point regions that may be compressed with loss, separated by blanks: "
     "REGION:abs:1e-6 or REGION:rel:1e-3. All others are restored bit for bit.",
     AT_NAME(encode_lossy)},
};

/* What the author of a simulation sets. Every other key has a default that suits nearly all jobs. */
static const char *const basic[] = {
    "persistent",   "local",        "job",        "service",   "arena_bytes",     "arena_full",
    "device_cache", "files",        "io",         "bandwidth", "restart_unsaved", "wait_timeout",
    "wall_limit",   "stop_signals", "broker",     "log_level", "log_file",        "on_failure",
    "keep_last",    "keep_every",   "keep_local", "period",    "encode",          "encode_lossy",
};
_Static_assert(sizeof(basic) / sizeof(basic[0]) <= 25, "too many keys on the first page");

int crn_key_is_basic(const struct crn_key *key)
{
    size_t i;

    for (i = 0; i < sizeof(basic) / sizeof(basic[0]); i++)
        if (strcmp(basic[i], key->name) == 0)
            return 1;
    return 0;
}

const struct crn_key *crn_config_keys(size_t *ret_n)
{
    *ret_n = sizeof(keys) / sizeof(keys[0]);
    return keys;
}

const struct crn_retired *crn_config_retired(void)
{
    static const struct crn_retired rows[] = {{"io", "uring", "auto"},
                                              {"io", "uring-direct", "auto"},
                                              {"copy_split_bytes", NULL, NULL},
                                              {"copy_threads", NULL, NULL},
                                              {"encode_min", NULL, NULL},
                                              {"encode_share", NULL, NULL},
                                              {"max_overhead_percent", NULL, NULL},
                                              {"nice", NULL, NULL},
                                              {"phases", NULL, NULL},
                                              {"preallocate", NULL, NULL},
                                              {"read_threads", NULL, NULL},
                                              {"stripe_bytes", NULL, NULL},
                                              {NULL, NULL, NULL}};

    return rows;
}
