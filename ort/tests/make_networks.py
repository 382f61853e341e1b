#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Writes the networks of the plug-in's tests.

usage: make_networks.py FOLDER
"""
import os
import sys

import numpy as np

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "oracle"))

from onnx_writer import Graph  # noqa: E402  the path is set above

RANDOM = np.random.default_rng(7)


def weights(*shape):
    return RANDOM.uniform(-0.5, 0.5, shape).astype(np.float32)


def simple(name, nodes, *shapes, opset=13):
    """A network: `nodes` makes its outputs of its inputs, which have these shapes."""
    g = Graph(name, opset)
    outputs = nodes(g, *[g.input(f"x{i}", shape) for i, shape in enumerate(shapes)])
    for output in outputs if isinstance(outputs, tuple) else (outputs,):
        g.output(output)
    return g


def conv(g, x, inputs, outputs, size=3):
    pad = size // 2
    return g.node("Conv", [x, g.const(weights(outputs, inputs, size, size)), g.const(weights(outputs))],
                  kernel_shape=[size, size], pads=[pad] * 4)


def residual(g, x):
    y = g.node("Relu", [conv(g, x, 8, 8)])
    y = g.node("Add", [conv(g, y, 8, 8), x])
    y = g.node("GlobalAveragePool", [g.node("Relu", [y])])
    y = g.node("Gemm", [g.node("Flatten", [y]), g.const(weights(8, 5)), g.const(weights(5))])
    return g.node("Softmax", [y], axis=1)


def attention(g, x):
    q, k, v = (g.node("MatMul", [x, g.const(weights(16, 16))]) for _ in range(3))
    scores = g.node("MatMul", [q, g.node("Transpose", [k], perm=[0, 2, 1])])
    scores = g.node("Softmax", [g.node("Mul", [scores, g.const(np.float32(0.25))])], axis=-1)
    return g.node("MatMul", [scores, v])


def quantized(g, x):
    scale, zero = g.const(np.float32(0.02)), g.const(np.int8(0))
    x = g.node("DequantizeLinear", [g.node("QuantizeLinear", [x, scale, zero]), scale, zero])
    w = g.const(RANDOM.integers(-100, 100, (4, 3, 3, 3)).astype(np.int8))
    w = g.node("DequantizeLinear", [w, g.const(np.float32(0.01)), zero])
    y = g.node("Relu", [g.node("Conv", [x, w], kernel_shape=[3, 3])])
    out = g.const(np.float32(0.05))
    return g.node("DequantizeLinear", [g.node("QuantizeLinear", [y, out, zero]), out, zero])


# Those that the NPU computes as a whole.
WHOLE = [
    simple("add", lambda g, a, b: g.node("Add", [a, b]), (2, 3, 4), (2, 3, 4)),
    simple("broadcast", lambda g, a, b: g.node("Mul", [a, b]), (2, 3, 4), (3, 1)),
    simple("conv", lambda g, x: g.node("Relu", [conv(g, x, 3, 6)]), (2, 3, 12, 10)),
    simple("pool", lambda g, x: g.node("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2]), (1, 4, 8, 8)),
    simple("average", lambda g, x: g.node("AveragePool", [x], kernel_shape=[3, 3], pads=[1] * 4), (1, 4, 9, 7)),
    simple("matmul", lambda g, a, b: g.node("MatMul", [a, b]), (5, 7), (7, 9)),
    simple("softmax", lambda g, x: g.node("Softmax", [x], axis=1), (4, 10)),
    simple("sigmoid", lambda g, x: g.node("Mul", [x, g.node("Sigmoid", [x])]), (3, 33)),
    simple("concat", lambda g, a, b: g.node("Relu", [g.node("Concat", [a, b], axis=1)]), (2, 3, 5), (2, 4, 5)),
    simple("outputs", lambda g, x: (g.node("Exp", [x]), g.node("Tanh", [x])), (6, 6)),
    simple("residual", residual, (2, 8, 6, 6)),
    simple("attention", attention, (2, 6, 16)),
    simple("quantized", quantized, (1, 3, 8, 8)),
]


def gather():
    """Indices of 64 bits cross the edge. The chip leaves less work than this to the CPU, which gathers."""
    g = Graph("gather")
    index = g.input("index", (5,), np.int64)
    rows = g.node("Gather", [g.const(weights(8, 128)), index])
    g.output(g.node("Relu", [g.node("MatMul", [rows, g.const(weights(128, 128))])]))
    return g


def wide():
    """Sums of 64 bits that the chip does not have, beside what it computes."""
    g = Graph("wide")
    a, x = g.input("a", (4,), np.int64), g.input("x", (4, 16))
    g.output(g.node("Add", [a, g.const(np.array([1 << 40] * 4, np.int64))]), dtype=np.int64)
    g.output(g.node("Relu", [g.node("MatMul", [x, g.const(weights(16, 16))])]))
    return g


def partly():
    """In the middle is what no compiler can take: which elements are not 0."""
    g = Graph("partly")
    x = g.input("x", (4, 16))
    y = g.node("Relu", [g.node("MatMul", [x, g.const(weights(16, 16))])])
    places = g.node("NonZero", [y], "places")
    g.output(places, (2, "places"), dtype=np.int64)
    g.output(g.node("Softmax", [g.node("MatMul", [y, g.const(weights(16, 16))])], axis=1))
    return g


def around():
    """A way leads from the NPU to the CPU and back: two groups, not one."""
    g = Graph("around")
    x = g.input("x", (4, 16))
    y = g.node("Relu", [g.node("MatMul", [x, g.const(weights(16, 16))])])
    wide_sum = g.node("Cast", [y], to=11)
    wide_sum = g.node("Add", [wide_sum, g.const(np.array([0.5], np.float64))])
    back = g.node("Cast", [wide_sum], to=1)
    g.output(g.node("Softmax", [g.node("MatMul", [g.node("Add", [y, back]), g.const(weights(16, 16))])], axis=1))
    return g


def batch():
    """The batch is open."""
    g = Graph("batch")
    x = g.input("x", ("N", 3, 8, 8))
    y = g.node("Relu", [conv(g, x, 3, 4)])
    g.output(g.node("Softmax", [g.node("Flatten", [y])], axis=1), ("N", 256))
    return g


OTHERS = [gather(), wide(), partly(), around(), batch()]


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for g in WHOLE + OTHERS:
        with open(os.path.join(folder, g.name + ".onnx"), "wb") as f:
            f.write(g.serialize())


if __name__ == "__main__":
    main()
