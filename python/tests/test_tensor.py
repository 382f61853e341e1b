# SPDX-License-Identifier: MIT
"""Tensors in device memory: copies, mapped views, DLPack."""
import gc
import unittest

import numpy as np
import qnpu
import support

DTYPES = ("float32", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32")


class Tensors(support.Test):
    def setUp(self):
        super().setUp()
        self.device = qnpu.Device(0)

    def test_copies_of_all_types(self):
        for name in DTYPES:
            values = np.arange(-6, 6).astype(name).reshape(3, 4)
            tensor = qnpu.tensor(values, self.device)
            self.assertEqual((tensor.shape, tensor.dtype, tensor.nbytes), ((3, 4), name, values.nbytes))
            np.testing.assert_array_equal(tensor.numpy(), values)
            place = np.zeros_like(values)
            tensor.copy_to(place)
            np.testing.assert_array_equal(place, values)

    def test_copies_of_tensors(self):
        for name in (*DTYPES, "bfloat16"):
            tensor = qnpu.Tensor(self.device, (2, 3), name)
            tensor.copy_from(np.arange(6).reshape(2, 3).astype("uint16" if name == "bfloat16" else name))
            copy = qnpu.tensor(tensor, self.device)
            self.assertEqual((copy.dtype, copy.shape), (name, (2, 3)))
            self.assertNotEqual(copy.address, tensor.address)
            np.testing.assert_array_equal(copy.numpy(), tensor.numpy())

    def test_new_tensors_are_zero(self):
        np.testing.assert_array_equal(qnpu.Tensor(self.device, (5, 7), "int32").numpy(), np.zeros((5, 7)))
        self.assertEqual(qnpu.Tensor(self.device, (), "float32").numpy().shape, ())

    def test_types_and_shapes_as_numpy_takes_them(self):
        for kind in (np.float32, np.dtype("float32"), "float32", "f4", "<f4", "=f", np.float32(1).dtype):
            self.assertEqual(qnpu.Tensor(self.device, 6, kind).dtype, "float32")
        tensor = qnpu.Tensor(self.device, np.int64(6), np.float32)
        self.assertEqual((tensor.shape, tensor.view([2, 3]).shape, tensor.view(3).shape), ((6,), (2, 3), (3,)))
        self.assertEqual(tensor.view(24, dtype=np.uint8).dtype, "uint8")
        for name in DTYPES:
            self.assertEqual(qnpu.Tensor(self.device, (2,), getattr(np, name)).dtype, name)

    def test_the_buffer_protocol_is_the_device_s_memory(self):
        for name in DTYPES:
            tensor = qnpu.Tensor(self.device, (2, 3), name)
            view = np.asarray(tensor)
            self.assertEqual((view.dtype.name, view.shape), (name, (2, 3)))
            view[...] = np.arange(6).reshape(2, 3)
            tensor.flush()
            np.testing.assert_array_equal(tensor.numpy(), np.arange(6).reshape(2, 3))
            tensor.copy_from(np.full((2, 3), 7, name))
            tensor.invalidate()
            np.testing.assert_array_equal(view, np.full((2, 3), 7))
        self.assertEqual(memoryview(qnpu.Tensor(self.device, (4,), "float32")).format, "f")

    def test_views_outlive_the_tensor(self):
        view = np.asarray(qnpu.tensor(np.arange(1000, dtype=np.int32), self.device))
        gc.collect()
        others = [qnpu.tensor(np.zeros(1000, np.int32), self.device) for _ in range(10)]
        np.testing.assert_array_equal(view, np.arange(1000))
        del others

    def test_a_launch_sees_what_was_written_through_a_view(self):
        picture, right = support.pictures()[0][0], support.pictures()[1][0]
        with qnpu.Session(support.digits(), device=self.device) as session:
            tensor, place = session.tensor("image"), session.tensor("probabilities")
            written, read = np.asarray(tensor), np.asarray(place)
            written[...] = picture
            session.run(tensor, out={"probabilities": place})
            self.assertLess(np.abs(read[0] - right).max(), 1e-5)

    def test_parts_share_memory(self):
        tensor = qnpu.tensor(np.arange(12, dtype=np.int16), self.device)
        part = tensor.view((2, 3), 4)
        np.testing.assert_array_equal(part.numpy(), np.arange(4, 10).reshape(2, 3))
        part.copy_from(np.zeros((2, 3), np.int16))
        np.testing.assert_array_equal(tensor.numpy(), [0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 10, 11])
        self.assertEqual(part.address, tensor.address + 8)
        self.fails(["6 elements from 7", "has 12"], tensor.view, (2, 3), 7)
        self.assertEqual(tensor.view((2,), 2, "uint8").numpy().tolist(), [1, 0])
        self.fails(["2 elements from 5", "has 6"], tensor.view, (2,), 5, "float32")

    def test_dlpack_to_numpy_without_a_copy(self):
        for name in DTYPES:
            tensor = qnpu.tensor(np.arange(6).astype(name).reshape(2, 3), self.device)
            self.assertEqual(tensor.__dlpack_device__(), (1, 0))
            view = np.from_dlpack(tensor)
            self.assertEqual((view.dtype.name, view.shape), (name, (2, 3)))
            np.testing.assert_array_equal(view, np.arange(6).reshape(2, 3))
            tensor.copy_from(np.full((2, 3), 5, name))
            tensor.invalidate()
            np.testing.assert_array_equal(view, np.full((2, 3), 5))

    def test_dlpack_views_outlive_the_tensor(self):
        view = np.from_dlpack(qnpu.tensor(np.arange(1000, dtype=np.int32), self.device))
        gc.collect()
        others = [qnpu.tensor(np.zeros(1000, np.int32), self.device) for _ in range(10)]
        np.testing.assert_array_equal(view, np.arange(1000))
        del others

    def test_dlpack_from_numpy(self):
        for name in DTYPES:
            values = np.arange(24).astype(name).reshape(2, 3, 4)
            tensor = qnpu.from_dlpack(values, self.device)
            self.assertEqual((tensor.dtype, tensor.shape), (name, (2, 3, 4)))
            np.testing.assert_array_equal(tensor.numpy(), values)
            np.testing.assert_array_equal(np.from_dlpack(tensor), values)
        self.assertIs(qnpu.from_dlpack(tensor), tensor)

    def test_dlpack_of_bfloat16_goes_round(self):
        tensor = qnpu.Tensor(self.device, (3,), "bfloat16")
        tensor.copy_from(np.asarray([0x3F80, 0x4000, 0xC000], np.uint16))

        class Other:  # pylint: disable=too-few-public-methods
            """Another library's tensor."""

            def __dlpack__(self):
                return tensor.__dlpack__()

        copy = qnpu.from_dlpack(Other(), self.device)
        self.assertEqual(copy.dtype, "bfloat16")
        np.testing.assert_array_equal(copy.numpy(), [0x3F80, 0x4000, 0xC000])

    def test_capsules_that_nobody_takes_cost_nothing(self):
        tensor = qnpu.Tensor(self.device, (1 << 20,), "uint8")
        free = self.device.memory()["free"]
        capsule = tensor.__dlpack__()
        del tensor
        gc.collect()
        self.assertEqual(self.device.memory()["free"], free)
        del capsule
        gc.collect()
        self.assertEqual(self.device.memory()["free"], free + (1 << 20))

    def test_errors(self):
        tensor = qnpu.Tensor(self.device, (2, 3), "float32")
        self.fails(["copy_from", "dtype float64, expected float32"], tensor.copy_from, np.zeros((2, 3)))
        self.fails(["copy_from", "shape [3,2], expected [2,3]"], tensor.copy_from, np.zeros((3, 2), np.float32))
        self.fails(["copy_from", "C-contiguous"], tensor.copy_from, np.zeros((3, 2), np.float32).T)
        self.fails("stream", tensor.__dlpack__, stream=1)
        self.fails(["from_dlpack", "64 bits"], qnpu.from_dlpack, np.zeros(3), self.device)
        self.fails(["from_dlpack", "C-contiguous"], qnpu.from_dlpack, np.zeros((3, 2), np.float32).T, self.device)
        taken = tensor.__dlpack__()

        class Taken:  # pylint: disable=too-few-public-methods
            """Gives the same capsule again and again."""

            def __dlpack__(self, **_):
                return taken

            def __dlpack_device__(self):
                return (1, 0)

        np.from_dlpack(Taken())
        self.fails("nobody has taken", qnpu.from_dlpack, Taken(), self.device)


if __name__ == "__main__":
    unittest.main()
