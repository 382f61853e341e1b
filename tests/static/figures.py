#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The README's figures are those of the files that record them.

usage: figures.py      the last line is "N passed, N failed" (a figure is a test)
"""
import glob
import json
import os
import re
import sys
import tomllib

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def path(*parts):
    return os.path.join(TOP, *parts)


def read(*parts):
    with open(path(*parts), encoding="utf-8") as file:
        return file.read()


def recorded():
    """(the figure's text in the README, where N is the number; the number; its source)."""
    source = "tests/bench/expected.json"
    rows = json.loads(read(source))["rows"]
    for text, row in (("N in a batch", "batch"), ("N by io_uring", "uring"), ("N with a wait", "wait")):
        yield text, round(rows[row]["instructions"]), source
    source = "tests/guest/suites.toml"
    yield "N suites", len(tomllib.loads(read(source))["suite"]), source
    cases = sum(read(name).count("KUNIT_CASE") for name in glob.glob(path("kernel", "*_test.c")))
    yield "N KUnit tests", cases, "kernel/*_test.c"


def main():
    readme, passed, failed = read("README.md"), 0, 0
    for text, number, source in recorded():
        found = re.findall(rf"\b{text.replace('N', '([0-9]+)', 1)}\b", readme)
        if found == [str(number)]:
            passed += 1
        else:
            failed += 1
            print(f"FAIL README.md: '{text}' is {' and '.join(found) or 'missing'}, {source} has {number}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
