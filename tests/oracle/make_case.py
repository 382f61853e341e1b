#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Makes a directory for `bmrt_test --context_dir` from an ONNX file: seeded random inputs and the oracle's outputs.

    make_case.py MODEL.onnx OUT_DIR [--seed N] [--shape NAME=1,3,224,224] [--range NAME=0.5,2]

OUT_DIR gets input_ref_data.dat and output_ref_data.dat: the tensors' raw little-endian bytes, one after another, in the
graph's order, dense, rows last. compilation.bmodel is the compiler's to add.
"""

import argparse
import os
import sys

import numpy as np

from onnx_ops import OPERATORS
from onnx_reader import OnnxError, load_model
from onnx_ref import evaluate

DEFAULT_RANGE = (-1.0, 1.0)


def write_tensors(path, arrays):
    """The raw bytes of arrays, one after another."""
    with open(path, "wb") as file:
        for array in arrays:
            array = np.asarray(array)
            file.write(array.astype(array.dtype.newbyteorder("<")).tobytes())


def write_case(directory, inputs, outputs):
    """The two reference files of a context directory."""
    os.makedirs(directory, exist_ok=True)
    write_tensors(os.path.join(directory, "input_ref_data.dat"), inputs)
    write_tensors(os.path.join(directory, "output_ref_data.dat"), outputs)


def random_inputs(model, seed, shapes=None, ranges=None):
    """{name: array} for a model's inputs. Uses only the parts of numpy's random numbers that are frozen for good."""
    shapes, ranges = shapes or {}, ranges or {}
    random = np.random.RandomState(seed)
    feeds = {}
    for info in model.inputs:
        shape = shapes.get(info.name, info.shape)
        if shape is None or not all(isinstance(d, int) and d >= 0 for d in shape):
            raise OnnxError("input %r has shape %s: give its dimensions with --shape %s=..." %
                            (info.name, shape, info.name))
        if info.dtype is None:
            raise OnnxError("input %r is not a tensor of a supported type" % info.name)
        dtype = np.dtype(info.dtype)
        if dtype.kind == "f":
            low, high = ranges.get(info.name, DEFAULT_RANGE)
            feeds[info.name] = (low + (high - low) * random.random_sample(shape)).astype(dtype)
        else:
            low, high = ranges.get(info.name, (0, 2 if dtype.kind == "b" else 8))
            feeds[info.name] = random.randint(int(low), int(high), size=shape).astype(dtype)
    return feeds


def make_case(model, directory, seed=0, shapes=None, ranges=None):
    """Writes the case; returns (inputs, outputs), both {name: array} in the graph's order."""
    feeds = random_inputs(model, seed, shapes, ranges)
    results = evaluate(model, feeds)
    write_case(directory, feeds.values(), results.values())
    return feeds, results


def _named_numbers(convert):
    def parse(text):
        name, _, numbers = text.rpartition("=")
        if not name:
            raise argparse.ArgumentTypeError("%r is not NAME=NUMBERS" % text)
        return name, [convert(n) for n in numbers.split(",")]
    return parse


def main():
    parser = argparse.ArgumentParser(description="Makes a bmrt_test context directory from an ONNX file.",
                                     epilog="Operators: %s." % ", ".join(sorted(OPERATORS)))
    parser.add_argument("model")
    parser.add_argument("out_dir")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shape", action="append", default=[], type=_named_numbers(int), metavar="NAME=D,D,...")
    parser.add_argument("--range", action="append", default=[], type=_named_numbers(float), metavar="NAME=LOW,HIGH")
    args = parser.parse_args()
    try:
        feeds, results = make_case(load_model(args.model), args.out_dir, args.seed, dict(args.shape), dict(args.range))
    except (OnnxError, OSError) as error:
        sys.exit("make_case: %s" % error)
    for title, arrays in (("input", feeds), ("output", results)):
        for name, array in arrays.items():
            print("%-7s %s %s%s" % (title, name, array.dtype.name, list(array.shape)))


if __name__ == "__main__":
    main()
