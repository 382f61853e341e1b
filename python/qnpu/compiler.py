# SPDX-License-Identifier: MIT
"""Compiling ONNX networks. The program npuc does it, in a process of its own."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import warnings
import zipfile
from typing import Any, Iterable, List, Mapping, Optional, Union

import numpy as np

from . import _native
from ._native import Error

PathLike = Union[str, "os.PathLike[str]"]

# npuc's options, and what the value of the keyword argument looks like; "True": there is none.
OPTIONS = {
    "shape": '{"x": (1, 3, 224, 224)}', "stage": '[{"x": (1, 8)}, {"x": (4, 8)}]', "input": '{"k": array}',
    "input-type": '"uint8"', "output-type": '"uint8"', "dynamic": "True", "dynamic-batch": "True",
    "quantize": '"int8"', "calibrate": "[array, ...]", "calibrate-count": "100", "calibrate-method": '"kl"',
    "calibration-table": '"FILE"', "save-table": '"FILE"', "preprocess": '{"resize": 256}', "symmetric": "True",
    "no-bias-correction": "True", "equalize": "True", "accuracy": '"cosine:0.99"', "labels": '"FILE"',
    "keep-float": '["node", ...]', "reals": '"fp16"', "cores": "2", "lmem": '"8M"', "turns": '"never"',
    "optimize": "20", "schedule": '"FILE"', "name": '"digits"', "io-alone": "True", "plugin": '"FILE"',
    "verify": "True", "verify-input": '{"x": array}', "verify-range": '{"x": (0, 1)}', "verify-seed": "2",
    "verify-reference": '"npuc"', "verify-bmodel": '"FILE"', "verify-first": "True",
}
REPEATED = ("shape", "stage", "input", "input-type", "output-type", "keep-float", "plugin", "verify-input",
            "verify-range")

_plugins: List[str] = []  # files that load_plugin() has loaded

_BMODEL_MAGIC = bytes.fromhex("eeaa55ff")


class CompileError(Error):
    """A network that cannot be compiled, or an option that is wrong; the text is the compiler's."""


class Model:
    """A compiled network: the bytes of a .bmodel, and what the compiler says about it."""

    def __init__(self, data: bytes, report: str) -> None:
        self.data = data
        self.report = report  #: as npuc prints it

    @property
    def cycles(self) -> int:
        """Modelled cycles of a launch (of the largest stage), as predicted; equal to what a launch takes. 0: the CPU
        computes the whole network."""
        found = [0 if n == "none" else int(n)
                 for n in re.findall(r"^cycles\s+(\d+|none)", self.report, re.MULTILINE)]
        if not found:
            raise Error("the compiler's report names no cycles")
        return max(found)

    def save(self, path: PathLike) -> None:
        """Writes the .bmodel."""
        with open(os.fsdecode(path), "wb") as file:  # an int would be a file descriptor
            file.write(self.data)

    def __repr__(self) -> str:
        return f"<qnpu.Model, {len(self.data)} bytes>"


def load_plugin(path: PathLike) -> None:
    """Loads a shared library with operators of your own, which are computed on the CPU (npu_plugin.h). Networks that
    have them can be compiled and run from now on, until the process ends."""
    try:
        text = os.path.abspath(os.fsdecode(path))
        name = os.fsencode(text)
    except TypeError:
        raise TypeError(f"load_plugin: path: {type(path).__name__}, expected a path") from None
    except ValueError as error:
        raise Error(f"load_plugin: path: {error}") from None
    if "\0" in text:
        raise Error(f"load_plugin: path: {text!r}: a NUL in it")
    _native.load_plugin(name)
    if text not in _plugins:
        _plugins.append(text)


def is_bmodel(head: bytes) -> bool:
    """Whether a file that begins like this is compiled already."""
    return head[:4] == _BMODEL_MAGIC


def as_bytes(model: Any) -> Any:
    """A view of memory as one of bytes that lie one behind the other, a copy where they do not; others as they are."""
    if not isinstance(model, memoryview):
        return model
    return model.cast("B") if model.c_contiguous else model.tobytes()


