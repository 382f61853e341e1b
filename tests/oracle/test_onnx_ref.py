#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Tests of the oracle itself: against results worked out by hand, always; and against other people's results where they
are:

    NPU_ONNX_TESTDATA   the data folder of Debian's libonnx-testdata (the ONNX backend tests):
                        /usr/share/libonnx-testdata/data
    NPU_REF_MODELS      a folder with models/NAME.onnx and ref/NAME__CASE.npz (arrays in_* and out_*)

A variable that is set and leads nowhere is a failure; one that is not set is said to be missing.
"""

import glob
import os
import sys
import unittest

import numpy as np

from onnx_reader import OnnxError, load_inputs, load_model, parse_model, parse_tensor
from onnx_ref import evaluate, unsupported
from onnx_writer import Graph, _tensor

TESTDATA, REF_MODELS = os.environ.get("NPU_ONNX_TESTDATA"), os.environ.get("NPU_REF_MODELS")

# Backend tests of covered operators that are about something else than inference on tensors.
NOT_INFERENCE = {
    "test_batchnorm_epsilon_training_mode", "test_batchnorm_example_training_mode", "test_training_dropout",
    "test_training_dropout_default", "test_training_dropout_default_mask", "test_training_dropout_mask",
    "test_training_dropout_zero_ratio", "test_training_dropout_zero_ratio_mask", "test_identity_opt",
    "test_identity_sequence",
}
# Stored results that are not what the specification says: the last element of align_corners is the input's last one;
# before ONNX 1.18 a window of AveragePool counted what lies beyond the padding; pi has five digits in the windows, and
# a quotient is rounded to single precision in front of a Round. Numpy has no extremum of an empty set, and the oracle
# has no tf_crop_and_resize.
NOT_COMPARED = {
    "test_blackmanwindow_expanded", "test_blackmanwindow_symmetric_expanded", "test_hammingwindow_expanded",
    "test_hammingwindow_symmetric_expanded", "test_hannwindow_expanded", "test_hannwindow_symmetric_expanded",
    "test_dynamicquantizelinear_expanded", "test_dynamicquantizelinear_max_adjusted_expanded",
    "test_dynamicquantizelinear_min_adjusted_expanded",
    "test_averagepool_3d_dilations_large_count_include_pad_is_1_ceil_mode_is_True",
    "test_reduce_max_empty_set", "test_reduce_min_empty_set",
    "test_resize_downsample_scales_cubic_align_corners", "test_resize_downsample_scales_linear_align_corners",
    "test_resize_tf_crop_and_resize",
}
# Types that numpy does not have.
NOT_NUMPY = ("BFLOAT16", "STRING", "FLOAT8", "INT4")
# The oracle's errors for attributes and types newer than ONNX 1.12 end with one of these, and their tests are left out.
NOT_COVERED = ("is not covered", "is not supported")
BACKEND_TESTS_AT_LEAST = 768  # all that ONNX 1.12 has: with it none may be left out


def run(op, *inputs, opset=13, outputs=1, **attrs):
    """One operator on arrays, through a written and read file; None stands for an absent input."""
    g = Graph("t", opset)
    names = ["" if a is None else g.input("i%d" % n, a.shape, a.dtype) for n, a in enumerate(inputs)]
    results = g.node(op, names, ["o%d" % n for n in range(outputs)], **attrs)
    for name in results:
        g.output(name)
    feeds = {"i%d" % n: a for n, a in enumerate(inputs) if a is not None}
    model = parse_model(g.serialize())
    model = model._replace(outputs=[o._replace(dtype=None) for o in model.outputs])
    found = list(evaluate(model, feeds).values())
    return found[0] if outputs == 1 else found


def f32(values, *shape):
    array = np.array(values, np.float32)
    return array.reshape(shape) if shape else array


def count(*shape):
    """1, 2, 3, ... in a shape."""
    return np.arange(1, int(np.prod(shape)) + 1, dtype=np.float32).reshape(shape)


class ByHand(unittest.TestCase):
    """Small cases; the expected numbers were worked out on paper."""

    def same(self, found, expected):
        expected = np.array(expected)
        self.assertEqual(found.shape, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)

    def test_conv_sums_a_window(self):
        self.same(run("Conv", count(1, 1, 3, 3), f32([1, 0, 0, 10], 1, 1, 2, 2)), [[[[51, 62], [84, 95]]]])

    def test_conv_pads_begin_before_end(self):
        y = run("Conv", f32([[[[1, 2], [3, 4]]]]), f32([1, 1, 1, 1], 1, 1, 2, 2), pads=[1, 0, 0, 0])
        self.same(y, [[[[3], [10]]]])
        y = run("Conv", f32([[[[1, 2], [3, 4]]]]), f32([1, 1, 1, 1], 1, 1, 2, 2), pads=[0, 0, 0, 1])
        self.same(y, [[[[10, 6]]]])

    def test_conv_strides_and_dilations(self):
        x, w = count(1, 1, 1, 6), f32([1, 100], 1, 1, 1, 2)
        self.same(run("Conv", x, w, strides=[1, 2], dilations=[1, 3]), [[[[401, 603]]]])

    def test_conv_groups_see_only_their_channels(self):
        x, w = f32([1, 2, 3, 4], 1, 4, 1, 1), f32([1, 10, 1, 10], 2, 2, 1, 1)
        self.same(run("Conv", x, w, f32([0.5, -0.5]), group=2).ravel(), [21.5, 42.5])

    def test_conv_sums_channels_and_adds_bias(self):
        x, w = f32([1, 2, 3, 4], 1, 2, 1, 2), f32([1, 10, -1, 1], 2, 2, 1, 1)
        self.same(run("Conv", x, w, f32([100, 0])), [[[[131, 142]], [[2, 2]]]])

    def test_conv_same_padding_upper_and_lower(self):
        x, w = f32([1, 2, 3], 1, 1, 1, 3), f32([1, 10], 1, 1, 1, 2)
        self.same(run("Conv", x, w, auto_pad="SAME_UPPER"), [[[[21, 32, 3]]]])
        self.same(run("Conv", x, w, auto_pad="SAME_LOWER"), [[[[10, 21, 32]]]])
        self.same(run("Conv", x, w, auto_pad="VALID"), [[[[21, 32]]]])

    def test_gemm(self):
        a, b = f32([[1, 2], [3, 4]]), f32([[1, 0], [1, 1]])
        self.same(run("Gemm", a, b), [[3, 2], [7, 4]])
        self.same(run("Gemm", a, b, transA=1), [[4, 3], [6, 4]])
        self.same(run("Gemm", a, b, transB=1), [[1, 3], [3, 7]])
        self.same(run("Gemm", a, b, f32([10, 20]), alpha=2.0, beta=0.5), [[11, 14], [19, 18]])
        self.same(run("Gemm", a, b, f32([[10], [20]])), [[13, 12], [27, 24]])

    def test_shape_arithmetic(self):
        x = count(2, 3, 4)
        self.same(run("Shape", x), [2, 3, 4])
        self.same(run("Shape", x, opset=15, start=-2), [3, 4])
        self.same(run("ConstantOfShape", np.array([2, 2]), value=np.array([7], np.int64)), [[7, 7], [7, 7]])
        self.same(run("Expand", f32([[1], [2]]), np.array([2, 1, 3])), [[[1, 1, 1], [2, 2, 2]]] * 2)
        self.same(run("Equal", np.array([1, -1]), np.array([-1, -1])), [False, True])
        self.same(run("ReduceProd", np.array([2, 3, 4]), keepdims=0), 24)
        self.same(run("Range", np.array(1), np.array(8), np.array(3)), [1, 4, 7])

    def test_lstm_by_one_step_on_paper(self):
        # Gates i, o, f, c read x by 0, 0, 0 and 1 and the state not at all: half open gates, so c grows by tanh(x) / 2.
        w, r = f32([0, 0, 0, 1], 1, 4, 1), f32([0, 0, 0, 0], 1, 4, 1)
        y, h, c = run("LSTM", f32([1, 1], 2, 1, 1), w, r, outputs=3, hidden_size=1)
        first = np.tanh(1.0) / 2
        second = first / 2 + first
        self.same(c, [[[second]]])
        self.same(h, [[[np.tanh(second) / 2]]])
        self.same(y, [[[[np.tanh(first) / 2]]], [[[np.tanh(second) / 2]]]])

    def test_matmul_broadcasts_batches(self):
        a, b = f32([1, 2], 1, 1, 2), f32([1, 1, 2, 0], 2, 2, 1)
        self.same(run("MatMul", a, b), [[[3]], [[2]]])
        self.same(run("MatMul", f32([1, 2]), f32([3, 4])), 11)

    def test_max_pool(self):
        x = count(1, 1, 3, 3)
        self.same(run("MaxPool", x, kernel_shape=[2, 2]), [[[[5, 6], [8, 9]]]])
        self.same(run("MaxPool", -x, kernel_shape=[2, 2], pads=[1, 1, 0, 0], strides=[2, 2]), [[[[-1, -2], [-4, -5]]]])
        self.same(run("MaxPool", x, kernel_shape=[2, 2], dilations=[2, 2]), [[[[9]]]])
        self.same(run("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1), [[[[5, 6], [8, 9]]]])
        _, where = run("MaxPool", x, kernel_shape=[2, 2], outputs=2)
        self.same(where, [[[[4, 5], [7, 8]]]])
        _, where = run("MaxPool", x, kernel_shape=[2, 2], storage_order=1, outputs=2)
        self.same(where, [[[[4, 7], [5, 8]]]])

    def test_average_pool_counts_padding_only_when_told(self):
        x = f32([[[[2, 4], [6, 8]]]])
        self.same(run("AveragePool", x, kernel_shape=[2, 2], pads=[1, 1, 0, 0]), [[[[2, 3], [4, 5]]]])
        self.same(run("AveragePool", x, kernel_shape=[2, 2], pads=[1, 1, 0, 0], count_include_pad=1),
                  [[[[0.5, 1.5], [2, 5]]]])

    def test_average_pool_ceil_mode_divides_by_what_is_there(self):
        x = f32([1, 2, 3, 4, 5], 1, 1, 5)
        self.same(run("AveragePool", x, kernel_shape=[2], strides=[2], ceil_mode=1), [[[1.5, 3.5, 5]]])
        y = run("AveragePool", x, kernel_shape=[3], strides=[2], pads=[0, 1], ceil_mode=1, count_include_pad=1)
        self.same(y, [[[2, 4, 2.5]]])  # the last window: 5, one zero that counts, and one place that is not there

    def test_pool_drops_a_window_that_begins_in_the_end_padding(self):
        for end in (1, 3):  # with 3 nothing has to be rounded up
            y = run("MaxPool", f32([1, 2, 3, 4], 1, 1, 4), kernel_shape=[2], strides=[3], pads=[1, end], ceil_mode=1)
            self.same(y, [[[1, 4]]])

    def test_global_average_pool(self):
        self.same(run("GlobalAveragePool", count(1, 2, 2, 2)), [[[[2.5]], [[6.5]]]])

    def test_binary_broadcasting(self):
        a, b = f32([[1], [2]]), f32([10, 20, 40])
        self.same(run("Add", a, b), [[11, 21, 41], [12, 22, 42]])
        self.same(run("Sub", a, b), [[-9, -19, -39], [-8, -18, -38]])
        self.same(run("Mul", a, b), [[10, 20, 40], [20, 40, 80]])
        self.same(run("Div", b, a), [[10, 20, 40], [5, 10, 20]])

    def test_binary_broadcasting_of_old_operator_sets(self):
        x, y = count(1, 2, 2), f32([10, 20])
        self.same(run("Add", x, y, opset=6, broadcast=1, axis=1), [[[11, 12], [23, 24]]])
        self.same(run("Add", x, y, opset=6, broadcast=1), [[[11, 22], [13, 24]]])

    def test_integer_division_goes_towards_zero(self):
        self.same(run("Div", np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2])), [3, -3, -3, 3])

    def test_activations(self):
        x = f32([-2, 0, 2])
        self.same(run("Relu", x), [0, 0, 2])
        self.same(run("LeakyRelu", x, alpha=0.25), [-0.5, 0, 2])
        np.testing.assert_allclose(run("Sigmoid", x), [0.119202922, 0.5, 0.880797078], rtol=1e-8)
        np.testing.assert_allclose(run("Tanh", x), [-0.964027580, 0, 0.964027580], rtol=1e-8)
        self.same(run("Sigmoid", f32([-1000, 1000])), [0, 1])

    def test_clip_of_each_form(self):
        x = f32([-3, 0, 3])
        self.same(run("Clip", x, opset=6, min=-1.0, max=2.0), [-1, 0, 2])
        self.same(run("Clip", x, f32(-1), f32(2)), [-1, 0, 2])
        self.same(run("Clip", x, None, f32(2)), [-3, 0, 2])
        self.same(run("Clip", x, f32(-1)), [-1, 0, 3])

    def test_softmax_before_and_after_opset_13(self):
        x = f32(np.log([[[1, 3], [4, 8]]]))
        self.same(run("Softmax", x), [[[0.25, 0.75], [1 / 3, 2 / 3]]])
        self.same(run("Softmax", x, axis=1), [[[0.2, 3 / 11], [0.8, 8 / 11]]])
        self.same(run("Softmax", x, opset=11), [[[1 / 16, 3 / 16], [4 / 16, 8 / 16]]])
        self.same(run("Softmax", f32([[1000, 1000]])), [[0.5, 0.5]])

    def test_batch_normalization(self):
        x = f32([1, 2, 3, 4], 1, 2, 2)
        y = run("BatchNormalization", x, f32([2, 1]), f32([10, 0]), f32([1, 3]), f32([3, 0]), epsilon=1.0)
        self.same(y, [[[10, 11], [0, 1]]])

    def test_training_is_refused(self):
        with self.assertRaisesRegex(OnnxError, "training"):
            run("BatchNormalization", count(1, 1, 1), *[f32([1])] * 4, training_mode=1)
        with self.assertRaisesRegex(OnnxError, "training"):
            run("Dropout", count(2), f32(0.5), np.array(True))

    def test_dropout_passes_everything(self):
        y, mask = run("Dropout", f32([1, 2]), outputs=2)
        self.same(y, [1, 2])
        self.same(mask, [True, True])

    def test_shapes(self):
        x = count(2, 3, 4)
        self.same(run("Flatten", x, axis=0), x.reshape(1, 24))
        self.same(run("Flatten", x, axis=2), x.reshape(6, 4))
        self.same(run("Flatten", x, axis=-1), x.reshape(6, 4))
        self.same(run("Reshape", x, np.array([0, -1])), x.reshape(2, 12))
        self.same(run("Reshape", x, opset=1, shape=[4, 6]), x.reshape(4, 6))
        self.same(run("Transpose", count(1, 2, 3)), [[[1], [4]], [[2], [5]], [[3], [6]]])
        self.same(run("Transpose", count(1, 2, 2), perm=[2, 0, 1]), [[[1, 3]], [[2, 4]]])
        self.same(run("Concat", f32([[1], [2]]), f32([[3], [4]]), axis=1), [[1, 3], [2, 4]])
        with self.assertRaisesRegex(OnnxError, "Reshape"):
            run("Reshape", x, np.array([5, -1]))

    def test_functions(self):
        self.same(run("HardSwish", f32([-4, -1.5, 0, 1.5, 4]), opset=14), [0, -0.375, 0, 1.125, 4])
        self.same(run("HardSigmoid", f32([-4, 0, 1, 4])), [0, 0.5, 0.7, 1])
        np.testing.assert_allclose(run("Erf", f32([-1, 0, 0.5])), [-0.842700793, 0, 0.520499878], rtol=1e-8)
        self.same(run("Sqrt", f32([0, 4, 9])), [0, 2, 3])
        self.assertTrue(np.isnan(run("Sqrt", f32([-1]))[0]))

    def test_layer_normalization(self):
        x = f32([[1, 3], [10, 30]])
        y, mean, inverse = run("LayerNormalization", x, f32([2, 1]), f32([5, 0]), opset=17, outputs=3, epsilon=0.0)
        self.same(y, [[3, 1], [3, 1]])
        self.same(mean, [[2], [20]])
        self.same(inverse, [[1], [0.1]])
        self.same(run("LayerNormalization", f32([[1, 1], [3, 3]]), np.ones((2, 2), np.float32), opset=17, axis=0,
                      epsilon=3.0), [[-0.5, -0.5], [0.5, 0.5]])

    def test_reductions_have_axes_as_attribute_and_input(self):
        x = count(2, 3)
        self.same(run("ReduceMean", x), [[3.5]])
        self.same(run("ReduceMean", x, axes=[-1], keepdims=0), [2, 5])
        self.same(run("ReduceMean", x, np.array([0]), opset=18), [[2.5, 3.5, 4.5]])
        self.same(run("ReduceMean", x, opset=18, noop_with_empty_axes=1), x)
        self.same(run("ReduceSum", x, np.array([0, 1])), [[21]])

    def test_depth_to_space_of_both_modes(self):
        x = count(1, 8, 1, 1)
        self.same(run("DepthToSpace", x, blocksize=2), [[[[1, 3], [5, 7]], [[2, 4], [6, 8]]]])
        self.same(run("DepthToSpace", x, blocksize=2, mode="CRD"), [[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]])

    def test_pad_of_each_mode(self):
        x, pads = f32([1, 2, 3]), np.array([2, 1])
        self.same(run("Pad", x, pads), [0, 0, 1, 2, 3, 0])
        self.same(run("Pad", x, pads, f32(9)), [9, 9, 1, 2, 3, 9])
        self.same(run("Pad", x, pads, mode="edge"), [1, 1, 1, 2, 3, 3])
        self.same(run("Pad", x, pads, mode="reflect"), [3, 2, 1, 2, 3, 2])
        self.same(run("Pad", x, pads, mode="wrap", opset=19), [2, 3, 1, 2, 3, 1])
        self.same(run("Pad", x, np.array([-1, 2])), [2, 3, 0, 0])
        self.same(run("Pad", x, opset=2, pads=[0, 1], value=7.0), [1, 2, 3, 7])
        self.same(run("Pad", count(1, 2), np.array([0, 1]), None, np.array([-1]), opset=18), [[1, 2, 0]])

    def test_resize(self):
        x = f32([[1, 2, 3, 4]])
        by = f32([1, 0.5])
        self.same(run("Resize", x, None, f32([1, 2]), mode="nearest"), [[1, 1, 2, 2, 3, 3, 4, 4]])
        self.same(run("Resize", x, None, by, mode="linear"), [[1.5, 3.5]])
        self.same(run("Resize", x, None, None, np.array([1, 7]), mode="linear",
                      coordinate_transformation_mode="align_corners"), [[1, 1.5, 2, 2.5, 3, 3.5, 4]])
        self.same(run("Resize", x, None, by, mode="linear", coordinate_transformation_mode="asymmetric"), [[1, 3]])
        self.same(run("Resize", x, None, None, np.array([2]), mode="linear", axes=[1], opset=18), [[1.5, 3.5]])
        # Keys' cubic of a = -0.75 in the middle between two elements: -3/32, 19/32, 19/32, -3/32.
        self.same(run("Resize", f32([[0, 32, 64, 0]]), None, by, mode="cubic"),
                  [[19 - 3 * 2, 19 * 2 - 3]])
        for attrs in ({"antialias": 1}, {"coordinate_transformation_mode": "tf_crop_and_resize"}):
            with self.assertRaisesRegex(OnnxError, "Resize: .* is not covered"):
                run("Resize", x, None, by, mode="linear", opset=18, **attrs)

    def test_split_of_each_form(self):
        a, b = run("Split", f32([1, 2, 3, 4]), outputs=2)
        self.same(np.concatenate([a, b * 10]), [1, 2, 30, 40])
        a, b = run("Split", f32([1, 2, 3]), np.array([1, 2]), outputs=2)
        self.same(b, [2, 3])
        a, b = run("Split", f32([[1, 2, 3]]), opset=11, outputs=2, axis=1, split=[2, 1])
        self.same(a, [[1, 2]])
        a, b = run("Split", f32([1, 2, 3]), opset=18, outputs=2, num_outputs=2)
        self.same(a, [1, 2])
        with self.assertRaisesRegex(OnnxError, "Split"):
            run("Split", f32([1, 2, 3]), outputs=2)

    def test_slice_squeeze_unsqueeze(self):
        x = count(4)
        self.same(run("Slice", x, np.array([3]), np.array([-5]), np.array([0]), np.array([-2])), [4, 2])
        self.same(run("Slice", x, opset=9, starts=[1], ends=[100]), [2, 3, 4])
        self.same(run("Squeeze", count(1, 2, 1), np.array([0])), [[1], [2]])
        self.same(run("Unsqueeze", x, opset=11, axes=[0, 2]), [[[1], [2], [3], [4]]])

    def test_quantize_and_dequantize(self):
        x, scale = f32([-3, 0.25, 0.75, 1.25, 300]), f32(0.5)
        found = run("QuantizeLinear", x, scale, np.uint8(1))
        self.assertEqual(found.dtype, np.uint8)
        self.same(found, [0, 1, 3, 3, 255])  # halves go to the even step before the zero point is added
        self.assertEqual(run("QuantizeLinear", x, scale).dtype, np.uint8)
        self.same(run("QuantizeLinear", f32([[1], [1]]), f32([1, 0.1]), np.array([0, -1], np.int8), axis=0), [[1], [9]])
        self.same(run("DequantizeLinear", np.array([0, 255], np.uint8), scale, np.uint8(1)), [-0.5, 127])
        self.same(run("DequantizeLinear", np.array([[2, 2, 2, 2]], np.int8), f32([[1, 10]]), opset=21, axis=1,
                      block_size=2), [[2, 2, 20, 20]])
        # In single precision 0.35 / 0.1 is 3.5, in double precision of these numbers it is less.
        self.same(run("QuantizeLinear", f32([0.35, 0.85]), f32(0.1)), [4, 8])

    def test_constant_and_identity(self):
        self.same(run("Constant", value=f32([[1, 2]])), [[1, 2]])
        self.same(run("Constant", value_floats=[1.0, 2.5]), [1, 2.5])
        self.same(run("Constant", value_int=7), 7)
        self.same(run("Identity", f32([1, 2])), [1, 2])


class Files(unittest.TestCase):
    """Reader and writer."""

    def small(self):
        g = Graph("small")
        x = g.input("x", (1, "n", 3))
        g.output(g.node("Add", [x, g.const(f32([1, 2, 3]), "c")], "y"), (1, "n", 3))
        return g

    def test_what_is_written_is_read(self):
        model = parse_model(self.small().serialize())
        self.assertEqual((model.opset, model.inputs[0].name, model.inputs[0].shape), (13, "x", [1, "n", 3]))
        self.assertEqual(list(model.initializers), ["c"])
        found = evaluate(model, {"x": f32([[[1, 1, 1]]])})
        np.testing.assert_array_equal(found["y"], f32([[[2, 3, 4]]]))
        self.assertEqual(found["y"].dtype, np.float32)

    def test_tensors_of_every_type_survive(self):
        for dtype in ("float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "bool", "float16", "float64",
                      "uint32", "uint64"):
            for array in (np.array([[0, 1, 1]]).astype(dtype), np.array(1).astype(dtype), np.zeros((0, 2), dtype)):
                name, found = parse_tensor(memoryview(_tensor("t", array)))
                self.assertEqual((name, found.dtype, found.shape), ("t", array.dtype, array.shape))
                np.testing.assert_array_equal(found, array)

    def test_typed_fields_are_read_as_well_as_raw_ones(self):
        floats = b"\x08\x02\x10\x01\x22\x08" + f32([1.5, -2]).tobytes()  # dims 2, FLOAT, float_data packed
        np.testing.assert_array_equal(parse_tensor(memoryview(floats))[1], f32([1.5, -2]))
        ints = b"\x08\x02\x10\x07\x38\x05\x38" + b"\xff" * 9 + b"\x01"  # INT64, int64_data 5 and -1, not packed
        np.testing.assert_array_equal(parse_tensor(memoryview(ints))[1], [5, -1])

    def test_a_broken_file_is_read_or_refused_and_nothing_else(self):
        data = self.small().serialize()
        random = np.random.RandomState(1)
        broken = [data[:length] for length in range(len(data))]
        for _ in range(3000):
            changed = bytearray(data)
            changed[random.randint(len(data))] = random.randint(256)
            broken.append(bytes(changed))
        refused = 0
        for candidate in broken:
            try:
                parse_model(candidate)
            except OnnxError:
                refused += 1
        self.assertGreater(refused, len(broken) // 10)
        self.assertLess(refused, len(broken))

    def test_errors_say_what_is_wrong(self):
        for data, message in ((b"", "no graph"), (b"\x7fELF", "wire type"), (b"\x3a\x05ab", "5 bytes, 2 are left")):
            with self.assertRaisesRegex(OnnxError, message):
                parse_model(data)
        with self.assertRaisesRegex(OnnxError, "'x'.*expected.*got"):
            evaluate(parse_model(self.small().serialize()), {"x": f32([1])})
        g = Graph("odd")
        g.output(g.node("NoSuchThing", [g.input("x", (1,))]))
        with self.assertRaisesRegex(OnnxError, "NoSuchThing"):
            evaluate(parse_model(g.serialize()), {"x": f32([1])})


class BackendTests(unittest.TestCase):
    """The ONNX project's own expectations."""

    def expect(self, folder, model):
        sets = sorted(glob.glob(os.path.join(folder, "test_data_set_*")))
        self.assertTrue(sets, "no data in %s" % folder)
        for data in sets:
            def tensor(name, data=data):
                with open(os.path.join(data, name), "rb") as file:
                    return parse_tensor(memoryview(file.read()))[1]
            feeds = {info.name: tensor("input_%d.pb" % i) for i, info in enumerate(model.inputs)}
            for i, found in enumerate(evaluate(model, feeds).values()):
                expected = tensor("output_%d.pb" % i)
                self.assertEqual((found.dtype, found.shape), (expected.dtype, expected.shape))
                np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=1e-4, atol=1e-5)

    def test_all_that_are_covered(self):
        folders = sorted(glob.glob(os.path.join(TESTDATA, "*", "test_*", "model.onnx")))
        done = 0
        for path in folders:
            name = os.path.basename(os.path.dirname(path))
            try:
                model = load_model(path)
            except OnnxError as error:
                if any(t in name for t in NOT_NUMPY):
                    continue
                self.assertIn("no operator set", str(error))  # the training operators' domain, and nothing else
                continue
            try:
                inputs = load_inputs(path)
            except OnnxError as error:
                self.assertTrue(str(error).endswith(NOT_COVERED), "%s: %s" % (name, error))
                continue
            with self.subTest(name):
                self.assertEqual(inputs, model.inputs)
            if unsupported(model) or name in NOT_INFERENCE | NOT_COMPARED or any(t in name for t in NOT_NUMPY):
                continue
            with self.subTest(name):
                try:
                    self.expect(os.path.dirname(path), model)
                except OnnxError as error:
                    self.assertTrue(str(error).endswith(NOT_COVERED), error)
                    continue
                done += 1
        print("%d ONNX backend tests agree" % done, file=sys.stderr)
        self.assertGreaterEqual(done, BACKEND_TESTS_AT_LEAST, "in %s" % TESTDATA)


