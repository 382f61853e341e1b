#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Tests of the network generator and of the case files: complete, repeatable, in the layout that bmrt_test reads."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from onnx_reader import load_model, parse_model
from onnx_ref import evaluate, unsupported
import gen_nets

HERE = os.path.dirname(os.path.abspath(__file__))

# What a network compiler has to know at least; each must occur alone in the quick list.
OPERATORS = {
    "Conv", "Gemm", "MatMul", "Add", "Sub", "Mul", "Div", "Relu", "Clip", "Sigmoid", "Tanh", "MaxPool", "AveragePool",
    "GlobalAveragePool", "BatchNormalization", "Flatten", "Reshape", "Transpose", "Softmax", "Identity",
}


def tool(name, *args):
    return subprocess.run([sys.executable, os.path.join(HERE, name), *args], capture_output=True, text=True,
                          timeout=300,
                          check=False)


def models(level, extra=False):
    for name, make in gen_nets.catalogue(level, extra):
        yield name, parse_model(gen_nets.build(name, make, 1).graph.serialize())


class Catalogue(unittest.TestCase):
    def test_sizes(self):
        self.assertIn(len(gen_nets.catalogue("quick", False)), range(55, 75))
        self.assertIn(len(gen_nets.catalogue("full", False)), range(290, 330))

    def test_quick_is_part_of_full(self):
        full = [name for name, _ in gen_nets.catalogue("full", False)]
        self.assertLessEqual({name for name, _ in gen_nets.catalogue("quick", False)}, set(full))

    def test_every_operator_occurs_alone(self):
        alone = {m.nodes[0].op for _, m in models("quick") if len(m.nodes) == 1}
        self.assertEqual(OPERATORS - alone, set())

    def test_only_the_extra_list_leaves_the_common_operators(self):
        known = OPERATORS | {"Constant"}
        self.assertEqual({n.op for _, m in models("full") for n in m.nodes} - known, set())
        self.assertEqual([unsupported(m) for _, m in models("full", True) if unsupported(m)], [])


    def test_networks_of_parts_are_covered_by_the_oracle(self):
        parts = gen_nets.catalogue("quick", False, True)[len(gen_nets.catalogue("quick", False)):]
        self.assertGreater(len(parts), 5)
        for name, make in parts:
            self.assertEqual(unsupported(parse_model(gen_nets.build(name, make, 1).graph.serialize())), [], name)


class Generated(unittest.TestCase):
    def test_cases_hold_the_networks_own_inputs_and_outputs(self):
        with tempfile.TemporaryDirectory() as folder:
            done = tool("gen_nets.py", folder, "--quick", "--extra")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
                manifest = json.load(file)
            self.assertEqual(len(manifest), len(gen_nets.catalogue("quick", True)))
            for entry in manifest:
                with self.subTest(entry["name"]):
                    self.check(os.path.join(folder, entry["dir"]), entry)

    def check(self, folder, entry):
        model = load_model(os.path.join(folder, "model.onnx"))
        self.assertEqual([list(o.shape) for o in model.outputs], [o["shape"] for o in entry["outputs"]])
        data, feeds = np.fromfile(os.path.join(folder, "input_ref_data.dat"), "<f4"), {}
        for info in model.inputs:
            size = int(np.prod(info.shape))
            feeds[info.name], data = data[:size].reshape(info.shape), data[size:]
        self.assertEqual(len(data), 0)
        expected = np.concatenate([a.ravel() for a in evaluate(model, feeds).values()])
        np.testing.assert_array_equal(np.fromfile(os.path.join(folder, "output_ref_data.dat"), "<f4"), expected)

    def test_a_seed_decides_everything(self):
        found = []
        for seed in ("1", "1", "2"):
            with tempfile.TemporaryDirectory() as folder:
                self.assertEqual(tool("gen_nets.py", folder, "--seed", seed, "--only", "chain_mlp").returncode, 0)
                found.append([np.fromfile(os.path.join(folder, "chain_mlp", name), np.uint8).tobytes()
                              for name in ("model.onnx", "input_ref_data.dat", "output_ref_data.dat")])
        self.assertEqual(found[0], found[1])
        self.assertTrue(all(a != b for a, b in zip(found[0], found[2])))

    def test_selection(self):
        listed = tool("gen_nets.py", "--full", "--list", "--only", "conv*", "--except", "conv1d*").stdout.splitlines()
        self.assertTrue(listed and all(l.startswith("conv_") for l in listed))
        nothing = tool("gen_nets.py", "--list", "--only", "nosuchthing")
        self.assertEqual((nothing.returncode, nothing.stderr), (1, "gen_nets: no network has such a name\n"))


class CaseTools(unittest.TestCase):
    def test_make_case_and_shared_case_agree_with_the_oracle(self):
        with tempfile.TemporaryDirectory() as folder:
            tool("gen_nets.py", folder, "--only", "chain_two_*", "--no-cases")
            for name in ("chain_two_inputs", "chain_two_outputs"):
                path = os.path.join(folder, name, "model.onnx")
                self.assertEqual(tool("make_case.py", path, os.path.join(folder, "a"), "--seed", "5").returncode, 0)
                model = load_model(path)
                raw, feeds = np.fromfile(os.path.join(folder, "a", "input_ref_data.dat"), "<f4"), {}
                for info in model.inputs:
                    size = int(np.prod(info.shape))
                    feeds[info.name], raw = raw[:size].reshape(info.shape), raw[size:]
                arrays = {"in_" + n: a for n, a in feeds.items()}
                arrays.update(("out_" + n, a) for n, a in evaluate(model, feeds).items())
                np.savez(os.path.join(folder, "r.npz"), **arrays)
                done = tool("shared_case.py", os.path.join(folder, "r.npz"), path, os.path.join(folder, "b"))
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                for file in ("input_ref_data.dat", "output_ref_data.dat"):
                    with open(os.path.join(folder, "a", file), "rb") as one, open(os.path.join(folder, "b", file),
                                                                                  "rb") as two:
                        self.assertEqual(one.read(), two.read())

    def test_errors_are_one_line_and_a_status(self):
        for name, args in (("make_case.py", ("/dev/null", "/nowhere")), ("onnx_ref.py", ("/no/such/file",)),
                           ("shared_case.py", ("/dev/null", "/dev/null", "/nowhere"))):
            done = tool(name, *args)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
            self.assertTrue(done.stderr.startswith(name[:-3] + ": "))


if __name__ == "__main__":
    unittest.main()
