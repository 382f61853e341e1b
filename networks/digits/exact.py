# SPDX-License-Identifier: MIT
"""Floating-point arithmetic whose results are the same on every machine.

Two things make numerical training differ between machines: sums (a BLAS adds in the order that suits the processor) and
functions such as exp (each library rounds its own way). Here every operand of a sum is a multiple of some power of two
and small enough for all partial sums to fit a double's 53 bits: the sum is exact, so its order cannot matter. exp is
built from +, * and scaling by powers of two, which IEEE 754 defines to the last bit.
"""

import numpy as np

MANTISSA_BITS = 53


def snap(x, bits):
    """x rounded to a multiple of 2**-bits (ties to even)."""
    scale = float(1 << bits)
    return np.rint(x * scale) / scale


def matmul(a, a_bits, b, b_bits):
    """a @ b, exact, for multiples of 2**-a_bits and 2**-b_bits. Refuses operands for which it might not be."""
    largest = float(np.abs(a).max() * np.abs(b).max() * a.shape[-1])
    if largest * 2.0 ** (a_bits + b_bits) > 2.0 ** MANTISSA_BITS:
        raise OverflowError("exact.matmul: sums up to %g do not fit %d fractional bits" % (largest, a_bits + b_bits))
    return a @ b


def exp(x):
    """e**x for x <= 0, with a relative error of a few 2**-53; below -60 it is that of -60."""
    x = np.maximum(x, -60.0)
    n = np.rint(x * 1.4426950408889634)
    r = (x - n * 0.693145751953125) - n * 1.4286068203094172e-06  # ln 2 in two parts, the first with few bits
    sum_ = np.ones_like(r)
    for k in range(18, 0, -1):  # Horner: 1 + r/1 * (1 + r/2 * (1 + ...)), |r| <= 0.35
        sum_ = 1.0 + r * sum_ / k
    return np.ldexp(sum_, n.astype(np.int32))


def softmax(logits):
    """Softmax over the columns of a matrix, the sum taken from left to right."""
    top = logits.max(axis=1, keepdims=True)
    e = exp(logits - top)
    total = np.zeros(len(logits))
    for column in range(logits.shape[1]):
        total = total + e[:, column]
    return e / total[:, None]
