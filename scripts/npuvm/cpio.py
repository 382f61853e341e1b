# SPDX-License-Identifier: MIT
"""Initial file systems: the kernel's "newc" cpio format, written directly.

Archives may be laid one after another, so one that is the same for every board is cached and a small
one with this call's command follows it.
"""

import os
import stat

_MAGIC = "070701"
_TRAILER = "TRAILER!!!"


class Archive:
    """Collects files, directories and links; bytes() gives the finished archive."""

    def __init__(self):
        self._chunks = []
        self._size = 0
        self._known = {""}
        self._inode = 0

    def add_dir(self, path, mode=0o755):
        path = path.strip("/")
        if path in self._known:
            return
        self._known.add(path)
        self._parents(path)
        self._entry(path, stat.S_IFDIR | mode, b"")

    def add_file(self, path, content, mode=0o644):
        path = path.strip("/")
        self._parents(path)
        self._entry(path, stat.S_IFREG | mode, content)

    def add_link(self, path, target):
        path = path.strip("/")
        self._parents(path)
        self._entry(path, stat.S_IFLNK | 0o777, os.fsencode(target))

    def add_device(self, path, major, minor, mode=0o600):
        path = path.strip("/")
        self._parents(path)
        self._entry(path, stat.S_IFCHR | mode, b"", (major, minor))

    def bytes(self):
        self._entry(_TRAILER, 0, b"")
        self._write(b"\0" * (-self._size % 512))
        return b"".join(self._chunks)

    def _parents(self, path):
        parent = os.path.dirname(path)
        if parent not in self._known:
            self.add_dir(parent)

    def _entry(self, path, mode, content, device=(0, 0)):
        name = os.fsencode(path) + b"\0"
        self._inode += 1
        links = 2 if stat.S_ISDIR(mode) else 1
        fields = [self._inode, mode, 0, 0, links, 0, len(content), 0, 0, device[0], device[1], len(name), 0]
        self._write((_MAGIC + "".join(f"{field:08x}" for field in fields)).encode() + name)
        self._write(b"\0" * (-self._size % 4))
        self._write(content)
        self._write(b"\0" * (-self._size % 4))

    def _write(self, data):
        self._chunks.append(data)
        self._size += len(data)
