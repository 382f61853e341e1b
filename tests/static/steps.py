#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Tests the table of steps and the programs that read it: every file is an input of a step, every pattern matches a
file, scripts/check.py runs, caches, reports and leaves out steps as its usage says, on small tables, and
scripts/test.py runs all that a pattern matches.

usage: steps.py   the last lines are those of unittest, then "N passed, N failed"
"""
import contextlib
import dataclasses
import fcntl
import importlib.util
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "scripts"))
from checks import plan, quick, result, table  # noqa: E402  pylint: disable=wrong-import-position

# Files that no test reads: how a person or a service works with the project.
NOT_TESTED = [".ci/run", ".clangd", ".editorconfig", ".gitattributes", ".github/**", ".gitignore", "scripts/hooks/*"]


def a_table(folder, text):
    path = os.path.join(folder, "steps.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return table.Table(path)


def step(name, command, more=""):
    return (f'[step.{name}]\nset = "check"\npurpose = "p"\nseconds = 1\ninputs = ["LICENSE"]\n'
            f"command = '''{command}'''\n{more}\n")


class TheTable(unittest.TestCase):
    """tests/steps.toml."""

    def setUp(self):
        self.table = table.Table()
        self.files = table.files_of_checkout()

    def test_every_file_is_an_input(self):
        named = {pattern for one in self.table.of_sets("check", "full") for pattern in one.inputs} - {"**"}
        known = set(table.matching(sorted(named) + NOT_TESTED, self.files))
        self.assertEqual([], [name for name in self.files if name not in known])

    def test_every_pattern_matches_a_file(self):
        patterns = {pattern for one in self.table.steps.values() for pattern in one.inputs}
        patterns |= {pattern for group in self.table.labels.values() for pattern in group}
        self.assertEqual([], [one for one in sorted(patterns) if not table.matching([one], self.files)])

    def test_what_others_need_is_prepared(self):
        for one in self.table.steps.values():
            for need in one.needs + one.after:
                self.assertEqual("prepare", self.table.steps[need].set, f"{one.name} needs {need}")


    def test_what_is_built_for_a_step_is_its_input(self):
        """A result from the cache says nothing of a chip model, a driver or a build that has changed since."""
        parts = {"build": ["build"], "qemu": ["device", "chip"], "module": ["driver"]}
        for one in self.table.of_sets("check", "full", "nightly"):
            for need in self.table.needed([one.name], below=True):
                for group in parts.get(need.removesuffix("-arm64").removesuffix("-debug"), []):
                    missing = set(self.table.groups[group]) - set(one.inputs)
                    self.assertTrue("**" in one.inputs or not missing, f"{one.name} needs {need}: add @{group}")


class Tables(unittest.TestCase):
    """Mistakes in a table are named."""

    def check(self, text, pattern):
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(table.TableError, pattern):
            a_table(folder, text)

    def test_mistakes(self):
        self.check('[step.a]\nset = "check"', "step a has no purpose")
        self.check(step("a", "true").replace('"check"', '"chekc"'), "step a is in the unknown set chekc")
        self.check(step("a", "true", 'need = ["b"]'), "step a has the unknown key need")
        self.check(step("a", "true", 'needs = ["b"]'), "step a needs the unknown step b")
        self.check(step("a", "true", 'needs = ["a"]'), "step a needs itself")
        self.check(step("a", "true", 'needs = ["b"]') + step("b", "true", 'after = ["a"]'), "needs itself")
        self.check(step("a", "true").replace('inputs = ["LICENSE"]', ""), "step a names no inputs")
        self.check(step("a", "true").replace("LICENSE", "@x"), "no group of files @x")
        self.check('[files]\nx = ["@y"]\ny = ["@x"]\n', "contains itself")

    def test_what_is_no_table(self):
        self.check("[step", "steps.toml: .*expected TOML")
        self.check("step = 1", "steps.toml: step is 1; expected a table")
        self.check("[step]\na = 1", "step a is 1; expected a table")
        self.check('[files]\nx = "y"', "files.x is 'y'; expected a list of strings")
        self.check("[labels]\nx = [1]", "labels.x is .1.; expected a list of strings")
        self.check(step("a", "true").replace("seconds = 1", 'seconds = "1"'), "seconds of step a .* expected a number")
        self.check(step("a", "true").replace('"p"', "3"), "purpose of step a is 3; expected a string")
        self.check(step("a", "true", 'needs = "b"'), "needs of step a is 'b'; expected a list of strings")
        with self.assertRaisesRegex(table.TableError, "/absent: No such file or directory; expected the table"):
            table.Table("/absent")

    def test_patterns(self):
        self.assertEqual(["a/b.c", "a/x/y/b.c"], table.matching(["a/**/b.c"], ["a/b.c", "a/x/y/b.c", "b.c"]))
        self.assertEqual(["a/b", "a/b/c"], table.matching(["a/**"], ["a/b", "a/b/c", "ab"]))
        self.assertEqual(["a/b.c"], table.matching(["a/*.c"], ["a/b.c", "a/b/d.c", "a/b_c"]))


class Kept(unittest.TestCase):
    """Results in the cache, which other versions and other checkouts write, too."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.table = a_table(folder.name, step("a", "true"))
        self.places = result.Places(folder.name, folder.name)
        self.digests = mock.Mock(of=lambda _: "1")
        self.record = self.places.record(self.table.steps["a"], "1")

    def unchanged(self, values):
        with open(self.record, "w", encoding="utf-8") as file:
            json.dump(values, file)
        return "a" in plan.Plan(self.table, ["a"], self.places, self.digests, True).unchanged

    def test_only_a_result_that_passed_counts(self):
        good = dataclasses.asdict(result.Result("a", 1, 0, 0, 0.5, 1))
        self.assertTrue(self.unchanged(good))
        for wrong in ({"passed": "1"}, {"passed": 0}, {"failed": 1}, {"failed": None}, {"status": 75}, {"status": "0"},
                      {"seconds": []}, {"failures": {}}, {"failures": ["x"]}, {"failures": [["x", 1, "y"]]},
                      {"name": "b"}, {"name": ["a"]}, {"more": 1}):
            self.assertFalse(self.unchanged(good | wrong), wrong)
        self.assertFalse(self.unchanged([good]))

    def test_odd_entries_do_not_matter(self):
        os.mkdir(self.record)
        os.symlink("absent", self.places.record(self.table.steps["a"], "2"))
        for days in (30, -1):
            self.places.remove_old(days)
        self.assertEqual([os.path.basename(self.record)], os.listdir(self.places.kept))
        self.assertFalse(plan.Plan(self.table, ["a"], self.places, self.digests, True).unchanged)


