# SPDX-License-Identifier: MIT
"""Networks of one operator: tables of shapes and attributes chosen to be awkward, and random ones beside them.

Each table's first part is the quick list; the full list adds the second part. Names spell out the parameters, so that a
failing test says at once what it was.
"""

import numpy as np

RANDOM_SEED = 20230  # of the random shapes; fixed, so that the names of the networks are too


def _by(numbers):
    return "x".join(str(n) for n in numbers)


def _spelled(shape):
    return _by(shape) if shape else "scalar"


# ---- convolution ---------------------------------------------------------------------------------------------------

def _conv_name(p):
    name = "conv%s_%s_to%d_k%s" % ("1d" if len(p["x"]) == 3 else "", _by(p["x"]), p["out"], _by(p["k"]))
    for key, letter in (("s", "s"), ("p", "p"), ("d", "d")):
        if key in p:
            name += "_%s%s" % (letter, _by(p[key]))
    name += "_g%d" % p["g"] if p.get("g", 1) != 1 else ""
    name += "_%s" % p["auto"].lower() if "auto" in p else ""
    return name + ("_nobias" if p.get("nobias") else "")


def _conv(p):
    def make(b):
        attrs = {name: p[key] for key, name in (("s", "strides"), ("p", "pads"), ("d", "dilations"),
                                                ("auto", "auto_pad"))
                 if key in p}
        b.output(b.conv(b.input(p["x"]), p["x"][1], p["out"], p["k"], not p.get("nobias"), p.get("g", 1), **attrs))
    return _conv_name(p), make


CONV_QUICK = [
    {"x": [1, 1, 5, 5], "out": 1, "k": [3, 3], "nobias": True},
    {"x": [1, 3, 9, 7], "out": 5, "k": [3, 3], "p": [1, 1, 1, 1]},
    {"x": [1, 3, 11, 13], "out": 7, "k": [3, 2], "s": [2, 3], "p": [0, 1, 2, 0]},
    {"x": [2, 4, 8, 8], "out": 6, "k": [1, 1]},
    {"x": [1, 5, 1, 1], "out": 3, "k": [1, 1]},
    {"x": [1, 8, 10, 10], "out": 8, "k": [3, 3], "p": [1, 1, 1, 1], "g": 8},
    {"x": [1, 6, 9, 9], "out": 12, "k": [3, 3], "g": 6, "s": [2, 2]},
    {"x": [1, 12, 6, 7], "out": 8, "k": [3, 3], "g": 4, "p": [1, 0, 1, 0], "nobias": True},
    {"x": [1, 4, 13, 12], "out": 4, "k": [3, 3], "d": [2, 2], "p": [2, 2, 2, 2]},
    {"x": [1, 2, 15, 9], "out": 3, "k": [5, 1], "d": [3, 1], "s": [1, 2]},
    {"x": [1, 3, 10, 10], "out": 4, "k": [3, 3], "auto": "SAME_UPPER", "s": [2, 2]},
    {"x": [1, 3, 10, 9], "out": 4, "k": [4, 2], "auto": "SAME_LOWER"},
    {"x": [1, 17, 7, 5], "out": 19, "k": [7, 5]},
    {"x": [3, 65, 5, 5], "out": 67, "k": [3, 3], "p": [1, 1, 1, 1]},
    {"x": [1, 32, 40, 40], "out": 64, "k": [3, 3], "p": [1, 1, 1, 1]},
    {"x": [1, 2, 4, 4], "out": 3, "k": [3, 3], "s": [3, 3], "p": [2, 2, 2, 2]},
]

