#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Evaluates an ONNX graph in numpy and float64: the independent answer that compiled networks are compared with.

    onnx_ref.py MODEL.onnx            prints what the graph takes and gives
    evaluate(model, {"x": array})     -> {"y": array}, in the graph's order, in the types that the graph declares

It shares nothing with the compiler: its own file reader (onnx_reader.py), its own operators (onnx_ops.py).
"""

import argparse
import sys

import numpy as np

from onnx_ops import OPERATORS
from onnx_reader import OnnxError, load_model


def _widen(array):
    array = np.asarray(array)
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def unsupported(model):
    """The operators of a model that this evaluator lacks, sorted."""
    names = {n.op if n.domain in ("", "ai.onnx") else "%s.%s" % (n.domain, n.op) for n in model.nodes}
    return sorted(names - set(OPERATORS))


def _check_input(info, array):
    known = info.shape is not None
    fits = not known or (len(info.shape) == array.ndim and
                         all(not isinstance(d, int) or d == n for d, n in zip(info.shape, array.shape)))
    if not fits or (info.dtype and array.dtype.name != info.dtype):
        raise OnnxError("input %r: expected %s%s, got %s%s" %
                        (info.name, info.dtype, info.shape, array.dtype.name, list(array.shape)))


def evaluate(model, feeds):
    """Runs the graph on named arrays."""
    missing = unsupported(model)
    if missing:
        raise OnnxError("operators not covered: %s" % ", ".join(missing))
    values = {name: _widen(array) for name, array in model.initializers.items()}
    for info in model.inputs:
        if info.name not in feeds:
            raise OnnxError("input %r was not given" % info.name)
        _check_input(info, np.asarray(feeds[info.name]))
        values[info.name] = _widen(feeds[info.name])
    for node in model.nodes:
        for name in node.inputs:
            if name and name not in values:
                raise OnnxError("%s %r: input %r is not computed before it" % (node.op, node.name, name))
        inputs = [values[name] if name else None for name in node.inputs]
        # What a Split without sizes has to know, and only operator set 18 and above say.
        attrs = {"num_outputs": len(node.outputs), **node.attrs} if node.op == "Split" else node.attrs
        try:
            with np.errstate(all="ignore"):  # the root of -1 is NaN, and no mistake
                outputs = OPERATORS[node.op](inputs, attrs, model.opset)
        except (ValueError, IndexError, KeyError, TypeError) as error:
            raise OnnxError("%s %r: %s" % (node.op, node.name, error)) from error
        values.update((name, _widen(array)) for name, array in zip(node.outputs, outputs) if name)
    lost = [info.name for info in model.outputs if info.name not in values]
    if lost:
        raise OnnxError("outputs that nothing computes: %s" % ", ".join(lost))
    return {info.name: values[info.name].astype(info.dtype or values[info.name].dtype) for info in model.outputs}


def main():
    parser = argparse.ArgumentParser(description="Prints the inputs, outputs and operators of an ONNX file.")
    parser.add_argument("model")
    args = parser.parse_args()
    try:
        model = load_model(args.model)
    except (OnnxError, OSError) as error:
        sys.exit("onnx_ref: %s" % error)
    for title, infos in (("input", model.inputs), ("output", model.outputs)):
        for info in infos:
            print("%-7s %s %s%s" % (title, info.name, info.dtype, info.shape))
    print("opset   %d" % model.opset)
    for op in sorted({node.op for node in model.nodes}):
        count = sum(node.op == op for node in model.nodes)
        print("%-7s %s x %d%s" % ("op", op, count, "" if op in OPERATORS else "  (not covered)"))


if __name__ == "__main__":
    main()
