#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The manual pages are complete and well formed: a page for each command, each function, the configuration
and the error codes."""
import os
import pathlib
import re
import shutil
import subprocess
import unittest

BUILD = pathlib.Path(os.environ["CAIRN_TEST_BUILD"])
SOURCE = pathlib.Path(os.environ["CAIRN_TEST_SOURCE"])
MAN = BUILD / "src" / "cli" / "man"
CAIRN = BUILD / "src" / "cli" / "cairn"


def output(*words):
    return subprocess.run([CAIRN, *words], check=True, capture_output=True, text=True).stdout


class Manual(unittest.TestCase):
    def test_each_command_has_a_page(self):
        for command in output("help", "--complete", "--", "").split():
            page = (MAN / "man1" / f"cairn-{command}.1").read_text()
            self.assertEqual(page, output("help", "--man", command))
            self.assertIn(".SH DESCRIPTION", page)
            self.assertTrue(output("help", command).startswith(f"usage: cairn {command}"))

    def test_each_key_is_explained(self):
        page = (MAN / "man5" / "cairn.5").read_text()
        for line in output("config", "--all").splitlines():
            key = line.split(" =")[0]
            if not line.startswith("["):
                self.assertIn(f"\n.BR {key} ", page)

    def test_each_function_has_a_page(self):
        for symbols in (SOURCE / "src").glob("libcairn*.symbols"):
            if not (BUILD / "src" / f"{symbols.stem}.so").exists():
                continue
            for name in re.findall(r"^(cairn_(?!private)\w+)@@", symbols.read_text(), re.M):
                page = (MAN / "man3" / f"{name}.3").read_text()
                link = re.fullmatch(r"\.so (man3/\w+\.3)\n", page)
                page = (MAN / link[1]).read_text() if link else page
                self.assertRegex(page, rf"\.SH NAME\n(?:\w+, )*{name}(?:, \w+)* \\- \S")
                self.assertRegex(page, rf"\\fB{name}\\fR\(")

    def test_each_function_is_there_in_other_languages(self):
        """What takes a session: in the module for Fortran and in the classes for C++."""
        declared = set(re.findall(r"\b(cairn_\w+)\((?:const )?cairn_session",
                                  (SOURCE / "include/cairn/cairn.h").read_text()))
        self.assertGreater(len(declared), 40)
        fortran = (SOURCE / "bindings/fortran/cairn.f90").read_text()
        self.assertEqual(declared - set(re.findall(r'bind\(C, name="(cairn_\w+)"', fortran)), set())
        # What the interfaces to C are for: a public function that calls each.
        called = set(re.findall(r"\b(c_\w+)\(", fortran.split("\ncontains\n")[1]))
        self.assertEqual({n[6:] for n in declared} - {n[2:] for n in called}, set())
        classes = (SOURCE / "include/cairn/cairn.hpp").read_text()
        self.assertEqual(declared - set(re.findall(r"\b(cairn_\w+)\(s_", classes)), set())

    def test_each_error_has_cause_and_remedy(self):
        codes = re.findall(r'X\((CAIRN_\w+), (-?\d+), "(.*)"\)',
                           (SOURCE / "include/cairn/cairn_errors.h").read_text())
        rows = re.findall(r"^\| `(CAIRN_\w+)` \| (-?\d+) \| (.*?) \| .+? \| .+? \|$",
                          (SOURCE / "docs/errors.md").read_text(), re.M)
        self.assertEqual(rows, codes)
        page = (MAN / "man3" / "cairn_errors.3").read_text()
        for name, *_ in codes:
            self.assertIn(f"\\fB{name}\\fR", page)

    @unittest.skipIf(shutil.which("mandoc") is None, "there is no mandoc")
    def test_the_pages_are_well_formed(self):
        for page in MAN.glob("man*/*"):
            if page.read_text().startswith(".so "):
                continue
            done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True)
            said = [line for line in done.stdout.splitlines() if "missing date" not in line]
            self.assertEqual(said, [])


if __name__ == "__main__":
    unittest.main()