CONV_FULL = [
    {"x": [1, 3, 224, 224], "out": 64, "k": [7, 7], "s": [2, 2], "p": [3, 3, 3, 3]},
    {"x": [1, 512, 14, 14], "out": 512, "k": [3, 3], "p": [1, 1, 1, 1]},
    {"x": [1, 512, 7, 7], "out": 512, "k": [3, 3], "p": [1, 1, 1, 1], "s": [2, 2]},
    {"x": [1, 256, 56, 56], "out": 64, "k": [1, 1], "nobias": True},
    {"x": [1, 2048, 7, 7], "out": 512, "k": [1, 1]},
    {"x": [1, 512, 28, 28], "out": 512, "k": [3, 3], "g": 512, "p": [1, 1, 1, 1]},
    {"x": [4, 64, 28, 28], "out": 96, "k": [3, 3], "p": [1, 1, 1, 1]},
    {"x": [8, 16, 17, 19], "out": 24, "k": [3, 3], "s": [2, 2]},
    {"x": [1, 8, 3, 2000], "out": 8, "k": [3, 3], "p": [1, 1, 1, 1]},
    {"x": [1, 4, 1500, 3], "out": 5, "k": [5, 3]},
    {"x": [1, 64, 33, 1], "out": 31, "k": [3, 1], "p": [1, 0, 1, 0]},
    {"x": [1, 64, 1, 33], "out": 31, "k": [1, 3], "p": [0, 1, 0, 1]},
    {"x": [1, 128, 14, 14], "out": 128, "k": [3, 3], "g": 32, "p": [1, 1, 1, 1]},
    {"x": [1, 16, 30, 30], "out": 16, "k": [11, 11], "p": [5, 5, 5, 5]},
    {"x": [1, 3, 20, 20], "out": 8, "k": [3, 3], "d": [4, 3], "s": [2, 1]},
    {"x": [1, 10, 21, 22], "out": 10, "k": [3, 3], "g": 10, "d": [2, 2], "auto": "SAME_UPPER"},
    {"x": [1, 3, 11, 11], "out": 4, "k": [3, 3], "auto": "VALID", "s": [2, 2]},
    {"x": [1, 3, 6, 6], "out": 4, "k": [2, 2], "s": [5, 4]},
    {"x": [1, 7, 5, 5], "out": 1, "k": [5, 5]},
    {"x": [1, 1, 28, 28], "out": 129, "k": [5, 5], "auto": "SAME_UPPER"},
    {"x": [1, 300, 9, 9], "out": 301, "k": [1, 1], "s": [2, 2]},
    {"x": [2, 6, 40], "out": 9, "k": [5], "s": [2], "p": [2, 1]},
    {"x": [1, 8, 25], "out": 8, "k": [3], "g": 8, "d": [2]},
]


def _random_conv(random):
    while True:
        k = [int(random.choice([1, 2, 3, 3, 5, 7])) for _ in range(2)]
        s, d = random.randint(1, 4, 2).tolist(), random.choice([1, 1, 1, 2, 3], 2).tolist()
        pads = [int(random.randint(0, k[i % 2])) for i in range(4)]
        shape = [int(random.randint(1, 4)), 0] + random.randint(1, 34, 2).tolist()
        g = int(random.choice([1, 1, 1, 2, 3, 8]))
        cin, cout = g * int(random.randint(1, 24)), g * int(random.randint(1, 40))
        if random.randint(0, 5) == 0:
            g, cout = cin, cin * int(random.randint(1, 3))
        shape[1] = cin
        if all(shape[2 + i] + pads[i] + pads[2 + i] > (k[i] - 1) * d[i] for i in range(2)):
            p = {"x": shape, "out": cout, "k": k, "s": s, "d": d, "g": g, "nobias": bool(random.randint(0, 2))}
            return dict(p, p=pads) if random.randint(0, 4) else dict(p, auto="SAME_UPPER", d=[1, 1])


# ---- pooling -------------------------------------------------------------------------------------------------------

