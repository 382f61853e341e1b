# SPDX-License-Identifier: MIT
"""What is wrong is an exception that says what, where, and what was expected; and the next call works."""
import asyncio
import copy
import gc
import os
import pickle
import shutil
import subprocess
import sys
import unittest

import numpy as np
import qnpu
import support


class Errors(support.Test):
    def setUp(self):
        super().setUp()
        self.session = qnpu.Session(support.digits())
        self.addCleanup(self.session.close)
        self.picture = support.pictures()[0][0]

    def tearDown(self):
        if self.session._runtime is not None:
            self.session.run(self.picture)  # whatever went wrong
        super().tearDown()

    def test_is_a_runtime_error(self):
        self.assertTrue(issubclass(qnpu.Error, RuntimeError))
        self.assertTrue(issubclass(qnpu.CompileError, qnpu.Error))
        self.assertEqual(qnpu.Error.__module__, "qnpu")

    def test_names(self):
        self.fails(["input 'picture'", "there are: 'image'"], self.session.run, {"picture": self.picture})
        self.fails("input 'image' is missing", self.session.run, {})
        self.fails(["output 'x'", "'probabilities'"], self.session.run, self.picture,
                   out={"x": np.zeros((1, 10), np.float32)})
        self.fails(["network 'other'", "there are"], self.session.run, self.picture, network="other")
        self.fails(["tensor 'x'", "'image', 'probabilities'"], self.session.tensor, "x")
        self.fails(["input 'x'", "'image'"], self.session.quantize, "x", self.picture)

    def test_numbers_of_inputs(self):
        self.fails("2 inputs, expected 1: 'image'", self.session.run, [self.picture, self.picture])
        self.fails(["inputs: None", "('image')"], self.session.run, None, kind=TypeError)

    def test_types(self):
        self.fails(["input 'image'", "dtype float64, expected float32"], self.session.run,
                   self.picture.astype(np.float64))
        cast = "; x.astype(numpy.float32) makes such an array of x"
        for kind in (np.float64, np.int64, np.int32, np.uint8, np.bool_):
            for numbers in (False, True):
                self.fails(f"input 'image': dtype {kind().dtype.name}, expected float32" + cast, self.session.run,
                           self.picture.astype(kind), numbers=numbers)
        self.ends("dtype complex64, expected float32", self.session.run, self.picture.astype(np.complex64))
        self.fails(["output 'probabilities'", "dtype int32, expected float32"], self.session.run, self.picture,
                   out={"probabilities": np.zeros((1, 10), np.int32)})
        self.fails(["input 'image'", "str is no array"], self.session.run, {"image": "seven"})
        self.fails(["output 'probabilities'", "list, expected an array"], self.session.run, self.picture,
                   out={"probabilities": [0.0] * 10})

    def ends(self, text, call, *arguments, **named):
        with self.assertRaises(qnpu.Error) as caught:
            call(*arguments, **named)
        self.assertTrue(str(caught.exception).endswith(text), str(caught.exception))

    def test_what_to_do_about_a_type_is_what_numpy_can(self):
        place = np.zeros((1, 10), np.float64)
        self.ends("dtype float64, expected float32", self.session.run, self.picture, out={"probabilities": place})
        tensor = qnpu.Tensor(self.session.device, (1, 1, 8, 8), "int32")
        self.ends("dtype int32, expected float32", self.session.run, tensor)
        a = np.ones((2, 3))
        with qnpu.Session(support.add_model(), input_type="bfloat16") as session:
            converts = "; run(..., numbers=True) takes float32 and converts it as the model says"
            for kind in (np.float64, np.float32, np.int64):
                self.ends("expected bfloat16 (its bits as uint16)" + converts, session.run, [a.astype(kind)] * 2)
            session.run([a.astype(np.float32)] * 2, numbers=True)
        with qnpu.Session(self.add_int8()) as session:
            self.ends("expected int8" + converts, session.run, [a.astype(np.float32)] * 2)
            self.ends("expected int8; x.astype(numpy.int8) makes such an array of x", session.run,
                      [a.astype(np.int64)] * 2)
        tensor = qnpu.Tensor(self.session.device, (2, 3), "bfloat16")
        self.ends("expected bfloat16 (its bits as uint16)", tensor.copy_from, a)
        tensor = qnpu.Tensor(self.session.device, (2, 3), "float16")
        self.ends("x.astype(numpy.float16) makes such an array of x", tensor.copy_from, a)

    def test_shapes(self):
        self.fails(["[1,1,8,7]", "expected [1,1,8,8]"], self.session.run, self.picture[..., :7])
        with self.assertRaisesRegex(qnpu.Error, "^network 'digits': no stage has"):  # no function of C's in front
            self.session.run(self.picture[..., :7])
        self.fails(["input 'image'", "at most 8 dimensions"], self.session.run, self.picture.reshape((1,) * 7 + (8, 8)))
        self.fails(["input 'image'", "[0,8]", "from 1 to"], self.session.run, np.zeros((0, 8), np.float32))
        self.fails(["output 'probabilities'", "[10], expected [1,10]"], self.session.run, self.picture,
                   out={"probabilities": np.zeros(10, np.float32)})
        self.fails(["output 'probabilities'", "[10,1], expected [1,10]"], self.session.run, self.picture,
                   out={"probabilities": qnpu.Tensor(self.session.device, (10, 1), "float32")})

    def test_places_that_cannot_be_written(self):
        place = np.zeros((1, 10), np.float32)
        place.flags.writeable = False
        self.fails(["output 'probabilities'", "read-only"], self.session.run, self.picture,
                   out={"probabilities": place})
        self.fails(["output 'probabilities'", "not C-contiguous"], self.session.run, self.picture,
                   out={"probabilities": np.zeros((1, 20), np.float32)[:, ::2]})

    def test_byte_order_of_other_machines(self):
        words = ["dtype >f4", "byte order", "x.astype(numpy.float32) makes such an array of x"]
        tensor = qnpu.Tensor(self.session.device, 10, "float32")
        for call in (tensor.copy_from, tensor.copy_to):
            self.fails(words, call, np.zeros(10, ">f4"))
        self.fails(["output 'probabilities'", *words], self.session.run, self.picture,
                   out={"probabilities": np.zeros((1, 10), ">f4")})
        self.fails("dtype float64, expected float32", tensor.copy_from, np.zeros(10, ">f8"))

    def test_arrays_larger_than_memory(self):
        huge = np.broadcast_to(np.float32(0), (1 << 40,))  # 4 bytes of it exist
        self.fails(["input 'image'", "1099511627776 elements, expected at most 64"], self.session.run, huge)
        self.fails(["tensor", "less than 4 GiB"], qnpu.tensor, huge)

    def test_what_cannot_be_pickled_says_what_to_pass_instead(self):
        tensor = qnpu.Tensor(self.session.device, 1, "float32")
        for thing, words in ((self.session, ["qnpu.Session", "Pass the model"]), (tensor, ["qnpu.Tensor", "numpy()"]),
                             (self.session.device, ["qnpu.Device", "device.index"])):
            for call in (pickle.dumps, copy.copy, copy.deepcopy):
                self.fails([*words, "cannot be pickled or copied"], call, thing, kind=TypeError)
        outputs = self.session.run(self.picture)
        model, copied = pickle.loads(pickle.dumps((support.digits(), outputs)))
        self.assertEqual((model.data, copied.cycles), (support.digits().data, outputs.cycles))
        np.testing.assert_array_equal(copied[0], outputs[0])

    def test_arguments_of_run(self):
        run, feed = self.session.run, {"image": self.picture}
        for words, what, named in (("inputs is missing", (), {}), ("input_feed is missing", (), {"output_names": None}),
                                   ("'x'", (feed,), {"x": 1}), ("4 positional", (None, feed, None, 1), {}),
                                   ("input_feed is given twice", (None, feed), {"input_feed": feed}),
                                   ("run_options: int", (None, feed, 1), {}),
                                   ("output_names: 'probabilities'", ("probabilities", feed), {}),
                                   ("output_names: [1]", ([1], feed), {})):
            self.fails(words, run, *what, kind=TypeError, **named)
        self.fails(["output 'x' does not exist", "'probabilities'"], run, ["x"], feed)
        self.fails("input 'image' is missing", run, None, {})

    def test_cores(self):
        self.fails("core", self.session.run, self.picture, cores=[99])

    def test_devices(self):
        self.fails(["device 7", "only device 0"], qnpu.Session, support.digits(), device=7)
        self.fails("device -1", qnpu.Device, -1)
        self.fails("empty list", qnpu.Session, support.digits(), device=[])

    def test_none_instead_of_an_object(self):
        native = qnpu._native
        capsule = np.zeros(2, np.float32).__dlpack__()
        self.fails("Tensor", qnpu.Tensor, None, (1,), "float32", kind=TypeError)
        self.fails("from_dlpack", native.from_dlpack, capsule, None, kind=TypeError)
        self.fails("devices: None", native.Runtime, [None])
        for call in (qnpu.Tensor.flush, qnpu.Tensor.nbytes.fget, qnpu.Device.index.fget, native.Lanes.stop,
                     native.Runtime.names, native.Completions.take):
            self.fails("None", call, None, kind=TypeError)

    def test_lists_that_the_type_does_not_hold(self):
        with qnpu.Session(self.add_int8()) as session:
            info = session.inputs[0]
            right = [1] * 6
            for wrong in ([300] + right[1:], [1.7] + right[1:], [2**40] * 6, [1e30] * 6, [None] * 6, [2**70] * 6,
                          [float("nan")] * 6, [1j] * 6, ["a"] * 6, [[1], [1, 2]]):
                self.fails([f"input '{info.name}'", "int8"], session.run, {"a": wrong, "b": right})
            self.fails(["300", "from -128 to 127"], session.run, {"a": [300] * 6, "b": right})
            outputs = session.run({"a": [[-128, 1.0, True], [2, 3, 4]], "b": [[0] * 3] * 2})
            np.testing.assert_array_equal(outputs["sum"], [[-128, 1, 1], [2, 3, 4]])
        self.fails(["input 'image'", "float32"], self.session.run, {"image": [[None] * 8] * 8})
        self.fails(["input 'image'", "1e+39"], self.session.run, {"image": [1e39] * 64})
        self.session.run({"image": [0.1] * 64})
        self.fails(["input 'image'", "complex"], self.session.quantize, "image", np.array([1j]))
        self.fails(["output 'probabilities'", "NoneType"], self.session.dequantize, "probabilities", None)

    def add_int8(self):
        return support.add_model(dtype=np.int8)

    def test_types_of_arguments(self):
        def wrong(text, call, *what, kind=TypeError, **named):
            with self.assertRaises(kind) as caught:
                call(*what, **named)
            self.assertIn(text, str(caught.exception))
            self.assertLess(len(str(caught.exception)), 200)

        for named, text, kind in ((dict(cores="a"), "cores: 'a'", TypeError), (dict(cores=1), "cores: 1", TypeError),
                                  (dict(cores=[1 << 40]), "cores: 1099511627776", qnpu.Error),
                                  (dict(numbers="no"), "numbers: 'no'", TypeError),
                                  (dict(on_device=2), "on_device: 2", TypeError),
                                  (dict(network=[]), "network: list", TypeError),
                                  (dict(out=[np.zeros((1, 10), np.float32)]), "out: list", TypeError)):
            wrong(text, self.session.run, self.picture, kind=kind, **named)
            wrong(text, lambda named=named: asyncio.run(self.session.run_async(self.picture, **named)), kind=kind)
        model, device = support.digits(), self.session.device
        wrong("device: str", qnpu.Session, model, device="0")
        wrong("device: NoneType", qnpu.Session, model, device=None)
        wrong("max_launches: 'a'", qnpu.Session, model, max_launches="a")
        wrong("max_launches: 0", qnpu.Session, model, max_launches=0, kind=qnpu.Error)
        wrong("device 1099511627776", qnpu.Device, 1 << 40, kind=qnpu.Error)
        wrong("index: str", qnpu.Device, "0")
        with qnpu.Session(model, device=np.int64(0)) as session:
            session.run(self.picture)
        tensor = qnpu.Tensor(device, (4,), "float32")
        wrong("view: first: -1", tensor.view, (4,), -1, kind=qnpu.Error)
        wrong("view: shape: float", tensor.view, 4.0)
        wrong("Tensor: shape: float", qnpu.Tensor, device, (1.5,), "float32")
        wrong("Tensor: dtype: NoneType", qnpu.Tensor, device, (1,), None)
        wrong("Tensor: dtype: int", qnpu.Tensor, device, (1,), 5)
        wrong("dtype float64: tensors may have float32", qnpu.Tensor, device, (1,), float, kind=qnpu.Error)
        wrong("dtype no such: tensors may have float32", qnpu.Tensor, device, (1,), "no such", kind=qnpu.Error)
        wrong("Tensor: dtype: >f4 has the byte order", qnpu.Tensor, device, (1,), ">f4", kind=qnpu.Error)
        wrong("copy_from: list", tensor.copy_from, [1.0] * 4)
        wrong("copy_to: list", tensor.copy_to, [1.0] * 4)
        wrong("tensor: set is no array", qnpu.tensor, {1, 2}, device, kind=qnpu.Error)
        wrong("from_dlpack: list", qnpu.from_dlpack, [1], device)
        read_only = np.ones(4, np.float32)
        read_only.flags.writeable = False
        wrong("from_dlpack: ndarray", qnpu.from_dlpack, read_only, device, kind=qnpu.Error)
        np.testing.assert_array_equal(qnpu.tensor(read_only, device).numpy(), read_only)

    def test_outputs_that_share_memory(self):
        with qnpu.Session(support.add_model()) as session:
            a = np.ones((2, 3), np.float32)
            both = np.zeros((3, 3), np.float32)
            for one, other in ((a, a), (both[:2], both[1:])):
                self.fails(["output 'product'", "output 'sum'"], session.run, [a, a],
                           out={"sum": one, "product": other})
            tensor = qnpu.Tensor(session.device, (3, 3), "float32")
            for one, other in ((tensor.view((2, 3)),) * 2, (tensor.view((2, 3)), tensor.view((2, 3), 3))):
                self.fails("shares memory", session.run, [a, a], out={"sum": one, "product": other})
            both = np.zeros((2, 2, 3), np.float32)
            session.run([a, a], out={"sum": both[0], "product": both[1]})
            np.testing.assert_array_equal(both, [a + a, a * a])

    def test_names_that_are_not_utf_8(self):
        data = support.digits().data
        for name in (b"image", b"probabilities", b"digits"):
            self.assertIn(name, data)
            data = data.replace(name, b"\xff" + name[1:])
        with qnpu.Session(data) as session:
            self.assertEqual(session.networks, ("\\xffigits",))
            outputs = session.run({"\\xffmage": self.picture}, network="\\xffigits")
            self.assertEqual(list(outputs), ["\\xffrobabilities"])
            self.fails("network '\\xffigits' input '\\xffmage': dtype float64", session.run,
                       self.picture.astype(np.float64))
            session.dequantize("\\xffrobabilities", outputs["\\xffrobabilities"])

    def test_traces(self):
        self.session.close()
        def begin(path):
            with qnpu.trace(path):
                pass

        self.fails(["/no/such/t.json", "No such file"], begin, "/no/such/t.json")
        self.fails("directory", begin, self.folder)
        self.fails("NUL", begin, "a\0b")
        self.fails("trace: path: int", begin, 5, kind=TypeError)
        with qnpu.trace(self.path("t.json")):
            self.fails("another trace", begin, self.path("u.json"))
            with qnpu.Session(support.digits()) as session:
                session.run(self.picture)
        self.assertGreater(os.path.getsize(self.path("t.json")), 0)

    def test_closed_sessions_hold_no_queue(self):
        closed = []
        for _ in range(70):
            session = qnpu.Session(support.digits())
            session.run(self.picture)
            session.close()
            closed.append(session)
        self.assertEqual([session.profile()["launches"] for session in closed], [1] * 70)
        self.assertEqual(closed[0].device.index, 0)

    def test_files(self):
        self.fails(["no-such.bmodel", "No such file"], qnpu.Session, self.path("no-such.bmodel"))
        with open(self.path("bad.bmodel"), "wb") as file:
            file.write(support.digits().data[:1000])
        self.fails("bad.bmodel", qnpu.Session, self.path("bad.bmodel"))
        self.fails("bmodel", qnpu.Session, support.digits().data[:1000])
        self.fails("int is no model", qnpu.Session, 5, kind=TypeError)
        self.fails(["None is no model", "a .bmodel"], qnpu.Session, None, kind=TypeError)
        self.fails("is compiled already", qnpu.Session, support.digits(), cores=2)

    def test_jobs_that_fail_on_the_card(self):
        data = bytearray(support.digits().data)
        program = data.index(b"QPRG")  # docs/reference/runtime.md, section 7.1
        first = program + int.from_bytes(data[program + 92:program + 96], "little")
        data[first:first + 4] = b"\xff" * 4  # no such command
        with qnpu.Session(bytes(data)) as session:
            text = ["network 'digits'", "the job failed", "command 0"]
            self.fails(text, session.run, self.picture)
            self.fails(text, lambda: asyncio.run(session.run_async(self.picture)))
            place = qnpu.Tensor(session.device, (1, 10), "float32")
            self.fails(text, session.run, self.picture, out={"probabilities": place})
            free = session.device.memory()["free"]
            for _ in range(20):
                self.fails(text, session.run, self.picture)
            support.wait_until(lambda: session.device.memory()["free"] >= free)  # the driver frees behind a job
            self.session.run(self.picture)

    def test_closed(self):
        self.session.close()
        self.session.close()
        self.fails("the session is closed", self.session.run, self.picture)
        self.fails("the session is closed", lambda: self.session.in_flight)

    def test_memory_that_the_card_does_not_have(self):
        device = self.session.device
        self.fails("free", qnpu.Tensor, device, (1 << 30,), "uint8")
        self.fails("less than 4 GiB", qnpu.Tensor, device, (1 << 30, 8), "float32")
        self.fails("dtype float64", qnpu.Tensor, device, (1,), "float64")
        self.fails("[2,0]", qnpu.Tensor, device, (2, 0), "float32")

    def test_nothing_is_printed(self):
        code = ("import qnpu, sys\n"
                "try: qnpu.Session(sys.argv[1])\n"
                "except qnpu.Error as error: print(error)\n")
        with open(self.path("bad.bmodel"), "wb") as file:
            file.write(support.digits().data[:1000])
        done = subprocess.run([sys.executable, "-c", code, self.path("bad.bmodel")], capture_output=True, text=True,
                              check=True)
        self.assertIn("bad.bmodel", done.stdout)
        self.assertEqual(done.stderr, "")

    def test_trace_beside_a_session(self):
        with self.assertRaises(qnpu.Error):
            with qnpu.trace(self.path("t.json")):
                pass

    def test_trace_whose_place_is_taken_meanwhile(self):
        self.session.close()
        def taken():
            with qnpu.trace(self.path("t.json")):
                qnpu.Session(support.digits()).close()
                os.mkdir(self.path("t.json"))

        self.fails(["t.json", "directory", "is in " + self.folder], taken)
        with qnpu.trace(self.path("u.json")):
            qnpu.Session(support.digits()).close()
        self.assertGreater(os.path.getsize(self.path("u.json")), 0)

    def test_trace_after_a_session_that_nobody_holds(self):
        self.session.close()
        gc.disable()
        self.addCleanup(gc.enable)
        cycle = [qnpu.Session(support.digits())]
        cycle.append(cycle)
        del cycle
        with qnpu.trace(self.path("t.json")):
            qnpu.Session(support.digits()).close()

class Import(support.Test):
    def text(self):
        """The error of an import of the package in the test's folder."""
        done = subprocess.run([sys.executable, "-c", "import qnpu"], capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTHONPATH": self.folder})
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stderr.splitlines()[-1].startswith("ImportError: qnpu: "), done.stderr)
        return done.stderr.splitlines()[-1]

    def test_says_what_to_build(self):
        done = subprocess.run([sys.executable, "-c", "import qnpu"], capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTHONPATH": os.path.join(support.TOP, "python")})
        for words in ("qnpu._native is not built", f"`make programs` in {support.TOP}", "PYTHONPATH="):
            self.assertIn(words, done.stderr.splitlines()[-1])
        shutil.copytree(os.path.join(support.TOP, "python", "qnpu"), self.path("qnpu"))
        self.assertIn("install the package again", self.text())
        name = "_native.cpython-399-x86_64-linux-gnu.so"
        with open(self.path("qnpu/" + name), "wb"):
            pass
        self.assertIn(f"{name} is for another Python than this one, {sys.executable}", self.text())
        with open(self.path("qnpu/_native.so"), "wb"):
            pass
        self.assertIn("cannot be loaded: ", self.text())


if __name__ == "__main__":
    unittest.main()
