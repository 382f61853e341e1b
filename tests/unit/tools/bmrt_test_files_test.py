#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""bmrt_test with files: inputs as arrays, archives and pictures, results as JSON, and its trace against the records of
the chip's profile.

usage: bmrt_test_files_test.py BIN TOP
"""
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import jsonschema
import numpy as np

BIN, TOP = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(TOP, "tests", "oracle"))

# pylint: disable=wrong-import-position
import sample_files  # noqa: E402
from onnx_writer import Graph  # noqa: E402

DIGITS = os.path.join(TOP, "networks", "digits", "digits.onnx")
BY_CYCLES = 2000  # processes of a trace from there on are cards in cycles
COMMANDS = ("compute", "transfer", "synchronize")


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="npu-files-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def run_in_folder(self, program, *arguments, **environment):
        done = subprocess.run([os.path.join(BIN, program), *arguments], capture_output=True, text=True, check=False,
                              timeout=300, cwd=self.folder, env={**os.environ, "NPU_DEVICE": "sim", **environment})
        return done.returncode, done.stdout, done.stderr

    def compiled(self, content, *options):
        if not isinstance(content, str):
            with open(self.path("net.onnx"), "wb") as file:
                file.write(content)
            content = self.path("net.onnx")
        code, _, err = self.run_in_folder("npuc", content, "-q", "-o", "net.bmodel", *options)
        self.assertEqual(code, 0, err)

    def measured(self, *arguments, code=0):
        """The result as JSON."""
        status, out, err = self.run_in_folder("bmrt_test", "--bmodel", "net.bmodel", "--json", "r.json", *arguments)
        self.assertEqual(status, code, out + err)
        result = load(self.path("r.json"))
        jsonschema.validate(result, load(os.path.join(TOP, "docs", "reference", "schemas", "bmrt-test.schema.json")))
        self.assertEqual(result["status"], code)
        return result

    def outputs(self, dtype, *arguments):
        self.measured("--export_output", *arguments)
        return np.fromfile(self.path("output_ref_data.dat.bmrt_test"), dtype)


def sum_of_two():
    g = Graph("sum")
    g.output(g.node("Add", [g.input("a", [2, 3]), g.input("b", [1, 3])]), [2, 3])
    return g.serialize()


def same(shape, dtype=np.float32):
    """Doubles."""
    g = Graph("double")
    x = g.input("x", shape, dtype)
    g.output(g.node("Add", [x, x]), shape, dtype)
    return g.serialize()


class Inputs(Case):
    def test_arrays_by_name(self):
        self.compiled(sum_of_two())
        a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([[10, 20, 30]], np.float32)
        np.save(self.path("a.npy"), a)
        np.save(self.path("b.npy"), b.astype(np.float64))
        np.testing.assert_array_equal(self.outputs(np.float32, "--input", "a=a.npy", "--input", "b=b.npy"),
                                      (a + b).ravel())
        np.testing.assert_array_equal(self.outputs(np.float32, "--input", "b=b.npy"), np.tile(b.ravel(), 2))
        np.savez(self.path("both.npz"), a=a, b=b)
        np.testing.assert_array_equal(self.outputs(np.float32, "--input", "both.npz"), (a + b).ravel())
        np.testing.assert_array_equal(self.outputs(np.float32, "--input", "a=both.npz"), a.ravel())
        froms = [i["from"] for i in self.measured("--input", "a=a.npy")["cases"][0]["inputs"]]
        self.assertEqual(froms, ["a.npy", None])

    def test_one_input_needs_no_name(self):
        self.compiled(same([3, 2]))
        row = np.array([1, 2], np.int64)
        np.save(self.path("row.npy"), row)
        np.testing.assert_array_equal(self.outputs(np.float32, "--input", "row.npy"), np.tile(2 * row, 3))

    def test_pictures(self):
        pixels = sample_files.picture()
        with open(self.path("p.png"), "wb") as file:
            file.write(sample_files.png(pixels, 2))
        planes = pixels.transpose(2, 0, 1).astype(np.float32)
        self.compiled(same([1, 3, *pixels.shape[:2]]))
        np.testing.assert_allclose(self.outputs(np.float32, "--input", "p.png"), 2 * planes.ravel())
        np.testing.assert_allclose(self.outputs(np.float32, "--input", "x=p.png", "--preprocess", "scale=1/255"),
                                   2 * planes.ravel() / np.float32(255), rtol=1e-6)
        self.compiled(same([1, *pixels.shape[:2], 3]))
        np.testing.assert_allclose(self.outputs(np.float32, "--input", "p.png"), 2 * pixels.ravel().astype(np.float32))

    def test_integers(self):
        """Integers are taken as they are, other numbers by the input's scale."""
        numbers = np.array([[0, 0.6, 1, 0.25]], np.float32)
        g = Graph("net")
        scale, zero = g.const(np.float32(1 / 255)), g.const(np.uint8(0))
        y = g.node("DequantizeLinear", [g.node("QuantizeLinear", [g.input("x", [1, 4]), scale, zero]), scale, zero])
        g.output(g.node("Add", [y, y]), [1, 4])
        self.compiled(g.serialize(), "--input-type", "uint8")
        np.save(self.path("f.npy"), numbers)
        np.save(self.path("q.npy"), np.rint(numbers * 255).astype(np.uint8))
        np.save(self.path("i.npy"), np.rint(numbers * 255).astype(np.int64))
        np.save(self.path("large.npy"), np.array([[0, 1, 2, 300]]))
        results = [self.outputs(np.float32, "--input", name) for name in ("f.npy", "q.npy", "i.npy")]
        for result in results:
            np.testing.assert_allclose(result, 2 * numbers.ravel(), atol=0.005)
            np.testing.assert_array_equal(result, results[0])
        error = self.measured("--input", "large.npy", code=1)["error"]
        self.assertIn("element 3 is 300, which uint8 cannot hold", error)

    def test_errors_name_what_is_wrong(self):
        self.compiled(sum_of_two())
        np.save(self.path("wrong.npy"), np.zeros((3, 3), np.float32))
        np.save(self.path("a.npy"), np.zeros((2, 3), np.float32))
        np.savez(self.path("z.npz"), c=np.zeros(3))
        with open(self.path("p.png"), "wb") as file:
            file.write(sample_files.png(sample_files.picture(), 2))
        with open(self.path("bad.npy"), "wb") as file:
            file.write(b"nothing")
        for given, message in (
                ("a=wrong.npy", "input 'a': wrong.npy: it has the shape [3, 3], input 'a' has [2, 3]"),
                ("c=a.npy", "there is no input 'c', the inputs are 'a', 'b'"),
                ("a.npy", "say for which input, NAME=FILE; the inputs are 'a', 'b'"),
                ("a=none.npy", "input 'a': cannot read none.npy: No such file"),
                ("a=bad.npy", "input 'a': bad.npy: not a .npy file"),
                ("a=a.txt", "'a.txt': a file that ends in .npy, .npz, .png"),
                ("a=z.npz", "z.npz: it has no array 'a'"),
                ("a=p.png", "input 'a': it has the shape [2, 3], and a picture is for [batch, 1 or 3, height, width]")):
            with self.subTest(given):
                result = self.measured("--input", given, code=1)
                self.assertIn(message, result["error"])
                self.assertEqual((result["result"], result["cases"]), ("not run", []))
        larger = self.measured("--net_idx", "0", "--shapes", "[100000,3],[2,3]", "--input", "a=a.npy", code=1)
        self.assertIn("input 'a' has 6 elements, and not those of the shape [100000, 3] (--shapes)", larger["error"])
        twice = self.measured("--input", "a=a.npy", "--input", "a=wrong.npy", code=1)
        self.assertIn("input 'a' has two files, a.npy and wrong.npy", twice["error"])
        for wrong in (("--context_dir", "d", "--input", "a.npy"), ("--bmodel", "m", "--preprocess", "scale=1/255"),
                      ("--bmodel", "m", "--input", "p.png", "--preprocess", "size=1")):
            self.assertEqual(self.run_in_folder("bmrt_test", *wrong)[0], 2)
        self.assertEqual(self.run_in_folder("bmrt_test", "--bmodel", "net.bmodel", "--json", "/nonexistent/r")[0], 1)

    def test_latencies(self):
        self.compiled(DIGITS)
        result = self.measured("--loopnum", "4", "--thread_num", "2", "--calculate_times", "3")
        case = result["cases"][0]
        self.assertEqual(case["launches"], 24)
        times = [case["latency_us"][k] for k in ("min", "p50", "p90", "p99", "max")]
        self.assertEqual(times, sorted(times))
        self.assertGreater(times[0], 0)
        self.assertLessEqual(case["latency_us"]["mean"], times[-1])
        self.assertGreater(case["launches_per_second"], 0)
        _, out, _ = self.run_in_folder("bmrt_test", "--bmodel", "net.bmodel", "--loopnum", "3")
        self.assertRegex(out, r"net\[0\] stage\[0\], latency of 3 launches: p50 \d+ us, p90 \d+ us, p99 \d+ us, "
                              r"max \d+ us; [0-9.]+ launches/s\n")

    def test_comparisons(self):
        self.compiled(same([1, 4]))
        os.mkdir(self.path("case"))
        shutil.copy(self.path("net.bmodel"), self.path("case", "compilation.bmodel"))
        np.array([1, 2, 3, 4], np.float32).tofile(self.path("case", "input_ref_data.dat"))
        np.array([2, 4, 6, 9], np.float32).tofile(self.path("case", "output_ref_data.dat"))
        code, _, _ = self.run_in_folder("bmrt_test", "--context_dir", "case", "--json", "r.json")
        self.assertEqual(code, 4)
        result = load(self.path("r.json"))
        jsonschema.validate(result, load(os.path.join(TOP, "docs", "reference", "schemas", "bmrt-test.schema.json")))
        self.assertEqual((result["status"], result["result"]), (4, "mismatch"))
        found = result["cases"][0]["comparisons"][0]
        self.assertEqual((found["equal"], found["elements"], found["differing"], found["largest_difference"]),
                         (False, 4, 1, 1.0))
        self.assertIn("element 3", result["error"])


