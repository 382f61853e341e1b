#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Tests of the tables of suites and boards, of plans, and of run.sh's counts. They boot no board.

usage: plan_test.py BUILD    the folder of a build, whose targets are compared with those of the table"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
os.environ.pop("NPU_SAMPLE", None)

import boards  # pylint: disable=wrong-import-position  # noqa: E402
import plan  # pylint: disable=wrong-import-position  # noqa: E402

CHECK = os.path.join(plan.HERE, "check.py")


def targets():
    """All CMake targets."""
    said = subprocess.run(["cmake", "--build", BUILD, "--target", "help"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    return set(re.findall(r"(?m)^(?:\.\.\. )?([\w.-]+)(?:: phony)?$", said))


def names(boot):
    return [suite.name for suite in plan.select(boot)[0]]


def check(*arguments, **environment):
    """check.py's status and output."""
    done = subprocess.run([CHECK, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          env={**os.environ, **environment})
    return done.returncode, done.stdout


def run_plan(text, **environment):
    """run.sh on the host: its output."""
    with tempfile.NamedTemporaryFile("w", suffix=".plan") as file:
        file.write(text)
        file.flush()
        return subprocess.run([os.path.join(plan.HERE, "run.sh"), file.name], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False,
                              env={**os.environ, **environment}).stdout


class Tables(unittest.TestCase):
    def test_every_boot_of_every_run_has_a_plan(self):
        for run in plan.runs():
            for boot in plan.boots(run):
                if not boot.host:
                    self.assertRegex(plan.plan(boot), r"(?m)^\w\S*\t\S+\t.+$", run)

    def test_every_target_exists(self):
        found = targets()
        for suite in plan.suites().values():
            self.assertLessEqual(set(suite.targets), found, suite.name)

    def test_every_suite_is_in_a_run(self):
        run = {name for run in plan.runs() for boot in plan.boots(run) if not boot.host for name in names(boot)}
        self.assertEqual(run, set(plan.suites()))

    def test_every_reason_belongs_to_a_selection(self):
        used = {name for run in plan.runs() for boot in plan.boots(run) for name in (*boot.without, boot.only)}
        for suite in plan.suites().values():
            self.assertLessEqual(set(suite.apart), used, suite.name)

    def test_stock_runs_each_suite_of_a_card_once(self):
        found = [name for boot in plan.boots("stock") for name in names(boot)]
        self.assertEqual(len(found), len(set(found)))
        able = [suite.name for suite in plan.suites().values()
                if suite.group != "named" and {"card", "sleep", "programs-32"}.issuperset(suite.needs)]
        self.assertEqual(sorted(found), sorted(able))

    def test_halves_and_samples_are_the_whole(self):
        found = set()
        for sample in "012":
            os.environ["NPU_SAMPLE"] = sample
            for run in ("debug-use", "debug-break"):
                found |= {name for boot in plan.boots(run) for name in names(boot)}
        del os.environ["NPU_SAMPLE"]
        self.assertEqual(found, {name for boot in plan.boots("debug") for name in names(boot)})

    def test_the_same_tree_has_the_same_plan(self):
        self.assertEqual(check("--plan", "-", "debug-use"), check("--plan", "-", "debug-use", NPU_SAMPLE="0"))
        self.assertNotEqual(check("--plan", "-", "debug-use"), check("--plan", "-", "debug-use", NPU_SAMPLE="1"))


class Requests(unittest.TestCase):
    def refused(self, text, *arguments, **environment):
        status, output = check(*arguments, **environment)
        self.assertNotEqual(status, 0)
        self.assertIn(text, output)

    def test_what_does_not_exist_is_refused(self):
        self.refused("there is no run no; there are: ", "no")
        self.refused("there is no suite no; there are: ", "--suite", "no")
        self.refused("there is no board no; there are: ", "--suite", "jobs", "--board", "no")
        self.refused("there is no profile no; there are: ", "--suite", "jobs", "--profile", "no", "--plan", "-")
        self.refused("expected a number from 0 to 9", "--plan", "-", "debug-use", NPU_SAMPLE="10")

    def test_a_suite_without_meaning_on_a_board_is_refused(self):
        self.refused("coherency does not run on the board stock: it is for an NPU in a SoC", "--suite", "coherency")

    def test_suites_of_two_cards_get_two(self):
        self.assertIn("--cards 2", check("--suite", "two_cards", "--plan", "-")[1])

    def test_needs_are_targets_of_make(self):
        self.assertEqual(check("--suite", "jobs", "--needs"), (0, "qemu kernel-stock module\n"))
        self.assertIn("kernel-debug-arm64 module-debug-arm64 PAGES=64K\n", check("deep-pages", "--needs")[1])


class Runner(unittest.TestCase):
    CLOSINGS = [("[  PASSED  ] 3 test(s).\n[  PASSED  ] 2 test(s).\n", 5, 0),
                ("[  PASSED  ] 1 test.\n[  FAILED  ] 2 tests, listed below:\n[  FAILED  ] A.b\n", 1, 2),
                ("7 passed, 1 failed\n", 7, 1),
                ("Ran 9 tests in 1.2s\n\nOK (skipped=2)\n", 7, 0),
                ("Ran 4 tests in 0.1s\n\nFAILED (failures=1, errors=2)\n", 1, 3)]

    def test_tests_are_counted(self):
        for text, passed, failed in self.CLOSINGS:
            with tempfile.NamedTemporaryFile("w") as file:
                file.write(text)
                file.flush()
                said = run_plan(plan.line("some", f"cat {file.name}"))
            self.assertRegex(said, rf"(?m)^== some: {passed} passed, {failed} failed, \d+ s$")

    def test_a_suite_that_dies_or_runs_nothing_has_failed(self):
        for command in ("sh -c 'echo 1 passed, 0 failed; exit 3'", "true", "no-such-program"):
            self.assertRegex(run_plan(plan.line("some", command)), r"(?m)^== some: \d passed, 1 failed, ", command)

    def test_a_suite_that_the_host_counts_fails_by_its_status(self):
        self.assertRegex(run_plan(plan.line("some", "true", ["host"])), r"(?m)^== some: 0 passed, 0 failed, ")
        self.assertRegex(run_plan(plan.line("some", "false", ["host"])), r"(?m)^== some: 0 passed, 1 failed, ")

    def test_rounds_end_with_a_failure(self):
        self.assertEqual(run_plan(plan.line("some", "echo 1 passed, 0 failed"), NPU_ROUNDS="3").count("== some:"), 3)
        self.assertEqual(run_plan(plan.line("some", "false"), NPU_ROUNDS="3").count("== some:"), 1)


class Outputs(unittest.TestCase):
    def collect(self, text, status):
        output = boards.Output()
        for row in text.splitlines():
            output.feed(row)
        result = boards.Result()
        boards.collect(result, boards.Ran(status, output, "LOG"), lambda name: f"again {name}", "plan-test")
        return result

    def test_a_failed_test_is_named_with_its_log_and_command(self):
        result = self.collect("== a\n[  FAILED  ] some_test\n== a: 3 passed, 1 failed, 2 s\n== kernel log\n"
                              "3 passed, 1 failed\n", 1)
        self.assertEqual((result.passed, result.failed), (3, 1))
        self.assertRegex(str(result.failures[0]), r"^failed: a: some_test \(log .*/plan-test-a\.log\): again a$")
        os.unlink(result.failures[0].log)

    def test_a_suite_may_print_lines_like_those_of_the_loop(self):
        output = boards.Output()
        for line in ("== runtime", "== /x/upload_test", "3 passed, 0 failed", "== runtime: 3 passed, 0 failed, 1 s"):
            output.feed(line)
        self.assertEqual([("runtime", 3, 0, True)],
                         [(one.name, one.passed, one.failed, one.ended) for one in output.sections])

    def test_a_board_that_ends_early_has_failed(self):
        result = self.collect("== a\n== a: 3 passed, 0 failed, 2 s\n== b\nsome line\n", 125)
        self.assertEqual((result.passed, result.failed), (3, 1))
        self.assertIn("b: the board ended before it did", str(result.failures[0]))
        os.unlink(result.failures[0].log)

    def test_a_warning_of_the_kernel_fails_a_run_whose_suites_passed(self):
        passed = "== a\n== a: 3 passed, 0 failed, 2 s\n== kernel log\n3 passed, 0 failed\n"
        self.assertEqual(self.collect(passed, 0).failed, 0)
        result = self.collect(passed + "npu-vm: the kernel reported: WARNING: something\n", 125)
        self.assertEqual(result.failed, 1)
        self.assertTrue(re.search(r"^failed: npu-vm: the kernel reported: WARNING: something \(log LOG\): again None$",
                                  str(result.failures[0])))


if __name__ == "__main__":
    BUILD = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
