# SPDX-License-Identifier: BSD-3-Clause
"""Generated from include/cairn by make_declarations.py; do not edit."""
from ctypes import (POINTER, Structure, c_char_p, c_double, c_int, c_int32, c_int64,
                    c_size_t, c_uint32, c_uint64, c_void_p)

VERSION = "0.2.0"
CAIRN_OK = 0
CAIRN_EINVAL = -1
CAIRN_ECONFIG = -2
CAIRN_ESTATE = -3
CAIRN_ENOTSUP = -4
CAIRN_EMISMATCH = -5
CAIRN_EEXIST = -6
CAIRN_EPINNED = -7
CAIRN_EBUSY = -20
CAIRN_ETIMEDOUT = -21
CAIRN_ECANCELED = -22
CAIRN_ESERVICE = -23
CAIRN_EPEER = -24
CAIRN_EUNSAVED = -25
CAIRN_ENOENT = -40
CAIRN_EDAMAGED = -41
CAIRN_EFORMAT = -42
CAIRN_EREJECTED = -43
CAIRN_ENOMEM = -60
CAIRN_EIO = -61
CAIRN_ENOSPC = -62
CAIRN_EPERM = -63
CAIRN_ELIMIT = -64
CAIRN_EMPI = -65
CAIRN_EDEVICE = -66
CAIRN_EBUG = -90
CAIRN_NEWEST = 9223372036854775807
CAIRN_BYTES = 0
CAIRN_I8 = 1
CAIRN_U8 = 2
CAIRN_I16 = 3
CAIRN_U16 = 4
CAIRN_I32 = 5
CAIRN_U32 = 6
CAIRN_I64 = 7
CAIRN_U64 = 8
CAIRN_F32 = 9
CAIRN_F64 = 10
CAIRN_C64 = 11
CAIRN_C128 = 12
CAIRN_F16 = 13
CAIRN_BF16 = 14
CAIRN_BOOL = 15
CAIRN_F8_E4M3 = 16
CAIRN_F8_E5M2 = 17
CAIRN_LEVEL_NONE = 0
CAIRN_CAPTURED = 10
CAIRN_LOCAL = 20
CAIRN_PROTECTED = 30
CAIRN_PERSISTENT = 40
CAIRN_PHASE_COMPUTE = 0
CAIRN_PHASE_COMMUNICATE = 1
CAIRN_PHASE_IO = 2
CAIRN_MAX_DIMS = 8
CAIRN_MAX_NAME = 128
CAIRN_OWN_RANK = -1
CAIRN_WAIT_CONFIG = -1
CAIRN_LAZY = 1
CAIRN_STREAM_ORDERED = 2


class cairn_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("config_file", c_char_p),
        ("settings", POINTER(c_char_p)),
    ]


class cairn_array(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("type", c_int),
        ("ndims", c_int32),
        ("dims", c_uint64 * CAIRN_MAX_DIMS),
        ("global_dims", c_uint64 * CAIRN_MAX_DIMS),
        ("offset", c_uint64 * CAIRN_MAX_DIMS),
    ]


class cairn_checkpoint_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("regions", POINTER(c_char_p)),
        ("level", c_int),
        ("flags", c_uint32),
        ("protect", c_char_p),
    ]


class cairn_stats(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("level", c_int),
        ("error", c_int),
        ("bytes", c_uint64),
        ("copy_seconds", c_double),
        ("blocked_seconds", c_double),
        ("persistent_seconds", c_double),
        ("levels", c_uint64),
    ]


class cairn_version_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("version", c_int64),
        ("ranks", c_int32),
        ("files", c_int32),
        ("bytes", c_uint64),
        ("created_ns", c_int64),
    ]


