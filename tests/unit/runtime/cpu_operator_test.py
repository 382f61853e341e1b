#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The operators of sub-networks for the CPU, against numpy: cpu_operator_test.py PROGRAM."""

import struct
import subprocess
import sys
import unittest

import numpy as np

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else ""
CAST, COPY, ARGMAX, TOPK, SOFTMAX, NONZERO, NMS = range(1, 8)
LAST, SMALLEST, CENTER = 1, 2, 4
BF16 = "bf16"  # numpy has none: its bits as uint16
TYPES = [np.float32, np.float16, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, BF16]


def number(dtype):
    return 8 if isinstance(dtype,
                           str) else [np.dtype(t) if t is not BF16 else None for t in TYPES].index(np.dtype(dtype))


def run(op, inputs, outputs, flags=0, axis=0, count=0, iou=0.0, score=0.0):
    """outputs: (dtype, shape) each. inputs: arrays, or (array of bits, BF16)."""
    inputs = [i if isinstance(i, tuple) else (i, i.dtype) for i in inputs]
    data = struct.pack("<iIiIffii", op, flags, axis, count, iou, score, len(inputs), len(outputs))
    for dtype, shape in [(d, a.shape) for a, d in inputs] + list(outputs):
        data += struct.pack("<ii%di" % len(shape), number(dtype), len(shape), *shape)
    data += b"".join(np.ascontiguousarray(a).tobytes() for a, _ in inputs)
    answer = subprocess.run([PROGRAM], input=data, stdout=subprocess.PIPE, check=True).stdout
    length = struct.unpack_from("<i", answer)[0]
    if length:
        raise ValueError(answer[4:4 + length].decode())
    at, results = 4, []
    for dtype, shape in outputs:
        stored = np.dtype(np.uint16 if isinstance(dtype, str) else dtype)
        count = int(np.prod(shape, dtype=np.int64))
        results.append(np.frombuffer(answer, stored, count, at).reshape(shape))
        at += count * stored.itemsize
    assert at == len(answer)
    return results


def bf16_bits(values):
    """Rounds float32 to nearest even, on the bits."""
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(values), 0x7fc0, rounded).astype(np.uint16)


