#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes cairn/_declarations.py from the C headers.

usage: make_declarations.py [--check]    --check: exit status 1 if the file is not up to date
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = HERE.parent.parent / "include" / "cairn"
OUTPUT = HERE / "cairn" / "_declarations.py"
SIMPLE = {
    "int": "c_int", "size_t": "c_size_t", "double": "c_double", "int64_t": "c_int64",
    "uint64_t": "c_uint64", "int32_t": "c_int32", "uint32_t": "c_uint32", "cairn_err": "c_int",
    "cairn_type": "c_int", "cairn_level": "c_int", "cairn_phase_kind": "c_int",
    "MPI_Fint": "c_int",
}


def text_of(name):
    text = (INCLUDE / name).read_text()
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def constants(text):
    found = {}
    for body in re.findall(r"enum \w+ \{(.*?)\}", text, re.S):
        for name, value in re.findall(r"(CAIRN_\w+) = (-?\d+)", body):
            found[name] = int(value)
    for name, value in re.findall(r"X\((CAIRN_\w+), (-?\d+),", text):
        found[name] = int(value)
    for name, value in re.findall(r"#define (CAIRN_MAX_\w+|CAIRN_OWN_RANK|CAIRN_WAIT_CONFIG)\s+\(?(-?\d+)", text):
        found[name] = int(value)
    for name, value in re.findall(r"#define (CAIRN_\w+)\s+UINT32_C\((\d+)\)", text):
        found[name] = int(value)
    found["CAIRN_NEWEST"] = 2 ** 63 - 1
    return found


def ctype(declaration):
    """The ctypes expression of a parameter or return type."""
    words = re.sub(r"\bconst\b", " ", declaration).replace("*", " * ").split()
    if len(words) > 1 and words[-1] not in ("*",) and words[-1] not in SIMPLE and words[-2] != "struct":
        words = words[:-1]  # the name of the parameter
    stars = words.count("*")
    base = [w for w in words if w not in ("*", "struct")][0]
    if stars == 0:
        return SIMPLE[base]
    if base == "char":
        return "c_char_p" if stars == 1 else "POINTER(c_char_p)"
    if stars == 1 and base in SIMPLE:
        return f"POINTER({SIMPLE[base]})"
    if stars == 1 and re.search(rf"struct {base} \{{", text_of("cairn.h")):
        return f"POINTER({base})"
    return "c_void_p" if stars == 1 else "POINTER(c_void_p)"


def structs(text):
    for name, body in re.findall(r"struct (\w+) \{(.*?)\};", text, re.S):
        fields = []
        for line in filter(None, (part.strip() for part in body.split(";"))):
            array = re.match(r"(.*\b(\w+))\[(\w+)\]$", line)
            field = array.group(2) if array else re.search(r"(\w+)$", line).group(1)
            kind = ctype(array.group(1) if array else line)
            fields.append(f'("{field}", {kind} * {array.group(3)})' if array
                          else f'("{field}", {kind})')
        yield name, fields


def functions(text):
    pattern = r"CAIRN_API\s+(?:CAIRN_CHECKED\s+)?([\w\s\*]+?)\s*\b(cairn_\w+)\(([^;]*?)\);"
    for result, name, arguments in re.findall(pattern, text, re.S):
        arguments = [" ".join(a.split()) for a in arguments.split(",")]
        yield name, ctype(result + " "), [] if arguments == ["void"] else [ctype(a) for a in arguments]


def generate():
    text = text_of("cairn.h")
    out = ["# SPDX-License-Identifier: BSD-3-Clause",
           '"""Generated from include/cairn by make_declarations.py; do not edit."""',
           "from ctypes import (POINTER, Structure, c_char_p, c_double, c_int, c_int32, c_int64,",
           "                    c_size_t, c_uint32, c_uint64, c_void_p)", ""]
    version = re.search(r'#define CAIRN_VERSION\s+"(.*?)"', text).group(1)
    out.append(f'VERSION = "{version}"')
    for name, value in {**constants(text_of("cairn_errors.h")), **constants(text)}.items():
        out.append(f"{name} = {value}")
    for name, fields in structs(text):
        out += ["", "", f"class {name}(Structure):", "    _fields_ = ["]
        out += [f"        {field}," for field in fields] + ["    ]"]
    out += ["", "", "FUNCTIONS = {"]
    for name, result, arguments in functions(text):
        out.append(f'    "{name}": ({result}, [{", ".join(arguments)}]),')
    return "\n".join(out + ["}", ""])


def main():
    if sys.argv[1:] == ["--check"]:
        if OUTPUT.read_text() != generate():
            sys.exit(f"{OUTPUT} does not match the headers: run {__file__}")
    else:
        OUTPUT.write_text(generate())


main()
