# SPDX-License-Identifier: MIT
"""Networks with operators and types that the chip has no commands for: parts of them run on the CPU."""

import numpy as np


def arctan(b):
    """NPU, CPU, NPU."""
    x = b.op("MatMul", b.input([40, 64]), b.weights([64, 64], 64))
    b.output(b.op("MatMul", b.op("Atan", x), b.weights([64, 48], 64)))


def choose(b):
    """A condition made on the CPU chooses between two results of the NPU."""
    x = b.input([1, 6, 20, 20])
    y, z = (b.conv(x, 6, 8, 3) for _ in range(2))
    b.output(b.op("Relu", b.op("Where", b.op("Greater", y, z), y, b.op("Sub", z, y))))


def classify(b):
    """Probabilities, and the class as an int32."""
    x = b.op("Relu", b.conv(b.input([3, 2, 16, 16]), 2, 8, 5))
    x = b.dense(b.op("Flatten", x, axis=1), 8 * 12 * 12, 10)
    b.output(b.op("Softmax", x, axis=1))
    top = b.op("ArgMax", x, axis=1, keepdims=0)
    b.graph.output(b.op("Cast", top, to=6), None, np.int32)


def tokens(b):
    """Rows of a table by int32 indices, some from the end."""
    ids = b.graph.input("ids", [2, 12], np.int32)
    b.ranges["ids"] = [-50, 50]
    x = b.op("Gather", b.uniform([50, 64]), ids, axis=0)
    b.output(b.op("Softmax", b.op("MatMul", x, b.weights([64, 64], 64)), axis=-1))


def masked(b):
    """A mask of bools comes in."""
    mask = b.graph.input("mask", [24, 1], np.bool_)
    y = b.op("MatMul", b.input([24, 48]), b.weights([48, 32], 48))
    b.output(b.op("Where", mask, y, b.graph.const(np.array(-1, np.float32))))


def integers(b):
    """Nothing for the NPU."""
    x, y = (b.graph.input(name, [5, 7], np.int32) for name in ("a", "b"))
    b.ranges.update(a=[-100, 100], b=[1, 9])
    b.graph.output(b.op("Add", b.op("Mod", x, y), b.op("Div", x, y)), None, np.int32)


def nets():
    return [("parts_" + make.__name__, make) for make in (arctan, choose, classify, tokens, masked, integers)]