def _pool(p):
    name = "%s_%s_k%s" % (p["op"].lower(), _by(p["x"]), _by(p["k"]))
    attrs = {"kernel_shape": p["k"]}
    for key, attr, text in (("s", "strides", "s"), ("p", "pads", "p"), ("d", "dilations", "d")):
        if key in p:
            attrs[attr] = p[key]
            name += "_%s%s" % (text, _by(p[key]))
    if p.get("ceil"):
        attrs["ceil_mode"] = 1
        name += "_ceil"
    if p.get("include"):
        attrs["count_include_pad"] = 1
        name += "_includepad"
    if "auto" in p:
        attrs["auto_pad"] = p["auto"]
        name += "_" + p["auto"].lower()

    def make(b):
        b.output(b.op(p["op"], b.input(p["x"]), **attrs))
    return name, make


MAX, AVERAGE = "MaxPool", "AveragePool"
POOL_QUICK = [
    {"op": MAX, "x": [1, 3, 8, 8], "k": [2, 2], "s": [2, 2]},
    {"op": MAX, "x": [2, 5, 11, 9], "k": [3, 2], "s": [2, 3], "p": [1, 0, 1, 1]},
    {"op": MAX, "x": [1, 4, 9, 9], "k": [3, 3], "s": [2, 2], "p": [0, 0, 1, 1], "ceil": True},
    {"op": MAX, "x": [1, 2, 7, 10], "k": [2, 2], "auto": "SAME_LOWER"},
    {"op": AVERAGE, "x": [1, 3, 8, 8], "k": [2, 2], "s": [2, 2]},
    {"op": AVERAGE, "x": [1, 7, 9, 7], "k": [3, 3], "p": [1, 1, 1, 1]},
    {"op": AVERAGE, "x": [2, 3, 9, 6], "k": [3, 2], "s": [2, 1], "p": [1, 0, 0, 1], "include": True},
]
POOL_FULL = [
    {"op": MAX, "x": [1, 64, 112, 112], "k": [3, 3], "s": [2, 2], "p": [1, 1, 1, 1]},
    {"op": MAX, "x": [1, 6, 13, 12], "k": [3, 3], "d": [2, 2]},
    {"op": MAX, "x": [1, 3, 10, 10], "k": [5, 5], "s": [1, 1], "p": [2, 2, 2, 2]},
    {"op": MAX, "x": [1, 3, 7, 7], "k": [2, 2], "s": [2, 2], "ceil": True},
    {"op": MAX, "x": [1, 3, 7, 7], "k": [7, 7]},
    {"op": MAX, "x": [3, 130, 6, 5], "k": [3, 3], "auto": "SAME_UPPER", "s": [2, 2]},
    {"op": MAX, "x": [1, 8, 33], "k": [3], "s": [2]},
    {"op": AVERAGE, "x": [1, 256, 14, 14], "k": [3, 3], "p": [1, 1, 1, 1]},
    {"op": AVERAGE, "x": [1, 6, 14, 13], "k": [4, 3], "s": [3, 3], "ceil": True},
    {"op": AVERAGE, "x": [1, 3, 5, 5], "k": [5, 5]},
    {"op": AVERAGE, "x": [1, 3, 9, 10], "k": [3, 3], "auto": "SAME_UPPER", "s": [2, 2]},
    {"op": AVERAGE, "x": [2, 3, 12, 12], "k": [2, 2], "auto": "VALID", "s": [3, 3]},
]


def _window_places(size, k, s, d, begin, end, ceil):
    """Where the windows of one dimension start; None where versions of the specification give different answers."""
    span = size + begin + end - (k - 1) * d - 1
    if span < 0:
        return None
    count = span // s + 1
    if ceil and span % s:
        if count * s >= size + begin:  # a window that begins behind the data: counted by some, dropped by others
            return None
        count += 1
    starts = [i * s - begin for i in range(count)]
    sees = all(any(0 <= start + t * d < size for t in range(k)) for start in starts)
    return starts if sees else None  # and none that sees nothing but padding


