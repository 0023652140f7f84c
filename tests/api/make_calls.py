#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes calls of every function of the public headers, as C, for tests/api/arguments.c and fork.c.

make_calls.py HEADER... > calls.h

The output has two tables. wrong_calls calls each function with each wrong value of each argument, while all other
arguments are right. right_calls has only right arguments. A function or an argument that this script does not know
is an error, so nothing new in a header stays untested.
"""
import re
import sys

# Right values: by type and name, then by type. They are variables of tests/api/calls_setup.h.
BY_NAME = {
    ("const char *", "name"): '"heat"',
    ("const char *", "region"): '"t"',
    ("const char *", "file"): '"f"',
    ("const char *", "reason"): '"a test"',
    ("char *", "region"): "text",
    ("char *", "path"): "text",
    ("size_t", "region_size"): "sizeof(text)",
    ("size_t", "path_size"): "sizeof(text)",
    ("void *", "ptr"): "memory",
    ("void *", "stream"): "NULL",
    ("void *", "arg"): "NULL",
    ("int", "rank"): "0",
    ("int", "ranks"): "1",
    ("uint64_t", "count"): "N",
    ("uint32_t", "index"): "0",
    ("int", "old_rank"): "CAIRN_OWN_RANK",
    ("int64_t", "version"): "1",
    ("int64_t", "not_newer_than"): "CAIRN_NEWEST",
    ("int64_t", "timeout_ms"): "60000",
    ("int *", "ret_reached"): "&yes",
    ("int *", "ret_yes"): "&yes",
    ("int64_t *", "ret_version"): "&found",
    ("int64_t *", "versions"): "NULL",
    ("size_t", "max"): "0",
    ("size_t *", "ret_n"): "&listed",
}
BY_TYPE = {
    "cairn_session *": "session",
    "const cairn_session *": "session",
    "cairn_session **": "&another",
    "cairn_allgather *": "gather_alone",
    "const struct cairn_options *": "&options",
    "const struct cairn_array *": "&array",
    "const struct cairn_checkpoint_options *": "&with",
    "struct cairn_array *": "&array_out",
    "struct cairn_stats *": "&stats_out",
    "struct cairn_version_info *": "&info_out",
    "const char *const *": "NULL",
    "cairn_type": "CAIRN_U64",
    "cairn_level": "CAIRN_PERSISTENT",
    "cairn_phase_kind": "CAIRN_PHASE_COMPUTE",
    "cairn_err": "CAIRN_EIO",
    "MPI_Comm": "MPI_COMM_SELF",
    "MPI_Fint": "MPI_Comm_c2f(MPI_COMM_SELF)",
}

# Where the headers allow NULL.
NULL_IS_FINE = {
    ("cairn_close", "session"),
    ("cairn_gpu_stream", "stream"),
    ("cairn_abandon", "reason"),
    ("cairn_reject", "reason"),
    ("cairn_list", "versions"),
    ("cairn_open_ucx", "arg"),
}
NULL_IS_FINE_FOR_TYPE = {"const struct cairn_options *", "const char *const *",
                         "const struct cairn_checkpoint_options *"}

# Wrong values other than NULL, by type and name or by type.
WRONG_NAMES = ['""', '"a/b"', '".hidden"', "too_long"]
WRONG_STRUCT = {"const struct cairn_options *": "wrong_options",
                "const struct cairn_array *": "wrong_array",
                "const struct cairn_checkpoint_options *": "wrong_with",
                "struct cairn_array *": "wrong_array_out",
                "struct cairn_stats *": "wrong_stats_out",
                "struct cairn_version_info *": "wrong_info_out"}
WRONG = {
    ("const char *", "name"): WRONG_NAMES,
    ("const char *", "file"): WRONG_NAMES,
    ("size_t", "region_size"): ["0"],
    ("size_t", "path_size"): ["0", "1"],
    ("int", "old_rank"): ["-2", "INT_MIN"],
    ("int", "rank"): ["-1", "1", "INT_MIN", "INT_MAX"],
    ("int", "ranks"): ["0", "-1", "INT_MIN"],
    ("int64_t", "version"): ["-1", "INT64_MIN"],
    ("int64_t", "timeout_ms"): ["-2", "INT64_MIN"],
    "cairn_type": ["(cairn_type)-1", "(cairn_type)18", "(cairn_type)256"],
    "cairn_level": ["(cairn_level)-1", "(cairn_level)1", "(cairn_level)41"],
    "cairn_phase_kind": ["(cairn_phase_kind)-1", "(cairn_phase_kind)3"],
    "MPI_Comm": ["MPI_COMM_NULL"],
    "MPI_Fint": ["MPI_Comm_c2f(MPI_COMM_NULL)"],
}
WRONG_IN = {
    ("cairn_protect", "region"): ['""', "too_long"],
    ("cairn_protect_array", "region"): ['""', "too_long"],
    ("cairn_protect", "count"): ["UINT64_MAX"],
    ("cairn_protect_replicated", "region"): ['""', "too_long"],
    ("cairn_protect_replicated", "array"): ["&array_no_dims", "&array_nine_dims",
                                            "&array_no_type"],
    ("cairn_protect_array", "array"): ["&array_no_dims", "&array_nine_dims", "&array_no_type",
                                       "&array_outside"],
    ("cairn_checkpoint_with", "options"): ["&with_no_level", "&with_flags"],
    # Any bound is valid: a negative one finds no version.
}
# Return values of functions that cannot fail, for an unknown argument.
TEXTS = {
    "cairn_error_name": 'check_text("cairn_error_name", cairn_error_name((cairn_err)12345))',
    "cairn_last_error": 'check_text("cairn_last_error", cairn_last_error())',
    "cairn_version_string": 'check_text("cairn_version_string", cairn_version_string())',
    "cairn_type_size": 'check_zero("cairn_type_size", cairn_type_size((cairn_type)99))',
}
# The words that the last error must contain, if not the name of the argument.
SAYS = {"count": "region", "region_size": "region_size", "path_size": "path"}
FAILURE = {"cairn_err": "CAIRN_EINVAL", "int": "-1"}


def functions(text):
    """(return type, name, [(type, name)]) of every exported function."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for m in re.finditer(r"\bCAIRN_API\s+(?!__)([^;{}]*?)(\w+)\(([^;]*?)\);", text):
        result = m.group(1).replace("CAIRN_CHECKED", "").strip()
        args = []
        for a in m.group(3).split(","):
            a = " ".join(a.split())
            if a != "void":
                t, n = re.fullmatch(r"(.*?)(\w+)", a).groups()
                args.append((t.strip(), n))
        yield result, m.group(2), args


