# SPDX-License-Identifier: MIT
"""Snapshots of exact boards: a header that says whose snapshot it is, and behind it what QEMU saves."""

import hashlib
import json
import os

from . import BoardError
from .guest import SHARE

VERSION = 1
HEADER_BYTES = 1 << 16
_MAGIC = b"QNPU board\n"

# What belongs to the board; the other options may be different where it is loaded.
_BOARD = ("board", "kernel", "smp", "memory", "cards", "device", "iommu", "no_module", "module_args", "module",
          "node_mode", "kmemleak", "env", "append", "qemu_arg", "control", "machine_port", "sleep",
          "command")
_UNLIMITED = 1 << 50  # bytes a second


def uri(path):
    """What QEMU calls its part of the file."""
    return f"file:{path},offset={HEADER_BYTES:#x}"


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


def write(path, unfinished, options, this, session, report):
    """Writes the header into `unfinished`, which QEMU has written, and gives the file its name."""
    counts = dict(line.split() for line in open(report, encoding="ascii"))
    header = {"version": VERSION, "identity": this, "session": session, "seed": options.seed,
              "counts": {name: int(value) for name, value in counts.items()},
              "options": {name: getattr(options, name) for name in _BOARD}}
    data = _MAGIC + json.dumps(header).encode() + b"\n"
    if len(data) > HEADER_BYTES:
        raise BoardError(f"the board cannot be saved: its command and environment have {len(data)} bytes, at most "
                         f"{HEADER_BYTES} fit into a snapshot")
    with open(unfinished, "r+b") as file:
        file.write(data)
    os.replace(unfinished, path)


def read(path):
    """The header."""
    try:
        with open(path, "rb") as file:
            data = file.read(HEADER_BYTES)
    except OSError as error:
        raise BoardError(f"--load {path}: {error.strerror}") from error
    text, end, _ = data.removeprefix(_MAGIC).partition(b"\n")
    try:
        if not data.startswith(_MAGIC) or not end:
            raise ValueError
        header = json.loads(text)
        header["version"]  # pylint: disable=pointless-statement
    except (ValueError, KeyError, TypeError):
        raise BoardError(f"--load {path}: this is no snapshot of a board") from None
    if header["version"] != VERSION:
        raise BoardError(f"--load {path}: the snapshot has version {header['version']}, this npu-vm reads {VERSION}")
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
        elif event == "MIGRATION" and message["data"]["status"] == "completed":
            self.done = True
            self._say("quit")
        elif event == "MIGRATION" and message["data"]["status"] == "failed":
            self._say("query-migrate")
        elif result.get("status") == "failed":
            self._fail(result.get("error-desc", "QEMU does not say why"))
        elif "error" in message:
            self._fail(message["error"]["desc"])

    def _begin(self):
        if not self.begun:
            self.begun = True
            self._say("migrate", uri=uri(self._path))

    def _fail(self, why):
        self.failure = why
        self._say("quit")
