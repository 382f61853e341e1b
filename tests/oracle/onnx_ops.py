# SPDX-License-Identifier: MIT
"""ONNX operators in numpy, written from the operator specification: short and slow, to be compared with.

Floating-point tensors are float64 whatever the file says, integers keep their type (and wrap as theirs do). Every
operator is `function(inputs, attrs, opset) -> list of outputs`; an input that is absent is None. What changed between
operator-set versions is handled where it changes the result; a case that the specification leaves open is refused.
"""

import itertools
import math

import numpy as np

from onnx_reader import OnnxError
from onnx_resize import resize
from onnx_shape_ops import OPERATORS as SHAPE_OPERATORS


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


def _hard_sigmoid(x, alpha, beta):
    return np.clip(alpha * x + beta, 0, 1)


def hard_sigmoid(inputs, attrs, _):
    return [_hard_sigmoid(inputs[0], attrs.get("alpha", 0.2), attrs.get("beta", 0.5))]


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


def elu(inputs, attrs, _):
    x = inputs[0]
    return [np.where(x < 0, attrs.get("alpha", 1.0) * np.expm1(np.minimum(x, 0)), x)]


def leaky_relu(inputs, attrs, _):
    x = inputs[0]
    return [np.where(x < 0, attrs.get("alpha", 0.01) * x, x)]


def _slope(x, slope):
    """Operator sets below 7 give one number a channel as a vector."""
    return slope.reshape([-1] + [1] * (x.ndim - 2)) if slope.ndim == 1 and slope.size > 1 and x.ndim > 2 and \
        slope.size == x.shape[1] and slope.size != x.shape[-1] else slope


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


def layer_normalization(inputs, attrs, _):
    x, scale = inputs[:2]
    axes = tuple(range(attrs.get("axis", -1) % x.ndim, x.ndim))
    mean = x.mean(axis=axes, keepdims=True)
    inverse = 1 / np.sqrt(((x - mean) ** 2).mean(axis=axes, keepdims=True) + attrs.get("epsilon", 1e-5))
    y = (x - mean) * inverse * scale
    if len(inputs) > 2 and inputs[2] is not None:
        y = y + inputs[2]
    return [y, mean, inverse]


def _reduction(function, axes_are_input_from):
    """A reduction; its axes are an attribute in operator sets below that."""
    def reduce(inputs, attrs, opset):
        x, axes = inputs[0], attrs.get("axes")
        if opset >= axes_are_input_from:
            axes = None if len(inputs) < 2 or inputs[1] is None else inputs[1].tolist()
        if not axes and attrs.get("noop_with_empty_axes", 0):
            return [x]
        return [function(x, axis=tuple(axes) if axes else None, keepdims=bool(attrs.get("keepdims", 1)))]
    return reduce


def _log_sum_exp(x, axis=None, keepdims=False):
    top = np.max(x, axis=axis, keepdims=True, initial=-np.inf)  # an empty set gives -inf
    top = np.where(np.isfinite(top), top, 0)
    y = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return y if keepdims else np.squeeze(y, axis)


def log_softmax(inputs, attrs, opset):
    return [np.log(softmax(inputs, attrs if attrs.get("axis") is not None or opset >= 13 else {"axis": 1}, opset)[0])]


def instance_normalization(inputs, attrs, _):
    x, scale, bias = inputs
    axes, shape = tuple(range(2, x.ndim)), [1, -1] + [1] * (x.ndim - 2)
    mean, var = x.mean(axis=axes, keepdims=True), x.var(axis=axes, keepdims=True)
    y = (x - mean) / np.sqrt(var + attrs.get("epsilon", 1e-5))
    return [y * scale.reshape(shape) + bias.reshape(shape)]


def _gelu(inputs, attrs, _):
    x = inputs[0]
    if attrs.get("approximate", "none") == "tanh":
        return [0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))]
    return [0.5 * x * (1 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2)))]


