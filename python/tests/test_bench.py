# SPDX-License-Identifier: MIT
"""The benchmark measures what it says, and its program says it."""
import contextlib
import csv
import io
import json
import re
import subprocess
import unittest

import numpy as np
import qnpu
from qnpu import bench, compiler
import support


class Bench(support.Test):
    def program(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = bench.main(list(arguments))
        return status, out.getvalue(), err.getvalue()

    def test_json_has_percentiles_throughput_and_cycles(self):
        path = self.path("digits.bmodel")
        support.digits().save(path)
        status, out, err = self.program(path, "--json", "--runs", "20", "--warmup", "2", "--threads", "2")
        self.assertEqual((status, err), (0, ""))
        (result,) = json.loads(out)
        self.assertEqual((result["network"], result["runs"], result["threads"], result["batch"], result["mode"]),
                         ("digits", 20, 2, 1, "sync"))
        latency = result["latency_ms"]
        order = [latency[key] for key in ("min", "p50", "p90", "p95", "p99", "max")]
        self.assertEqual(order, sorted(order))
        self.assertGreater(latency["min"], 0)
        self.assertGreater(result["throughput"]["launches"], 0)
        self.assertEqual(result["cycles"], support.digits().cycles)
        clock = qnpu.devices()[0]["clock_khz"]
        self.assertAlmostEqual(result["modelled"]["latency_ms"], support.digits().cycles / clock)

    def test_every_launch_is_made_and_counted(self):
        for how in ({"threads": 3}, {"threads": 5, "asynchronous": True}, {}):
            with qnpu.Session(support.digits()) as session:
                result = bench.measure(session, runs=17, warmup=4, **how)
                self.assertEqual(result["runs"], 17)
                self.assertEqual(session.profile()["completed"], 21)

    def test_table_of_several_models_and_stages(self):
        path = self.path("plus.onnx")
        with open(path, "wb") as file:
            file.write(support.add_model())
        status, out, _ = self.program(path, support.digits_model(), "--runs", "3")
        lines = out.splitlines()
        self.assertEqual((status, len(lines)), (0, 3))
        self.assertTrue(lines[0].startswith("model"))
        self.assertIn("cycles", lines[0])
        self.assertIn(str(support.digits().cycles), lines[2])
        status, out, _ = self.program(path, support.digits_model(), "--runs", "3", "--csv")
        rows = list(csv.DictReader(out.splitlines()))
        self.assertEqual([(row["network"], row["shapes"], row["runs"]) for row in rows],
                         [("plus", "2x3 2x3", "3"), ("digits", "1x1x8x8", "3")])
        self.assertEqual(int(rows[1]["cycles"]), support.digits().cycles)
        self.assertGreaterEqual(float(rows[1]["latency_ms_p99"]), float(rows[1]["latency_ms_p50"]))
        stages = [{"a": (n, 3), "b": (n, 3)} for n in (1, 4)]
        with qnpu.Session(support.add_model(("n", 3)), stage=stages) as session:
            self.assertEqual([bench.measure(session, stage=s, runs=2)["batch"] for s in (0, 1)], [1, 4])

    def test_compile_options_are_npuc_s(self):
        path = self.path("plus.onnx")
        with open(path, "wb") as file:
            file.write(support.add_model(("n", 3)))
        status, out, err = self.program(path, "--shape", "a=4,3", "--shape=b=4,3", "--dynamic", "--name", "other",
                                        "--runs", "2", "--csv")
        self.assertEqual((status, err), (0, ""))
        (row,) = csv.DictReader(out.splitlines())
        self.assertEqual((row["network"], row["shapes"]), ("other", "4x3 4x3"))
        status, _, err = self.program(path, "--reals", "fp7")
        self.assertEqual(status, 1)
        self.assertIn("--reals", err)
        path = self.path("digits.bmodel")
        support.digits().save(path)
        status, _, err = self.program(path, "--cores", "2")
        self.assertEqual((status, err), (1, "qnpu.bench: option 'cores': a .bmodel is compiled already\n"))

    def test_every_option_of_the_compiler_is_known(self):
        shown = subprocess.run([compiler.program("npuc"), "--help"], capture_output=True, text=True, check=True).stdout
        names = set(re.findall(r"^ +(?:-\w, )?--([a-z-]+)", shown, re.MULTILINE))
        others = {"help", "version", "output", "quiet", "explain", "report", "all-cores", "dump", "dump-asm",
                  "quantize-report"}
        self.assertEqual(names - others, set(compiler.OPTIONS))

    def test_errors(self):
        status, out, err = self.program(self.path("no-such.bmodel"))
        self.assertEqual((status, out), (1, ""))
        self.assertIn("no-such.bmodel", err)
        with self.assertRaises(SystemExit) as ended, contextlib.redirect_stderr(io.StringIO()) as printed:
            bench.main(["--runs", "x", "m.bmodel"])
        self.assertEqual((ended.exception.code, printed.getvalue()), (
            2, "qnpu.bench: argument --runs: invalid int value: 'x'; see python3 -m qnpu.bench --help\n"))
        with qnpu.Session(support.digits()) as session:
            self.fails("runs: 0", bench.measure, session, runs=0)
            self.fails("stage 1, expected 0 to 0", bench.measure, session, stage=1)
            for how in ({}, {"asynchronous": True}):
                self.fails("[1,3]", bench.measure, session, warmup=0, inputs={"image": np.zeros((1, 3), np.float32)},
                           threads=3, **how)


            class Broken:  # pylint: disable=too-few-public-methods
                """An exception of Python's in the threads."""

                def __array__(self, *_, **__):
                    raise KeyError("broken")

            for how in ({}, {"asynchronous": True}):
                with self.assertRaisesRegex(KeyError, "broken"):
                    bench.measure(session, warmup=0, inputs={"image": Broken()}, threads=3, **how)


if __name__ == "__main__":
    unittest.main()
