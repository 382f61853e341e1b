#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A language model like Llama as ONNX files for the NPU, with a KV cache that stays in the card's memory.

    llama.py OUT_DIR [--weights FILE.onnx --heads N | --sizes dim=64,layers=5] [--rows N,...] [--prompt N] [--numbers]

OUT_DIR/prefill.onnx takes the prompt, decode.onnx one token, and tables.onnx gives the tables of which their launches
take rows. Prints the commands that compile them. The weights come from a seed, or from the initializers of a file that
has them by the names of `Weights` (prefill.onnx itself does).

A row of the cache is what one token leaves: [layers, 2 (key, value), key-value heads, elements of a head]. A network
reads the rows before its token and gives its token's row, no more: a program puts it into its place by the address that
it gives the output. For the same reason rows are the outermost dimension, the first 64 of a cache of 512 rows are a
cache of 64 rows (`npuc --stage`), and what depends on a token's number or place arrives as a row of a table:

    x     [1, dim]             of the embeddings
    rope  [2, head]            cosines and sines of the place's angles
    mask  [1 + rows]           from place `rows - place` of a table with 1 + rows zeros and then `rows` low numbers:
                               zero for the token itself and for as many rows as are before it

With --numbers decode.onnx takes the token and its place as numbers and looks them up itself, on the CPU.
"""

import argparse
import os
import shlex
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(TOP, "tests", "oracle"))

import numpy as np  # noqa: E402

from onnx_reader import load_model  # pylint: disable=wrong-import-position  # noqa: E402
from onnx_writer import Graph  # pylint: disable=wrong-import-position  # noqa: E402

LOW = -1e9  # a score that softmax makes 0
EPSILON = 1e-5
THETA = 10000.0  # of the rotary embedding


class Weights:
    """The matrices of a model, [inputs, outputs] each, and the sizes that follow from them."""

    LAYER = ("an_w", "qW", "kW", "vW", "oW", "fn_w", "gW", "uW", "dnW")  # of layer 0: l0_an_w, l0_qW, ...

    def __init__(self, arrays, heads):
        self.arrays, self.heads = arrays, heads
        self.vocabulary, self.dim = arrays["emb"].shape
        self.layers = sum(name.endswith("_qW") for name in arrays)
        self.head = self.dim // heads
        self.kv_heads = arrays["l0_kW"].shape[1] // self.head
        self.row = [self.layers, 2, self.kv_heads, self.head]

    def __getitem__(self, name):
        return self.arrays[name]

    @classmethod
    def load(cls, path, heads):
        """Of an ONNX file."""
        named = load_model(path).initializers
        layers = sum(name.endswith("_qW") for name in named)
        names = ["l%d_%s" % (i, part) for i in range(layers) for part in cls.LAYER] + ["emb", "fin_w", "lmhead"]
        return cls({name: named[name] for name in names}, heads)

    @classmethod
    def random(cls, seed, dim=32, layers=2, heads=4, kv_heads=2, hidden=96, vocabulary=96):
        """Large enough for the next token to depend on all before it."""
        source = np.random.RandomState(seed)

        def matrix(rows, columns):
            return (source.standard_normal((rows, columns)) * (2.0 / rows ** 0.5)).astype(np.float32)

        kv = dim // heads * kv_heads
        shapes = {"qW": (dim, dim), "kW": (dim, kv), "vW": (dim, kv), "oW": (dim, dim), "gW": (dim, hidden),
                  "uW": (dim, hidden), "dnW": (hidden, dim)}
        arrays = {"emb": matrix(vocabulary, dim), "lmhead": matrix(dim, vocabulary)}
        for i in range(layers):
            arrays.update({"l%d_%s" % (i, name): matrix(*shape) for name, shape in shapes.items()})
            for name in ("an_w", "fn_w"):
                arrays["l%d_%s" % (i, name)] = source.uniform(0.5, 1.5, dim).astype(np.float32)
        arrays["fin_w"] = source.uniform(0.5, 1.5, dim).astype(np.float32)
        return cls(arrays, heads)


def rope_table(weights, places):
    """What turns a head at the first places: [places, 2, head]. A pair (a, b) becomes (a cos - b sin, b cos + a sin):
    the first half are the factors of the pair, the second those of (b, a)."""
    turns = THETA ** (-2.0 * np.arange(weights.head // 2) / weights.head)
    angles = np.arange(places)[:, None] * turns
    cos, sin = np.cos(angles), np.sin(angles)
    pairs = np.stack([np.stack([cos, cos], 2), np.stack([-sin, sin], 2)], 1)
    return pairs.reshape(places, 2, weights.head).astype(np.float32)


def mask_table(rows):
    return np.concatenate([np.zeros(1 + rows), np.full(rows, LOW)]).astype(np.float32)


class Network:
    """A graph under construction; `count` tokens go through it at once."""

    def __init__(self, name, weights, count):
        self.graph, self.w, self.count = Graph(name), weights, count
        self.constants = {}

    def op(self, op, *inputs, **attrs):
        return self.graph.node(op, list(inputs), **attrs)

    def const(self, name, array):
        """An initializer, once in the file."""
        if name not in self.constants:
            self.constants[name] = self.graph.const(np.asarray(array), name)
        return name

    def weight(self, name):
        return self.const(name, self.w[name])

    def ints(self, *values):
        return self.const("ints_" + "_".join(map(str, values)), np.array(values, np.int64))

    def reshape(self, x, *shape):
        return self.op("Reshape", x, self.ints(*shape))

    def pick(self, x, axis, index):
        """The part of x at one index of a dimension, which is gone."""
        return self.op("Gather", x, self.const("index_%d" % index, np.array(index, np.int64)), axis=axis)

    def norm(self, x, factors):
        mean = self.op("ReduceMean", self.op("Mul", x, x), axes=[-1], keepdims=1)
        root = self.op("Sqrt", self.op("Add", mean, self.const("epsilon", np.float32(EPSILON))))
        return self.op("Mul", self.op("Div", x, root), self.weight(factors))

    def rotate(self, x, heads, rope):
        """[count, heads * head] -> [count, heads, head], each pair of elements turned by its place's angle."""
        half = self.w.head // 2
        pairs = self.reshape(x, self.count, heads, half, 2)
        crossed = self.op("Slice", pairs, self.ints(-1), self.ints(-3), self.ints(3), self.ints(-1))
        cos, sin = (self.reshape(self.pick(rope, 1, i), self.count, 1, half, 2) for i in (0, 1))
        turned = self.op("Add", self.op("Mul", pairs, cos), self.op("Mul", crossed, sin))
        return self.reshape(turned, self.count, heads, self.w.head)

    def feed_forward(self, x, layer):
        gate, up = (self.op("MatMul", x, self.weight(layer + name)) for name in ("gW", "uW"))
        gated = self.op("Mul", self.op("Mul", gate, self.op("Sigmoid", gate)), up)
        return self.op("MatMul", gated, self.weight(layer + "dnW"))

    def attention(self, q, k, v, mask):
        """q [count, heads, head] over k and v [rows, key-value heads, head] -> [count, dim]. Heads that share keys are
        more rows of one matrix."""
        w = self.w
        shared = w.heads // w.kv_heads
        q = self.op("Transpose", self.reshape(q, self.count, w.kv_heads, shared, w.head), perm=[1, 2, 0, 3])
        q = self.reshape(q, w.kv_heads, shared * self.count, w.head)
        scores = self.op("MatMul", q, self.op("Transpose", k, perm=[1, 2, 0]))
        scores = self.op("Add", self.reshape(scores, w.heads, self.count, -1), mask)
        shares = self.reshape(self.op("Softmax", scores, axis=-1), w.kv_heads, shared * self.count, -1)
        out = self.op("MatMul", shares, self.op("Transpose", v, perm=[1, 0, 2]))
        out = self.op("Transpose", self.reshape(out, w.heads, self.count, w.head), perm=[1, 0, 2])
        return self.reshape(out, self.count, w.dim)

    def query_key_value(self, x, layer, rope):
        """Of all heads: q [count, heads, head], and k and v as rows of the cache have them."""
        w, kv = self.w, self.w.kv_heads
        q, k, v = (self.op("MatMul", x, self.weight(layer + name)) for name in ("qW", "kW", "vW"))
        q = self.op("Mul", q, self.const("scale", np.float32(w.head ** -0.5)))
        turned = self.rotate(self.op("Concat", q, k, axis=1), w.heads + kv, rope)
        q, k = self.graph.node("Split", [turned, self.ints(w.heads, kv)], out=[layer + "q", layer + "k"], axis=1)
        pair = self.op("Concat", self.reshape(k, self.count, 1, kv, w.head), self.reshape(v, self.count, 1, kv, w.head),
                       axis=1)
        return q, pair

    def transformer(self, x, rope, mask, past):
        """All layers. `past` (layer, this token's keys and values): all that it looks at, itself included."""
        w, rows = self.w, []
        for i in range(w.layers):
            layer = "l%d_" % i
            q, own = self.query_key_value(self.norm(x, layer + "an_w"), layer, rope)
            rows.append(own)
            seen = past(i, own)
            seen = self.attention(q, self.pick(seen, 1, 0), self.pick(seen, 1, 1), mask)
            x = self.op("Add", x, self.op("MatMul", seen, self.weight(layer + "oW")))
            x = self.op("Add", x, self.feed_forward(self.norm(x, layer + "fn_w"), layer))
        logits = self.op("MatMul", self.norm(x, "fin_w"), self.weight("lmhead"))
        rows = [self.reshape(own, self.count, 1, *w.row[1:]) for own in rows]
        rows = self.graph.node("Concat", rows, out="rows", axis=1)
        self.graph.output(self.op("Identity", logits, out="logits"), [self.count, w.vocabulary])
        self.graph.output(rows, [self.count] + w.row)


