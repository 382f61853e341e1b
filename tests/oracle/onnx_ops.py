# SPDX-License-Identifier: MIT
"""ONNX operators in numpy, written from the operator specification: short and slow, to be compared with.

Floating-point tensors are float64 whatever the file says, integers keep their type (and wrap as theirs do). Every
operator is `function(inputs, attrs, opset) -> list of outputs`; an input that is absent is None. What changed between
operator-set versions is handled where it changes the result; a case that the specification leaves open is refused.
"""

import itertools

import numpy as np

from onnx_reader import OnnxError


# ---- windows, common to convolution and pooling --------------------------------------------------------------------

class Windows:
    """Where the windows of a convolution or pooling lie along each spatial dimension."""

    def __init__(self, attrs, spatial, kernel):
        rank = len(spatial)
        self.spatial = list(spatial)
        self.kernel = list(kernel)
        self.strides = list(attrs.get("strides") or [1] * rank)
        self.dilations = list(attrs.get("dilations") or [1] * rank)
        pads = list(attrs.get("pads") or [0] * (2 * rank))
        ceil_mode = attrs.get("ceil_mode", 0)
        if not len(self.kernel) == len(self.strides) == len(self.dilations) == len(pads) // 2 == rank:
            raise OnnxError("kernel, strides, dilations or pads do not have %d spatial dimensions" % rank)
        self.extent = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations)]
        auto_pad = attrs.get("auto_pad") or "NOTSET"
        self.begin, self.end, self.out = [], [], []
        for i in range(rank):
            begin, end, out = self._dimension(i, auto_pad, ceil_mode, pads[i], pads[rank + i])
            if out < 1:
                raise OnnxError("window of %d does not fit spatial dimension %d" % (self.extent[i], i))
            self.begin.append(begin)
            self.end.append(end)
            self.out.append(out)

    def _dimension(self, i, auto_pad, ceil_mode, begin, end):
        size, stride, extent = self.spatial[i], self.strides[i], self.extent[i]
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            out = -(-size // stride)
            total = max((out - 1) * stride + extent - size, 0)
            small, large = total // 2, total - total // 2
            return (small, large, out) if auto_pad == "SAME_UPPER" else (large, small, out)
        if auto_pad == "VALID":
            return 0, 0, -(-(size - extent + 1) // stride)
        if auto_pad != "NOTSET":
            raise OnnxError("auto_pad %r" % auto_pad)
        span = size + begin + end - extent
        if span < 0:
            return begin, end, 0
        out = (span + (stride - 1 if ceil_mode else 0)) // stride + 1
        # With ceil_mode the last window may hang over the end, but not begin in the padding behind the data.
        if ceil_mode and (out - 1) * stride >= size + begin:
            out -= 1
        return begin, end, out

    def pad(self, x, value):
        """x with its padding, and behind it as much again as the last windows hang over."""
        widths = [(0, 0)] * (x.ndim - len(self.spatial))
        for i, size in enumerate(self.spatial):
            reach = (self.out[i] - 1) * self.strides[i] + self.extent[i]
            widths.append((self.begin[i], max(reach - self.begin[i] - size, self.end[i])))
        return np.pad(x, widths, constant_values=value)

    def taps(self, padded):
        """For each kernel position: its index, and the view of `padded` with what that position sees in every
        window."""
        for tap in itertools.product(*(range(k) for k in self.kernel)):
            view = [slice(None)] * (padded.ndim - len(tap))
            for i, t in enumerate(tap):
                start = t * self.dilations[i]
                view.append(slice(start, start + (self.out[i] - 1) * self.strides[i] + 1, self.strides[i]))
            yield tap, padded[tuple(view)]


# ---- convolution and matrix products -------------------------------------------------------------------------------

def conv(inputs, attrs, _):
    x, w = inputs[:2]
    bias = inputs[2] if len(inputs) > 2 else None
    group = attrs.get("group", 1)
    if x.ndim != w.ndim or x.shape[1] != w.shape[1] * group or w.shape[0] % group:
        raise OnnxError("Conv: input %s, weights %s, group %d" % (x.shape, w.shape, group))
    kernel = attrs.get("kernel_shape") or list(w.shape[2:])
    if list(kernel) != list(w.shape[2:]):
        raise OnnxError("Conv: kernel_shape %s, weights %s" % (kernel, w.shape))
    windows = Windows(attrs, x.shape[2:], kernel)
    batch, pixels = x.shape[0], int(np.prod(windows.out))
    per_in, per_out = w.shape[1], w.shape[0] // group
    y = np.zeros((batch, group, per_out, pixels))
    weights = w.reshape(group, per_out, per_in, *kernel)
    for tap, view in windows.taps(windows.pad(x, 0.0)):
        columns = view.reshape(batch, group, per_in, pixels)
        y += np.matmul(weights[(slice(None), slice(None), slice(None)) + tap], columns)
    y = y.reshape([batch, w.shape[0]] + windows.out)
    if bias is not None:
        y += bias.reshape([1, -1] + [1] * (x.ndim - 2))
    return [y]


def gemm(inputs, attrs, _):
    a, b = inputs[:2]
    c = inputs[2] if len(inputs) > 2 else None
    if a.ndim != 2 or b.ndim != 2:
        raise OnnxError("Gemm: operands %s and %s are not matrices" % (a.shape, b.shape))
    a = a.T if attrs.get("transA", 0) else a
    b = b.T if attrs.get("transB", 0) else b
    y = attrs.get("alpha", 1.0) * (a @ b)
    if c is not None:
        y = y + np.broadcast_to(attrs.get("beta", 1.0) * c, y.shape)
    return [y]


def matmul(inputs, _, __):
    return [np.matmul(inputs[0], inputs[1])]


# ---- pooling -------------------------------------------------------------------------------------------------------

def max_pool(inputs, attrs, _):
    x = inputs[0]
    windows = Windows(attrs, x.shape[2:], attrs["kernel_shape"])
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    order = "F" if attrs.get("storage_order", 0) else "C"
    index = np.arange(int(np.prod(x.shape))).reshape(x.shape)
    if order == "F":  # column major within each plane, planes one after another
        plane = int(np.prod(x.shape[2:]))
        index = index - index % plane + np.arange(plane).reshape(x.shape[2:], order="F")
    best = where = None
    for (_, view), (_, position) in zip(windows.taps(windows.pad(x, lowest)), windows.taps(windows.pad(index, -1))):
        if best is None:
            best, where = view.copy(), position.copy()
            continue
        better = (view > best) | ((where < 0) & (position >= 0))  # padding never wins over data
        best, where = np.where(better, view, best), np.where(better, position, where)
    return [best, where.astype(np.int64)]


def average_pool(inputs, attrs, _):
    x = inputs[0]
    windows = Windows(attrs, x.shape[2:], attrs["kernel_shape"])
    counted = np.ones([1, 1] + windows.spatial)
    if attrs.get("count_include_pad", 0):
        # The declared padding counts; the overhang that ceil_mode adds behind it does not.
        counted = np.pad(counted, [(0, 0), (0, 0)] + list(zip(windows.begin, windows.end)), constant_values=1.0)
    else:
        counted = windows.pad(counted, 0.0)
    padded = windows.pad(x, 0.0)
    counted = np.pad(counted, [(0, 0), (0, 0)] + [(0, p - c) for p, c in zip(padded.shape[2:], counted.shape[2:])])
    total = sum(view for _, view in windows.taps(padded))
    count = sum(view for _, view in windows.taps(counted))
    return [total / count]


def global_average_pool(inputs, _, __):
    return [inputs[0].mean(axis=tuple(range(2, inputs[0].ndim)), keepdims=True)]


# ---- element by element --------------------------------------------------------------------------------------------

def _operands(inputs, attrs, opset):
    """Both operands of a binary operator, with the explicit broadcasting of operator sets below 7 made implicit."""
    a, b = inputs
    if opset < 7 and attrs.get("broadcast", 0) and "axis" in attrs:
        axis = attrs["axis"] % a.ndim
        b = b.reshape(b.shape + (1,) * (a.ndim - axis - b.ndim))
    return a, b


def _binary(function):
    return lambda inputs, attrs, opset: [function(*_operands(inputs, attrs, opset))]


def _divide(a, b):
    if a.dtype.kind == "f":
        return a / b
    quotient = np.floor_divide(np.abs(a), np.abs(b))  # integers divide towards zero
    return (quotient * np.sign(a) * np.sign(b)).astype(a.dtype)


def _unary(function):
    return lambda inputs, attrs, opset: [function(inputs[0])]


def _sigmoid(x):
    small = np.exp(-np.abs(x))  # never overflows
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


def clip(inputs, attrs, opset):
    x = inputs[0]
    low, high = attrs.get("min"), attrs.get("max")
    if opset >= 11:
        low, high = (list(inputs[1:]) + [None, None])[:2]
    if low is not None:
        x = np.maximum(x, low)
    if high is not None:
        x = np.minimum(x, high)
    return [x.astype(inputs[0].dtype)]


def leaky_relu(inputs, attrs, _):
    x = inputs[0]
    return [np.where(x < 0, attrs.get("alpha", 0.01) * x, x)]


def softmax(inputs, attrs, opset):
    x = inputs[0]
    if opset >= 13:
        axis = attrs.get("axis", -1)
        flat = x
    else:  # everything from the axis on is one row
        axis = attrs.get("axis", 1) % x.ndim
        flat, axis = x.reshape(int(np.prod(x.shape[:axis], dtype=np.int64)), -1), 1
    e = np.exp(flat - flat.max(axis=axis, keepdims=True))
    return [(e / e.sum(axis=axis, keepdims=True)).reshape(x.shape)]


def batch_normalization(inputs, attrs, opset):
    x, scale, bias, mean, var = inputs
    if attrs.get("training_mode", 0) or (opset < 7 and not attrs.get("is_test", 0)):
        raise OnnxError("BatchNormalization: training mode is not inference")
    if attrs.get("spatial", 1) != 1:
        raise OnnxError("BatchNormalization: spatial=0 is not supported")
    shape = [1, -1] + [1] * (x.ndim - 2)
    scale, bias, mean, var = (v.reshape(shape) for v in (scale, bias, mean, var))
    return [(x - mean) / np.sqrt(var + attrs.get("epsilon", 1e-5)) * scale + bias]


def dropout(inputs, attrs, opset):
    if (len(inputs) > 2 and inputs[2] is not None and inputs[2].item()) or (opset < 7 and not attrs.get("is_test", 0)):
        raise OnnxError("Dropout: training mode is not inference")
    return [inputs[0], np.ones(inputs[0].shape, bool)]


def argmax(inputs, attrs, _):
    axis = attrs.get("axis", 0)
    x = inputs[0]
    if attrs.get("select_last_index", 0):
        out = x.shape[axis] - 1 - np.flip(x, axis).argmax(axis=axis)
    else:
        out = x.argmax(axis=axis)
    return [np.expand_dims(out, axis) if attrs.get("keepdims", 1) else out]


def cast(inputs, attrs, _):
    types = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64}
    return [inputs[0].astype(types[attrs["to"]])]


def gather(inputs, attrs, _):
    return [np.take(inputs[0], inputs[1], axis=attrs.get("axis", 0))]


# ---- shapes --------------------------------------------------------------------------------------------------------

def flatten(inputs, attrs, _):
    x = inputs[0]
    axis = attrs.get("axis", 1)
    axis += x.ndim if axis < 0 else 0
    return [x.reshape(int(np.prod(x.shape[:axis], dtype=np.int64)), int(np.prod(x.shape[axis:], dtype=np.int64)))]


def reshape(inputs, attrs, opset):
    x = inputs[0]
    wanted = list(attrs["shape"]) if opset < 5 else inputs[1].tolist()
    if not attrs.get("allowzero", 0):
        wanted = [x.shape[i] if d == 0 else d for i, d in enumerate(wanted)]
    if 0 in wanted and -1 in wanted:
        raise OnnxError("Reshape: %s has both 0 and -1" % wanted)
    try:
        return [x.reshape(wanted)]
    except ValueError:
        raise OnnxError("Reshape: %s to %s" % (list(x.shape), wanted)) from None


def transpose(inputs, attrs, _):
    return [np.transpose(inputs[0], attrs.get("perm"))]


def concat(inputs, attrs, opset):
    return [np.concatenate(inputs, axis=attrs.get("axis", 1) if opset < 4 else attrs["axis"])]


def constant(_, attrs, __):
    if attrs.get("value") is not None:
        return [attrs["value"]]
    for name, dtype in (("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64),
                        ("value_ints", np.int64)):
        if name in attrs:
            return [np.array(attrs[name], dtype)]
    raise OnnxError("Constant: none of the supported attributes in %s" % sorted(attrs))


OPERATORS = {
    "Add": _binary(np.add),
    "ArgMax": argmax,
    "Atan": _unary(np.arctan),
    "AveragePool": average_pool,
    "BatchNormalization": batch_normalization,
    "Cast": cast,
    "Clip": clip,
    "Concat": concat,
    "Constant": constant,
    "Conv": conv,
    "Div": _binary(_divide),
    "Dropout": dropout,
    "Flatten": flatten,
    "Gather": gather,
    "Gemm": gemm,
    "GlobalAveragePool": global_average_pool,
    "Greater": _binary(np.greater),
    "Identity": _unary(lambda x: x),
    "LeakyRelu": leaky_relu,
    "MatMul": matmul,
    "MaxPool": max_pool,
    "Mod": lambda inputs, attrs, opset: [(np.fmod if attrs.get("fmod", 0) else np.mod)(*inputs)],
    "Mul": _binary(np.multiply),
    "Relu": _unary(lambda x: np.maximum(x, 0)),
    "Reshape": reshape,
    "Sigmoid": _unary(_sigmoid),
    "Softmax": softmax,
    "Sub": _binary(np.subtract),
    "Tanh": _unary(np.tanh),
    "Transpose": transpose,
    "Where": lambda inputs, attrs, opset: [np.where(*inputs)],
}
