#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The operators that docs/reference/compiler.md lists are those that the importer has, no more and no fewer.

usage: operators.py      the last line is "N passed, N failed" (an operator is a test)
"""
import glob
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(*path):
    with open(os.path.join(TOP, *path), encoding="utf-8") as file:
        return file.read()


def listed():
    """(of com.microsoft?, name) of the table of groups."""
    table = re.search(r"^\| group \| operators \|\n.*?\n\n", read("docs", "reference", "compiler.md"), re.M | re.S)[0]
    for row in table.strip().splitlines()[2:]:
        group, names = row.strip("|").split("|")
        for name in re.sub(r"\([^)]*\)", "", names).split(","):
            yield "com.microsoft" in group, name.strip()


def imported():
    """The same of the importer's tables."""
    for path in glob.glob(os.path.join(TOP, "compiler", "import", "*_ops.cpp")):
        for table in re.findall(r"Entry k\w+\[\] = \{(.*?)\};", read(path), re.S):
            for name in re.findall(r'\{"(\w+)",', table):
                yield os.path.basename(path).startswith("microsoft_"), name


def main():
    told, known = set(listed()), set(imported())
    for microsoft, name in sorted(told ^ known):
        where = "docs/reference/compiler.md" if (microsoft, name) in known else "the importer"
        print(f"FAIL {'com.microsoft.' if microsoft else ''}{name}: {where} does not have it")
    wrong = len(told ^ known)
    print(f"{len(told & known)} passed, {wrong} failed")
    return 1 if wrong or not known else 0


if __name__ == "__main__":
    sys.exit(main())
