#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs one test, wherever it is (`make test T=NAME [BOARD=B]`), and builds only what that test needs.

usage: test.py NAME [BOARD]

NAME is one of these, or a part of its name that no other has:
  a step of the checks (tests/steps.toml)         test.py networks
  a test of ctest, or a label of several          test.py libnpu_launch, test.py compiler
  a case of a GoogleTest or cmocka program        test.py LaunchTest.RunsTwice
  a suite on an emulated board                    test.py recovery debug

A pattern (* and ?) runs all that it matches of the first of these kinds: steps, tests of ctest, labels, cases. Suites,
and cases of different kinds of programs, run one at a time.

BOARD is for suites: tests/guest/check.py --boards lists the boards.
"""

import fnmatch
import glob
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from checks import table  # noqa: E402  pylint: disable=wrong-import-position

TOP = table.TOP
BUILD = os.environ.get("NPU_BUILD") or os.path.join(TOP, "build")
GUEST = [os.path.join(TOP, "tests", "guest", "check.py")]
CASE = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", re.MULTILINE)
UNIT = re.compile(r"cmocka_unit_test\w*\(\s*(\w+)")
LISTED = 20
# Output of other programs is read here and in scripts: it has to be in one language.
os.environ["LC_ALL"] = "C.UTF-8"
os.environ.pop("LANGUAGE", None)


def fail(*lines):
    sys.exit("test: " + "\n      ".join(lines))


def output_of(command):
    return subprocess.run(command, cwd=TOP, stdout=subprocess.PIPE, text=True, check=True).stdout


def make(words):
    """One call of make; its output goes to stderr."""
    subprocess.run(["make", "-s", *words.split()], cwd=TOP, stdout=sys.stderr, check=True)


def build(targets):
    """Builds these targets of CMake."""
    subprocess.run([os.path.join(TOP, "scripts", "build.sh"), *sorted(targets)], stdout=sys.stderr, check=True)


class Tree:
    """The configured build: which files and tests belong to which targets."""

    def __init__(self):
        subprocess.run([os.path.join(TOP, "scripts", "configure.sh"), "-DBUILD_TESTING=ON"], stdout=sys.stderr,
                       check=True)
        self.by_artifact, self.by_source = {}, {}
        for path in glob.glob(os.path.join(BUILD, ".cmake", "api", "v1", "reply", "target-*.json")):
            with open(path, encoding="utf-8") as file:
                target = json.load(file)
            for artifact in target.get("artifacts", []):
                self.by_artifact[os.path.join(BUILD, artifact["path"])] = target["name"]
            for source in target.get("sources", []):
                self.by_source.setdefault(source["path"], []).append(target)
        listed = output_of(["ctest", "--test-dir", BUILD, "--show-only=json-v1"])
        self.tests = {test["name"]: test for test in json.loads(listed)["tests"]}

    def property(self, test, name):
        """A property of a test of ctest, as a list."""
        for one in self.tests[test].get("properties", []):
            if one["name"] == name:
                return one["value"] if isinstance(one["value"], list) else [one["value"]]
        return []

    def labels(self):
        return {label for test in self.tests for label in self.property(test, "LABELS")}

    def targets(self, test):
        """The targets that a test of ctest needs: the programs that its command names, and those for users."""
        found = set()
        for word in self.tests[test].get("command", []):
            if word in self.by_artifact:
                found.add(self.by_artifact[word])
            elif word.startswith(BUILD):
                found.add("programs")
        return found | {"programs"}

    def program_of(self, source):
        """The executable with this source, as (target, path), or None."""
        for target in self.by_source.get(source, []):
            if target["type"] == "EXECUTABLE" and target.get("artifacts"):
                return target["name"], os.path.join(BUILD, target["artifacts"][0]["path"])
        return None


def cases_in_sources():
    """Case to file: "Suite.Name" of GoogleTest, the function's name of cmocka."""
    found = {}
    for name in table.files_of_checkout():
        if name.startswith(("tests/", "ort/tests/")) and name.endswith((".cpp", ".c")):
            with open(os.path.join(TOP, name), encoding="utf-8") as file:
                text = file.read()
            for suite, case in CASE.findall(text):
                found[f"{suite}.{case}"] = name
            for case in UNIT.findall(text):
                found[case] = name
    return found


def runner_of(source):
    """The runner of the cases in a file."""
    if source.startswith("tests/guest/"):
        return "suite " + re.sub(r"^test_|\.c$", "", os.path.basename(source))
    return "cmocka" if source.endswith(".c") else "GoogleTest"


def suites():
    """Suites on the board: name to the targets that they need."""
    lines = output_of(GUEST + ["--suites"]).splitlines()
    return {line.split("\t")[0]: line.split("\t")[1].split() for line in lines}


def run_steps(names):
    os.execv(os.path.join(TOP, "scripts", "check.py"), ["check.py", "steps", "--all", *names])


def run_suite(name, board, case=None):
    """A suite on a board. Builds its programs, and what the board needs."""
    command = GUEST + ["--suite", name, "--board", board] + (["--tests", case] if case else [])
    needs = output_of(command + ["--needs"]).splitlines()
    if not any("build-arm64" in words for words in needs):
        build(set(suites()[name]) | {"programs"})
    for words in needs:
        make(words)
    os.execv(command[0], command)