FUNCTIONS = {
    "cairn_error_name": (c_char_p, [c_int]),
    "cairn_last_error": (c_char_p, []),
    "cairn_version_string": (c_char_p, []),
    "cairn_type_size": (c_size_t, [c_int]),
    "cairn_open": (c_int, [POINTER(cairn_options), POINTER(c_void_p)]),
    "cairn_close": (c_int, [c_void_p]),
    "cairn_rank": (c_int, [c_void_p]),
    "cairn_ranks": (c_int, [c_void_p]),
    "cairn_protect": (c_int, [c_void_p, c_char_p, c_void_p, c_int, c_uint64]),
    "cairn_protect_array": (c_int, [c_void_p, c_char_p, c_void_p, POINTER(cairn_array)]),
    "cairn_protect_replicated": (c_int, [c_void_p, c_char_p, c_void_p, POINTER(cairn_array)]),
    "cairn_unprotect": (c_int, [c_void_p, c_char_p]),
    "cairn_gpu_stream": (c_int, [c_void_p, c_void_p]),
    "cairn_checkpoint": (c_int, [c_void_p, c_char_p, c_int64, POINTER(c_char_p)]),
    "cairn_checkpoint_with": (c_int, [c_void_p, c_char_p, c_int64, POINTER(cairn_checkpoint_options)]),
    "cairn_source_free": (c_int, [c_void_p]),
    "cairn_capture": (c_int, [c_void_p, c_char_p, c_int64, POINTER(c_char_p)]),
    "cairn_submit": (c_int, [c_void_p]),
    "cairn_abandon": (c_int, [c_void_p, c_char_p, c_int64, c_char_p]),
    "cairn_test": (c_int, [c_void_p, c_char_p, c_int64, c_int, POINTER(c_int)]),
    "cairn_wait": (c_int, [c_void_p, c_char_p, c_int64, c_int, c_int64]),
    "cairn_wait_all": (c_int, [c_void_p, c_int, c_int64]),
    "cairn_event_fd": (c_int, [c_void_p]),
    "cairn_stats": (c_int, [c_void_p, c_char_p, c_int64, POINTER(cairn_stats)]),
    "cairn_find": (c_int, [c_void_p, c_char_p, c_int64, POINTER(c_int64)]),
    "cairn_find_version": (c_int, [c_void_p, c_char_p, c_int64]),
    "cairn_verify": (c_int, [c_void_p, c_char_p, c_int64]),
    "cairn_reject": (c_int, [c_void_p, c_char_p, c_int64, c_char_p]),
    "cairn_restore": (c_int, [c_void_p, c_char_p, c_int64, POINTER(c_char_p)]),
    "cairn_restore_from": (c_int, [c_void_p, c_char_p, c_int64, c_int, POINTER(c_char_p)]),
    "cairn_restart": (c_int, [c_void_p, c_char_p, POINTER(c_char_p), POINTER(c_int64)]),
    "cairn_prefetch_enqueue": (c_int, [c_void_p, c_char_p, c_int64]),
    "cairn_prefetch_start": (c_int, [c_void_p]),
    "cairn_prefetch_cancel": (c_int, [c_void_p, c_char_p, c_int64]),
    "cairn_prefetch_clear": (c_int, [c_void_p]),
    "cairn_repairs": (c_int, [c_void_p]),
    "cairn_version_info": (c_int, [c_void_p, c_char_p, c_int64, POINTER(cairn_version_info)]),
    "cairn_region_info": (c_int, [c_void_p, c_char_p, c_int64, c_int, c_char_p, POINTER(cairn_array)]),
    "cairn_region_at": (c_int, [c_void_p, c_char_p, c_int64, c_int, c_uint32, c_char_p, c_size_t, POINTER(cairn_array)]),
    "cairn_list": (c_int, [c_void_p, c_char_p, POINTER(c_int64), c_size_t, POINTER(c_size_t)]),
    "cairn_remove": (c_int, [c_void_p, c_char_p, c_int64]),
    "cairn_drop_local": (c_int, [c_void_p, c_char_p]),
    "cairn_file_route": (c_int, [c_void_p, c_char_p, c_int64, c_char_p, c_char_p, c_size_t]),
    "cairn_file_restore": (c_int, [c_void_p, c_char_p, c_int64, c_int, c_char_p, c_char_p, c_size_t]),
    "cairn_should_checkpoint": (c_int, [c_void_p, c_char_p, POINTER(c_int)]),
    "cairn_should_stop": (c_int, [c_void_p, POINTER(c_int)]),
    "cairn_phase": (c_int, [c_void_p, c_int]),
}