class Runs(unittest.TestCase):
    """Whole runs of ctest over small tables."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "steps.toml")

    def environment(self):
        return {**os.environ, "NPU_BUILD": os.path.join(self.folder.name, "build"),
                "XDG_CACHE_HOME": self.folder.name, "NPU_STEPS": self.path}

    def run_table(self, *arguments, status=0, top=TOP, program="check.py", **variables):
        done = subprocess.run([sys.executable, os.path.join(top, "scripts", program), *arguments],
                              env=self.environment() | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False, timeout=300)
        self.assertEqual(status, done.returncode, done.stdout)
        return done.stdout

    def write(self, text):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(text)

    def test_results_are_counted_and_cached(self):
        self.write(step("a", "echo '3 passed, 0 failed'; echo ran >>$NPU_BUILD/ran")
                   + step("b", "echo '1 passed, 0 failed'"))
        self.assertTrue(self.run_table("check").endswith("4 passed, 0 failed\n"))
        again = self.run_table("check")
        self.assertRegex(again, "a  +3 passed, 0 failed  \\(unchanged since")
        self.assertTrue(again.endswith("4 passed, 0 failed\n"))
        self.run_table("steps", "--all", "a")
        with open(os.path.join(self.folder.name, "build", "ran"), encoding="utf-8") as file:
            self.assertEqual("ran\nran\n", file.read())

    def test_another_command_is_another_step(self):
        self.write(step("a", "echo '3 passed, 0 failed'"))
        self.run_table("check")
        self.write(step("a", "echo '2 passed, 0 failed'"))
        self.assertTrue(self.run_table("check").endswith("2 passed, 0 failed\n"))

    def test_a_variable_that_is_empty_is_not_set(self):
        """make exports CONFIG to its commands, empty unless a user gave it."""
        self.write(step("a", "echo '3 passed, 0 failed'"))
        for value, unchanged in (("", False), ("Debug", False), ("", True)):
            self.assertEqual(unchanged, "unchanged since" in self.run_table("check", CONFIG=value), value)
        variables = os.environ.copy()
        variables.pop("CONFIG", None)
        with mock.patch.dict(os.environ, variables, clear=True):
            self.assertIn("unchanged since", self.run_table("check"))

    def test_the_minutes_of_ci_change_no_step(self):
        """A step of the full check that is unchanged does not run."""
        full = step("b", "echo '1 passed, 0 failed'").replace("check", "full")
        self.write(step("a", "echo '3 passed, 0 failed'") + full)
        self.run_table("full")
        self.assertTrue(self.run_table("ci", MINUTES="5").endswith("\n3 passed, 0 failed\n"))

    def test_failures_are_named_at_the_end(self):
        inner = "failed: suite: inner (log /x/y.log): make test T=inner"
        self.write(step("a", f"echo '{inner}'; echo '1 passed, 1 failed'; false")
                   + step("b", "echo words; exit 3") + step("c", "true")
                   + step("d", "echo '1 passed, 0 failed'; false"))
        last = self.run_table("check", status=1).splitlines()[-10:]
        self.assertEqual("2 passed, 4 failed", last[-1])
        text = "\n".join(last)
        self.assertRegex(text, r"failed: suite: inner; log: .*x/y.log; again: make test T=inner")
        for name in "bcd":
            self.assertRegex(text, rf"failed: {name}; log: .*{name}.log; again: make test T={name}")
        self.assertNotIn("unchanged", self.run_table("check", status=1).split("\n\n")[0])

    def test_a_step_that_hangs_is_ended(self):
        """On a busy machine it may be ended before it begins; then with a longer limit."""
        pid = os.path.join(self.folder.name, "build", "pid")
        for limit in (1, 10, 100):
            self.write(step("a", "sleep 1000 & echo $! >$NPU_BUILD/pid; wait", f"limit = {limit}"))
            self.assertIn(f"did not end within {limit} s", self.run_table("check", status=1))
            if os.path.exists(pid):
                break
        with open(pid, encoding="utf-8") as file:
            self.assertFalse(os.path.exists(f"/proc/{file.read().strip()}"))

    def start(self, command):
        """Starts a check of a step with this command. Returns the check, and the step's process."""
        self.write(step("a", "echo $$ >$NPU_BUILD/pid; " + command))
        build = os.path.join(self.folder.name, "build")
        process = subprocess.Popen([sys.executable, os.path.join(TOP, "scripts", "check.py"), "check"],
                                   env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   start_new_session=True)
        pid = ""
        while not pid:
            if process.poll() is not None:
                self.fail(process.communicate()[0])
            time.sleep(0.05)
            if os.path.exists(os.path.join(build, "pid")):
                with open(os.path.join(build, "pid"), encoding="utf-8") as file:
                    pid = file.read().strip()
        return process, pid

    def interrupt(self, send, status, command="sleep 1000"):
        """Runs a check of a step that hangs, and send(process). The check ends, and nothing that it started is left."""
        process, pid = self.start(command)
        children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True,
                                  check=True).stdout.split()
        send(process)
        process.communicate(timeout=120)
        self.assertEqual(status, process.returncode)
        for child in [*children, pid]:
            for _ in range(1200):
                if not os.path.exists(f"/proc/{child}"):
                    break
                time.sleep(0.1)
            self.assertFalse(os.path.exists(f"/proc/{child}"))

    def test_an_interrupted_check_leaves_no_process(self):
        """As by Ctrl-C in a terminal, which all processes get."""
        self.interrupt(lambda process: os.killpg(process.pid, signal.SIGINT), 128 + signal.SIGINT)

    def test_a_terminated_check_leaves_no_process(self):
        """As by `kill` or a service manager: the signal goes to the check alone."""
        self.interrupt(lambda process: process.terminate(), 128 + signal.SIGTERM)

    def test_a_step_that_ignores_signals_is_ended_with_its_check(self):
        self.interrupt(lambda process: process.terminate(), 128 + signal.SIGTERM, 'trap "" TERM; sleep 1000')

    def test_another_check_waits_for_the_steps_of_a_killed_check(self):
        """And not for what a step leaves behind."""
        build = os.path.join(self.folder.name, "build")
        process, _ = self.start("sleep 1000 & echo $! >$NPU_BUILD/left; until [ -e $NPU_BUILD/go ]; do sleep 0.1; done;"
                                "echo '1 passed, 0 failed'")
        process.kill()
        process.wait()
        with open(os.path.join(build, "check", ".lock"), encoding="utf-8") as lock:
            try:
                with self.assertRaises(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            finally:
                fcntl.flock(lock, fcntl.LOCK_UN)
                with open(os.path.join(build, "go"), "w", encoding="utf-8"):
                    pass
        process.communicate()
        with open(os.path.join(build, "left"), encoding="utf-8") as file:
            self.addCleanup(os.kill, int(file.read()), signal.SIGKILL)
        self.assertTrue(self.run_table("check").endswith("1 passed, 0 failed\n"))

    def test_mistakes_around_a_check_are_one_line(self):
        """That names the file and what was expected, for both programs."""
        def line(*arguments, **more):
            output = self.run_table(*arguments, status=2, **more)
            self.assertEqual(1, output.count("\n"), output)
            return output

        for program, arguments in (("check.py", ["check"]), ("test.py", ["a"])):
            self.assertIn("absent: No such file or directory; expected the table of steps",
                          line(*arguments, program=program, NPU_STEPS="absent"))
        self.write(step("a", "echo '1 passed, 0 failed'"))
        file = self.path + "/build"
        self.assertIn(f"check: {file}/check: expected a folder that can be written; NPU_BUILD chooses another",
                      line("check", NPU_BUILD=file))
        self.assertIn(f"check: {self.path}/npu/results: expected a folder that can be written; XDG_CACHE_HOME",
                      line("check", XDG_CACHE_HOME=self.path))
        self.write(step("a", "true").replace("LICENSE", "absent"))
        self.assertRegex(line("check"), "no file of .* is an input of step a: absent")

    def test_a_result_that_cannot_be_kept_counts(self):
        self.write(step("a", "echo '1 passed, 0 failed'"))
        self.run_table("check")
        results = os.path.join(self.folder.name, "npu", "results")
        record, = [name for name in os.listdir(results) if name.endswith(".json")]
        os.remove(os.path.join(results, record))
        os.mkdir(os.path.join(results, record))
        output = self.run_table("check")
        self.assertNotIn("Traceback", output)
        self.assertTrue(output.endswith("1 passed, 0 failed\n"))

    def test_other_programs_speak_english(self):
        self.write(step("a", '[ "$LC_ALL:$LANGUAGE" = C.UTF-8: ] && echo "1 passed, 0 failed"'))
        self.run_table("check", LC_ALL="de_DE.UTF-8", LANGUAGE="de")
        load = "import os, runpy; runpy.run_path('scripts/test.py'); print(os.getenv('LC_ALL'), os.getenv('LANGUAGE'))"
        done = subprocess.run([sys.executable, "-c", load], cwd=TOP, stdout=subprocess.PIPE, text=True, check=True,
                              env=self.environment() | {"LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de"})
        self.assertEqual("C.UTF-8 None\n", done.stdout)

    def test_a_pattern_runs_all_steps(self):
        self.write(step("a1", "echo '1 passed, 0 failed'") + step("a2", "echo '2 passed, 1 failed'")
                   + step("b", "echo '4 passed, 0 failed'"))
        self.assertTrue(self.run_table("a*", program="test.py", status=1).endswith("3 passed, 1 failed\n"))

    def test_a_file_that_changes_while_others_are_built_leaves_no_result(self):
        checkout = os.path.join(self.folder.name, "checkout")
        shutil.copytree(os.path.join(TOP, "scripts"), os.path.join(checkout, "scripts"))
        source = os.path.join(checkout, "source")
        make = (f'[step.make]\nset = "prepare"\npurpose = "p"\nseconds = 1\n'
                f"command = '[ ! -e {source}.edited ] || echo 2 >{source}'\n")
        self.write(make + step("a", "echo '1 passed, 0 failed'", 'needs = ["make"]').replace("LICENSE", "source"))
        for edited, kept in ((True, False), (False, True)):
            with open(source, "w", encoding="utf-8") as file:
                file.write("1")
            if edited:
                with open(source + ".edited", "w", encoding="utf-8"):
                    pass
            else:
                os.remove(source + ".edited")
            self.run_table("check", top=checkout)
            found = self.run_table("check", top=checkout)
            self.assertEqual(kept, "unchanged since" in found, found)

    def test_what_takes_new_random_numbers_is_not_kept(self):
        self.write(step("a", "echo '1 passed, 0 failed'", "keep = false"))
        self.run_table("check")
        self.assertNotIn("unchanged since", self.run_table("check"))

    def test_what_needs_a_failed_step_is_not_run(self):
        self.write('[step.make]\nset = "prepare"\npurpose = "p"\nseconds = 1\ncommand = "false"\n'
                   + step("a", "echo '1 passed, 0 failed'; touch $NPU_BUILD/ran", 'needs = ["make"]'))
        self.assertIn("failed: a; log: not run", self.run_table("check", status=1))
        self.assertFalse(os.path.exists(os.path.join(self.folder.name, "build", "ran")))

    def test_what_cannot_be_had_is_reported_and_does_not_fail(self):
        self.write('[step.get]\nset = "prepare"\npurpose = "p"\nseconds = 1\ncommand = "exit 75"\n'
                   + step("a", "echo '1 passed, 0 failed'", 'needs = ["get"]')
                   + step("b", "echo '2 passed, 0 failed'", 'after = ["get"]'))
        output = self.run_table("check")
        self.assertRegex(output, "NOT AVAILABLE here, and not tested: get, a;")
        self.assertTrue(output.endswith("2 passed, 0 failed\n"))

    def test_continuous_integration_leaves_out_what_does_not_fit(self):
        long = step("long", "false").replace('"check"', '"full"').replace("seconds = 1", "seconds = 100000")
        short = step("short", "echo '5 passed, 0 failed'").replace('"check"', '"full"')
        self.write(step("a", "echo '1 passed, 0 failed'") + long + short)
        output = self.run_table("ci", "--minutes", "10")
        self.assertRegex(output, "left out for lack of time .*: long\n")
        self.assertTrue(output.endswith("6 passed, 0 failed\n"))

    def test_continuous_integration_leaves_out_what_does_not_fit_on_a_slow_machine(self):
        hour = step("hour", "echo '1 passed, 0 failed'").replace('"check"', '"full"')
        hour = hour.replace("seconds = 1", f"seconds = {3600 * os.cpu_count()}")
        count = "for i in $(seq 100000); do :; done; echo '1 passed, 0 failed'"
        self.write(step("slow", count).replace("seconds = 1", "seconds = 0.0001") + hour)
        self.assertRegex(self.run_table("ci", "--minutes", "70"), "left out for lack of time .*: hour\n")

    def test_continuous_integration_ends_after_a_failure(self):
        self.write(step("a", "false") + step("b", "echo '1 passed, 0 failed'").replace('"check"', '"full"'))
        self.assertRegex(self.run_table("ci", "--minutes", "10", status=1), "left out after a failure: b\n")

    def test_unknown_names(self):
        self.write(step("guest-stock", "true"))
        self.assertIn("there is no step stock; did you mean guest-stock?", self.run_table("steps", "stock", status=2))
        self.assertIn("the mode check takes no names", self.run_table("check", "guest-stock", status=2))


class Git(unittest.TestCase):
    """Checkouts that are no repository of git, or a part of another."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.outer = os.path.realpath(folder.name)
        self.top = os.path.join(self.outer, "checkout")
        shutil.copytree(os.path.join(TOP, "scripts"), os.path.join(self.top, "scripts"))
        os.mkdir(os.path.join(self.top, "tests"))
        a_table(os.path.join(self.top, "tests"), step("a", "true"))
        with open(os.path.join(self.outer, ".gitignore"), "w", encoding="utf-8") as file:
            file.write("checkout/\n")

    def init(self, folder):
        subprocess.run(["git", "init", "-q", folder], check=True)

    def run_python(self, *arguments):
        environment = {name: value for name, value in os.environ.items() if name != "NPU_STEPS"}
        return subprocess.run([sys.executable, *arguments], cwd=os.path.join(self.top, "scripts"), env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)

    def test_a_repository_around_the_checkout_is_not_asked(self):
        self.init(self.outer)
        target = os.path.join(self.outer, "copy")
        files = "import checkout; checkout.copy('../../copy'); print(*checkout.table.files_of_checkout())"
        found = self.run_python("-c", files)
        self.assertEqual(0, found.returncode, found.stdout)
        self.assertIn("scripts/check.py", found.stdout.split())
        self.assertNotIn("__pycache__", found.stdout)
        self.assertTrue(os.path.exists(os.path.join(target, "scripts", "check.py")))

    def test_quick_prints_the_reason_of_git(self):
        def output(*arguments):
            done = self.run_python("check.py", "quick", *arguments)
            self.assertEqual(2, done.returncode, done.stdout)
            return done.stdout

        self.assertIn("not a git repository", output())
        self.init(self.outer)
        self.assertIn(f"is no checkout of git, but part of {self.outer}", output())
        self.init(self.top)
        self.assertIn("bad revision 'absent'", output("--since", "absent"))


class OneTest(unittest.TestCase):
    """Patterns of scripts/test.py."""

    def setUp(self):
        spec = importlib.util.spec_from_file_location("one_test", os.path.join(TOP, "scripts", "test.py"))
        self.program = importlib.util.module_from_spec(spec)
        with mock.patch.dict(os.environ):
            spec.loader.exec_module(self.program)

    def run_pattern(self, pattern):
        """The name of the function that runs it, and its arguments but the first."""
        files = {"test_one": "tests/unit/a.c", "test_two": "tests/unit/b.c", "One.one": "tests/unit/a.cpp",
                 "case_one": "tests/guest/test_x.c", "case_two": "tests/guest/test_x.c", "case_y": "tests/guest/y.c"}
        tests = {"a": {"command": ["bin/a"]}, "b": {"command": ["bin/b"]}, "c": {"command": ["bin/c"]}}
        tree = mock.Mock(tests=tests, labels=lambda: {"label-a", "label-b"},
                         property=lambda test, _: ["label-" + test],
                         program_of=lambda source: ("program", "bin/" + source[-3]))
        suites = {"suite-x": [], "suite-y": []}
        with contextlib.ExitStack() as stack:
            for name, value in (("Tree", lambda: tree), ("suites", lambda: suites), ("cases_in_sources", lambda: files),
                                ("output_of", lambda _: "stock")):
                stack.enter_context(mock.patch.object(self.program, name, value))
            stack.enter_context(mock.patch.object(sys, "argv", ["test.py", pattern]))
            stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
            # As execv, none of them returns.
            runs = {name: stack.enter_context(mock.patch.object(self.program, name, side_effect=SystemExit))
                    for name in ("run_suite", "run_ctest", "run_cases")}
            try:
                self.program.main()
            except SystemExit as end:
                called = [(name, *run.call_args.args) for name, run in runs.items() if run.called]
                return called[0] if called else end.code

    def test_a_pattern_runs_all_that_it_matches(self):
        self.assertEqual(["a", "b"], self.run_pattern("label-*")[2])
        self.assertEqual(["a", "b"], self.run_pattern("test_*")[2])
        self.assertEqual(("run_suite", "x", "stock", "case_*o*"), self.run_pattern("case_*o*"))
        self.assertEqual(("run_suite", "x", "stock", "case_one"), self.run_pattern("case_on*"))

    def test_what_cannot_run_together_is_an_error(self):
        self.assertRegex(self.run_pattern("suite-*"), "one runs at a time:\n +suite suite-x\n +suite suite-y")
        self.assertRegex(self.run_pattern("case_*"), "one runs at a time:\n +suite x\n +suite y")
        self.assertRegex(self.run_pattern("*one*"), "one runs at a time:\n +GoogleTest\n +cmocka\n +suite x")


class Quick(unittest.TestCase):
    """The unit tests of `make quick`."""

    def test_a_label_without_a_test_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "CTestTestfile.cmake"), "w", encoding="utf-8") as file:
                file.write("add_test(one true)\nset_tests_properties(one PROPERTIES LABELS some)\n")
            self.assertEqual(0, quick.run_labels(folder, ["other", "some"]))
            self.assertNotEqual(0, quick.run_labels(folder, ["other"]))


class Counts(unittest.TestCase):
    """Counts in the last lines of programs."""

    def test_counts(self):
        self.assertEqual((3, 0), result.count("== a: 2 passed, 1 failed\n3 passed, 0 failed\n"))
        self.assertEqual((8, 2), result.count("80% tests passed, 2 tests failed out of 10\n"))
        self.assertEqual((7, 0), result.count("Ran 7 tests in 0.1s\n\nOK\n"))
        self.assertEqual((4, 3), result.count("Ran 7 tests in 0.1s\n\nFAILED (failures=1, errors=2)\n"))
        self.assertEqual((0, 0), result.count("nothing\n"))

    def test_a_skipped_test_did_not_pass(self):
        self.assertEqual((5, 0), result.count("Ran 7 tests in 0.1s\n\nOK (skipped=2)\n"))
        self.assertEqual((6, 0), result.count("Ran 7 tests in 0.1s\n\nOK (skipped=1, expected failures=2)\n"))
        self.assertEqual((3, 2), result.count("Ran 7 tests in 0.1s\n\nFAILED (failures=1, errors=1, skipped=2)\n"))
        self.assertEqual((0, 1), result.count("Ran 7 tests in 0.1s\n\nOK (skipped=7)\n"))
        self.assertEqual((3, 1), result.count("Ran 3 tests in 1s\n\nOK\nRan 1 test in 0.1s\n\nOK (skipped=1)\n"))

    def test_cmake_arguments(self):
        self.assertEqual('"a \\"b\\" \\$c \\\\d"', plan.quoted('a "b" $c \\d'))


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=1).result
    bad = len(program.failures) + len(program.errors)
    print(f"{program.testsRun - bad} passed, {bad} failed")
    sys.exit(1 if bad else 0)