class CpuOp(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(11)

    def same(self, found, expected):
        expected = np.asarray(expected)
        self.assertEqual(found.shape, expected.shape)
        np.testing.assert_array_equal(found, expected)

    def test_cast_between_all_types(self):
        """Ranges that both types have: numpy and we agree to the bit."""
        for source in TYPES:
            for target in TYPES:
                values = self.random.uniform(0, 100, (3, 41)).astype(np.float32)
                x = (bf16_bits(values), BF16) if source is BF16 else values.astype(source)
                exact = (x[0].astype(np.uint32) << 16).view(np.float32) if source is BF16 else x.astype(np.float64)
                expected = bf16_bits(exact) if target is BF16 else exact.astype(target)
                found, = run(CAST, [x], [(target, (41, 3))])
                self.same(found, expected.reshape(41, 3))

    def test_cast_every_half(self):
        bits = np.arange(65536, dtype=np.uint16)
        halves = bits.view(np.float16)
        found, = run(CAST, [halves], [(np.float32, halves.shape)])
        self.same(found, halves.astype(np.float32))
        found, = run(CAST, [halves.astype(np.float32)], [(np.float16, halves.shape)])
        finite = ~np.isnan(halves)
        self.same(found[finite].view(np.uint16), bits[finite])
        self.assertTrue(np.isnan(found[~finite]).all())

    def test_cast_rounds_to_nearest_even(self):
        x = self.random.integers(0, 2**32, 200000, dtype=np.uint32).view(np.float32)
        x = x[~np.isnan(x)]
        with np.errstate(over="ignore"):
            self.same(run(CAST, [x], [(np.float16, x.shape)])[0].view(np.uint16), x.astype(np.float16).view(np.uint16))
        self.same(run(CAST, [x], [(BF16, x.shape)])[0], bf16_bits(x))
        integers = self.random.integers(-2**31, 2**31, 10000, dtype=np.int64).astype(np.int32)
        self.same(run(CAST, [integers], [(np.float32, integers.shape)])[0], integers.astype(np.float32))

    def test_cast_to_integers_truncates_and_saturates(self):
        x = np.array([0.9, -0.9, 1.5, -1.5, 127.9, 128, -128.9, -129, 3e9, -3e9, 1e20, np.inf, -np.inf, np.nan],
                     np.float32)
        for target in TYPES[2:8]:
            limits = np.iinfo(target)
            expected = [0 if np.isnan(v) else int(min(max(np.trunc(v), limits.min),
                                                      limits.max)) for v in x.astype(np.float64)]
            self.same(run(CAST, [x], [(target, x.shape)])[0], np.array(expected, target))

    def test_copy_reshapes(self):
        for dtype in TYPES[:8]:
            x = self.random.integers(0, 100, (2, 3, 4)).astype(dtype)
            self.same(run(COPY, [x], [(dtype, (4, 6))])[0], x.reshape(4, 6))

    def test_argmax(self):
        for shape in [(7,), (3, 5), (2, 3, 4), (2, 1, 3, 4)]:
            for axis in range(-len(shape), len(shape)):
                for dtype in [np.float32, np.int8, np.uint32, np.float16]:
                    x = self.random.integers(0, 4, shape).astype(dtype)  # many equal ones
                    first = np.argmax(x, axis)
                    last = shape[axis] - 1 - np.argmax(np.flip(x, axis), axis)
                    self.same(run(ARGMAX, [x], [(np.int32, first.shape)], axis=axis)[0], first)
                    kept = np.expand_dims(last, axis)
                    self.same(run(ARGMAX, [x], [(np.int32, kept.shape)], LAST, axis)[0], kept)

    def test_argmax_without_nan(self):
        x = np.array([[np.nan, 1, 3, np.nan, 2], [np.nan] * 5], np.float32)
        self.same(run(ARGMAX, [x], [(np.int32, (2,))], axis=1)[0], [2, 0])

    def test_topk(self):
        for shape in [(9,), (4, 6), (2, 5, 3)]:
            for axis in range(-len(shape), len(shape)):
                for flags in (0, SMALLEST):
                    x = self.random.integers(-3, 4, shape).astype(np.float32)
                    for count in (1, 2, shape[axis]):
                        order = np.argsort(x if flags else -x, axis, kind="stable")
                        order = np.take(order, np.arange(count), axis)
                        expected = np.take_along_axis(x, order, axis)
                        values, indices = run(TOPK, [x], [(np.float32, expected.shape), (np.int32, expected.shape)],
                                              flags, axis, count)
                        self.same(values, expected)
                        self.same(indices, order)

    def test_topk_nan_is_last(self):
        x = np.array([1, np.nan, 3, -np.inf], np.float32)
        self.same(run(TOPK, [x], [(np.float32, (4,)), (np.int32, (4,))], 0, 0, 4)[1], [2, 0, 3, 1])
        self.same(run(TOPK, [x], [(np.float32, (4,)), (np.int32, (4,))], SMALLEST, 0, 4)[1], [3, 0, 2, 1])

    def test_softmax(self):
        for shape in [(5,), (3, 7), (2, 3, 4)]:
            for axis in range(-len(shape), len(shape)):
                x = self.random.normal(0, 30, shape).astype(np.float32)
                e = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
                np.testing.assert_allclose(run(SOFTMAX, [x], [(np.float32, shape)], axis=axis)[0],
                                           e / e.sum(axis, keepdims=True), 2e-7, 1e-38)

    def test_nonzero(self):
        for shape in [(6,), (3, 4), (2, 3, 5)]:
            for dtype in [np.float32, np.uint8, np.int32]:
                x = self.random.integers(0, 2, shape).astype(dtype)
                expected = np.stack(np.nonzero(x))
                positions, found = run(NONZERO, [x], [(np.int32, (len(shape), x.size + 2)), (np.int32, (1,))])
                self.same(found, [expected.shape[1]])
                self.same(positions[:, :found[0]], expected)
                self.same(positions[:, found[0]:], np.full((len(shape), x.size + 2 - found[0]), -1))

    @staticmethod
    def suppress(boxes, scores, count, iou, score):
        """By a matrix of overlaps, not box by box."""
        rows = []
        for b in range(boxes.shape[0]):
            low, high = np.minimum(boxes[b, :, :2], boxes[b, :, 2:]), np.maximum(boxes[b, :, :2], boxes[b, :, 2:])
            size = np.clip(np.minimum(high[:, None], high) - np.maximum(low[:, None], low), 0, None).prod(-1)
            area = (high - low).prod(-1)
            overlap = size / (area[:, None] + area - size)
            for c in range(scores.shape[1]):
                s = scores[b, c].astype(np.float64).copy()
                s[s <= score] = -np.inf
                kept = 0
                while np.isfinite(s).any() and not (count and kept == count):
                    best = int(np.argmax(s))
                    rows.append((b, c, best))
                    kept += 1
                    s[overlap[best] > iou] = -np.inf
                    s[best] = -np.inf
        return np.array(rows, np.int32).reshape(-1, 3)

    def test_nms(self):
        for trial in range(40):
            batch, n, classes = 1 + trial % 2, 1 + trial, 1 + trial % 3
            corner = self.random.uniform(0, 10, (batch, n, 2))
            boxes = np.concatenate([corner, corner + self.random.uniform(0.5, 5, (batch, n, 2))], 2).astype(np.float32)
            if trial % 4 == 1:
                boxes = boxes[:, :, [2, 3, 0, 1]]  # the other corners
            scores = np.round(self.random.uniform(0, 1, (batch, classes, n)), 1).astype(np.float32)  # some are equal
            count = trial % 5
            expected = self.suppress(boxes.astype(np.float64), scores, count, 0.3, np.float32(0.25))
            shape = [(np.int32, (len(expected) + 2, 3)), (np.int32, (1,))]
            found, size = run(NMS, [boxes, scores], shape, count=count, iou=0.3, score=0.25)
            self.same(size, [len(expected)])
            self.same(found, np.concatenate([expected, np.full((2, 3), -1, np.int32)]))
            low, high = np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(boxes[..., :2], boxes[..., 2:])
            centers = np.concatenate([(low + high) / 2, high - low], 2)
            again, size = run(NMS, [centers, scores], shape, CENTER, count=count, iou=0.3, score=0.25)
            self.same(again, found)

    def test_nms_keeps_what_there_is_room_for(self):
        boxes = np.array([[[0, 0, 1, 1], [2, 2, 3, 3], [4, 4, 5, 5]]], np.float32)
        found, size = run(NMS, [boxes, np.array([[[0.5, 0.7, 0.6]]], np.float32)],
                          [(np.int32, (2, 3)), (np.int32, (1,))], iou=0.5)
        self.same(found, [[0, 0, 1], [0, 0, 2]])
        self.same(size, [2])

    def test_what_does_not_fit_is_refused(self):
        x, y = np.zeros((2, 3), np.float32), (np.float32, (2, 3))
        index = (np.int32, (2,))
        cases = [
            (dict(op=8, inputs=[x], outputs=[y]), "operator 8 is unknown"),
            (dict(op=0, inputs=[x], outputs=[y]), "operator 0 is unknown"),
            (dict(op=CAST, inputs=[x, x], outputs=[y]), "Cast: 2 inputs and 1 outputs, expected 1 and 1"),
            (dict(op=CAST, inputs=[x], outputs=[(np.int8, (7,))]), "6 elements become 7"),
            (dict(op=CAST, inputs=[x], outputs=[y], flags=1), "unknown flags 1"),
            (dict(op=CAST, inputs=[x], outputs=[y], axis=1), "a parameter that it does not have"),
            (dict(op=CAST, inputs=[x], outputs=[y], score=1.0), "a parameter that it does not have"),
            (dict(op=COPY, inputs=[x], outputs=[(np.int32, (2, 3))]), "another type"),
            (dict(op=ARGMAX, inputs=[x], outputs=[index], axis=2), "axis 2 of a tensor with 2 dims"),
            (dict(op=ARGMAX, inputs=[x], outputs=[index], axis=-3), "axis -3"),
            (dict(op=ARGMAX, inputs=[x], outputs=[(np.int32, (3,))], axis=1), "has the shape [3], expected [2]"),
            (dict(op=ARGMAX, inputs=[x], outputs=[(np.float32, (2,))], axis=1), "is float32, expected int32"),
            (dict(op=TOPK, inputs=[x], outputs=[y, (np.int32, (2, 3))], axis=1, count=4), "the 4 largest of 3"),
            (dict(op=TOPK, inputs=[x], outputs=[y, (np.int32, (2, 3))], axis=1, count=0), "the 0 largest of 3"),
            (dict(op=TOPK, inputs=[x], outputs=[y, (np.int32, (2, 3))], axis=1, count=2), "expected [2, 2]"),
            (dict(op=SOFTMAX, inputs=[x.astype(np.int32)], outputs=[y], axis=1), "is int32, expected float32"),
            (dict(op=NONZERO, inputs=[x], outputs=[(np.int32, (2, 5)), (np.int32, (1,))]), "expected [2, at least 6]"),
            (dict(op=NMS, inputs=[x, x], outputs=[y, index]), "its boxes have the shape [2, 3]"),
            (dict(op=NMS, inputs=[np.zeros((1, 3, 4), np.float32), np.zeros((1, 2, 4), np.float32)],
                  outputs=[y, index]),
             "has the shape [1, 2, 4], expected [1, 2, 3]"),
            (dict(op=NMS, inputs=[np.zeros((1, 3, 4), np.float32), np.zeros((1, 2, 3), np.float32)],
                  outputs=[y, index], iou=1.5),
             "its iou is not 0 to 1"),
            (dict(op=NMS, inputs=[np.zeros((1, 3, 4), np.float32), np.zeros((1, 2, 3), np.float32)], outputs=[y, index],
                  score=float("nan")), "its score is not a number"),
        ]
        for arguments, message in cases:
            with self.assertRaises(ValueError) as caught:
                run(**arguments)
            self.assertIn(message, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
