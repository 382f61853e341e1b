# SPDX-License-Identifier: MIT
"""Snapshots of exact boards: a header that says whose snapshot it is, and behind it what QEMU saves."""

import hashlib
import json
import os

from . import BoardError
from .guest import SHARE

VERSION = 2
HEADER_BYTES = 1 << 16
# Then a line with the digest of all that follows; a line of JSON, the header proper; at HEADER_BYTES, QEMU's part.
_MAGIC = b"QNPU board\n"

# What belongs to the board; the other options may be different where it is loaded.
_BOARD = ("board", "kernel", "smp", "memory", "cards", "device", "iommu", "no_module", "module_args", "module",
          "node_mode", "kmemleak", "env", "append", "qemu_arg", "control", "machine_port", "sleep",
          "command")
_UNLIMITED = 1 << 50  # bytes a second


OFFSET = ",offset="  # what no path may have in it, since QEMU takes what follows for an option


def uri(path):
    """What QEMU calls its part of the file."""
    return f"file:{path}{OFFSET}{HEADER_BYTES:#x}"


def _digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def identity(binary, model, kernel, driver, mounts):
    """What has to be the same where the snapshot is loaded, by name."""
    found = {"QEMU": _digest(binary), "chip model": _digest(model),
             "kernel": f"{kernel.name} {kernel.version} {_digest(kernel.image)}",
             "driver": _digest(driver) if os.path.exists(driver) else "none"}
    for folder in mounts:
        found[f"folder {folder.target}"] = "yes" if folder.target == SHARE else folder.source
    return found


def _checked(file):
    """Digest of what is in the file from where it stands."""
    found = hashlib.sha256()
    while data := file.read(1 << 20):
        found.update(data)
    return found.hexdigest().encode()


def write(path, options, this, session):
    """Writes the header into the file, of which QEMU has written its part."""
    header = {"version": VERSION, "identity": this, "session": session, "seed": options.seed,
              "options": {name: getattr(options, name) for name in _BOARD}}
    data = json.dumps(header).encode() + b"\n"
    start = len(_MAGIC) + 2 * hashlib.sha256().digest_size + 1
    if start + len(data) > HEADER_BYTES:
        raise BoardError(f"the board cannot be saved: its command and environment have {len(data)} bytes, at most "
                         f"{HEADER_BYTES - start} fit into a snapshot")
    try:
        with open(path, "r+b") as file:
            file.seek(start)
            file.write(data)
            file.seek(start)
            digest = _checked(file)
            file.seek(0)
            file.write(_MAGIC + digest + b"\n")
    except OSError as error:
        raise BoardError(f"the board cannot be saved: {error.strerror}") from error


def read(path):
    """The header."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise BoardError(f"--load {path}: this is no regular file")
        with open(path, "rb") as file:
            return _read(path, file)
    except OSError as error:
        raise BoardError(f"--load {path}: {error.strerror}") from error


def _read(path, file):
    magic, digest = file.readline(len(_MAGIC)), file.readline(HEADER_BYTES).rstrip()
    start = file.tell()
    try:
        if magic != _MAGIC:
            raise ValueError
        header = json.loads(file.readline(HEADER_BYTES))
        version = header["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BoardError(f"--load {path}: this is no snapshot of a board") from None
    if version != VERSION:
        raise BoardError(f"--load {path}: the snapshot has version {version}, this npu-vm reads {VERSION}")
    file.seek(start)
    if _checked(file) != digest:
        raise BoardError(f"--load {path}: the snapshot is damaged: it is not what was saved")
    missing = [name for name in ("identity", "session", "seed", "options") if name not in header] or \
        [name for name in _BOARD if name not in header["options"]]
    if missing:
        raise BoardError(f"--load {path}: the snapshot says nothing of {', '.join(missing)}: another npu-vm wrote it")
    return header


def take_options(path, header, options, given):
    """Makes `options` those of the board that was saved. `given`: the ones that the caller has named."""
    for name in _BOARD:
        saved = header["options"][name]
        if name in given and given[name] != saved:
            raise BoardError(f"--load {path}: the snapshot is of a board with {_shown(name, saved)}, "
                             f"not {_shown(name, given[name])}")
        setattr(options, name, saved)
    if options.seed is None:
        options.seed = header["seed"]


def _shown(name, value):
    if name == "command":
        return "the command " + " ".join(value)
    return f"--{name.replace('_', '-')} {' '.join(value) or 'nothing' if isinstance(value, list) else value}"


def check_identity(path, header, this):
    """Raises BoardError where the snapshot is of something else."""
    saved = header["identity"]
    share = f"folder {SHARE}"
    if share in saved.keys() ^ this.keys():
        raise BoardError(f"--load {path}: the snapshot is of a board with{'out' if share in this else ''} --share")
    for name in sorted(saved.keys() | this.keys()):
        if saved.get(name) != this.get(name):
            raise BoardError(f"--load {path}: the snapshot is of another board: {name} {saved.get(name, 'none')}, "
                             f"here it is {this.get(name, 'none')}")


class Saver:
    """Saves the board when it stops, and ends it. By QEMU's machine protocol."""

    def __init__(self, path):
        self.begun = False
        self.done = False
        self.failure = None
        self._path = path
        self._monitor = None
        self._rest = b""

    def attach(self, monitor):
        """The socket of QEMU's monitor."""
        self._monitor = monitor
        self._say("qmp_capabilities")
        self._say("migrate-set-capabilities", capabilities=[{"capability": "events", "state": True}])
        self._say("migrate-set-parameters", **{"max-bandwidth": _UNLIMITED})
        self._say("query-status")

    def answer(self, data):
        """Bytes from QEMU."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in filter(bytes.strip, lines):
            self._obey(json.loads(line))

    def _say(self, command, **arguments):
        line = {"execute": command, **({"arguments": arguments} if arguments else {})}
        self._monitor.sendall(json.dumps(line).encode() + b"\n")

    def _obey(self, message):
        event = message.get("event")
        result = message.get("return") or {}
        if event == "STOP" or result.get("status") == "paused":
            self._begin()
        elif event == "MIGRATION" and self.begun:  # not the one by which the board was loaded
            self._migrated(message["data"]["status"])
        elif result.get("status") == "failed":
            self._fail(result.get("error-desc", "QEMU does not say why"))
        elif "error" in message:
            self._fail(message["error"]["desc"])

    def _migrated(self, status):
        if status == "completed":
            self.done = True
            self._say("quit")
        elif status == "failed":
            self._say("query-migrate")

    def _begin(self):
        if not self.begun:
            self.begun = True
            self._say("migrate", uri=uri(self._path))

    def _fail(self, why):
        self.failure = why
        self._say("quit")
