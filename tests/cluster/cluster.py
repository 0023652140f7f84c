#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A cluster on one machine. Hosts are namespaces (network, host name, IPC, mount), joined by veth pairs and a
bridge.

usage: cluster.py up HOSTS [COMMAND...]     a cluster, and a command (or a shell) in it; the end of the
                                            command removes the cluster
inside it:
       cluster.py on HOST COMMAND...        runs a command on a host: node1, node2, ...
       cluster.py mpirun NODE1:2,NODE2:2 PROGRAM...   ranks on hosts
       cluster.py cut|mend HOST             unplugs its cable, or plugs it in again
       cluster.py slow HOST RATE            limits its network card (100mbit; 0: no limit)

Each cluster lives in its own namespaces, so two clusters never interfere. When its first process is killed, the
kernel removes everything: processes, interfaces, mounts and files."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import gluster

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = pathlib.Path(os.environ.get("CAIRN_TEST_SOURCE", HERE.parent.parent))
BUILD = pathlib.Path(os.environ.get("CAIRN_TEST_BUILD", SOURCE / "build/dev"))
SKIPPED = 77

# A host: its name, its own memory file system, its loopback; then the process that keeps it.
KEEPER = """
hostname "$1"
mount -t tmpfs -o mode=1777 "$1" /dev/shm
mount --bind "$2" /etc/hosts
ip link set lo up
echo 1000 2>/dev/null >/proc/sys/net/ipv4/tcp_rto_max_ms || true # a repaired cable is noticed soon
echo ready
exec sleep infinity
"""


def call(*command):
    return subprocess.run([str(c) for c in command], check=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True).stdout


def unshare(*options):
    """The command that creates namespaces; an unprivileged user first becomes root in a user namespace."""
    own = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *own, *options]


def why_not():
    """What this machine lacks for a cluster; empty if nothing."""
    text = (BUILD / "CMakeCache.txt").read_text()
    launcher = re.search(r"^MPIEXEC_EXECUTABLE:\w+=(.+)$", text, re.MULTILINE)
    if launcher is None or not re.search(r"(Open MPI|OpenRTE)\) [1-4]\.",
                                         call(launcher[1], "--version")):
        return "the build's MPI is not Open MPI 4, whose launcher the cluster knows"
    for program in ("unshare", "nsenter", "ip", "tc", "mount", "hostname"):
        if shutil.which(program) is None:
            return f"there is no program '{program}'"
    attempt = "ip link add veth0 type veth peer name veth1 && ip link add switch type bridge && " \
              "tc qdisc add dev veth0 root tbf rate 1mbit burst 64k latency 50ms && " \
              f"mount -t tmpfs none {shared_place()}"
    r = subprocess.run(unshare("--net", "--uts", "--ipc", "--mount", "--pid", "--fork",
                               "--mount-proc") + ["bash", "-c", attempt],
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True, check=False)
    return "" if r.returncode == 0 else f"namespaces are not permitted: {r.stdout.strip()}"


def shared_place():
    """A directory to mount the shared file system on, which hides no path that the tests need."""
    for place in ("/mnt", "/srv", "/media", "/opt"):
        if os.path.isdir(place) and not any(str(p).startswith(place + "/")
                                            for p in (SOURCE, BUILD, HERE)):
            return pathlib.Path(place)
    return pathlib.Path("/mnt")


def check():
    """Ends the program as skipped if this machine cannot have a cluster."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    reason = why_not() or ("CAIRN_TEST_GLUSTER" in os.environ and gluster.why_not())
    if reason:
        print("skipped:", reason)
        sys.exit(SKIPPED)


def enter():
    """Restarts this program as a process of a new machine, unless it is one already."""
    if "CAIRN_TEST_CLUSTER" in os.environ:
        return
    check()
    os.environ["CAIRN_TEST_CLUSTER"] = str(shared_place())
    # The shell is the first process: it reaps orphans, and its death ends all processes.
    command = unshare("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
    command += ["bash", "-c", '"$@"; exit $?', "cluster", sys.executable, *sys.argv]
    os.execvp(command[0], command)


# Connects to a port of each host on which nobody listens, until the host refuses: then the host is up.
REACH = """
import socket, sys
for host in sys.argv[1:]:
    while True:
        try:
            socket.create_connection((host, 9), 1).close()
        except ConnectionRefusedError:
            break
        except OSError:
            pass
