#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Which elements a nearest-neighbour Resize of ONNX takes, for many sizes and all modes, in numpy's single precision.

    resize_table.py FILE

writes 32-bit little-endian integers. Each record: coordinate_transformation_mode and nearest_mode (indices of the lists
below), length of the input, length of the result, bits of the scale as a float (0: the node is given sizes), and one
index for each element of the result.
"""

import sys

import numpy as np

F = np.float32
COORDINATES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn"]
ROUNDINGS = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
SIZES = range(1, 65)
SCALES = [1.6666666, 1.1666666, 1.3, 0.6, 1 / 3, 0.1, 0.7, 1.05, 1.9999999, 2.0, 2.5, 3.0, 7 / 3, 0.9999999]


def resized_length(length, scale):
    """The product is rounded to single precision, then down: 3 times 1.6666666 is 5."""
    return int(np.floor(F(length) * F(scale)))


def coordinates_of(length, resized, coordinates, scale=None):
    """Where each element of the result lies in the input; the specification's formulas, one rounding a step."""
    ratio = F(resized) / F(length) if scale is None else F(scale)
    x = np.arange(resized).astype(F)
    if coordinates == "align_corners":
        x = x * F(length - 1) / F(resized - 1) if resized > 1 else x * F(0)
    elif coordinates == "asymmetric":
        x = x / ratio
    elif coordinates == "tf_half_pixel_for_nn":
        x = (x + F(0.5)) / ratio
    elif coordinates == "half_pixel" or resized > 1:
        x = (x + F(0.5)) / ratio - F(0.5)
    else:  # pytorch_half_pixel with one element
        x = x * F(0)
    assert x.dtype == F
    return x


def indices(length, resized, coordinates, rounding, scale=None):
    """The element of the input for each of the result.

    A result as long as its input is its input whatever the scale is, as ONNX Runtime has it."""
    if resized == length:
        return np.arange(length)
    x = coordinates_of(length, resized, coordinates, scale)
    below = np.floor(x)
    above = np.ceil(x)
    nearer = {"floor": below, "ceil": above,
              "round_prefer_floor": np.where(x - below <= F(0.5), below, above),
              "round_prefer_ceil": np.where(x - below < F(0.5), below, above)}[rounding]
    return np.clip(nearer.astype(np.int64), 0, length - 1)


def records():
    for c, coordinates in enumerate(COORDINATES):
        for r, rounding in enumerate(ROUNDINGS):
            for length in SIZES:
                for resized in SIZES:
                    yield [c, r, length, resized, 0], indices(length, resized, coordinates, rounding)
                for scale in SCALES:
                    resized = resized_length(length, scale)
                    if resized:
                        bits = int(np.array(scale, F).view(np.int32))
                        yield [c, r, length, resized, bits], indices(length, resized, coordinates, rounding, scale)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: resize_table.py FILE")
    with open(sys.argv[1], "wb") as file:
        for head, index in records():
            file.write(np.concatenate([head, index]).astype("<i4").tobytes())


if __name__ == "__main__":
    main()
