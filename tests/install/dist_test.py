#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The files for administrators in dist/, each with the program that reads it, where the machine has it."""
import ast
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request

SOURCE = pathlib.Path(os.environ["CAIRN_TEST_SOURCE"])
BUILD = pathlib.Path(os.environ["CAIRN_TEST_BUILD"])
DIST = SOURCE / "dist"
VERSION = re.search(r'CAIRN_VERSION +"(.*)"', (SOURCE / "include/cairn/cairn.h").read_text())[1]


def needs(program):
    return unittest.skipIf(shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None,
                           f"there is no {program}")


class Dist(unittest.TestCase):
    def setUp(self):
        self.tmp = pathlib.Path(tempfile.mkdtemp(prefix="cairn-dist-"))
        self.addCleanup(shutil.rmtree, self.tmp, ignore_errors=True)

    def run_ok(self, *words, **more):
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True,
                              env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}, **more)
        self.assertEqual(done.returncode, 0, (words, done.stdout, done.stderr))
        return done.stdout + done.stderr

    @needs("systemd-analyze")
    def test_systemd_units(self):
        units = []
        for unit in DIST.glob("*.service"):
            bindir = BUILD / "src" / ("broker" if "broker" in unit.name else "service")
            program = next(BUILD.glob(f"src/*/{unit.name.split('@')[0].split('.')[0]}"), bindir)
            copy = self.tmp / unit.name.replace("@.", "@root.")
            copy.write_text(unit.read_text().replace("@CAIRN_BINDIR@", str(program.parent)))
            if program.is_file():  # the broker is optional
                units.append(copy)
        self.assertTrue(units)
        said = self.run_ok("systemd-analyze", "verify", "--man=no", *units)
        self.assertEqual([line for line in said.splitlines() if str(self.tmp) in line], [])

    @needs("systemd-tmpfiles")
    def test_tmpfiles(self):
        root = self.tmp / "root"
        root.mkdir()
        subprocess.run(["systemd-tmpfiles", "--create", f"--root={root}", DIST / "cairn.tmpfiles"],
                       capture_output=True)
        if os.geteuid() == 0:
            self.assertTrue((root / "var/log/cairn").is_dir())

    @needs("logrotate")
    def test_logrotate(self):
        logs = self.tmp / "log"
        logs.mkdir()
        (logs / "epilog.log").write_text("a line\n")
        rules = self.tmp / "rules"
        rules.write_text((DIST / "cairn.logrotate").read_text().replace("/var/log/cairn", str(logs)))
        rules.chmod(0o644)
        self.run_ok("logrotate", "--force", "--state", self.tmp / "state", rules)
        self.assertEqual([p.name for p in logs.iterdir()], ["epilog.log.1.gz"])

    @needs("lua5.4")
    def test_module_file(self):
        """Lmod's functions, as far as the file uses them, collect what it would set."""
        head = """
            function help(t) end
            function whatis(t) end
            function pathJoin(a, b) return a .. "/" .. b end
            function prepend_path(k, v) print(k .. "=" .. v) end
            function setenv(k, v) print(k .. "=" .. v) end
        """
        (self.tmp / "m.lua").write_text(head + (DIST / "cairn.lua").read_text())
        said = dict(line.split("=", 1) for line in self.run_ok("lua5.4", self.tmp / "m.lua").splitlines())
        self.assertEqual(said["CAIRN_ROOT"], f"/opt/cairn/{VERSION}")
        self.assertEqual(said["PATH"], f"/opt/cairn/{VERSION}/bin")
        self.assertEqual(said["MANPATH"], f"/opt/cairn/{VERSION}/share/man")

    def test_recipes(self):
        """Spack and container builders cannot run here: what they are made of exists."""
        tree = ast.parse((DIST / "spack/package.py").read_text())
        options = "".join(p.read_text() for p in [SOURCE / "CMakeLists.txt", *SOURCE.glob("cmake/*.cmake")])
        constants = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        named = {c for c in constants if c.isupper() and "_" not in c and len(c) > 2}
        self.assertIn("MPI", named)
        for option in named - {"ON", "OFF", "BSD"}:
            self.assertRegex(options, rf"\b{option}\b")
        for line in (DIST / "Containerfile").read_text().splitlines():
            self.assertRegex(line, r"^(#|$|FROM |COPY |WORKDIR |RUN |ENV |CMD |\s+\S)")
        for script in ("prolog", "epilog", "job.sbatch"):
            self.run_ok("bash", "-n", DIST / "slurm" / script)

    @needs("rpmspec")
    def test_rpm_spec(self):
        self.assertIn(f"Version:        {VERSION}\n", (DIST / "cairn.spec").read_text())
        self.assertIn("cairn", self.run_ok("rpmspec", "-q", DIST / "cairn.spec"))


@unittest.skipUnless((BUILD / "src/broker/cairn-broker").exists(), "built without the broker")
class Metrics(unittest.TestCase):
    """Prometheus scrapes where the shipped configuration says; what Grafana draws is there."""

    def setUp(self):
        tmp = tempfile.mkdtemp(prefix="cairn-dist-")
        self.addCleanup(shutil.rmtree, tmp, ignore_errors=True)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        conf = pathlib.Path(tmp) / "broker.conf"
        conf.write_text(f"[broker]\nlisten = unix:{tmp}/socket\nauth = peer\nmetrics = 127.0.0.1:{self.port}\n[token pfs]\n")
        self.broker = subprocess.Popen([BUILD / "src/broker/cairn-broker", "-c", conf], cwd=tmp)
        self.addCleanup(self.broker.wait)
        self.addCleanup(self.broker.terminate)

    def metrics(self):
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
                    return answer.read().decode()
            except OSError:
                self.assertIsNone(self.broker.poll(), "the broker has ended")
                time.sleep(0.05)

    def test_what_is_drawn_exists(self):
        text = self.metrics()
        there = set(re.findall(r"^# TYPE (\w+)", text, re.M))
        drawn = set(re.findall(r"\bcairn_\w+", " ".join(self.expressions())))
        self.assertTrue(drawn)
        self.assertEqual({re.sub(r"_(bucket|sum|count)$", "", d) for d in drawn - there} - there, set())
        port = re.search(r'targets: \["127.0.0.1:(\d+)"\]', (DIST / "prometheus.yml").read_text())[1]
        self.assertIn(f"127.0.0.1:{port}", (DIST / "broker.conf").read_text())

    def expressions(self):
        todo = [json.loads((DIST / "grafana.json").read_text())]
        while todo:
            item = todo.pop()
            if isinstance(item, dict):
                if "expr" in item:
                    yield item["expr"]
                todo += item.values()
            elif isinstance(item, list):
                todo += item


if __name__ == "__main__":
    unittest.main()