"""


class Host:
    """One host, as seen from the switch: the other end of its cable has its name."""

    def __init__(self, name, pid):
        self.name = name
        self.pid = pid
        self.spared = set()  # processes that stand for the kernel's part of a file system

    def command(self, *command):
        return ["nsenter", "--target", str(self.pid), "--net", "--uts", "--ipc", "--mount", "--",
                "env", "-C", os.getcwd(), *[str(c) for c in command]]

    def cut(self):
        call("ip", "link", "set", self.name, "down")

    def cut_silently(self):
        """The cable stays plugged in, but its switch drops it: neither side sees a link failure."""
        call("ip", "link", "set", self.name, "nomaster")

    def plug_in(self):
        call("ip", "link", "set", self.name, "master", "switch", "up")

    def mend(self):
        """Reconnects the cable and waits until all other hosts are reachable. A link needs time to come up; an
        earlier connect would fail with "no such host"."""
        self.plug_in()
        call(*self.command(sys.executable, "-c", REACH, *known_hosts().keys() - {self.name}))

    def slow(self, rate):
        """Both directions; rate as tc takes it, None: no limit."""
        for prefix, card in (([], self.name), (self.command(), "eth0")):
            if rate is None:
                call(*prefix, "tc", "qdisc", "del", "dev", card, "root")
            else:
                call(*prefix, "tc", "qdisc", "replace", "dev", card, "root", "tbf", "rate", rate,
                     "burst", "256k", "latency", "50ms")

    def traffic(self):
        """Bytes that the host has sent and received over its cable so far."""
        for line in pathlib.Path("/proc/net/dev").read_text().splitlines():
            card, _, numbers = line.partition(":")
            if card.strip() == self.name:
                fields = [int(n) for n in numbers.split()]
                return fields[0], fields[8]  # what the switch has received, the host has sent
        raise KeyError(self.name)

    def processes(self, program=None):
        """All processes on the host, or those that run one program."""
        net = os.readlink(f"/proc/{self.pid}/ns/net")
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) in {self.pid, *self.spared}:
                continue
            try:
                if os.readlink(entry / "ns/net") == net and \
                        program in (None, pathlib.Path(os.readlink(entry / "exe"))):
                    found.append(int(entry.name))
            except OSError:
                continue  # it has ended
        return found

    def kill_all(self):
        """All processes of the host die at once."""
        while self.processes():
            for pid in self.processes():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.01)

    def power_off(self):
        """The same, and the host loses its memory."""
        self.kill_all()
        call(*self.command("find", "/dev/shm", "-mindepth", "1", "-delete"))


def make_host(shared, name, address):
    keeper = subprocess.Popen(["unshare", "--net", "--uts", "--ipc", "--mount", "bash", "-ec",
                               KEEPER, "host", name, str(shared / "etc-hosts")],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    if keeper.stdout.readline() != "ready\n":
        raise RuntimeError(f"{name} does not start")
    host = Host(name, keeper.pid)
    call("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", keeper.pid)
    call(*host.command("ip", "address", "add", f"{address}/24", "dev", "eth0"))
    call(*host.command("ip", "link", "set", "eth0", "up"))
    host.mend()
    (shared / "hosts" / name).write_text(str(keeper.pid))
    return host


class Cluster:
    """Hosts on a switch, and a file system that all of them see: `shared`. Versions go to `files`, which is the
    same file system, or one that hosts of its own (`servers`) provide."""

    def __init__(self, count):
        self.shared = pathlib.Path(os.environ["CAIRN_TEST_CLUSTER"])
        served = "CAIRN_TEST_GLUSTER" in os.environ
        addresses = {f"node{i}": f"10.0.0.{i}" for i in range(1, count + 1)}
        addresses |= {f"store{i}": f"10.0.0.{100 + i}" for i in range(1, 3) if served}
        call("mount", "-t", "tmpfs", "-o", "mode=0755", "shared", self.shared)
        (self.shared / "hosts").mkdir()
        (self.shared / "etc-hosts").write_text("127.0.0.1 localhost\n" + "".join(
            f"{address} {name}\n" for name, address in addresses.items()))
        call("ip", "link", "set", "lo", "up")
        call("ip", "link", "add", "switch", "type", "bridge")
        call("ip", "link", "set", "switch", "up")
        hosts = [make_host(self.shared, *host) for host in addresses.items()]
        self.hosts, self.servers = hosts[:count], hosts[count:]
        self.files = gluster.mount(self) if served else self.shared

    def seen(self, path):
        """A path of `files`, as the first host sees it."""
        return pathlib.Path(f"/proc/{self.hosts[0].pid}/root{path}") if self.servers else path


def mpirun(first, places, *options):
    """The start of a command: mpirun on a host, for ranks on the hosts of places (node1:2,node2:2). Hosts
    communicate over TCP only; ranks of one host use shared memory."""
    settings = {"plm_rsh_agent": HERE / "rsh", "pml": "ob1", "btl": "tcp,vader,self",
                "btl_tcp_if_include": "eth0", "oob_tcp_if_include": "eth0",
                "orte_tmpdir_base": "/dev/shm"}
    command = [SOURCE / "tools/mpiexec", BUILD, "--host", places, "--map-by", "slot"]
    for key, value in settings.items():
        command += ["--mca", key, value]
    return first.command(*command, *options)


def known_hosts():
    folder = pathlib.Path(os.environ["CAIRN_TEST_CLUSTER"]) / "hosts"
    return {p.name: Host(p.name, int(p.read_text())) for p in folder.iterdir()}


def up(count, *command):
    enter()
    Cluster(int(count))
    return subprocess.call(command or [os.environ.get("SHELL", "bash")])


def inside(action, *rest):
    hosts = known_hosts()
    if action == "on":
        return subprocess.call(hosts[rest[0]].command(*rest[1:]))
    if action == "mpirun":
        first = hosts[rest[0].split(":")[0]]
        return subprocess.call(mpirun(first, *rest))
    if action == "slow":
        hosts[rest[0]].slow(None if rest[1] == "0" else rest[1])
    else:
        {"cut": Host.cut, "mend": Host.mend}[action](hosts[rest[0]])
    return 0


def main():
    args = sys.argv[1:]
    if len(args) >= 2 and args[0] == "up":
        return up(*args[1:])
    if len(args) >= 2 and args[0] in ("on", "mpirun", "cut", "mend", "slow"):
        if "CAIRN_TEST_CLUSTER" not in os.environ:
            print("there is no cluster here: cluster.py up HOSTS first")
            return 2
        return inside(*args)
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main())