class ReferenceModels(unittest.TestCase):
    """Trained networks, as another runtime computed them."""

    def test_all_that_are_covered(self):
        done = 0
        for path in sorted(glob.glob(os.path.join(REF_MODELS, "ref", "*.npz"))):
            name = os.path.basename(path)[:-4]
            model = load_model(os.path.join(REF_MODELS, "models", name.split("__")[0] + ".onnx"))
            if unsupported(model):
                print("%s: not covered: %s" % (name, ", ".join(unsupported(model))), file=sys.stderr)
                continue
            with self.subTest(name), np.load(path) as archive:
                for key, found in evaluate(model, {i.name: archive["in_" + i.name] for i in model.inputs}).items():
                    expected = archive["out_" + key]
                    self.assertEqual(found.shape, expected.shape)
                    bound = 1e-4 * max(1.0, float(np.abs(expected).max()))
                    self.assertLessEqual(float(np.abs(found - expected).max()), bound)
                done += 1
        print("%d reference cases agree" % done, file=sys.stderr)
        self.assertGreater(done, 0, "in %s" % REF_MODELS)


def load_tests(loader, _, __):
    suite = unittest.TestSuite(loader.loadTestsFromTestCase(case) for case in (ByHand, Files))
    for case, name, value in ((BackendTests, "NPU_ONNX_TESTDATA", TESTDATA), (ReferenceModels, "NPU_REF_MODELS",
                                                                              REF_MODELS)):
        if value:
            suite.addTests(loader.loadTestsFromTestCase(case))
        else:
            print("%s is not set: %s are not part of this run" % (name, case.__name__), file=sys.stderr)
    return suite


if __name__ == "__main__":
    unittest.main()
