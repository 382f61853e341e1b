# SPDX-License-Identifier: MIT
"""Sessions: what networks compute, in the forms in which programs have their data."""
import array
import json
import os
import unittest

import numpy as np
import qnpu
import support


class Digits(support.Test):
    def setUp(self):
        super().setUp()
        self.session = qnpu.Session(support.digits())
        self.addCleanup(self.session.close)

    def test_all_pictures_are_what_exact_arithmetic_says(self):
        pictures, right = support.pictures()
        got = np.concatenate([self.session.run({"image": picture})["probabilities"] for picture in pictures])
        self.assertEqual(got.dtype, np.float32)
        self.assertLess(np.abs(got - right).max(), 1e-5)

    def test_describes_its_network(self):
        info = self.session.network()
        self.assertEqual(self.session.networks, (info.name,))
        self.assertEqual([(t.name, t.dtype, t.shape, t.scale, t.zero_point) for t in info.inputs],
                         [("image", "float32", (1, 1, 8, 8), 1.0, 0)])
        self.assertEqual([(t.name, t.dtype, t.shape) for t in info.outputs], [("probabilities", "float32", (1, 10))])
        self.assertEqual((info.stages, info.dynamic, info.cores), (1, False, 1))

    def test_runs_in_the_style_of_onnx_runtime(self):
        feed = {"image": support.pictures()[0][0]}
        right = self.session.run(feed)["probabilities"]
        for outputs in (self.session.run(None, feed), self.session.run([], feed),
                        self.session.run(["probabilities"], feed), self.session.run(output_names=None, input_feed=feed),
                        self.session.run(("probabilities",), input_feed=feed), self.session.run(None, feed, None),
                        self.session.run(None, feed, network="digits", numbers=True)):
            self.assertIs(type(outputs), list)
            np.testing.assert_array_equal(outputs, [right])
        with qnpu.Session(support.add_model(dtype=np.int8)) as session:
            one = np.ones((2, 3), np.int8)
            product, total = session.run(["product", "sum"], {"a": one, "b": 3 * one})
            self.assertEqual((product[0, 0], total[0, 0]), (3, 4))
            self.assertEqual([(a.name, a.shape, a.type) for a in session.get_outputs()],
                             [("sum", [2, 3], "tensor(int8)"), ("product", [2, 3], "tensor(int8)")])
        self.assertEqual(self.session.get_inputs(), [("image", [1, 1, 8, 8], "tensor(float)")])

    def test_modelled_cycles_are_those_that_the_compiler_predicts(self):
        outputs = self.session.run(support.pictures()[0][0])
        self.assertEqual(outputs.cycles, support.digits().cycles)
        self.assertGreater(outputs.cycles, 1000)

    def test_takes_inputs_in_many_forms(self):
        picture = support.pictures()[0][0]
        right = self.session.run({"image": picture})["probabilities"]
        wide = np.zeros((1, 1, 8, 16), np.float32)
        wide[..., ::2] = picture
        raw = array.array("f", picture.reshape(-1).tolist())
        for form in ([picture], (picture,), picture, {"image": picture.tolist()}, wide[..., ::2],
                     np.asfortranarray(picture), picture.astype(">f4"), memoryview(raw), picture.reshape(64),
                     qnpu.tensor(picture)):
            np.testing.assert_array_equal(self.session.run(form)["probabilities"], right)

    def test_inputs_stay_as_they_are(self):
        picture = support.pictures()[0][0].copy()
        picture.flags.writeable = False
        before = picture.copy()
        self.session.run(picture)
        np.testing.assert_array_equal(picture, before)

    def test_outputs_go_where_the_caller_wants_them(self):
        picture = support.pictures()[0][3]
        right = self.session.run(picture)["probabilities"]
        place = np.zeros((1, 10), np.float32)
        self.assertIs(self.session.run(picture, out={"probabilities": place})["probabilities"], place)
        np.testing.assert_array_equal(place, right)
        tensor = self.session.tensor("probabilities")
        self.assertIs(self.session.run(picture, out={"probabilities": tensor})["probabilities"], tensor)
        np.testing.assert_array_equal(tensor.numpy(), right)
        kept = self.session.run(picture, on_device=True)["probabilities"]
        self.assertIsInstance(kept, qnpu.Tensor)
        np.testing.assert_array_equal(kept.numpy(), right)

    def test_outputs_outlive_the_session(self):
        with qnpu.Session(support.digits()) as session:
            array_, tensor = (session.run(support.pictures()[0][0], on_device=on)["probabilities"] for on in (0, 1))
        np.testing.assert_array_equal(tensor.numpy(), array_)

    def test_loads_from_files_and_from_memory(self):
        bmodel, onnx = self.path("d.bmodel"), support.digits_model()
        support.digits().save(bmodel)
        with open(onnx, "rb") as file:
            onnx_bytes = file.read()
        right = self.session.run(support.pictures()[0][0])["probabilities"]
        for model in (bmodel, support.digits().data, bytearray(support.digits().data), onnx, onnx_bytes):
            with qnpu.Session(model) as session:
                np.testing.assert_array_equal(session.run(support.pictures()[0][0])["probabilities"], right)

    def test_loads_from_views_that_have_steps(self):
        picture = support.pictures()[0][0]
        right = self.session.run(picture)["probabilities"]
        data = np.frombuffer(support.digits().data, np.uint8)
        with open(support.digits_model(), "rb") as file:
            onnx = np.frombuffer(file.read(), np.uint8)
        views = [memoryview(data[::-1].copy())[::-1], memoryview(np.repeat(data, 3))[::3],
                 memoryview(np.repeat(onnx, 2))[::2], memoryview(data.reshape(-1, 1))]
        for view in views:
            with qnpu.Session(view) as session:
                np.testing.assert_array_equal(session.run(picture)["probabilities"], right)
        runtime = qnpu._native.Runtime([self.session.device])
        for view in views[:2]:
            self.fails("model: the buffer is not C-contiguous", runtime.load_data, view)
        runtime.load_data(support.digits().data)

    def test_tells_device_memory_and_profile(self):
        device = self.session.device
        info, memory, status = device.info(), device.memory(), device.status()
        self.assertEqual((info["transport"], info["index"]), (os.environ["NPU_DEVICE"], 0))
        self.assertGreaterEqual(info["cores"], 1)
        self.assertEqual(qnpu.devices()[0], info)
        self.assertEqual(len(status["jobs"]), info["cores"])
        held = qnpu.Tensor(device, (1 << 20,), "uint8")
        self.assertEqual(memory["free"] - device.memory()["free"], held.nbytes)
        before = self.session.profile()
        self.session.run(support.pictures()[0][0])
        after = self.session.profile()
        self.assertEqual([after[key] - before[key] for key in ("launches", "completed", "to_device", "from_device")],
                         [1, 1, 1, 1])
        del held

    def test_a_device_s_text_says_what_it_is(self):
        info = self.session.device.info()
        kind = {"sim": "simulator", "drm": "card"}[info["transport"]]
        self.assertEqual(repr(self.session.device), f"<qnpu.Device 0: QNPU1, {kind}, {info['cores']} cores, "
                                                    f"{info['memory_bytes'] >> 20} MiB>")

    def test_tells_utilisation_between_two_looks(self):
        device = qnpu.Device(0)
        first = device.stat()
        self.assertEqual(first["memory_mib"], device.memory()["total"] >> 20)
        self.assertTrue(0 <= first["memory_used_mib"] <= first["memory_mib"] and 0 <= first["utilisation"] <= 100)

        def launched():
            device.stat()
            for _ in range(20):
                self.session.run(support.pictures()[0][0])
            return device.stat()["utilisation"] > 0  # though no core has a job any more

        support.wait_until(launched)

    def test_memory_comes_back(self):
        for _ in range(3):
            self.session.run(support.pictures()[0][0], on_device=True)
        free = self.session.device.memory()["free"]
        for _ in range(50):
            self.session.run(support.pictures()[0][0], on_device=True)
        support.wait_until(lambda: self.session.device.memory()["free"] >= free)  # the driver frees behind a job

    def test_writes_a_trace(self):
        self.session.close()
        path = self.path("trace.json")
        with qnpu.trace(path):
            with qnpu.Session(support.digits()) as session:
                session.run(support.pictures()[0][0])
        with open(path, encoding="utf-8") as file:
            self.assertIn("bmrt_launch_tensor_multi_cores", file.read())
        self.assertNotIn("BMRUNTIME_ENABLE_PROFILE", os.environ)


    def test_every_trace_of_a_process_has_its_name(self):
        self.session.close()
        for name in ("a.json", "b.json", "a.json"):
            with qnpu.trace(self.path(name)):
                kept = qnpu.Session(support.digits())
                kept.run(support.pictures()[0][0])
            kept.close()  # writes the end
            with open(self.path(name), encoding="utf-8") as file:
                self.assertGreater(len(json.load(file)), 3)
        with qnpu.trace(self.path("c.json")):
            for _ in range(2):
                qnpu.Session(support.digits()).close()
        with qnpu.trace(self.path("d.json")):
            pass
        self.assertEqual(sorted(os.listdir(self.folder)), ["a.json", "b.json", "c.json", "c.json.1"])


