#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Plants races, and tells after how many seeds explore.py finds each: what make explore is worth.

usage: plant.py [OPTION...] [NAME...]
  NAME             races, by the names of their files in tests/races without .patch; none: all
  --seeds N        so many at most for each (20)
  --boards N       so many boards at a time (1)
  --limit N        a board that is not done after so many seconds has failed (300)
  --plain          tells, too, whether an ordinary board sees it, and an exact one without a seed
  --check          only looks whether all of them still apply to this checkout; the last line is "N passed, N failed"

A race is a patch that takes a lock, a reference or an order away, in the driver, in libnpu or in the chip's model. Its
head says what, and which suites may see it ("Suites:", "Tests:", "Kernel:", "Rounds:", see explore.py). Works on a copy
of the checkout in build/planted. The suites of a race run under one seed after another until the first failure, which
is repeated by the command that explore.py has printed. Each is printed as a row of the table in docs/develop/races.md.
Status: 0 when each that was found came back."""

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

import checkout

TOP = checkout.TOP
RACES = os.path.join(TOP, "tests", "races")
BUILD = os.path.realpath(os.environ.get("NPU_BUILD", os.path.join(TOP, "build")))
WORK = os.path.join(BUILD, "planted")
TREE, BOARD = os.path.join(WORK, "tree"), os.path.join(WORK, "board")
OBJECTS = os.path.join(TREE, "build")  # as in a checkout: the compiler's cache knows the rest
# What is built of a part that is not the driver.
TARGETS = {"libnpu": "npu", "model": "npumodel"}
LIBRARIES = {"libnpu": "libnpu.so", "model": "libnpumodel.so"}


class Race:
    """A patch and what its head says."""

    def __init__(self, path):
        self.path = path
        self.name = os.path.basename(path)[:-len(".patch")]
        self.part = os.path.basename(os.path.dirname(path))
        with open(path, encoding="utf-8") as file:
            head = dict(re.findall(r"^([A-Z][a-z ]+): (.+)$", file.read().split("\n--- ")[0], re.MULTILINE))
        self.lost = head["Taken away"].rstrip(".")
        self.suites = ",".join(head["Suites"].split())
        self.tests = head.get("Tests", "")
        self.kernel = head.get("Kernel", "stock")
        self.rounds = head.get("Rounds", "6")


def all_races():
    return [Race(path) for path in sorted(glob.glob(os.path.join(RACES, "*", "*.patch")))]


def check(races):
    """Whether each patch applies, and says what it has to."""
    failed = [race.name for race in races
              if subprocess.run(["git", "apply", "--check", race.path], cwd=TOP, check=False).returncode]
    for name in failed:
        print(f"FAIL {name}: the patch does not apply: write it anew, see CONTRIBUTING.md")
    print(f"{len(races) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed or not races else 0


# ---- building ----

def logged(*command, **environment):
    """Runs a command whose output matters only when it fails."""
    log = os.path.join(WORK, "build.log")
    with open(log, "w", encoding="utf-8") as file:
        if subprocess.run(command, stdout=file, stderr=file, env={**os.environ, **environment},
                          check=False).returncode == 0:
            return
    with open(log, encoding="utf-8") as file:
        sys.exit(f"plant: {' '.join(command)} failed:\n{file.read()[-4000:]}")


def link(target, name):
    os.makedirs(os.path.dirname(name), exist_ok=True)
    if os.path.lexists(name):
        os.unlink(name)
    os.symlink(target, name)


def build(race):
    """A build folder for the board, in which only the race's part is another one."""
    checkout.copy(TREE)
    logged("patch", "--batch", "--forward", "--no-backup-if-mismatch", "-p1", "-d", TREE, "-i", race.path)
    link(os.path.join(BUILD, "bin"), os.path.join(BOARD, "bin"))
    shutil.rmtree(os.path.join(BOARD, "lib"), ignore_errors=True)
    for name in os.listdir(os.path.join(BUILD, "lib")):
        link(os.path.join(BUILD, "lib", name), os.path.join(BOARD, "lib", name))
    for name in ("qnpu.ko", "qnpu-debug.ko"):
        link(os.path.join(BUILD, "kernel", name), os.path.join(BOARD, "kernel", name))
    if race.part == "driver":
        for name in ("qnpu.ko", "qnpu-debug.ko"):
            os.unlink(os.path.join(BOARD, "kernel", name))
        logged(os.path.join(TREE, "scripts", "module.sh"), race.kernel, NPU_BUILD=BOARD)
        return
    logged("cmake", "-S", TREE, "-B", OBJECTS, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo")
    logged("ninja", "-C", OBJECTS, TARGETS[race.part])
    for path in glob.glob(os.path.join(OBJECTS, "lib", LIBRARIES[race.part] + "*")):
        link(path, os.path.join(BOARD, "lib", os.path.basename(path)))


# ---- running ----

ENVIRONMENT = {**os.environ, "NPU_BUILD": BOARD}


def explore(race, options, *more):
    """What explore.py says."""
    command = [os.path.join(TOP, "scripts", "explore.py"), "--boot", "--kernel", race.kernel, "--suite", race.suites,
               "--boards", str(options.boards), "--rounds", race.rounds, "--limit", str(options.limit),
               "--seconds", "1e9", "--stop", *(["--test", race.tests] if race.tests else []), *more]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True,
                          check=False).stdout


