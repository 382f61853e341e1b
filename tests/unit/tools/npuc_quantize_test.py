#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""npuc --quantize from files to results: the digits' network in 8 bits on the chip model, and what npuc refuses; the
files that npuc reads and writes.

usage: npuc_quantize_test.py BIN TOP

With NPU_SHARED_MODELS, a folder of trained networks with reference results, also those.
"""
import glob
import json
import os
import pty
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

BIN, TOP = sys.argv.pop(1), sys.argv.pop(1)
DIGITS = os.path.join(TOP, "networks", "digits")
SHARED = os.environ.get("NPU_SHARED_MODELS")
# Networks of different kinds, and the method that suits all of them.
SHARED_NETWORKS = ("kws-dscnn-fp32", "ic-resnet8-cifar10-fp32", "mobilenetv1-025-128-fp32", "mnist-cntk",
                   "cifar10-pytorch-cnn-b1", "vww96-mobilenetv1-fp32")


def run(program, *arguments, **more):
    done = subprocess.run([os.path.join(BIN, program), *arguments], capture_output=True, text=True, check=False,
                          timeout=300, env={**os.environ, "NPU_DEVICE": "sim"}, **more)
    return done.returncode, done.stdout, done.stderr


def cosine(a, b):
    a, b = (v.astype(np.float64).ravel() for v in (a, b))
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="npu-quantize-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def npuc(self, model, *arguments):
        code, out, err = run("npuc", model, "-o", self.path("out.bmodel"), *arguments)
        self.assertEqual(code, 0, err)
        return out

    def fails(self, text, model, *arguments):
        code, _, err = run("npuc", model, "-o", self.path("out.bmodel"), "--quantize", "int8", *arguments)
        self.assertNotEqual(code, 0)
        self.assertIn(text, err)
        self.assertFalse(os.path.exists(self.path("out.bmodel")))

    def results(self, arrays, count, kind=np.float32):
        """What out.bmodel makes of one set of inputs; `count` numbers."""
        case = self.path("case")
        os.makedirs(case, exist_ok=True)
        shutil.copy(self.path("out.bmodel"), os.path.join(case, "compilation.bmodel"))
        with open(os.path.join(case, "input_ref_data.dat"), "wb") as file:
            for array in arrays:
                file.write(array.tobytes())
        with open(os.path.join(case, "output_ref_data.dat"), "wb") as file:
            file.write(bytes(np.dtype(kind).itemsize * count))
        code, out, err = run("bmrt_test", "--context_dir", case, "--export_output", "--compare", "0")
        self.assertEqual(code, 0, out + err)
        return np.fromfile(os.path.join(case, "output_ref_data.dat.bmrt_test"), kind)


class WithDigits(Case):
    MODEL = os.path.join(DIGITS, "digits.onnx")

    @classmethod
    def setUpClass(cls):
        with open(os.path.join(DIGITS, "test_images.bin"), "rb") as file:
            cls.pictures = np.frombuffer(file.read()[16:], np.uint8).reshape(-1, 1, 8, 8).astype(np.float32) / 16
        with open(os.path.join(DIGITS, "test_labels.bin"), "rb") as file:
            cls.labels = np.frombuffer(file.read()[16:], np.uint8)

    def samples(self, first, last):
        os.makedirs(self.path("samples"), exist_ok=True)
        with open(self.path("labels"), "w", encoding="ascii") as file:
            for i in range(first, last):
                np.save(self.path("samples", f"{i:03}.npy"), self.pictures[i])
                file.write(f"{i:03}.npy {self.labels[i]}\n")
        return "--calibrate", self.path("samples")


class Digits(WithDigits):
    def test_pictures_that_it_was_not_calibrated_with(self):
        for kind in "int8", "uint8":
            report = self.npuc(self.MODEL, "--quantize", kind, *self.samples(0, 100))
            self.assertIn("next to them in float32 0", report)
            right = 0
            for i in range(100, 120):
                right += self.results([self.pictures[i]], 10).argmax() == self.labels[i]
            self.assertGreaterEqual(right, 19)

    def test_accuracy_of_all(self):
        report = self.npuc(self.MODEL, "--quantize", "int8", *self.samples(0, 450), "--labels", self.path("labels"),
                           "--accuracy", "top1:0.01")
        top1 = [line for line in report.splitlines() if line.startswith("top-1")][0]
        self.assertIn("in float32 0.9911", top1)
        self.assertGreaterEqual(float(top1.split()[1].rstrip(",")), 0.9811)

    def test_every_method(self):
        for method in "minmax", "percentile:99.9", "kl", "mse":
            report = self.npuc(self.MODEL, "--quantize", "int8", *self.samples(0, 50), "--calibrate-method", method,
                               "--save-table", self.path("table"))
            output = [line for line in report.splitlines() if line.startswith("output")][0]
            self.assertGreater(float(output.split("cosine")[1].split(",")[0]), 0.99, method)
            with open(self.path("table"), encoding="utf-8") as file:
                self.assertIn("  " + method + "\n", file.read())

    def test_outputs_of_integers(self):
        """Their scale comes from the samples, also where they are made in float32: a softmax."""
        self.npuc(self.MODEL, "--quantize", "int8", *self.samples(0, 100), "--input-type", "uint8")
        wanted = [self.results([(self.pictures[i] * 255).round().astype(np.uint8)], 10) for i in range(100, 110)]
        report = self.npuc(self.MODEL, "--quantize", "int8", *self.samples(0, 100), "--input-type", "uint8",
                           "--output-type", "uint8")
        self.assertIn("input          image: 0 to 1, scale 0.003922, zero point -128", report)
        note = [line for line in report.splitlines() if line.startswith("output 'probabilities' is uint8")][0]
        scale, zero = float(note.split("scale ")[1].split(",")[0]), int(note.split("zero point ")[1])
        model = json.loads(run("tpu_model", "--print", self.path("out.bmodel"))[1])
        self.assertEqual(model["net"][0]["parameter"][0]["output_tensor"][0]["scale"], scale)
        for i, numbers in zip(range(100, 110), wanted):
            got = self.results([(self.pictures[i] * 255).round().astype(np.uint8)], 10, np.uint8)
            np.testing.assert_allclose((got.astype(np.float64) - zero) * scale, numbers, atol=0.51 * scale)

    def test_samples_show_how_near_16_bits_are(self):
        """The report's signal to noise is that of what the chip makes. Scores in front of a Softmax are float32 with
        fp16, so the Gemm is no layer of 16 bits there."""
        layers = ["Conv_0", "Conv_3", "Flatten_6", "MaxPool_2", "MaxPool_5"]
        for kind, least, stored in ("fp16", 80, layers), ("bf16", 60, sorted([*layers, "Gemm_7"])):
            report = self.npuc(self.MODEL, "--quantize", kind, *self.samples(0, 10), "--quantize-report",
                               self.path("report.html"))
            self.assertIn("layers stored in 16 bits, compared with 10 samples", report)
            self.assertIn("stored as float16" if kind == "fp16" else "stored as bfloat16", report)
            with open(self.path("report.html"), encoding="utf-8") as file:
                self.assertEqual(sorted(re.findall('<td class="name">([^<]*)</td>', file.read())), stored)
            told = float([line for line in report.splitlines() if line.startswith("output")][0].split()[3])
            half = [self.results([self.pictures[i]], 10) for i in range(10)]
            self.npuc(self.MODEL)
            signal = noise = 0
            for i in range(10):
                exact = self.results([self.pictures[i]], 10).astype(np.float64)
                signal, noise = signal + np.square(exact).sum(), noise + np.square(exact - half[i]).sum()
            self.assertGreater(told, least)
            self.assertLess(abs(told - 10 * np.log10(signal / noise)), 1, kind)

    def test_the_same_bytes_by_a_table(self):
        first = "--quantize", "int8", *self.samples(0, 20), "--no-bias-correction", "--save-table", self.path("table")
        self.npuc(self.MODEL, *first, "--quantize-report", self.path("report.html"))
        with open(self.path("out.bmodel"), "rb") as file:
            by_samples = file.read()
        with open(self.path("report.html"), encoding="utf-8") as file:
            page = file.read()
        self.assertIn("<svg", page)
        self.assertNotRegex(page, r"(src|href)=|url\(|@import")
        self.npuc(self.MODEL, "--quantize", "int8", "--calibration-table", self.path("table"))
        with open(self.path("out.bmodel"), "rb") as file:
            self.assertEqual(by_samples, file.read())

    def test_pictures(self):
        os.makedirs(self.path("pgm"))
        for i in range(20):
            with open(self.path("pgm", f"{i}.pgm"), "wb") as file:
                file.write(b"P5 8 8 255\n" + (self.pictures[i] * 240).astype(np.uint8).tobytes())
        self.samples(0, 20)
        tables = []
        for folder, more in (("samples", ()), ("pgm", ("--preprocess", "order=gray,scale=1/240"))):
            self.npuc(self.MODEL, "--quantize", "int8", "--calibrate", self.path(folder), *more, "--calibrate-method",
                      "minmax", "--save-table", self.path(folder + ".table"))
            with open(self.path(folder + ".table"), encoding="utf-8") as file:
                tables.append(np.array([[float(v) for v in line.split()[1:3]] for line in file if line[0] == '"']))
        np.testing.assert_allclose(tables[0], tables[1], rtol=1e-5)

    def test_errors(self):
        samples = self.samples(0, 3)
        self.fails("there is no folder", self.MODEL, "--calibrate", self.path("nothing"))
        self.fails("--quantize needs --calibrate", self.MODEL)
        self.fails("cosine:C or top1:SHARE", self.MODEL, *samples, "--accuracy", "90%")
        self.fails("--accuracy top1 needs --labels", self.MODEL, *samples, "--accuracy", "top1:0.1")
        self.fails("no node of the network has the name 'nobody'", self.MODEL, *samples, "--keep-float", "nobody")
        self.fails("minmax, percentile:P", self.MODEL, *samples, "--calibrate-method", "entropy")
        self.fails("--quantize with --dynamic", self.MODEL, *samples, "--dynamic")
        with open(self.path("table"), "w", encoding="ascii") as file:
            file.write('"x" 1 nan\n')
        self.fails("table: line 1: tensor 'x': 'nan' is no finite number", self.MODEL, "--calibration-table",
                   self.path("table"))
        self.fails("cannot read " + self.path("none"), self.MODEL, "--calibration-table", self.path("none"))
        bad = self.pictures[0].copy()
        bad[0, 3, 4] = np.nan
        np.save(self.path("samples", "bad.npy"), bad)
        self.fails("sample 'bad.npy': input 'image': element 28 is nan", self.MODEL, *samples)
        np.save(self.path("samples", "bad.npy"), self.pictures[0][:, :7])
        self.fails("bad.npy: it has the shape [1, 7, 8], input 'image' has [1, 1, 8, 8]", self.MODEL, *samples)
        for name in os.listdir(self.path("samples")):
            os.remove(self.path("samples", name))
        self.fails("has no samples", self.MODEL, *samples)


class Files(WithDigits):
    """What npuc reads and writes."""

    def refuses(self, text, *arguments, status=1, **more):
        code, _, err = run("npuc", *arguments, **more)
        self.assertEqual(code, status, err)
        self.assertIn("npuc: ", err)
        self.assertIn(text, err)
        return err

    def write(self, name, text=""):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def test_folders_are_no_files(self):
        os.makedirs(self.path("x.npy"))
        message = "cannot read " + self.path("x.npy") + ": it is a folder"
        base = self.MODEL, "-o", self.path("out.bmodel")
        self.refuses(message, *base, "--input", "image=" + self.path("x.npy"))
        self.refuses(message, *base, "--quantize", "int8", "--calibration-table", self.path("x.npy"))
        self.refuses(message, *base, "--quantize", "int8", *self.samples(0, 3), "--accuracy", "top1:0.1", "--labels",
                     self.path("x.npy"))

    def test_exceptions_are_errors(self):
        with open(os.path.join(BIN, "npuc"), "rb") as file:
            if any(name in file.read() for name in (b"__asan_init", b"__tsan_init")):
                self.skipTest("sanitizers need more address space than this test leaves")
        with open(self.path("table"), "wb") as file:
            file.truncate(3 << 30)
        self.refuses("npuc: there is not enough memory", self.MODEL, "-o", self.path("out.bmodel"), "--quantize",
                     "int8", "--calibration-table", self.path("table"),
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)))

    def test_options_of_integers_alone(self):
        table = self.write("table", "mine")
        samples = self.samples(0, 3)
        for option in (("--calibration-table", table), ("--save-table", table), ("--symmetric",), ("--equalize",),
                       ("--keep-float", "conv"), ("--calibrate-method", "kl", *samples),
                       ("--no-bias-correction", *samples), ("--accuracy", "cosine:0.9", *samples)):
            self.refuses(option[0] + " is for --quantize int8 and uint8, not for fp16", self.MODEL, "-o",
                         self.path("out.bmodel"), "--quantize", "fp16", *option, status=2)
        self.assertEqual(self.read("table"), b"mine")
        self.npuc(self.MODEL, "--quantize", "bf16")

    def test_reals_are_not_dynamic(self):
        for option in "--reals", "--quantize":
            for kind in "fp16", "bf16":
                self.refuses(f"{option} {kind} with --dynamic: the runtime compiles other shapes in float32",
                             self.MODEL, "-o", self.path("out.bmodel"), option, kind, "--dynamic", status=2)

    def test_samples_have_the_types_of_the_file(self):
        plain = self.npuc(self.MODEL, "--quantize", "bf16", *self.samples(0, 10))
        wanted = [line for line in plain.splitlines() if line.startswith("output") and "SQNR" in line]
        self.assertEqual(len(wanted), 1, plain)
        for border in ("--input-type", "bf16"), ("--output-type", "bf16"), ("--input-type", "fp16"):
            self.assertIn(wanted[0], self.npuc(self.MODEL, "--quantize", "bf16", *self.samples(0, 10), *border))

    def test_samples_are_opened_without_a_report(self):
        self.refuses("nowhere", self.MODEL, "-q", "-o", self.path("out.bmodel"), "--quantize", "bf16", "--calibrate",
                     self.path("nowhere"))

    def test_values_are_not_dynamic(self):
        self.refuses("--input with --dynamic: the runtime compiles other shapes from the ONNX file", self.MODEL, "-o",
                     self.path("out.bmodel"), "--input", "image=1", "--dynamic", status=2)

    def test_no_two_outputs_are_one_file(self):
        out, model = self.path("out.bmodel"), self.path("digits.onnx")
        shutil.copy(self.MODEL, model)
        os.symlink(self.folder, self.path("again"))
        base = model, "--quantize", "int8", *self.samples(0, 3), "-o", out
        same = "are the same file"
        for path in out, self.path("again", "out.bmodel"), self.path("samples", "..", "out.bmodel"):
            err = self.refuses("--output and --save-table " + same, *base, "--save-table", path)
            self.assertNotIn("calibration", err)
        self.refuses("--output and --save-table " + same, *base[:-1], "out.bmodel", "--save-table", out,
                     cwd=self.folder)
        self.refuses("--quantize-report and --dump-asm " + same, *base, "--quantize-report", self.path("x"),
                     "--dump-asm", self.path("x"))
        self.refuses("--output and --schedule " + same, *base, "--optimize", "0.1", "--schedule", out)
        self.refuses("--dump-asm and the model " + same, *base, "--dump-asm", self.path("again", "digits.onnx"))
        self.refuses("--save-table and --labels " + same, *base, "--accuracy", "top1:0.1", "--labels",
                     self.path("labels"), "--save-table", self.path("labels"))
        self.refuses("--output and the model " + same, model, "-o", model)
        self.refuses("--output and --dump-asm " + same, model, "-o", self.path("a.1"), "--dump-asm", self.path("a"),
                     "--stage", "image=1,1,8,8", "--stage", "image=2,1,8,8")
        with open(self.MODEL, "rb") as file:
            self.assertEqual(self.read("digits.onnx"), file.read())
        self.assertFalse(os.path.exists(out))
        self.npuc(model, *base[1:-2], "--save-table", "/dev/null", "--dump-asm", "/dev/null")

    def test_outputs_are_checked_before_the_work(self):
        base = self.MODEL, "--quantize", "int8", *self.samples(0, 3), "-o", self.path("out.bmodel")
        for option in "--save-table", "--quantize-report", "--dump-asm":
            err = self.refuses(option + ": cannot write", *base, option, self.path("nowhere", "file"))
            self.assertNotIn("calibration", err)
            self.refuses("it is a folder", *base, option, self.folder)
        self.refuses("--output: cannot write", *base[:-1], self.path("nowhere", "file"))
        self.assertEqual(sorted(os.listdir(self.folder)), ["labels", "samples"])

    def test_errors_leave_files_as_they_were(self):
        self.write("out.bmodel", "old")
        self.write("target", "old")
        os.symlink("target", self.path("table"))
        base = self.MODEL, "-o", self.path("out.bmodel"), "--quantize", "int8", *self.samples(0, 3)
        base += "--save-table", self.path("table"), "--dump-asm", self.path("asm")

        def limit():  # of a file, less than the .bmodel has and more than the table
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        self.refuses("cannot write " + self.path("out.bmodel"), *base, preexec_fn=limit, restore_signals=False)
        self.assertEqual(self.read("out.bmodel"), b"old")
        self.assertEqual(self.read("table"), b"old")
        names = ["labels", "out.bmodel", "samples", "table", "target"]
        self.assertEqual(sorted(os.listdir(self.folder)), names)
        self.npuc(self.MODEL, *base[3:])
        self.assertNotEqual(self.read("out.bmodel"), b"old")
        self.assertTrue(os.path.islink(self.path("table")))
        self.assertIn(b"# npuc calibration table 1", self.read("target"))
        self.assertEqual(sorted(os.listdir(self.folder)), ["asm"] + names)

    def test_an_error_behind_the_bar_has_its_own_line(self):
        samples = self.samples(0, 60)
        np.save(self.path("samples", "bad.npy"), np.full((1, 8, 8), np.nan, np.float32))
        ours, theirs = pty.openpty()
        with subprocess.Popen([os.path.join(BIN, "npuc"), self.MODEL, "-o", self.path("out.bmodel"), "--quantize",
                               "int8", *samples], stderr=theirs) as npuc:
            os.close(theirs)
            text = b""
            try:
                while piece := os.read(ours, 4096):
                    text += piece
            except OSError:  # the end of a terminal
                pass
            os.close(ours)
        self.assertEqual(npuc.returncode, 1)
        self.assertIn(b"\rnpuc: calibration [", text)
        self.assertRegex(text, rb"of 61\r\nnpuc: [^\r\n]*sample 'bad.npy'")


@unittest.skipUnless(SHARED, "needs NPU_SHARED_MODELS, a folder of trained networks")
class Shared(Case):
    def test_references(self):
        for network in SHARED_NETWORKS:
            cases = [np.load(path) for path in sorted(glob.glob(os.path.join(SHARED, "ref", network + "__*.npz")))]
            self.assertTrue(cases)
            os.makedirs(self.path(network))
            split = [{key.split("_", 1)[1]: case[key] for key in case if key.startswith("in_")} for case in cases]
            for i, inputs in enumerate(split):
                np.savez(self.path(network, f"{i}.npz"), **inputs)
            self.npuc(os.path.join(SHARED, "models", network + ".onnx"), "--quantize", "int8", "--calibrate",
                      self.path(network))
            for inputs, case in zip(split, cases):
                wanted = [case[key] for key in case if key.startswith("out_")][0]
                got = self.results(list(inputs.values()), wanted.size)
                print(f"{network}: cosine {cosine(got, wanted):.5f}, class "
                      f"{'the same' if got.argmax() == wanted.argmax() else 'another'}")
                self.assertGreaterEqual(cosine(got, wanted), 0.99)
                self.assertEqual(got.argmax(), wanted.argmax())


if __name__ == "__main__":
    unittest.main()
