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


SIDE = 128  # the chip leaves less work to the CPU


def square():
    """Numbers with which a product keeps its size."""
    return weights(SIDE, SIDE) / 4


def dense(g, x, w=None):
    """A product with numbers of the graph, or with those of the graph around it."""
    return g.node("Relu", [g.node("MatMul", [x, w or g.const(square())])])


def past():
    """A cache that is empty in the first run, behind another part whose result is on the card."""
    g = Graph("past")
    old, new = g.input("old", (2, "past", SIDE)), g.input("new", (2, 3, SIDE))
    y = dense(g, new)
    back = g.node("Cast", [g.node("Add", [g.node("Cast", [y], to=11), g.const(np.array([0.5], np.float64))])], to=1)
    whole = g.node("Concat", [old, g.node("Add", [y, back])], axis=1)
    g.output(dense(g, whole), (2, "length", SIDE))
    g.output(g.node("Shape", [whole]), (3,), np.int64)
    return g


# Control flow. The compiler takes it where the number of turns, and types and shapes of the results, are constant. The
# names of nodes in bodies begin with "body_".


def branches(net, g, x, w, name, shape=None):
    """An If in `g` whose branches read x and w of the graph around them; with two shapes, or one that both have."""
    yes, no = (Graph(name or title, prefix=f"body_{net}_{title}_") for title in ("then", "else"))
    yes.output(dense(yes, dense(yes, x, w)), shape)
    y = dense(no, x)
    no.output(y if shape else no.node("Slice", [y, no.const(np.array([0])), no.const(np.array([8])),
                                                no.const(np.array([-1]))]), shape)
    return lambda condition, out=None: g.node("If", [condition], out, then_branch=yes, else_branch=no)


def if_shapes(net="if_shapes", name=None):
    """Results of two shapes."""
    g = Graph(net)
    x, go, w = g.input("x", (4, SIDE)), g.input("go", (1,), np.bool_), g.const(square())
    g.output(branches(net, g, dense(g, x, w), w, name)(go), (4, "columns"))
    g.output(dense(g, x))
    return g


def loop_body(net, w, name, turn_of=None):
    """A state that is multiplied by w of the graph around the body, and a scan output."""
    body = Graph(name or "turn", prefix=f"body_{net}_")
    turn, go = body.input(f"{net}_turn", (), np.int64), body.input(f"{net}_go", (), np.bool_)
    state = body.input(f"{net}_state", (4, SIDE))
    body.output(body.node("Identity", [go]), (), np.bool_)
    state = turn_of(body, turn, state) if turn_of else dense(body, state, w)
    body.output(state, (4, SIDE))
    body.output(dense(body, state), (4, SIDE))
    return body


def loop_turns(net="loop_turns", name=None, turn_of=None):
    """The number of turns is an input."""
    g = Graph(net)
    x, turns, w = g.input("x", (4, SIDE)), g.input("turns", (1,), np.int64), g.const(square())
    body = loop_body(net, w, name, turn_of and (lambda *a: turn_of(w, *a)))
    y, states = g.node("Loop", [turns, "", dense(g, x)], ["last", "states"], body=body)
    g.output(dense(g, y))
    g.output(states, ("turns", 4, SIDE))
    return g


def nested():
    """An If in a Loop, whose branches read the state of the Loop and numbers of the network."""
    def turn_of(w, body, turn, state):
        few = body.node("Less", [turn, body.const(np.array(2))])
        return branches("nested", body, state, w, None, (4, SIDE))(few)
    return loop_turns("nested", turn_of=turn_of)


def scan(net, name=None, wide=False, reads=True):
    """A sum along an axis that forgets. `wide`: in 64 bits; `reads`: the body reads numbers of the network."""
    g = Graph(net)
    x, start = g.input("x", (4, SIDE)), g.const(weights(SIDE))
    body = Graph(name or "turn", prefix=f"body_{net}_")
    state, element = body.input(f"{net}_state", (SIDE,)), body.input(f"{net}_element", (SIDE,))
    element = body.node("Mul", [element, start if reads else body.const(weights(SIDE))])
    if wide:
        element = body.node("Cast", [body.node("Tanh", [body.node("Cast", [element], to=11)])], to=1)
    total = body.node("Add", [body.node("Mul", [state, body.const(np.float32(0.5))]), element])
    body.output(total, (SIDE,))
    body.output(body.node("Identity", [total]), (SIDE,))
    y, states = g.node("Scan", [start, dense(g, x)], ["last", "states"], body=body, num_scan_inputs=1)
    g.output(y, (SIDE,))
    g.output(dense(g, states))
    return g


def if_inside():
    """Both branches read what the network has computed, and nothing else of it."""
    g = Graph("if_inside")
    x, go, w = g.input("x", (4, SIDE)), g.input("go", (1,), np.bool_), g.const(square())
    g.output(dense(g, branches("if_inside", g, dense(g, x), w, None, (4, SIDE))(go)), (4, SIDE))
    return g


def if_captures():
    """Only the branches read the input."""
    g = Graph("if_captures")
    x, go, w = g.input("x", (4, SIDE)), g.input("go", (1,), np.bool_), g.const(square())
    g.output(dense(g, branches("if_captures", g, x, w, None, (4, SIDE))(go)), (4, SIDE))
    return g


def scalar():
    """A condition without dimensions, and beside it what does not read it."""
    g = Graph("scalar")
    x, go, w = g.input("x", (4, SIDE)), g.input("go", (), np.bool_), g.const(square())
    g.output(branches("scalar", g, dense(g, x), w, None, (4, SIDE))(go), (4, SIDE))
    return g


def loop_ports():
    """Its first inputs and output have the types of those of a Loop's body."""
    g = Graph("loop_ports")
    index, keep, x = g.input("index", (5,), np.int64), g.input("keep", (5, SIDE), np.bool_), g.input("x", (5, SIDE))
    y = g.node("Where", [keep, dense(g, g.node("Gather", [g.const(weights(8, SIDE)), index])), x])
    g.output(g.node("Greater", [y, g.const(np.float32(0.125))]), (5, SIDE), np.bool_)
    g.output(dense(g, y), (5, SIDE))
    return g


def pairs():
    """There is no such network for an odd number of rows."""
    g = Graph("pairs")
    x = g.input("x", ("N", 3, SIDE))
    g.output(dense(g, g.node("Reshape", [x, g.const(np.array([-1, 6, SIDE]))])), ("M", 6, SIDE))
    return g


CONTROL = [
    if_shapes(), loop_turns(), nested(), scan("scan_wide", wide=True), scan("scan_whole"), if_inside(), if_captures(),
    scalar(), if_shapes("same_if", "same_if"), loop_turns("same_loop", "same_loop"),
    scan("same_scan", "same_scan", wide=True), scan("same_scan_alone", "same_scan_alone", wide=True, reads=False),
]

OTHERS = [gather(), wide(), partly(), around(), batch(), past(), *CONTROL, loop_ports(), pairs()]


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for g in WHOLE + OTHERS:
        with open(os.path.join(folder, g.name + ".onnx"), "wb") as f:
            f.write(g.serialize())


if __name__ == "__main__":
    main()
