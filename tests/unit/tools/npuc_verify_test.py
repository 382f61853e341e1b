#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""npuc --verify: right networks of all kinds are right, wrong ones are found and named, and a stand-in for ONNX Runtime
fails, crashes or disagrees. Results are wrong by another network's .bmodel, or by scores that share a scale of 8 bits
with boxes.

usage: npuc_verify_test.py BIN TOP
"""
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import zipfile

import jsonschema
import numpy as np

BIN, TOP = sys.argv.pop(1), sys.argv.pop(1)
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(TOP, "tests", "oracle"))

# pylint: disable=wrong-import-position
import net_parts  # noqa: E402
import onnx_writer  # noqa: E402
from net_builder import Builder  # noqa: E402
from onnx_writer import Graph  # noqa: E402

DIGITS = os.path.join(TOP, "networks", "digits", "digits.onnx")
RIGHT, FAILED, USAGE, WRONG, UNCLEAR = 0, 1, 2, 3, 4

# Stands for npuc-onnxruntime: MODEL INPUTS NAMES OUTPUTS VERSION. The network is y = 2 x.
STAND_IN = """#!/usr/bin/python3
import os, struct, sys
import numpy as np
KIND = %r
if KIND == "crash":
    os.kill(os.getpid(), 11)
if KIND == "fail":
    sys.exit("Not implemented: this operator")
data = open(sys.argv[2], "rb").read()
size, kind, rank = struct.unpack_from("<3I", data)
dims = struct.unpack_from("<%%dq" %% rank, data, 12 + size)
x = np.frombuffer(data, np.float32, int(np.prod(dims)), 12 + size + 8 * rank)
y = (x * (2 if KIND == "right" else 3)).astype(np.float32)
with open(sys.argv[4], "wb") as out:
    out.write(struct.pack("<3I", 1, 1, rank) + b"y" + struct.pack("<%%dq" %% rank, *dims) + y.tobytes())
with open(sys.argv[5], "w") as out:
    out.write("9.9.9")
"""


# The same of y = 3 x, with all tensors of float16.
HALF_STAND_IN = """#!/usr/bin/python3
import struct, sys
import numpy as np
KIND, CAST = %r, %r
data = open(sys.argv[2], "rb").read()
size, kind, rank = struct.unpack_from("<3I", data)
dims = struct.unpack_from("<%%dq" %% rank, data, 12 + size)
x = np.frombuffer(data, np.float32, int(np.prod(dims)), 12 + size + 8 * rank)
half = x.astype(np.float16)
assert CAST or (half == x).all(), "inputs that the file's type has"
y = half * np.float16(1 / 3) * np.float16(3 if KIND == "right" else 3.1)
with open(sys.argv[4], "wb") as out:
    out.write(struct.pack("<3I", 1, 10, rank) + b"y" + struct.pack("<%%dq" %% rank, *dims) + y.tobytes())
with open(sys.argv[5], "w") as out:
    out.write("9.9.9")
"""

# The same of y = 60000 x in float16.
LARGE_STAND_IN = HALF_STAND_IN.replace("np.float16(1 / 3) * np.float16(3 if KIND == \"right\" else 3.1)",
                                       "np.float16(60000)")


# A line of examples/plugin/signal_operators.c, and one with which the operator keeps state.
STATELESS = "*on++ = state;"
STATEFUL = "static unsigned calls; *on++ = calls++ % 3 == 0;"


def half_network(cast):
    """y = x / 3 * 3 in float16; `cast`: inputs and outputs are float32."""
    g = Graph("half", 13)
    kind = np.float32 if cast else np.float16
    x = g.input("x", [2, 40], kind)
    x = g.node("Cast", [x], to=10) if cast else x
    third = g.node("Mul", [x, g.const(np.array(1 / 3, np.float16))])
    y = g.node("Mul", [third, g.const(np.array(3, np.float16))], "y" if not cast else None)
    if cast:
        g.node("Cast", [y], "y", to=1)
    g.output("y", [2, 40], kind)
    return g.serialize()


def large_network(factor=60000, log=False):
    """y = 60000 x in float16; `log`: NaN where x is at most 0.9."""
    g = Graph("large", 13)
    x = g.input("x", [2, 8], np.float16)
    y = g.node("Mul", [x, g.const(np.array(factor, np.float16))], None if log else "y")
    if log:
        part = g.node("Log", [g.node("Sub", [x, g.const(np.array(0.9, np.float16))])])
        y = g.node("Add", [y, g.node("Mul", [part, g.const(np.array(1e-4, np.float16))])], "y")
    g.output(y, [2, 8], np.float16)
    return g.serialize()


def double(opset=13):
    g = Graph("double", opset)
    g.output(g.node("Add", [g.input("x", [2, 8])] * 2, "y"), [2, 8])
    return g.serialize()


def external(name, array):
    """An initializer whose float32 data is in the file model.onnx."""
    # pylint: disable=protected-access
    dims = b"".join(onnx_writer._int(1, d) for d in array.shape)
    location = onnx_writer._bytes(1, "location") + onnx_writer._bytes(2, "model.onnx")
    return (dims + onnx_writer._int(2, 1) + onnx_writer._bytes(8, name) + onnx_writer._bytes(13, location) +
            onnx_writer._int(14, 1))


def boxes_and_scores(b):
    """One output of boxes up to 640 and scores up to 1."""
    x = b.op("Relu", b.conv(b.input([1, 3, 8, 8], 0, 1), 3, 8, 3, pads=[1, 1, 1, 1]))
    boxes = b.op("Mul", b.op("Sigmoid", b.conv(x, 8, 4, 1)), b.graph.const(np.array(640, np.float32)))
    scores = b.graph.node("Sigmoid", [b.conv(x, 8, 6, 1)], "scores")
    b.graph.output(b.graph.node("Concat", [boxes, scores], "detections", axis=1))


def masked_attention(factor):
    """Scores of 8 tokens, a mask that is 1 for those that count, and weighted sums."""
    b = Builder("masked", 6)
    x, counts = b.graph.input("x", [1, 8, 8]), b.graph.input("m", [1, 1, 8])
    masked = b.op("Mul", b.op("Sub", b.graph.const(np.array(1, np.float32)), counts),
                  b.graph.const(np.array(-1e4, np.float32)))
    weights = b.op("Softmax", b.op("Add", b.op("MatMul", x, b.weights([8, 8], 8)), masked), axis=-1)
    b.graph.output(b.graph.node("MatMul", [weights, b.graph.const(factor * np.eye(8, dtype=np.float32))], "y"),
                   [1, 8, 8])
    return b.graph.serialize()


def built(make, seed=3):
    builder = Builder(make.__name__, seed)
    make(builder)
    return builder


def made(make, seed=3):
    return built(make, seed).graph.serialize()


def ranges(make):
    """The options for inputs that are not from -1 to 1. The builder's integers are below the upper end."""
    return [word for name, (low, high) in built(make).ranges.items()
            for word in ("--verify-range", "%s=%d,%d" % (name, low, high - (not name.startswith("x"))))]


