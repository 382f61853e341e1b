# SPDX-License-Identifier: MIT
"""Reads ONNX files with a protobuf wire-format reader of its own: no protobuf, no onnx package, no code shared with the
compiler's importer. Anything it does not understand is an OnnxError that says what and where."""

import struct
from collections import namedtuple

import numpy as np


class OnnxError(Exception):
    """A file or graph that cannot be read or evaluated."""


ValueInfo = namedtuple("ValueInfo", "name dtype shape")  # shape: ints, strings (symbols) or None (unknown); or None
Node = namedtuple("Node", "op domain name inputs outputs attrs")
Model = namedtuple("Model", "opset nodes initializers inputs outputs")

# TensorProto.DataType -> (numpy type, field that carries it when raw_data is absent)
FLOAT_DATA, INT32_DATA, INT64_DATA, DOUBLE_DATA, UINT64_DATA = 4, 5, 7, 10, 11
DATA_TYPES = {
    1: ("float32", FLOAT_DATA), 2: ("uint8", INT32_DATA), 3: ("int8", INT32_DATA), 4: ("uint16", INT32_DATA),
    5: ("int16", INT32_DATA), 6: ("int32", INT32_DATA), 7: ("int64", INT64_DATA), 9: ("bool", INT32_DATA),
    10: ("float16", INT32_DATA), 11: ("float64", DOUBLE_DATA), 12: ("uint32", UINT64_DATA), 13: ("uint64", UINT64_DATA),
}

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def _varint(data, pos):
    value = shift = 0
    while True:
        if pos >= len(data) or shift > 63:
            raise OnnxError("protobuf: broken varint at byte %d" % pos)
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, pos


def _signed(value):
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _fields(data):
    """Yields (field, wire type, value) of one message; value is an int or a memoryview."""
    pos = 0
    while pos < len(data):
        key, pos = _varint(data, pos)
        wire = key & 7
        if wire == VARINT:
            value, pos = _varint(data, pos)
        else:
            if wire == BYTES:
                size, pos = _varint(data, pos)
            elif wire in (FIXED64, FIXED32):
                size = 8 if wire == FIXED64 else 4
            else:
                raise OnnxError("protobuf: wire type %d at byte %d" % (wire, pos))
            if pos + size > len(data):
                raise OnnxError("protobuf: field %d needs %d bytes, %d are left" % (key >> 3, size, len(data) - pos))
            value, pos = data[pos:pos + size], pos + size
        yield key >> 3, wire, value


def _text(value):
    return bytes(value).decode("utf-8")


def _ints(wire, value):
    """The numbers of a repeated integer field, packed or not."""
    if wire == VARINT:
        return [_signed(value)]
    out, pos = [], 0
    while pos < len(value):
        number, pos = _varint(value, pos)
        out.append(_signed(number))
    return out


def _float_list(value, code="<f4"):
    return np.frombuffer(value, code).tolist()


def parse_tensor(data):
    """A TensorProto -> (name, array)."""
    dims, kind, name, raw, typed = [], 0, "", None, {}
    for field, wire, value in _fields(data):
        if field == 1:
            dims += _ints(wire, value)
        elif field == 2:
            kind = value
        elif field in (INT32_DATA, INT64_DATA, UINT64_DATA):
            typed.setdefault(field, []).extend(_ints(wire, value))
        elif field == FLOAT_DATA:
            typed.setdefault(field, []).extend(_float_list(value))
        elif field == DOUBLE_DATA:
            typed.setdefault(field, []).extend(_float_list(value, "<f8"))
        elif field == 8:
            name = _text(value)
        elif field == 9:
            raw = value
        elif field in (13, 14) and value:
            raise OnnxError("tensor %r: external data is not supported" % name)
    if kind not in DATA_TYPES:
        raise OnnxError("tensor %r: element type %d is not supported" % (name, kind))
    dtype, carrier = DATA_TYPES[kind]
    if raw is not None:
        array = np.frombuffer(raw, np.dtype(dtype).newbyteorder("<")).astype(dtype)
    elif dtype == "float16":  # int32_data holds the bit patterns
        array = np.array(typed.get(carrier, []), np.uint16).view(np.float16)
    elif dtype.startswith("uint"):  # values above 2**63 came out of _ints as negative numbers
        array = np.array(typed.get(carrier, []), np.int64).astype(dtype)
    else:
        array = np.array(typed.get(carrier, []), dtype)
    count = int(np.prod(dims, dtype=np.int64))
    if array.size != count:
        raise OnnxError("tensor %r: shape %s needs %d elements, %d are there" % (name, dims, count, array.size))
    return name, array.reshape(dims)