def conv_transpose(inputs, attrs, _):
    """The windows of a convolution the other way round: each element of x adds its weights to the result."""
    x, w = inputs[:2]
    bias = inputs[2] if len(inputs) > 2 else None
    rank, group = x.ndim - 2, attrs.get("group", 1)
    kernel = list(w.shape[2:])
    strides, dilations = (list(attrs.get(n) or [1] * rank) for n in ("strides", "dilations"))
    extra = list(attrs.get("output_padding") or [0] * rank)
    pads = list(attrs.get("pads") or [0] * (2 * rank))
    whole = [(n - 1) * s + (k - 1) * d + 1 + e
             for n, s, k, d, e in zip(x.shape[2:], strides, kernel, dilations, extra)]
    if attrs.get("output_shape") or attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        size = attrs.get("output_shape") or [n * s for n, s in zip(x.shape[2:], strides)]
        total = [max(a - b, 0) for a, b in zip(whole, size[-rank:])]
        small = [t // 2 for t in total]
        large = [t - s for t, s in zip(total, small)]
        pads = small + large if attrs.get("auto_pad") != "SAME_LOWER" else large + small
        if attrs.get("auto_pad", "NOTSET") == "NOTSET":
            pads = large + small
        whole = [max(a, b) for a, b in zip(whole, size[-rank:])]
    batch, per_in, per_out = x.shape[0], x.shape[1] // group, w.shape[1]
    y = np.zeros([batch, group * per_out] + whole)
    for g in range(group):
        of_group = x[:, g * per_in:(g + 1) * per_in]
        for tap in itertools.product(*(range(k) for k in kernel)):
            view = tuple(slice(t * d, t * d + (n - 1) * s + 1, s)
                         for t, d, n, s in zip(tap, dilations, x.shape[2:], strides))
            weights = w[(slice(g * per_in, (g + 1) * per_in), slice(None)) + tap]
            y[(slice(None), slice(g * per_out, (g + 1) * per_out)) + view] += np.einsum("nc...,co->no...",
                                                                                        of_group, weights)
    y = y[(slice(None), slice(None)) + tuple(slice(pads[i], y.shape[2 + i] - pads[rank + i]) for i in range(rank))]
    if bias is not None:
        y = y + bias.reshape([1, -1] + [1] * rank)
    return [y]


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


def depth_to_space(inputs, attrs, _):
    n, c, h, w = inputs[0].shape
    block = attrs["blocksize"]
    if attrs.get("mode", "DCR") == "DCR":
        x = inputs[0].reshape(n, block, block, c // block ** 2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        x = inputs[0].reshape(n, c // block ** 2, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
    return [x.reshape(n, c // block ** 2, h * block, w * block)]


def _padded_positions(size, begin, end, mode):
    """The element of a dimension that each place of the result has; outside of 0 ... size - 1: the constant."""
    at = np.arange(-begin, size + end)
    if mode == "constant":
        return at
    if mode == "edge":
        return np.clip(at, 0, size - 1)
    if mode == "wrap":
        return at % size
    if mode != "reflect":
        raise OnnxError("Pad: mode %r" % mode)
    at = at % max(2 * (size - 1), 1)
    return np.where(at < size, at, 2 * (size - 1) - at)


def pad(inputs, attrs, opset):
    x = inputs[0]
    if opset < 11:
        pads, value, axes = attrs["paddings" if opset < 2 else "pads"], attrs.get("value", 0.0), None
    else:
        pads, value, axes = (list(inputs[1:]) + [None, None])[:3]
        pads = pads.tolist()
    axes = list(range(x.ndim)) if axes is None else [axis % x.ndim for axis in axes.tolist()]
    for axis, begin, end in zip(axes, pads[:len(axes)], pads[len(axes):]):
        size = x.shape[axis]
        at = _padded_positions(size, begin, end, attrs.get("mode", "constant"))
        inside = ((at >= 0) & (at < size)).reshape([-1] + [1] * (x.ndim - 1 - axis))
        moved = np.take(x, np.clip(at, 0, size - 1), axis=axis)
        x = np.where(inside, moved, np.array(0 if value is None else value, x.dtype))
    return [x]


def split(inputs, attrs, opset):
    """`num_outputs` is among the attributes for every operator set."""
    x, axis, parts = inputs[0], attrs.get("axis", 0), attrs["num_outputs"]
    sizes = attrs.get("split")
    if opset >= 13:
        sizes = None if len(inputs) < 2 or inputs[1] is None else inputs[1].tolist()
    if sizes is None:
        if opset < 18 and x.shape[axis] % parts:
            raise OnnxError("Split: %d elements in %d equal parts" % (x.shape[axis], parts))
        whole = -(-x.shape[axis] // parts)
        sizes = [whole] * (parts - 1) + [x.shape[axis] - whole * (parts - 1)]
    if sum(sizes) != x.shape[axis] or len(sizes) != parts:
        raise OnnxError("Split: %d elements in %d parts of %s" % (x.shape[axis], parts, sizes))
    return np.split(x, np.cumsum(sizes)[:-1], axis=axis)


def slice_(inputs, attrs, opset):
    x = inputs[0]
    if opset < 10:
        starts, ends, axes, steps = attrs["starts"], attrs["ends"], attrs.get("axes"), None
    else:
        starts, ends, axes, steps = (None if a is None else a.tolist() for a in (list(inputs[1:]) + [None, None])[:4])
    view = [slice(None)] * x.ndim
    for k, (start, end) in enumerate(zip(starts, ends)):
        axis, step = axes[k] if axes else k, steps[k] if steps else 1
        # An end below the first element is all of it, going down; Python counts it from behind.
        view[axis] = slice(start, None if step < 0 and end < -x.shape[axis] else end, step)
    return [x[tuple(view)]]


def _axes(inputs, attrs, opset):
    if opset < 13:
        return attrs.get("axes")
    return inputs[1].tolist() if len(inputs) > 1 and inputs[1] is not None else None


def squeeze(inputs, attrs, opset):
    axes = _axes(inputs, attrs, opset)
    return [np.squeeze(inputs[0], None if axes is None else tuple(axes))]


def unsqueeze(inputs, attrs, opset):
    return [np.expand_dims(inputs[0], tuple(_axes(inputs, attrs, opset)))]


# ---- quantization --------------------------------------------------------------------------------------------------

def _along(values, x, attrs):
    """A scale or zero point in a shape that goes with x: one number, one for each index of the axis, or one a block."""
    if values.size == 1 and values.ndim < 2:
        return values.reshape(())
    axis = attrs.get("axis", 1) % x.ndim
    if values.ndim == 1:
        return values.reshape([-1] + [1] * (x.ndim - 1 - axis))
    if not attrs.get("block_size", 0):
        raise OnnxError("scales of shape %s without block_size" % list(values.shape))
    return np.repeat(values, attrs["block_size"], axis)[tuple(slice(n) for n in x.shape)]


def quantize_linear(inputs, attrs, _):
    """The quotient is of single precision, as in the file's types: that decides what lies in the middle."""
    x, scale = inputs[0], _along(inputs[1], inputs[0], attrs)
    types = {0: np.uint8, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16}
    zero = inputs[2] if len(inputs) > 2 and inputs[2] is not None else np.zeros((), types[attrs.get("output_dtype", 0)])
    steps = np.rint(x.astype(np.float32) / scale.astype(np.float32)).astype(np.float64)
    limits = np.iinfo(zero.dtype)
    return [np.clip(steps + _along(zero, x, attrs), limits.min, limits.max).astype(zero.dtype)]


def dequantize_linear(inputs, attrs, _):
    x = inputs[0].astype(np.float64)
    if len(inputs) > 2 and inputs[2] is not None:
        x = x - _along(inputs[2], inputs[0], attrs)
    return [x * _along(inputs[1], inputs[0], attrs)]


def constant(_, attrs, __):
    if attrs.get("value") is not None:
        return [attrs["value"]]
    for name, dtype in (("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64),
                        ("value_ints", np.int64)):
        if name in attrs:
            return [np.array(attrs[name], dtype)]
    raise OnnxError("Constant: none of the supported attributes in %s" % sorted(attrs))


OPERATORS = {
    "Abs": _unary(np.abs),
    "Add": _binary(np.add),
    "ArgMax": argmax,
    "ArgMin": lambda inputs, attrs, opset: argmax([-inputs[0].astype(np.float64)], attrs, opset),
    "Atan": _unary(np.arctan),
    "AveragePool": average_pool,
    "BatchNormalization": batch_normalization,
    "Cast": cast,
    "Ceil": _unary(np.ceil),
    "Clip": clip,
    "Concat": concat,
    "Constant": constant,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Cos": _unary(np.cos),
    "DepthToSpace": depth_to_space,
    "DequantizeLinear": dequantize_linear,
    "Div": _binary(_divide),
    "Dropout": dropout,
    "Einsum": lambda inputs, attrs, _: [np.einsum(attrs["equation"].replace(" ", ""), *inputs)],
    "Elu": elu,
    "Erf": _unary(np.vectorize(math.erf, otypes=[np.float64])),
    "Exp": _unary(np.exp),
    "Flatten": flatten,
    "Floor": _unary(np.floor),
    "Gather": gather,
    "Gelu": _gelu,
    "Gemm": gemm,
    "GlobalAveragePool": global_average_pool,
    "GlobalMaxPool": lambda inputs, _, __: [inputs[0].max(axis=tuple(range(2, inputs[0].ndim)), keepdims=True)],
    "Greater": _binary(np.greater),
    "HardSigmoid": hard_sigmoid,
    "HardSwish": _unary(lambda x: x * _hard_sigmoid(x, 1 / 6, 0.5)),
    "Identity": _unary(lambda x: x),
    "InstanceNormalization": instance_normalization,
    "LayerNormalization": layer_normalization,
    "LeakyRelu": leaky_relu,
    "Log": _unary(np.log),
    "LogSoftmax": log_softmax,
    "MatMul": matmul,
    "MaxPool": max_pool,
    "Mod": lambda inputs, attrs, opset: [(np.fmod if attrs.get("fmod", 0) else np.mod)(*inputs)],
    "Mul": _binary(np.multiply),
    "Neg": _unary(np.negative),
    "PRelu": lambda inputs, attrs, opset: [np.where(inputs[0] < 0, inputs[0] * _slope(*inputs[:2]), inputs[0])],
    "Pad": pad,
    "Pow": lambda inputs, attrs, opset: [np.power(*_operands(inputs, attrs, opset)).astype(inputs[0].dtype)],
    "QuantizeLinear": quantize_linear,
    "Reciprocal": _unary(lambda x: 1 / x),
    "ReduceL1": _reduction(lambda x, **how: np.sum(np.abs(x), **how), 18),
    "ReduceL2": _reduction(lambda x, **how: np.sqrt(np.sum(x * x, **how)), 18),
    "ReduceLogSum": _reduction(lambda x, **how: np.log(np.sum(x, **how)), 18),
    "ReduceLogSumExp": _reduction(_log_sum_exp, 18),
    "ReduceMax": _reduction(np.max, 18),
    "ReduceMean": _reduction(np.mean, 18),
    "ReduceMin": _reduction(np.min, 18),
    "ReduceProd": _reduction(np.prod, 18),
    "ReduceSum": _reduction(np.sum, 13),
    "ReduceSumSquare": _reduction(lambda x, **how: np.sum(x * x, **how), 18),
    "Relu": _unary(lambda x: np.maximum(x, 0)),
    "Reshape": reshape,
    "Resize": resize,
    "Round": _unary(np.rint),
    "Sigmoid": _unary(_sigmoid),
    "Sign": _unary(np.sign),
    "Sin": _unary(np.sin),
    "Slice": slice_,
    "Softmax": softmax,
    "Softplus": _unary(lambda x: np.logaddexp(x, 0)),
    "Softsign": _unary(lambda x: x / (1 + np.abs(x))),
    "Split": split,
    "Sqrt": _unary(np.sqrt),
    "Squeeze": squeeze,
    "Sub": _binary(np.subtract),
    "Tanh": _unary(np.tanh),
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
    "Where": lambda inputs, attrs, opset: [np.where(*inputs)],
    **SHAPE_OPERATORS,
}
