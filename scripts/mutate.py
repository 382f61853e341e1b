#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Makes small mistakes in sources, one at a time, and tells which of them no test notices.

usage: mutate.py [OPTION...] [FILE...]
  FILE            C++ or C sources of the chip, libnpu, the runtime, the compiler or the tools
  --since COMMIT  the sources that changed since then
  --each N        N mutants of every component: the chip, the cost model, the compiler, the runtime, libnpu
  --limit N       without --each: so many mutants, chosen at random (40)
  --seed N        of that choice; printed
  --label NAME    the tests of this label, in place of those of the file's component

A mutant is killed when a test of its component fails or does not end (in ten times what the tests take without a
mistake, and a minute), and is not counted when it does not compile without a warning. A mistake is one of: a comparison
with its neighbour (< and <=), its opposite (== and !=), + for -, && for ||, a negated condition, a constant that is one
more, a statement less. Works on a copy of the checkout in build-mutants, where only programs of the component's tests
are built, one after the other until one of them kills the mutant. Each is printed with its fate, as file:line: before
-> after. The last lines are the score, and how many mutants were tried ("N passed, 0 failed"); the status is 0 whatever
the score, for some mutants change nothing that matters.
"""
import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

import checkout

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORK = os.path.join(TOP, "build-mutants")
# The build lies in the copy as it does in a checkout, so that ccache knows what it compiles.
SOURCE, BUILD = WORK, os.path.join(WORK, "build")
# folder -> label of its tests, as in [labels] of tests/steps.toml
COMPONENTS = {"qemu-device/model/": "chip", "uapi/hw/": "chip", "libnpu/": "libnpu", "runtime/": "runtime",
              "compiler/": "compiler", "tools/npu-smi/": "libnpu", "tools/npuc/": "compiler",
              "tools/bmrt_test/": "runtime", "tools/": "tools"}
# What --each takes its mutants from, by name.
SAMPLES = {"chip": ["qemu-device/model/src"], "cost": ["uapi/hw/npu_cost.hpp"], "compiler": ["compiler"],
           "runtime": ["runtime"], "libnpu": ["libnpu"]}
# What programs of tests load while they run: those of the chip and of libnpu not all of it.
MODULES = ["npu-sim", "npu-onednn", "npuc_library"]
MODULES_OF = {"chip": ["npu-onednn"], "libnpu": ["npu-sim", "npu-onednn"]}
BUILD_SECONDS = 1800

# (what it is called, what it matches, what comes in its place)
MUTATORS = [
    ("boundary", re.compile(r"(?<=[\w)\]] )<(?= [\w(])"), "<="), ("boundary", re.compile(r"(?<=[\w)\]] )<=(?= )"), "<"),
    ("boundary", re.compile(r"(?<=[\w)\]] )>(?= [\w(])"), ">="), ("boundary", re.compile(r"(?<=[\w)\]] )>=(?= )"), ">"),
    ("opposite", re.compile(r" == "), " != "), ("opposite", re.compile(r" != "), " == "),
    ("sign", re.compile(r"(?<=[\w)\]]) \+ (?=[\w(])"), " - "), ("sign", re.compile(r"(?<=[\w)\]]) - (?=[\w(])"), " + "),
    ("logic", re.compile(r" && "), " || "), ("logic", re.compile(r" \|\| "), " && "),
    ("negation", re.compile(r"\bif \((?!constexpr)(?=[^;]*\)(?: \{| \w|$))"), None),
    ("constant", re.compile(r"(?<![\w.\"'])(\d{1,4})(?![\w.\"'])"), None),
    ("statement",
     re.compile(r"^( +)(?!return|break|continue|case|default|using|static|const|auto|struct|enum)"
                r"[\w:>.\-\[\]*]+(?:\(.*\)| [+\-|&]?= .*|\+\+);$"), None),
]


def command(*words, seconds=600, **options):
    """Exit status, or None after so many seconds; then nothing that it started runs on."""
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                          start_new_session=True, **options) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def negated(line, match):
    """The line with the condition of its `if` negated; None where the condition does not end in this line."""
    depth, start = 0, match.end()
    for at in range(start - 1, len(line)):
        depth += {"(": 1, ")": -1}.get(line[at], 0)
        if depth == 0:
            condition = line[start:at]
            return None if ";" in condition else "%s!(%s)%s" % (line[:start], condition, line[at:])
    return None


def mutants_of_line(line):
    """(kind, changed line) of every mutant of a line of code."""
    code = line.split("//")[0]
    if not code.strip() or code.lstrip().startswith(("#", "*", "/*", "static_assert", "assert", "template")):
        return
    quoted = [m.span() for m in re.finditer(r'"(?:\\.|[^"\\])*"', line)]
    for kind, pattern, text in MUTATORS:
        for match in pattern.finditer(code.rstrip()):
            if any(a <= match.start() < b for a, b in quoted):
                continue
            if kind == "negation":
                changed = negated(line, match)
            elif kind == "constant":
                changed = line[:match.start()] + str(int(match.group()) + 1) + line[match.end():]
            elif kind == "statement":
                changed = match.group(1) + ";"
            else:
                changed = line[:match.start()] + text + line[match.end():]
            if changed is not None and changed != line:
                yield kind, changed


def mutants_of(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as file:
        for number, line in enumerate(file.read().split("\n")):
            for kind, changed in mutants_of_line(line):
                yield path, number, kind, line, changed


def label_of(path):
    return next((label for folder, label in COMPONENTS.items() if path.startswith(folder)), None)


def files_since(commit):
    names = subprocess.run(["git", "diff", "--name-only", "--diff-filter=AM", commit], cwd=TOP, capture_output=True,
                           text=True, check=True).stdout
    return [name for name in names.split() if name.endswith((".c", ".cpp", ".hpp", ".h")) and label_of(name)]


def ctest(label, *words):
    return ["ctest", "--test-dir", BUILD, "-L", "^%s$" % label, "-LE", "slow", *words]


def programs(label):
    """What ninja has to build for the tests of a label: for each set of programs the tests that run nothing else."""
    listing = subprocess.run(ctest(label, "--show-only=json-v1"), capture_output=True, check=True)
    found = {}
    for test in json.loads(listing.stdout)["tests"]:
        words = [word for word in test.get("command", []) if word.startswith(BUILD + "/bin/")]
        found.setdefault(tuple(sorted(os.path.relpath(word, BUILD) for word in words)), []).append(test["name"])
    return found


def steps(targets):
    """How much ninja has to do for them."""
    return subprocess.run(["ninja", "-C", BUILD, "-n", *targets], capture_output=True).stdout.count(b"\n")


def build(targets):
    return command("ninja", "-C", BUILD, *targets, seconds=BUILD_SECONDS) == 0


def tests_pass(label, seconds, names=()):
    """All tests of the label, or some of them."""
    environment = dict(os.environ, GTEST_FAIL_FAST="1")
    words = ["-R", "^(%s)$" % "|".join(map(re.escape, names))] if names else []
    return command(*ctest(label, "-j", str(os.cpu_count()), "--stop-on-failure", *words), seconds=seconds,
                   env=environment) == 0


def prepare(labels):
    """The unchanged copy has to build and pass: else every mutant would be killed. For each label the targets of its
    tests, and the seconds that they may take."""
    checkout.copy(SOURCE)
    if command("cmake", "-S", SOURCE, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
               "-DNPU_WERROR=ON") or not build(["unit_programs"]):
        sys.exit("mutate: the unchanged sources do not build in %s" % BUILD)
    found = {}
    for label in labels:
        begun = time.monotonic()
        if not tests_pass(label, BUILD_SECONDS):
            sys.exit("mutate: the tests of %s fail without a mistake" % label)
        found[label] = programs(label), 60 + 10 * (time.monotonic() - begun)
    return found


def fate(label, groups, seconds):
    """killed, survived or invalid: with little to build first, since most are killed by a single program."""
    modules = MODULES_OF.get(label, MODULES)
    for targets in sorted(filter(None, groups), key=lambda group: steps([*group, *modules])):
        if not build([*targets, *modules]):
            return "invalid"
        if not tests_pass(label, seconds, groups[targets]):
            return "killed"
    if not build([*sum(groups, ()), *MODULES]):
        return "invalid"
    return "survived" if tests_pass(label, seconds) else "killed"


def try_mutant(mutant, label, groups, seconds):
    """killed, survived or invalid."""
    path, number, _, _, changed = mutant
    target = os.path.join(SOURCE, path)
    with open(target, encoding="utf-8") as file:
        whole = file.read()
    lines = whole.split("\n")
    lines[number] = changed
    try:
        with open(target, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
        return fate(label, groups, seconds)
    finally:
        with open(target, "w", encoding="utf-8") as file:
            file.write(whole)


def parse():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--since")
    parser.add_argument("--each", type=int)
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--label")
    options = parser.parse_args()
    options.files = [os.path.relpath(os.path.abspath(name), TOP) for name in options.files]
    if options.since:
        options.files += files_since(options.since)
    for name in options.files:
        if not options.label and not label_of(name):
            parser.error("%s belongs to no component with unit tests: --label" % name)
    if options.each and options.files:
        parser.error("--each takes all sources of the components, not files")
    return options


def sources(folders):
    names = subprocess.run(["git", "ls-files", "--", *folders], cwd=TOP, capture_output=True, text=True,
                           check=True).stdout
    return [name for name in names.split() if name.endswith((".c", ".cpp", ".hpp"))]


def choose(options, generator):
    """The mutants to try."""
    samples = [sources(folders) for folders in SAMPLES.values()] if options.each else [options.files]
    chosen = []
    for files in samples:
        everything = [mutant for name in sorted(set(files)) for mutant in mutants_of(name)]
        chosen += generator.sample(everything, min(options.each or options.limit, len(everything)))
    generator.shuffle(chosen)  # a run that is cut short has seen something of everything
    return chosen


def main():
    options = parse()
    seed = options.seed if options.seed is not None else random.randrange(1 << 30)
    chosen = choose(options, random.Random(seed))
    if not chosen:
        print("mutate: nothing to change in %d files\n1 passed, 0 failed" % len(options.files))
        return 0
    print("%d mutants, seed %d" % (len(chosen), seed), flush=True)
    label = lambda path: options.label or label_of(path)
    tests = prepare(sorted({label(mutant[0]) for mutant in chosen}))
    counts = {"killed": 0, "survived": 0, "invalid": 0}
    for mutant in chosen:
        result = try_mutant(mutant, label(mutant[0]), *tests[label(mutant[0])])
        counts[result] += 1
        path, number, kind, before, after = mutant
        print("%s: %s:%d: %s: %s -> %s" % (result, path, number + 1, kind, before.strip(), after.strip()), flush=True)
    valid = counts["killed"] + counts["survived"]
    print("%d of %d killed (%.0f %%), %d survived; %d did not compile" %
          (counts["killed"], valid, 100.0 * counts["killed"] / max(valid, 1), counts["survived"], counts["invalid"]))
    print("%d passed, 0 failed" % valid)
    return 0 if valid else 1


if __name__ == "__main__":
    sys.exit(main())
