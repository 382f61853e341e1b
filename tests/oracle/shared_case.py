#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Makes a directory for `bmrt_test --context_dir` from reference results that another runtime computed.

    shared_case.py REFERENCE.npz MODEL.onnx OUT_DIR

The archive holds an array in_NAME for every input and out_NAME for every output of the model; the model gives their
order.
"""

import argparse
import sys
import zipfile

import numpy as np

from make_case import write_case
from onnx_reader import OnnxError, load_model


def _take(archive, prefix, infos):
    arrays = []
    for info in infos:
        key = prefix + info.name
        if key not in archive:
            raise OnnxError("the reference has no %r (it has %s)" % (key, ", ".join(sorted(archive.files))))
        array = archive[key]
        if info.dtype and array.dtype.name != info.dtype:
            raise OnnxError("%r is %s, the model says %s" % (key, array.dtype.name, info.dtype))
        arrays.append(array)
    return arrays


def main():
    parser = argparse.ArgumentParser(description="Makes a bmrt_test context directory from a reference archive.")
    parser.add_argument("reference")
    parser.add_argument("model")
    parser.add_argument("out_dir")
    args = parser.parse_args()
    try:
        model = load_model(args.model)
        with np.load(args.reference) as archive:
            inputs, outputs = _take(archive, "in_", model.inputs), _take(archive, "out_", model.outputs)
        write_case(args.out_dir, inputs, outputs)
    except (OnnxError, OSError, ValueError, zipfile.BadZipFile) as error:
        sys.exit("shared_case: %s" % error)
    for title, infos, arrays in (("input", model.inputs, inputs), ("output", model.outputs, outputs)):
        for info, array in zip(infos, arrays):
            print("%-7s %s %s%s" % (title, info.name, array.dtype.name, list(array.shape)))


if __name__ == "__main__":
    main()
