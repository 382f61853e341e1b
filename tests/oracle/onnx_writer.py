# SPDX-License-Identifier: MIT
"""Writes ONNX files, with no dependency beyond numpy.

The ONNX package would bring protobuf and its whole tool chain along for what is, for the few messages needed here, a
hundred lines: protobuf's wire format knows a key (field number * 8 + wire type) followed by a varint (type 0), a
length and bytes (type 2) or four little-endian bytes (type 5), and nothing else that ONNX writes. Field numbers are
those of onnx.proto (IR version 7).

    g = Graph("net")
    x = g.input("x", (1, 3, 8, 8))
    y = g.node("Relu", [x])
    g.output(y, (1, 3, 8, 8))
    open("net.onnx", "wb").write(g.serialize())

What is written depends only on the calls made, so equal calls give equal bytes.
"""

import struct

import numpy as np

IR_VERSION = 7
PRODUCER = "qnpu-onnx-writer"

# numpy type -> TensorProto.DataType
DATA_TYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "float64": 11, "uint32": 12, "uint64": 13,
}

# AttributeProto.AttributeType
ATTR_FLOAT, ATTR_INT, ATTR_STRING, ATTR_TENSOR, ATTR_GRAPH, ATTR_FLOATS, ATTR_INTS, ATTR_STRINGS = range(1, 9)


def _varint(value):
    value &= (1 << 64) - 1  # negative numbers travel as their 64-bit two's complement
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _int(field, value):
    return _varint(field << 3) + _varint(int(value))


def _bytes(field, data):
    if isinstance(data, str):
        data = data.encode()
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _float(field, value):
    return _varint(field << 3 | 5) + struct.pack("<f", value)


def _tensor(name, array):
    """A TensorProto; the data always as raw little-endian bytes."""
    array = np.asarray(array)  # ascontiguousarray would turn a scalar into a vector; tobytes orders by rows anyway
    data = array.astype(array.dtype.newbyteorder("<")).tobytes()
    dims = b"".join(_int(1, d) for d in array.shape)
    return dims + _int(2, DATA_TYPES[array.dtype.name]) + (_bytes(8, name) if name else b"") + _bytes(9, data)


def _attribute(name, value):
    head = _bytes(1, name)
    if isinstance(value, Graph):
        return head + _bytes(6, value.body()) + _int(20, ATTR_GRAPH)
    if isinstance(value, np.ndarray):
        return head + _bytes(5, _tensor("", value)) + _int(20, ATTR_TENSOR)
    if isinstance(value, str):
        return head + _bytes(4, value) + _int(20, ATTR_STRING)
    if isinstance(value, float):
        return head + _float(2, value) + _int(20, ATTR_FLOAT)
    if isinstance(value, int):
        return head + _int(3, value) + _int(20, ATTR_INT)
    values = list(value)
    if values and all(isinstance(v, str) for v in values):
        return head + b"".join(_bytes(9, v) for v in values) + _int(20, ATTR_STRINGS)
    if values and all(isinstance(v, float) for v in values):
        return head + b"".join(_float(7, v) for v in values) + _int(20, ATTR_FLOATS)
    return head + b"".join(_int(8, v) for v in values) + _int(20, ATTR_INTS)


def _value_info(name, shape, dtype):
    tensor = _int(1, DATA_TYPES[np.dtype(dtype).name])
    if shape is not None:
        dims = (_bytes(2, d) if isinstance(d, str) else _int(1, d) for d in shape)
        tensor += _bytes(2, b"".join(_bytes(1, d) for d in dims))
    return _bytes(1, name) + _bytes(2, _bytes(1, tensor))


class Graph:
    """A graph under construction. Every method that makes a tensor returns its name."""

    def __init__(self, name, opset=13, prefix=""):
        """`prefix` stands in front of the names of nodes and tensors: those of a body must not be the network's. A body
        is the value of a node's attribute."""
        self.name = name
        self.opset = opset
        self.prefix = prefix
        self._nodes = []
        self._initializers = []
        self._inputs = []
        self._outputs = []
        self._functions = []
        self._count = 0

    def input(self, name, shape, dtype=np.float32):
        """A graph input; a dimension may be a string (a symbol)."""
        self._inputs.append(_value_info(name, shape, dtype))
        return name

    def output(self, name, shape=None, dtype=np.float32):
        """Makes a tensor a graph output; without a shape the file leaves it to shape inference."""
        self._outputs.append((name, shape, dtype))
        return name

    def set_output_shapes(self, shapes):
        """Declares the outputs' shapes afterwards: {name: shape}."""
        self._outputs = [(name, shapes.get(name, shape), dtype) for name, shape, dtype in self._outputs]

    def const(self, array, name=None):
        """An initializer."""
        name = name or self._fresh("const")
        self._initializers.append(_tensor(name, array))
        return name

    def external(self, name, shape, location):
        """An initializer of float32 whose bytes are those of another file."""
        dims = b"".join(_int(1, d) for d in shape)
        entry = _bytes(1, "location") + _bytes(2, location)
        self._initializers.append(dims + _int(2, DATA_TYPES["float32"]) + _bytes(8, name) + _bytes(13, entry) +
                                  _int(14, 1))
        return name

    def node(self, op, inputs, out=None, domain="", **attrs):
        """A node. `out` is a name, a list of names, or absent (one output with a name of its own); "" is a missing
        input. `domain`: where the operator is not one of ONNX's own."""
        outputs = [out or self._fresh(op.lower())] if not isinstance(out, (list, tuple)) else list(out)
        body = b"".join(_bytes(1, i) for i in inputs) + b"".join(_bytes(2, o) for o in outputs)
        body += _bytes(3, "%s%s_%d" % (self.prefix, op, len(self._nodes))) + _bytes(4, op)
        body += b"".join(_bytes(5, _attribute(k, attrs[k])) for k in sorted(attrs))
        body += _bytes(7, domain) if domain else b""
        self._nodes.append(body)
        return outputs[0] if not isinstance(out, (list, tuple)) else outputs

    def function(self, name, domain, inputs, outputs, body):
        """An operator that the file defines, by the nodes of another Graph."""
        fields = [(1, [name]), (4, inputs), (5, outputs), (7, body._nodes)]  # pylint: disable=protected-access
        opset = _bytes(1, "") + _int(2, self.opset)
        self._functions.append(b"".join(_bytes(field, part) for field, parts in fields for part in parts)
                               + _bytes(9, opset) + _bytes(10, domain))

    def body(self):
        """The bytes of the GraphProto."""
        outputs = [_value_info(*output) for output in self._outputs]
        parts = [(1, self._nodes), (2, [self.name]), (5, self._initializers), (11, self._inputs), (12, outputs)]
        return b"".join(_bytes(field, body) for field, bodies in parts for body in bodies)

    def serialize(self):
        """The bytes of the ModelProto."""
        opset = _bytes(1, "") + _int(2, self.opset)
        functions = b"".join(_bytes(25, function) for function in self._functions)
        version = 8 if functions else IR_VERSION
        return _int(1, version) + _bytes(2, PRODUCER) + _bytes(7, self.body()) + _bytes(8, opset) + functions

    def _fresh(self, stem):
        self._count += 1
        return "%s%s_%d" % (self.prefix, stem, self._count)
