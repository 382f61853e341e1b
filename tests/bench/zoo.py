#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Networks that compilers are compared with: the topology by code, the weights by a seed.

    zoo.py OUT_DIR [NAME...] [--batch N]      writes OUT_DIR/NAME.onnx for each, or for all but the large ones
                                              (vgg19 has 575 MB, transformer512 57)
    zoo.py --list

Batch normalization is folded into the convolutions, as exporters for inference write them, except in densenet121,
where it stands in front of them. Weights keep the size of activations, so that results are of the order of 1. Names
that end in _int8 are networks of integers in the form that quantizers write.
"""

import argparse
import os
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(TOP, "tests", "oracle"))

import numpy as np  # noqa: E402

# pylint: disable=wrong-import-position
from net_builder import Builder  # noqa: E402
from qdq_builder import QdqBuilder  # noqa: E402


def conv(b, x, cin, cout, kernel, stride=1, pad=None, group=1, act="Relu"):
    """A convolution with bias and an activation."""
    pad = kernel // 2 if pad is None else pad
    y = b.conv(x, cin, cout, kernel, strides=[stride] * 2, pads=[pad] * 4, group=group)
    if act == "Relu6":
        return b.op("Clip", y, *(b.graph.const(np.array(v, np.float32)) for v in (0, 6)))
    return b.op(act, y) if act else y


def max_pool(b, x, kernel, stride, pad=0, ceil_mode=0):
    return b.op("MaxPool", x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, ceil_mode=ceil_mode)


def classifier(b, x, channels, classes=1000):
    x = b.op("Flatten", b.op("GlobalAveragePool", x), axis=1)
    b.output(b.dense(x, channels, classes))


def resnet50(b, batch):
    """He et al. 2015, with the stride in the 3x3 convolution (version 1.5)."""
    x = max_pool(b, conv(b, b.input([batch, 3, 224, 224]), 3, 64, 7, 2), 3, 2, 1)
    cin = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if block == 0 and stage > 0 else 1
            y = conv(b, conv(b, x, cin, width, 1), width, width, 3, stride)
            y = conv(b, y, width, 4 * width, 1, act=None)
            shortcut = conv(b, x, cin, 4 * width, 1, stride, act=None) if block == 0 else x
            x, cin = b.op("Relu", b.op("Add", y, shortcut)), 4 * width
    classifier(b, x, cin)


def vgg19(b, batch):
    """Simonyan and Zisserman 2014, configuration E."""
    x, cin = b.input([batch, 3, 224, 224]), 3
    for width, count in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(count):
            x, cin = conv(b, x, cin, width, 3), width
        x = max_pool(b, x, 2, 2)
    x = b.op("Relu", b.dense(b.op("Flatten", x, axis=1), 512 * 7 * 7, 4096))
    b.output(b.dense(b.op("Relu", b.dense(x, 4096, 4096)), 4096, 1000))


def squeezenet(b, batch):
    """Iandola et al. 2016, version 1.1."""
    def fire(x, cin, squeeze, expand):
        x = conv(b, x, cin, squeeze, 1)
        return b.op("Concat", conv(b, x, squeeze, expand, 1), conv(b, x, squeeze, expand, 3), axis=1)

    x, cin = max_pool(b, conv(b, b.input([batch, 3, 224, 224]), 3, 64, 3, 2, 0), 3, 2), 64
    for squeeze, expand, pooled in ((16, 64, False), (16, 64, True), (32, 128, False), (32, 128, True),
                                    (48, 192, False), (48, 192, False), (64, 256, False), (64, 256, False)):
        x, cin = fire(x, cin, squeeze, expand), 2 * expand
        x = max_pool(b, x, 3, 2) if pooled else x
    b.output(b.op("Flatten", b.op("GlobalAveragePool", conv(b, x, cin, 1000, 1)), axis=1))


def mobilenetv2(b, batch):
    """Sandler et al. 2018, width 1.0."""
    x, cin = conv(b, b.input([batch, 3, 224, 224]), 3, 32, 3, 2, act="Relu6"), 32
    for factor, width, count, first_stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                               (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(count):
            stride, hidden = first_stride if block == 0 else 1, cin * factor
            y = conv(b, x, cin, hidden, 1, act="Relu6") if factor > 1 else x
            y = conv(b, y, hidden, hidden, 3, stride, group=hidden, act="Relu6")
            y = conv(b, y, hidden, width, 1, act=None)
            x, cin = b.op("Add", x, y) if stride == 1 and cin == width else y, width
    classifier(b, conv(b, x, cin, 1280, 1, act="Relu6"), 1280)


def densenet121(b, batch):
    """Huang et al. 2016, growth 32."""
    x, cin = max_pool(b, conv(b, b.input([batch, 3, 224, 224]), 3, 64, 7, 2), 3, 2, 1), 64
    for stage, layers in enumerate((6, 12, 24, 16)):
        for _ in range(layers):
            y = conv(b, b.op("Relu", b.batch_norm(x, cin)), cin, 128, 1)
            x, cin = b.op("Concat", x, conv(b, y, 128, 32, 3, act=None), axis=1), cin + 32
        x = b.op("Relu", b.batch_norm(x, cin))
        if stage < 3:
            x, cin = conv(b, x, cin, cin // 2, 1, act=None), cin // 2
            x = b.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    classifier(b, x, cin)


def shufflenetv2(b, batch):
    """Ma et al. 2018, width 1.0."""
    def branch(x, cin, width, stride):
        x = conv(b, x, cin, width, 1)
        return conv(b, conv(b, x, width, width, 3, stride, group=width, act=None), width, width, 1)

    def shuffle(x, width, side):
        x = b.op("Transpose", b.op("Reshape", x, b.ints([batch, 2, width // 2, side, side])), perm=[0, 2, 1, 3, 4])
        return b.op("Reshape", x, b.ints([batch, width, side, side]))

    x, cin, side = max_pool(b, conv(b, b.input([batch, 3, 224, 224]), 3, 24, 3, 2), 3, 2, 1), 24, 56
    for width, count in ((116, 4), (232, 8), (464, 4)):
        half, side = width // 2, side // 2
        left = conv(b, conv(b, x, cin, cin, 3, 2, group=cin, act=None), cin, half, 1)
        x = shuffle(b.op("Concat", left, branch(x, cin, half, 2), axis=1), width, side)
        for _ in range(count - 1):
            keep, work = (b.op("Slice", x, *(b.ints([v]) for v in (start, start + half, 1))) for start in (0, half))
            x = shuffle(b.op("Concat", keep, branch(work, half, half, 1), axis=1), width, side)
        cin = width
    classifier(b, conv(b, x, cin, 1024, 1), 1024)


def twice(b, x):
    """A picture of twice the rows and columns."""
    return b.op("Resize", x, "", b.graph.const(np.array([1, 1, 2, 2], np.float32)), mode="nearest",
                coordinate_transformation_mode="asymmetric", nearest_mode="floor")


def separable(b, x, cin, cout, stride=1):
    """A depthwise convolution and one of 1x1 elements."""
    return conv(b, conv(b, x, cin, cin, 3, stride, group=cin), cin, cout, 1)


def mobilenetv1_025(b, batch):
    """Howard et al. 2017, width 0.25, for pictures of 96x96 elements."""
    x, cin = conv(b, b.input([batch, 3, 96, 96]), 3, 8, 3, 2), 8
    for width, stride in ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *((128, 1),) * 5, (256, 2), (256, 1)):
        x, cin = separable(b, x, cin, width, stride), width
    classifier(b, x, cin, 10)


def detector(b, batch):
    """Separable convolutions, a pyramid of three levels from below and from above, and heads of boxes, objectness and
    20 classes: the form of small detectors, for pictures of 160x160 elements."""
    def merge(x, channels, other, other_channels):
        """`x` becomes as large as `other`, which stands behind it."""
        return separable(b, b.op("Concat", twice(b, x), other, axis=1), channels + other_channels, 64)

    x, cin, levels = conv(b, b.input([batch, 3, 160, 160]), 3, 16, 3, 2), 16, []
    for width in (32, 64, 96, 128):
        x = separable(b, separable(b, x, cin, width, 2), width, width)
        cin = width
        levels.append((x, width))
    x, cin = conv(b, x, cin, 64, 1), 64
    outputs = [x]
    for level, width in levels[2:0:-1]:
        x = merge(x, cin, level, width)
        outputs.append(x)
    for x in outputs:
        for channels, act in ((4, None), (1, "Sigmoid"), (20, "Sigmoid")):
            b.output(conv(b, separable(b, x, 64, 64), 64, channels, 1, act=act))


def transformer(b, batch, length=64, width=128, heads=4, blocks=2):
    """Vaswani et al. 2017: blocks of an encoder, with the normalization in front; the tokens are embedded already."""
    def norm(x):
        return b.op("LayerNormalization", x, b.uniform([width], 0.5, 1.5), b.uniform([width], -0.1, 0.1), axis=-1)

    def linear(x, cin, cout):
        return b.op("Add", b.op("MatMul", x, b.weights([cin, cout], cin)), b.uniform([cout], -0.1, 0.1))

    def in_heads(x, perm):
        x = b.op("Reshape", linear(x, width, width), b.ints([batch, length, heads, width // heads]))
        return b.op("Transpose", x, perm=perm)

    def attention(x):
        query, key, value = (in_heads(x, perm) for perm in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)))
        scores = b.op("Mul", b.op("MatMul", query, key), scalar((width // heads) ** -0.5))
        y = b.op("Transpose", b.op("MatMul", b.op("Softmax", scores, axis=-1), value), perm=(0, 2, 1, 3))
        return linear(b.op("Reshape", y, b.ints([batch, length, width])), width, width)

    def scalar(value):
        return b.graph.const(np.array(value, np.float32))

    def gelu(x):
        y = b.op("Add", b.op("Erf", b.op("Mul", x, scalar(0.5 ** 0.5))), scalar(1))
        return b.op("Mul", b.op("Mul", x, y), scalar(0.5))

    b.set_opset(17)
    x = b.input([batch, length, width])
    for _ in range(blocks):
        x = b.op("Add", x, attention(norm(x)))
        x = b.op("Add", x, linear(gelu(linear(norm(x), width, 4 * width)), 4 * width, width))
    b.output(norm(x))


def transformer512(b, batch):
    """Two blocks of an encoder as wide as BERT base (Devlin et al. 2018), of 512 tokens."""
    transformer(b, batch, 512, 768, 12)


def backbone640(b, batch):
    """The convolutions of vgg16, a quarter as wide, on pictures of 640x640 elements."""
    x, cin = b.input([batch, 3, 640, 640]), 3
    for width, count in ((16, 2), (32, 2), (64, 3), (128, 3), (128, 3)):
        for _ in range(count):
            x, cin = conv(b, x, cin, width, 3), width
        x = max_pool(b, x, 2, 2)
    b.output(x)


def yolo640(b, batch):
    """The form of YOLOv8n: stages with parts that are split off and joined again, pooling of three sizes, a pyramid
    from above and from below, heads of boxes and 80 classes; pictures of 640x640 elements."""
    def silu(x, cin, cout, kernel=1, stride=1):
        x = conv(b, x, cin, cout, kernel, stride, act=None)
        return b.op("Mul", x, b.op("Sigmoid", x))

    def stage(x, cin, cout, count, shortcut):
        half = cout // 2
        x = silu(x, cin, cout)
        parts = [b.op("Slice", x, *(b.ints([v]) for v in (at, at + half, 1))) for at in (0, half)]
        for _ in range(count):
            y = silu(silu(parts[-1], half, half, 3), half, half, 3)
            parts.append(b.op("Add", parts[-1], y) if shortcut else y)
        return silu(b.op("Concat", *parts, axis=1), half * len(parts), cout)

    x = silu(silu(b.input([batch, 3, 640, 640]), 3, 16, 3, 2), 16, 32, 3, 2)
    levels = [stage(x, 32, 32, 1, True)]
    for cin, cout, count in ((32, 64, 2), (64, 128, 2), (128, 256, 1)):
        levels.append(stage(silu(levels[-1], cin, cout, 3, 2), cout, cout, count, True))
    parts = [silu(levels[3], 256, 128)]
    for _ in range(3):
        parts.append(max_pool(b, parts[-1], 5, 1, 2))
    top = silu(b.op("Concat", *parts, axis=1), 512, 256)
    middle = stage(b.op("Concat", twice(b, top), levels[2], axis=1), 384, 128, 1, False)
    fine = stage(b.op("Concat", twice(b, middle), levels[1], axis=1), 192, 64, 1, False)
    middle = stage(b.op("Concat", silu(fine, 64, 64, 3, 2), middle, axis=1), 192, 128, 1, False)
    top = stage(b.op("Concat", silu(middle, 128, 128, 3, 2), top, axis=1), 384, 256, 1, False)
    for x, cin in ((fine, 64), (middle, 128), (top, 256)):
        for width, cout in ((64, 64), (80, 80)):
            b.output(conv(b, silu(silu(x, cin, width, 3), width, width, 3), width, cout, 1, act=None))


def unet512(b, batch):
    """Ronneberger et al. 2015 with padding, a quarter as wide, for pictures of 512x512 elements."""
    def double(x, cin, cout):
        return conv(b, conv(b, x, cin, cout, 3), cout, cout, 3)

    x, cin, skips = b.input([batch, 3, 512, 512]), 3, []
    for width in (16, 32, 64, 128):
        x, cin = double(x, cin, width), width
        skips.append((x, width))
        x = max_pool(b, x, 2, 2)
    x, cin = double(x, cin, 256), 256
    for skip, width in reversed(skips):
        x = b.op("Concat", conv(b, twice(b, x), cin, width, 3), skip, axis=1)
        x, cin = double(x, 2 * width, width), width
    b.output(conv(b, x, cin, 2, 1, act=None))


NETWORKS = {f.__name__: f for f in (resnet50, squeezenet, mobilenetv2, densenet121, shufflenetv2, vgg19,
                                     mobilenetv1_025, detector, transformer, transformer512, backbone640, yolo640,
                                     unet512)}
LARGE = ("vgg19", "transformer512")
INT8 = "_int8"  # the same network, quantized
NETWORKS.update({f.__name__ + INT8: f for f in (resnet50, squeezenet, mobilenetv2, mobilenetv1_025)})


def write(name, folder, batch=1):
    """Writes one network; returns its path."""
    builder = (QdqBuilder if name.endswith(INT8) else Builder)(name, 1)
    NETWORKS[name](builder, batch)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name + ".onnx")
    with open(path, "wb") as file:
        file.write(builder.graph.serialize())
    return path


def main():
    parser = argparse.ArgumentParser(description="Writes well-known networks with random weights.")
    parser.add_argument("folder", nargs="?")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--batch", type=int, default=1, metavar="N")
    args = parser.parse_args()
    if args.list:
        print("\n".join(NETWORKS))
        return
    unknown = [name for name in args.names if name not in NETWORKS]
    if unknown or not args.folder:
        parser.error("unknown networks: %s" % ", ".join(unknown) if unknown else "the folder is missing")
    for name in args.names or [n for n in NETWORKS if n not in LARGE]:
        print(write(name, args.folder, args.batch))


if __name__ == "__main__":
    main()
