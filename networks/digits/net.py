# SPDX-License-Identifier: MIT
"""The network: two convolutions and a linear layer, forward and backward, and the optimiser. All sums are
exact (exact.py).

    image [N,1,8,8] -> conv 3x3, 16 -> relu -> max pool 2 -> conv 3x3, 32 -> relu -> max pool 2 -> 128
        -> linear, 10 -> softmax
"""

import numpy as np

import exact

CLASSES = 10
IMAGE_BITS = 4    # pictures are multiples of 1/16
WEIGHT_BITS = 12  # what a weight is in the exported network, and in every forward pass while training
HIDDEN_BITS = 16  # what activations and gradients are rounded to between layers while training
SHAPES = {
    "conv1.weight": (16, 1, 3, 3), "conv1.bias": (16,),
    "conv2.weight": (32, 16, 3, 3), "conv2.bias": (32,),
    "fc.weight": (CLASSES, 128), "fc.bias": (CLASSES,),
}


def snap_weights(weights):
    return exact.snap(weights, WEIGHT_BITS)


def columns(x):
    """x [N,C,H,W] -> [N*H*W, C*9]: what a 3x3 kernel with a padding of 1 sees at each place."""
    n, c, h, w = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    taps = np.stack([padded[:, :, i:i + h, j:j + w] for i in range(3) for j in range(3)], axis=2)
    return taps.transpose(0, 3, 4, 1, 2).reshape(n * h * w, c * 9)


def columns_back(cols, shape):
    """The transpose of columns(): what flows back to x."""
    n, c, h, w = shape
    taps = cols.reshape(n, h, w, c, 9).transpose(0, 3, 4, 1, 2)
    padded = np.zeros((n, c, h + 2, w + 2))
    for k in range(9):
        padded[:, :, k // 3:k // 3 + h, k % 3:k % 3 + w] += taps[:, :, k]
    return padded[:, :, 1:-1, 1:-1]


def pool(x):
    """2x2 maxima of [N,C,H,W], and for each place of x whether it is the first that holds its maximum."""
    n, c, h, w = x.shape
    cells = x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, h // 2, w // 2, 4)
    first = np.arange(4) == cells.argmax(axis=4)[..., None]
    return cells.max(axis=4), first


def pool_back(gradient, first):
    """What flows back through pool()."""
    n, c, h, w, _ = first.shape
    cells = (gradient[..., None] * first).reshape(n, c, h, w, 2, 2)
    return cells.transpose(0, 1, 2, 4, 3, 5).reshape(n, c, 2 * h, 2 * w)


def _conv(cols, cols_bits, weight, bias, shape):
    n, _, h, w = shape
    y = exact.matmul(cols, cols_bits, weight.reshape(len(weight), -1).T, WEIGHT_BITS) + bias
    return y.reshape(n, h, w, -1).transpose(0, 3, 1, 2)


def _rows(gradient):
    """[N,C,H,W] -> [N*H*W, C]"""
    return gradient.transpose(0, 2, 3, 1).reshape(-1, gradient.shape[1])


def probabilities(params, x):
    """The forward pass as ONNX defines it, with nothing rounded before the softmax: every logit is exact."""
    bits = IMAGE_BITS
    for i in (1, 2):
        x = _conv(columns(x), bits, params["conv%d.weight" % i], params["conv%d.bias" % i], x.shape)
        x, _ = pool(np.maximum(x, 0.0))
        bits += WEIGHT_BITS
    flat = x.reshape(len(x), -1)
    return exact.softmax(exact.matmul(flat, bits, params["fc.weight"].T, WEIGHT_BITS) + params["fc.bias"])


class Net:
    """The parameters in training, and their gradients."""

    def __init__(self, random):
        self.params = {}
        for name, shape in SHAPES.items():
            reach = np.sqrt(6.0 / np.prod(shape[1:])) if len(shape) > 1 else 0.0  # He's bound, uniform
            self.params[name] = (2.0 * random.random_sample(shape) - 1.0) * reach

    def gradients(self, x, labels):
        """(summed loss, {name: mean gradient}) of one batch."""
        p = {name: snap_weights(value) for name, value in self.params.items()}
        cols1 = columns(x)
        hidden1, first1 = pool(np.maximum(_conv(cols1, IMAGE_BITS, p["conv1.weight"], p["conv1.bias"], x.shape), 0.0))
        cols2 = columns(hidden1)
        conv2 = _conv(cols2, HIDDEN_BITS, p["conv2.weight"], p["conv2.bias"], hidden1.shape)
        hidden2, first2 = pool(np.maximum(exact.snap(conv2, HIDDEN_BITS), 0.0))
        flat = hidden2.reshape(len(x), -1)
        logits = exact.matmul(flat, HIDDEN_BITS, p["fc.weight"].T, WEIGHT_BITS) + p["fc.bias"]
        probs = exact.softmax(logits)
        picked = probs[np.arange(len(labels)), labels]
        loss = float(-np.log(picked).sum())  # for people only; nothing is computed from it

        d_logits = exact.snap(probs - np.eye(CLASSES)[labels], HIDDEN_BITS)
        d_flat = exact.matmul(d_logits, HIDDEN_BITS, p["fc.weight"], WEIGHT_BITS)
        d_conv2 = _rows(pool_back(exact.snap(d_flat, HIDDEN_BITS).reshape(hidden2.shape) * (hidden2 > 0), first2))
        d_cols2 = exact.matmul(d_conv2, HIDDEN_BITS, p["conv2.weight"].reshape(32, -1), WEIGHT_BITS)
        d_hidden1 = exact.snap(columns_back(d_cols2, hidden1.shape), HIDDEN_BITS) * (hidden1 > 0)
        d_conv1 = _rows(pool_back(d_hidden1, first1))
        sums = {
            "fc.weight": exact.matmul(d_logits.T, HIDDEN_BITS, flat, HIDDEN_BITS), "fc.bias": d_logits.sum(axis=0),
            "conv2.weight": exact.matmul(d_conv2.T, HIDDEN_BITS, cols2, HIDDEN_BITS), "conv2.bias": d_conv2.sum(axis=0),
            "conv1.weight": exact.matmul(d_conv1.T, HIDDEN_BITS, cols1, IMAGE_BITS), "conv1.bias": d_conv1.sum(axis=0),
        }
        return loss, {name: value.reshape(SHAPES[name]) / len(x) for name, value in sums.items()}


class Adam:
    """Adam, from operations that IEEE 754 rounds correctly (powers are running products)."""

    def __init__(self, params, beta1=0.9, beta2=0.999, epsilon=1e-8):
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.power1 = self.power2 = 1.0
        self.mean = {name: np.zeros_like(value) for name, value in params.items()}
        self.square = {name: np.zeros_like(value) for name, value in params.items()}

    def step(self, params, gradients, rate):
        self.power1 *= self.beta1
        self.power2 *= self.beta2
        for name, gradient in gradients.items():
            self.mean[name] = self.beta1 * self.mean[name] + (1.0 - self.beta1) * gradient
            self.square[name] = self.beta2 * self.square[name] + (1.0 - self.beta2) * (gradient * gradient)
            mean = self.mean[name] / (1.0 - self.power1)
            square = self.square[name] / (1.0 - self.power2)
            params[name] = params[name] - rate * mean / (np.sqrt(square) + self.epsilon)
