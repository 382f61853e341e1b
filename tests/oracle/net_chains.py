# SPDX-License-Identifier: MIT
"""Networks of several operators: the patterns that a compiler fuses, folds and plans memory for, and random chains."""

import numpy as np

RANDOM_CHAINS = 16


def conv_bn_relu(b):
    x = b.conv(b.input([1, 3, 13, 11]), 3, 10, 3, bias=False, pads=[1, 1, 1, 1])
    b.output(b.op("Relu", b.batch_norm(x, 10)))


def residual(b):
    x = b.input([1, 8, 9, 9])
    y = b.op("Relu", b.conv(x, 8, 8, 3, pads=[1, 1, 1, 1]))
    y = b.conv(y, 8, 8, 3, pads=[1, 1, 1, 1])
    b.output(b.op("Relu", b.op("Add", y, x)))


def small_classifier(b):
    x = b.op("Relu", b.conv(b.input([1, 1, 20, 18]), 1, 6, 5))
    x = b.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = b.op("Relu", b.conv(x, 6, 9, 3, pads=[1, 1, 1, 1]))
    x = b.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = b.dense(b.op("Flatten", x, axis=1), 9 * 4 * 3, 10)
    b.output(b.op("Softmax", x, axis=1))


def mlp(b):
    x = b.op("Relu", b.dense(b.input([3, 12]), 12, 33))
    x = b.op("Tanh", b.dense(x, 33, 17))
    b.output(b.op("Sigmoid", b.dense(x, 17, 5)))


def two_outputs(b):
    x = b.conv(b.input([1, 4, 7, 7]), 4, 6, 3)
    b.output(x)
    b.output(b.op("Relu", x))


def two_inputs(b):
    x, y = b.input([1, 4, 6, 6]), b.input([1, 4, 6, 6])
    b.output(b.op("Mul", b.conv(x, 4, 4, 1), b.op("Sigmoid", y)))


def same_operand_twice(b):
    x = b.input([1, 5, 4, 4])
    b.output(b.op("Mul", b.op("Add", x, x), x))


def separable(b):
    x = b.conv(b.input([1, 16, 15, 15]), 16, 16, 3, group=16, strides=[2, 2], pads=[1, 1, 1, 1])
    six = [b.graph.const(np.array(v, np.float32)) for v in (0.0, 6.0)]
    x = b.conv(b.op("Clip", x, *six), 16, 24, 1)
    b.output(b.op("Clip", x, *six))


def channel_gate(b):
    x = b.op("Relu", b.conv(b.input([1, 6, 10, 10]), 6, 12, 3, pads=[1, 1, 1, 1]))
    gate = b.op("Relu", b.conv(b.op("GlobalAveragePool", x), 12, 4, 1))
    b.output(b.op("Mul", x, b.op("Sigmoid", b.conv(gate, 4, 12, 1))))


