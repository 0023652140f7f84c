#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The status page of cairn-broker: what it shows to whom, and how a browser renders it. With CAIRN_TEST_KEEP the
screenshots are kept there."""
import html.parser
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest
import urllib.error
import urllib.request
import zlib

sys.dont_write_bytecode = True
from broker import PATIENCE, Case, wait_for

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
EVIL = "<script>document.title='own'</script>&\"x"


class Page(html.parser.HTMLParser):
    """The text of a page and its elements."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)

    def has(self, word):
        return any(word in t for t in self.texts)

    def count(self, tag):
        return sum(e[0] == tag for e in self.elements)


def colours(png):
    """The colours of a PNG of 8 bits a channel, and how many pixels each has."""
    data, at, packed = png.read_bytes(), 8, b""
    while at < len(data):
        size, kind = int.from_bytes(data[at:at + 4], "big"), data[at + 4:at + 8]
        body = data[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height = (int.from_bytes(body[i:i + 4], "big") for i in (0, 4))
            depth = {2: 3, 6: 4}[body[9]]
        packed += body if kind == b"IDAT" else b""
        at += size + 12
    raw, line, before, found = zlib.decompress(packed), width * depth, bytes(width * depth), {}
    for y in range(height):
        rule, row = raw[y * (line + 1)], bytearray(raw[y * (line + 1) + 1:(y + 1) * (line + 1)])
        for i in range(line if rule else 0):
            a = row[i - depth] if i >= depth else 0
            b, c = before[i], before[i - depth] if i >= depth else 0
            p = a + b - c
            near = min((abs(p - v), k, v) for k, v in enumerate((a, b, c)))[2]
            row[i] = (row[i] + (0, a, b, (a + b) // 2, near)[rule]) & 255
        before = bytes(row)
        for i in range(0, line, depth):
            found[before[i:i + 3]] = found.get(before[i:i + 3], 0) + 1
    return found


class Pages(Case):
    def start(self, **keys):
        server = self.broker(metrics="127.0.0.1:0", history="4s", forecast="0", **keys)
        self.url = f"http://127.0.0.1:{self.port(server, 'metrics')}"
        return server

    def load(self, path="/"):
        with urllib.request.urlopen(self.url + path, timeout=PATIENCE) as got:
            return got.headers, got.read().decode()

    def page(self):
        return Page(self.load()[1])

    def crowd(self):
        first = self.job("first", hang=1, nodes=4, bytes=1 << 20)
        wait_for("first goes", lambda: first.has("go", "granted"))
        for name in ("second", EVIL):
            self.job(name, nodes=2, bytes=1 << 20)
        wait_for("two wait", lambda: self.status()["tokens"][0]["waiting"] == 2)

    def test_totals_have_no_names(self):
        self.start()
        self.crowd()
        headers, text = self.load()
        self.assertEqual(headers["Content-Type"], "text/html; charset=utf-8")
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        page = Page(text)
        self.assertTrue(page.has("scratch") and page.has("delay-cost") and page.has("open"))
        got = dict(re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", text))
        self.assertEqual([got[k] for k in ("have the token", "at most", "wait", "let go")],
                         ["1", "1", "2", "1"])
        shown = text[text.index("</style>"):]
        for name in ("first", "second", "script", self.status()["user"]):
            self.assertNotIn(name, shown)
        self.assertEqual((page.count("svg"), page.count("table"), page.count("script")), (1, 0, 0))

    def test_nothing_from_outside_and_nothing_to_change(self):
        self.start(page="details")
        self.crowd()
        page = self.page()
        for tag, attrs in page.elements:
            self.assertNotIn(tag, ("script", "form", "link", "img", "iframe", "object"))
            self.assertFalse({"src", "href", "action", "onload", "onclick"} & attrs.keys(), (tag, attrs))
        self.assertIn(("meta", {"http-equiv": "refresh", "content": "10"}), page.elements)
        request = urllib.request.Request(self.url + "/", data=b"x=1", method="POST")
        with self.assertRaises(urllib.error.HTTPError):
            urllib.request.urlopen(request, timeout=PATIENCE)

    def test_details(self):
        self.start(page="details", shares="root:3")
        self.crowd()
        page = self.page()
        for word in ("first", "second", EVIL, "others go first", "place 1", "has the token",
                     self.status()["user"], "100.0 %"):  # of what is used: what it holds now
            self.assertTrue(page.has(word), word)
        self.cairn("drain", "scratch")
        self.assertTrue(self.page().has("drained"))

    def test_off(self):
        self.start(page="off")
        with self.assertRaises(urllib.error.HTTPError) as error:
            self.load()
        self.assertEqual(error.exception.code, 404)
        self.assertIn("cairn_broker_holders", self.load("/metrics")[1])

    @unittest.skipUnless(CHROMIUM, "no chromium")
    def test_in_a_browser(self):
        self.start(page="details")
        self.crowd()
        seen = lambda: re.findall(r'<path d="[^"]*V([\d.]+)H', self.load()[1])
        wait_for("the history shows both", lambda: len(seen()) == 2)
        keep = os.environ.get("CAIRN_TEST_KEEP")
        picture = (pathlib.Path(keep) if keep else self.tmp) / "page.png"
        profile = self.tmp / "profile"
        words = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                 "--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run",
                 "--disable-component-update", "--disable-sync", "--disable-quic",
                 f"--user-data-dir={profile}", "--window-size=1000,900"]
        env = {**self.env, "HOME": str(self.tmp)}
        subprocess.run([*words, f"--screenshot={picture}", self.url + "/"], env=env, check=True,
                       timeout=PATIENCE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found = colours(picture)
        self.assertEqual(sum(found.values()), 1000 * 900)
        # Both panels have content: the colours of the style over the card, at 35 %.
        for name, ink in (("use", (0, 0x72, 0xb2)), ("wait", (0xd5, 0x5e, 0))):
            want = [round(0.35 * c + 0.65 * 255) for c in ink]
            n = sum(k for c, k in found.items() if all(abs(a - b) <= 2 for a, b in zip(c, want)))
            self.assertGreater(n, 100, (name, sorted(found.items(), key=lambda f: -f[1])[:8]))
        dom = subprocess.run([*words, "--dump-dom", self.url + "/"], env=env, check=True, timeout=PATIENCE,
                             capture_output=True).stdout.decode()
        self.assertIn("<title>cairn-broker</title>", dom)  # no script from a job's name was executed
        self.assertIn("&lt;script&gt;", dom)


if __name__ == "__main__":
    unittest.main(verbosity=1)
