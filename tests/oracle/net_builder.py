# SPDX-License-Identifier: MIT
"""What the network generators share: a graph under construction with random weights of a sensible size."""

import numpy as np

from onnx_writer import Graph


class Builder:
    """One network. Its random numbers come from its seed alone."""

    def __init__(self, name, seed, opset=13, is_open=False):
        self.name = name
        self.is_open = is_open  # the file leaves all dimensions of inputs open
        self.seed = seed & 0x7FFFFFFF
        self.random = np.random.RandomState(self.seed)
        self.input_seed = self.seed ^ 0x55555555  # another sequence, so that inputs do not repeat the weights
        self.graph = Graph(name, opset)
        self.ranges = {}  # input name -> [low, high], where it is not [-1, 1]
        self._inputs = 0

    def set_opset(self, opset):
        self.graph.opset = opset

    def input(self, shape, low=None, high=None):
        """A graph input x0, x1, ..."""
        name = "x%d" % self._inputs
        self._inputs += 1
        if low is not None:
            self.ranges[name] = [low, high]
        if self.is_open:
            shape = ["%s_%d" % (name, axis) for axis in range(len(shape))]
        return self.graph.input(name, shape)

    def uniform(self, shape, low=-1.0, high=1.0):
        """An initializer of numbers between low and high."""
        return self.graph.const((low + (high - low) * self.random.random_sample(shape)).astype(np.float32))

    def weights(self, shape, fan_in):
        """An initializer that keeps the size of what goes through it, about."""
        reach = (6.0 / fan_in) ** 0.5
        return self.uniform(shape, -reach, reach)

    def ints(self, values):
        """An int64 initializer, as Reshape wants its shape."""
        return self.graph.const(np.array(values, np.int64))

    def op(self, op, *inputs, **attrs):
        return self.graph.node(op, list(inputs), **attrs)

    def output(self, tensor):
        self.graph.output(tensor)

    # ---- layers with weights, used in chains

    def conv(self, x, cin, cout, kernel, bias=True, group=1, **attrs):
        kernel = [kernel, kernel] if isinstance(kernel, int) else list(kernel)
        fan_in = cin // group * int(np.prod(kernel))
        inputs = [x, self.weights([cout, cin // group] + kernel, fan_in)]
        if bias:
            inputs.append(self.uniform([cout], -0.5, 0.5))
        if group != 1:
            attrs["group"] = group
        return self.op("Conv", *inputs, kernel_shape=kernel, **attrs)

    def dense(self, x, cin, cout):
        return self.op("Gemm", x, self.weights([cout, cin], cin), self.uniform([cout], -0.5, 0.5), transB=1)

    def batch_norm(self, x, channels, **attrs):
        return self.op("BatchNormalization", x, self.uniform([channels], 0.5, 1.5), self.uniform([channels]),
                       self.uniform([channels], -0.3, 0.3), self.uniform([channels], 0.2, 2.0), **attrs)