def program(name: str) -> str:
    """Where a program of QNPU's is: named by the environment (QNPU_NPUC), in the package, in the build tree, beside an
    installed package, or on PATH."""
    here = os.path.dirname(os.path.abspath(__file__))
    named = os.environ.get("QNPU_" + name.upper())
    places = [os.path.join(here, "bin", name), os.path.join(here, "..", "..", "bin", name),
              os.path.join(here, "..", "..", "..", "..", "bin", name)]
    for path in [named] if named else places:
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return os.path.normpath(path)
    found = None if named else shutil.which(name)
    if not found:
        raise CompileError(f"{named}: no such program (QNPU_{name.upper()})" if named
                           else f"the program {name} is neither beside the package nor on PATH; `make programs` "
                                "builds it in a checkout")
    return found


def _numbers(value: Any) -> str:
    return ",".join(str(v) for v in (value if isinstance(value, (tuple, list)) else [value]))


def _type_name(value: Any, short: bool) -> str:
    """npuc's name of a type: of "float32", numpy.float32, numpy.dtype("float32"). `short`: fp32 instead of float32."""
    name = str(value)
    if not isinstance(value, str):
        try:
            name = np.dtype(value).name if value is not None else name
        except (TypeError, ValueError):
            pass  # npuc says what is expected
    return {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}.get(name, name) if short else name


def _as_file(value: Any, where: str) -> "np.ndarray[Any, Any]":
    """An array as npuc reads it from a file: of numbers, row by row, in this machine's byte order."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise CompileError(f"{where}: {type(value).__name__} is no array: {error}") from None
    if array.dtype.kind not in "fiub":
        raise CompileError(f"{where}: dtype {array.dtype.name}, expected numbers")
    if array.nbytes >= 2**32:  # strides of 0 may make it larger than memory
        raise CompileError(f"{where}: shape {list(array.shape)}: {array.nbytes} bytes, expected less than 4 GiB")
    return np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)


def _shapes(value: Any, where: str) -> List[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        return value
    if not isinstance(value, Mapping):
        raise TypeError(f"{where}: {value!r:.40}: a dict of names and shapes is expected")
    return [f"{name}={_numbers(shape)}" for name, shape in value.items()]


def _values(option: str, value: Mapping[str, Any], folder: str) -> List[str]:
    texts = []
    for number, (name, constant) in enumerate(value.items()):
        if option == "verify_input" or isinstance(constant, np.ndarray):
            path = os.path.join(folder, f"{option}{number}.npy")
            np.save(path, _as_file(constant, f"{option} {name!r}"))
            texts.append(f"{name}={path}")
        else:
            texts.append(f"{name}={_numbers(constant)}")
    return texts


def _is_file_name(name: Any) -> bool:
    """Can a zip file hold it: UTF-8 without NUL, with 16 bits for its length?"""
    try:
        return isinstance(name, str) and 0 < len(name.encode()) < 60000 and "\0" not in name
    except UnicodeEncodeError:  # half a surrogate pair
        return False


def _save_arrays(path: str, arrays: Mapping[str, Any]) -> None:
    """An .npz file. numpy.savez has parameters of its own, which an input may have as its name."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            if not _is_file_name(name):
                raise CompileError(f"calibrate: {name!r:.40}: the name of an input is expected")
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.save(file, _as_file(array, f"calibrate: {name!r}"))


def _samples(samples: Iterable[Any], folder: str) -> str:
    """A folder with arrays, or with dicts of arrays, for the compiler."""
    path = os.path.join(folder, "samples")
    os.mkdir(path)
    free = shutil.disk_usage(path).free
    if isinstance(samples, np.ndarray) and samples.ndim and samples.nbytes + len(samples) * 4096 > free:
        raise CompileError(f"calibrate: shape {list(samples.shape)}: {len(samples)} samples, {samples.nbytes} bytes, "
                           f"but {path} has room for {free}")
    for number, sample in enumerate(samples):
        if isinstance(sample, Mapping):
            _save_arrays(os.path.join(path, f"{number:06}.npz"), sample)
        else:
            np.save(os.path.join(path, f"{number:06}.npy"), _as_file(sample, f"calibrate: sample {number}"))
    return path