def _random_pool(random):
    while True:
        op = [MAX, AVERAGE][random.randint(0, 2)]
        k, s = random.randint(1, 6, 2).tolist(), random.randint(1, 4, 2).tolist()
        d = random.choice([1, 1, 2], 2).tolist() if op == MAX else [1, 1]
        pads = [int(random.randint(0, k[i % 2])) for i in range(4)]
        shape = [int(random.randint(1, 4)), int(random.randint(1, 70))] + random.randint(1, 30, 2).tolist()
        ceil = bool(random.randint(0, 3) == 0)
        p = {"op": op, "x": shape, "k": k, "s": s, "p": pads, "ceil": ceil}
        if op == MAX:
            p["d"] = d
        elif not ceil:  # padding that counts together with ceil_mode was defined late; runtimes differ
            p["include"] = bool(random.randint(0, 2))
        if all(_window_places(shape[2 + i], k[i], s[i], d[i], pads[i], pads[2 + i], ceil) for i in range(2)):
            return p


def _global_pool(shape):
    def make(b):
        b.output(b.op("GlobalAveragePool", b.input(shape, -1.0, 2.0)))
    return "globalaveragepool_%s" % _by(shape), make


# ---- matrix products -----------------------------------------------------------------------------------------------

def _gemm(m, k, n, c=None, dynamic=False, **attrs):
    """c: the shape of the third operand; dynamic: B is an input as well."""
    name = "gemm_%dx%dx%d%s%s" % (m, k, n, "" if c is None else "_c" + _spelled(c), "_dynamic" if dynamic else "")
    for key in sorted(attrs):
        name += "_%s%s" % (key.lower(), "" if attrs[key] == 1 else attrs[key])

    def make(b):
        a = b.input([k, m] if attrs.get("transA") else [m, k])
        shape = [n, k] if attrs.get("transB") else [k, n]
        operands = [a, b.input(shape) if dynamic else b.weights(shape, k)]
        if c is not None:
            operands.append(b.uniform(c))
        b.output(b.op("Gemm", *operands, **attrs))
    return name, make


GEMM_QUICK = [
    _gemm(1, 16, 10, c=[10], transB=1), _gemm(5, 7, 3), _gemm(4, 9, 6, c=[4, 1], transA=1),
    _gemm(3, 33, 65, c=[3, 65], alpha=0.5, beta=2.0), _gemm(1, 1, 1, c=[]),
]
GEMM_FULL = [
    _gemm(1, 2048, 1000, c=[1000], transB=1), _gemm(64, 300, 70, c=[1, 70]), _gemm(17, 1, 19, c=[19]),
    _gemm(1, 5000, 3, c=[3]), _gemm(7, 11, 13, c=[1], transA=1, transB=1, alpha=-1.5),
    _gemm(6, 20, 8, c=[8], dynamic=True), _gemm(9, 12, 5, dynamic=True, transB=1),
    _gemm(129, 65, 257, c=[129, 257]), _gemm(2, 784, 100, c=[100], transB=1), _gemm(31, 31, 31, beta=0.25, c=[31, 1]),
]


def _matmul(a, b_shape, dynamic=False, constant_left=False):
    kind = "_dynamic" if dynamic else "_constleft" if constant_left else ""
    name = "matmul_%s_by_%s%s" % (_spelled(a), _spelled(b_shape), kind)
    depth = a[-1]

    def make(b):
        if constant_left:
            left = b.weights(a, depth)
            right = b.input(b_shape)
        else:
            left = b.input(a)
            right = b.input(b_shape) if dynamic else b.weights(b_shape, depth)
        b.output(b.op("MatMul", left, right))
    return name, make