def right(function, arg):
    value = BY_NAME.get(arg) or BY_TYPE.get(arg[0])
    if value is None:
        sys.exit(f"make_calls.py: {function}: no right value for '{arg[0]} {arg[1]}'; add one")
    return value


def wrong_values(function, arg):
    t, name = arg
    if "*" in t and t not in NULL_IS_FINE_FOR_TYPE and (function, name) not in NULL_IS_FINE:
        yield "NULL"
    yield from WRONG_IN.get((function, name), WRONG.get(arg, WRONG.get(t, [])))
    if t in WRONG_STRUCT:
        yield from (f"&{WRONG_STRUCT[t]}[{i}]" for i in range(2))


def main():
    wrong, calls, texts = [], [], []
    body = []

    def thunk(function, args):
        body.append(f"static long call_{len(body)}(void)\n{{\n"
                    f"    return (long){function}({', '.join(args)});\n}}\n")
        return f"call_{len(body) - 1}"

    for path in sys.argv[1:]:
        text = open(path).read()
        found = list(functions(text))
        names = {f[1] for f in found}
        # Check that the pattern above matched every declaration.
        declared = len(re.findall(r"\bCAIRN_API\b(?!\s*__)", re.sub(r"/\*.*?\*/", "", text, flags=re.S)))
        declared -= len(re.findall(r"#define CAIRN_API\b(?!\s*__)", text))
        if declared != len(found):
            sys.exit(f"make_calls.py: {path}: {declared} declarations, {len(found)} understood")
        for result, function, args in found:
            if function in TEXTS:
                texts.append(TEXTS[function])
                continue
            if result not in FAILURE:
                sys.exit(f"make_calls.py: {function} returns '{result}': how does it fail?")
            values = [right(function, a) for a in args]
            n = 0
            for i, a in enumerate(args):
                for w in wrong_values(function, a):
                    name = thunk(function, values[:i] + [w] + values[i + 1:])
                    says = SAYS.get(a[1], a[1])
                    shown = f"{a[1]} = {w}".replace('"', "'")
                    wrong.append(f'    {{"{function}", "{shown}", "{says}", {name}, {FAILURE[result]}}},')
                    n += 1
            if n == 0 and function != "cairn_close":
                sys.exit(f"make_calls.py: {function} has no argument that can be wrong?")
            is_local = int(any(a[1] == "session" for a in args))
            calls.append(f'    {{"{function}", {thunk(function, values)}, {is_local}, '
                         f'{int(result == "int")}}},')
        print(f"/* {len(names)} functions of {path.rsplit('/', 1)[-1]}. */")
    print("\n".join(body))
    print("static const struct wrong_call wrong_calls[] __attribute__((unused)) = {\n" + "\n".join(wrong) + "\n};\n")
    print("static const struct right_call right_calls[] = {\n" + "\n".join(calls) + "\n};\n")
    print("static inline void check_texts(void)\n{\n" + "\n".join(f"    {t};" for t in texts) + "\n}")


main()
