# SPDX-License-Identifier: MIT
"""ONNX's Resize in numpy, dimension by dimension: nearest, linear and cubic, from operator set 11 on. Sizes and
coordinates are of single precision, as in resize_table.py; the sums are of double precision.

Not covered, and refused: antialias, keep_aspect_ratio_policy, tf_crop_and_resize, half_pixel_symmetric.
"""

import numpy as np

from onnx_reader import OnnxError
from resize_table import COORDINATES, coordinates_of, indices, resized_length


def _linear(x):
    """Elements around coordinates, and their weights."""
    below = np.floor(x)
    part = (x - below).astype(np.float64)
    return below, [(0, 1 - part), (1, part)]


def _cubic(x, a):
    below = np.floor(x)
    part = (x - below).astype(np.float64)
    weights = []
    for tap in (-1, 0, 1, 2):
        d = np.abs(part - tap)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        weights.append((tap, np.where(d <= 1, near, far)))
    return below, weights


def _weights(length, resized, scale, attrs):
    """The matrix that makes `resized` elements of `length`."""
    coordinates = attrs.get("coordinate_transformation_mode", "half_pixel")
    out = np.zeros((resized, length))
    rows = np.arange(resized)
    mode = attrs.get("mode", "nearest")
    if mode == "nearest":
        nearest = attrs.get("nearest_mode", "round_prefer_floor")
        out[rows, indices(length, resized, coordinates, nearest, scale)] = 1
        return out
    x = coordinates_of(length, resized, coordinates, scale)
    below, taps = _linear(x) if mode == "linear" else _cubic(x, attrs.get("cubic_coeff_a", -0.75))
    for tap, weight in taps:
        at = below.astype(np.int64) + tap
        if attrs.get("exclude_outside", 0):
            weight = np.where((at >= 0) & (at < length), weight, 0)
        np.add.at(out, (rows, np.clip(at, 0, length - 1)), weight)
    return out / out.sum(axis=1, keepdims=True) if attrs.get("exclude_outside", 0) else out


def resize(inputs, attrs, opset):
    if opset < 11:
        raise OnnxError("Resize: operator set %d is not covered" % opset)
    for name, covered in (("antialias", [0]), ("keep_aspect_ratio_policy", ["stretch"]),
                          ("coordinate_transformation_mode", COORDINATES)):
        if attrs.get(name, covered[0]) not in covered:
            raise OnnxError("Resize: %s %s is not covered" % (name, attrs[name]))
    x = inputs[0]
    scales, sizes = (list(inputs[2:]) + [None, None])[:2]
    axes = [axis % x.ndim for axis in attrs.get("axes") or range(x.ndim)]
    given = sizes if scales is None or scales.size == 0 else scales
    if given is None or given.size != len(axes):
        raise OnnxError("Resize: neither scales nor sizes have an element for each axis")
    for axis, number in zip(axes, given.tolist()):
        length = x.shape[axis]
        scale = None if given is sizes else number
        resized = int(number) if scale is None else resized_length(length, scale)
        if resized != length:  # a result as long as its input is its input
            matrix = _weights(length, resized, scale, attrs)
            x = np.moveaxis(np.tensordot(matrix, x, axes=(1, axis)), 0, axis)
    return [x.astype(inputs[0].dtype)]