MATMUL_QUICK = [
    _matmul([1, 256], [256, 10]), _matmul([5, 7], [7, 9], dynamic=True), _matmul([2, 3, 4, 5], [5, 6]),
    _matmul([2, 3, 4, 5], [2, 3, 5, 7], dynamic=True), _matmul([4, 6], [3, 6, 5], constant_left=True),
    _matmul([6], [6, 4]),
]
MATMUL_FULL = [
    _matmul([1, 1000], [1000, 1000]), _matmul([2, 1, 7, 9], [3, 9, 5], dynamic=True), _matmul([8, 33], [33]),
    _matmul([3, 4, 6], [6], dynamic=True), _matmul([1, 64, 64], [64, 512]), _matmul([4, 64, 32], [4, 32, 64],
                                                                                    dynamic=True),
    _matmul([1, 5, 8], [3, 8, 4], dynamic=True), _matmul([128, 300], [300, 257]), _matmul([1, 1], [1, 1], dynamic=True),
    _matmul([2, 8, 17, 31], [2, 8, 31, 13], dynamic=True), _matmul([1, 4000], [4000, 5]), _matmul([7, 1], [1, 9]),
    _matmul([512, 512], [512, 64], constant_left=True), _matmul([1, 3, 50, 20], [20, 20]),
    _matmul([5, 2, 3], [5, 3, 2]),
]


# ---- element by element --------------------------------------------------------------------------------------------

def _binary(op, a, b_shape, constant=""):
    """constant: "right", "left" or "" (both are inputs)."""
    name = "%s_%s_%s%s" % (op.lower(), _spelled(a), _spelled(b_shape), "_const" + constant if constant else "")
    low, high = (0.5, 2.0) if op == "Div" else (-1.0, 1.0)  # a divisor near zero tests nothing

    def make(b):
        left = b.uniform(a) if constant == "left" else b.input(a)
        right = b.uniform(b_shape, low, high) if constant == "right" else b.input(b_shape, low, high)
        b.output(b.op(op, left, right))
    return name, make


BINARY_QUICK = [
    _binary("Add", [1, 3, 5, 7], [1, 3, 5, 7]), _binary("Add", [1, 8, 6, 6], [8, 1, 1], "right"),
    _binary("Sub", [2, 3, 4, 5], [5]), _binary("Sub", [1, 4, 3, 3], [1, 4, 3, 3], "left"),
    _binary("Mul", [1, 6, 5, 5], [1, 6, 1, 1]), _binary("Mul", [7, 9], [], "right"), _binary("Mul", [5, 3], []),
    _binary("Sub", [], []),
    _binary("Div", [3, 1, 5], [1, 4, 1]), _binary("Div", [1, 10], [1, 10], "right"),
]


def _binary_full():
    ops = ["Add", "Sub", "Mul", "Div"]
    shapes = [([1, 2, 3, 4], [4], ""), ([4], [1, 2, 3, 4], ""), ([2, 3, 4, 5], [2, 1, 4, 1], ""),
              ([1, 16, 9, 11], [16, 1, 1], "right"), ([5, 6], [1], "left"), ([1, 1, 7, 9], [1, 5, 1, 1], ""),
              ([3, 4, 5], [3, 4, 5], "right"), ([13], [13], "")]
    nets = [_binary(op, a, b, c) for op in ops for a, b, c in shapes]
    return nets + [
        _binary("Add", [1, 256, 56, 56], [1, 256, 56, 56]), _binary("Mul", [4, 128, 20, 20], [4, 128, 1, 1]),
        _binary("Add", [1, 1], [1000, 1], ""), _binary("Sub", [1, 3, 200, 200], [3, 1, 1], "right"),
    ]


def _unary(op, shape, reach, clip=None, opset=13):
    """clip: (low, high) of Clip, None for an absent bound."""
    name = "%s_%s" % (op.lower(), _spelled(shape))
    if clip is not None:
        name += "_%s_%s_opset%d" % (clip[0], clip[1], opset)

    def make(b):
        x = b.input(shape, -reach, reach)
        b.set_opset(opset)
        if clip is None:
            b.output(b.op(op, x))
        elif opset < 11:
            b.output(b.op(op, x, **{k: v for k, v in zip(("min", "max"), clip) if v is not None}))
        else:
            bounds = ["" if v is None else b.graph.const(np.array(v, np.float32)) for v in clip]
            b.output(b.op(op, x, *(bounds[:1] if clip[1] is None else bounds)))
    return name, make


