#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Tests of what networks.py makes of files, results and times; it needs neither a card nor ONNX Runtime."""
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)

# pylint: disable=wrong-import-position
import networks  # noqa: E402  # finds the modules of tests/oracle
import numpy as np  # noqa: E402
import trace_jobs  # noqa: E402
import turns  # noqa: E402
from onnx_writer import Graph  # noqa: E402


class Folder(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def file(self, *shapes, dtype=np.float32):
        graph = Graph("net")
        for i, shape in enumerate(shapes):
            graph.output(graph.node("Identity", [graph.input(f"x{i}", shape, dtype)]))
        path = os.path.join(self.folder, "net.onnx")
        with open(path, "wb") as file:
            file.write(graph.serialize())
        return path

    def write(self, name, *arrays):
        with open(os.path.join(self.folder, name), "wb") as file:
            for array in arrays:
                file.write(array.tobytes())

    def read(self, name, dtype):
        with open(os.path.join(self.folder, name), "rb") as file:
            return np.frombuffer(file.read(), dtype)


class Files(Folder):
    def test_a_file_with_an_open_batch_has_those_that_are_wanted(self):
        path = self.file(["n", 3], [4])
        self.assertEqual(networks.batches(path, [1, 8]), [1, 8])
        net = networks.Net(path, 8, self.folder)
        self.assertEqual([i["dims"] for i in net.inputs], [[8, 3], [4]])
        self.assertEqual(net.shapes, ["--shape", "x0=8,3"])

    def test_a_file_with_a_batch_has_that_one(self):
        path = self.file([2, 3])
        self.assertEqual(networks.batches(path, [1, 8]), [2])
        self.assertEqual(networks.Net(path, 2, self.folder).shapes, [])
        self.assertEqual(networks.batches(self.file([]), [8]), [1])

    def test_other_open_dimensions_are_refused(self):
        with self.assertRaisesRegex(networks.Failed, "x0: dimensions are open"):
            networks.Net(self.file([1, "height"]), 1, self.folder)

    def test_both_sides_get_the_same_numbers_in_their_types(self):
        for dtype, narrowed in ((np.float32, np.float32), (np.int64, np.int32), (np.uint8, np.uint8)):
            networks.Net(self.file([2, 50], dtype=dtype), 2, self.folder).write_inputs()
            mine, peer = self.read("in", narrowed), self.read("in.peer", dtype)
            with self.subTest(dtype):
                self.assertEqual(mine.size, 100)
                self.assertGreater(len(set(mine.tolist())), 1)
                np.testing.assert_array_equal(mine, peer)


class Results(Folder):
    def compare(self, mine, peer, types):
        net = networks.Net(self.file([1]), 1, self.folder)
        self.write("out.sim", *mine)
        self.write("out.peer", *peer)
        net.compare("out.sim", types, 1e-3)

    def test_a_thousandth_of_the_largest_is_right(self):
        a = np.array([0, -200], np.float32)
        self.compare([a + np.float32(0.19)], [a], ["float32:2"])
        with self.assertRaisesRegex(networks.Failed, "output 0 differs"):
            self.compare([a + np.float32(0.21)], [a], ["float32:2"])

    def test_each_output_has_its_own_largest(self):
        a, b = np.array([1000], np.float32), np.array([1, 2], np.float32)
        self.compare([a, b], [a, b], ["float32:1", "float32:2"])
        with self.assertRaisesRegex(networks.Failed, "output 1 differs"):
            self.compare([a, b + np.float32(0.1)], [a, b], ["float32:1", "float32:2"])

    def test_nan_and_infinity_are_wrong(self):
        for value in (np.nan, np.inf):
            with self.subTest(value), self.assertRaisesRegex(networks.Failed, "differs"):
                self.compare([np.array([value], np.float32)], [np.array([1], np.float32)], ["float32:1"])

    def test_integers_that_the_compiler_narrows(self):
        self.compare([np.array([7], np.int32), np.array([1], np.uint8)],
                     [np.array([7], np.int64), np.array([True])], ["int64:1", "bool:1"])

    def test_missing_elements_and_more_of_them_are_wrong(self):
        a = np.array([1, 2], np.float32)
        for mine in ([a[:1]], [a, a]):
            with self.subTest(mine), self.assertRaises(networks.Failed):
                self.compare(mine, [a], ["float32:2"])


class Times(unittest.TestCase):
    def test_the_worst_pair_decides(self):
        ratios = turns.Ratios([(10, 10), (9, 10), (11, 10)], 1.1)
        self.assertEqual((ratios.median, ratios.best, ratios.worst), (1.0, 0.9, 1.1))
        self.assertEqual(ratios.verdict(), "aim 1.10: met")
        self.assertEqual(turns.Ratios([(10, 10), (12, 10), (9, 10)], 1).verdict(), "aim 1.00: MISSED by the worst pair")
        self.assertEqual(turns.Ratios([(12, 10)], 1).verdict(), "aim 1.00: MISSED by the median")

    def test_small_networks_have_another_aim(self):
        def line(peer_us):
            return list(networks.ratio_lines([{"network": "a", "batch": 1, "card": "sim", "us": [1.2 * peer_us],
                                               "cores": 1, "peer_us": {1: [peer_us]}}]))[1]
        self.assertIn("aim 1.50: met", line(3000))
        self.assertIn("aim 1.00: MISSED", line(3001))

    def test_only_equal_sides_have_an_aim(self):
        self.assertEqual([networks.aim(cores, threads, 3001) for cores in (1, 2) for threads in (1, 2)],
                         [1.0, None, 0.6, 1.0])
        self.assertIsNone(networks.aim(2, 1, 3000))

    def test_jobs_are_added_up(self):
        line = "7@100.%06d:npu_job job_%s: queue %d job %d cores 0x1\n".__mod__
        text = (line((0, "done", 1, 8)) + line((10, "start", 1, 9)) + "7@100.000011:npu_interrupt vector 1\n" +
                line((20, "start", 2, 9)) + line((25, "done", 2, 9)) + line((40, "done", 1, 9)) +
                line((50, "start", 1, 10)))
        self.assertAlmostEqual(trace_jobs.busy_us(text), 35, places=3)

    def test_a_clock_that_is_too_fast_is_noticed(self):
        class Host:
            now = 100.0

            def monotonic(self):
                return self.now

            def sleep(self, seconds):
                self.now += seconds

        class Board:
            def __init__(self, host):
                self.host = host

            def ask(self, _):
                self.host.now += 0.25
                return [str(7 + (self.host.now - 0.125) * 2.5e6)]

        host = Host()
        clock = turns.Clock(Board(host), host)
        self.assertAlmostEqual(clock.rate(), 2.5)
        self.assertEqual(host.now, 101.625)  # a second passes from the middle of the second question on

    def test_a_worker_that_ends_too_early_is_named(self):
        with self.assertRaisesRegex(turns.Ended, "time 1: false ended with status 1"):
            turns.Worker("false").ask("time 1")
        worker = turns.Worker("cat")
        self.assertEqual(worker.ask("1.5 2"), ["1.5", "2"])
        worker.end()


if __name__ == "__main__":
    unittest.main()
