#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`cairn report`: the numbers of the page are those of --json; hostile texts stay texts; a browser finds
nothing to complain about and asks no network."""
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["CAIRN_TEST_BUILD"])
CAIRN = BUILD / "src" / "cli" / "cairn"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Page(html.parser.HTMLParser):
    """Rows of tables, pictures, and everything that would ask for another file."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.bars, self.foreign, self.open = [], 0, [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.rows[-1].append("")
            self.open.append("td")
        if tag == "rect":
            self.bars += 1
        self.foreign += [v for k, v in attrs.items() if k in ("src", "href") or tag in ("script", "img")]

    def handle_endtag(self, tag):
        if tag == "td":
            self.open.pop()

    def handle_data(self, data):
        if self.open:
            self.rows[-1][-1] += data


class Report(unittest.TestCase):
    def setUp(self):
        self.tmp = pathlib.Path(tempfile.mkdtemp(prefix="cairn-report-"))
        self.addCleanup(shutil.rmtree, self.tmp, ignore_errors=True)
        self.store = self.tmp / "store"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("CAIRN_")}
        for version in (1, 2, 30):
            subprocess.run([BUILD / "tests/make_version", self.store, "heat", str(version)], check=True)
        subprocess.run([BUILD / "tests/make_version", self.store, "heat", "31", "partial=1"], check=True)

    def cairn(self, *words, expect=0):
        done = subprocess.run([CAIRN, "--dir", self.store, *words], capture_output=True, text=True,
                              env=self.env)
        self.assertEqual(done.returncode, expect, done)
        return done.stdout

    def test_the_numbers_are_those_of_json(self):
        page = self.tmp / "report.html"
        self.cairn("report", "-o", page)
        text = page.read_text()
        parsed = Page(text)
        self.assertEqual(parsed.foreign, [])
        rows = {int(r[0]): r for r in parsed.rows if len(r) == 10}
        versions = json.loads(self.cairn("ls", "--json"))["versions"]
        self.assertEqual(sorted(rows), [v["version"] for v in versions])
        for v in versions:
            self.assertEqual(rows[v["version"]][1], v["state"])
            self.assertEqual(int(rows[v["version"]][4]), v["ranks"])
            if v["state"] == "ok":
                self.assertIn(f"heat@{v['version']}: {v['bytes']} bytes", text)
        self.assertEqual(parsed.bars, 2 * len(versions))

    def test_hostile_texts_stay_texts(self):
        bad = "<script>alert(1)</script>&\""
        subprocess.run([CAIRN, "--dir", self.store, "--set", f"job={bad}", "report", "-o",
                        self.tmp / "r.html"], check=True, env=self.env, capture_output=True)
        text = (self.tmp / "r.html").read_text()
        self.assertNotIn("<script>", text)
        self.assertIn("&lt;script&gt;", text)
        self.cairn("report", "-o", self.tmp / "none" / "r.html", expect=1)
        self.cairn("report", "-o", self.tmp / "x.html", "nothing", expect=1)
        self.assertEqual(list(self.tmp.glob("x.html*")), [])

    @unittest.skipIf(BROWSER is None, "there is no chromium")
    def test_in_a_browser(self):
        page = self.tmp / "report.html"
        self.cairn("report", "-o", page)
        done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu",
                               "--disable-dev-shm-usage", f"--user-data-dir={self.tmp}/profile",
                               "--enable-logging=stderr", "--dump-dom", f"file://{page}"],
                              capture_output=True, text=True, check=True)
        self.assertNotIn("CONSOLE", done.stderr)
        self.assertEqual(len(re.findall("<rect", done.stdout)), 8)
        self.assertIn("</html>", done.stdout)


if __name__ == "__main__":
    unittest.main()