UNARY_QUICK = [
    _unary("Relu", [1, 5, 7, 9], 2.0), _unary("Sigmoid", [3, 17], 8.0), _unary("Tanh", [1, 2, 3, 5], 4.0),
    _unary("Clip", [1, 4, 5, 5], 9.0, (0.0, 6.0)), _unary("Clip", [11], 3.0, (-0.5, None)),
]
UNARY_FULL = [
    _unary("Relu", [1, 64, 112, 112], 2.0), _unary("Relu", [19], 2.0), _unary("Relu", [2, 3, 4, 5, 2], 1.0),
    _unary("Sigmoid", [1, 85, 22, 22], 30.0), _unary("Sigmoid", [1001], 100.0), _unary("Tanh", [1, 4099], 30.0),
    _unary("Tanh", [2, 33, 3], 0.01), _unary("Clip", [7, 9], 3.0, (None, 0.5)),
    _unary("Clip", [5, 5], 3.0, (-1.0, 1.5), 6),
    _unary("Clip", [3, 3, 3], 9.0, (0.0, 6.0), 10), _unary("Sigmoid", [1, 1], 1.0), _unary("Tanh", [65], 5.0),
]


def _batch_norm(shape, **attrs):
    name = "batchnormalization_%s%s" % (_by(shape), "".join("_%s%g" % a for a in sorted(attrs.items())))

    def make(b):
        b.output(b.batch_norm(b.input(shape), shape[1], **attrs))
    return name, make


# ---- shapes, softmax, constants ------------------------------------------------------------------------------------

def _flatten(shape, axis):
    def make(b):
        b.output(b.op("Flatten", b.input(shape), axis=axis))
    return "flatten_%s_axis%d" % (_by(shape), axis), make


def _reshape(shape, wanted, constant_node=False):
    name = "reshape_%s_to%s%s" % (_by(shape), "_".join(str(w) for w in wanted),
                                  "_constantnode" if constant_node else "")

    def make(b):
        x = b.input(shape)
        target = b.op("Constant", value=np.array(wanted, np.int64)) if constant_node else b.ints(wanted)
        b.output(b.op("Reshape", x, target))
    return name, make


def _transpose(shape, perm):
    name = "transpose_%s_%s" % (_by(shape), "".join(map(str, perm)) if perm else "default")

    def make(b):
        b.output(b.op("Transpose", b.input(shape), **({"perm": perm} if perm else {})))
    return name, make


def _softmax(shape, axis, opset=13, reach=4.0):
    name = "softmax_%s_axis%s_opset%d%s" % (_by(shape), axis, opset, "_reach%g" % reach if reach != 4.0 else "")

    def make(b):
        x = b.input(shape, -reach, reach)
        b.set_opset(opset)
        b.output(b.op("Softmax", x, **({} if axis is None else {"axis": axis})))
    return name, make


def _identity(shape):
    def make(b):
        b.output(b.op("Identity", b.input(shape)))
    return "identity_%s" % _by(shape), make


def _constant_add(shape):
    def make(b):
        value = (2.0 * b.random.random_sample(shape) - 1.0).astype(np.float32)
        b.output(b.op("Add", b.input(shape), b.op("Constant", value=value)))
    return "constant_add_%s" % _by(shape), make


