# SPDX-License-Identifier: MIT
"""Networks as quantizers write them: QuantizeLinear and DequantizeLinear around each operator, weights of int8 with a
scale a channel, biases of int32. Scales are not calibrated: they are such that random weights of net_builder.py and
activations of their size fit."""

import numpy as np

from net_builder import Builder

MOVES = ("MaxPool", "Concat", "Reshape", "Transpose", "Flatten", "Slice", "Resize")
ACTIVATIONS = ("Relu", "Clip", "LeakyRelu")
STEPS = 255.0
UNSIGNED = (6 / STEPS, 0)  # scale and zero point of what is not negative
SIGNED = (12 / STEPS, 128)
INPUT = (2 / STEPS, 128)


class QdqBuilder(Builder):
    """A builder whose float tensors are quantized before another operator reads them."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._numbers = {}  # tensor -> scale and zero point that it gets
        self._integers = {}  # tensor -> what DequantizeLinear makes of its integers
        self._raw = set()  # results that an activation may be computed of at once

    def input(self, shape, low=None, high=None):
        x = super().input(shape, low, high)
        self._numbers[x] = INPUT
        return x

    def _number(self, scale, zero, dtype=np.uint8):
        return self.graph.const(np.array(scale, np.float32)), self.graph.const(np.array(zero, dtype))

    def _quantized(self, x):
        """The tensor behind a QuantizeLinear and a DequantizeLinear; constants stay as they are."""
        if x not in self._numbers:
            return x
        if x not in self._integers:
            number = self._number(*self._numbers[x])
            integers = self.graph.node("QuantizeLinear", [x, *number])
            self._integers[x] = self.graph.node("DequantizeLinear", [integers, *number])
        return self._integers[x]

    def _constant(self, values, scales, dtype, axis=0):
        """What DequantizeLinear makes of constant integers, with a scale a channel."""
        limits = np.iinfo(dtype)
        shape = [-1 if i == axis else 1 for i in range(values.ndim)]
        integers = np.clip(np.rint(values / scales.reshape(shape)), limits.min, limits.max).astype(dtype)
        inputs = [self.graph.const(integers), self.graph.const(scales.astype(np.float32)),
                  self.graph.const(np.zeros(len(scales), dtype))]
        return self.graph.node("DequantizeLinear", inputs, axis=axis)

    def _product(self, op, x, shape, fan_in, bias, **attrs):
        reach = (6.0 / fan_in) ** 0.5
        weights = reach * (2 * self.random.random_sample(shape) - 1)
        scales = np.abs(weights.reshape(shape[0], -1)).max(axis=1) / 127
        inputs = [self._quantized(x), self._constant(weights, scales, np.int8)]
        if bias:
            values = self.random.random_sample(shape[0]) - 0.5
            inputs.append(self._constant(values, scales * self._numbers[x][0], np.int32))
        out = self.graph.node(op, inputs, **attrs)
        self._numbers[out] = SIGNED
        self._raw.add(out)
        return out

    def conv(self, x, cin, cout, kernel, bias=True, group=1, **attrs):
        kernel = [kernel, kernel] if isinstance(kernel, int) else list(kernel)
        if group != 1:
            attrs["group"] = group
        fan_in = cin // group * int(np.prod(kernel))
        return self._product("Conv", x, [cout, cin // group] + kernel, fan_in, bias, kernel_shape=kernel, **attrs)

    def dense(self, x, cin, cout):
        return self._product("Gemm", x, [cout, cin], cin, True, transB=1)

    def op(self, op, *inputs, **attrs):
        at_once = op in ACTIVATIONS and inputs[0] in self._raw
        operands = [x if at_once else self._quantized(x) for x in inputs]
        out = self.graph.node(op, operands, **attrs)
        if op in MOVES:
            self._numbers[out] = self._numbers[inputs[0]]
        elif op in ("Relu", "Clip", "Sigmoid"):
            self._numbers[out] = UNSIGNED
        else:
            self._numbers[out] = SIGNED
        if op == "GlobalAveragePool" and self._numbers[inputs[0]] == UNSIGNED:
            self._numbers[out] = UNSIGNED
        if op == "Add":
            self._raw.add(out)
        return out

    def output(self, tensor):
        super().output(self._quantized(tensor))
