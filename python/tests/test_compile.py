# SPDX-License-Identifier: MIT
"""Compiling: options, what is kept where, and the compiler's reasons."""
import os
import stat
import subprocess
import sys
import unittest

import numpy as np
import qnpu
from qnpu import compiler
import support


class Compile(support.Test):
    def test_gives_bytes_report_and_cycles(self):
        model = qnpu.compile(support.digits_model())
        self.assertTrue(compiler.is_bmodel(model.data))
        self.assertGreater(model.cycles, 1000)
        self.assertIn("cycles", model.report)
        self.assertEqual(model.data, support.digits().data)

    def test_keeps_nothing_that_was_not_asked_for(self):
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        os.environ["TMPDIR"] = self.folder
        self.addCleanup(os.environ.pop, "TMPDIR")
        compiler.tempfile.tempdir = None
        self.addCleanup(setattr, compiler.tempfile, "tempdir", None)
        model = qnpu.compile(support.digits_model(), "kept.bmodel")
        self.assertEqual(os.listdir(self.folder), ["kept.bmodel"])
        with open("kept.bmodel", "rb") as file:
            self.assertEqual(file.read(), model.data)

    def test_takes_what_has_an_onnx_file_s_bytes(self):
        class Proto:  # pylint: disable=too-few-public-methods
            """As onnx.ModelProto."""

            def SerializeToString(self):  # pylint: disable=invalid-name,missing-function-docstring
                return support.add_model()

        self.assertEqual(qnpu.compile(Proto()).data, qnpu.compile(support.add_model()).data)

    def test_options_reach_the_compiler(self):
        with qnpu.Session(support.add_model(), name="other", io_alone=True, cores=None, dynamic=False) as session:
            self.assertEqual(session.networks, ("other",))
        constant = np.asarray([[1, 2, 3], [4, 5, 6]], np.float32)
        with qnpu.Session(support.add_model(), input={"b": constant}) as session:
            self.assertEqual([t.name for t in session.inputs], ["a"])
            np.testing.assert_array_equal(session.run(constant)["product"], constant * constant)
        self.assertEqual(compiler.arguments(
            {"shape": {"x": (1, 3), "y": [4]}, "stage": [{"x": (1,)}, "x=2"], "input_type": {"x": "uint8"},
             "keep_float": ["a", "b"], "preprocess": {"resize": 8, "mean": (1, 2.5)}, "dynamic": True, "quiet": False},
            self.folder),
            ["--shape=x=1,3", "--shape=y=4", "--stage=x=1", "--stage=x=2", "--input-type=x=uint8", "--keep-float=a",
             "--keep-float=b", "--preprocess=resize=8,mean=1,2.5", "--dynamic"])

    def test_types_may_be_numpys(self):
        for kind in (np.float16, np.dtype("float16"), "float16"):
            self.assertEqual(compiler.arguments({"reals": kind, "input_type": {"x": kind}}, self.folder),
                             ["--reals=fp16", "--input-type=x=float16"])
        self.assertEqual(compiler.arguments(
            {"quantize": np.int8, "input_type": np.uint8, "output_type": {"x": np.dtype("float32"), "y": "bfloat16"},
             "reals": "bfloat16"}, self.folder),
            ["--quantize=int8", "--input-type=uint8", "--output-type=x=float32", "--output-type=y=bfloat16",
             "--reals=bf16"])
        with qnpu.Session(support.digits_model(), input_type=np.float16) as session:
            self.assertEqual(session.inputs[0].dtype, "float16")

    def test_arrays_in_another_byte_order_are_what_they_stand_for(self):
        constant = np.arange(6, dtype=">f4").reshape(2, 3)
        data = [qnpu.compile(support.add_model(), input={"b": b}).data
                for b in (constant, constant.astype("<f4"), np.asfortranarray(constant))]
        self.assertEqual(data[0], data[1])
        self.assertEqual(data[0], data[2])
        self.fails(["input 'b'", "dtype object, expected numbers"], qnpu.compile, support.add_model(),
                   input={"b": np.array([None])}, kind=qnpu.CompileError)
        for sample in ([None], ["a"], [[1], [1, 2]]):
            self.fails("calibrate: sample 0: ", qnpu.compile, support.digits_model(), quantize="int8",
                       calibrate=[sample], kind=qnpu.CompileError)

    def test_samples_that_no_disk_can_hold(self):
        for shape in ((2**20, 2**20), (2**40,)):
            self.fails(f"calibrate: shape {list(shape)}: {shape[0]} samples, 4398046511104 bytes", qnpu.compile,
                       support.digits_model(), quantize="int8", calibrate=np.broadcast_to(np.float32(0), shape),
                       kind=qnpu.CompileError)

    def test_sample_names_that_no_file_can_hold(self):
        sample = np.zeros((1, 1, 28, 28), np.float32)
        for name in ("\udcff", "a\0b", "", 5, "n" * 70000):
            self.fails("calibrate: ", qnpu.compile, support.digits_model(), quantize="int8",
                       calibrate=[{name: sample}], kind=qnpu.CompileError)

    def test_inputs_with_the_names_of_numpys_parameters_are_samples(self):
        path = self.path("names.npz")
        arrays = {name: np.full((2, 3), number, np.float32)
                  for number, name in enumerate(("file", "args", "kwds", "allow_pickle"))}
        compiler._save_arrays(path, arrays)  # pylint: disable=protected-access
        with np.load(path) as found:
            self.assertEqual(sorted(found), sorted(arrays))
            for name, array in arrays.items():
                np.testing.assert_array_equal(found[name], array)

    def test_samples_in_every_form_give_the_same(self):
        pictures = support.pictures()[0][:8]
        os.mkdir(self.path("samples"))
        for number, picture in enumerate(pictures):
            np.save(self.path(f"samples/{number:06}.npy"), picture)
        models = [qnpu.compile(support.digits_model(), quantize="int8", calibrate=samples).data
                  for samples in (self.path("samples"), list(pictures), ({"image": p} for p in pictures))]
        self.assertEqual(models[0], models[1])
        self.assertEqual(models[0], models[2])

    def test_errors_are_the_compiler_s(self):
        error = qnpu.CompileError
        for value in 3, ["CPUExecutionProvider"], True:
            self.fails("no_such_option: unknown option", qnpu.compile, support.digits_model(),
                       no_such_option=value, kind=error)
        with self.assertRaises(error) as caught:
            qnpu.compile(support.digits_model(), shape="image=")
        self.assertNotIn("--help", str(caught.exception))
        self.fails(["input_typ: unknown option; is --input-type meant?", "\nIn Python: input_type="], qnpu.compile,
                   support.digits_model(), input_typ="uint8", kind=error)
        self.fails("no-such.onnx", qnpu.compile, self.path("no-such.onnx"), kind=error)
        self.fails("--reals", qnpu.compile, support.digits_model(), reals="fp7", kind=error)
        self.fails("the model: ", qnpu.compile, b"this is no network", kind=error)

    def test_arguments_of_another_kind(self):
        for shape in 5, (5,), [1, 2]:
            self.fails(["shape", "a dict of names"], qnpu.compile, support.digits_model(), shape=shape, kind=TypeError)
        for call in qnpu.compile, qnpu.Session:
            self.fails("list is no model", call, [1], kind=TypeError)
            self.fails("int is no model", call, 3, kind=TypeError)
            self.fails("None is no model: a path", call, None, kind=TypeError)

    def test_errors_name_the_keyword_arguments(self):
        error = qnpu.CompileError
        self.fails(['\nIn Python: shape={"x": (1, 3, 224, 224)}'], qnpu.compile, support.add_model(("n", "m")),
                   kind=error)
        with self.assertWarnsRegex(UserWarning, "open batch: compiled for 1, shape 1,3.*\nIn Python: shape="):
            qnpu.compile(support.add_model(("n", 3)))
        self.fails(["--reals", '\nIn Python: reals="fp16"'], qnpu.compile, support.digits_model(), reals="fp7",
                   kind=error)
        self.assertEqual(compiler._reason("npuc: error: f --explain", "/f", {}), "f --explain")

    def test_errors_are_reasons_without_progress(self):
        os.environ["QNPU_NPUC"] = self.path("npuc")
        self.addCleanup(os.environ.pop, "QNPU_NPUC")
        said = "".join(f"npuc: calibration {n} of 60\n" for n in range(60)) + \
            "npuc:    2 s, 400 schedules tried, cycles 5120 -> 4711\nnpuc: node 'a': 3 of 4\nof its inputs\n"
        with open(self.path("npuc"), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\ncat >&2 <<'END'\n{said}END\nexit 1\n")
        os.chmod(self.path("npuc"), stat.S_IRWXU)
        self.assertEqual(self.reason(), "node 'a': 3 of 4\nof its inputs")
        del os.environ["QNPU_NPUC"]
        samples = list(support.pictures()[0][:20]) + [np.zeros((3, 5), np.float32)]
        with self.assertRaises(qnpu.CompileError) as caught:
            qnpu.compile(support.digits_model(), quantize="int8", calibrate=samples)
        self.assertNotIn(" of 21", str(caught.exception))
        os.environ["QNPU_NPUC"] = self.path("npuc")

    def test_warnings_of_both_streams(self):
        os.environ["QNPU_NPUC"] = self.path("npuc")
        self.addCleanup(os.environ.pop, "QNPU_NPUC")
        with open(self.path("npuc"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\ntouch \"$2\"\n"
                       "echo \"npuc: warning: input 'x' has an open batch\" >&2\n"
                       "echo \"warning        tensor 't' has one scale; --keep-float 'n' helps\"\n")
        os.chmod(self.path("npuc"), stat.S_IRWXU)
        with self.assertWarns(UserWarning) as caught:
            qnpu.compile(support.digits_model())
        self.assertEqual([str(w.message) for w in caught.warnings],
                         ["input 'x' has an open batch", "tensor 't' has one scale; --keep-float 'n' helps\n"
                                                         'In Python: keep_float=["node", ...]'])

    def test_arguments_that_no_program_takes(self):
        for model, named in (("a\0b", {}), (support.digits_model(), {"name": "a\0b"}),
                             (support.digits_model(), {"name": "\udcff" * 2 + "\ud800"}),
                             (support.digits_model(), {"name": "a" * (1 << 18)})):
            self.fails("cannot be run", qnpu.compile, model, kind=qnpu.CompileError, **named)
        self.fails("null byte", qnpu.Session, "a\0b")

    def test_errors_name_no_file_that_the_caller_does_not_know(self):
        for call, named in ((qnpu.compile, {}), (qnpu.Session, {}),
                            (qnpu.compile, {"quantize": "int8", "calibrate": [np.zeros((1, 3), np.float32)]})):
            model = support.digits_model() if named else b"hello"
            with self.assertRaises(qnpu.CompileError) as caught:
                call(model, **named)
            self.assertNotIn("/qnpu-", str(caught.exception))

    def test_what_compiles_nothing(self):
        for option in ("help", "version"):
            self.fails([option, "compiles nothing"], qnpu.compile, support.digits_model(), kind=qnpu.CompileError,
                       **{option: True})
        self.fails(["stage: 5", "a list"], qnpu.compile, support.digits_model(), stage=5, kind=TypeError)
        for name, value in (("cores", [1, 2]), ("labels", ("a", "b")), ("verify_bmodel", ["a"])):
            self.fails([name + ": ", "one value is expected"], qnpu.compile, support.digits_model(), kind=TypeError,
                       **{name: value})
        for name, value in (("input", 5), ("verify_input", np.ones(3)), ("verify_range", (0, 1))):
            self.fails([name + ": ", "a dict of names"], qnpu.compile, support.digits_model(), kind=TypeError,
                       **{name: value})
        for output in (True, 1):  # 1 is standard output to open()
            self.fails("output: " + type(output).__name__, qnpu.compile, support.digits_model(), output, kind=TypeError)
            self.fails("expected str", qnpu.compile(support.digits_model()).save, output, kind=TypeError)
        self.fails(["calibrate: 5", "a folder"], qnpu.compile, support.digits_model(), quantize="int8", calibrate=5,
                   kind=TypeError)
        os.environ["QNPU_NPUC"] = "/bin/true"
        self.addCleanup(os.environ.pop, "QNPU_NPUC")
        self.fails(["/bin/true", "wrote no file"], qnpu.compile, support.digits_model(), kind=qnpu.CompileError)

    def test_a_name_that_begins_as_an_option(self):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        with open("-x.onnx", "wb") as file, open(support.digits_model(), "rb") as model:
            file.write(model.read())
        self.assertEqual(qnpu.compile("-x.onnx").cycles, support.digits().cycles)

    def test_a_report_in_place_of_the_tables(self):
        """The reason is npuc's last line: standard output has the report."""
        with open(self.path("npuc"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho '{}'\necho 'npuc: --verify: the outputs are wrong' >&2\nexit 3\n")
        os.chmod(self.path("npuc"), stat.S_IRWXU)
        os.environ["QNPU_NPUC"] = self.path("npuc")
        self.addCleanup(os.environ.pop, "QNPU_NPUC")
        with self.assertRaises(qnpu.CompileError) as caught:
            qnpu.compile(support.digits_model(), verify=True, report="json")
        self.assertEqual(str(caught.exception), "--verify: the outputs are wrong")

    def test_a_compiler_that_is_not_there(self):
        os.environ["QNPU_NPUC"] = self.path("npuc")
        self.addCleanup(os.environ.pop, "QNPU_NPUC")
        self.fails(["QNPU_NPUC", "no such program"], qnpu.compile, support.digits_model(), kind=qnpu.CompileError)
        with open(self.path("npuc"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexit 7\n")
        os.chmod(self.path("npuc"), stat.S_IRWXU)
        self.fails("status 7", qnpu.compile, support.digits_model(), kind=qnpu.CompileError)

    def test_the_command_npuc(self):
        code = "import sys; from qnpu.commands import npuc; sys.argv[0] = sys.argv.pop(1); npuc()"
        for named, text in ((self.path("npuc"), "no such program"), (sys.executable, "is this command itself")):
            done = subprocess.run([sys.executable, "-c", code, sys.executable], capture_output=True, text=True,
                                  check=False, env={**os.environ, "QNPU_NPUC": named})
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(text, done.stderr)
        done = subprocess.run([sys.executable, "-c", code, "/usr/bin/npuc-of-a-wheel", "--version"],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.startswith("npuc "), done.stdout)

    def test_what_the_compiler_says_may_be_no_text(self):
        os.environ["QNPU_NPUC"] = self.path("npuc")
        self.addCleanup(os.environ.pop, "QNPU_NPUC")
        for end, call in (("exit 7", self.reason), ("cp model.onnx model.bmodel", lambda: qnpu.compile(b"x").report)):
            with open(self.path("npuc"), "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\nprintf 'node \\377 \\303\\244' | tee /dev/stderr\n"
                           f"cd $(dirname $1) && {end}\n")
            os.chmod(self.path("npuc"), stat.S_IRWXU)
            self.assertEqual(call(), "node \ufffd \u00e4")

    def reason(self):
        with self.assertRaises(qnpu.CompileError) as caught:
            qnpu.compile(b"x")
        return str(caught.exception)


if __name__ == "__main__":
    unittest.main()
