#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Every file has its SPDX line, with the licence of its folder; no file names a path of a developer's machine.

usage: spdx.py   the last line is "N passed, N failed" (a file is a test)
"""
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Formats without comments, texts of licences, and inputs of fuzzers.
EXEMPT = re.compile(r"LICENSES/|.*\.(onnx|bin|dat)$|\.gitignore$|.*/corpus/|debian/(changelog|source/format)$")
LICENCES = [(r"(kernel|tests/races/driver)/", "GPL-2.0-only"), (r"qemu-device/qemu/", "GPL-2.0-or-later"), ("", "MIT")]
DEVELOPERS = re.compile(r"/(root|home|work)/[a-z]")


def mistakes(name):
    """The mistakes of a file, as texts."""
    with open(os.path.join(TOP, name), encoding="utf-8", errors="replace") as file:
        text = file.read()
    head = "\n".join(text.split("\n", 5)[:5])
    licence = next(value for pattern, value in LICENCES if re.match(pattern, name))
    if not re.search(rf"SPDX-License-Identifier: {licence}( |$)|\"spdx\": \"{licence}\"", head, re.MULTILINE):
        yield f"{name}: no SPDX line for {licence}"
    if name != "tests/static/spdx.py":
        for number, line in enumerate(text.split("\n"), 1):
            if DEVELOPERS.search(line):
                yield f"{name}:{number}: a path of a developer's machine: {line.strip()[:80]}"


def main():
    listed = subprocess.run(["git", "ls-files"], cwd=TOP, capture_output=True, text=True, check=False)
    names = [name for name in listed.stdout.split("\n") if name and os.path.exists(os.path.join(TOP, name))]
    if listed.returncode or not names:
        sys.exit("FAIL: git does not list the files of this checkout")
    passed = failed = 0
    for name in names:
        if EXEMPT.match(name):
            continue
        found = list(mistakes(name))
        for one in found:
            print("FAIL " + one)
        passed, failed = passed + (not found), failed + bool(found)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
