#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Counts instructions and virtual nanoseconds of operations on an exact board, and compares them with recorded ones.

usage: counts.py [--accept] [--json FILE] [OPERATION...]

Prints a table; the last line is "N passed, N failed", and the status 1 where a figure is worse than its tolerance
allows, or is not recorded. --accept records what was measured in expected.json. docs/benchmarks.md says what the
operations are, and how to read the table.
"""
import argparse
import json
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "..", "scripts"))

# pylint: disable=wrong-import-position
import instructions  # noqa: E402
import table  # noqa: E402

EXPECTED = os.path.join(HERE, "expected.json")
BOARD = ["--time", "exact", "--smp", "1", "--timeout", "3000"]


def first_match(pattern, text, what):
    found = re.search(pattern, text, re.MULTILINE)
    if not found:
        raise SystemExit(f"counts.py: cannot tell the version of {what}")
    return found[1]


def tools():
    """What the figures depend on besides the checkout, by name; the kernel comes later."""
    compiler = instructions.run_text("readelf", "-p", ".comment", instructions.PROGRAM)
    qemu = instructions.run_text("env", "LD_LIBRARY_PATH=" + os.path.join(instructions.BUILD, "lib"),
                                 instructions.qemu_script("--print"), "--version")
    with open(os.path.join(instructions.BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
        build = first_match(r"^CMAKE_BUILD_TYPE:\w+=(\w*)", file.read(), "the build")
    package = lambda name: instructions.run_text("dpkg-query", "-W", "-f", "${Version}", name)
    return {"build": build, "compiler": first_match(r"(GCC: .*|clang .*)", compiler, "the compiler").strip(),
            "libc": package("libc6"), "liburing": package("liburing2"),
            "qemu": first_match(r"version (\S+)", qemu, "QEMU")}


def measure(known, names):
    """Results of all, and what they were taken with."""
    wanted = [(name, known[name].times) for name in names]
    now = tools()
    try:
        with tempfile.TemporaryDirectory(prefix="npu-bench.") as scratch:
            results, now["kernel"] = instructions.measure(wanted, BOARD, scratch)
    except instructions.BoardFailed as error:
        raise SystemExit(f"counts.py: {error}") from error
    return results, now


def record(measured, now, whole):
    """Writes expected.json: all rows, or only those that were measured."""
    rows = {}
    if os.path.exists(EXPECTED):
        taken_with, rows = table.load(EXPECTED)
        if not whole and table.strangers(taken_with, now):
            raise SystemExit("counts.py: only some operations, and other tools than those of the others: "
                             + "; ".join(table.strangers(taken_with, now)))
    accepted = table.accept(measured, rows)
    with open(EXPECTED, "w", encoding="utf-8") as file:
        file.write(table.dump(now, accepted if whole else {**rows, **accepted}))
    print(f"recorded in {os.path.relpath(EXPECTED)}: say why in the commit")


def judge(comparisons, other_tools):
    """Prints the verdict; returns the status."""
    if other_tools:
        print(f"The recorded figures were taken with other tools, so {table.TOLERANCE_OF_OTHER_TOOLS:g} % are allowed:")
        print("".join(f"  {line}\n" for line in other_tools) + "make bench-accept records those of these tools.")
    failed = [c for c in comparisons if c.failed]
    for text, verdict in (("worse than their tolerance", "WORSE"), ("not recorded (make bench-accept)", "NEW"),
                          ("recorded, but there is no such operation (make bench-accept)", "GONE"),
                          ("better by more than their tolerance (make bench-accept keeps them so)", "better")):
        names = [c.name for c in comparisons if c.verdict == verdict]
        if names:
            print(f"{text}: {', '.join(names)}")
    print(f"{len(comparisons) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def main():
    known = instructions.workloads()
    parser = argparse.ArgumentParser(prog="counts.py", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accept", action="store_true", help="record what is measured")
    parser.add_argument("--json", metavar="FILE", help="write what is measured there, by function")
    parser.add_argument("operation", nargs="*", help="only these")
    options = parser.parse_args()
    unknown = [name for name in options.operation if name not in known]
    if unknown:
        parser.error(f"{unknown[0]}: no such operation; there are: {' '.join(known)}")
    taken_with, recorded = ({}, {}) if options.accept and not os.path.exists(EXPECTED) else table.load(EXPECTED)
    names = [name for name in known if name in options.operation or not options.operation]
    if options.operation:
        recorded = {name: row for name, row in recorded.items() if name in names}
    results, now = measure(known, names)
    measured = {result["workload"]: {"instructions": result["total"], "ns": result["ns"]} for result in results}
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    other_tools = [] if options.accept else table.strangers(taken_with, now)
    comparisons = table.compare(measured, recorded, table.TOLERANCE_OF_OTHER_TOOLS if other_tools else 0.0)
    peers = {name: known[name].peer for name in names}
    print("\n".join(table.lines(comparisons, peers, measured)))
    if options.accept:
        record(measured, now, not options.operation)
        return 0
    return judge(comparisons, other_tools)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except table.BadRecord as problem:
        sys.exit(f"counts.py: {problem}")
