#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs ctest and counts the cases inside of its tests: a GoogleTest or cmocka program is one test of ctest, with many
cases.

usage: run_ctest.py BUILD [CTEST-ARGUMENT...]

The last line is "N passed, N failed". A GoogleTest program that ran no case has failed.
"""
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

# How both kinds of program close; the numbers stand there once for each group of a cmocka program.
PASSED = re.compile(r"^\[  PASSED  \] (\d+) tests?(?:\(s\))?\.", re.MULTILINE)
FAILED = re.compile(r"^\[  FAILED  \] (\d+) tests?(?:\(s\))?[,.]", re.MULTILINE)


def cases_of(name, status, output):
    """(passed, failed) of one test of ctest."""
    passed = sum(int(n) for n in PASSED.findall(output))
    failed = sum(int(n) for n in FAILED.findall(output))
    if status == "fail":
        return passed, max(failed, 1)
    if status != "run":
        print("%s was not run" % name)
        return 0, 1
    if "[  PASSED  ]" not in output:
        return 1, 0
    if passed == 0:
        print("%s: no case ran" % name)
        return 0, 1
    return passed, 0


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build = sys.argv[1]
    report = os.path.join(os.path.abspath(build), "ctest-cases.xml")
    if os.path.exists(report):
        os.remove(report)
    status = subprocess.run(["ctest", "--test-dir", build, "--output-on-failure", "-j", str(os.cpu_count()),
                             "--output-junit", report,
                             "--test-output-size-passed", "4096", "--test-output-truncation", "head", *sys.argv[2:]],
                             check=False).returncode
    passed = failed = 0
    if os.path.exists(report):
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            p, f = cases_of(case.get("name"), case.get("status"), case.findtext("system-out") or "")
            passed, failed = passed + p, failed + f
    if passed + failed == 0:
        print("no test ran")
    print("%d passed, %d failed" % (passed, failed))
    return status or (1 if failed or not passed else 0)


if __name__ == "__main__":
    sys.exit(main())
