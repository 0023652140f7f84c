# SPDX-License-Identifier: BSD-3-Clause
"""cairn export NAME@VERSION --to FILE | cairn import FILE --to NAME@VERSION

The program `cairn` starts this as python3 -m cairn."""
import argparse
import os
import sys


def main():
    parser = argparse.ArgumentParser(prog="cairn")
    parser.add_argument("--dir", default=os.environ.get("CAIRN_PERSISTENT"),
                        help="the checkpoints' directory ($CAIRN_PERSISTENT)")
    commands = parser.add_subparsers(dest="command", required=True)
    for command, what in (("export", "NAME@VERSION"), ("import", "FILE")):
        one = commands.add_parser(command)
        one.add_argument("source", metavar=what)
        one.add_argument("--to", required=True, metavar="FILE" if command == "export" else "NAME@VERSION")
        one.add_argument("--prefix", default="", help="of the regions' names, such as 'model.'")
        if command == "export":
            one.add_argument("--rank", type=int, default=0, help="for what is no global array")
    args = parser.parse_args()
    if args.dir is None:
        parser.error("name the checkpoints' directory: --dir or CAIRN_PERSISTENT")
    name, _, version = (args.source if args.command == "export" else args.to).partition("@")
    if not version.isdigit() and (args.command == "import" or version not in ("", "latest")):
        parser.error(f"'{version}' is no version: write NAME@VERSION")
    try:
        from . import files, open_store
        if args.command == "export":
            number = int(version) if version.isdigit() else open_store(args.dir)[name].newest.number
            names = files.export_version(args.dir, name, number, args.to, args.prefix, args.rank)
        else:
            names = files.import_version(args.source, args.dir, name, int(version), args.prefix)
    except Exception as error:
        sys.exit(f"cairn: {error}")
    print(f"{args.to}: {len(names)} regions")


main()