def run_ctest(tree, tests):
    """Tests of ctest, with the fixtures that they require."""
    fixtures = {fixture for test in tests for fixture in tree.property(test, "FIXTURES_REQUIRED")}
    setups = [test for test in tree.tests if fixtures & set(tree.property(test, "FIXTURES_SETUP"))]
    build(set().union(*(tree.targets(test) for test in tests + setups)))
    pattern = "^(" + "|".join(re.escape(test) for test in tests) + ")$"
    os.execvp(os.path.join(TOP, "scripts", "run_ctest.py"), ["run_ctest.py", BUILD, "-R", pattern])


def run_cases(tree, cases, files):
    """Cases of GoogleTest programs: each program with the environment that ctest gives it."""
    status = 0
    by_program = {}
    for case in cases:
        program = tree.program_of(files[case])
        if program is None:
            fail(f"{case} is in {files[case]}, which is in no program of {BUILD}")
        by_program.setdefault(program, []).append(case)
    for (target, path), names in by_program.items():
        tests = [name for name, test in tree.tests.items() if path in test.get("command", [])]
        environment = dict(os.environ)
        needed = {target, "programs"}
        setups = []
        if tests:
            environment.update(item.split("=", 1) for item in tree.property(tests[0], "ENVIRONMENT")
                               if not item.startswith("GTEST_"))
            fixtures = set(tree.property(tests[0], "FIXTURES_REQUIRED"))
            setups = [test for test in tree.tests if fixtures & set(tree.property(test, "FIXTURES_SETUP"))]
        build(needed)
        for setup in setups:
            subprocess.run(["ctest", "--test-dir", BUILD, "-R", f"^{re.escape(setup)}$"], stdout=sys.stderr, check=True)
        words = ":".join(f"{name}:{name}/*:*/{name}:*/{name}/*" for name in names)
        done = subprocess.run([path, f"--gtest_filter={words}"], env=environment, check=False)
        status = status or done.returncode
    return 1 if status else 0


def choose(name, kinds):
    """(kind, names): the whole name comes before a pattern, a pattern before a part of one name."""
    for kind, names in kinds.items():
        if name in names:
            return kind, [name]
    if any(sign in name for sign in "*?"):
        for kind, names in kinds.items():
            if found := [one for one in names if fnmatch.fnmatchcase(one, name)]:
                return kind, found
    found = [(kind, one) for kind, names in kinds.items() if kind != "label" for one in names
             if name.lower() in one.lower()]
    if len(found) == 1:
        return found[0][0], [found[0][1]]
    if not found:
        fail(f"no test has {name} in its name", "steps: scripts/check.py list; suites: tests/guest/check.py --suites",
             f"tests of ctest: ctest --test-dir {os.path.relpath(BUILD)} -N")
    lines = [f"{kind:6} {one}" for kind, one in found[:LISTED]]
    fail(f"{len(found)} tests have {name} in their names:", *lines,
         *([f"and {len(found) - LISTED} more"] if len(found) > LISTED else []))


def main():
    if len(sys.argv) < 2 or not sys.argv[1]:
        fail("no test is named: make test T=NAME [BOARD=B]", *__doc__.strip().splitlines()[4:])
    name, board = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    boards = output_of(GUEST + ["--boards"]).split()
    if board and board not in boards:
        fail(f"there is no board {board}", "known: " + ", ".join(boards))
    # Names that need no configured build come first.
    kinds = {"step": table.Table().steps, "suite": suites()}
    files = cases_in_sources()
    if name not in files and not any(fnmatch.filter(names, name) for names in kinds.values()):
        tree = Tree()
        kinds |= {"ctest": tree.tests, "label": tree.labels()}
    kinds["case"] = files
    kind, names = choose(name, kinds)
    runners = sorted({"suite " + one if kind == "suite" else runner_of(files[one]) if kind == "case" else kind
                      for one in names})
    if len(runners) > 1:
        fail(f"{name} matches several, and one runs at a time:", *runners)
    on_board = runners[0].startswith("suite ")
    if board and not on_board:
        fail(f"{names[0]} ({kind}) does not run on a board", "BOARD is for suites: tests/guest/check.py --suites")
    print(f"[test] {kind} {' '.join(names[:5])}{' ...' if len(names) > 5 else ''}", file=sys.stderr)
    if kind == "step":
        run_steps(names)
    if on_board:
        cases = None if kind == "suite" else names[0] if len(names) == 1 else name
        run_suite(runners[0].removeprefix("suite "), board or "stock", cases)
    tree = Tree()
    if kind == "ctest":
        run_ctest(tree, names)
    if kind == "label":
        run_ctest(tree, [test for test in tree.tests if set(names) & set(tree.property(test, "LABELS"))])
    if runners == ["cmocka"]:
        programs = [tree.program_of(source) or fail(f"{source} is in no program of {BUILD}")
                    for source in sorted({files[one] for one in names})]
        run_ctest(tree, [test for test in tree.tests
                         if any(path in tree.tests[test].get("command", []) or target in test
                                for target, path in programs)])
    return run_cases(tree, names, files)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"test: {' '.join(map(str, error.cmd))} failed with status {error.returncode}")
    except (OSError, table.TableError) as error:
        print(f"test: {error}", file=sys.stderr)
        sys.exit(2)
