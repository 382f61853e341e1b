#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""versions.py CHECKOUT: the version stands in CMakeLists.txt; the two histories, CHANGELOG.md and debian/changelog,
begin with it, and the packages for Python and Node.js have it. debian/*.symbols have the nodes of the libraries'
version scripts. Prints what does not."""
import glob
import os
import re
import sys

# The version scripts of libraries that have a package of their own.
MAPS = {"libbmlib0": "libnpu/libbmlib.map", "libbmrt0": "runtime/launch/api/npurt.map", "libnpu1": "libnpu/libnpu.map",
        "libnpumodel1": "qemu-device/model/libnpumodel.map"}
VERSIONS = {
    "CHANGELOG.md": r"^## (\S+)",
    "debian/changelog": r"\Aqnpu \(([\d.]+)-\d+\) ",
    "python/qnpu/__init__.py": r'^__version__ = "(.*)"$',
    "ort/js/package.json": r'^  "version": "(.*)",$',
}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def first(path, pattern):
    """The first thing in a file that the pattern's group matches."""
    found = re.search(pattern, read(path), re.MULTILINE)
    if not found:
        sys.exit(f"{path}: no version is found")
    return found.group(1)


def compare_nodes(top):
    """What is wrong with the symbols files."""
    packages = {os.path.basename(path)[:-len(".symbols")] for path in glob.glob(f"{top}/debian/*.symbols")}
    wrong = [f"debian/{name}.symbols: versions.py does not know the version script of this library"
             for name in sorted(packages - set(MAPS))]
    wrong += [f"debian/{name}.symbols is missing" for name in sorted(set(MAPS) - packages)]
    for name in sorted(packages & set(MAPS)):
        nodes = set(re.findall(r"^(\w[\w.]*) *\{", read(f"{top}/{MAPS[name]}"), re.MULTILINE))
        listed = set(re.findall(r"^ \(symver\)(\S+) ", read(f"{top}/debian/{name}.symbols"), re.MULTILINE))
        if not nodes:
            wrong.append(f"{MAPS[name]}: no node is found")
        wrong += [f"debian/{name}.symbols has no line (symver){node}, which {MAPS[name]} has"
                  for node in sorted(nodes - listed)]
        wrong += [f"debian/{name}.symbols has (symver){node}, which {MAPS[name]} has not"
                  for node in sorted(listed - nodes)]
    return wrong


def main():
    top = sys.argv[1]
    version = first(f"{top}/CMakeLists.txt", r"^project\(qnpu VERSION ([\d.]+) ")
    wrong = [f"{name} has version {found}, and CMakeLists.txt has {version}"
             for name, pattern in VERSIONS.items() if (found := first(f"{top}/{name}", pattern)) != version]
    wrong += compare_nodes(top)
    print("\n".join(wrong))
    return 1 if wrong else 0


sys.exit(main())
