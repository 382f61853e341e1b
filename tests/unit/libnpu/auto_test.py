#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""auto_test.py NPU_LIBNPU_TEST BMRT_TEST BMODEL_SEEDS: what programs do on a machine without a card, and say of it.

A program that takes the simulator without being told to says so, once; failures of BMLIB are printed; NPU_QUIET=1
silences both. NPU_REQUIRE=drm makes it an error. Runs where there is no card.
"""
import os
import subprocess
import sys
import tempfile
import unittest

SEEDS = sys.argv.pop(3)
BMRT_TEST = sys.argv.pop(2)
PROGRAM = sys.argv.pop(1)
NOTICE = "using the simulator"
FAILURE = "[bmlib][error] bm_dev_free: "


def run(command, **variables):
    clean = {key: value for key, value in os.environ.items() if not key.startswith("NPU_")}
    return subprocess.run(command, env={**clean, **variables}, capture_output=True, text=True, check=False)


def said(**variables):
    """Standard error of a program that opens a device twice, and frees what is no handle."""
    done = run([PROGRAM, "--child", "open_and_fail"], **variables)
    done.check_returncode()
    return done.stderr


class StandardError(unittest.TestCase):
    def test_the_simulator_is_told_once(self):
        self.assertEqual(said().count(NOTICE), 1)
        self.assertEqual(said(NPU_DEVICE="auto").count(NOTICE), 1)

    def test_who_asks_for_it_is_not_told(self):
        self.assertNotIn(NOTICE, said(NPU_DEVICE="sim"))

    def test_failures_are_printed(self):
        self.assertIn(FAILURE, said(NPU_DEVICE="sim"))

    def test_quiet_is_silent(self):
        self.assertEqual(said(NPU_QUIET="1"), "")
        self.assertIn(NOTICE, said(NPU_QUIET="0"))


class Requirement(unittest.TestCase):
    """Whoever forbids the simulator does not get it, whichever library asks."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        run([SEEDS, cls.folder.name]).check_returncode()

    def bmrt_test(self, **variables):
        return run([BMRT_TEST, "--bmodel", f"{self.folder.name}/sample.bmodel"], **variables)

    def test_bmrt_test_tells_that_it_is_the_simulator(self):
        done = self.bmrt_test()
        self.assertEqual((done.returncode, done.stderr.count(NOTICE)), (0, 1))
        self.assertIn("NPU_REQUIRE=drm", done.stderr)

    def test_bmrt_test_fails_where_it_must_not_be(self):
        for variables in ({"NPU_REQUIRE": "drm"}, {"NPU_DEVICE": "drm"}):
            done = self.bmrt_test(**variables)
            self.assertEqual(done.returncode, 1)
            self.assertNotIn(NOTICE, done.stderr)
            self.assertIn("bm_dev_request: no NPU device: there is no /dev/accel/accel", done.stderr)
            self.assertNotIn("launch total time", done.stdout)

    def test_contradictions_are_named(self):
        done = self.bmrt_test(NPU_REQUIRE="drm", NPU_DEVICE="sim")
        self.assertEqual(done.returncode, 1)
        self.assertIn("NPU_DEVICE wants transport sim, but NPU_REQUIRE allows drm only", done.stderr)

    def test_requiring_the_simulator_is_asking_for_it(self):
        done = self.bmrt_test(NPU_REQUIRE="sim")
        self.assertEqual((done.returncode, done.stderr.count(NOTICE)), (0, 0))

    def test_the_program_can_forbid_it(self):
        done = run([PROGRAM, "--child", "requires_a_card"])
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    if os.path.exists("/dev/accel/accel0"):
        sys.exit("this machine has a card: the test is for one without")
    unittest.main()
