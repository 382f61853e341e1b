# SPDX-License-Identifier: MIT
"""What is wrong is an exception that says what, where, and what was expected; and the next call works."""
import asyncio
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

    def test_types(self):
        self.fails(["input 'image'", "dtype float64, expected float32"], self.session.run,
                   self.picture.astype(np.float64))
        self.fails(["input 'image'", "dtype int64"], self.session.run, self.picture.astype(np.int64))
        self.fails(["input 'image'", "dtype int32, expected float32"], self.session.run,
                   self.picture.astype(np.int32))
        self.fails(["output 'probabilities'", "dtype int32, expected float32"], self.session.run, self.picture,
                   out={"probabilities": np.zeros((1, 10), np.int32)})
        self.fails(["input 'image'", "str is no array"], self.session.run, {"image": "seven"})
        self.fails(["output 'probabilities'", "list, expected an array"], self.session.run, self.picture,
                   out={"probabilities": [0.0] * 10})

    def test_shapes(self):
        self.fails(["[1,1,8,7]", "expected [1,1,8,8]"], self.session.run, self.picture[..., :7])
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

    def test_files(self):
        self.fails(["no-such.bmodel", "No such file"], qnpu.Session, self.path("no-such.bmodel"))
        with open(self.path("bad.bmodel"), "wb") as file:
            file.write(support.digits().data[:1000])
        self.fails("bad.bmodel", qnpu.Session, self.path("bad.bmodel"))
        self.fails("bmodel", qnpu.Session, support.digits().data[:1000])
        self.fails("int is no model", qnpu.Session, 5)
        self.fails("is compiled already", qnpu.Session, support.digits(), cores=2)

    def test_jobs_that_fail_on_the_card(self):
        data = bytearray(support.digits().data)
        program = data.index(b"QPRG")  # docs/runtime.md, section 7.1
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


if __name__ == "__main__":
    unittest.main()
