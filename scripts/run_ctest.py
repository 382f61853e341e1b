#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs ctest and counts the cases inside of its tests: a GoogleTest or cmocka program is one test of ctest, with many
cases.

usage: run_ctest.py BUILD [CTEST-ARGUMENT...]

Each test that failed is named in a line with its log and the command that repeats it. The last line is "N passed, N
failed". A GoogleTest program that ran no case has failed.
"""
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

# The closing lines of both kinds of program; a cmocka program has one for each of its groups.
PASSED = re.compile(r"^\[  PASSED  \] (\d+) tests?(?:\(s\))?\.", re.MULTILINE)
FAILED = re.compile(r"^\[  FAILED  \] (\d+) tests?(?:\(s\))?[,.]", re.MULTILINE)
# A failed case of GoogleTest, or of unittest.
CASES = (re.compile(r"^\[  FAILED  \] ([\w/]+\.[\w/]+)(?:, where| \(\d+ ms\)|$)", re.MULTILINE),
         re.compile(r"^(?:FAIL|ERROR): (\w+) \(", re.MULTILINE))


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


def failures_of(name, output):
    """(case, what `make test T=` repeats it by) of one test of ctest that failed."""
    cases = list(dict.fromkeys(CASES[0].findall(output)))
    if cases:
        return [("%s: %s" % (name, case), case) for case in cases[:4]]
    return [(name, name)]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build = os.path.abspath(sys.argv[1])
    logs = os.path.join(build, "Testing", "failed")
    report = os.path.join(build, "ctest-cases.xml")
    os.makedirs(logs, exist_ok=True)
    if os.path.exists(report):
        os.remove(report)
    status = subprocess.run(["ctest", "--test-dir", build, "--output-on-failure", "-j", str(os.cpu_count()),
                             "--output-junit", report, "--test-output-size-passed", "4096",
                             "--test-output-size-failed", "1048576", "--test-output-truncation", "head",
                             *sys.argv[2:]], check=False).returncode
    passed = failed = 0
    named = []
    if os.path.exists(report):
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            name, output = case.get("name"), case.findtext("system-out") or ""
            p, f = cases_of(name, case.get("status"), output)
            passed, failed = passed + p, failed + f
            if f:
                log = os.path.join(logs, name.replace("/", "_") + ".log")
                with open(log, "w", encoding="utf-8") as file:
                    file.write(output)
                named += [(one.replace(" ", ""), log, again) for one, again in failures_of(name, output)]
    if passed + failed == 0:
        print("no test ran")
    for one, log, again in named:
        print("failed: %s (log %s): make test T='%s'" % (one, log, again))
    print("%d passed, %d failed" % (passed, failed))
    return status or (1 if failed or not passed else 0)


if __name__ == "__main__":
    sys.exit(main())
