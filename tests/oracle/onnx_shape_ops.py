# SPDX-License-Identifier: MIT
"""ONNX operators of shapes, comparisons and indices: what networks compute their own shapes with, and more. As
onnx_ops.py."""

import numpy as np

from onnx_reader import OnnxError


# ---- shapes --------------------------------------------------------------------------------------------------------

def shape(inputs, attrs, _):
    dims = np.array(inputs[0].shape, np.int64)
    return [dims[slice(attrs.get("start", 0), attrs.get("end"))]]


def constant_of_shape(inputs, attrs, _):
    value = attrs.get("value")
    value = np.zeros(1, np.float32) if value is None else np.asarray(value)
    return [np.full(inputs[0].tolist(), value.reshape(-1)[0], value.dtype)]


def expand(inputs, _, __):
    """Both ways: a 1 of the wanted shape leaves the dimension as it is."""
    x, wanted = inputs[0], inputs[1].tolist()
    return [x * np.ones(wanted, x.dtype) if x.dtype != bool else x & np.ones(wanted, bool)]


def range_(inputs, _, __):
    start, limit, delta = (v.item() for v in inputs)
    count = max(int(np.ceil((limit - start) / delta)), 0)
    return [(start + delta * np.arange(count)).astype(inputs[0].dtype)]


def tile(inputs, attrs, opset):
    if opset < 6:
        x, tiles, axis = inputs[0], int(inputs[1]), int(inputs[2])
        return [np.concatenate([x] * tiles, axis)]
    return [np.tile(inputs[0], inputs[1].tolist())]


def trilu(inputs, attrs, _):
    k = inputs[1].item() if len(inputs) > 1 and inputs[1] is not None else 0
    return [np.triu(inputs[0], k) if attrs.get("upper", 1) else np.tril(inputs[0], k)]


