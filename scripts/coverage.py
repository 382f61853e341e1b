#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Measures which lines, branches and functions of the driver the suites execute.

usage: coverage.py [RUN...]
  RUN        runs of tests/guest/check.py on boards with `--kernel gcov` (default: coverage)
  --report   boots nothing: reports the counters of the last runs

Writes build/coverage: index.html with each line, coverage.txt with the table and the functions that nothing reached,
coverage.json for other programs. Counters of several runs, also of several architectures, are added. They lie in
build/coverage/counters until the next run of the same name, and belong to the driver that was built for it: after a
change of the driver all runs that are reported must be repeated. KUnit tests in the driver run, and are not counted.

Status: 0 where all tests passed."""

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

from npuvm import boards  # pylint: disable=wrong-import-position  # noqa: E402

TOP = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
BUILD = os.path.realpath(os.environ.get("NPU_BUILD", os.path.join(TOP, "build")))
OUTPUT = os.path.join(BUILD, "coverage")
COUNTERS = os.path.join(OUTPUT, "counters")  # ARCHITECTURE/RUN-BOOT/*.gcda, written by tests/guest/check.py
CHECK = os.path.join(TOP, "tests", "guest", "check.py")
# Sources that count, by their names: neither KUnit tests nor functions that the macros of trace events make.
SOURCES, OTHERS = re.compile(r"qnpu_\w+\.[ch]"), re.compile(r"qnpu_\w+_test\.c|qnpu_trace\.h")


def gcovr(*words):
    subprocess.run(["gcovr", "--root", TOP, *words], check=True, cwd=TOP)


def counts(name):
    return SOURCES.fullmatch(name) and not OTHERS.fullmatch(name) and os.path.exists(os.path.join(TOP, "kernel", name))


def read_boot(folder, objects, path):
    """Writes what gcov says of a boot's counters."""
    with tempfile.TemporaryDirectory(prefix="npu-coverage.") as work:
        for notes in glob.glob(os.path.join(objects, "*.gcno")):
            os.symlink(notes, os.path.join(work, os.path.basename(notes)))
        for counters in glob.glob(os.path.join(folder, "*.gcda")):
            shutil.copy(counters, work)
            if not os.path.exists(os.path.join(work, os.path.basename(counters)[:-len("da")] + "no")):
                sys.exit(f"coverage.py: {counters} does not belong to the driver in {objects}; run the suites again")
        # The driver is compiled in a folder of links to its sources, one for each architecture.
        gcovr("--filter", os.path.join(TOP, "kernel", ".*"), "--json", path, work)
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    found["files"] = [{**file, "file": "kernel/" + os.path.basename(file["file"])} for file in found["files"]
                      if counts(os.path.basename(file["file"]))]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(found, file)


def merge():
    """Adds the counters of all boots; returns the files of gcovr's report."""
    names = {architecture.name: "gcov" + architecture.suffix for architecture in (boards.X86_64, boards.ARM64)}
    merged = os.path.join(OUTPUT, "coverage.json")
    with tempfile.TemporaryDirectory(prefix="npu-coverage.") as work:
        found = []
        for folder in sorted(glob.glob(os.path.join(COUNTERS, "*", "*"))):
            objects = os.path.join(BUILD, "kernel", names[os.path.basename(os.path.dirname(folder))], "kernel")
            found += ["--add-tracefile", os.path.join(work, f"{len(found)}.json")]
            read_boot(folder, objects, found[-1])
        if not found:
            sys.exit(f"coverage.py: there are no counters in {COUNTERS}; the suites did not end on any board")
        gcovr(*found, "--json", merged)
    gcovr("--add-tracefile", merged, "--html-details", os.path.join(OUTPUT, "index.html"),
          "--html-title", "Coverage of qnpu.ko")
    with open(merged, encoding="utf-8") as file:
        return json.load(file)["files"]


class Sum:
    """Reached and all lines, branches and functions of a file or of several."""

    def __init__(self):
        self.lines, self.branches, self.functions = [0, 0], [0, 0], [0, 0]

    def add(self, other):
        for mine, more in zip(self.counts(), other.counts()):
            mine[0] += more[0]
            mine[1] += more[1]

    def counts(self):
        return self.lines, self.branches, self.functions

    def row(self, name):
        cells = [f"{hit} of {total} ({hit / total:.1%})" if total else "none" for hit, total in self.counts()]
        return f"| {' | '.join([name, *cells])} |"


def sum_of(file):
    lines = [line for line in file["lines"] if not line["gcovr/noncode"]]
    branches = [branch["count"] for line in lines for branch in line["branches"]]
    functions = [function["execution_count"] for function in file["functions"]]
    found = Sum()
    for counts, values in zip(found.counts(), ([line["count"] for line in lines], branches, functions)):
        counts[:] = sum(map(bool, values)), len(values)
    return found


def unreached(file):
    """Functions that nothing called, each with its line."""
    return [f"{file['file']}:{function['lineno']}: {function['name']}"
            for function in sorted(file["functions"], key=lambda one: one["lineno"])
            if not function["execution_count"]]


def report(files):
    """The text: a table in Markdown, and functions."""
    rows, total, missed = [], Sum(), []
    for file in sorted(files, key=lambda one: one["file"]):
        one = sum_of(file)
        if one.lines[1]:
            rows.append(one.row(os.path.basename(file["file"])))
            total.add(one)
        missed += unreached(file)
    return "\n".join(["| file | lines | branches | functions |", "|---|---|---|---|", *rows, total.row("all"), "",
                      f"functions that nothing reached: {len(missed)}", *missed, ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False, usage=argparse.SUPPRESS)
    parser.add_argument("run", nargs="*", metavar="RUN")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    if not shutil.which("gcovr"):
        sys.exit("coverage.py: gcovr is not installed; run: make setup SET=full")
    status = 0
    if not options.report:
        for run in options.run or ["coverage"]:
            for old in glob.glob(os.path.join(COUNTERS, "*", f"{run}-[0-9]*")):
                shutil.rmtree(old)
            status |= subprocess.run([CHECK, run], check=False).returncode
    text = report(merge())
    with open(os.path.join(OUTPUT, "coverage.txt"), "w", encoding="utf-8") as file:
        file.write(text)
    print(text, end="")
    print(f"[coverage] {os.path.join(OUTPUT, 'index.html')} shows each line")
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"coverage.py: {error}")
