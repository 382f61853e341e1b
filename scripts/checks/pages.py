# SPDX-License-Identifier: MIT
"""The table of steps in the documentation, between two marks."""

import os
import re

from checks import table

PAGE = "docs/develop/testing.md"
MARKS = ("<!-- steps: written by scripts/check.py table --write -->\n", "<!-- end of steps -->\n")


def markdown(steps_table):
    """The steps that test something, as a table."""
    lines = ["| step | set | seconds | needs | purpose |", "|---|---|---|---|---|"]
    for step in steps_table.of_sets("check", "full", "nightly"):
        needs = ", ".join(step.needs + step.after) or "nothing"
        lines.append(f"| {step.name} | {step.set} | {step.seconds} | {needs} | {step.purpose} |")
    return "\n".join(lines) + "\n"


def main(steps_table, write):
    """Compares or writes the table; returns the exit status."""
    path = os.path.join(table.TOP, PAGE)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    pattern = re.compile(re.escape(MARKS[0]) + ".*?" + re.escape(MARKS[1]), re.DOTALL)
    if not pattern.search(text):
        print(f"FAIL {PAGE} has no line {MARKS[0].strip()}")
        return 1
    wanted = pattern.sub(lambda _: MARKS[0] + "\n" + markdown(steps_table) + "\n" + MARKS[1], text)
    if write:
        with open(path, "w", encoding="utf-8") as file:
            file.write(wanted)
    elif wanted != text:
        print(f"FAIL {PAGE}: the table of steps is not that of tests/steps.toml: scripts/check.py table --write")
        return 1
    print("1 passed, 0 failed")
    return 0
