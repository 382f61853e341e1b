# SPDX-License-Identifier: MIT
"""Boots a board with a plan, and reads what its suites said."""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass

from plan import BUILD, HERE, SHARE, TOP

LOGS = os.path.join(BUILD, "vm", "logs")
MOST_FAILURES = 8  # as many fit into the last ten lines

_BEGIN = re.compile(r"^== (\S+|kernel log)$")
_END = re.compile(r"^== (\S+|kernel log): (\d+) passed, (\d+) failed, \d+ s$")
_SUM = re.compile(r"^(\d+) passed, (\d+) failed$")
# A single test in what cmocka, GoogleTest and unittest print, and in a line "not ok - NAME".
_TEST = re.compile(r"^\[  FAILED  \] ([\w./]+)(?: \(\d+ ms\)|, where .*)?$|^(?:FAIL|ERROR): (\w+) |^not ok +(.*)$")


@dataclass
class Failure:
    """Something that failed: `name`, the file with its output, and the command that repeats it."""
    name: str
    log: str
    command: str

    def __str__(self):
        return f"failed: {self.name} (log {self.log}): {self.command}"


class Result:
    """Sums of tests, and what failed."""

    def __init__(self):
        self.passed = self.failed = 0
        self.failures = []

    def add(self, passed, failed):
        self.passed += passed
        self.failed += failed

    def fail(self, name, log, command, count=0):
        """A failure; `count` of its tests are not in the sums yet."""
        self.failed += count
        self.failures.append(Failure(name, log, command))

    def finish(self):
        """Prints the closing lines; returns the status of the program."""
        if not self.passed and not self.failed:
            print("no test ran")
            self.failed = 1
        for failure in self.failures[:MOST_FAILURES]:
            print(failure)
        if len(self.failures) > MOST_FAILURES:
            print(f"failed: {len(self.failures) - MOST_FAILURES} more: {os.path.dirname(self.failures[-1].log)}")
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed else 0


@dataclass
class Section:
    """A suite's output on the board and its counts; without `ended` the board ended first."""
    name: str
    lines: list
    passed: int = 0
    failed: int = 0
    ended: bool = False

    def failed_tests(self):
        """Names of its failed tests."""
        found = [next(filter(None, match.groups())) for match in map(_TEST.match, self.lines) if match]
        return list(dict.fromkeys(found))


class Output:
    """Splits a board's output, line by line, into the sections of its suites."""

    def __init__(self):
        self.sections = []
        self.sum = None
        self.reason = ""  # why npu-vm says that the board failed
        self._open = None

    def feed(self, text):
        """Takes a line; returns true if it is the sum of all suites."""
        begin, end, total = _BEGIN.match(text), _END.match(text), _SUM.match(text)
        if total and (not self.sections or self.sections[-1].name == "kernel log"):
            self.sum = (int(total[1]), int(total[2]))
            return True
        if text.startswith("npu-vm: "):
            self.reason = text
        if begin and not self._open:  # a suite may print such lines, too
            self._open = Section(begin[1], [])
            self.sections.append(self._open)
        elif end and self._open and self._open.name == end[1]:
            self._open.passed, self._open.failed, self._open.ended = int(end[2]), int(end[3]), True
            self._open = None
        elif self._open:
            self._open.lines.append(text)
        return False


@dataclass
class Ran:
    """The end of a boot."""
    status: int
    output: Output
    log: str


def command(options, share, timeout, environment=()):
    """npu-vm's command line for a plan in `share`."""
    words = [os.path.join(TOP, "tools", "npu-vm"), *options, "--share", share, "--control", "--timeout", str(timeout)]
    for item in environment:
        words += ["--env", item]
    return [*words, "--", os.path.join(HERE, "run.sh"), f"{SHARE}/plan"]


def write_plan(share, text):
    with open(os.path.join(share, "plan"), "w", encoding="utf-8") as file:
        file.write(text)


def log_path(*names):
    os.makedirs(LOGS, exist_ok=True)
    return os.path.join(LOGS, "-".join(names).replace("/", "_") + ".log")


def run(words, log):
    """Runs a command with its output in a log and on ours, there without the sum at its end."""
    output = Output()
    with open(log, "w", encoding="utf-8") as file, \
            subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                             text=True, errors="replace") as process:
        for text in process.stdout:
            file.write(text)
            if not output.feed(text.rstrip("\n")):
                sys.stdout.write(text)
                sys.stdout.flush()
    return Ran(process.returncode, output, log)


def save_section(section, *names):
    """Writes a suite's output to a log of its own; returns the path."""
    path = log_path(*names)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(text + "\n" for text in section.lines)
    return path


def describe(section):
    """Its name, with a few of its failed tests."""
    names = section.failed_tests()
    if not names:
        return section.name
    return f"{section.name}: {', '.join(names[:3])}" + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def collect(result, ran, repeat, *names):
    """Adds a boot's sections up. `repeat(NAME)` is the command for one suite, `repeat(None)` that for the whole boot.
    `names` are the first parts of the logs' names."""
    before = len(result.failures)
    for section in ran.output.sections:
        result.add(section.passed, section.failed)
        if section.failed:
            result.fail(describe(section), save_section(section, *names, section.name.replace(" ", "-")),
                        repeat(None if section.name == "kernel log" else section.name))
        elif not section.ended and section.name != "kernel log":
            result.fail(f"{section.name}: the board ended before it did",
                        save_section(section, *names, section.name), repeat(section.name), 1)
    if len(result.failures) == before and (ran.status or not ran.output.sum):
        why = ran.output.reason or f"the board ended with status {ran.status}" + \
            ("" if ran.output.sum else " before all suites had run")
        result.fail(why, ran.log, repeat(None), 1)


def shell(words, **environment):
    """A command line to copy, relative to the checkout."""
    return " ".join([*(f"{key}={shlex.quote(value)}" for key, value in environment.items()),
                     *(shlex.quote(word.removeprefix(TOP + "/")) for word in words)])