def prefill(weights, count):
    """The prompt, filled up with any tokens: gives the scores of what follows each token, and all rows of the cache."""
    n = Network("prefill", weights, count)
    x = n.op("Gather", n.weight("emb"), n.graph.input("tokens", [count], np.int32))
    rope = n.const("rope", rope_table(weights, count))
    mask = n.const("mask", np.triu(np.full((count, count), LOW, np.float32), 1))
    n.transformer(x, rope, mask, lambda layer, own: own)
    return n.graph


def decode(weights, rows, numbers):
    """One token behind up to `rows` others, or as many as a stage has."""
    n = Network("decode", weights, 1)
    if numbers:
        token, place = (n.graph.input(name, [1], np.int32) for name in ("token", "place"))
        x = n.op("Gather", n.weight("emb"), token)
        rope = n.op("Gather", n.const("rope", rope_table(weights, rows)), place)
        far = n.op("Less", place, n.const("places", np.arange(1 + rows, dtype=np.int32)))
        mask = n.op("Where", far, n.const("low", np.float32(LOW)), n.const("zero", np.float32(0)))
        length = rows
    else:
        length = "rows"
        x = n.graph.input("x", [1, weights.dim])
        rope = n.op("Unsqueeze", n.graph.input("rope", [2, weights.head]), n.ints(0))
        mask = n.graph.input("mask", ["seen"])
    cache = n.graph.input("cache", [length] + weights.row)

    n.transformer(x, rope, mask, lambda layer, own: n.op("Concat", own, n.pick(cache, 1, layer), axis=0))
    return n.graph


