# SPDX-License-Identifier: MIT
"""Random arguments: types, byte orders, strides, shapes, names, None, huge numbers. A call works or raises what the
documentation says; nothing is leaked, and the next call works.

usage: test_arguments.py --rounds N [--seed S]     more rounds; a failure names the seed and the round
"""
import argparse
import asyncio
import faulthandler
import gc
import os
import pathlib
import random
import sys
import tempfile
import unittest
import warnings

import numpy as np
import qnpu
import sophon.sail as sail
import support
from qnpu import compiler

DTYPES = ("float32", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32")


class Mine(Exception):
    """An exception of the caller's own objects, which comes through."""


class Rude:  # pylint: disable=too-few-public-methods
    """Fails where it is looked at."""

    def _fail(self, *_, **__):
        raise Mine

    __index__ = __float__ = __len__ = __iter__ = __array__ = __fspath__ = __bool__ = __hash__ = _fail

    def __repr__(self):
        return "Rude()"


DOCUMENTED = (qnpu.Error, TypeError, Mine)


class Values:
    """Arguments, most of them wrong."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.tensors = []

    def pick(self, *choices):
        return self.random.choice(choices)

    def number(self):
        return self.pick(0, 1, 2, 3, 8, 64, -1, -2, 255, 2**31 - 1, 2**31, 2**32, 2**62, 2**63, 2**64, 10**30, 0.5,
                         1e300, float("nan"), float("inf"), True, False, np.int8(3), np.uint64(2**63), np.float32(1.5),
                         1j)

    def text(self):
        return self.pick("", "image", "probabilities", "digits", "float32", "x", "a\0b", "\udcff", "\ud800", "\u00e4",
                         "n" * 5000, "image\n", b"image", "/", ".", "../..", "-o", "--help", "no-such.onnx", "%s%n")

    def shape(self):
        return self.pick((), (1,), [1, 1, 8, 8], (8, 8), (64,), 64, 8, [0], [-1, 64], (1,) * 9, (2**40,),
                         (2**31, 2**31), [2**64], (1.5,), ["8"], None, "88", np.array([8, 8]), np.int64(64), range(3),
                         Rude(), {1: 2},
                         (8, None), True, [[8, 8]], self.number(), tuple(self.random.choices(range(-1, 9), k=3)))

    def dtype(self):
        return self.pick(*DTYPES, "bfloat16", np.float32, np.dtype("int8"), ">f4", "<f4", float, int, None, object,
                         "M8[ns]", "S3", "U2", "f4,i4", [("a", "f4")], np.dtype((np.float32, (2,))), 5, Rude(), "",
                         "no such", "\0", np.float64(3), sail.BM_FLOAT32, self.number(), np.complex64, "float128")

    def array(self):
        """An array, in one of many forms."""
        shape = self.pick((1, 1, 8, 8), (1, 10), (64,), (8, 8), (10,), (1,), (), (0,), (3, 0, 2), (1,) * 9, (16, 16))
        kind = self.pick(*DTYPES, "float32", "float32", ">f4", ">i2", "float64", ">f8", "int64", "bool", "complex64",
                         "M8[s]", "S4", "U3", "f4,i4", "O", "float128")
        array = np.zeros(shape, kind)
        form = self.random.randrange(12)
        if form == 0:
            array = np.asfortranarray(array)
        elif form == 1 and array.ndim:
            array = array[::-1]
        elif form == 2 and array.ndim:
            array = np.repeat(array, 2, -1)[..., ::2]
        elif form == 3:
            array.flags.writeable = False
        elif form == 4:
            array = np.broadcast_to(np.zeros((), kind), self.pick((1, 1, 8, 8), (2**40,), (2**20, 2**20), (2**31,)))
        elif form == 5:
            array = np.ma.masked_array(array)
        elif form == 6:
            array = np.matrix(array) if array.ndim <= 2 and array.dtype.names is None else array
        elif form == 7 and array.dtype.kind not in "OMSUVc":
            array = np.lib.stride_tricks.as_strided(array, array.shape, tuple(-s for s in array.strides))
        elif form == 8:
            array = np.recarray(shape, [("a", "f4")])
        elif form == 9 and array.dtype.itemsize > 1:
            raw = np.zeros(array.nbytes + 1, np.uint8)[1:]
            array = raw.view(array.dtype).reshape(shape) if array.dtype.kind not in "O" else array
        return array

    def value(self):
        """An argument for a tensor."""
        kind = self.random.randrange(8)
        if kind < 4:
            return self.array()
        if kind == 4:
            return self.pick(*self.tensors) if self.tensors else None
        return self.pick(None, 5, "seven", b"123", bytes(256), bytearray(64), memoryview(bytes(64)), [0] * 64,
                         [[0.5] * 8] * 8, [None], [1, [2]], [10**400], [float("nan")] * 64, {}, {"image": 1}, set(),
                         Rude(), [Rude()], object(), range(64), (x for x in [1]), np.float32(1),
                         memoryview(bytes(64))[::2],
                         memoryview(np.zeros((8, 8), np.float32)), lambda: 0, qnpu, 1j, [1j], [["a"]], self.number())

    def feed(self):
        value = self.value()
        return self.pick(value, {"image": value}, {"image": value}, [value], (value, value), {self.text(): value},
                         {"image": value, "x": value}, {5: value}, [], {}, None)

    def named(self):
        """Keyword arguments of run()."""
        out = {}
        if self.random.random() < 0.2:
            out["network"] = self.pick(None, "digits", self.text(), self.number(), Rude())
        if self.random.random() < 0.4:
            out["out"] = self.pick(None, {"probabilities": self.value()}, {"probabilities": self.array()},
                                   {self.text(): self.array()}, [self.array()], self.text(), Rude())
        if self.random.random() < 0.2:
            out["cores"] = self.pick((), [0], [99], [2**40], "0", 1, [None], {0: 1}, [Rude()], [self.number()],
                                     range(2), [0] * 5000)
        for name in ("numbers", "on_device"):
            if self.random.random() < 0.2:
                out[name] = self.pick(True, False, 0, 1, 2, None, "yes", np.bool_(True), self.number(), Rude())
        if self.random.random() < 0.1:
            out[self.pick("x", "output_names", "input_feed", "run_options", "inputs")] = self.pick(None, self.feed())
        return out


class Calls:
    """Each method calls something with what `values` gives."""

    def __init__(self, session, folder, values):
        self.session, self.folder, self.values = session, folder, values

    def tensor_of_theirs(self):
        tensors = self.values.tensors
        return self.values.random.choice(tensors) if tensors else self.new_tensor()

    def new_tensor(self):
        tensor = qnpu.Tensor(self.session.device, (8, 8), self.values.random.choice(DTYPES))
        self.values.tensors = [*self.values.tensors[-4:], tensor]
        return tensor

    def run(self):
        self.session.run(self.values.feed(), **self.values.named())

    def run_as_onnx_runtime(self):
        v = self.values
        self.session.run(v.pick(None, [], ["probabilities"], [v.text()], v.text(), v.number(), Rude()), v.feed(),
                         *v.pick((), (None,), (1,), (None, None)), **v.named())

    def run_async(self):
        asyncio.run(self.session.run_async(self.values.feed(), **{
            key: value for key, value in self.values.named().items() if key in ("network", "out", "cores", "numbers")}))

    def tensor(self):
        v = self.values
        device = v.pick(self.session.device, self.session.device, 0, v.number(), None)
        v.tensors = [*v.tensors[-4:], qnpu.Tensor(device, v.shape(), v.dtype())]

    def view(self):
        v = self.values
        v.tensors = [*v.tensors[-4:], self.tensor_of_theirs().view(v.shape(), v.pick(0, 1, v.number()),
                                                                   v.pick(None, v.dtype()))]

    def copies(self):
        tensor = self.tensor_of_theirs()
        self.values.pick(tensor.copy_from, tensor.copy_to)(self.values.value())

    def copy(self):
        v = self.values
        v.pick(qnpu.tensor, qnpu.from_dlpack)(v.value(), v.pick(0, self.session.device, v.number(), v.text()))

    def conversions(self):
        v = self.values
        name = v.pick("image", "probabilities", v.text(), None)
        v.pick(self.session.quantize, self.session.dequantize)(name, v.value())

    def descriptions(self):
        v = self.values
        v.pick(self.session.tensor, self.session.network)(v.pick(v.text(), v.number(), Rude(), None))

    def device(self):
        qnpu.Device(self.values.pick(0, self.values.number(), self.values.text(), None))

    def new_session(self):
        v = self.values
        data = support.digits().data
        model = v.pick(support.digits(), v.text(), pathlib.Path("x"), v.value(), data[:v.pick(3, 100, 5000)])
        with qnpu.Session(model, device=v.pick(0, [0], [], v.number(), v.text()),
                          max_launches=v.pick(None, 1, v.number(), v.text())):
            pass

    def options(self):
        v = self.values
        value = v.pick(None, True, v.number(), v.text(), v.shape(), v.dtype(), v.value(), {v.text(): v.value()},
                       {"x": v.shape()}, {"x": v.dtype()}, [v.value()], [{v.text(): v.value()}])
        name = v.pick(*compiler.OPTIONS, v.text(), "help")
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            compiler.arguments({str(name).replace("-", "_"): value}, folder)

    def trace(self):
        with qnpu.trace(self.values.pick(self.values.text(), self.values.number(), None, Rude())):
            pass

    def plugin(self):
        qnpu.load_plugin(self.values.pick(self.values.text(), self.values.number(), None, Rude()))

    def sail_tensor(self):
        v = self.values
        what = v.pick((sail_handle(), v.shape()), (sail_handle(), v.shape(), v.dtype(), v.pick(True, False)),
                      (v.value(),), (sail_handle(), v.array()), (v.value(), v.shape()))
        sail.Tensor(*what)

    def all(self):
        return [getattr(self, name) for name in vars(type(self))
                if not name.startswith("_") and name not in ("all", "new_tensor", "tensor_of_theirs")]


def sail_handle():
    return sail.Handle(0)


def held():
    """Device memory of the process, and its open files."""
    gc.collect()
    return qnpu.Device(0).memory()["process"], len(os.listdir("/proc/self/fd"))


def rounds(folder, seed, count):
    """Raises AssertionError where a call raises something else, or where something is left behind."""
    picture, right = (array[0] for array in support.pictures())
    with qnpu.Session(support.digits()) as session:
        session.run(picture)
    before = held()
    outcomes = {True: 0, False: 0}
    with qnpu.Session(support.digits()) as session:
        values = Values(seed)
        calls = Calls(session, folder, values)
        for number in range(count):
            call = values.random.choice(calls.all())
            where = f"seed {seed}, round {number}, {call.__name__}"
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # numpy's, about the arrays
                    call()
                outcomes[True] += 1
            except DOCUMENTED as error:
                outcomes[False] += 1
                assert len(str(error)) < 12000, f"{where}: a text of {len(str(error))} characters"
            except BaseException as error:
                raise AssertionError(f"{where}: {type(error).__name__}: {error!s:.300}") from error
            if number % 16 == 0:
                assert np.abs(session.run(picture)[0] - right).max() < 1e-5, where
    del session, values, calls, call
    after = held()
    assert after == before, f"seed {seed}: bytes and files {before} before, {after} after"
    return outcomes


class Arguments(support.Test):
    def test_random_ones(self):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        outcomes = rounds(self.folder, 1, 600)
        self.assertGreater(min(outcomes.values()), 60, outcomes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    test = Arguments()
    test.setUp()
    try:
        os.chdir(test.folder)
        seeds = range(args.seed, args.seed + (args.rounds + 999) // 1000)
        for seed in seeds:
            faulthandler.dump_traceback_later(support.HANGS_AFTER, exit=True)  # for each seed
            print(f"seed {seed}: {rounds(test.folder, seed, min(args.rounds, 1000))}", flush=True)
        print(f"{len(seeds)} passed, 0 failed")
    finally:
        os.chdir("/")
        test.doCleanups()


if __name__ == "__main__":
    if "--rounds" in sys.argv:
        main()
    else:
        unittest.main()
