# SPDX-License-Identifier: BSD-3-Clause
"""GlusterFS on a cluster: files are spread over its servers, and each host has a client with its own caches. A
client is a process that stands for a part of the kernel."""
import os
import shutil
import subprocess

PORT = 24007
PING_TIMEOUT = 4  # seconds that a client waits for a server before it gives up

BRICK = """
volume disk
  type storage/posix
  option directory {directory}
end-volume
volume locks
  type features/locks
  subvolumes disk
end-volume
volume brick
  type performance/io-threads
  subvolumes locks
end-volume
volume server
  type protocol/server
  option transport-type tcp
  option transport.socket.listen-port {port}
  option auth.addr.brick.allow *
  subvolumes brick
end-volume
"""

REMOTE = """
volume {name}
  type protocol/client
  option transport-type tcp
  option remote-host {name}
  option remote-port {port}
  option remote-subvolume brick
  option ping-timeout {timeout}
end-volume
"""

CLIENT = """
volume spread
  type cluster/distribute
  subvolumes {names}
end-volume
volume behind
  type performance/write-behind
  subvolumes spread
end-volume
volume cache
  type performance/io-cache
  subvolumes behind
end-volume
volume metadata
  type performance/md-cache
  subvolumes cache
end-volume
"""


def why_not():
    """What this machine lacks for it; empty if nothing."""
    for program in ("glusterfs", "glusterfsd"):
        if shutil.which(program) is None:
            return f"there is no program '{program}' (Debian: glusterfs-server)"
    if os.geteuid() != 0:
        return "GlusterFS needs root"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as e:
        return f"/dev/fuse cannot be used: {e}"
    return ""


def run(host, program, volume, *rest):
    """Starts it on a host, in the background; returns its process once it works."""
    pid_file = volume.with_suffix(f".{host.name}.pid")
    subprocess.run(host.command(program, "-f", volume, "-l", volume.with_suffix(f".{host.name}.log"),
                                "-p", pid_file, *rest), check=True, stdin=subprocess.DEVNULL)
    return int(pid_file.read_text())


def serve(cluster, server):
    """Starts or restarts a server; it answers when this returns."""
    run(server, "glusterfsd", cluster.shared / f"gluster/{server.name}.vol")
    subprocess.run(server.command("bash", "-c", f"until : </dev/tcp/{server.name}/{PORT}; do sleep 0.01; done"),
                   stderr=subprocess.DEVNULL, check=True)


def mount(cluster):
    """Servers on the servers of a cluster, and the file system mounted on all its hosts; returns where."""
    place = cluster.shared / "gluster"
    place.mkdir()
    for server in cluster.servers:
        (place / server.name).mkdir()
        (place / f"{server.name}.vol").write_text(BRICK.format(directory=place / server.name, port=PORT))
        serve(cluster, server)
    client = place / "client.vol"
    names = [server.name for server in cluster.servers]
    client.write_text("".join(REMOTE.format(name=n, port=PORT, timeout=PING_TIMEOUT) for n in names) +
                      CLIENT.format(names=" ".join(names)))
    files = cluster.shared / "files"
    files.mkdir()
    for host in cluster.hosts:
        host.spared.add(run(host, "glusterfs", client, files))
    return files