def finished(command, log):
    """Whether a board's command ends well; its output goes to a log."""
    with open(os.path.join(WORK, log), "wb") as file:
        return subprocess.run(command, shell=isinstance(command, str), env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                              stdout=file, stderr=file, check=False).returncode == 0


def ordinary(race, options):
    """Whether an ordinary board passes the suites as a check runs them."""
    kernel = ["--kernel", "debug", "--memory", "3G"] if race.kernel == "debug" else []
    tests = ["--env", f"NPU_TESTS={race.tests}"] if race.tests else []
    with tempfile.TemporaryDirectory(prefix="npu-plant.") as share:
        subprocess.run([os.path.join(TOP, "tests", "guest", "check.py"), "--suite", race.suites, "--board",
                        "debug" if race.kernel == "debug" else "stock", "--profile", "quick", "--plan",
                        os.path.join(share, "plan")], check=True)
        return finished([os.path.join(TOP, "tools", "npu-vm"), "--device", "ddr=128M", *kernel, *tests, "--control",
                         "--sleep", "--timeout", str(options.limit), "--share", share, "--",
                         os.path.join(TOP, "tests", "guest", "run.sh"), "/mnt/share/plan"], "ordinary.log")


def contents(path):
    """A board's output without the name of its console's log."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return [line for line in file if not line.startswith("--- the last ")]


def repeated(said):
    """How a failure came back: runs the command that explore.py has printed."""
    command = re.search(r"^  repeat it: (.*)$", said, re.MULTILINE).group(1)
    first = re.search(r"^  output: +(.*)$", said, re.MULTILINE).group(1)
    again = os.path.join(WORK, "again.log")
    if finished(command, "again.log"):
        return "not at all"
    if contents(first) == contents(again):
        return "same output"
    # A board that has shown a warning ends at some instant of the host: what comes after that is not repeated.
    failures = [[line for line in contents(path) if re.search(r"FAILED|npu-vm: ", line)] for path in (first, again)]
    return "same failure" if failures[0] == failures[1] else "another failure"


def row(race, options):
    """Cells of a race's row; the last one is None when what was found did not come back."""
    build(race)
    host = zero = "not tried"
    if options.plain:
        host = "passes" if ordinary(race, options) else "fails"
        zero = "passes" if " 0 failed" in explore(race, options, "--first", "0", "--seeds", "1") else "fails"
    said = explore(race, options, "--seeds", str(options.seeds))
    found = re.search(r"^seed (\d+): (.*)$", said, re.MULTILINE)
    count = re.search(r"(\d+) seeds in (\d+) s", said)
    if not count:
        sys.exit(f"plant: {race.name}: explore.py said\n{said}")
    cells = [f"`{race.part}/{race.name}`", race.lost, race.kernel, race.suites.replace(",", ", "), host, zero]
    if not found:
        return cells + [f"not in {count[1]}", f"{count[2]} s", "", ""]
    if re.search(r"did not (end|boot) within|did not switch off", found[2]):  # the host's time says nothing of a race
        return cells + ["no answer", f"{count[2]} s", found[2], ""]
    return cells + [count[1], f"{count[2]} s", found[2][:100].replace("|", "/"), repeated(said)]


def parse():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--boards", type=int, default=1)
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    races = {race.name: race for race in all_races()}
    for name in options.names:
        if name not in races:
            parser.error(f"{name}: there is no such race; known: {', '.join(races)}")
    options.races = [races[name] for name in options.names] or list(races.values())
    return options


def main():
    options = parse()
    if options.check:
        return check(options.races)
    os.makedirs(WORK, exist_ok=True)
    lost = 0
    for race in options.races:
        cells = row(race, options)
        print("| " + " | ".join(cells) + " |", flush=True)
        lost += cells[-1] in ("not at all", "another failure")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
