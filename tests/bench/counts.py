#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Counts instructions and virtual nanoseconds of operations on an exact board, and compares them with recorded ones.

usage: counts.py [--board pc|soc] [--accept] [--json FILE] [OPERATION...]

Prints a table; the last line is "N passed, N failed", and the status 1 where a figure is worse than its tolerance
allows, or is not recorded. --accept records what was measured in expected.json. --board soc counts what caches that
are not coherent cost, on a board without exact time. docs/develop/benchmarks.md says what the operations are, and how
to read the table.
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

# Where they were recorded with another compiler, libc, kernel or QEMU, 50 % are allowed.
OTHER_TOOLS = 50.0
INSTRUCTIONS = table.Figure("instructions", "instructions", 1)


class Board:
    """What operations are counted on. `names`: of them, None for all; `folder`: of its programs, see
    instructions.measure."""

    def __init__(self, options, folder, names, expected, compared):
        self.options = [*options, "--smp", "1", "--timeout", "3000"]
        self.folder = folder
        self.names = names
        self.expected = os.path.join(HERE, expected)
        self.table = compared


# On the second one a tick comes when the host's clock says so.
BOARDS = {
    "pc": Board(["--time", "exact"], "", None, "expected.json",
                table.Table("operation", (INSTRUCTIONS, table.Figure("ns", "virtual ns")), 2.0, "make bench-accept",
                            OTHER_TOOLS)),
    "soc": Board(["--board", "soc"], "arm64",
                 ("clean", "clean-1m", "invalidate", "invalidate-1m", "s2d", "d2s"),
                 "expected-soc.json",
                 table.Table("operation", (INSTRUCTIONS,), 5.0, "make bench-accept", OTHER_TOOLS)),
}


def first_match(pattern, text, what):
    found = re.search(pattern, text, re.MULTILINE)
    if not found:
        raise SystemExit(f"counts.py: cannot tell the version of {what}")
    return found[1]


def tools(board):
    """What the figures depend on besides the checkout, by name; the kernel comes later."""
    compiler = instructions.run_text("readelf", "-p", ".comment", instructions.program_of(board.folder))
    qemu = instructions.run_text("env", "LD_LIBRARY_PATH=" + os.path.join(instructions.BUILD, "lib"),
                                 instructions.qemu_script("--print"), "--version")
    with open(os.path.join(instructions.BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
        build = first_match(r"^CMAKE_BUILD_TYPE:\w+=(\w*)", file.read(), "the build")
    package = lambda name: instructions.run_text("dpkg-query", "-W", "-f", "${Version}", name)
    return {"build": build, "compiler": first_match(r"(GCC: .*|clang .*)", compiler, "the compiler").strip(),
            "libc": package("libc6"), "liburing": package("liburing2"),
            "qemu": first_match(r"version (\S+)", qemu, "QEMU")}


def measure(board, known, names):
    """Results of all, and what they were taken with."""
    wanted = [(name, known[name].times) for name in names]
    now = tools(board)
    try:
        with tempfile.TemporaryDirectory(prefix="npu-bench.") as scratch:
            results, now["kernel"] = instructions.measure(wanted, board.options, scratch, board.folder)
    except instructions.BoardFailed as error:
        raise SystemExit(f"counts.py: {error}") from error
    return results, now


def ratio(name, peers, measured):
    """How many times the instructions of its peer; None without one."""
    peer = measured.get(peers.get(name))
    return measured[name]["instructions"] / peer["instructions"] if peer and name in measured else None


def beside(peers, measured):
    """The table's last column."""
    def text(comparison):
        times = ratio(comparison.name, peers, measured)
        return f"{times:.2f} x {peers[comparison.name]}" if times is not None else ""
    return text


def main():
    known = instructions.workloads()
    parser = argparse.ArgumentParser(prog="counts.py", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--board", choices=list(BOARDS), default="pc", help="what to count on; default: %(default)s")
    parser.add_argument("--accept", action="store_true", help="record what is measured")
    parser.add_argument("--json", metavar="FILE", help="write what is measured there, by function")
    parser.add_argument("operation", nargs="*", help="only these")
    options = parser.parse_args()
    board = BOARDS[options.board]
    of_board = [name for name in known if not board.names or name in board.names]
    unknown = [name for name in options.operation if name not in of_board]
    if unknown:
        parser.error(f"{unknown[0]}: no such operation; there are: {' '.join(of_board)}")
    new = options.accept and not os.path.exists(board.expected)
    taken_with, recorded = ({}, {}) if new else board.table.load(board.expected)
    names = [name for name in of_board if name in options.operation or not options.operation]
    if options.operation:
        recorded = {name: row for name, row in recorded.items() if name in names}
    results, now = measure(board, known, names)
    # Where time is not exact it is not compared.
    measured = {result["workload"]: {"instructions": result["total"], **({} if board.folder else {"ns": result["ns"]})}
                for result in results}
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    other_tools = [] if options.accept else table.strangers(taken_with, now)
    comparisons = board.table.compare(measured, recorded, OTHER_TOOLS if other_tools else 0.0)
    peers = {name: known[name].peer for name in names}
    print("\n".join(board.table.lines(comparisons, "ratio to its peer", beside(peers, measured))))
    if options.accept:
        board.table.record(board.expected, measured, now, not options.operation)
        return 0
    return board.table.judge(comparisons, other_tools)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except table.BadRecord as problem:
        sys.exit(f"counts.py: {problem}")
