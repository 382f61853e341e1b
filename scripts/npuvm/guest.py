# SPDX-License-Identifier: MIT
"""What the guest sees: its initial file system, the folders of the host, and the command to run.

User space is busybox; programs of the build and of the host run from read-only shared folders under the
paths that they have on the host, so that nothing has to be copied, whatever libraries they use. A board with another
processor has a /usr of its own, the system root's.
"""

import hashlib
import os
import shlex
import subprocess
import tempfile

from . import BoardError, boards
from .cpio import Archive
from .kernel import module_content, read_env

INIT = os.path.join(os.path.dirname(__file__), "init.sh")
SHARE = "/mnt/share"
# The command's input, where it is there from the start.
INPUT = "/npu/input"

# What a shell ends with where it finds no such program.
NOT_FOUND = 127

_KEPT_IMAGES = 8
_PASSWD = "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
_GROUP = "root:x:0:\nuser:x:1000:\nrender:x:105:\nnogroup:x:65534:\n"


class Folder:
    """A folder of the host that the guest mounts."""

    def __init__(self, tag, source, target, writable=False):
        self.tag = tag
        self.source = source
        self.target = target
        self.writable = writable


def usr(top, architecture):
    """The folder that is the board's /usr."""
    if architecture.host_usr:
        return "/usr"
    script = os.path.join(top, "scripts", f"sysroot-{architecture.debian}.sh")
    found = subprocess.run([script, "--env"], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise BoardError(f"the {architecture.name} system root is not there; run: make build{architecture.suffix}")
    return os.path.join(read_env(found.stdout.strip())["SYSROOT"], "usr")


def folders(top, build, share, usr_folder):
    """All folders that a board shows, outermost first. What another one shows already is left out."""
    found = [Folder("usr", usr_folder, "/usr")]
    for tag, path in (("checkout", top), ("build", build)):
        inside = any(os.path.commonpath([path, other.source]) == other.source for other in found)
        if not inside and os.path.isdir(path):
            found.append(Folder(tag, path, path))
    if share is not None:
        if not os.path.isdir(share):
            raise BoardError(f"--share {share}: there is no such folder")
        found.append(Folder("share", os.path.abspath(share), SHARE, writable=True))
    return found


def hint(status, command, share):
    """What helps where the board has not found a program; "": nothing to say."""
    if status != NOT_FOUND or share is not None:
        return ""
    return (f"status {NOT_FOUND}: {shlex.quote(command[0])}, or a program that it runs, is not in the board: "
            "--share DIR shows a folder of the host")


def base_image(cache, modules, architecture, usr_folder):
    """The part of the initial file system that depends only on kernel, busybox and init; cached."""
    key = hashlib.sha256(architecture.name.encode())
    busybox = os.path.join(usr_folder, "bin", "busybox")
    for path in [busybox, INIT, __file__, boards.__file__] + modules:
        if not os.path.exists(path):
            raise BoardError(f"{path} is missing; run: make setup")
        state = os.stat(path)
        key.update(f"{path} {state.st_size} {state.st_mtime_ns}\n".encode())
    folder = os.path.join(cache, "initramfs")
    cached = os.path.join(folder, key.hexdigest()[:16] + ".cpio")
    if not os.path.exists(cached):
        os.makedirs(folder, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(_base_archive(modules, architecture, busybox).bytes())
        os.replace(file.name, cached)
        _prune(folder)
    with open(cached, "rb") as file:
        return file.read()


def _prune(folder):
    """Keeps the newest; another board may be removing the same ones."""
    states = sorted((entry.stat().st_mtime, entry.path) for entry in os.scandir(folder))
    for _, path in states[:-_KEPT_IMAGES]:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass


def _read(path):
    with open(path, "rb") as file:
        return file.read()


def _base_archive(modules, architecture, busybox):
    archive = Archive()
    for path in ("proc", "sys", "dev", "tmp", "run", "root", "mnt", "usr", "etc", "var", "lib"):
        archive.add_dir(path)
    archive.add_device("dev/console", 5, 1)
    archive.add_file("bin/busybox", _read(busybox), 0o755)
    archive.add_link("bin/sh", "busybox")
    archive.add_link("bin/bash", "/usr/bin/bash")
    archive.add_file("init", _read(INIT), 0o755)
    archive.add_file("etc/passwd", _PASSWD.encode())
    archive.add_file("etc/group", _GROUP.encode())
    for name in architecture.lib_links:
        archive.add_link(f"lib/{name}", f"/usr/lib/{name}")
    for name in architecture.top_links:
        archive.add_link(name, f"/usr/{name}")
    if architecture.host_usr:
        _add_host_settings(archive)
    for number, path in enumerate(modules):
        name = os.path.basename(path).split(".ko")[0]
        archive.add_file(f"modules/{number:02d}-{name}.ko", module_content(path))
    return archive


def _add_host_settings(archive):
    """What programs in /usr look for outside of it."""
    if os.path.exists("/etc/ld.so.cache"):
        archive.add_file("etc/ld.so.cache", _read("/etc/ld.so.cache"))
    for name in sorted(os.listdir("/etc/alternatives")):
        path = os.path.join("/etc/alternatives", name)
        if os.path.islink(path):
            archive.add_link(path, os.readlink(path))


def call_image(settings, mounts, command, environment, text):
    """The part that differs from call to call."""
    archive = Archive()
    lines = [f"{folder.tag} {'rw' if folder.writable else 'ro'} {folder.target}\n" for folder in mounts]
    archive.add_file("npu/mounts", "".join(lines).encode())
    values = "".join(f"{key}={shlex.quote(str(value))}\n" for key, value in settings.items())
    archive.add_file("npu/settings", values.encode())
    exports = "".join(f"export {key}={shlex.quote(value)}\n" for key, value in environment.items())
    script = f"#!/bin/sh\n{exports}exec {shlex.join(command)}\n"
    archive.add_file("npu/command", script.encode(), 0o755)
    archive.add_file(INPUT, text)
    return archive.bytes()
