# SPDX-License-Identifier: MIT
"""Builds, and runs the unit tests of what changed: the labels of ctest whose files changed (tests/steps.toml)."""

import os
import subprocess

from checks import table


def _git(*arguments):
    return subprocess.run(["git", *arguments], cwd=table.TOP, capture_output=True, text=True,
                          check=True).stdout.splitlines()


def changed(since):
    """Files that changed since a commit; by default since the last one, or, where nothing changed, in it."""
    top = _git("rev-parse", "--show-toplevel")[0]
    if os.path.realpath(top) != table.TOP:
        raise table.TableError(f"{table.TOP} is no checkout of git, but part of {top}: what changed is not known")
    if not since:
        since = "HEAD" if _git("status", "--porcelain") else "HEAD~1"
    return _git("diff", "--name-only", since, "--") + _git("ls-files", "--others", "--exclude-standard")


def run_labels(build, labels):
    """The unit tests of these labels; returns ctest's status. No test with any of them is a failure."""
    return subprocess.run(["ctest", "--test-dir", build, "--output-on-failure", "-j", str(os.cpu_count()),
                           "--no-tests=error", "-L", f"^({'|'.join(labels)})$", "-LE", "^full$"],
                          check=False).returncode


def main(steps_table, since):
    files = changed(since)
    labels = [label for label, patterns in steps_table.labels.items() if table.matching(patterns, files)]
    for name in table.matching(steps_table.groups["driver"] + steps_table.groups["device"] + ["tests/guest/**"], files):
        print(f"{name} is tested on the board: make test T=driver, or T=SUITE (tests/guest/check.py --suites)")
        break
    subprocess.run(["make", "-s", "build"], cwd=table.TOP, check=True)
    subprocess.run(["tests/static/all.sh"], cwd=table.TOP, check=True)
    if not labels:
        print("no unit tests for what changed")
        return 0
    print("unit tests of: " + " ".join(labels), flush=True)
    return run_labels(os.environ["NPU_BUILD"], labels)
