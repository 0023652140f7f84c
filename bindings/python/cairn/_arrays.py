# SPDX-License-Identifier: BSD-3-Clause
"""What lies where: pointer, type and shape of anything that holds an array, without a copy."""
import ctypes

from . import _declarations as d

NUMPY = {"i1": d.CAIRN_I8, "u1": d.CAIRN_U8, "i2": d.CAIRN_I16, "u2": d.CAIRN_U16,
         "i4": d.CAIRN_I32, "u4": d.CAIRN_U32, "i8": d.CAIRN_I64, "u8": d.CAIRN_U64,
         "f4": d.CAIRN_F32, "f8": d.CAIRN_F64, "c8": d.CAIRN_C64, "c16": d.CAIRN_C128,
         "f2": d.CAIRN_F16, "b1": d.CAIRN_BOOL}
TORCH = {"uint8": d.CAIRN_U8, "int8": d.CAIRN_I8, "int16": d.CAIRN_I16, "int32": d.CAIRN_I32,
         "int64": d.CAIRN_I64, "uint16": d.CAIRN_U16, "uint32": d.CAIRN_U32,
         "uint64": d.CAIRN_U64, "float16": d.CAIRN_F16, "bfloat16": d.CAIRN_BF16,
         "float32": d.CAIRN_F32, "float64": d.CAIRN_F64, "complex64": d.CAIRN_C64,
         "complex128": d.CAIRN_C128, "bool": d.CAIRN_BOOL, "float8_e4m3fn": d.CAIRN_F8_E4M3,
         "float8_e5m2": d.CAIRN_F8_E5M2}
BY_NAME = {name[6:].lower(): value for name, value in vars(d).items()
           if name in ("CAIRN_BYTES", "CAIRN_I8", "CAIRN_U8", "CAIRN_I16", "CAIRN_U16",
                       "CAIRN_I32", "CAIRN_U32", "CAIRN_I64", "CAIRN_U64", "CAIRN_F32",
                       "CAIRN_F64", "CAIRN_C64", "CAIRN_C128", "CAIRN_F16", "CAIRN_BF16",
                       "CAIRN_BOOL", "CAIRN_F8_E4M3", "CAIRN_F8_E5M2")}


# Of DLPack: (code, bits).
DLPACK = {(0, 8): d.CAIRN_I8, (0, 16): d.CAIRN_I16, (0, 32): d.CAIRN_I32, (0, 64): d.CAIRN_I64,
          (1, 8): d.CAIRN_U8, (1, 16): d.CAIRN_U16, (1, 32): d.CAIRN_U32, (1, 64): d.CAIRN_U64,
          (2, 16): d.CAIRN_F16, (2, 32): d.CAIRN_F32, (2, 64): d.CAIRN_F64,
          (4, 16): d.CAIRN_BF16, (5, 64): d.CAIRN_C64, (5, 128): d.CAIRN_C128,
          (6, 8): d.CAIRN_BOOL, (10, 8): d.CAIRN_F8_E4M3, (12, 8): d.CAIRN_F8_E5M2}
DLPACK_HOST = (1, 3, 11, 13, 16)  # devices: CPU, pinned and managed memory of CUDA and ROCm


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64)]


class Block:
    """Contiguous memory: address, Cairn's type, shape, and what keeps it alive."""

    def __init__(self, pointer, kind, shape, owner):
        self.pointer, self.kind, self.shape, self.owner = pointer, kind, tuple(shape), owner


def of_torch(tensor):
    name = str(tensor.dtype).split(".")[-1]
    if name not in TORCH:
        raise TypeError(f"Cairn has no type for torch.{name}: protect a view of it as bytes")
    if not tensor.is_contiguous():
        raise ValueError("the tensor is not contiguous: protect tensor.contiguous(), and keep it")
    return Block(tensor.data_ptr(), TORCH[name], tensor.shape, tensor)


def check_strides(shape, strides, size):
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent > 1 and stride != size:
            raise ValueError("the array is not contiguous in C order")
        size *= extent


def of_interface(interface, owner):
    order, code = interface["typestr"][0], interface["typestr"][1:]
    pointer, read_only = interface["data"]
    kind = NUMPY.get(code)
    if code in ("V1", "V2"):  # types that numpy does not know by itself, as of ml_dtypes
        kind = TORCH.get(str(getattr(owner, "dtype", "")))
    if kind is None or order == ">":
        raise TypeError(f"Cairn has no type for '{interface['typestr']}'")
    if read_only:
        raise ValueError("the array is read-only: a restart could not restore it")
    if interface.get("strides") is not None and 0 not in interface["shape"]:
        check_strides(interface["shape"], interface["strides"], int(code[1:]))
    return Block(pointer, kind, interface["shape"], owner)


def of_dlpack(data):
    """The capsule keeps the memory alive; nothing consumes it."""
    on_host = data.__dlpack_device__()[0] in DLPACK_HOST
    capsule = data.__dlpack__() if on_host else data.__dlpack__(stream=-1)  # Cairn orders itself
    take = ctypes.pythonapi.PyCapsule_GetPointer
    take.restype, take.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    t = DLTensor.from_address(take(capsule, b"dltensor"))
    if t.lanes != 1 or (t.code, t.bits) not in DLPACK:
        raise TypeError(f"Cairn has no type for DLPack's type {t.code} of {t.bits} bits")
    shape = tuple(t.shape[:t.ndim])
    if t.strides and 0 not in shape:
        check_strides(shape, t.strides[:t.ndim], 1)
    return Block((t.data or 0) + t.offset or None, DLPACK[t.code, t.bits], shape, (capsule, data))


def of_buffer(data):
    view = memoryview(data)
    if view.readonly:
        raise ValueError("the memory is read-only: a restart could not restore it")
    if not view.c_contiguous:
        raise ValueError("the memory is not contiguous in C order")
    code = view.format.lstrip("@=<")
    letter = {"f": "f", "d": "f", "e": "f", "?": "b"}.get(code, "u" if code.isupper() or code == "B"
                                                         else "i")
    kind = NUMPY.get(f"{letter}{view.itemsize}") if len(code) == 1 and code != "c" else None
    shape = view.shape if kind is not None else (view.nbytes,)
    if view.nbytes == 0:
        return Block(None, kind or d.CAIRN_BYTES, shape, view)
    held = (ctypes.c_char * view.nbytes).from_buffer(view)
    return Block(ctypes.addressof(held), kind or d.CAIRN_BYTES, shape, held)


def block_of(data):
    """Where the elements of an array lie: torch, cupy, numpy, or anything with a buffer."""
    if hasattr(data, "data_ptr") and hasattr(data, "is_contiguous"):
        return of_torch(data)
    if hasattr(data, "__cuda_array_interface__"):
        return of_interface(data.__cuda_array_interface__, data)
    if hasattr(data, "__array_interface__"):
        return of_interface(data.__array_interface__, data)
    try:
        return of_buffer(data)
    except TypeError:
        pass
    if hasattr(data, "__dlpack__"):
        return of_dlpack(data)
    raise TypeError(f"{type(data).__name__} holds no array: it has neither data_ptr, "
                    "__array_interface__, __cuda_array_interface__, a buffer, nor __dlpack__")
