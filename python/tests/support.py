# SPDX-License-Identifier: MIT
"""What the tests share: networks, what they compute, and a watch over tests that must not hang."""
import faulthandler
import functools
import os
import sys
import tempfile
import time
import unittest

import numpy as np

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
DIGITS = os.path.join(TOP, "networks", "digits")
sys.path[1:1] = [os.path.join(TOP, "tests", "oracle")]

os.environ.setdefault("NPU_SIM", "ddr=512M")  # the same card on each host

import qnpu  # pylint: disable=wrong-import-position  # noqa: E402

# A test that waits for ever has failed: the stacks of all threads, and the end.
HANGS_AFTER = 600


class Test(unittest.TestCase):
    """With a folder of its own, and an end."""

    def setUp(self):
        faulthandler.dump_traceback_later(HANGS_AFTER, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)
        folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def fails(self, text, call, *arguments, kind=qnpu.Error, **named):
        """The call raises an error whose text has these words."""
        with self.assertRaises(kind) as caught:
            call(*arguments, **named)
        for part in [text] if isinstance(text, str) else text:
            self.assertIn(part, str(caught.exception))


def digits_model():
    return os.path.join(DIGITS, "digits.onnx")


@functools.lru_cache(maxsize=None)
def digits():
    """The compiled network."""
    return qnpu.compile(digits_model())


@functools.lru_cache(maxsize=None)
def pictures():
    """[400,1,1,8,8] and what the network's own arithmetic in float64 makes of them: [400,10]."""
    raw = np.fromfile(os.path.join(DIGITS, "test_images.bin"), np.uint8, offset=16)
    right = np.fromfile(os.path.join(DIGITS, "test_probs.bin"), "<f4").reshape(-1, 10)
    return (raw.reshape(-1, 1, 1, 8, 8)[:len(right)] / np.float32(16)).astype(np.float32), right


def evaluate(model, feeds):
    """What the tests' own evaluator of ONNX makes of a file's bytes."""
    import onnx_reader  # pylint: disable=import-outside-toplevel,import-error
    import onnx_ref  # pylint: disable=import-outside-toplevel,import-error
    return onnx_ref.evaluate(onnx_reader.parse_model(model), feeds)


def add_model(shape=(2, 3), dtype=np.float32):
    """a and b -> sum and product."""
    from onnx_writer import Graph  # pylint: disable=import-outside-toplevel,import-error
    graph = Graph("plus")
    a, b = graph.input("a", shape, dtype), graph.input("b", shape, dtype)
    graph.output(graph.node("Add", [a, b], "sum"), shape, dtype)
    graph.output(graph.node("Mul", [a, b], "product"), shape, dtype)
    return graph.serialize()


class Held:
    """Launches stay inside the runtime, before they reach the card, until release(): with BMRT_SAVE_IO_TENSORS each
    writes its inputs to a file, which is a pipe here that nobody reads. For tests that change to a folder of theirs."""

    def __init__(self, folder, session):
        self._runtime = session._runtime  # pylint: disable=protected-access
        self._before = os.getcwd()
        self._pipe = os.path.join(folder, "input_ref_data.dat.bmrt")
        os.chdir(folder)
        os.mkfifo(self._pipe)
        os.environ["BMRT_SAVE_IO_TENSORS"] = "1"
        self._reader = None

    def release(self):
        if self._reader is None:
            self._reader = os.open(self._pipe, os.O_RDWR)  # room for 64 KiB without anybody who reads

    def end(self):
        self.release()
        os.environ["BMRT_SAVE_IO_TENSORS"] = "0"
        wait_until(lambda: self._runtime.in_flight == 0)  # they write to the folder
        os.close(self._reader)
        os.chdir(self._before)


def wait_until(condition):
    """Lets other threads run until it is so; the watch over the test ends one that waits for ever."""
    while not condition():
        time.sleep(0.001)