def text_network():
    """Token indices and a table, and an output that is a shape; batch and length are open."""
    b = Builder("text", 5)
    ids = b.graph.input("ids", ["n", "t"], np.int64)
    x = b.op("MatMul", b.op("Gather", b.uniform([6, 64]), ids, axis=0), b.weights([64, 64], 64))
    b.graph.output(b.graph.node("Softmax", [x], "y", axis=-1), ["n", "t", 64])
    b.graph.output(b.graph.node("Shape", [ids], "size"), [2], np.int64)
    return b.graph.serialize()


class Verify(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(os.path.join(TOP, "docs/reference/schemas/npuc-report.schema.json"), encoding="utf-8") as file:
            cls.schema = json.load(file)

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="npuc-verify-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    @staticmethod
    def content(path):
        with open(path, "rb") as file:
            return file.read()

    def npuc(self, *arguments, **environment):
        """Status, standard output, standard error; by npuc's evaluator unless the test has a stand-in."""
        base = {k: v for k, v in os.environ.items() if k not in ("NPU_SIM", "NPUC_ONNXRUNTIME")}
        done = subprocess.run([os.path.join(BIN, "npuc"), *arguments], capture_output=True, text=True, check=False,
                              timeout=300, env={**base, "NPU_DEVICE": "sim", "NPU_QUIET": "1", **environment})
        return done.returncode, done.stdout, done.stderr

    def verified(self, model, *options, status=RIGHT, **environment):
        reference = () if environment else ("--verify-reference", "npuc")
        code, out, err = self.npuc(model, "--verify", "-q", *reference, *options, **environment)
        self.assertEqual(code, status, out + err)
        return out

    def samples(self, shape, count=6):
        folder = self.path("samples")
        os.makedirs(folder, exist_ok=True)
        random = np.random.RandomState(1)
        for i in range(count):
            np.save(os.path.join(folder, "%d.npy" % i), random.random_sample(shape).astype(np.float32))
        return folder

    def test_right_networks_of_all_kinds(self):
        parts = [(name, made(make), ranges(make)) for name, make in net_parts.nets()]
        reals = [("digits " + t, DIGITS, ("--reals", t)) for t in ("fp16", "bf16")]
        image = ("--verify-range", "image=0,1")
        more = [("digits", DIGITS, image),
                ("lanes", DIGITS, ("--input-type", "fp16", "--output-type", "bf16", *image)),
                ("small local memory", DIGITS, ("--lmem", "64K", "--cores", "2")),
                ("int8", DIGITS, ("--quantize", "int8", "--calibrate", self.samples([1, 1, 8, 8])))]
        for name, model, options in parts + reals + more:
            with self.subTest(name):
                path = model if isinstance(model, str) else self.write("net.onnx", model)
                out = self.verified(path, *options)
                self.assertRegex(out, r"(?m)^verdict +right$")
                self.assertIn("device sim, reference npuc's evaluator", out)

    def test_dynamic_networks_also_with_smaller_shapes(self):
        model = self.write("text.onnx", text_network())
        out = self.verified(model, "--dynamic", "--shape", "ids=2,20")
        self.assertEqual(re.findall(r"(?m)^inputs +(\S+ \[.*?\]): random", out), ["ids [2, 20]", "ids [1, 10]"])
        self.assertEqual(len(re.findall(r"(?m)^size int32 \[2\] .* right$", out)), 2)
        out = self.verified(model, "--stage", "ids=1,8", "--stage", "ids=1,4")
        self.assertEqual(out.count("inputs  "), 2)

    def test_inputs_of_stages_that_no_sample_fits(self):
        """They are in the range of the samples."""
        b = Builder("rows", 4)
        b.graph.output(b.op("MatMul", b.graph.input("x", ["n", 64]), b.weights([64, 32], 64)), ["n", 32])
        model = self.write("rows.onnx", b.graph.serialize())
        out = self.verified(model, "--quantize", "int8", "--calibrate", self.samples([2, 64]), "--stage", "x=2,64",
                            "--stage", "x=1,64")
        self.assertRegex(out, r"(?m)^inputs +x \[2, 64\]: sample 0")
        self.assertRegex(out, r"(?m)^inputs +x \[1, 64\]: random, seed 1$")

    def test_another_networks_program_is_wrong(self):
        models = [self.write("%d.onnx" % seed, made(net_parts.classify, seed)) for seed in (3, 4)]
        self.assertEqual(self.npuc(models[1], "-q", "-o", self.path("other.bmodel"))[0], 0)
        out = self.verified(models[0], "--verify-bmodel", self.path("other.bmodel"), status=WRONG)
        self.assertRegex(out, r"(?m)^verdict +wrong$")
        self.assertRegex(out, r"output 'softmax_\d+': .* rounding explains; element \d+ \(index \[\d,\d\]\): got \S+, "
                              r"expected \S+")
        out = self.verified(models[0], "--verify-bmodel", self.path("other.bmodel"), "--verify-first", status=WRONG)
        self.assertIn("is right where it is the only output", out)

    def test_scores_beside_boxes_in_one_scale(self):
        """An output of integers has one scale. In float32 each part keeps a scale of its own."""
        model = self.write("detect.onnx", made(boxes_and_scores))
        self.verified(model)
        options = ("--quantize", "int8", "--calibrate", self.samples([1, 3, 8, 8]))
        self.assertEqual(self.parts(self.verified(model, *options)), {"scores": "right", "boxes": "right"})
        code, out, err = self.npuc(model, "--verify", "--verify-reference", "npuc", "--verify-first", *options,
                                   "--output-type", "int8")
        self.assertEqual(code, WRONG, out + err)
        self.assertEqual(self.parts(out), {"scores": "wrong", "boxes": "right"})
        self.assertRegex(out, r"(?m)^warning +output 'detections' has one scale for all its parts: part 'scores' has ")
        self.assertRegex(out, r"first wrong +'(detections', result of Concat|scores', result of Sigmoid) '\w+'")
        self.assertEqual(err, "npuc: --verify: the outputs are wrong\n")

    def test_masks_in_front_of_a_softmax(self):
        """The allowed difference is as small as without a mask, although 1 - m has a factor of -1e4."""
        random, folder = np.random.RandomState(2), self.path("samples")
        os.makedirs(folder)
        for i in range(4):
            np.savez(os.path.join(folder, "%d.npz" % i), x=random.standard_normal((1, 8, 8)).astype(np.float32),
                     m=np.where(np.arange(8) < 5 + i % 4, 1, 0).astype(np.float32).reshape(1, 1, 8))
        models = [self.write("%g.onnx" % f, masked_attention(np.float32(f))) for f in (1, 1.4)]
        for options in (("--quantize", "int8", "--calibrate", folder), ("--reals", "fp16"), ("--reals", "bf16")):
            with self.subTest(options[1]):
                options += ("--verify-input", os.path.join(folder, "0.npz"))
                self.verified(models[0], *options)
                self.assertEqual(self.npuc(models[1], "-q", "-o", self.path("other.bmodel"), *options[:-2])[0], 0)
                self.verified(models[0], *options, "--verify-bmodel", self.path("other.bmodel"), status=WRONG)

    def parts(self, out):
        """The verdicts of the parts of boxes_and_scores()."""
        found = re.findall(r"(?m)^detections float32 \[1, 10, 8, 8\] +(\S+) .* (right|wrong|unclear)$", out)
        self.assertEqual(len(found), 2, out)
        return {"scores" if name == "scores" else "boxes": verdict for name, verdict in found}

    def test_json(self):
        model = self.write("detect.onnx", made(boxes_and_scores))
        code, out, err = self.npuc(model, "--verify", "--verify-reference", "npuc", "--report", "json")
        self.assertEqual(code, RIGHT, err)
        report = json.loads(out)
        jsonschema.validate(report, self.schema)
        verification = report["verification"]
        self.assertEqual((verification["verdict"], verification["device"]), ("right", "sim"))
        parts = verification["runs"][0]["outputs"][0]["parts"]
        self.assertEqual([p["elements"] for p in parts], [4 * 64, 6 * 64])
        for p in parts:
            self.assertLessEqual(p["largest"], p["allowed"])
            self.assertGreaterEqual(p["element"], 0)
            self.assertEqual(p["not_compared"], 0)
            self.assertLess(p["allowed"], 1e-3 * (640 if p["part"] != "scores" else 1), "a bound that finds mistakes")

    def test_given_inputs(self):
        model = self.write("double.onnx", double())
        x = np.arange(16, dtype=np.float32).reshape(2, 8)
        np.save(self.path("x.npy"), x)
        np.savez(self.path("all.npz"), x=x)
        for given in (self.path("x.npy"), "x=" + self.path("x.npy"), self.path("all.npz")):
            self.assertIn("x [2, 8]: given", self.verified(model, "--verify-input", given))
        for name, order in (("big.npy", x.astype(">f4")), ("fortran.npy", np.asfortranarray(x))):
            np.save(self.path(name), order)
            self.assertIn("x [2, 8]: given", self.verified(model, "--verify-input", self.path(name)))
        np.savez(self.path("other.npz"), y=x, z=x)
        np.savez(self.path("more.npz"), x=x, label=x)
        self.assertIn("more.npz: no input has the names 'label', which are left out",
                      self.verified(model, "--verify-input", self.path("more.npz")))
        np.savez(self.path("empty.npz"))
        with zipfile.ZipFile(self.path("plain.npz"), "w") as file:
            file.write(self.path("x.npy"), "x")
        np.save(self.path("short.npy"), x[:, :3])
        for given, message in (("y=" + self.path("x.npy"), "the network has no input 'y'"),
                               (self.path("short.npy"), "input 'x' has [2, 8]"),
                               (self.path("none.npy"), "none.npy"),
                               (self.path("other.npz"), "the inputs are 'x', the arrays 'y', 'z'\n"),
                               (self.path("empty.npz"), "the inputs are 'x', it is empty"),
                               (self.path("plain.npz"), "the inputs are 'x', the arrays 'x' (an array is NAME.npy)"),
                               ("a\nb=" + self.path("x.npy"), "a\\x0ab="), ("x=a\nb", "a\\x0ab: No such file")):
            code, _, err = self.npuc(model, "--verify", "--verify-input", given)
            self.assertEqual(code, FAILED)
            self.assertIn("--verify-input", err)
            self.assertIn(message, err)
        code, _, err = self.npuc(model, "--verify", *("--verify-input", "x=" + self.path("x.npy")) * 2)
        self.assertEqual(code, FAILED)
        self.assertIn("the input 'x' is given twice", err)
        code, _, err = self.npuc(model, "--verify", "--verify-range", "z=0,1")
        self.assertEqual(code, FAILED)
        self.assertIn("no input 'z'", err)
        self.assertEqual(self.npuc(model, "-o", self.path("o"), "--verify-input", "x")[0], USAGE)

    def test_given_inputs_beside_values(self):
        """An archive may have the arrays of --input as well."""
        g = Graph("values")
        g.output(g.node("Reshape", [g.input("x", [2, 8]), g.input("s", [2], np.int64)], "y"))
        model, x = self.write("values.onnx", g.serialize()), np.ones((2, 8), np.float32)
        np.savez(self.path("all.npz"), x=x, s=np.array([8, 2]))
        np.savez(self.path("s.npz"), s=np.array([8, 2]))
        np.save(self.path("s.npy"), np.array([8, 2]))
        out = self.verified(model, "--input", "s=8,2", "--verify-input", self.path("all.npz"))
        self.assertIn("x [2, 8]: given", out)
        self.assertNotIn("left out", out)
        for option, message in (("--verify-input=" + self.path("s.npz"), "others have their value from --input"),
                                ("--verify-input=s=" + self.path("s.npy"), "the input 's' has its value from --input"),
                                ("--verify-range=s=1,2", "the input 's' has its value from --input")):
            code, _, err = self.npuc(model, "--verify", "--input", "s=8,2", option)
            self.assertEqual(code, FAILED)
            self.assertIn(message, err)

    def test_an_input_may_have_the_character_that_ends_its_name(self):
        g = Graph("names")
        g.output(g.node("Add", [g.input("x", [3]), g.input("x=1", [3])]))
        model, folder = self.write("names.onnx", g.serialize()), self.path("a=b")
        os.mkdir(folder)
        np.save(os.path.join(folder, "x.npy"), np.ones(3, np.float32))
        self.assertIn("x [3], x=1 [3]: given", self.verified(
            model, *(f"--verify-input={name}={folder}/x.npy" for name in ("x", "x=1"))))

    def test_a_file_that_was_compiled_before(self):
        def minus(names, of=None):
            g = Graph(of or "minus")
            a, b = (g.input(name, [2, 3]) for name in names)
            g.output(g.node("Sub", [a, b] if names[0] == "a" else [b, a], "y"))
            return self.write("".join(names) + ".onnx", g.serialize())

        model, other, third = minus("ab"), minus("ba"), minus("ac")
        for path in (model, other, third):
            self.assertEqual(self.npuc(path, "-q", "-o", path + ".bmodel")[0], RIGHT)
        for path in (model, other):  # tensors are found by their names
            self.verified(model, "--verify-bmodel", path + ".bmodel")
        code, _, err = self.npuc(model, "--verify", "-q", "--verify-bmodel", third + ".bmodel")
        self.assertEqual(code, FAILED)
        self.assertIn("its inputs are 'a', 'c', those of the file 'a', 'b'", err)
        g = Graph("minus")
        g.output(g.node("Sub", [g.input("a", [3, 2]), g.input("b", [3, 2])], "y"))
        shapes = self.write("shapes.onnx", g.serialize())
        self.assertEqual(self.npuc(shapes, "-q", "-o", shapes + ".bmodel")[0], RIGHT)
        code, _, err = self.npuc(model, "--verify", "-q", "--verify-bmodel", shapes + ".bmodel")
        self.assertEqual(code, FAILED)
        self.assertIn("it was compiled for other input shapes: a [3, 2], b [3, 2]. Expected: a [2, 3], b [2, 3]\n", err)
        code, _, err = self.npuc(model, "--verify", "-q", "--verify-bmodel", "a\nb")
        self.assertIn("a\\x0ab", err)
        two = self.path("two.bmodel")
        subprocess.run([os.path.join(BIN, "tpu_model"), "--combine", model + ".bmodel", other + ".bmodel", "-o", two],
                       check=False)
        code, _, err = self.npuc(model, "--verify", "-q", "--verify-bmodel", self.write("empty.bmodel", b""))
        self.assertEqual(code, FAILED, "not the file that was just compiled")
        self.assertIn("--verify-bmodel", err)
        code, _, err = self.npuc(model, "--verify", "-q", "--verify-bmodel", model)
        self.assertEqual(code, FAILED)
        self.assertIn("--verify-bmodel %s: " % model, err)
        self.assertNotIn("(memory)", err)

    def test_smaller_launches_of_a_dynamic_batch(self):
        g = Graph("batch")
        g.output(g.node("Relu", [g.input("x", ["batch", "height", 8])]))
        model = self.write("batch.onnx", g.serialize())
        out = self.verified(model, "--dynamic-batch", "--shape", "x=4,6,8", "-o", self.path("batch.bmodel"))
        self.assertIn("x [4, 6, 8]: random", out)
        self.assertIn("x [2, 6, 8]: random", out)
        out = self.verified(model, "--dynamic", "--shape", "x=4,6,8")
        self.assertIn("x [2, 3, 8]: random", out)

    def test_the_file_is_kept_where_nothing_can_be_compared(self):
        target = self.path("kept.bmodel")
        code, _, err = self.npuc(self.write("double.onnx", double()), "--verify", "-q", "-o", target,
                                 "--verify-reference", "onnxruntime", NPUC_ONNXRUNTIME="/none")
        self.assertEqual(code, FAILED)
        self.assertIn("cannot start /none", err)
        self.assertTrue(os.path.exists(target))

    def test_files_that_are_read_are_not_overwritten(self):
        model, values = self.write("double.onnx", double()), self.path("values=1.npy")
        np.save(values, np.zeros((2, 8), np.float32))
        before = self.content(values)
        for options in (("--verify", "--verify-input", "x=" + values), ("--input", "x=" + values),
                        ("--plugin", values), ("--quantize", "int8", "--calibrate", values),
                        ("--quantize", "int8", "--calibration-table", values)):
            code, _, err = self.npuc(model, "-q", "-o", values, *options)
            self.assertEqual(code, FAILED, (options, err))
            self.assertEqual(self.content(values), before)
        self.assertIn("--output", err)
        sample = os.path.join(self.samples([2, 8]), "0.npy")
        before = self.content(sample)
        code, _, err = self.npuc(model, "-q", "-o", sample, "--quantize", "int8", "--calibrate", self.path("samples"))
        self.assertEqual((code, self.content(sample)), (FAILED, before))
        self.assertIn("--output and a sample of --calibrate are the same file", err)

    def test_data_and_plug_ins_of_the_environment_are_not_overwritten(self):
        g = Graph("data")
        g.output(g.node("Add", [g.input("x", [2, 8]), g.external("w", [8], "net.data")]), [2, 8])
        model, data = self.write("data.onnx", g.serialize()), self.write("net.data", b"\0" * 32)
        library = shutil.copy(os.path.join(BIN, "..", "lib", "libnpu_test_plugin.so"), self.path("own.so"))
        self.assertEqual(self.npuc(model, "-q", "-o", self.path("right.bmodel"))[0], 0)
        for path, words, environment in ((data, "the model's external data", {}),
                                         (library, "a plug-in", {"NPU_PLUGINS": library})):
            before = self.content(path)
            for option in (("-o", path), ("-o", self.path("x.bmodel"), "--report", "json=" + path)):
                code, _, err = self.npuc(model, "-q", *option, **environment)
                self.assertEqual((code, self.content(path)), (FAILED, before), err)
                self.assertIn(words + " are the same file", err)

    def test_an_open_batch_is_one(self):
        g = Graph("open")
        g.output(g.node("Relu", [g.input("x", ["batch", 8])]), ["batch", 8])
        code, out, err = self.npuc(self.write("open.onnx", g.serialize()), "--verify", "--verify-reference", "npuc")
        self.assertEqual(code, RIGHT, out + err)
        self.assertIn("x [1, 8]: random", out)
        self.assertIn("npuc: warning: input 'x' has an open batch", err)

    def test_operators_of_a_plug_in(self):
        library = self.path("signal_operators.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-I", os.path.join(TOP, "runtime", "include"), "-o", library,
                        os.path.join(TOP, "examples", "plugin", "signal_operators.c")], check=True)
        g = Graph("own")
        on = g.node("Hysteresis", [g.node("Tanh", [g.input("x", [4, 64])])], domain="com.example", low=-0.5, high=0.5)
        g.output(g.node("Cast", [on], to=1), [4, 64])
        model = self.write("own.onnx", g.serialize())
        self.assertIn("operators of plug-ins (com.example.Hysteresis) are computed by the plug-in in the reference as "
                      "well: their results are not checked", self.verified(model, "--plugin", library))
        with open(os.path.join(TOP, "examples", "plugin", "signal_operators.c"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn(STATELESS, text)
        source = self.write("state.c", text.replace(STATELESS, STATEFUL).encode())
        subprocess.run(["cc", "-shared", "-fPIC", "-I", os.path.join(TOP, "runtime", "include"), "-o",
                        self.path("state.so"), source], check=True)
        code, _, err = self.npuc(model, "--verify", "--plugin", self.path("state.so"))
        self.assertEqual(code, FAILED)
        self.assertIn("operator com.example.Hysteresis of a plug-in ('Hysteresis_1') gives other results when it is "
                      "called again with the same inputs", err)
        self.assertEqual(self.npuc(model, "--verify", "-q")[0], FAILED)

    def test_indices_and_numbers_that_mean_something(self):
        b = Builder("few", 1)  # a table of two rows: random indices are 0 and 1
        b.output(b.op("Gather", b.uniform([2, 5]), b.graph.input("i", [9], np.int64), axis=0))
        self.verified(self.write("few.onnx", b.graph.serialize()))
        self.verified(self.write("divide.onnx", made(net_parts.integers)))  # by integers that may be 0
        g = Graph("none")
        g.output(g.node("Log", [g.input("x", [4, 4])]))
        model = self.write("log.onnx", g.serialize())
        out = self.verified(model, "--verify-range", "x=-2,-1", status=UNCLEAR)
        self.assertIn("no element is a finite number", out)
        self.assertIn("--verify-range", out)
        self.assertNotIn("expected 0", out)
        out = self.npuc(model, "--verify", "--verify-reference", "npuc", "--verify-range", "x=-2,-1", "--report",
                        "json")[1]
        report = json.loads(out)
        jsonschema.validate(report, self.schema)
        self.assertIsNone(report["verification"]["runs"][0]["outputs"][0]["parts"][0]["element"])
        self.verified(model, "--verify-range", "x=1,2")
        code, _, err = self.npuc(model, "--verify", "--verify-range", "x=-1e39,1e39")
        self.assertEqual(code, FAILED)
        self.assertIn("input 'x' is float32, whose numbers are from -3.40282347e+38 to 3.40282347e+38", err)

    def test_a_column_may_have_an_element_that_rounding_decides(self):
        """Square roots of numbers around 0, in bfloat16. Elements of other columns show that there are such."""
        b = Builder("roots", 1)
        y = b.op("MatMul", b.graph.input("x", [64, 32]), b.weights([32, 64], 32))
        b.graph.output(b.graph.node("Sqrt", [y], "y"), [64, 64])
        out = self.verified(self.write("roots.onnx", b.graph.serialize()), "--reals", "bf16")
        self.assertRegex(out, r"(?m)^y float32 .* right, \d+ not compared$")

    def test_elements_that_saturate_are_counted(self):
        g = Graph("large")
        g.output(g.node("Mul", [g.input("x", [4], np.int64), g.const(np.array(3000000000, np.int64))], "y"), [4],
                 np.int64)
        np.save(self.path("x.npy"), np.array([0, 1, -1, 0], np.int32))
        out = self.verified(self.write("large.onnx", g.serialize()), "--verify-input", self.path("x.npy"))
        self.assertIn("2 elements of output 'y' exceed int32: the chip saturates them", out)

    def test_parts_without_names_have_indices(self):
        steps = Graph("step", prefix="s")
        steps.input("k", [], np.int64), steps.input("on", [], np.bool_), steps.input("a", [2])
        steps.output(steps.node("Identity", ["on"], "go"), [], np.bool_)
        steps.output(steps.node("Add", ["a", "a"], "next"), [2])
        steps.output(steps.node("Tanh", ["next"], "seen"), [2])
        g = Graph("loop")
        last, seen = g.node("Loop", [g.const(np.array(3, np.int64)), "", g.input("x", [2])], ["last", "scan"],
                            body=steps)
        g.output(last, [2])
        g.output(seen, [3, 2])
        out = self.verified(self.write("loop.onnx", g.serialize()))
        for k in range(3):
            self.assertIn("[%d:%d] of axis 0" % (k, k + 1), out)

    def test_arrays_of_any_shape_of_a_dynamic_launch(self):
        model = self.write("text.onnx", text_network())
        np.save(self.path("ids.npy"), np.arange(6).reshape(1, 6))
        out = self.verified(model, "--dynamic", "--shape", "ids=2,20", "--verify-input", self.path("ids.npy"))
        self.assertIn("ids [1, 6]: given", out)
        np.save(self.path("ids.npy"), np.zeros((3, 6), np.int64))
        for options in (("--shape", "ids=2,20"), ("--stage", "ids=2,20", "--stage", "ids=1,20")):
            code, _, err = self.npuc(model, "--verify", "--dynamic", *options, "--verify-input", self.path("ids.npy"))
            self.assertEqual(code, FAILED)
            self.assertIn("the array for input 'ids' has the shape [3, 6], and dimension 0 may be 1 to 2", err)

    def test_one_stage_takes_the_arrays(self):
        g = Graph("batch")
        g.output(g.node("Relu", [g.input("x", ["n", 8])], "y"), ["n", 8])
        model = self.write("batch.onnx", g.serialize())
        np.save(self.path("x.npy"), np.ones((3, 8), np.float32))
        for kind in ("--dynamic", "--dynamic-batch"):
            for stages in (("x=4,8", "x=2,8"), ("x=2,8", "x=4,8")):
                options = (kind, *("--stage=" + s for s in stages), "--verify-input", self.path("x.npy"))
                out = self.verified(model, *options)
                self.assertEqual(re.findall(r"(?m)^inputs +(.*)", out), ["x [3, 8]: given"])

    def stand_in(self, kind):
        path = self.write(kind, (STAND_IN % kind).encode())
        os.chmod(path, stat.S_IRWXU)
        return path

    def test_onnx_runtime_agrees(self):
        out = self.verified(self.write("double.onnx", double()), NPUC_ONNXRUNTIME=self.stand_in("right"))
        self.assertIn("reference ONNX Runtime 9.9.9\n", out)

    def test_onnx_runtime_rounds_to_the_16_bit_types_of_the_file(self):
        for cast in (False, True):
            model = self.write("half%d.onnx" % cast, half_network(cast))
            for kind, status in (("right", RIGHT), ("other", WRONG)):
                program = self.write("half-" + kind, (HALF_STAND_IN % (kind, cast)).encode())
                os.chmod(program, stat.S_IRWXU)
                options = ("--output-type", "float16") if not cast else ()
                for more in ((), options):
                    with self.subTest(cast=cast, kind=kind, options=more):
                        out = self.verified(model, *more, status=status, NPUC_ONNXRUNTIME=program)
                        self.assertIn("reference ONNX Runtime 9.9.9\n", out)
            out = self.verified(model)  # the evaluator does not round to them
            self.assertLess(float(re.search(r"(?m)^y float32 .* (\S+) +\S+ +right$", out).group(1)), 1e-5)

    def test_numbers_beyond_float16_excuse_no_others(self):
        """They are infinite with ONNX Runtime, and numbers on the chip."""
        program = self.write("large", (LARGE_STAND_IN % ("right", False)).encode())
        os.chmod(program, stat.S_IRWXU)
        model = self.write("large.onnx", large_network())
        for name, other in (("log", large_network(log=True)), ("minus", large_network(-60000))):
            self.assertEqual(self.npuc(self.write("other.onnx", other), "-q", "-o", self.path(name))[0], RIGHT)
        x = np.full((2, 8), -0.5, np.float32)
        x[0, :6] = 0.95, 0.99, 1.05, 0.92, 1.2, 1.3
        np.save(self.path("x.npy"), x)
        given = ("--verify-input", self.path("x.npy"))
        out = self.verified(model, *given, NPUC_ONNXRUNTIME=program)
        self.assertRegex(out, r"(?m)^y float32 .* right, 2 not compared$")
        out = self.verified(model, *given, "--verify-bmodel", self.path("log"), status=WRONG, NPUC_ONNXRUNTIME=program)
        self.assertRegex(out, r"NaN or infinity where .*; element 6 \(index \[0,6\]\): got -?nan, expected -30000\n")
        out = self.verified(model, "--verify-range", "x=5,10", "--verify-bmodel", self.path("minus"), status=WRONG,
                            NPUC_ONNXRUNTIME=program)
        self.assertRegex(out, r"element 0 .*: got -\d+\S*, expected inf\n")
        out = self.verified(model, "--verify-range", "x=5,10", status=UNCLEAR, NPUC_ONNXRUNTIME=program)
        self.assertRegex(out, r"(?m)^y float32 .* unclear, 16 not compared$")
        # The place is the one that the reason is of.
        x[:] = 0.5
        x[0, 0], x[1, 1] = -5, 0.25
        np.save(self.path("x.npy"), x)
        half = self.write("half.onnx", large_network(30000))
        self.assertEqual(self.npuc(half, "-q", "-o", self.path("half"))[0], RIGHT)
        out = self.verified(model, *given, "--verify-bmodel", self.path("half"), status=WRONG, NPUC_ONNXRUNTIME=program)
        self.assertRegex(out, r"the largest difference is .*; element 1 \(index \[0,1\]\): got 15000, expected 30000")

    def test_onnx_runtime_reads_the_file_differently(self):
        out = self.verified(self.write("double.onnx", double()), "--verify-first", status=WRONG,
                            NPUC_ONNXRUNTIME=self.stand_in("other"))
        self.assertIn("npuc reads the file differently: its evaluator's output 'y': ", out)
        self.assertRegex(out, r"first wrong +'y', result of Add 'Add_0'")

    def test_a_wrong_launch_stays_wrong_if_a_later_one_fails(self):
        """ONNX Runtime fails in the search, or in the second stage."""
        g = Graph("batch")
        g.output(g.node("Add", [g.input("x", ["n", 8])] * 2, "y"), ["n", 8])
        model, once = self.write("batch.onnx", g.serialize()), self.path("once")
        program = self.write("second", (STAND_IN % "other").replace(
            "data = ", "os.path.exists(%r) and sys.exit('Not implemented')\nopen(%r, 'w').close()\ndata = " %
            (once, once), 1).encode())
        os.chmod(program, stat.S_IRWXU)
        search = "first wrong    the search ended with an error: ONNX Runtime failed: Not implemented\n"
        for reference in ("auto", "onnxruntime"):
            for options, message in (
                    (("--shape", "x=2,8", "--verify-first"), search),
                    (("--stage", "x=4,8", "--stage", "x=2,8"), "               not compared with --stage x=2,8: ")):
                if reference == "auto" and message != search:
                    continue
                code, out, err = self.npuc(model, "--verify", "-q", "--verify-reference", reference, *options,
                                           NPUC_ONNXRUNTIME=program)
                self.assertEqual(code, WRONG, out + err)
                self.assertRegex(out, r"(?m)^verdict +wrong$")
                self.assertIn(message, out)
                os.unlink(once)

    def test_onnx_runtime_fails_or_crashes(self):
        model = self.write("double.onnx", double())
        for kind, message in (("crash", "ONNX Runtime ended by signal 11"), ("fail", "Not implemented: this operator")):
            program = self.stand_in(kind)
            out = self.verified(model, NPUC_ONNXRUNTIME=program)
            self.assertIn("reference npuc's evaluator", out)
            self.assertIn("not compared with ONNX Runtime: ", out)
            self.assertIn(message, out)
            code, _, err = self.npuc(model, "--verify", "--verify-reference", "onnxruntime", NPUC_ONNXRUNTIME=program)
            self.assertEqual(code, FAILED)
            self.assertIn("--verify-reference onnxruntime: ", err)
            self.assertIn(message, err)
        code, _, err = self.npuc(model, "--verify", "--verify-reference", "onnxruntime", NPUC_ONNXRUNTIME="/none")
        self.assertEqual(code, FAILED)
        self.assertIn("cannot start /none", err)

    def test_data_behind_a_link_may_have_any_name(self):
        """The model is put into one folder with its data, for ONNX Runtime, and keeps its name."""
        kept = self.path("model.onnx")
        one = np.ones(8, np.float32)
        one.tofile(self.path("weights"))
        os.symlink(self.path("weights"), kept)
        g = Graph("double")
        with unittest.mock.patch("onnx_writer._tensor", external):
            g.output(g.node("Add", [g.node("Mul", [g.input("x", [2, 8]), g.const(one)])] * 2, "y"), [2, 8])
        model = self.write("double.onnx", g.serialize())
        out = self.verified(model, "--verify-reference", "onnxruntime", NPUC_ONNXRUNTIME=self.stand_in("right"))
        self.assertIn("reference ONNX Runtime 9.9.9\n", out)

    @unittest.skipUnless(os.path.exists(os.path.join(BIN, "..", "lib", "npuc-onnxruntime")), "make onnxruntime")
    def test_onnx_runtime_itself(self):
        for name, model, options in (("digits", DIGITS, ()), ("text", self.write("text.onnx", text_network()),
                                                              ("--dynamic", "--shape", "ids=2,20"))):
            with self.subTest(name):
                code, out, err = self.npuc(model, "--verify", "--verify-reference", "onnxruntime", "-q", *options)
                self.assertEqual(code, RIGHT, out + err)
                self.assertRegex(out, r"reference ONNX Runtime \d+\.\d+")

    def test_memory_that_is_missing_is_named(self):
        b = Builder("large", 2)
        x = b.op("MatMul", b.input([1024, 1]), b.uniform([1, 1024]))  # 4 MiB
        y = b.op("MatMul", b.op("Transpose", x, perm=[1, 0]), b.weights([1024, 8], 1024))
        b.output(b.op("MatMul", b.op("Transpose", y, perm=[1, 0]), x))
        model = self.write("large.onnx", b.graph.serialize())
        code, out, err = self.npuc(model, "-o", self.path("large.bmodel"), "--lmem", "64K", "--report", "json")
        self.assertEqual(code, 0, err)
        memory = json.loads(out)["stages"][0]["memory"]
        self.assertGreaterEqual(memory["activations"], 4 << 20)
        self.assertEqual(memory["launch"], sum(v for k, v in memory.items() if k != "launch"))
        run = [os.path.join(BIN, "bmrt_test"), "--bmodel", self.path("large.bmodel")]
        environment = {**os.environ, "NPU_DEVICE": "sim", "NPU_QUIET": "1"}
        done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=300,
                              env={**environment, "NPU_SIM": "ddr=4M"})
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"out of memory: requested .* free .*NPU_SIM=ddr=(\d+)M gives the simulated card "
                                      r"more; a launch needs \d+ MiB \(activations \d+ MiB, ")
        setting = re.search(r"NPU_SIM=(ddr=\d+M)", done.stderr).group(1)
        done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=300,
                              env={**environment, "NPU_SIM": setting})
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
