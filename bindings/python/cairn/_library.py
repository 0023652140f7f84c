# SPDX-License-Identifier: BSD-3-Clause
"""Loads libcairn and turns its codes into exceptions. ctypes releases the GIL in every call."""
import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_void_p  # noqa: F401

from . import _declarations as d


class Error(Exception):
    """A call of the library failed. code is its CAIRN_E... number, name the symbol of the code."""

    def __init__(self, code, text):
        self.code = code
        self.name = NAMES.get(code, str(code))
        super().__init__(text)


class NotFound(Error, LookupError):
    """There is no such version or region (CAIRN_ENOENT)."""


class Mismatch(Error, ValueError):
    """What is stored does not fit the memory (CAIRN_EMISMATCH)."""


class InvalidArgument(Error, ValueError):
    """CAIRN_EINVAL."""


class TimedOut(Error, TimeoutError):
    """CAIRN_ETIMEDOUT."""


class Damaged(Error):
    """CAIRN_EDAMAGED."""


class Busy(Error):
    """CAIRN_EBUSY: call again."""


class PeerFailed(Error):
    """A rank or node has died or hangs (CAIRN_EPEER)."""


NAMES = {value: name for name, value in vars(d).items() if name.startswith("CAIRN_E")}
KINDS = {d.CAIRN_ENOENT: NotFound, d.CAIRN_EMISMATCH: Mismatch, d.CAIRN_EINVAL: InvalidArgument,
         d.CAIRN_ETIMEDOUT: TimedOut, d.CAIRN_EDAMAGED: Damaged, d.CAIRN_EBUSY: Busy,
         d.CAIRN_EPEER: PeerFailed}
ALLGATHER = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p)


def load(name, required=True):
    """The library of this name: from the folder $CAIRNPY_LIBDIR, or where the system looks."""
    folder = os.environ.get("CAIRNPY_LIBDIR")
    for file in ([os.path.join(folder, f"{name}.so")] if folder else [f"{name}.so.0", f"{name}.so"]):
        try:
            return ctypes.CDLL(file)
        except OSError as error:
            problem = error
    if required:
        raise ImportError(f"{name} cannot be loaded ({problem}); install Cairn, or set CAIRNPY_LIBDIR "
                          "to the folder with its libraries")
    return None


lib = load("libcairn")
for function, (result, arguments) in d.FUNCTIONS.items():
    getattr(lib, function).restype = result
    getattr(lib, function).argtypes = arguments
if lib.cairn_version_string().decode() != d.VERSION:
    raise ImportError(f"this package is for Cairn {d.VERSION}, but the library is "
                      f"{lib.cairn_version_string().decode()}")


def check(code):
    if code != d.CAIRN_OK:
        text = lib.cairn_last_error().decode(errors="replace")
        raise KINDS.get(code, Error)(code, text)
