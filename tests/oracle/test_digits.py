#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Tests of the committed digits network (networks/digits): that its files fit each other, that another evaluator than
the one that trained it finds the same, and that its exact arithmetic is what it says. Retraining is train.py
--check."""

import os
import struct
import sys
import unittest

import numpy as np

from onnx_reader import load_model
from onnx_ref import evaluate

DIGITS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "networks", "digits")
sys.path.insert(0, DIGITS)

import exact  # noqa: E402  (found through the line above)


def read(name):
    with open(os.path.join(DIGITS, name), "rb") as file:
        return file.read()


def pictures():
    """(pictures [N,1,8,8] scaled as the network wants them, labels), read as the README describes the files."""
    images, labels = read("test_images.bin"), read("test_labels.bin")
    magic, count, rows, cols = struct.unpack("<4sIII", images[:16])
    assert magic == b"QDIM" and labels[:16] == struct.pack("<4sIII", b"QDLB", count, 1, 1)
    assert len(images) == 16 + count * rows * cols and len(labels) == 16 + count
    x = np.frombuffer(images, np.uint8, offset=16).reshape(count, 1, rows, cols)
    return x, np.frombuffer(labels, np.uint8, offset=16)


class Network(unittest.TestCase):
    def test_files_hold_what_the_readme_says(self):
        x, labels = pictures()
        self.assertEqual(x.shape, (450, 1, 8, 8))
        self.assertEqual((int(x.min()), int(x.max())), (0, 16))
        self.assertEqual(sorted(set(labels.tolist())), list(range(10)))
        self.assertEqual(len(read("test_probs.bin")), 400 * 10 * 4)

    def test_graph_uses_the_operators_it_should(self):
        model = load_model(os.path.join(DIGITS, "digits.onnx"))
        self.assertEqual([n.op for n in model.nodes], ["Conv", "Relu", "MaxPool"] * 2 + ["Flatten", "Gemm", "Softmax"])
        self.assertEqual((model.opset, model.inputs[0].shape, model.outputs[0].shape), (13, [1, 1, 8, 8], [1, 10]))

    def test_oracle_finds_the_committed_probabilities_and_the_accuracy(self):
        model = load_model(os.path.join(DIGITS, "digits.onnx"))
        x, labels = pictures()
        expected = np.frombuffer(read("test_probs.bin"), "<f4").reshape(400, 10)
        found = np.concatenate([
            evaluate(model, {"image": (p[None] / 16).astype(np.float32)})["probabilities"] for p in x])
        self.assertLessEqual(float(np.abs(found[:400] - expected).max()), 1e-6)
        self.assertEqual(int(np.sum(found.argmax(axis=1) == labels)), 446)
        self.assertEqual(int(np.sum(expected.argmax(axis=1) == labels[:400])), 396)


class Exact(unittest.TestCase):
    def test_sums_do_not_depend_on_their_order(self):
        random = np.random.RandomState(3)
        a, b = (exact.snap(random.uniform(-4, 4, (300,)), 16) for _ in range(2))
        whole = exact.matmul(a[None], 16, b[:, None], 16).item()
        for _ in range(20):
            order = random.permutation(300)
            self.assertEqual(sum((a[order] * b[order]).tolist()), whole)

    def test_what_might_round_is_refused(self):
        with self.assertRaises(OverflowError):
            exact.matmul(np.ones((1, 1024)), 24, np.full((1024, 1), 4.0), 24)

    def test_exp(self):
        x = np.linspace(-59, 0, 10001)
        np.testing.assert_allclose(exact.exp(x), np.exp(x), rtol=1e-14)
        self.assertEqual(exact.exp(np.array([0.0, -1e300])).tolist()[0], 1.0)


if __name__ == "__main__":
    unittest.main()