REST_QUICK = [
    _global_pool([1, 10, 7, 7]), _batch_norm([1, 5, 6, 7]), _batch_norm([2, 9], epsilon=0.01),
    _flatten([2, 3, 4, 5], 1), _reshape([2, 3, 4], [0, -1]), _transpose([1, 3, 5, 7], [0, 2, 3, 1]),
    _transpose([4, 6], None),
    _softmax([1, 10], 1), _softmax([2, 5, 3, 4], 1), _softmax([2, 3, 4], 1, 11), _identity([1, 2, 3]),
    _constant_add([3, 4]),
]
REST_FULL = [
    _global_pool([3, 1, 9, 2]), _global_pool([1, 2048, 7, 7]), _global_pool([1, 3, 1, 1]),
    _global_pool([1, 5, 111, 97]),
    _batch_norm([1, 200, 13, 11]), _batch_norm([3, 4, 9]), _batch_norm([4, 3, 1, 5], epsilon=0.1),
    _batch_norm([1, 1, 2, 2]),
    _flatten([2, 3, 4, 5], 0), _flatten([2, 3, 4, 5], 3), _flatten([2, 3, 4, 5], -1), _flatten([1, 512, 7, 7], 1),
    _flatten([7], 0), _reshape([1, 3, 8, 8], [1, 192]), _reshape([4, 6], [2, 2, 2, 3], True),
    _reshape([1, 16, 5, 5], [-1, 25]),
    _reshape([30], [2, 3, 5]), _reshape([2, 3, 4], [1, -1, 0]), _transpose([1, 64, 30, 31], [0, 3, 1, 2]),
    _transpose([2, 3, 4, 5], [3, 2, 1, 0]), _transpose([5, 4, 3], [1, 0, 2]),
    _transpose([2, 3, 2, 3, 2], [4, 2, 0, 3, 1]),
    _transpose([1, 8, 64, 32], [0, 2, 1, 3]), _transpose([300, 200], [1, 0]), _softmax([3, 1000], -1),
    _softmax([1, 4, 65, 65], -1), _softmax([2, 3, 4], 0), _softmax([1, 21, 9, 9], 1), _softmax([2, 3, 4], None, 11),
    _softmax([2, 3, 4, 5], 3, 12), _softmax([4, 33], 1, 13, 80.0), _softmax([7], 0), _softmax([5, 1], 1),
    _identity([2, 3, 4, 5]), _constant_add([1, 7, 5, 3]),
]


def _unique(nets, wanted):
    """The first `wanted` networks with different names."""
    found = {}
    while len(found) < wanted:
        name, make = next(nets)
        found.setdefault(name, make)
    return list(found.items())


def _forever(function):
    while True:
        yield function()


def nets(level):
    """[(name, function of a Builder)]"""
    quick = [_conv(p) for p in CONV_QUICK] + [_pool(p) for p in POOL_QUICK]
    quick += GEMM_QUICK + MATMUL_QUICK + BINARY_QUICK + UNARY_QUICK + REST_QUICK
    if level == "quick":
        return quick
    random = np.random.RandomState(RANDOM_SEED)
    full = [_conv(p) for p in CONV_FULL] + [_pool(p) for p in POOL_FULL]
    full += _unique(_forever(lambda: _conv(_random_conv(random))), 50)
    full += _unique(_forever(lambda: _pool(_random_pool(random))), 25)
    return quick + full + GEMM_FULL + MATMUL_FULL + _binary_full() + UNARY_FULL + REST_FULL


def extra_nets():
    """Operators that the oracle knows and a compiler may lack."""
    def leaky(b):
        b.output(b.op("LeakyRelu", b.input([1, 3, 5, 7]), alpha=0.2))

    def concat(b):
        b.output(b.op("Concat", b.input([1, 3, 4, 5]), b.input([1, 2, 4, 5]), axis=1))

    def concat_last(b):
        b.output(b.op("Concat", b.input([2, 3]), b.input([2, 4]), b.input([2, 1]), axis=-1))

    def dropout(b):
        b.output(b.op("Dropout", b.input([2, 9])))
    return [("leakyrelu_1x3x5x7", leaky), ("concat_channels", concat), ("concat_last", concat_last),
            ("dropout_2x9", dropout)]