class OtherNetworks(support.Test):
    def test_two_inputs_and_outputs_keep_their_names(self):
        model = support.add_model()
        a, b = (np.random.default_rng(seed).random((2, 3), np.float32) for seed in (1, 2))
        right = support.evaluate(model, {"a": a, "b": b})
        with qnpu.Session(model) as session:
            outputs = session.run({"b": b, "a": a})
            self.assertEqual(list(outputs), ["sum", "product"])
            for place, name in ((0, "sum"), (1, "product"), (np.int64(-1), "product"), (-2, "sum")):
                self.assertIs(outputs[place], outputs[name])
            self.fails(["output 2", "'sum', 'product'"], lambda: outputs[2], kind=IndexError)
            self.fails(["output 'x'", "'sum', 'product'"], lambda: outputs["x"], kind=KeyError)
            for name in outputs:
                np.testing.assert_allclose(outputs[name], right[name], rtol=1e-6)
            place = session.tensor("product")
            mixed = session.run({"a": qnpu.tensor(a, session.device), "b": b}, out={"product": place})
            np.testing.assert_array_equal(mixed["sum"], outputs["sum"])
            np.testing.assert_array_equal(place.numpy(), outputs["product"])

    def test_stages_are_chosen_by_shapes(self):
        model = support.add_model(("n", 3))
        stages = [{"a": (n, 3), "b": (n, 3)} for n in (1, 4)]
        with qnpu.Session(model, stage=stages) as session:
            self.assertEqual(session.network().stages, 2)
            self.assertEqual(session.inputs[0].shapes, ((1, 3), (4, 3)))
            for n in (1, 4):
                ones = np.ones((n, 3), np.float32)
                np.testing.assert_array_equal(session.run([ones, ones])["sum"], 2 * ones)

    def test_dynamic_shapes(self):
        model = support.add_model(("n", 3))
        with qnpu.Session(model, shape={"a": (8, 3), "b": (8, 3)}, dynamic=True) as session:
            self.assertTrue(session.network().dynamic)
            for n in (1, 5, 8):
                ones = np.ones((n, 3), np.float32)
                np.testing.assert_array_equal(session.run([ones, ones])["sum"], 2 * ones)

    def test_sixteen_bits_and_integers(self):
        for kind, there, back in (("float16", np.float16, np.float16), ("bfloat16", np.uint16, np.uint16)):
            with qnpu.Session(support.add_model(), input_type=kind, output_type=kind) as session:
                self.assertEqual([t.dtype for t in (*session.inputs, *session.outputs)], [kind] * 4)
                a = np.asarray([[1, 2, 3], [0.5, -4, 8]], np.float32)
                elements = session.quantize("a", a)
                self.assertEqual(elements.dtype, there)
                outputs = session.run([elements, elements])
                self.assertEqual(outputs["sum"].dtype, back)
                np.testing.assert_array_equal(session.dequantize("sum", outputs["sum"]), 2 * a)
                np.testing.assert_array_equal(session.run([a, a], numbers=True)["product"], a * a)

    def test_bytes_are_an_array_of_uint8(self):
        values = np.arange(6, dtype=np.uint8).reshape(2, 3)
        raw = values.tobytes()
        with qnpu.Session(support.add_model(dtype=np.uint8)) as session:
            right = session.run([values, values])
            for form in (raw, bytearray(raw), memoryview(raw)):
                got = session.run([form, form])
                for name in right:
                    np.testing.assert_array_equal(got[name], right[name])
        np.testing.assert_array_equal(qnpu.tensor(raw).numpy(), values.reshape(-1))
        with qnpu.Session(support.digits()) as session:
            self.fails(["input 'image'", "dtype uint8, expected float32"], session.run, bytes(64))

    def test_quantized_numbers(self):
        samples = [picture for picture in support.pictures()[0][:40]]
        with qnpu.Session(support.digits_model(), quantize="int8", calibrate=samples, input_type="uint8",
                          output_type="uint8") as session:
            self.assertEqual((session.inputs[0].dtype, session.outputs[0].dtype), ("uint8", "uint8"))
            self.assertNotEqual(session.inputs[0].scale, 1)
            pictures, right = support.pictures()
            got = [session.run(p, numbers=True)["probabilities"].argmax() for p in pictures[:100]]
            self.assertGreaterEqual(np.mean(np.asarray(got) == right[:100].argmax(1)), 0.97)
            q = session.quantize("image", pictures[0])
            scale, zero = session.inputs[0].scale, session.inputs[0].zero_point
            np.testing.assert_allclose(q, np.clip(np.rint(pictures[0] * scale) + zero, 0, 255), atol=1)
            raw = session.run(q)["probabilities"]
            np.testing.assert_allclose(session.dequantize("probabilities", raw),
                                       session.run(pictures[0], numbers=True)["probabilities"])


if __name__ == "__main__":
    unittest.main()