def _attribute(data):
    """An AttributeProto -> (name, value). Old files leave the type out: then the field that is there decides."""
    name, kind, single, repeated = "", 0, {}, {7: [], 8: [], 9: []}
    for field, wire, value in _fields(data):
        if field == 1:
            name = _text(value)
        elif field == 2:
            single[1] = struct.unpack("<f", value)[0]
        elif field == 3:
            single[2] = _signed(value)
        elif field == 4:
            single[3] = _text(value)
        elif field == 5:
            single[4] = parse_tensor(value)[1]
        elif field == 7:
            repeated[7] += _float_list(value)
        elif field == 8:
            repeated[8] += _ints(wire, value)
        elif field == 9:
            repeated[9].append(_text(value))
        elif field == 20:
            kind = value
        elif field in (6, 10, 11, 22, 23):
            single[5] = None  # graphs, lists of tensors, sparse tensors: no operator here uses them
    if kind in (6, 7, 8):
        return name, repeated[kind + 1]
    if kind in single:
        return name, single[kind]
    if kind in (1, 2, 3):  # proto3 leaves zeros out
        return name, {1: 0.0, 2: 0, 3: ""}[kind]
    lists = [v for v in repeated.values() if v]
    if kind == 0 and (lists or single):
        return name, lists[0] if lists else next(iter(single.values()))
    return name, None


def _node(data):
    texts, inputs, outputs, attrs = {3: "", 4: "", 7: ""}, [], [], {}
    for field, _, value in _fields(data):
        if field == 1:
            inputs.append(_text(value))
        elif field == 2:
            outputs.append(_text(value))
        elif field == 5:
            name, content = _attribute(value)
            attrs[name] = content
        elif field in texts:
            texts[field] = _text(value)
    return Node(texts[4], texts[7], texts[3], inputs, outputs, attrs)


def _dimension(data):
    for field, _, value in _fields(data):
        if field == 1:
            return _signed(value)
        if field == 2:
            return _text(value)
    return None


def _value_info(data):
    name, dtype, shape = "", None, None
    for field, _, value in _fields(data):
        if field == 1:
            name = _text(value)
        elif field == 2:
            for kind, _, body in _fields(value):
                if kind != 1:  # sequences, maps, optionals
                    continue
                for part, _, content in _fields(body):
                    if part == 1:
                        dtype = DATA_TYPES.get(content, (None,))[0]
                    elif part == 2:
                        shape = [_dimension(d) for f, _, d in _fields(content) if f == 1]
    return ValueInfo(name, dtype, shape)


def _graph(data, opset):
    nodes, initializers, inputs, outputs = [], {}, [], []
    for field, _, value in _fields(data):
        if field == 1:
            nodes.append(_node(value))
        elif field == 5:
            name, array = parse_tensor(value)
            initializers[name] = array
        elif field == 11:
            inputs.append(_value_info(value))
        elif field == 12:
            outputs.append(_value_info(value))
        elif field == 15:
            raise OnnxError("graph: sparse initializers are not supported")
    # Before IR version 4 initializers were listed as inputs too; what has a value is none of the caller's inputs.
    inputs = [i for i in inputs if i.name not in initializers]
    return Model(opset, nodes, initializers, inputs, outputs)


def _model(data):
    graph, opset = None, None
    for field, _, value in _fields(memoryview(data)):
        if field == 7:
            graph = value
        elif field == 8:
            domain, version = "", 1
            for part, _, content in _fields(value):
                if part == 1:
                    domain = _text(content)
                elif part == 2:
                    version = content
            if domain in ("", "ai.onnx"):
                opset = version
    if graph is None or opset is None:
        raise OnnxError("not an ONNX model: no %s" % ("graph" if graph is None else "operator set"))
    return _graph(graph, opset)


def parse_model(data):
    """The bytes of an ONNX file -> Model. Whatever is wrong with them is an OnnxError."""
    try:
        return _model(data)
    except (UnicodeDecodeError, TypeError, ValueError, OverflowError, struct.error) as error:
        raise OnnxError("not an ONNX model: a field is not of its type (%s)" % error) from error


def load_model(path):
    """An ONNX file -> Model."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        return parse_model(data)
    except OnnxError as error:
        raise OnnxError("%s: %s" % (path, error)) from error


def load_inputs(path):
    """The inputs of an ONNX file that have no value in it, as ValueInfo; reads no other part, so that neither the
    operators nor where the weights are matters."""
    with open(path, "rb") as file:
        data = memoryview(file.read())
    try:
        inputs, valued = [], set()
        for _, _, graph in (field for field in _fields(data) if field[0] == 7):
            for field, _, value in _fields(graph):
                if field == 11:
                    inputs.append(_value_info(value))
                elif field == 5:
                    valued.update(_text(name) for part, _, name in _fields(value) if part == 8)
    except (OnnxError, UnicodeDecodeError, TypeError, ValueError, struct.error) as error:
        raise OnnxError("%s: not an ONNX model (%s)" % (path, error)) from error
    return [i for i in inputs if i.name not in valued]
