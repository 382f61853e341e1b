#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Headers that use int8_t to uint64_t include what declares them, by themselves or by headers of this project: those of
newer C++ libraries do not bring it along. The last line is "N passed, N failed"."""

import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# C headers of other projects that declare them by contract belong here, too.
DECLARE = {"cstdint", "stdint.h", "cinttypes", "inttypes.h", "linux/types.h", "npu.h", "bmlib_runtime.h",
           "onnxruntime_cxx_api.h", "onnxruntime_c_api.h"}
# The kernel's and QEMU's headers come with a file that includes these types first.
ELSEWHERE = ("kernel/", "qemu-device/qemu/")


def includes(path):
    """The text of a header and what it includes; None where there is no such file."""
    try:
        with open(os.path.join(TOP, path), encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return None
    return text, re.findall(r'^#include "([^"]+)"', text, re.M), set(re.findall(r"^#include <([^>]+)>", text, re.M))


def declares(path, seen):
    if path in seen:
        return False
    seen.add(path)
    found = includes(path)
    if not found:
        return False
    _, own, system = found
    if system & DECLARE:
        return True
    return any(declares(name, seen) or declares(os.path.join(os.path.dirname(path), name), seen) for name in own)


def main():
    command = ["git", "-C", TOP, "ls-files", "*.h", "*.hpp"]
    listed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    passed, failed = 0, 0
    for path in listed.stdout.split():
        if path.startswith(ELSEWHERE) or not re.search(r"\bu?int(8|16|32|64)_t\b", includes(path)[0]):
            continue
        if declares(path, set()):
            passed += 1
        else:
            failed += 1
            print(f"FAIL {path}: it uses integers of a fixed size; expected: #include <cstdint>")
    print(f"{passed} passed, {failed} failed")
    return failed or not passed


if __name__ == "__main__":
    sys.exit(main())
