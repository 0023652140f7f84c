#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs `cairn` on real files: output, JSON, exit status, and reports of damage."""
import ast
import json
import os
import pathlib
import pty
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["CAIRN_TEST_BUILD"])
SOURCE = pathlib.Path(os.environ["CAIRN_TEST_SOURCE"])
sys.dont_write_bytecode = True
sys.path.append(str(SOURCE / "tests" / "golden"))
from xxh3 import xxh3_64
CAIRN = BUILD / "src" / "cli" / "cairn"
MAKE_VERSION = BUILD / "tests" / "make_version"
HAS_FAULTS = "CAIRN_FAULTS:BOOL=ON" in (BUILD / "CMakeCache.txt").read_text()
ROWS, COLS = 8, 6


class Case(unittest.TestCase):
    def setUp(self):
        self.tmp = pathlib.Path(tempfile.mkdtemp(prefix="cairn-cli-"))
        self.addCleanup(shutil.rmtree, self.tmp, ignore_errors=True)
        self.dir = self.tmp / "store"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("CAIRN_")}

    def make(self, name, version, **keys):
        words = [f"{k}={v}" for k, v in keys.items()]
        subprocess.run([MAKE_VERSION, keys.pop("dir", self.dir), name, str(version), *words],
                       check=True, env=self.env)

    def cairn(self, *words, expect=0, env=None, **options):
        done = subprocess.run([CAIRN, "--dir", self.dir, *map(str, words)], capture_output=True,
                              env={**self.env, **(env or {})}, **options)
        self.assertEqual(done.returncode, expect, (words, done.stdout, done.stderr))
        return done.stdout.decode(), done.stderr.decode()

    def json(self, *words, **options):
        return json.loads(self.cairn(*words, "--json", **options)[0])

    def data_file(self, name, version, number=0):
        return self.dir / name / str(version) / f"data-{number:04}"

    def flip(self, path, offset):
        data = bytearray(path.read_bytes())
        data[offset] ^= 0x40
        path.write_bytes(data)

    def region(self, name, version, region, rank):
        for r in self.json("show", f"{name}@{version}")["regions"]:
            if r["region"] == region and r["rank"] == rank:
                return r
        raise KeyError(region)


def field(seed=1, ranks=4):
    return [float(seed + i) for i in range(ranks * ROWS * COLS)]


class Looking(Case):
    def test_ls(self):
        self.make("heat", 1)
        self.make("heat", 12, ranks=5, files=3)
        self.make("heat", 13, partial=1)
        self.make("ocean", 7)
        out, _ = self.cairn("ls")
        self.assertEqual([line.split()[:2] for line in out.splitlines()[1:]],
                         [["heat", "1"], ["heat", "12"], ["heat", "13"], ["ocean", "7"]])
        got = {(v["name"], v["version"]): v for v in self.json("ls")["versions"]}
        self.assertEqual(got["heat", 12]["ranks"], 5)
        self.assertEqual(got["heat", 12]["files"], 3)
        self.assertEqual(got["heat", 12]["state"], "ok")
        self.assertEqual(got["heat", 13]["state"], "partial")
        self.assertEqual(len(self.json("ls", "heat")["versions"]), 3)
        self.assertEqual(len(self.json("ls", "heat@latest")["versions"]), 1)

    def test_ls_of_what_is_not_there(self):
        _, err = self.cairn("ls", expect=1)
        self.assertIn(str(self.dir), err)
        self.assertIn("--dir", err)
        self.assertEqual(self.json("ls", expect=1)["error"]["code"], "CAIRN_ENOENT")
        self.dir.mkdir()
        self.assertEqual(self.json("ls")["versions"], [])
        _, err = self.cairn("ls", "heat", expect=1)
        self.assertIn("heat", err)
        self.make("heat", 1)
        _, err = self.cairn("ls", "heat@2", expect=1)
        self.assertIn("2", err)

    def test_no_permission(self):
        """As user nobody if we are root: root may read everything."""
        self.make("heat", 1)
        program = self.tmp / "cairn"
        shutil.copy(CAIRN, program)
        self.tmp.chmod(0o755)
        self.dir.chmod(0o000)
        self.addCleanup(self.dir.chmod, 0o700)
        user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        done = subprocess.run([program, "--dir", self.dir, "ls"], capture_output=True, env=self.env,
                              cwd="/", **user)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn(b"Permission denied", done.stderr)
        self.assertIn(str(self.dir).encode(), done.stderr)

    def test_show(self):
        self.make("heat", 3, ranks=4)
        out, _ = self.cairn("show", "heat")
        self.assertIn("32 x 6, global", out)
        got = self.json("show", "heat@3")
        self.assertEqual((got["ranks"], len(got["files"]), len(got["regions"])), (4, 2, 20))
        r = self.region("heat", 3, "field", 2)
        self.assertEqual((r["dims"], r["global_dims"], r["offset"]), ([8, 6], [32, 6], [16, 0]))
        raw = (self.dir / "heat" / "3" / r["file"]).read_bytes()
        self.assertEqual(struct.unpack_from("<d", raw, r["file_offset"])[0], 1 + 2 * ROWS * COLS)
        out, _ = self.cairn("show", "-r", "1", "heat")
        self.assertEqual({line.split()[1] for line in out.splitlines()[5:]}, {"1"})

    def test_usage(self):
        for words in (["nonsense"], ["show"], ["show", "a", "b"], ["ls", "--nonsense"], ["extract"],
                      ["verify", "-j", "x"], ["rm"], ["--dir"], ["sweep", "--min-age", "soon"]):
            done = subprocess.run([CAIRN, "--dir", self.tmp, *words], capture_output=True,
                                  env=self.env)
            self.assertEqual(done.returncode, 2, (words, done))
            self.assertEqual(done.stdout, b"")
        out, _ = self.cairn("--help")
        for command in ("ls", "verify", "doctor"):
            self.assertIn(f"  {command} ", out)
            self.assertIn(f"usage: cairn {command}", self.cairn(command, "--help")[0])
        self.assertRegex(self.cairn("--version")[0], r"^cairn \d+\.\d+\.\d+\ncodecs: raw .*\nHDF5: (yes|no)\n")
        self.assertIn("raw", json.loads(self.cairn("--version", "--json")[0])["codecs"])

    def test_a_full_disk_under_stdout_is_said(self):
        self.make("heat", 1)
        with open("/dev/full", "wb") as full:
            for words in (["ls"], ["ls", "--json"], ["show", "heat"], ["verify"], ["config"]):
                done = subprocess.run([CAIRN, "--dir", self.dir, *words], stdout=full,
                                      stderr=subprocess.PIPE, env=self.env)
                self.assertEqual(done.returncode, 1, (words, done))
                self.assertIn(b"No space left", done.stderr)