class References(Case):
    """Reference data of an ONNX file: integers of 64 bits, of which the network has 32."""

    def case(self, content, inputs, outputs):
        self.compiled(content)
        os.makedirs(self.path("case"), exist_ok=True)
        shutil.copy(self.path("net.bmodel"), self.path("case", "compilation.bmodel"))
        for name, arrays in (("input", inputs), ("output", outputs)):
            with open(self.path("case", name + "_ref_data.dat"), "wb") as file:
                for array in arrays:
                    file.write(array.tobytes())

    def ends(self, code, *arguments):
        status, out, err = self.run_in_folder("bmrt_test", "--context_dir", "case", *arguments)
        self.assertEqual(status, code, out + err)
        return err

    def test_wide_integers(self):
        g = Graph("net")
        x, ids = g.input("x", [2, 3]), g.input("ids", [3], np.int64)
        g.output(g.node("Add", [x, x]), [2, 3])
        g.output(g.node("Add", [ids, ids]), [3], np.int64)
        g.output(g.node("Greater", [x, x]), [2, 3], np.bool_)
        numbers, ids = np.arange(6, dtype=np.float32), np.array([1, -(1 << 30), 3], np.int64)
        outputs = [2 * numbers, 2 * ids, np.zeros(6, np.bool_)]
        for kind in np.int64, np.int32:
            self.case(g.serialize(), [numbers, ids.astype(kind)],
                      [v.astype(kind) if v.dtype == np.int64 else v for v in outputs])
            self.ends(0)
        outputs[1][2] += 1
        self.case(g.serialize(), [numbers, ids], outputs)
        self.assertIn("element 2 (index [2]): got 6, expected 7", self.ends(4))
        self.case(g.serialize(), [numbers, ids + (1 << 40)], outputs)
        self.assertEqual(self.ends(1), "bmrt_test: case/input_ref_data.dat: element 0 of 'ids' is 1099511627777 in 64 "
                                       "bits, which int32, the type in the network, cannot hold\n")
        self.case(g.serialize(), [numbers[:5], ids], outputs)
        self.assertEqual(self.ends(1), "bmrt_test: case/input_ref_data.dat: has 44 bytes, the tensors of the model "
                                       "need 36, or 48 with integers of 64 bits for those of 32: 'x' float32 [2, 3], "
                                       "24 bytes; 'ids' int32 [3], 12 bytes\n")
        self.assertIn("need 36 in float32 (--float_inputs): 'x' float32", self.ends(1, "--float_inputs"))

    def test_tiny_numbers(self):
        zeros = np.zeros(4, np.float32)
        self.case(same([4]), [zeros], [zeros + np.float32(1e-8)])
        self.ends(0)
        self.ends(4, "--accuracy_abs", "0")
        self.case(same([4]), [zeros], [zeros + np.float32(0.25)])
        self.ends(4)
        self.ends(0, "--accuracy_abs=0.3")


