#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Trains the handwritten-digits network and writes everything in this folder that is not source (see README.md).

    train.py            trains, prints the accuracy, writes the files
    train.py --check    trains again and compares with the committed files, byte for byte; status 0 only if all
                        are equal

Needs numpy and scikit-learn (for its copy of the UCI digits). The result does not depend on the machine: see exact.py.
"""

import argparse
import os
import sys

import numpy as np

import net

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "oracle"))

import onnx_writer  # noqa: E402  (found through the line above)

SEED = 20240
TEST_COUNT = 450  # the last ones of the data set; see README.md
PROBS_COUNT = 400
LEVELS = 16.0  # the data set's grey levels run from 0 to 16
EPOCHS = 90
BATCH = 32
RATE = 0.004
AVERAGED_EPOCHS = 30

IMAGES_MAGIC = b"QDIM"
LABELS_MAGIC = b"QDLB"


def load_data():
    """((train pictures, labels), (test pictures, labels)); pictures are uint8, 0..16."""
    from sklearn.datasets import load_digits
    digits = load_digits()
    pictures, labels = digits.images.astype(np.uint8), digits.target.astype(np.uint8)
    split = len(labels) - TEST_COUNT
    return (pictures[:split], labels[:split]), (pictures[split:], labels[split:])


def shifted(pictures, random):
    """Each picture moved by -1, 0 or 1 pixel in both directions, zeros shifted in."""
    rows, cols = pictures.shape[1:]
    padded = np.pad(pictures, ((0, 0), (1, 1), (1, 1)))
    dy, dx = random.randint(0, 3, size=(2, len(pictures)))
    index = np.arange(len(pictures))[:, None, None]
    return padded[index, dy[:, None, None] + np.arange(rows)[:, None], dx[:, None, None] + np.arange(cols)]


def train(pictures, labels, epochs, report):
    """Returns the trained parameters: the mean of the last epochs', on the weights' grid."""
    random = np.random.RandomState(SEED)  # a generator whose sequence numpy has frozen
    model = net.Net(random)
    optimiser = net.Adam(model.params)
    total = {name: np.zeros_like(value) for name, value in model.params.items()}
    for epoch in range(epochs):
        order = random.permutation(len(labels))
        moved = shifted(pictures, random) / LEVELS
        loss = 0.0
        for start in range(0, len(order), BATCH):
            chosen = order[start:start + BATCH]
            batch_loss, gradients = model.gradients(moved[chosen][:, None], labels[chosen])
            optimiser.step(model.params, gradients, RATE * (epochs - epoch) / epochs)
            loss += batch_loss
        if epoch >= epochs - AVERAGED_EPOCHS:
            for name, value in model.params.items():
                total[name] += value
        report("epoch %2d: loss %.4f" % (epoch + 1, loss / len(order)))
    return {name: net.snap_weights(value / min(AVERAGED_EPOCHS, epochs)) for name, value in total.items()}


def export_onnx(params):
    """The network as ONNX: the bytes of the file."""
    g = onnx_writer.Graph("digits", opset=13)
    p = {name: g.const(value.astype(np.float32), name) for name, value in params.items()}
    x = g.input("image", (1, 1, 8, 8))
    for i in (1, 2):
        x = g.node("Conv", [x, p["conv%d.weight" % i], p["conv%d.bias" % i]], "conv%d" % i, kernel_shape=[3, 3],
                   pads=[1, 1, 1, 1], strides=[1, 1])
        x = g.node("Relu", [x], "relu%d" % i)
        x = g.node("MaxPool", [x], "pool%d" % i, kernel_shape=[2, 2], strides=[2, 2])
    x = g.node("Flatten", [x], "features", axis=1)
    x = g.node("Gemm", [x, p["fc.weight"], p["fc.bias"]], "logits", transB=1)
    g.output(g.node("Softmax", [x], "probabilities", axis=1), (1, net.CLASSES))
    return g.serialize()


def header(magic, count, rows, cols):
    """The 16 bytes that open test_images.bin and test_labels.bin."""
    return magic + np.array([count, rows, cols], "<u4").tobytes()


def build_files(params, test):
    """{file name: bytes} and the accuracy on the test pictures."""
    pictures, labels = test
    probs = net.probabilities(params, pictures[:, None] / LEVELS)
    accuracy = float(np.mean(probs.argmax(axis=1) == labels))
    return {
        "digits.onnx": export_onnx(params),
        "test_images.bin": header(IMAGES_MAGIC, len(labels), 8, 8) + pictures.tobytes(),
        "test_labels.bin": header(LABELS_MAGIC, len(labels), 1, 1) + labels.tobytes(),
        "test_probs.bin": probs[:PROBS_COUNT].astype("<f4").tobytes(),
    }, accuracy


def check(files):
    """The number of committed files that differ from the new ones; prints one line for each file."""
    bad = 0
    for name, data in files.items():
        try:
            with open(os.path.join(HERE, name), "rb") as file:
                committed = file.read()
        except OSError as error:
            committed = None
            print("%-16s MISSING: %s" % (name, error.strerror))
        if committed is not None:
            same = committed == data
            print("%-16s %s" % (name, "identical" if same else "DIFFERS"))
        bad += committed != data
    return bad


def main():
    parser = argparse.ArgumentParser(description="Trains the handwritten-digits network.")
    parser.add_argument("--check", action="store_true", help="compare with the committed files, write nothing")
    parser.add_argument("--quiet", action="store_true", help="no line per epoch")
    args = parser.parse_args()
    train_set, test_set = load_data()
    report = (lambda line: None) if args.quiet else (lambda line: print(line, flush=True))
    params = train(*train_set, EPOCHS, report)
    files, accuracy = build_files(params, test_set)
    seen = np.mean(net.probabilities(params, train_set[0][:, None] / LEVELS).argmax(axis=1) == train_set[1])
    print("accuracy: %.2f %% on %d test pictures (%.2f %% on the %d it was trained on)" %
          (100 * accuracy, len(test_set[1]), 100 * seen, len(train_set[1])))
    if args.check:
        bad = check(files)
        if bad:
            sys.exit("train.py: %d of %d files are not reproduced" % (bad, len(files)))
        return
    for name, data in files.items():
        with open(os.path.join(HERE, name), "wb") as file:
            file.write(data)
        print("wrote %s (%d bytes)" % (name, len(data)))


if __name__ == "__main__":
    main()