def space_to_depth(inputs, attrs, _):
    n, c, h, w = inputs[0].shape
    block = attrs["blocksize"]
    x = inputs[0].reshape(n, c, h // block, block, w // block, block).transpose(0, 3, 5, 1, 2, 4)
    return [x.reshape(n, c * block ** 2, h // block, w // block)]


def non_zero(inputs, _, __):
    return [np.array(np.nonzero(np.atleast_1d(inputs[0])), np.int64)]


def one_hot(inputs, attrs, _):
    indices, depth, values = inputs
    depth = int(np.asarray(depth).reshape(-1)[0])
    axis = attrs.get("axis", -1)
    axis = axis + indices.ndim + 1 if axis < 0 else axis
    indices = indices.astype(np.int64)
    inside = (indices >= -depth) & (indices < depth)
    hot = np.expand_dims(np.where(inside, indices % depth, -1), axis)
    places = np.arange(depth).reshape([-1] + [1] * (indices.ndim - axis))
    return [np.where(hot == places, values[1], values[0]).astype(values.dtype)]


# ---- indices -------------------------------------------------------------------------------------------------------

_JOIN = {"none": lambda old, new: new, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def gather_elements(inputs, attrs, _):
    x, indices = inputs
    axis = attrs.get("axis", 0)
    return [np.take_along_axis(x, np.where(indices < 0, indices + x.shape[axis], indices), axis)]


def gather_nd(inputs, attrs, _):
    x, indices = inputs
    batch = attrs.get("batch_dims", 0)
    outer = int(np.prod(x.shape[:batch], dtype=np.int64))
    flat_x, flat_i = x.reshape((outer,) + x.shape[batch:]), indices.reshape((outer,) + indices.shape[batch:])
    rows = [flat_x[b][tuple(np.moveaxis(flat_i[b], -1, 0))] for b in range(outer)]
    rest = indices.shape[batch:-1] + x.shape[batch + indices.shape[-1]:]
    return [np.array(rows, x.dtype).reshape(x.shape[:batch] + rest)]


def scatter_elements(inputs, attrs, _):
    x, indices, updates = inputs
    axis, join = attrs.get("axis", 0) % x.ndim, _JOIN[attrs.get("reduction", "none")]
    y = x.copy()
    for place in np.ndindex(indices.shape):
        to = place[:axis] + (int(indices[place]),) + place[axis + 1:]
        y[to] = join(y[to], updates[place])
    return [y]


def scatter_nd(inputs, attrs, _):
    x, indices, updates = inputs
    join = _JOIN[attrs.get("reduction", "none")]
    y = x.copy()
    for place in np.ndindex(indices.shape[:-1]):
        to = tuple(int(i) for i in indices[place])
        y[to] = join(y[to], updates[place])
    return [y]


def top_k(inputs, attrs, opset):
    """The lower index comes first of equal elements. `sorted` 0 leaves the order open: sorted is one of them."""
    x, axis = inputs[0], attrs.get("axis", -1)
    k = attrs["k"] if opset < 10 else int(np.asarray(inputs[1]).reshape(-1)[0])
    keys = -x.astype(np.float64) if attrs.get("largest", 1) else x.astype(np.float64)
    order = np.argsort(keys, axis=axis, kind="stable")
    index = np.take(order, np.arange(k), axis=axis)
    return [np.take_along_axis(x, index, axis), index.astype(np.int64)]


def cum_sum(inputs, attrs, _):
    x, axis = inputs[0], int(np.asarray(inputs[1]).reshape(-1)[0])
    x = np.flip(x, axis) if attrs.get("reverse", 0) else x
    y = np.cumsum(x, axis=axis, dtype=x.dtype)
    y = y - x if attrs.get("exclusive", 0) else y
    return [np.flip(y, axis) if attrs.get("reverse", 0) else y]


# ---- comparisons and truth values ----------------------------------------------------------------------------------

def _compare(function):
    def operator(inputs, attrs, opset):
        a, b = inputs
        if opset < 7 and attrs.get("broadcast", 0) and "axis" in attrs:
            b = b.reshape(b.shape + (1,) * (a.ndim - attrs["axis"] % a.ndim - b.ndim))
        return [function(a, b)]
    return operator


def _of_all(function, mean=False):
    """Joins any number of operands, one after another."""
    def operator(inputs, _, __):
        y = inputs[0]
        for other in inputs[1:]:
            y = function(y, other)
        return [y / len(inputs) if mean else y]
    return operator


def is_inf(inputs, attrs, _):
    x = inputs[0]
    up, down = attrs.get("detect_positive", 1), attrs.get("detect_negative", 1)
    return [np.isinf(x) & (((x > 0) & bool(up)) | ((x < 0) & bool(down)))]


# ---- recurrent -----------------------------------------------------------------------------------------------------

def _sigmoid(x):
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


_ACTIVATIONS = {"Sigmoid": _sigmoid, "Tanh": np.tanh, "Relu": lambda x: np.maximum(x, 0)}


def _lstm_step(x, state, weights, f, attrs):
    w, r, b, p = weights
    h, c = state
    i, o, forget, cell = np.split(x @ w.T + h @ r.T + b, 4, -1)
    pi, po, pf = np.split(p, 3, -1)
    i = f[0](i + pi * c)
    forget = 1 - i if attrs.get("input_forget", 0) else f[0](forget + pf * c)
    c = forget * c + i * f[1](cell)
    return f[0](o + po * c) * f[2](c), c


def _gru_step(x, state, weights, f, attrs):
    w, r, (wb, rb) = weights
    h = state[0]
    wz, wr, wh = np.split(w, 3)
    rz, rr, rh = np.split(r, 3)
    (wbz, wbr, wbh), (rbz, rbr, rbh) = np.split(wb, 3), np.split(rb, 3)
    z = f[0](x @ wz.T + h @ rz.T + wbz + rbz)
    reset = f[0](x @ wr.T + h @ rr.T + wbr + rbr)
    if attrs.get("linear_before_reset", 0):
        new = f[1](x @ wh.T + wbh + reset * (h @ rh.T + rbh))
    else:
        new = f[1](x @ wh.T + wbh + (reset * h) @ rh.T + rbh)
    return ((1 - z) * new + z * h,)


def _rnn_step(x, state, weights, f, _):
    w, r, b = weights
    return (f[0](x @ w.T + state[0] @ r.T + b),)


class _Recurrent:
    """LSTM, GRU and RNN: gates of the hidden size, a step, activations of a direction, a state."""

    def __init__(self, gates, step, names, states):
        self.gates, self.step, self.names, self.states = gates, step, names, states

    def activations(self, attrs, direction):
        names = attrs.get("activations") or []
        per = len(self.names)
        names = names[per * direction:per * (direction + 1)] or self.names
        if attrs.get("clip") is not None or any(n not in _ACTIVATIONS for n in names):
            raise OnnxError("clip, or one of the activations %s, is not covered" % names)
        return [_ACTIVATIONS[n] for n in names]

    def weights(self, inputs, attrs, direction, hidden):
        bias = inputs[3][direction] if inputs[3] is not None else np.zeros(2 * self.gates * hidden)
        both = np.split(bias, 2)
        out = [inputs[1][direction], inputs[2][direction]]
        if self.gates == 4:
            peephole = inputs[7][direction] if inputs[7] is not None else np.zeros(3 * hidden)
            return out + [both[0] + both[1], peephole]
        return out + [both if self.gates == 3 else both[0] + both[1]]

    def __call__(self, inputs, attrs, _):
        inputs = list(inputs) + [None] * (8 - len(inputs))
        x, lengths = inputs[0], inputs[4]
        if attrs.get("layout", 0):
            x = np.swapaxes(x, 0, 1)
        steps, batch, _ = x.shape
        hidden = inputs[2].shape[-1]
        lengths = np.full(batch, steps) if lengths is None else lengths
        directions = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[
            attrs.get("direction", "forward")]
        y = np.zeros((steps, len(directions), batch, hidden))
        ends = []
        for d, backward in enumerate(directions):
            first = [inputs[5 + s] for s in range(self.states)]
            if attrs.get("layout", 0):
                first = [None if v is None else np.swapaxes(v, 0, 1) for v in first]
            state = [np.zeros((batch, hidden)) if v is None else v[d].copy() for v in first]
            weights, f = self.weights(inputs, attrs, d, hidden), self.activations(attrs, d)
            for t in range(steps):
                # A row that is shorter than others is read from its own end, and its state stays behind it.
                at = np.where(backward, lengths - 1 - t, t)
                live = t < lengths
                rows = np.where(live, at, 0)
                new = self.step(x[rows, np.arange(batch)], state, weights, f, attrs)
                for s, value in enumerate(new):
                    state[s] = np.where(live[:, None], value, state[s])
                y[rows[live], d, np.flatnonzero(live)] = state[0][live]
            ends.append(state)
        last = [np.stack([e[s] for e in ends]) for s in range(self.states)]
        if attrs.get("layout", 0):
            return [np.transpose(y, (2, 0, 1, 3))] + [np.swapaxes(v, 0, 1) for v in last]
        return [y] + last


OPERATORS = {
    "And": _compare(np.logical_and),
    "ConstantOfShape": constant_of_shape,
    "CumSum": cum_sum,
    "Equal": _compare(np.equal),
    "Expand": expand,
    "GRU": _Recurrent(3, _gru_step, ["Sigmoid", "Tanh"], 1),
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "GreaterOrEqual": _compare(np.greater_equal),
    "IsInf": is_inf,
    "IsNaN": lambda inputs, _, __: [np.isnan(inputs[0])],
    "LSTM": _Recurrent(4, _lstm_step, ["Sigmoid", "Tanh", "Tanh"], 2),
    "Less": _compare(np.less),
    "LessOrEqual": _compare(np.less_equal),
    "Max": _of_all(np.maximum),
    "Mean": _of_all(np.add, True),
    "Min": _of_all(np.minimum),
    "NonZero": non_zero,
    "Not": lambda inputs, _, __: [np.logical_not(inputs[0])],
    "OneHot": one_hot,
    "Or": _compare(np.logical_or),
    "RNN": _Recurrent(1, _rnn_step, ["Tanh"], 1),
    "Range": range_,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "Shape": shape,
    "Size": lambda inputs, _, __: [np.array(inputs[0].size, np.int64)],
    "SpaceToDepth": space_to_depth,
    "Sum": _of_all(np.add),
    "Tile": tile,
    "TopK": top_k,
    "Trilu": trilu,
    "Xor": _compare(np.logical_xor),
}