def _option(name: str, value: Any, folder: str) -> List[str]:
    """The values with which an option is repeated."""
    if name == "shape":
        return _shapes(value, name)
    if name == "stage":
        stages = [value] if isinstance(value, (str, Mapping)) else value
        if not isinstance(stages, (list, tuple)):
            raise TypeError(f"stage: {stages!r:.40}: a list of dicts of names and shapes is expected")
        return [";".join(_shapes(stage, name)) for stage in stages]
    if name in ("input", "verify_input", "verify_range") and not isinstance(value, (str, os.PathLike, Mapping, list)):
        raise TypeError(f"{name}: {value!r:.40}: a dict of names and values is expected")
    if name in ("input", "verify_input") and isinstance(value, Mapping):
        return _values(name, value, folder)
    if name == "calibrate" and not isinstance(value, (str, os.PathLike)):
        if isinstance(value, (bytes, Mapping)) or not hasattr(value, "__iter__"):
            raise TypeError(f"calibrate: {value!r:.40}: a folder, or a list of arrays or of dicts of arrays is "
                            "expected")
        return [_samples(value, folder)]
    if name == "preprocess" and isinstance(value, Mapping):
        return [",".join(f"{key}={_numbers(v)}" for key, v in value.items())]
    if name in ("input_type", "output_type", "reals", "quantize"):
        short = name in ("reals", "quantize")
        if isinstance(value, Mapping):
            return [f"{key}={_type_name(v, short)}" for key, v in value.items()]
        return [_type_name(v, short) for v in (value if isinstance(value, (list, tuple)) else [value])]
    if isinstance(value, Mapping):
        return [f"{key}={_numbers(v)}" for key, v in value.items()]
    option = name.replace("_", "-")
    if isinstance(value, (list, tuple)) and option in OPTIONS and option not in REPEATED:
        raise TypeError(f"{name}: {value!r:.40}: one value is expected")
    return [str(v) for v in (value if isinstance(value, (list, tuple)) else [value])]


def arguments(options: Mapping[str, Any], folder: str) -> List[str]:
    """npuc's command line for keyword arguments; `folder` is for files that it reads."""
    line: List[str] = []
    for name, value in options.items():
        if name in ("help", "version"):
            raise CompileError(f"option {name!r}: it compiles nothing; 'npuc --{name}' prints it")
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            line.append(flag)
            continue
        for text in _option(name, value, folder):
            line += [f"{flag}={text}"]
    return line


def _model_file(model: Any, folder: str) -> str:
    if isinstance(model, (str, os.PathLike)):
        path = os.fsdecode(model)
        return os.path.join(os.curdir, path) if path.startswith("-") else path  # no option
    data = model.SerializeToString() if hasattr(model, "SerializeToString") else as_bytes(model)
    path = os.path.join(folder, "model.onnx")
    try:
        with open(path, "wb") as file:
            file.write(data)
    except (TypeError, ValueError, BufferError):  # no buffer, or one with gaps
        raise TypeError(f"{'None' if model is None else type(model).__name__} is no model: a path, the bytes of an "
                        "ONNX file or an onnx.ModelProto is expected; a Session also takes the bytes of a .bmodel and "
                        "a qnpu.Model") from None
    return path


# An option that npuc does not have.
_UNKNOWN = re.compile(r"--([a-z][a-z0-9-]*)(?:=.*?)?: unknown option", re.DOTALL | re.IGNORECASE)

# Lines in which npuc says how far it is, and what a search has found.
_PROGRESS = re.compile(r"^npuc: ([^:\n]+ \d+ of \d+| *\d+ s, \d+ schedules tried, .*)(\n|$)", re.MULTILINE)


