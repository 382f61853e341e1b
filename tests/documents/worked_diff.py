#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The diffs in docs/develop/add-an-operator.md are those of the files: each one's lines, added and unchanged, stand in
its file as they stand in the page.

usage: worked_diff.py      the last line is "N passed, N failed" (a diff is a test)
"""
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = "docs/develop/add-an-operator.md"


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as file:
        return file.read()


def main():
    passed = failed = 0
    for path, body in re.findall(r"^```diff (\S+)\n(.*?)^```$", read(PAGE), re.M | re.S):
        lines = body.splitlines()
        wrong = [line for line in lines if line[:1] not in ("+", " ")]
        after = "".join(line[1:] + "\n" for line in lines)
        if wrong:
            print(f"FAIL {PAGE}: neither added nor unchanged: {wrong[0]!r}")
        elif "\n" + after not in "\n" + read(path):
            print(f"FAIL {PAGE}: {path} does not have these lines:\n{after}", end="")
        else:
            passed += 1
            continue
        failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
