# SPDX-License-Identifier: MIT
"""sophon.sail, in the ways in which programs for it use it."""
import threading
import unittest

import numpy as np
import qnpu
import sophon.sail as sail
import support


class Classifier:
    """The shape of the vendor's samples: names and shapes of the model, preprocessing, process with arrays."""

    def __init__(self, bmodel, tpu_id):
        self.engine = sail.Engine(bmodel, tpu_id, sail.IOMode.SYSIO)
        self.handle = self.engine.get_handle()
        self.graph_name = self.engine.get_graph_names()[0]
        self.input_name = self.engine.get_input_names(self.graph_name)[0]
        self.output_name = self.engine.get_output_names(self.graph_name)[0]
        self.input_shape = self.engine.get_input_shape(self.graph_name, self.input_name)

    def inference(self, data):
        return np.array(list(self.engine.process(self.graph_name, {self.input_name: data}).values()))[0]


class Detector:
    """The other shape: tensors of the program's own, on the device."""

    def __init__(self, bmodel, tpu_id):
        self.net = sail.Engine(tpu_id)
        assert self.net.load(bmodel)
        self.handle = self.net.get_handle()
        self.graph = self.net.get_graph_names()[0]
        self.net.set_io_mode(self.graph, sail.IOMode.DEVIO)
        self.input_name = self.net.get_input_names(self.graph)[0]
        self.input_shapes = {self.input_name: self.net.get_input_shape(self.graph, self.input_name)}
        self.output_tensors = {}
        for name in self.net.get_output_names(self.graph):
            shape, dtype = self.net.get_output_shape(self.graph, name), self.net.get_output_dtype(self.graph, name)
            self.output_tensors[name] = sail.Tensor(self.handle, shape, dtype, True, True)

    def predict(self, picture):
        tensor = sail.Tensor(self.handle, picture)
        self.net.process(self.graph, {self.input_name: tensor}, self.input_shapes, self.output_tensors)
        out = {}
        for name, result in self.output_tensors.items():
            result.sync_d2s()
            out[name] = result.asnumpy()
        return out


