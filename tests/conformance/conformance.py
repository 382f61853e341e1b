#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Compiles and runs ONNX's own tests (Debian's libonnx-testdata) and prints what became of them.

conformance.py PROGRAM [--suite installed|newest] [--list FILE.tsv] [--all]

PROGRAM is npu_conformance_test. --suite newest takes the newest tests that Debian offers, from the cache
(scripts/onnx-newest.sh fetches them). With --list only the tests named there count: lines with the columns suite and
test. --all prints every test, otherwise those that were refused or wrong, with the reason. Status 0 if nothing is
wrong.
"""

import argparse
import collections
import csv
import os
import subprocess
import sys
import tempfile


TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def newest():
    """What npu_conformance_test is told about the newest tests."""
    env = subprocess.run([os.path.join(TOP, "scripts/onnx-newest.sh")], stdout=subprocess.PIPE, text=True, check=True)
    with open(env.stdout.strip(), encoding="utf-8") as lines:
        values = dict(line.rstrip("\n").split("=", 1) for line in lines)
    print("tests of ONNX " + values["ONNX_VERSION"])
    return {"NPU_CONFORMANCE_DATA": values["ONNX_TESTS"], "NPU_CONFORMANCE_VERSION": values["ONNX_VERSION"]}


def run(program, suite):
    """{(suite, test): (how, right, reason)}"""
    environment = {**os.environ, **(newest() if suite == "newest" else {})}
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report")
        subprocess.run([program], env={**environment, "NPU_CONFORMANCE_REPORT": report}, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)
        results = {}
        with open(report, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, how, right, reason = line.rstrip("\n").split("\t", 3)
                results[tuple(name.split("/", 1))] = (how, bool(right), reason)
        return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--suite", choices=["installed", "newest"], default="installed")
    parser.add_argument("--list", metavar="FILE.tsv")
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    results = run(arguments.program, arguments.suite)
    if arguments.list:
        with open(arguments.list, encoding="utf-8", newline="") as table:
            wanted = [(row["suite"], row["test"]) for row in csv.DictReader(table, delimiter="\t")]
    else:
        wanted = sorted(results)
    counts = collections.Counter()
    wrong = 0
    for name in wanted:
        how, right, reason = results.get(name, ("", True, "not in the package"))
        counts[how or "refused"] += 1
        wrong += bool(how) and not right
        if arguments.all or not how or not right:
            print("%s/%s: %s" % (*name, reason or how + ("" if right else ", WRONG")))
    print()
    for how, count in counts.most_common():
        print("%5d %s" % (count, how))
    print("%5d of %d compiled, %d of them wrong" % (len(wanted) - counts["refused"], len(wanted), wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