def attention(b):
    x = b.input([1, 10, 16])
    q, k, v = (b.op("MatMul", x, b.weights([16, 16], 16)) for _ in range(3))
    q, k, v = (b.op("Transpose", b.op("Reshape", t, b.ints([1, 10, 4, 4])), perm=[0, 2, 1, 3]) for t in (q, k, v))
    scores = b.op("Mul", b.op("MatMul", q, b.op("Transpose", k, perm=[0, 1, 3, 2])),
                  b.graph.const(np.array(0.5, np.float32)))
    y = b.op("Transpose", b.op("MatMul", b.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    b.output(b.op("MatMul", b.op("Reshape", y, b.ints([1, 10, 16])), b.weights([16, 16], 16)))


def there_and_back(b):
    x = b.op("Transpose", b.input([1, 3, 6, 8]), perm=[0, 2, 3, 1])
    x = b.op("Relu", b.op("Add", x, b.uniform([3])))
    b.output(b.op("Transpose", x, perm=[0, 3, 1, 2]))


def foldable(b):
    """Everything but the last two nodes is known before the first input arrives."""
    scale = b.op("Mul", b.op("Constant", value=np.array([[2.0, -1.0, 0.5]], np.float32)), b.uniform([4, 1], 0.5, 1.5))
    weights = b.op("Transpose", b.op("Reshape", scale, b.ints([3, 4])), perm=[1, 0])
    x = b.op("MatMul", b.input([5, 4]), weights)
    b.output(b.op("Sub", x, b.op("Relu", b.uniform([3]))))


def output_in_the_middle(b):
    x = b.op("Relu", b.conv(b.input([1, 3, 8, 8]), 3, 4, 3, pads=[1, 1, 1, 1]))
    pooled = b.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    b.output(pooled)
    b.output(b.conv(pooled, 4, 5, 3))
    b.output(b.op("GlobalAveragePool", x))


def deep(b):
    x, channels = b.input([1, 4, 12, 12]), 4
    for i in range(12):
        cout = 4 + (i * 5) % 13
        x = b.op("Relu", b.conv(x, channels, cout, 3, pads=[1, 1, 1, 1]))
        channels = cout
    b.output(x)


def long_lived(b):
    """The first tensor is needed to the very end, others come and go."""
    x = b.conv(b.input([1, 8, 16, 16]), 8, 8, 1)
    y = x
    for _ in range(5):
        y = b.op("Tanh", b.conv(y, 8, 8, 3, pads=[1, 1, 1, 1]))
    b.output(b.op("Add", b.op("Sub", y, x), b.op("Mul", x, y)))


def bottleneck(b):
    x = b.input([1, 256, 14, 14])
    y = b.op("Relu", b.conv(x, 256, 64, 1))
    y = b.op("Relu", b.conv(y, 64, 64, 3, pads=[1, 1, 1, 1]))
    b.output(b.op("Relu", b.op("Add", b.conv(y, 64, 256, 1), x)))


def batch_of_pictures(b):
    x = b.op("Relu", b.conv(b.input([5, 3, 14, 14]), 3, 8, 3, strides=[2, 2]))
    x = b.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    b.output(b.dense(b.op("Reshape", x, b.ints([0, -1])), 8 * 3 * 3, 7))


def _step(b, random, x, shape, earlier):
    """Appends one random layer to x of [n, c, h, w]; returns (x, shape)."""
    n, c, h, w = shape
    kind = random.randint(0, 10)
    if kind <= 2:
        cout, k = int(random.randint(1, 20)), int(random.choice([1, 3, 3, 5]))
        return b.conv(x, c, cout, k, pads=[k // 2] * 4), [n, cout, h, w]
    if kind == 3:
        return b.conv(x, c, c, 3, group=c, pads=[1, 1, 1, 1]), shape
    if kind == 4 and min(h, w) >= 4:
        op = ["MaxPool", "AveragePool"][random.randint(0, 2)]
        return b.op(op, x, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0]), [n, c, (h - 1) // 2 + 1, w // 2]
    if kind == 5:
        return b.batch_norm(x, c), shape
    if kind == 6 and [t for t, s in earlier if s == shape]:
        others = [t for t, s in earlier if s == shape]
        return b.op(["Add", "Sub"][random.randint(0, 2)], x, others[random.randint(0, len(others))]), shape
    if kind == 7:
        return b.op("Mul", x, b.uniform([c, 1, 1], 0.5, 1.5)), shape
    return b.op(["Relu", "Sigmoid", "Tanh", "Relu"][random.randint(0, 4)], x), shape


def _random_chain(index):
    def make(b):
        random = np.random.RandomState(900 + index)  # the structure belongs to the name, only the weights to the seed
        shape = [int(random.randint(1, 3)), int(random.randint(1, 9)), int(random.randint(5, 25)),
                 int(random.randint(5, 25))]
        x = b.input(shape)
        earlier = [(x, shape)]
        for _ in range(random.randint(4, 11)):
            x, shape = _step(b, random, x, shape, earlier)
            earlier.append((x, shape))
        x = b.batch_norm(x, shape[1])  # keeps even a long row of sigmoids from ending in a constant
        if index % 3 == 0:
            x = b.dense(b.op("Flatten", x, axis=1), int(np.prod(shape[1:])), 6)
        elif index % 3 == 1:
            x = b.op("GlobalAveragePool", x)
        b.output(x)
    return "chain_random_%02d" % index, make


QUICK = [conv_bn_relu, residual, small_classifier, mlp, two_outputs, two_inputs]
FULL = [same_operand_twice, separable, channel_gate, attention, there_and_back, foldable, output_in_the_middle, deep,
        long_lived, bottleneck, batch_of_pictures]


def nets(level):
    """[(name, function of a Builder)]"""
    chosen = QUICK if level == "quick" else QUICK + FULL
    named = [("chain_" + make.__name__, make) for make in chosen]
    return named + ([] if level == "quick" else [_random_chain(i) for i in range(RANDOM_CHAINS)])
