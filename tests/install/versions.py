#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""versions.py CHECKOUT: the version stands in CMakeLists.txt; the two histories, CHANGELOG.md and debian/changelog,
begin with it. Prints what does not."""
import re
import sys


def first(path, pattern):
    """The first thing in a file that the pattern's group matches."""
    with open(path, encoding="utf-8") as file:
        found = re.search(pattern, file.read(), re.MULTILINE)
    if not found:
        sys.exit(f"{path}: no version is found")
    return found.group(1)


def main():
    top = sys.argv[1]
    version = first(f"{top}/CMakeLists.txt", r"^project\(qnpu VERSION ([\d.]+) ")
    histories = {"CHANGELOG.md": r"^## (\S+)", "debian/changelog": r"\Aqnpu \(([\d.]+)-\d+\) "}
    wrong = [f"{name} begins with version {found}, and CMakeLists.txt has {version}"
             for name, pattern in histories.items() if (found := first(f"{top}/{name}", pattern)) != version]
    print("\n".join(wrong))
    return 1 if wrong else 0


sys.exit(main())
