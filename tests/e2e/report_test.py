#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`cairn report`: the numbers of the page are those of --json; hostile texts stay texts; a browser reports no
error and sends no request."""
import html.parser
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["CAIRN_TEST_BUILD"])
CAIRN = BUILD / "src" / "cli" / "cairn"
STORE = pathlib.Path(os.environ["CAIRN_TEST_SOURCE"]) / "tests/upgrade/0.1.0/store-nodes"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Page(html.parser.HTMLParser):
    """Rows of tables by the table's id, pictures, and every element that would load another file."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.rows, self.pictures, self.foreign, self.classes = {}, None, [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "table":
            self.rows = self.tables[attrs["id"]] = []
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append(float(attrs["data-value"]) if "data-value" in attrs else "")
        elif tag == "svg":
            self.pictures.append(attrs["aria-label"])
        elif tag == "rect":
            self.classes.append(attrs["class"])
        self.foreign += [v for k, v in attrs.items() if k in ("src", "href") and not v.startswith("#")]
        self.foreign += [tag] if tag in ("script", "img", "link", "iframe") else []

    def handle_data(self, data):
        if self.rows and self.rows[-1] and isinstance(self.rows[-1][-1], str):
            self.rows[-1][-1] += data.strip()


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

    def page(self, store=None, *words):
        file = self.tmp / "report.html"
        self.store = store or self.store
        self.cairn("report", "-o", file, *words)
        return file, Page(file.read_text()), json.loads(self.cairn("report", "--json", *words))

    def check_versions(self, page, name):
        """Each version of a name, as its row says; the newest first."""
        rows = page.tables[f"versions-{name['name']}"][1:]
        self.assertEqual(len(rows), len(name["versions"]))
        for row, v in zip(rows, reversed(name["versions"])):
            self.assertEqual((int(row[0]), row[1].split(",")[0]), (v["version"], v["state"]))
            self.assertEqual((int(row[7]), int(row[8])), (v["ranks"], v["files"]))
            shown = dict(zip(("waited_s", "written_s", "commit_s", "bytes_per_s"), row[3:7]))
            shown.update(zip(("bytes", "stored_bytes", "ratio"), row[9:12]))
            for key, value in shown.items():
                if key in v:
                    self.assertAlmostEqual(value / (v[key] or 1), 1 if v[key] else 0, places=6, msg=key)
                else:
                    self.assertIn(value, ("-", 0))

    def test_the_numbers_are_those_of_json(self):
        _, page, told = self.page()
        self.assertEqual(page.foreign, [])
        (name,) = told["names"]
        self.check_versions(page, name)
        listed = json.loads(self.cairn("ls", "--json"))["versions"]
        for v, other in zip(name["versions"], listed):
            self.assertEqual((v["version"], v["state"], v["bytes"], v["committed_ns"]),
                             (other["version"], other["state"], other["bytes"], other["committed_ns"]))
        self.assertEqual(name["restart_takes"], 30)
        self.assertEqual(json.loads(self.cairn("explain", "--json", "heat"))["taken"], 30)
        self.assertEqual([c for c in page.classes if c in ("s1", "s2")], ["s1", "s2"] * 4)

    def test_stages_and_bandwidth(self):
        """A store that a job wrote: its statistics are on the page."""
        _, page, told = self.page(STORE)
        (name,) = told["names"]
        self.check_versions(page, name)
        self.assertTrue(all(v["written_s"] > 0 and v["bytes_per_s"] > 0 for v in name["versions"]))
        self.assertEqual(len(page.pictures), 5)
        levels = page.tables["levels-heat"][1:]
        self.assertEqual(len(levels), len(name["versions"]))
        for row, v in zip(levels, reversed(name["versions"])):
            for value, key in zip(row[1:], ("copy_s", "all_captured_s", "local_s", "protected_s", "persistent_s")):
                self.assertEqual(value, v.get(key, "-"), key)
            self.assertGreater(v["persistent_s"], 0)
        stats = json.loads(self.cairn("show", "--stats", "--json", f"heat@{name['flush']['version']}"))
        self.assertEqual(name["flush"]["leaders"], stats["leaders"])
        rows = page.tables["leaders-heat"][1:]
        for leader in name["flush"]["leaders"]:
            row = rows.pop(0)
            self.assertEqual((row[0], int(row[1]), row[3]), (leader["file"], leader["node"], leader["bytes"]))
            self.assertAlmostEqual(row[5] / leader["bytes_per_s"], 1, places=6)
            for writer in leader["writers"]:
                row = rows.pop(0)
                self.assertEqual(row[3], writer["local"]["bytes"] + writer["received"]["bytes"])
        self.assertEqual(rows, [])

    def test_failures_and_one_job(self):
        """Version 30 is damaged: what a restart passes over is told, on the page and as JSON."""
        (self.store / "heat" / "30" / "data-0000").write_bytes(b"short")
        file, page, told = self.page()
        (name,) = told["names"]
        self.assertEqual(name["restart_takes"], 2)
        self.assertIn("Not 30: damaged: file data-0000 has 5 bytes", file.read_text())
        self.assertEqual(len(page.tables.get("events-heat", [""])[1:]), len(name["events"]))
        self.assertEqual(self.page(None, "--job", "none")[2]["names"][0]["versions"], [])

    def test_hostile_texts_stay_texts(self):
        bad = "<script>alert(1)</script>&\""
        subprocess.run([CAIRN, "--dir", self.store, "--set", f"job={bad}", "report", "-o",
                        self.tmp / "r.html"], check=True, env=self.env, capture_output=True)
        text = (self.tmp / "r.html").read_text()
        self.assertNotIn("<script>", text)
        self.assertIn("&lt;script&gt;", text)
        self.cairn("report", "-o", self.tmp / "none" / "r.html", expect=1)
        self.cairn("report", "-o", self.tmp / "x.html", "nothing", expect=1)
        self.cairn("report", "--json", "nothing", expect=1)
        self.assertEqual(list(self.tmp.glob("x.html*")), [])

    @unittest.skipIf(BROWSER is None, "there is no chromium")
    def test_in_a_browser(self):
        shutil.copytree(STORE, self.tmp / "copy")
        file, page, _ = self.page(self.tmp / "copy")
        browser = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--disable-quic", "--no-first-run", "--disable-background-networking",
                   "--disable-component-update", "--disable-sync",
                   f"--user-data-dir={self.tmp}/profile", "--enable-logging=stderr"]
        done = subprocess.run([*browser, "--dump-dom", f"file://{file}"], capture_output=True, text=True,
                              check=True)
        self.assertNotIn("CONSOLE", done.stderr)
        seen = Page(done.stdout)
        self.assertEqual((seen.tables, seen.pictures, seen.classes), (page.tables, page.pictures, page.classes))
        for size in ("390,800", "1200,900"):
            picture = self.tmp / f"{size}.png"
            subprocess.run([*browser, f"--window-size={size}", f"--screenshot={picture}", f"file://{file}"],
                           capture_output=True, check=True)
            self.assertGreater(picture.stat().st_size, 5000)


if __name__ == "__main__":
    unittest.main()
