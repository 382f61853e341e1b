# SPDX-License-Identifier: MIT
"""Reads the kernel's console and notices what a healthy kernel never prints."""

import re

from . import BoardError

# Only what the kernel itself prints counts: it begins with a time stamp.
_STAMP = r"^(?:\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? )"

_SIGNS = (
    r"-+\[ cut here \]-+",
    r"WARNING: ",
    r"BUG\b",
    r"kernel BUG at",
    r"Oops\b",
    r"Kernel panic",
    r"general protection fault",
    r"KASAN:",
    r"UBSAN:",
    r"ODEBUG:",
    r"DMA-API:.*(?:device driver|mapped|leak)",
    r"INFO: task .* blocked for more than",
    r"INFO: (?:possible|trying to register)",
    r"(?:rcu: )?INFO: rcu.*(?:stall|detected)",
    r"watchdog: BUG",
    r"refcount_t: ",
    r"list_(?:add|del) corruption",
    r"Objects remaining",
    r"kmemleak: [1-9]\d* new suspected",
    r"(?:BUG: )?Bad (?:page|rss)",
    r"Voluntary context switch within RCU",
    r"Internal error",
    r"workqueue lockup",
)

# A data race. It stops nothing, and a board that goes on may show more of them. The title of the report has the two
# functions, or the one that saw a value change: a race between functions of the kernel's core names no module.
_RACE = re.compile(_STAMP + r"BUG: KCSAN: ")
_MODULE = re.compile(r" \[\w+\]")
_SPLAT = re.compile(_STAMP + r"(?:.*: )?(?:" + "|".join(_SIGNS) + ")")
# What a healthy kernel says about the processor it booted on.
_HARMLESS = re.compile(_STAMP + r"(?:Spectre|MDS|TAA|MMIO|SRBDS|RETBleed|GDS|x86/)")


class Console:
    """Keeps the console in a file, in `splat` the first line that shows a sick kernel, and in `race` the first report
    of a data race in a module."""

    def __init__(self, path):
        self.path = path
        self.splat = None
        self.race = None
        self._rest = b""
        try:
            self._file = open(path, "wb", buffering=0)
        except OSError as error:
            raise BoardError(f"console {path}: {error.strerror}") from error

    def feed(self, data):
        try:
            left = memoryview(data)
            while left:
                left = left[self._file.write(left):]
        except OSError as error:
            raise BoardError(f"console {self.path}: {error.strerror}") from error
        *lines, self._rest = (self._rest + data).split(b"\n")
        for raw in lines:
            line = raw.decode("utf-8", "replace").rstrip("\r")
            if _RACE.match(line):
                if self.race is None and _MODULE.search(line):
                    self.race = line
                continue
            if not _SPLAT.match(line) or _HARMLESS.match(line):
                continue
            if self.splat is None or self.splat.endswith("[ cut here ]------------"):
                self.splat = line

    def close(self):
        self._file.close()

    def tail(self, count):
        with open(self.path, encoding="utf-8", errors="replace") as file:
            return [line.rstrip() for line in file.readlines()[-count:]]
