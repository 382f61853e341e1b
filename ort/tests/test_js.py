#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A program in JavaScript that was written for the CPU, and the same with one line changed.

usage: test_js.py NODE_MODULES MODULE DIGITS NETWORKS LIBRARIES
"""
import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

NODE_MODULES, MODULE, DIGITS, NETWORKS, LIBRARIES = (os.path.abspath(a) for a in sys.argv[1:6])
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run_cpu.js")


def run(folder, **environment):
    """The program in a folder that has onnxruntime-node, as npm would have made it."""
    os.symlink(NODE_MODULES, os.path.join(folder, "node_modules"))
    shutil.copy(PROGRAM, os.path.join(folder, "p.js"))
    env = {**os.environ, "NPU_DEVICE": os.environ.get("NPU_DEVICE", "sim"), "NPU_QUIET": "1",
           "QNPU_LIBRARIES": LIBRARIES, **environment}
    done = subprocess.run(["node", "p.js", DIGITS, NETWORKS], cwd=folder, env=env, capture_output=True, text=True,
                          check=False)
    return done.returncode, done.stdout, done.stderr


class JavaScript(unittest.TestCase):
    def run_in_folder(self, **environment):
        with tempfile.TemporaryDirectory() as folder:
            status, out, err = run(folder, **environment)
            traces = [pathlib.Path(f).read_text(encoding="utf-8") for f in glob.glob(folder + "/trace*")]
            return status, out, err, traces

    def test_results_are_those_of_the_cpu(self):
        status, expected, err, traces = self.run_in_folder(TEST_PROFILE="trace")
        self.assertEqual(status, 0, expected + err)
        self.assertNotIn("QNPU", "".join(traces))
        status, found, err, traces = self.run_in_folder(TEST_RUNTIME=MODULE, TEST_PROFILE="trace")
        self.assertEqual(status, 0, found + err)
        self.assertEqual(found, expected)
        self.assertIn("QNPUExecutionProvider", "".join(traces))
        self.assertIn("CPUExecutionProvider", "".join(traces))

    def test_the_library_in_front_of_an_unchanged_program(self):
        status, expected, err, _ = self.run_in_folder()
        self.assertEqual(status, 0, expected + err)
        status, found, err, traces = self.run_in_folder(LD_PRELOAD=os.path.join(LIBRARIES, "libqnpu_ort.so"),
                                                        TEST_PROFILE="trace")
        self.assertEqual((status, found), (0, expected), err)
        self.assertIn("QNPUExecutionProvider", "".join(traces))

    def test_wrong_options_are_named(self):
        options = json.dumps({"ep": {"qnpuexecutionprovider": {"cores": "99"}}})
        status, out, err, _ = self.run_in_folder(TEST_RUNTIME=MODULE, TEST_OPTIONS=options)
        self.assertEqual(status, 1, out + err)
        self.assertIn("option cores=99", out + err)
        status, out, err, _ = self.run_in_folder(TEST_RUNTIME=MODULE, QNPU_ORT_OPTIONS="nonsense=1")
        self.assertEqual(status, 1, out + err)
        self.assertIn("option nonsense is not known", out + err)

    def test_a_wrong_folder_of_libraries_is_named(self):
        status, out, err, _ = self.run_in_folder(TEST_RUNTIME=MODULE, QNPU_LIBRARIES="/nowhere")
        self.assertEqual(status, 1, out + err)
        self.assertIn("there is no libqnpu_ort.so in QNPU_LIBRARIES=/nowhere", out + err)

    def test_why_there_is_no_card(self):
        status, out, err, _ = self.run_in_folder(TEST_RUNTIME=MODULE, NPU_DEVICE="x")
        self.assertEqual(status, 1, out + err)
        self.assertIn("NPU_DEVICE=x: expected drm, sim or auto", out + err)
        if not glob.glob("/dev/accel/*"):
            status, out, err, _ = self.run_in_folder(TEST_RUNTIME=MODULE, NPU_DEVICE="drm")
            self.assertEqual(status, 1, out + err)
            self.assertIn("there is no NPU: no NPU device: there is no /dev/accel/accel*", out + err)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