def tables(weights, rows):
    """Embeddings, angles and masks as outputs: where a launch has put them, others take their rows."""
    n = Network("tables", weights, 1)
    n.graph.input("unused", [1])
    for name, array in (("x", weights["emb"]), ("rope", rope_table(weights, rows)), ("mask", mask_table(rows))):
        n.graph.output(n.graph.node("Identity", [n.const(name + "_rows", array)], out=name), array.shape)
    return n.graph


def networks(weights, stages, prompt, numbers=False):
    """All three, each with npuc's arguments for it."""
    rows = max(stages)
    row = ",".join(map(str, weights.row))
    arguments = [] if numbers else [a for n in stages for a in ("--stage", "cache=%d,%s;mask=%d" % (n, row, 1 + n))]
    return [(tables(weights, rows), []), (prefill(weights, prompt), []), (decode(weights, rows, numbers), arguments)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--weights", help="an ONNX file (default: random weights)")
    parser.add_argument("--heads", type=int, default=8, help="of that file (default: 8)")
    parser.add_argument("--seed", type=int, default=1, help="of random weights (default: 1)")
    parser.add_argument("--sizes", default="", help="of random weights: dim=32,layers=2,heads=4,kv_heads=2,hidden=96,"
                        "vocabulary=96, or some of these")
    parser.add_argument("--rows", default="16,64", help="rows of the cache, a stage each (default: 16,64)")
    parser.add_argument("--prompt", type=int, default=16, help="tokens that prefill.onnx takes (default: 16)")
    parser.add_argument("--numbers", action="store_true", help="decode.onnx takes the token and its place as numbers")
    args = parser.parse_args()
    sizes = {name: int(value) for name, value in (size.split("=") for size in args.sizes.split(",") if size)}
    weights = Weights.load(args.weights, args.heads) if args.weights else Weights.random(args.seed, **sizes)
    os.makedirs(args.folder, exist_ok=True)
    for graph, arguments in networks(weights, list(map(int, args.rows.split(","))), args.prompt, args.numbers):
        path = os.path.join(args.folder, graph.name)
        with open(path + ".onnx", "wb") as file:
            file.write(graph.serialize())
        print(shlex.join(["npuc", path + ".onnx", "-o", path + ".bmodel", *arguments]))


if __name__ == "__main__":
    main()