def _reason(said: str, folder: str, options: Mapping[str, Any]) -> str:
    """The compiler's reason in the caller's words: without its progress, its name and files that it was given
    here, and with the keyword arguments for options that it names."""
    text = re.sub(r"^npuc: (error: )?|; see npuc --help$", "", _PROGRESS.sub("", said).strip())
    text = text.replace(os.path.join(folder, "model.onnx"), "the model").replace(folder + os.sep, "")
    unknown = _UNKNOWN.match(text)
    if unknown:  # a suggestion that follows is an option
        text = f"{unknown[1].replace('-', '_')}: unknown option{text[unknown.end():]}"
    keywords = []
    for name in dict.fromkeys(re.findall(r"(?<![\w-])--([a-z][a-z-]*)", text)):
        keyword = name.replace("-", "_")
        if name in OPTIONS or keyword in options:
            keywords.append(f"{keyword}={OPTIONS.get(name, '...')}")
    return text + (f"\nIn Python: {', '.join(keywords)}" if keywords else "")


def _warnings(said: str, report: str) -> List[str]:
    """Warnings on standard error, and those of a quantization, with which the report ends."""
    return re.findall(r"^npuc: warning: (.+)$", said, re.M) + re.findall(r"^warning +(.+)$", report, re.M)


# Statuses of npuc with --verify.
_WRONG, _UNCLEAR = 3, 4


def _verification(report: str, said: str) -> str:
    """The verdict of --verify and its reasons, without the tables; npuc's last line where a report replaces those."""
    at = report.rfind("\nverdict ")
    return report[at:].strip() if at >= 0 else re.sub(r"^npuc: ", "", said.strip().rpartition("\n")[2])


def compile(model: Any, output: Optional[PathLike] = None,  # pylint: disable=redefined-builtin
            **options: Any) -> Model:
    """Compiles an ONNX network.

    model: path, bytes of an ONNX file, or an onnx.ModelProto.
    output: path where the .bmodel is kept; without it the result is only in the returned object.
    options: those of npuc (man npuc), with _ for -: cores=2, reals="fp16", dynamic=True, optimize=20.
        shape={"x": (1, 3, 224, 224)}; stage=[{"x": (1, 8)}, {"x": (4, 8)}]; input={"k": array or numbers};
        input_type="uint8" or {"x": "uint8"}; quantize="int8" with calibrate=folder, or arrays, or dicts of arrays by
        the inputs' names; preprocess={"resize": 256, "mean": (123.7, 116.3, 103.5)}; keep_float=["node", ...].

    verify=True compares the outputs with ONNX Runtime's or the evaluator's, as npuc --verify does: wrong outputs raise
    CompileError, inputs that do not decide it are a warning, and the comparison is in the result's report.

    Raises CompileError with the compiler's reason, and TypeError for arguments of another kind.
    """
    if output is not None and not isinstance(output, (str, bytes, os.PathLike)):
        raise TypeError(f"output: {type(output).__name__}, expected a path")
    with tempfile.TemporaryDirectory(prefix="qnpu-") as folder:
        target = os.path.join(folder, "model.bmodel")
        line = [program("npuc"), _model_file(model, folder), "-o", target, *(f"--plugin={path}" for path in _plugins),
                *arguments(options, folder)]
        try:
            done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                                  encoding="utf-8", errors="replace")  # names of an ONNX file may be any bytes
        except (OSError, ValueError) as error:  # a text that is too long, has a NUL or half a surrogate pair
            raise CompileError(f"{line[0]}: it cannot be run with these arguments: {error}") from None
        if done.returncode == _WRONG:
            raise CompileError(_verification(done.stdout, done.stderr))
        if done.returncode == _UNCLEAR:
            warnings.warn(_verification(done.stdout, done.stderr), stacklevel=2)
        elif done.returncode != 0:
            raise CompileError(_reason(done.stderr, folder, options) or f"npuc ended with status {done.returncode}")
        for said in _warnings(done.stderr, done.stdout):
            warnings.warn(_reason(said, folder, options), stacklevel=2)
        try:
            with open(target, "rb") as file:
                compiled = Model(file.read(), done.stdout)
        except FileNotFoundError:
            raise CompileError(f"{line[0]}: it ended without an error and wrote no file; a .bmodel is "
                               "expected") from None
    if output is not None:
        compiled.save(output)
    return compiled
