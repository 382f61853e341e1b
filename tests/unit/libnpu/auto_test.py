#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""auto_test.py NPU_LIBNPU_TEST: what programs print on standard error by themselves.

A program that takes the simulator without being told to says so, once; failures of BMLIB are printed; NPU_QUIET=1
silences both. Runs where there is no card.
"""
import os
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)
NOTICE = "using the simulator"
FAILURE = "[bmlib][error] bm_dev_free: "


def said(**variables):
    """Standard error of a program that opens a device twice, and frees what is no handle."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("NPU_")}
    run = subprocess.run([PROGRAM, "--child", "open_and_fail"], env={**clean, **variables}, capture_output=True,
                         text=True, check=True)
    return run.stderr


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


if __name__ == "__main__":
    if os.path.exists("/dev/accel/accel0"):
        sys.exit("this machine has a card: the test is for one without")
    unittest.main()