class Sail(support.Test):
    def setUp(self):
        super().setUp()
        self.bmodel = self.path("digits.bmodel")
        support.digits().save(self.bmodel)
        self.pictures, self.right = support.pictures()

    def close_at_the_end(self, *engines):
        """Errors keep what they were raised in, in cycles: the session would be open in the tests after this one."""
        for engine in engines:
            for session in engine._sessions.values():
                self.addCleanup(session.close)

    def near(self, got, number):
        self.assertLess(np.abs(np.asarray(got).reshape(10) - self.right[number]).max(), 1e-5)

    def test_a_program_with_arrays(self):
        classifier = Classifier(self.bmodel, 0)
        self.assertEqual(classifier.input_shape, [1, 1, 8, 8])
        self.near(classifier.inference(self.pictures[2]), 2)
        self.near(classifier.inference(self.pictures[2].astype(np.float64)), 2)  # numpy's arithmetic often gives these

    def test_a_program_with_tensors(self):
        detector = Detector(self.bmodel, 0)
        for number in (4, 5):
            self.near(detector.predict(self.pictures[number])["probabilities"], number)

    def test_engines_in_every_form(self):
        data = support.digits().data
        handle = sail.Handle(0)
        for engine in (sail.Engine(self.bmodel, 0, sail.IOMode.DEVIO), sail.Engine(data, len(data), 0,
                       sail.IOMode.SYSIO), sail.Engine(self.bmodel, handle, sail.IOMode.SYSI),
                       sail.Engine(bmodel_path=self.bmodel, tpu_id=0, mode=sail.IOMode.SYSO)):
            self.assertEqual((engine.get_device_id(), engine.get_graph_names()), (0, ["digits"]))
            self.near(engine.process("digits", {"image": self.pictures[1]})["probabilities"], 1)
            self.near(engine.process("digits", {"image": self.pictures[1]}, [0])["probabilities"], 1)

    def test_engines_take_names_in_any_order(self):
        data = support.digits().data
        handle = sail.Handle(0)
        longer = data + bytes(100)
        for named in ({"mode": sail.SYSO, "tpu_id": 0, "bmodel_path": self.bmodel},
                      {"handle": handle, "mode": sail.SYSO, "bmodel_bytes": data, "bmodel_size": len(data)},
                      {"bmodel_size": len(data), "tpu_id": 0, "bmodel_bytes": longer, "mode": sail.SYSO}):
            engine = sail.Engine(**named)
            self.assertFalse(engine.create_input_tensors_map("digits")["image"].own_sys_data())
            self.assertTrue(engine.create_output_tensors_map("digits")["probabilities"].own_sys_data())
            self.near(engine.process("digits", {"image": self.pictures[1]})["probabilities"], 1)
        engine = sail.Engine(self.bmodel, mode=sail.SYSO, tpu_id=0)
        self.assertFalse(engine.create_input_tensors_map("digits")["image"].own_sys_data())
        for engine, in_system in ((sail.Engine(handle=handle), True), (sail.Engine(mode=sail.SYSO, tpu_id=0), False)):
            self.assertTrue(engine.load(bmodel_bytes=data, bmodel_size=len(data)))
            self.assertEqual(engine.create_input_tensors_map("digits")["image"].own_sys_data(), in_system)
        wrong = {"kind": TypeError}
        self.fails(["'device_id' is no argument", "tpu_id"], sail.Engine, self.bmodel, device_id=0, **wrong)
        self.fails("tpu_id or handle is there twice", sail.Engine, self.bmodel, 0, tpu_id=0, **wrong)
        self.fails("tpu_id or handle is missing", sail.Engine, self.bmodel, **wrong)
        self.fails("tpu_id or handle is missing", sail.Engine, **wrong)
        self.fails("an IOMode is expected", sail.Engine, self.bmodel, 0, 7, **wrong)
        self.fails("'bmodel_size' is no argument", sail.Engine, self.bmodel, tpu_id=0, bmodel_size=8, **wrong)
        self.fails("4 arguments, at most 3", sail.Engine, self.bmodel, 0, sail.SYSI, 0, **wrong)
        self.fails("'path' is no argument", sail.Engine(0).load, path=self.bmodel, **wrong)
        for size in (-1, len(data) + 1):
            self.fails(f"{size} bytes, the model has {len(data)}", sail.Engine, data, size, 0)

    def test_facts_of_an_engine(self):
        engine = sail.Engine(self.bmodel, 0, sail.IOMode.SYSIO)
        self.assertEqual(engine.get_max_input_shapes("digits"), {"image": [1, 1, 8, 8]})
        self.assertEqual(engine.get_max_output_shapes("digits"), {"probabilities": [1, 10]})
        self.assertEqual(engine.get_input_dtype("digits", "image"), sail.Dtype.BM_FLOAT32)
        self.assertEqual(engine.get_output_dtype("digits", "probabilities"), sail.BM_FLOAT32)
        self.assertEqual(engine.get_input_scale("digits", "image"), 1.0)
        self.assertEqual(engine.get_output_scale("digits", "probabilities"), 1.0)
        self.assertFalse(engine.graph_is_dynamic("digits"))
        self.assertEqual((engine.get_input_num("digits"), engine.get_output_num("digits")), (1, 1))

    def test_tensor_maps(self):
        for mode, in_sys, out_sys in ((sail.IOMode.SYSI, True, False), (sail.IOMode.SYSO, False, True),
                                      (sail.IOMode.SYSIO, True, True), (sail.IOMode.DEVIO, False, False)):
            engine = sail.Engine(self.bmodel, 0, mode)
            inputs, outputs = engine.create_input_tensors_map("digits"), engine.create_output_tensors_map("digits")
            image, result = inputs["image"], outputs["probabilities"]
            self.assertEqual((image.own_sys_data(), image.own_dev_data()), (in_sys, True))
            self.assertEqual((result.own_sys_data(), result.own_dev_data()), (out_sys, True))
            image.update_data(self.pictures[6])
            engine.process("digits", inputs, outputs)
            self.near(result.asnumpy(), 6)
            made = engine.process("digits", inputs)
            self.near(made["probabilities"].asnumpy(), 6)
        self.assertFalse(engine.create_input_tensors_map("digits", 0)["image"].own_dev_data())
        self.assertFalse(engine.create_input_tensors_map("digits", 1)["image"].own_sys_data())

    def test_outputs_are_written_into_memory_that_tensors_share(self):
        engine = sail.Engine(self.bmodel, 0, sail.IOMode.DEVIO)
        both = sail.Tensor(engine.get_handle(), [2, 10], sail.Dtype.BM_FLOAT32, False, True)
        for row in (0, 1):
            part = sail.Tensor(both, [1, 10], row * 10)
            engine.process("digits", {"image": sail.Tensor(engine.get_handle(), self.pictures[row])},
                           {"probabilities": part})
        for row in (0, 1):
            self.near(both.asnumpy()[row], row)

    def test_quantized_models(self):
        model = qnpu.compile(support.digits_model(), quantize="int8", calibrate=list(self.pictures[:40]),
                             input_type="int8", output_type="int8")
        engine = sail.Engine(model.data, len(model.data), 0, sail.IOMode.SYSIO)
        got = engine.process("digits", {"image": self.pictures[9]})["probabilities"]
        self.assertEqual((got.dtype, got.argmax()), (np.float32, self.right[9].argmax()))
        scale_in = engine.get_input_scale("digits", "image")
        inputs, outputs = engine.create_input_tensors_map("digits"), engine.create_output_tensors_map("digits")
        inputs["image"].scale_from(self.pictures[9], scale_in)
        self.assertEqual(inputs["image"].dtype(), sail.Dtype.BM_INT8)
        engine.process("digits", inputs, outputs)
        scaled = outputs["probabilities"].scale_to(engine.get_output_scale("digits", "probabilities"))
        self.assertEqual((scaled.dtype, scaled.argmax()), (np.float32, self.right[9].argmax()))

    def test_tensors(self):
        handle = sail.Handle(0)
        values = np.arange(12, dtype=np.float32).reshape(3, 4)
        tensor = sail.Tensor(handle, values)
        self.assertEqual((tensor.shape(), tensor.size(), tensor.element_size(), tensor.nbytes(), tensor.device_id()),
                         ([3, 4], 12, 4, 48, 0))
        np.testing.assert_array_equal(tensor.asnumpy([2, 2]), [[0, 1], [2, 3]])
        tensor.update_data(values + 1)
        np.testing.assert_array_equal(sail.Tensor(handle, values, False).asnumpy(), values)
        tensor.sync_d2s()
        np.testing.assert_array_equal(tensor.asnumpy(), values)  # what the device had
        tensor.update_data(values + 1)
        tensor.sync_s2d(16)
        tensor.pysys_data()[...] = 0
        tensor.sync_d2s()
        np.testing.assert_array_equal(tensor.asnumpy().reshape(-1)[:6], [1, 2, 3, 4, 4, 5])
        part = sail.Tensor(tensor, [(1, 3), (0, 2)])
        np.testing.assert_array_equal(part.asnumpy(), tensor.asnumpy()[1:3, 0:2])
        other = sail.Tensor(handle, [3, 4], sail.Dtype.BM_FLOAT32, True, True)
        other.sync_d2d(tensor, 2, 5, 3)
        other.sync_d2s()
        np.testing.assert_array_equal(other.asnumpy().reshape(-1)[4:9], [0, 3, 4, 4, 0])
        other.sync_s2d(tensor, 0, 1, 2)
        other.sync_d2s(other, 1, 0, 2)
        np.testing.assert_array_equal(other.asnumpy().reshape(-1)[:2], [1, 2])
        other.ones()
        other.reshape([2, 2])
        np.testing.assert_array_equal(other.asnumpy(), np.ones((2, 2)))
        self.assertEqual((sail.argmax(tensor), sail.argmin(other)), (11, 0))
        other.dump_data(self.path("dump"), True)
        self.assertEqual(np.fromfile(self.path("dump"), np.float32).tolist(), [1.0] * 4)

    def test_tensors_as_the_vendor_s_samples_make_them(self):
        handle = sail.Handle(0)
        tensor = sail.Tensor(handle, np.array([1, 2, 3]))
        self.assertEqual((tensor.dtype(), tensor.shape(), len(tensor), tensor[2]), (sail.BM_FLOAT32, [3], 3, 3.0))
        np.testing.assert_array_equal(tensor.asnumpy((3, 1)), [[1], [2], [3]])
        other = sail.Tensor(handle=handle, shape=[1, 3], dtype=sail.Dtype.BM_FLOAT32, own_sys_data=True,
                            own_dev_data=True)
        other.update_data(np.array([5, 6, 7]))
        other.sync_s2d()
        other.sync_s2d(1)  # bytes
        other.sync_s2d(tensor, 0, 0, 2)
        other.sync_d2s(3)
        other.sync_d2s()
        self.assertEqual(other.asnumpy().tolist(), [[1, 2, 7]])
        part = sail.Tensor(src=other, shape=[2], offset=1)
        self.assertEqual(part.asnumpy().tolist(), [2, 7])
        half = sail.Tensor(handle, (2, 2), sail.BM_FLOAT16, True)
        half.update_data(np.full((2, 2), 0.5, np.float16).view(np.uint16))
        self.assertEqual(half.asnumpy().tolist(), [[0.5, 0.5]] * 2)
        wide = sail.Tensor(handle, [8], sail.BM_FLOAT32, True, True)
        wide.zeros()
        wide.sync_d2d_stride(tensor, 1, 2, 3)
        wide.sync_d2s()
        self.assertEqual(wide.asnumpy().tolist(), [1, 0, 2, 0, 3, 0, 0, 0])
        self.fails("float32 does not have", sail.Tensor, handle, np.array([2 ** 24 + 1]))
        self.fails(["stride_src 3", "has 3"], wide.sync_d2d_stride, tensor, 3, 1, 2)
        self.fails(["sync_s2d", "13, expected 0 to 12"], other.sync_s2d, 13)
        with self.assertRaises(IndexError):
            tensor[3]  # pylint: disable=pointless-statement

    def test_tensors_take_names_in_any_order(self):
        handle, values = sail.Handle(0), np.arange(4, dtype=np.float32)
        tensor = sail.Tensor(own_dev_data=False, data=values, handle=handle)
        self.assertEqual((tensor.own_sys_data(), tensor.own_dev_data(), tensor.shape()), (True, False, [4]))
        self.assertEqual(sail.Tensor(handle, data=[5.0, 6.0]).asnumpy().tolist(), [5, 6])  # numbers, no shape
        tensor = sail.Tensor(own_sys_data=True, dtype=sail.BM_INT8, shape=np.array([2, 3]), handle=handle)
        self.assertEqual((tensor.dtype(), tensor.shape()), (sail.BM_INT8, [2, 3]))
        tensor = sail.Tensor(array_data=values)
        self.assertEqual(sail.Tensor(tensor, ranges=[(1, 3)], d2d_flag=True).asnumpy().tolist(), [1, 2])
        part = sail.Tensor(no_copy=False, offset=1, shape=[2], tensor=tensor)
        part.ones()
        self.assertEqual((part.asnumpy().tolist(), tensor.asnumpy().tolist()), ([1, 1], [0, 1, 2, 3]))
        wrong = {"kind": TypeError}
        self.fails(["'own_sys' is no argument", "own_sys_data"], sail.Tensor, handle, values, own_sys=False, **wrong)
        self.fails("'shape' is no argument", sail.Tensor, handle, values, shape=[4], **wrong)
        self.fails("'tensor' is no argument", sail.Tensor, handle=handle, shape=[4], tensor=tensor, **wrong)
        self.fails("'copy' is no argument", sail.Tensor, tensor, [2], copy=True, **wrong)
        self.fails("5 arguments, at most 4", sail.Tensor, handle, values, True, True, True, **wrong)
        self.fails("'handle' is int, a Handle", sail.Tensor, handle=0, shape=[4], **wrong)
        self.fails("shape is missing", sail.Tensor, handle, **wrong)
        self.fails("shape is missing", sail.Tensor, tensor, **wrong)
        self.fails("data or array_data is missing", sail.Tensor, **wrong)
        self.fails("sync_s2d: 2 arguments", sail.Tensor(handle, values).sync_s2d, 4, 4, **wrong)
        self.fails("sync_d2s: 3 arguments", sail.Tensor(handle, values).sync_d2s, 4, 4, 4, **wrong)

    def test_process_takes_names_in_any_order(self):
        engine = sail.Engine(self.bmodel, 0, sail.IOMode.SYSIO)
        inputs, outputs = engine.create_input_tensors_map("digits"), engine.create_output_tensors_map("digits")
        inputs["image"].update_data(self.pictures[6])
        shapes = {"image": [1, 1, 8, 8]}
        for what, named in (((), {"output": outputs, "input": inputs}), ((inputs, shapes), {"output": outputs}),
                            ((inputs, outputs), {"input_shapes": shapes, "core_list": [0]}),
                            ((inputs, [0]), {"output_tensors": outputs}), ((inputs, shapes, outputs, [0]), {})):
            outputs["probabilities"].zeros()
            self.assertIsNone(engine.process("digits", *what, **named))
            self.near(outputs["probabilities"].asnumpy(), 6)
        wrong = {"kind": TypeError}
        self.fails("input_tensors is there twice", engine.process, "digits", inputs, input=inputs, **wrong)
        self.fails("core_list is there twice", engine.process, "digits", inputs, [0], core_list=[0], **wrong)
        self.fails("input_shapes without output", engine.process, "digits", inputs, input_shapes=shapes, **wrong)
        arrays = {"image": self.pictures[6]}
        self.fails("arrays and tensors together", engine.process, "digits", arrays, outputs)
        self.fails("arrays and tensors together", engine.process, "digits", inputs,
                   {"probabilities": np.zeros((1, 10), np.float32)})

    def test_numbers_that_a_tensor_does_not_have(self):
        handle = sail.Handle(0)
        tensor = sail.Tensor(handle, np.arange(6, dtype=np.float32))
        other = sail.Tensor(handle, np.zeros(6, np.float32))
        self.assertEqual((tensor.asnumpy([-1]).shape, tensor.asnumpy([2, -1]).shape), ((6,), (2, 3)))
        tensor.reshape([-1, 2])
        self.assertEqual(tensor.shape(), [3, 2])
        for call, text in ((lambda: tensor.asnumpy([-2]), "asnumpy: shape [-2]"),
                           (lambda: tensor.asnumpy([-1, -1]), "asnumpy: shape [-1, -1]"),
                           (lambda: tensor.asnumpy([4, -1]), "asnumpy: shape [4, -1]"),
                           (lambda: tensor.reshape([-1, 4]), "reshape: shape [-1, 4]"),
                           (lambda: tensor.reshape([-3, -2]), "reshape: shape [-3, -2]"),
                           (lambda: sail.Tensor(handle, [-1, 2], sail.BM_INT8, True, True), "Tensor: shape [-1, 2]"),
                           (lambda: sail.Tensor(tensor, [4], -5), "Tensor: offset -5, expected 0 to 2"),
                           (lambda: sail.Tensor(tensor, [4], 3), "Tensor: offset 3, expected 0 to 2"),
                           (lambda: tensor.sync_d2s(other, 0, -3, 2), "sync_d2s: first element of the destination -3"),
                           (lambda: tensor.sync_s2d(other, -1, 0, 2), "sync_s2d: first element of the source -1"),
                           (lambda: tensor.sync_s2d(other, 0, 0, 7), "sync_s2d: length 7, expected 0 to 6"),
                           (lambda: tensor.sync_d2d(other, 5, 0, 2), "first element of the source 5, expected 0 to 4"),
                           (lambda: tensor.sync_d2d_stride(other, 1, 1, -2), "sync_d2d_stride: count -2"),
                           (lambda: tensor.sync_d2d_stride(other, -1, 1, 2), "sync_d2d_stride: stride_src -1"),
                           (lambda: tensor.sync_s2d(-1), "sync_s2d: bytes -1, expected 0 to 24")):
            self.fails(text, call)
        self.assertEqual(tensor.shape(), [3, 2])
        np.testing.assert_array_equal(tensor.asnumpy().reshape(-1), np.arange(6))
        small = sail.Tensor(handle, [2], sail.BM_INT8, True, True)
        for value in (300, -129, float("nan"), 1.5, "a"):
            self.fails("memory_set: ", small.memory_set, value)
        small.memory_set(-128)
        np.testing.assert_array_equal(small.asnumpy(), [-128, -128])

    def test_bytes_are_copied_to_the_byte(self):
        tensor = sail.Tensor(sail.Handle(0), np.array([0x11111111, 0x22222222], np.int32))
        tensor.pysys_data()[...] = 0
        tensor.sync_d2s(5)
        self.assertEqual(tensor.asnumpy().tobytes(), b"\x11\x11\x11\x11\x22\0\0\0")

    def test_shapes_are_those_of_the_largest_stage(self):
        model = qnpu.compile(support.add_model(("n", 3)), stage=[{"a": (n, 3), "b": (n, 3)} for n in (1, 4)])
        engine = sail.Engine(model.data, len(model.data), 0, sail.IOMode.SYSIO)
        graph = engine.get_graph_names()[0]
        self.assertEqual((engine.get_input_shape(graph, "a"), engine.get_output_shape(graph, "sum")), ([4, 3], [4, 3]))
        ones = np.ones((1, 3), np.uint8)  # becomes float32
        self.assertEqual(engine.process(graph, {"a": ones, "b": ones}, core_list=[0, 1])["sum"].tolist(), [[2, 2, 2]])
        inputs, outputs = engine.create_input_tensors_map(graph), engine.create_output_tensors_map(graph)
        inputs["a"].ones()
        inputs["b"].ones()
        engine.process(graph, output=outputs, input_shapes={"a": [1, 3], "b": [1, 3]}, input=inputs)
        self.assertEqual(outputs["product"].asnumpy().tolist(), [[1, 1, 1]])
        self.fails(["'outputs'", "there are"], engine.process, graph, inputs, outputs=outputs, kind=TypeError)

    def test_what_programs_with_opencv_ask_for(self):
        bmcv = sail.Bmcv(sail.Handle(0))
        self.assertEqual(bmcv.get_bm_image_data_format(sail.BM_INT8), sail.ImgDtype.DATA_TYPE_EXT_1N_BYTE_SIGNED)
        self.fails("no image has", bmcv.get_bm_image_data_format, sail.BM_INT32)
        with self.assertRaisesRegex(AttributeError, "Bmcv.vpp_resize is not there"):
            bmcv.vpp_resize()
        handle, array = sail.Handle(0), np.arange(5, dtype=np.int16)
        np.testing.assert_array_equal(
            sail.base64_decode_asarray(handle, sail.base64_encode_array(handle, array), "int16"), array)

    def test_devices(self):
        self.assertEqual(sail.get_available_tpu_num(), len(qnpu.devices()))
        self.assertEqual(sail.Handle(0).get_target(), "QNPU1")
        total, used, share = sail.get_dev_stat(0)
        self.assertTrue(total >= used >= 0 and 0 <= share <= 100)
        self.assertEqual(sail.get_board_temp(0), sail.get_chip_temp(0))

    def test_utilisation_is_a_share_of_time(self):
        session = qnpu.Session(self.bmodel)
        self.addCleanup(session.close)
        ended, failures = threading.Event(), []

        def work():
            try:
                while not ended.is_set():
                    session.run(self.pictures[0])
            except Exception as error:  # pylint: disable=broad-exception-caught
                failures.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(ended.set)
        cores = session.device.info()["cores"]
        at_once = {100 * busy // cores for busy in range(cores + 1)}  # what a count of busy cores can be
        support.wait_until(lambda: failures or sail.get_tpu_util(0) not in at_once)
        support.wait_until(lambda: failures or sail.get_dev_stat(0)[2] not in at_once)
        self.assertEqual(failures, [])

    def test_several_devices(self):
        engine = sail.MultiEngine(self.bmodel, [0, 0])
        self.assertEqual(engine.get_device_ids(), [0, 0])
        got = engine.process({"image": self.pictures[:7].reshape(7, 1, 8, 8)})["probabilities"]
        self.assertLess(np.abs(got - self.right[:7]).max(), 1e-5)
        tensors = [{"image": sail.Tensor(sail.Handle(0), picture)} for picture in self.pictures[:3]]
        for number, outputs in enumerate(engine.process(tensors)):
            self.near(outputs["probabilities"].asnumpy(), number)

    def test_several_devices_check_their_arguments(self):
        wrong = {"kind": TypeError}
        for ids, text in ((0, "tpu_ids 0"), ("0", "tpu_ids '0'"), (["a"], "tpu_ids 'a'"), ([1.0], "tpu_ids 1.0")):
            self.fails(["MultiEngine", text, "integer"], sail.MultiEngine, self.bmodel, ids, **wrong)
        for model in (None, b"hello"):
            self.fails(f"bmodel_path is {type(model).__name__}", sail.MultiEngine, model, [0], **wrong)
        self.fails("tpu_ids -1", sail.MultiEngine, self.bmodel, [-1])
        self.fails("an empty list", sail.MultiEngine, self.bmodel, [])
        self.fails("sys_out 5", sail.MultiEngine, self.bmodel, [0], 5, **wrong)
        self.fails("graph_idx 'a'", sail.MultiEngine, self.bmodel, [0], True, "a", **wrong)
        self.fails("graph_idx -1", sail.MultiEngine, self.bmodel, [0], True, -1)
        self.fails("graph 1, the model has 1", sail.MultiEngine, self.bmodel, [0], True, 1)
        engine = sail.MultiEngine(self.bmodel, np.array([0]))
        self.close_at_the_end(*engine._engines)
        tensor = sail.Tensor(sail.Handle(0), self.pictures[0])
        for what in (5, None, "image", [5], [{"image": self.pictures[0]}], tensor):
            self.fails("MultiEngine.process: " + type(what).__name__, engine.process, what, **wrong)
        for value in (tensor, 5.0, None):
            self.fails(["input 'image'", "expected an array"], engine.process, {"image": value}, **wrong)
        self.fails(["input 'x'", "there are: 'image'"], engine.process, {"x": self.pictures[0]})
        self.fails("input 'image' is missing", engine.process, {})

    def test_names_that_are_not_there_say_why(self):
        for name, text in (("BMImage", "no image processor"), ("EngineLLM", "an Engine runs their networks")):
            with self.assertRaisesRegex(ImportError, f"sophon.sail.{name} is not there: .*{text}"):
                exec(f"from sophon.sail import {name}", {})
            with self.assertRaisesRegex(AttributeError, f"sophon.sail.{name} is not there: .*{text}"):
                getattr(sail, name)
            self.assertFalse(hasattr(sail, name))
        with self.assertRaisesRegex(ImportError, "no_such"):
            exec("from sophon.sail import Engine, no_such", {})
        self.fails("'x' is not loaded; there are none", sail.Engine(0).get_input_names, "x")

    def test_errors(self):
        engine = sail.Engine(self.bmodel, 0, sail.IOMode.SYSIO)
        self.close_at_the_end(engine)
        self.fails(["graph 'x'", "'digits'"], engine.get_input_names, "x")
        self.fails(["input 'x'", "'image'"], engine.get_input_shape, "digits", "x")
        self.fails("loaded already", engine.load, self.bmodel)
        self.fails("a dict of arrays", engine.process, "digits", 5)
        small = sail.Tensor(engine.get_handle(), [9], sail.Dtype.BM_FLOAT32, True, True)
        self.fails(["output 'probabilities'", "40 bytes, the tensor has 36"], engine.process, "digits",
                   engine.create_input_tensors_map("digits"), {"probabilities": small})
        self.fails("own_dev_data", sail.Tensor(self.pictures[0]).sync_s2d)
        self.fails("12 elements", small.update_data, np.zeros(12, np.float32))
        with self.assertRaisesRegex(AttributeError, "sophon.sail.Decoder is not there"):
            sail.Decoder  # pylint: disable=no-member,pointless-statement


if __name__ == "__main__":
    unittest.main()
