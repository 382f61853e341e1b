#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Compiles networks and compares the modelled cycles with recorded ones.

usage: cycles.py [--accept] [--all] [NETWORK...]

The networks are those of zoo.py, whose weights come from a seed, so a figure changes with the compiler or the chip's
cost alone, and is the same on every host. Some are taken in other ways, too: NAME:cores=2 for two cores, NAME:batch=8
with that batch, NAME:reals=fp16 with results of 16 bits. --all takes the large ones too (vgg19: 575 MB of weights); a
NETWORK is taken whatever its size. Prints a table; the last line is "N passed, N failed", and the status 1 where a
network has more cycles than its tolerance allows, or is not recorded. --accept records all, or the named ones, in
cycles.json.
docs/develop/benchmarks.md says how to read the table.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
import table  # noqa: E402
import zoo  # noqa: E402

BUILD = os.path.realpath(os.environ.get("NPU_BUILD", os.path.join(HERE, "..", "..", "build")))
EXPECTED = os.path.join(HERE, "cycles.json")
FIGURE = lambda name: table.Figure(name, name, limit=False)
TABLE = table.Table("network", (table.Figure("cycles", "cycles"), FIGURE("arithmetic"), FIGURE("memory"),
                                FIGURE("commands"), table.Figure("lmem_kib", "lmem_kib", 1, False)),
                    0.5, "tests/bench/cycles.py --accept")
WAYS = ["resnet50:cores=2", "densenet121:cores=2", "squeezenet:cores=2", "squeezenet:batch=8",
        "mobilenetv2:batch=8:cores=2", "resnet50:reals=fp16", "mobilenetv2:reals=fp16", "transformer512:reals=bf16"]
ROWS = list(zoo.NETWORKS) + WAYS
UNITS = {"B": 1 / 1024, "KiB": 1, "MiB": 1024}


def of_report(text):
    """A row of what npuc prints."""
    def numbers(pattern):
        found = re.search("^" + pattern, text, re.MULTILINE)
        if not found:
            raise SystemExit(f"cycles.py: npuc's report has no line like: {pattern}")
        return found.groups()
    size, unit = numbers(r"local memory +([\d.]+) (B|KiB|MiB) of ")
    (cycles,) = numbers(r"cycles +(\d+) ")
    arithmetic, memory = numbers(r"lower bound +\d+ \(arithmetic (\d+), memory (\d+)")
    return {"cycles": int(cycles), "arithmetic": int(arithmetic), "memory": int(memory),
            "commands": sum(map(int, numbers(r"commands +TIU (\d+), GDMA (\d+)"))),
            "lmem_kib": float(size) * UNITS[unit]}


def measure(name, folder):
    """A row; the files are removed."""
    network, *ways = name.split(":")
    way = dict(way.split("=") for way in ways)
    onnx, output = zoo.write(network, folder, int(way.get("batch", 1))), os.path.join(folder, "out.bmodel")
    done = subprocess.run([os.path.join(BUILD, "bin", "npuc"), onnx, "-o", output, "--cores", way.get("cores", "1"),
                           "--reals", way.get("reals", "fp32")],
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"cycles.py: {name}: npuc ended with status {done.returncode}")
    os.unlink(onnx)
    os.unlink(output)
    return of_report(done.stdout)


def beside(comparison):
    """The table's last column."""
    row = comparison.measured
    if not row:
        return ""
    bound = max(("arithmetic", "memory"), key=row.get)
    return f"{row['cycles'] / row[bound]:5.2f} x {bound:10}  {row['commands']:5} {row['lmem_kib']:9.1f} KiB"


def main():
    parser = argparse.ArgumentParser(prog="cycles.py", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accept", action="store_true", help="record what is measured")
    parser.add_argument("--all", action="store_true", help="the large ones, too")
    parser.add_argument("network", nargs="*", help="only these")
    options = parser.parse_args()
    unknown = [name for name in options.network if name not in ROWS]
    if unknown:
        parser.error(f"{unknown[0]}: no such network; there are: {' '.join(ROWS)}")
    names = options.network or [name for name in ROWS
                                if options.all or options.accept or name not in zoo.LARGE]
    _, recorded = ({}, {}) if options.accept and not os.path.exists(EXPECTED) else TABLE.load(EXPECTED)
    left_out = set(ROWS) - set(names)
    recorded = {name: row for name, row in recorded.items() if name not in left_out}
    with tempfile.TemporaryDirectory(prefix="npu-bench.") as folder:
        measured = {name: measure(name, folder) for name in names}
    comparisons = TABLE.compare(measured, recorded)
    print("\n".join(TABLE.lines(comparisons, "cycles / lower bound, commands, local memory", beside)))
    if options.accept:
        TABLE.record(EXPECTED, measured, {}, not options.network)
        return 0
    return TABLE.judge(comparisons)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except table.BadRecord as problem:
        sys.exit(f"cycles.py: {problem}")
