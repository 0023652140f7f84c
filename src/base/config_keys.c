/* SPDX-License-Identifier: BSD-3-Clause */
/* The one table of keys. A new key is a field in config.h and a row here; parser, environment, dump,
 * `cairn config` and docs/config.md follow. */
#include "base/config.h"

static const char *const service_values[] = {"embedded", "daemon", NULL};
static const char *const switch_values[] = {"off", "on", NULL};
static const char *const full_values[] = {"wait", "spill", "supersede", NULL};
static const char *const failure_values[] = {"strict", "retry", "continue", NULL};
static const char *const io_values[] = {"buffered", "behind", "direct", "auto", NULL};
static const char *const background_cores_values[] = {"all", "own", NULL};
static const char *const reuse_values[] = {"auto", "off", NULL};
static const char *const unsaved_values[] = {"fail", "older", NULL};
static const char *const preallocate_values[] = {"auto", "on", "off", NULL};
static const char *const phases_values[] = {"ignore", "yield", NULL};
static const char *const encode_values[] = {"none",  "adaptive",    "agnostic", "agnostic-block",
                                            "aware", "aware-block", NULL};
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
     "Directory on a disk of the node, for spill and local copies. Empty: none.", AT(local)},
    {"shm_dir", CRN_KEY_TEXT, "/dev/shm", 0, SIZE(shm_dir), NULL,
     "Memory file system for the arenas.", AT(shm_dir)},
    {"run_dir", CRN_KEY_TEXT, "", 0, SIZE(run_dir), NULL,
     "Private directory for sockets and run files. Empty: $XDG_RUNTIME_DIR/cairn, else "
     "/tmp/cairn-UID.",
     AT(run_dir)},
    {"job", CRN_KEY_TEXT, "", 0, SIZE(job), NULL,
     "Name of the job, shown by the tools. Empty: from SLURM_JOB_ID, PBS_JOBID or LSB_JOBID.",
     AT(job)},

    /* Nodes and service. */
    {"service", CRN_KEY_ENUM, "embedded", 0, 0, service_values,
     "Who flushes: a thread in one rank of each node, or the daemon cairnd.", AT(service)},
    {"ranks_per_node", CRN_KEY_U64, "auto", 0, 1 << 20, NULL,
     "Ranks that share a node service. auto: those on the same host.", AT(ranks_per_node)},

    /* Capture. */
    {"arena_bytes", CRN_KEY_BYTES, "auto", 0, 1024 * T, NULL,
     "Shared memory of each rank that holds captured checkpoints. auto: room for two of the size "
     "of the first, or for three with encode_full_every.",
     AT(arena_bytes)},
    {"arena_full", CRN_KEY_ENUM, "wait", 0, 0, full_values,
     "When the arena is full: wait for a flush, spill to the local directory, or drop the "
     "oldest version that is not flushed yet.",
     AT(arena_full)},
    {"gpu", CRN_KEY_ENUM, "on", 0, 0, switch_values,
     "Regions in the memory of a GPU are recognised by their pointer. off: all memory is the "
     "host's.",
     AT(gpu)},
    {"device_cache", CRN_KEY_BYTES, "0", 0, 1024 * T, NULL,
     "Memory of a GPU that holds checkpoints of regions there: a capture is a copy inside the GPU. "
     "0: captures go to the arena.",
     AT(device_cache)},
    {"local_cache", CRN_KEY_BYTES, "0", 0, 1024 * T, NULL,
     "Bytes of the local directory, for each process, where captures go that leave the arena "
     "before "
     "they are flushed. 0: they stay in the arena.",
     AT(local_cache)},
    {"discard_consumed", CRN_KEY_ENUM, "off", 0, 0, switch_values,
     "on: a checkpoint that a rank has restored whole is needed no more, and is not flushed if it "
     "is not yet. With local_cache none is flushed before someone waits for it, room is needed or "
     "the "
     "session closes.",
     AT(discard_consumed)},
    {"copy_threads", CRN_KEY_U64, "auto", 0, 256, NULL,
     "Threads that copy a large region, or a checkpoint to or from local_cache (at most five "
     "each). "
     "auto: by the cores that are free.",
     AT(copy_threads)},
    {"copy_split_bytes", CRN_KEY_BYTES, "4M", 64 * K, 1024 * T, NULL,
     "Regions from this size on are copied by several threads.", AT(copy_split_bytes)},

    /* Flush. */
    {"block_bytes", CRN_KEY_BYTES, "8M", 4 * K, 16 * G, NULL,
     "Size of a block: the unit of buffers and writes.", AT(block_bytes)},
    {"blocks", CRN_KEY_U64, "32", 1, 4096, NULL, "Blocks in the pool of each node.", AT(blocks)},
    {"chunk_bytes", CRN_KEY_BYTES, "1M", 512, 1 * G, NULL,
     "Unit of checksums. Must divide block_bytes.", AT(chunk_bytes)},
    {"align_bytes", CRN_KEY_BYTES, "4K", 512, 64 * M, NULL,
     "Alignment of blocks in the data files: a power of two that divides block_bytes.",
     AT(align_bytes)},
    {"files", CRN_KEY_TEXT, "1:1", 0, sizeof(((struct crn_config *)0)->files), NULL,
     "Data files of a version: a number, or files to nodes, such as 1:4. Neighbouring nodes share "
     "one, "
     "written by the node of them with the most data.",
     AT(files)},
    {"leaders_per_file", CRN_KEY_U64, "auto", 0, 1024, NULL,
     "Nodes that write a shared data file together, each parts of its own: those with the most "
     "data. Wants align_bytes of at least 4K. auto: up to 4, as far as each has two blocks; on "
     "Lustre "
     "up to stripe_count; one where nodes in one file slow each other down (NFS, SMB, CephFS, "
     "FUSE, "
     "what is not known).",
     AT(leaders_per_file)},
    {"reroute", CRN_KEY_ENUM, "on", 0, 0, switch_values,
     "A node that has written its data file helps one that is behind with its own, where nodes "
     "share "
     "files.",
     AT(reroute)},
    {"writers", CRN_KEY_U64, "auto", 0, 64, NULL,
     "Writer threads of each node. auto: one, and a second while a core is idle.", AT(writers)},
    {"io", CRN_KEY_ENUM, "auto", 0, 0, io_values,
     "How data files are written. buffered: through the page cache. behind: the same, with "
     "writeback "
     "started at once and the pages dropped afterwards. direct: O_DIRECT. Where the file system "
     "refuses a method, buffered is used. auto: on a local disk (ext4, XFS) behind, and direct "
     "into "
     "reused files (reuse_files); buffered elsewhere. `cairn tune` measures which is best.",
     AT(io)},
    {"preallocate", CRN_KEY_ENUM, "auto", 0, 0, preallocate_values,
     "Room for a data file is allocated before it is written. auto: with O_DIRECT, where it lets "
     "writes go side by side.",
     AT(preallocate)},
    {"reuse_files", CRN_KEY_ENUM, "auto", 0, 0, reuse_values,
     "Whether data files of versions that keep_last lets go are written to again, which saves the "
     "file system most of the work. auto: on ext4, XFS and tmpfs, if a file has one name and "
     "nobody "
     "has it open. Takes the room of one version as long as the session is open, which each flush "
     "takes anyway.",
     AT(reuse_files)},
    {"stripe_count", CRN_KEY_U64, "0", 0, 2000, NULL,
     "Lustre: targets that a data file is striped over. 0: as its directory says.",
     AT(stripe_count)},
    {"stripe_bytes", CRN_KEY_BYTES, "0", 0, 2 * G, NULL,
     "Lustre: bytes of a stripe, a multiple of 64K. 0: as the directory says.", AT(stripe_bytes)},
    {"read_threads", CRN_KEY_U64, "4", 1, 64, NULL,
     "Threads of each node that read data files at a restart.", AT(read_threads)},
    {"nice", CRN_KEY_U64, "10", 0, 19, NULL, "CPU priority of the background threads, as nice(1).",
     AT(nice)},
    {"background_cores", CRN_KEY_ENUM, "all", 0, 0, background_cores_values,
     "Where the background threads of a session may run. all: on every core of the host that the "
     "job may use, also if its ranks are bound to cores; those that read at a restart on the cores "
     "of the reading rank's memory node. own: where the thread may that opens the session.",
     AT(background_cores)},
    {"bandwidth", CRN_KEY_BYTES, "0", 0, 1024 * T, NULL,
     "Most that the background of a node writes and sends, in bytes a second. 0: no cap.",
     AT(bandwidth)},
    {"calm_bandwidth", CRN_KEY_BYTES, "auto", 0, 1024 * T, NULL,
     "The same while nobody waits for the flush: no cairn_wait or cairn_close, no capture that "
     "needs "
     "the room, no newer checkpoint, no other job at the broker. auto: a hundredth of the speed of "
     "the "
     "captures, more if that takes longer than half the time between checkpoints. 1P: never "
     "calm.",
     AT(calm_bandwidth)},
    {"phases", CRN_KEY_ENUM, "yield", 0, 0, phases_values,
     "What cairn_phase does: nothing, or the background of a node starts no new writes and sends "
     "while a rank communicates or does I/O of its own.",
     AT(phases)},
    {"phase_patience", CRN_KEY_TIME, "5s", 0, 1 * DAY, NULL,
     "With phases = yield: how long a flush is held back, in all.", AT(phase_patience_ns)},
    {"encode_aim", CRN_KEY_ENUM, "ratio", 0, 0, aim_values,
     "What the adaptive choice looks for: the fewest bytes, little CPU time, or the least time "
     "until "
     "the data is on the file system.",
     AT(encode_aim)},
    {"encode_chunk", CRN_KEY_BYTES, "1M", 64 * K, 4 * M, NULL,
     "Encoded data is cut into chunks of this size, each decoded by itself.", AT(encode_chunk)},
    {"encode_threads", CRN_KEY_U64, "auto", 0, 64, NULL,
     "Threads of each node that encode and write. auto: as many as writers; where that is auto, "
     "too, up to 8, "
     "each while there is a core for it.",
     AT(encode_threads)},
    {"encode_share", CRN_KEY_U64, "100", 1, 100, NULL,
     "Percent of a core that each of these threads may take for encoding.", AT(encode_share)},
    {"hdf5_reader", CRN_KEY_TEXT, "cairn-hdf5-extents", 0, SIZE(hdf5_reader), NULL,
     "With encode: the program that finds the variables in HDF5 files, of this PATH or with its "
     "directory. Empty: none is started, and HDF5 files are plain bytes.",
     AT(hdf5_reader)},
    {"free_reserve_bytes", CRN_KEY_BYTES, "64M", 0, 1024 * T, NULL,
     "Left free on the persistent directory and of its quotas: a flush that would go below waits "
     "for room, and says so.",
     AT(free_reserve_bytes)},
    {"space_wait", CRN_KEY_TIME, "1h", 0, 366 * DAY, NULL,
     "How long a flush waits for room on the persistent directory before it fails with "
     "CAIRN_ENOSPC. The default is that of wait_timeout: long enough for a person or a purge to "
     "make room, and short enough that a job reports a full disk instead of waiting out its "
     "allocation. The checkpoint stays in memory for a later drain.",
     AT(space_wait_ns)},

    /* Deadlines. */
    {"restart_unsaved", CRN_KEY_ENUM, "fail", 0, 0, unsaved_values,
     "What a restart does that knows of newer checkpoints it cannot read: they are in the memory "
     "of a dead run whose drain failed, on a node that is missing, or held by a living process. "
     "Those of a living process are waited for, at most wait_timeout. Then fail: the restart "
     "returns CAIRN_EUNSAVED and says which and where. older: it logs that and takes an older "
     "version.",
     AT(restart_unsaved)},
    {"wait_timeout", CRN_KEY_TIME, "1h", 0, 366 * DAY, NULL,
     "How long waits without a timeout of their own last.", AT(wait_timeout_ns)},
    {"service_timeout", CRN_KEY_TIME, "30s", 10 * MS, 366 * DAY, NULL,
     "How long a call waits for an answer of the node service.", AT(service_timeout_ns)},
    {"commit_timeout", CRN_KEY_TIME, "10m", 10 * MS, 366 * DAY, NULL,
     "A version fails when ranks capture it later than this after the first, or when one of its "
     "nodes cannot be heard for longer; a restart, when one of its ranks cannot.",
     AT(commit_timeout_ns)},

    /* Advice. */
    {"mtbf", CRN_KEY_TIME, "1d", 1 * SEC, 36600 * DAY, NULL,
     "Mean time between failures of the allocation, for the Young/Daly interval.", AT(mtbf_ns)},
    {"max_overhead_percent", CRN_KEY_U64, "10", 0, 100, NULL,
     "Advice never spends more than this share of the time on checkpoints. 0: no cap.",
     AT(max_overhead_percent)},
    {"wall_limit", CRN_KEY_TIME, "0", 0, 3660 * DAY, NULL,
     "Length of the allocation, counted from the opening of the session. 0: unknown.",
     AT(wall_limit_ns)},
    {"wall_margin", CRN_KEY_TIME, "5m", 0, 366 * DAY, NULL,
     "How long before wall_limit the advice is to checkpoint and stop.", AT(wall_margin_ns)},
    {"stop_signals", CRN_KEY_TEXT, "", 0, SIZE(stop_signals), NULL,
     "Signals that mean \"checkpoint and stop\", such as USR1,TERM. Empty: none is caught.",
     AT(stop_signals)},

    /* Turns on the file system. */
    {"broker", CRN_KEY_TEXT, "", 0, SIZE(broker), NULL,
     "Where cairn-broker listens: host, host:port or unix:/path. Empty: flush without turns.",
     AT(broker)},
    {"broker_token", CRN_KEY_TEXT, "", 0, SIZE(broker_token), NULL,
     "The broker's token for the file system of persistent. Empty: its first.", AT(broker_token)},
    {"broker_auth", CRN_KEY_TEXT, "auto", 0, SIZE(broker_auth), NULL,
     "How to log in there: munge, key, or peer over a Unix socket. auto: peer, or key if "
     "broker_key is set, or munge.",
     AT(broker_auth)},
    {"broker_key", CRN_KEY_TEXT, "", 0, SIZE(broker_key), NULL,
     "File with your key, readable by you alone.", AT(broker_key)},
    {"broker_munge", CRN_KEY_TEXT, "", 0, SIZE(broker_munge), NULL,
     "Socket of munged. Empty: MUNGE's default.", AT(broker_munge)},
    {"broker_give_up", CRN_KEY_TIME, "5s", 1 * MS, 1 * DAY, NULL,
     "Without an answer of the broker for so long flushes and restart reads start as if there were "
     "none.",
     AT(broker_give_up_ns)},
    {"broker_max_wait", CRN_KEY_TIME, "4h", 0, 366 * DAY, NULL,
     "Longest wait for a turn; then the flush or restart read starts without it. 0: no limit.",
     AT(broker_max_wait_ns)},

    {"log_level", CRN_KEY_ENUM, "warn", 0, 0, log_values,
     "The least important lines that are logged. info adds a line for each version and a summary "
     "when the session closes.",
     AT(log_level)},
    {"log_file", CRN_KEY_TEXT, "", 0, SIZE(log_file), NULL,
     "File that log lines are appended to. `%j` is the job (or run), `%r` the writer of the line "
     "(`rank12`, or `node3` for a node service), `%h` the host, `%%` a percent sign. A file that "
     "cannot be written is named once on standard error, and the lines go there. Empty: standard "
     "error.",
     AT(log_file)},

    /* May differ by checkpoint name. */
    {"on_failure", CRN_KEY_ENUM, "strict", 0, 0, failure_values,
     "What a failed flush does: the next checkpoint reports it and captures nothing; it is "
     "tried again first; or the run goes on and it is only reported.",
     AT_NAME(on_failure)},
    {"retries", CRN_KEY_U64, "3", 0, 1000, NULL,
     "With on_failure = retry: how often a flush is tried again.", AT_NAME(retries)},
    {"retry_delay", CRN_KEY_TIME, "1s", 0, 1 * DAY, NULL,
     "Wait before the first retry; doubles each time.", AT_NAME(retry_delay_ns)},
    {"fresh", CRN_KEY_ENUM, "off", 0, 0, switch_values,
     "on: a run that has restored no version of the name may replace and retire those of other "
     "runs. off: its first checkpoint fails with CAIRN_EEXIST where there are some.",
     AT_NAME(fresh)},
    {"keep_last", CRN_KEY_U64, "0", 0, UINT64_C(1) << 40, NULL,
     "Versions kept on the file system. 0: all.", AT_NAME(keep_last)},
    {"keep_every", CRN_KEY_U64, "0", 0, UINT64_C(1) << 40, NULL,
     "Versions divisible by this number are kept for ever. 0: none.", AT_NAME(keep_every)},
    {"keep_local", CRN_KEY_U64, "1", 0, UINT64_C(1) << 40, NULL,
     "Versions kept in the local directory after the flush.", AT_NAME(keep_local)},
    {"period", CRN_KEY_TIME, "0", 0, 366 * DAY, NULL,
     "Advice: fixed time between checkpoints. 0: Young/Daly.", AT_NAME(period_ns)},
    {"encode", CRN_KEY_ENUM, "none", 0, 0, encode_values,
     "How data is merged over ranks and compressed before it is written: not at all; each variable "
     "of "
     "all ranks with a pipeline that is chosen for it; or one of the four schemes of the paper.",
     AT_NAME(encode)},
    {"encode_pipe", CRN_KEY_TEXT, "auto", 0, NAME_SIZE(encode_pipe), NULL,
     "With encode: the stages, such as lorenzo:3,magnitude; or adaptive, or paper. auto: adaptive "
     "with "
     "encode = adaptive, otherwise the paper's.",
     AT_NAME(encode_pipe)},
    {"encode_block", CRN_KEY_BYTES, "64K", 4 * K, 1 * G, NULL,
     "The block schemes take so many bytes of each rank in turn.", AT_NAME(encode_block)},
    {"encode_min", CRN_KEY_BYTES, "100", 1, 1 * G, NULL,
     "Variables below this size are encoded together.", AT_NAME(encode_min)},
    {"encode_full_every", CRN_KEY_U64, "1", 1, 256, NULL,
     "With encode: one version of so many is encoded by itself; the others may be encoded against "
     "the one before, which must then be kept. 1: each by itself.",
     AT_NAME(encode_full_every)},
    {"encode_match", CRN_KEY_TEXT, "", 0, NAME_SIZE(encode_match), NULL,
     "Regular expressions, separated by blanks. Names that match one are one variable; what its "
     "groups match may differ.",
     AT_NAME(encode_match)},
    {"encode_lossy", CRN_KEY_TEXT, "", 0, NAME_SIZE(encode_lossy), NULL,
     "Regions of floating-point numbers that may lose something, separated by blanks: "
     "REGION:abs:1e-6 or REGION:rel:1e-3. All others come back bit by bit.",
     AT_NAME(encode_lossy)},
};

const struct crn_key *crn_config_keys(size_t *ret_n)
{
    *ret_n = sizeof(keys) / sizeof(keys[0]);
    return keys;
}

const struct crn_retired *crn_config_retired(void)
{
    static const struct crn_retired rows[] = {
        {"io", "uring", "auto"}, {"io", "uring-direct", "auto"}, {NULL, NULL, NULL}};

    return rows;
}