class Traces(Case):
    """The view by cycles is the chip's profile; the view by time is the same at the clock."""

    def trace(self, model, *options, launches=2):
        self.compiled(model, *options)
        self.cycles = self.measured("--profile", "--loopnum", str(launches))["cases"][0]["modelled_cycles"]
        return load(self.path("bmrt_test_profile.json"))

    @staticmethod
    def commands(events, by_cycles):
        return [e for e in events
                if e["ph"] == "X" and e["cat"] in COMMANDS and (e["pid"] >= BY_CYCLES) == by_cycles]

    def integral(self, events, name, unit):
        """Of a counter of the view by cycles."""
        steps = [(e["ts"], e["args"][unit]) for e in events
                 if e["ph"] == "C" and e["pid"] >= BY_CYCLES and e["name"] == name]
        self.assertEqual([at for at, _ in steps], sorted(at for at, _ in steps))
        self.assertEqual(steps[-1][1], 0)
        total = 0
        for (at, value), (end, _) in zip(steps, steps[1:]):
            total += value * (end - at)
        return total

    def test_views_and_counters(self):
        events = self.trace(DIGITS, "--lmem", "64K")
        jobs = [e for e in events if e["ph"] == "X" and e["cat"] == "launch"]
        by_cycles = [j for j in jobs if j["pid"] >= BY_CYCLES]
        self.assertEqual(len(jobs), 4)
        self.assertEqual([j["dur"] for j in by_cycles], [self.cycles, self.cycles])
        self.assertRegex(by_cycles[0]["args"]["inputs"], r"^image float32 \[1,1,8,8\]$")
        self.assertRegex(by_cycles[0]["args"]["outputs"], r" float32 \[1,10\]$")
        free = collections.defaultdict(int)
        for job in by_cycles:  # one behind the other on its core
            self.assertEqual(job["ts"], free[job["tid"]])
            free[job["tid"]] = job["ts"] + job["dur"]
        commands = self.commands(events, True)
        for c in commands:
            self.assertEqual(c["dur"], c["args"]["cycles"])
            self.assertEqual(c["ts"], int(c["ts"]))
        others = self.commands(events, False)
        self.assertEqual([(c["name"], c["cat"], c["args"]) for c in commands],
                         [(c["name"], c["cat"], c["args"]) for c in others])
        for c, other in zip(commands, others):  # a cycle is a nanosecond at 1000 MHz
            self.assertAlmostEqual(c["dur"] / 1000, other["dur"], delta=0.0011)
        for core in {c["tid"] // 4 for c in commands}:
            own = [c["args"] for c in commands if c["tid"] // 4 == core]
            moved = self.integral(events, f"core {core} memory", "bytes per cycle")
            total = sum(c["bytes"] for c in own)
            self.assertAlmostEqual(moved, total, delta=0.001 * self.cycles * 2)
            use = self.integral(events, f"core {core} MAC use", "percent")
            self.assertAlmostEqual(use / 100 * 2048, sum(c.get("macs", 0) for c in own),
                                   delta=0.001 * 2048 * self.cycles / 100 * 2)

    def test_commands_have_their_shapes(self):
        commands = self.commands(self.trace(DIGITS), True)
        convs = [c for c in commands if c["args"]["command"] == "CONV"]
        self.assertTrue(convs)
        for c in convs:
            sizes = dict(part.split("=") for part in c["args"]["shape"].split())
            n, oh, ow, oc, kh, kw, ic = (int(sizes[k]) for k in ("n", "oh", "ow", "oc", "kh", "kw", "ic"))
            self.assertEqual(c["args"]["macs"], n * oh * ow * oc * kh * kw * ic // int(sizes["groups"]))
            self.assertEqual(c["args"]["types"], "F32")
            self.assertEqual(c["cat"], "compute")
        copies = [c for c in commands if c["args"]["command"] == "COPY"]
        self.assertTrue(all(c["cat"] == "transfer" and "dims=[" in c["args"]["shape"] for c in copies))

    def test_cores_that_compute_together(self):
        g = Graph("net")
        w = g.const(np.zeros((64, 16, 3, 3), np.float32))
        x = g.node("Conv", [g.input("x", [1, 16, 32, 32]), w], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        g.output(g.node("Conv", [x, g.const(np.zeros((16, 64, 3, 3), np.float32))], kernel_shape=[3, 3]),
                 [1, 16, 30, 30])
        events = self.trace(g.serialize(), "--cores", "2", "--all-cores", launches=1)
        commands = self.commands(events, True)
        self.assertEqual(len({c["tid"] // 4 for c in commands}), 2)
        self.assertIn("synchronize", {c["cat"] for c in commands})
        self.assertTrue(all("shape" in c["args"] for c in commands if c["cat"] != "synchronize"))

    def test_calls_have_categories(self):
        events = self.trace(DIGITS)
        host = {(e["name"], e["cat"]) for e in events if e["ph"] == "X" and e["pid"] == 1}
        for call in (("submit", "submit"), ("bm_thread_sync", "wait"), ("copy to device", "copy"),
                     ("bmrt_load_bmodel", "call")):
            self.assertIn(call, host)


if __name__ == "__main__":
    unittest.main()
