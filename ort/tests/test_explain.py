#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What npuc --explain says of networks that cannot be compiled as a whole.

usage: test_explain.py NPUC NETWORKS DIGITS
"""
import os
import subprocess
import sys
import unittest

NPUC, NETWORKS, DIGITS = sys.argv[1:4]


def explain(*arguments):
    done = subprocess.run([NPUC, "--explain", *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


class Explain(unittest.TestCase):
    def network(self, name, *more):
        status, out, err = explain(os.path.join(NETWORKS, name + ".onnx"), *more)
        self.assertEqual((status, err), (0, ""))
        return out.splitlines()

    def test_all_on_the_npu(self):
        self.assertEqual(self.network("conv"), ["2 nodes: 2 on the NPU, 0 on the CPU in the .bmodel, 0 not compiled"])

    def test_a_node_that_no_compiler_can_take(self):
        lines = self.network("partly")
        self.assertRegex(lines[0], "^not compiled: NonZero 'NonZero_2': .+")
        self.assertRegex(lines[1], "^  help: .+")
        self.assertEqual(lines[2:], ["5 nodes: 4 on the NPU, 0 on the CPU in the .bmodel, 1 not compiled"])

    def test_what_the_chip_has_no_commands_for(self):
        lines = self.network("wide")
        self.assertEqual(lines[0], "CPU: Add 'Add_0': the chip has no commands for it with 'a', which is int64")
        self.assertRegex(lines[1], "^CPU: MatMul 'MatMul_1': it is less work than it takes to go from the CPU to the")
        self.assertEqual(lines[-2:], ["3 nodes: 1 on the NPU, 2 on the CPU in the .bmodel, 0 not compiled",
                                      "2 more that npuc adds: 0 on the NPU, 2 on the CPU"])

    def test_an_open_batch_is_1(self):
        for more in (), ("--shape", "x=2,3,8,8"):
            self.assertRegex(self.network("batch", *more)[-1], "^4 nodes: .* 0 not compiled$")

    def test_errors(self):
        status, out, err = explain(os.path.join(NETWORKS, "none.onnx"))
        self.assertEqual((status, out), (1, ""))
        self.assertIn("none.onnx", err)
        status, out, err = explain(os.path.join(DIGITS, "digits.onnx"), "-o", "x.bmodel")
        self.assertEqual(status, 2)
        self.assertFalse(os.path.exists("x.bmodel"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