class Site(Case):
    """The behaviour that a person at a terminal and a script in the night rely on."""

    def test_help_manual_and_completion_come_from_one_table(self):
        commands = self.cairn("help", "--complete", "--", "")[0].split()
        self.assertIn("halt" if "halt" in commands else "ls", commands)
        for command in commands:
            text = self.cairn("help", command)[0]
            self.assertEqual(text, self.cairn(command, "--help")[0])
            roff = self.cairn("help", "--man", command)[0]
            for option in self.cairn("help", "--complete", "--", command, "--")[0].split():
                self.assertIn(option, text)
                self.assertIn(option.replace("-", "\\-"), roff)
            if shutil.which("man"):
                done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", "-"],
                                      input=roff.encode(), capture_output=True)
                self.assertEqual((done.returncode, done.stderr), (0, b""), command)
        self.cairn("help", "nonsense", expect=2)

    def test_completion_knows_the_store(self):
        self.make("heat", 3)
        self.make("heat", 12)
        self.make("hydro", 1)
        for command, word in (("halt", "undo"), ("broker", "policy"), ("plot", "least-bandwidth"), ("sim", "nodes")):
            proposed = self.cairn("help", "--complete", "--", command, "")[0].split()
            self.assertIn(word, proposed)
            for each in proposed:
                self.assertRegex(self.cairn("help", command)[0], rf"\b{each}\b")
        words = ("help", "--complete", "--", "show", "--dir", self.dir)
        self.assertEqual(self.cairn(*words, "h")[0].split(), ["heat", "hydro"])
        self.assertEqual(self.cairn(*words, "heat@")[0].split(), ["heat@3", "heat@12"])
        self.assertIn("persistent=", self.cairn("help", "--complete", "--", "ls", "--set", "per")[0])
        script = SOURCE / "share" / "completions" / "cairn.bash"
        done = subprocess.run(
            ["bash", "-c", f"source '{script}'; COMP_WORDS=('{CAIRN}' show --dir '{self.dir}' heat@1)"
             "; COMP_CWORD=4; _cairn; echo ${COMPREPLY[@]}"], capture_output=True, check=True)
        self.assertEqual(done.stdout, b"heat@12\n", done.stderr)

    def test_a_closed_pipe_is_silent(self):
        for version in range(40):
            self.make("heat", version, ranks=1, files=1)
        for words in (["ls"], ["ls", "--json"], ["config", "--help-keys"]):
            child = subprocess.Popen([CAIRN, "--dir", self.dir, *words], stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, env=self.env)
            child.stdout.close()
            self.assertEqual(child.stderr.read(), b"", words)
            child.stderr.close()
            self.assertEqual(child.wait(), 0, words)

    def test_foreign_variables_are_said_and_typing_errors_refused(self):
        self.make("heat", 1)
        _, err = self.cairn("ls", env={"CAIRN_VERSION": "0.1.0"})
        self.assertIn("CAIRN_VERSION", err)
        self.cairn("ls", env={"CAIRN_PERSISTANT": "/x"}, expect=1)

    def test_quiet_and_verbose(self):
        """-q leaves results and errors; -v shows what -q and the default hide."""
        self.dir.mkdir()
        foreign = {"CAIRN_VERSION": "0.1.0"}
        out, err = self.cairn("ls", env=foreign)
        self.assertEqual((out, err.count("\n")), ("", 2))
        for words in (["-q", "ls"], ["ls", "--quiet"]):
            self.assertEqual(self.cairn(*words, env=foreign), ("", ""))
        self.assertIn("heat", self.cairn("-q", "ls", "heat@1", expect=1)[1])
        self.assertIn("log_level = error\n", self.cairn("-q", "config", "--all")[0])
        self.assertIn("log_level = info\n", self.cairn("config", "--verbose", "--all")[0])
        # What follows -- is not cairn's.
        out, err = self.cairn("run", "-q", "--no-check", "--no-drain", "--", "echo", "-q", "-v", "--json")
        self.assertEqual((out, err), ("-q -v --json\n", ""))
        self.assertIn("after --", self.cairn("run", "echo", "-v", expect=2)[1])

    def test_show_of_a_rank_that_is_not_there(self):
        self.make("heat", 1, ranks=4)
        _, err = self.cairn("show", "-r", 4, "heat", expect=1)
        self.assertIn("no rank 4", err)
        self.cairn("show", "-r", 3, "heat")

    def test_values(self):
        self.make("heat", 3, ranks=4)
        got = {r["region"]: r for r in self.json("show", "--values", "heat")["regions"]}["field"]
        want = field(1)
        self.assertEqual((got["values"], got["min"], got["max"]), (len(want), min(want), max(want)))
        self.assertAlmostEqual(got["mean"], sum(want) / len(want))
        self.assertEqual(got["histogram"], [len(want) // 16] * 16)
        one = self.json("show", "--values", "-r", 2, "heat", "field")["regions"]
        self.assertEqual([(r["region"], r["min"]) for r in one], [("field", 1 + 2 * ROWS * COLS)])
        self.assertIn("########", self.cairn("show", "--values", "heat", "field")[0])
        self.cairn("show", "--values", "heat", "nonsense", expect=1)

    def test_slices(self):
        self.make("heat", 3, ranks=4)
        want = field(1)
        rows = [want[i:i + COLS] for i in range(0, len(want), COLS)]
        cut = lambda a, b: [x for row in rows[a] for x in row[b]]
        for text, wanted in (("6:18,2:5", cut(slice(6, 18), slice(2, 5))),
                             (":,:", want), ("30:,5", cut(slice(30, 32), slice(5, 6)))):
            out = self.tmp / "slice"
            self.cairn("extract", "heat", "field", "-s", text, "-o", out)
            self.assertEqual(out.read_bytes(), struct.pack(f"<{len(wanted)}d", *wanted), text)
        self.cairn("extract", "heat", "field", "-r", 1, "-s", "2:5,1:3", "-o", out)
        wanted = cut(slice(10, 13), slice(1, 3))
        self.assertEqual(out.read_bytes(), struct.pack("<6d", *wanted))
        for bad in ("5:5,:", "0:33,:", ":", ":,:,:", "a,:", "-1:2,:"):
            self.cairn("extract", "heat", "field", "-s", bad, "-o", out, expect=1)

    def versions(self, name="heat"):
        return [v["version"] for v in self.json("ls", name)["versions"]]

    def test_colours_are_for_terminals(self):
        self.make("heat", 1)
        plain = self.cairn("ls")[0]
        env = {k: v for k, v in self.env.items() if k != "NO_COLOR"}
        for more, coloured in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
            there, here = pty.openpty()
            subprocess.run([CAIRN, "--dir", self.dir, "ls"], stdout=here, check=True,
                           env={**env, "TERM": "xterm", **more})
            os.close(here)
            seen = os.read(there, 65536).decode().replace("\r\n", "\n")
            os.close(there)
            self.assertEqual("\033[32mok\033[0m" in seen, coloured, seen)
            self.assertTrue(coloured or len(seen.split("\n")) == len(plain.split("\n")) and "\033" not in seen, seen)

    def test_rm_of_ranges_and_rules(self):
        for version in range(1, 13):
            self.make("heat", version, ranks=1, files=1)
        self.cairn("pin", "heat@2")
        out, _ = self.cairn("rm", "-n", "--keep", 3, "heat")
        self.assertEqual(out.count("would remove"), 8)
        self.assertEqual(len(self.versions()), 12)
        _, err = self.cairn("rm", "heat@..3")
        self.assertIn("pinned", err)
        self.assertEqual(self.versions(), [2, *range(4, 13)])
        self.assertIn("empty range", self.cairn("rm", "heat@5..4", expect=1)[1])
        self.cairn("rm", "heat@4..5", "heat@7")
        self.assertEqual(self.versions(), [2, 6, *range(8, 13)])
        self.cairn("rm", "--older-than", "1d", "heat")
        self.assertEqual(len(self.versions()), 7)
        self.cairn("rm", "--keep", 2, "--keep-every", 4, "heat")
        self.assertEqual(self.versions(), [2, 8, 11, 12])
        self.cairn("rm", "heat", expect=1)
        self.cairn("rm", "--keep", 0, "heat", expect=1)
        self.cairn("rm", "heat@5..x", expect=1)
        self.assertEqual(self.versions(), [2, 8, 11, 12])


class Damage(Case):
    def setUp(self):
        super().setUp()
        self.make("heat", 1)
        self.make("heat", 2, chunk=64)

    def test_a_flipped_bit_is_named(self):
        r = self.region("heat", 2, "field", 3)
        self.flip(self.dir / "heat" / "2" / r["file"], r["file_offset"] + 100)
        out, _ = self.cairn("verify", expect=1)
        self.assertIn("heat@1: ok", out)
        self.assertIn("heat@2: DAMAGED", out)
        got = self.json("verify", "heat@2", expect=1)["versions"][0]
        self.assertEqual([(b["rank"], b["region"]) for b in got["bad"]], [(3, "field")])
        got = self.json("explain", "heat")
        self.assertEqual(got["taken"], 1)
        self.assertIn("rank 3", got["versions"][0]["why"])
        self.assertEqual(self.json("explain", "--quick", "heat")["taken"], 2)
        self.cairn("extract", "heat@2", "field", "-o", self.tmp / "x.npy", expect=1)
        self.cairn("cp", "heat@2", self.tmp / "copy", expect=1)
        self.assertEqual(self.json("ls", "--dir", self.tmp / "copy")["versions"], [])
        self.assertEqual(sorted(p.name for p in self.tmp.iterdir()), ["copy", "store"])

    def test_every_kind_of_loss(self):
        data = self.data_file("heat", 2)
        manifest = self.dir / "heat" / "2" / "manifest"
        whole = data.read_bytes(), manifest.read_bytes()
        losses = {
            "truncated": lambda: data.write_bytes(whole[0][:-1]),
            "empty": lambda: data.write_bytes(b""),
            "missing": data.unlink,
            "longer": lambda: data.write_bytes(whole[0] + b"x"),
            "index": lambda: self.flip(data, -100),
            "trailer": lambda: self.flip(data, -10),
            "manifest": lambda: self.flip(manifest, 50),
            "manifest cut": lambda: manifest.write_bytes(whole[1][:20]),
            "foreign": lambda: data.write_bytes(self.data_file("heat", 1).read_bytes()),
        }
        for what, lose in losses.items():
            with self.subTest(what):
                lose()
                self.cairn("verify", "heat@2", expect=1)
                self.assertEqual(self.json("explain", "heat")["taken"], 1)
                self.cairn("verify", "heat@1")
                data.write_bytes(whole[0])
                manifest.write_bytes(whole[1])
                self.cairn("verify", "heat@2")

    def test_every_byte_of_the_manifest(self):
        """Never a crash, a hang, or a damaged version that is reported as good."""
        manifest = self.dir / "heat" / "2" / "manifest"
        for offset in range(0, manifest.stat().st_size, 7):
            self.flip(manifest, offset)
            self.cairn("verify", "heat@2", expect=1)
            self.flip(manifest, offset)
        self.cairn("verify", "heat@2")


class Extracting(Case):
    def setUp(self):
        super().setUp()
        self.make("heat", 5)
        self.out = self.tmp / "out"

    def npy(self, path):
        data = path.read_bytes()
        self.assertEqual(data[:8], b"\x93NUMPY\x01\x00")
        length = struct.unpack_from("<H", data, 8)[0]
        self.assertEqual((10 + length) % 64, 0)
        return ast.literal_eval(data[10:10 + length].decode()), data[10 + length:]

    def test_raw_region_of_a_rank(self):
        self.cairn("extract", "heat", "count", "-r", 3, "-o", self.out)
        self.assertEqual(struct.unpack("<4i", self.out.read_bytes()), (300, 301, 302, 303))

    def test_a_global_array_is_put_together(self):
        path = self.tmp / "field.npy"
        got = self.json("extract", "heat@5", "field", "-o", path)
        self.assertEqual((got["global"], got["dims"]), (True, [32, 6]))
        head, data = self.npy(path)
        self.assertEqual(head, {"descr": "<f8", "fortran_order": False, "shape": (32, 6)})
        self.assertEqual(list(struct.unpack("<192d", data)), field())

    def test_a_block_of_it(self):
        path = self.tmp / "field.npy"
        self.cairn("extract", "heat", "field", "-r", 2, "-o", path)
        head, data = self.npy(path)
        self.assertEqual(head["shape"], (8, 6))
        self.assertEqual(list(struct.unpack("<48d", data)), field()[96:144])

    def test_other_types(self):
        path = self.tmp / "w.npy"
        self.cairn("extract", "heat", "wave", "-r", 0, "-o", path)
        self.assertEqual(self.npy(path)[0]["descr"], "<c8")

    def test_a_file_comes_back(self):
        out, _ = self.cairn("extract", "heat", "log.txt", "-r", 1, "-o", "-")
        self.assertEqual(out, "the log of rank 0001")

    def test_a_file_of_any_name(self):
        for name in ("a/b.h5", "../x.npy", "/abs/olute.h5", "field", "with space.npy", "."):
            self.make("any", 1, file=name)
            for suffix in (".h5", ".npy"):
                path = self.tmp / f"got{suffix}"
                self.cairn("extract", "any", name, "--file", "-r", 1, "-o", path)
                self.assertEqual(path.read_text(), "the log of rank 0001", name)
        self.make("any", 1, file="field")
        _, err = self.cairn("extract", "any", "field", "-r", 1, "-o", self.out, expect=1)
        self.assertIn("--region or --file", err)
        self.cairn("extract", "any", "field", "--region", "-r", 1, "-o", self.out)
        self.assertEqual(list(struct.unpack("<48d", self.out.read_bytes())), field()[48:96])
        self.cairn("diff", "any@1", "any@1")

    def test_hdf5(self):
        path = self.tmp / "field.h5"
        if "hdf5_FOUND:INTERNAL=1" not in (BUILD / "CMakeCache.txt").read_text():
            self.cairn("extract", "heat", "field", "-f", "hdf5", "-o", path, expect=2)
            return
        self.cairn("extract", "heat", "field", "-o", path)
        data = path.read_bytes()
        self.assertEqual(data[:8], b"\x89HDF\r\n\x1a\n")
        self.assertIn(struct.pack("<192d", *field()), data)

    def test_refusals(self):
        _, err = self.cairn("extract", "heat", "count", "-o", self.out, expect=1)
        self.assertIn("--rank", err)
        _, err = self.cairn("extract", "heat", "nothing", "-o", self.out, expect=1)
        self.assertIn("nothing", err)
        self.cairn("extract", "heat", "count", "-r", 9, "-o", self.out, expect=1)
        self.cairn("extract", "heat", "count", "-r", 1, "-o", "/nowhere/x", expect=1)
        self.cairn("extract", "heat", "field", "-f", "png", "-o", self.out, expect=2)
        self.assertFalse(self.out.exists())


class Comparing(Case):
    def setUp(self):
        super().setUp()
        self.make("heat", 1)
        self.make("heat", 2, seed=3)

    def regions(self, *words, **options):
        return {r["region"]: r for r in self.json("diff", *words, **options)["regions"]}

    def test_same(self):
        self.make("heat", 1, dir=self.tmp / "other")
        self.cairn("diff", "--other", self.tmp / "other", "heat@1", "heat@1")
        self.assertTrue(self.json("diff", "heat@1", "heat@1")["same"])

    def test_different(self):
        got = self.regions("heat@1", "heat@2", expect=1)
        self.assertEqual(got["field"]["differing"], 192)
        self.assertEqual(got["field"]["first"], "[0, 0]")
        self.assertEqual(got["field"]["max_absolute"], 2)
        self.assertAlmostEqual(got["field"]["max_relative"], 2 / 3)
        self.assertEqual(got["step"]["first"], "rank 0 [0]")
        self.assertTrue(got["wave"]["same"])
        got = self.regions("--absolute", "2", "heat@1", "heat@2")
        self.assertTrue(got["field"]["same"])
        got = self.regions("--relative", "0.02", "heat@1", "heat@2", expect=1)
        self.assertEqual(got["field"]["differing"], 97)  # 2/(x+2) > 2/100

    def test_other_number_of_ranks(self):
        """The global array is the same, however it is split."""
        self.make("coarse", 1, ranks=2, rows=16)
        got = self.regions("heat@1", "coarse@1", expect=1)
        self.assertTrue(got["field"]["same"])
        self.assertIn("rank 2", got["step"]["note"])
        self.make("wide", 1, cols=7)
        self.assertIn("32 x 7", self.regions("heat@1", "wide@1", expect=1)["field"]["note"])


class Changing(Case):
    def setUp(self):
        super().setUp()
        for version in (1, 2, 3):
            self.make("heat", version)

    def versions(self):
        return [v["version"] for v in self.json("ls", "heat")["versions"]]

    def test_rm_and_pin(self):
        self.cairn("pin", "heat@2")
        _, err = self.cairn("rm", "heat@1", "heat@2", expect=1)
        self.assertIn("pinned", err)
        self.assertEqual(self.versions(), [2, 3])
        self.cairn("unpin", "heat@2")
        self.cairn("rm", "heat@2")
        self.assertEqual(self.versions(), [3])
        self.cairn("rm", "heat", expect=1)  # ambiguous
        self.cairn("rm", "heat@9", expect=1)
        self.cairn("pin", "heat@9", expect=1)
        self.assertEqual(self.versions(), [3])

    def test_nothing_replaces_a_pinned_version(self):
        copy = self.tmp / "copy"
        self.cairn("cp", "heat@2", copy)
        self.cairn("pin", "--dir", copy, "heat@2")
        before = {f.name: f.read_bytes() for f in (copy / "heat" / "2").iterdir()}
        self.assertFalse(self.json("cp", "heat@2", copy)["copied"])  # the same capture: fine
        self.cairn("cp", "-f", "heat@2", copy, expect=1)
        self.make("heat", 2, seed=7)
        for words in (["cp", "heat@2", copy], ["cp", "-f", "heat@2", copy]):
            _, err = self.cairn(*words, expect=1)
            self.assertIn("cairn unpin heat@2", err)
        file = self.tmp / "file"
        file.write_bytes(b"new")
        _, err = self.cairn("ingest", "--dir", copy, "-f", "--as", "heat@2", file, expect=1)
        self.assertIn("cairn unpin heat@2", err)
        self.cairn("sweep", "-f", "--dir", copy)
        self.assertEqual({f.name: f.read_bytes() for f in (copy / "heat" / "2").iterdir()}, before)
        self.cairn("unpin", "--dir", copy, "heat@2")
        self.cairn("cp", "-f", "heat@2", copy)

    def test_sweep(self):
        self.make("heat", 9, partial=1)
        foreign = self.dir / "heat" / "notes.txt"
        foreign.write_text("mine")
        out, _ = self.cairn("sweep", "-n", "-f")
        self.assertIn("would remove", out)
        self.assertTrue(self.data_file("heat", 9).exists())
        self.assertEqual(self.json("sweep")["swept"][0]["kept"], 2)  # a drain may complete them
        self.assertEqual(self.json("sweep", "--force")["swept"][0]["files"], 2)
        self.assertFalse((self.dir / "heat" / "9").exists())
        self.assertEqual(foreign.read_text(), "mine")
        self.assertEqual(self.versions(), [1, 2, 3])
        self.cairn("verify")

    def test_cp(self):
        copy = self.tmp / "deep" / "copy"
        self.cairn("cp", "heat@2", copy)
        self.cairn("verify", "--dir", copy)
        self.cairn("diff", "--other", copy, "heat@2", "heat@2")
        self.assertFalse(self.json("cp", "heat@2", copy)["copied"])  # the same capture: fine
        self.make("heat", 2, seed=7)
        self.cairn("cp", "heat@2", copy, expect=1)  # another one
        self.cairn("cp", "-f", "heat@2", copy)
        self.cairn("diff", "--other", copy, "heat@2", "heat@2")
        self.assertEqual(len(list((copy / "heat" / "2").glob("data-*"))), 2)


@unittest.skipUnless(HAS_FAULTS, "needs fault injection")
class Faults(Case):
    """cp, with every k-th file operation failing, torn, or the last one."""

    def copies(self):
        return self.json("ls", "--dir", self.copy)["versions"] if self.copy.exists() else []

    def run_at(self, k, action):
        shutil.rmtree(self.copy, ignore_errors=True)
        done = subprocess.run([CAIRN, "--dir", self.dir, "cp", "heat", self.copy],
                              env={**self.env, "CAIRN_FAULT_FS": f"at={k},action={action},errno=28"},
                              capture_output=True)
        copies = self.copies()
        whole = [v for v in copies if v["state"] == "ok"]
        self.assertEqual([v for v in copies if v["state"] not in ("ok", "partial")], [])
        if done.returncode == 0:
            self.assertEqual(len(whole), 1)
        if whole:
            self.cairn("diff", "--other", self.copy, "heat", "heat")
        return done

    def count(self):
        """File operations of a copy."""
        path = self.tmp / "count"
        self.cairn("cp", "heat", self.copy, env={"CAIRN_FAULT_FS": "at=0,action=kill",
                                                 "CAIRN_FAULT_COUNT": str(path)})
        return int(path.read_text())

    def every(self, action):
        self.make("heat", 1, ranks=2, files=2, rows=4)
        self.copy = self.tmp / "copy"
        failed = 0
        for k in range(1, self.count() + 1):
            done = self.run_at(k, action)
            if done.returncode != 0:
                failed += 1
                self.cairn("cp", "heat", self.copy)  # the next one works
                self.cairn("verify", "--dir", self.copy)
                if action == "fail":
                    self.assertIn(b"cairn: ", done.stderr)
        self.assertGreater(failed, 15)
        self.cairn("verify")

    def test_fail(self):
        self.every("fail")

    def test_kill(self):
        self.every("kill")

    def test_tear(self):
        self.make("heat", 1)
        self.copy = self.tmp / "copy"
        for k in range(1, 12):
            self.run_at(k, "tear")


class Configuration(Case):
    def test_round_trip(self):
        ini = self.tmp / "c.ini"
        ini.write_text("blocks = 9\n[checkpoint heat]\nkeep_last = 3\n")
        out, _ = self.cairn("-C", ini, "config", "--set", "writers=5")
        self.assertIn("blocks = 9\n", out)
        self.assertIn("writers = 5\n", out)
        self.assertIn("[checkpoint heat]\nkeep_last = 3\n", out)
        again = self.tmp / "again.ini"
        again.write_text(out)
        self.assertEqual(self.cairn("--config", again, "config")[0], out)
        self.assertEqual(self.json("config", env={"CAIRN_BLOCKS": "7"})["cairn"]["blocks"], "7")

    def test_errors(self):
        ini = self.tmp / "c.ini"
        ini.write_text("[cairn]\nblok_bytes = 1M\n")
        _, err = self.cairn("-C", ini, "config", expect=1)
        self.assertIn(f"{ini}:2: unknown key 'blok_bytes'; did you mean 'block_bytes'?", err)
        _, err = self.cairn("config", expect=1, env={"CAIRN_WRITER": "3"})
        self.assertIn("did you mean 'writers'?", err)
        self.cairn("-C", self.tmp / "none.ini", "config", expect=1)

    def test_reference(self):
        self.assertEqual(self.cairn("config", "--doc")[0], (SOURCE / "docs/config.md").read_text())
        self.assertEqual(self.cairn("help", "--doc")[0], (SOURCE / "docs/commands.md").read_text())

    def test_doctor(self):
        run = self.tmp / "run"
        self.dir.mkdir()
        got = self.json("doctor", "--set", f"run_dir={run}")
        self.assertNotIn("failure", [c["verdict"] for c in got["checks"]])
        self.assertEqual(list(self.tmp.rglob("*")), [self.dir])  # nothing is left behind
        run.mkdir(mode=0o755)
        got = self.json("doctor", "--set", f"run_dir={run}", expect=1)
        self.assertEqual([c["check"] for c in got["checks"] if c["verdict"] == "failure"],
                         ["run_dir"])
        run.rmdir()
        out, _ = self.cairn("doctor", "--set", f"run_dir={run}", "--set", "persistent=/dev/null/x",
                            expect=1)
        self.assertIn("FAIL  persistent", out)
        # Where not even root may create a directory.
        out, _ = self.cairn("doctor", "--set", f"run_dir={run}", "--set", "persistent=/proc/x/y", expect=1)
        self.assertRegex(out, "FAIL  persistent .*'/proc'")
        missing = self.tmp / "a" / "b"
        out, _ = self.cairn("doctor", "--set", f"run_dir={run}", "--set", f"persistent={missing}")
        self.assertIn("it will be created", out)
        self.assertEqual(list(self.tmp.rglob("*")), [self.dir])


class Journal(Case):
    """Records in the form of docs/format.md, written by hand."""

    def record(self, name, version, kind, text, time_ns=1_700_000_000_000_000_000, job="4711", run="ab" * 16):
        (self.dir / name).mkdir(parents=True, exist_ok=True)
        body = f"{time_ns} {kind} {version} {run} {job} {text}"
        with (self.dir / name / ".journal").open("a") as f:
            f.write(f"{xxh3_64(body.encode()):016x} {body}\n")

    def test_what_failed_is_listed(self):
        self.make("heat", 1)
        out, err = self.cairn("ls", "--failed")
        self.assertEqual((out, err), ("", f"nothing is recorded in '{self.dir}'\n"))
        self.record("heat", 2, "failed", "rank 7 died before it captured its part")
        self.record("heat", 1, "repaired", "data-0000: a chunk is damaged", job="-", run="-")
        self.record("cold", 9, "paused", "it needs 3.0 GiB")  # a name without versions
        out, _ = self.cairn("ls", "--failed")
        lines = [line.split(maxsplit=6) for line in out.splitlines()]
        self.assertEqual(lines[0], ["TIME", "NAME", "VERSION", "JOB", "WHAT", "WHY"])
        self.assertEqual([line[2:] for line in lines[1:]],
                         [["cold", "9", "4711", "paused", "it needs 3.0 GiB"],
                          ["heat", "2", "4711", "failed", "rank 7 died before it captured its part"],
                          ["heat", "1", "-", "repaired", "data-0000: a chunk is damaged"]])
        self.assertEqual(self.cairn("ls", "--failed", "cold", "heat@2")[0].count("\n"), 3)
        events = self.json("ls", "--failed", "heat")["events"]
        self.assertEqual(events[0], {"name": "heat", "version": 2, "kind": "failed", "job": "4711",
                                     "time_ns": 1_700_000_000_000_000_000, "run": "ab" * 16,
                                     "text": "rank 7 died before it captured its part"})
        self.assertEqual([(e["version"], e["job"], e["run"]) for e in events], [(2, "4711", "ab" * 16), (1, "", "")])
        self.cairn("ls", "--failed", "none", expect=1)
        # The versions are listed as before.
        self.assertEqual([v["version"] for v in self.json("ls")["versions"]], [1])

    def test_explain_tells_of_a_version(self):
        self.make("heat", 1)
        self.record("heat", 2, "failed", "rank 7 died")
        self.record("heat", 1, "repaired", "a chunk is damaged")
        out, _ = self.cairn("explain", "heat")
        self.assertIn("heat@1 (", out)
        self.assertIn("heat@2 failed, job 4711: rank 7 died\n", out)
        self.assertIn("heat@1 repaired, job 4711: a chunk is damaged\n", out)
        got = self.json("explain", "heat")
        self.assertEqual((got["taken"], got["repairs"], len(got["events"])), (1, 1, 2))
        out, _ = self.cairn("explain", "heat@1")
        self.assertIn("would be taken", out)
        self.assertIn("repaired", out)
        self.assertNotIn("rank 7", out)
        out, _ = self.cairn("explain", "heat@2", expect=1)
        self.assertIn("heat@2: there is no such version\n", out)
        self.assertIn("rank 7 died", out)
        got = self.json("explain", "heat@2", expect=1)
        self.assertEqual((got["versions"], got["repairs"], got["events"][0]["text"]), ([], 0, "rank 7 died"))
        _, err = self.cairn("explain", "heat@3", expect=1)
        self.assertIn("'heat' has no version 3", err)
        self.assertIn("error", self.json("explain", "heat@3", expect=1))
        # A name without any committed version.
        self.record("cold", 1, "failed", "no room")
        out, _ = self.cairn("explain", "cold", expect=1)
        self.assertIn("cold@1 failed, job 4711: no room\n", out)

    def test_damage_and_other_commands(self):
        self.make("heat", 1)
        for i in range(30):
            self.record("heat", 100 + i, "failed", f"text {i}")
        journal = self.dir / "heat" / ".journal"
        self.flip(journal, 5)
        with journal.open("ab") as f:
            f.write(b"\0\xff torn")
        events = self.json("ls", "--failed")["events"]
        self.assertEqual([e["version"] for e in events], list(range(101, 130)))
        out, _ = self.cairn("explain", "heat")
        self.assertIn("the last 20 of 29", out)
        self.assertNotIn("text 9\n", out)
        self.assertIn("text 10\n", out)
        # No other command complains about it, copies it or removes it.
        self.cairn("verify")
        self.cairn("sweep", "-f", "--min-age", "0")
        self.cairn("cp", "heat@1", self.tmp / "copy")
        self.assertEqual(sorted(p.name for p in (self.tmp / "copy" / "heat").iterdir()), [".writer", "1"])
        self.cairn("rm", "heat@1")
        self.assertEqual(len(self.json("ls", "--failed")["events"]), 29)
        journal.write_bytes(b"\xff" * (2 << 20))  # larger than any journal
        self.assertEqual(self.json("ls", "--failed")["events"], [])


if __name__ == "__main__":
    unittest.main(verbosity=1)
