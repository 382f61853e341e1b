# SPDX-License-Identifier: MIT
"""Loaded models, and launches of their networks."""
from __future__ import annotations

import asyncio
import atexit
import contextlib
import gc
import math
import operator
import os
import sys
import tempfile
import threading
import weakref
from typing import (Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, NoReturn, Optional, Sequence, Tuple,
                    Union, overload)

import numpy as np

from . import _native
from ._native import Device, Error, Tensor
from .compiler import Model, PathLike, as_bytes, is_bmodel
from .compiler import compile as compile_onnx
from .compiler import load_plugin
from .device import Profile

Array = np.ndarray  # of any type
Value = Union["np.ndarray[Any, Any]", Tensor]


class TensorInfo(NamedTuple):
    """An input or output of a network."""

    name: str
    dtype: str  # numpy's name; bfloat16, which numpy does not have, is passed as its bits in uint16
    shapes: Tuple[Tuple[int, ...], ...]  # elements, outermost first; of each stage; of dynamic networks the largest
    scale: float  # of integers: what numbers are multiplied by (input), what elements are (output); else 1
    zero_point: int
    device: int = 0  # where it lies: its place among the session's devices; distributed networks have several

    @property
    def shape(self) -> Tuple[int, ...]:
        """That of the first stage."""
        return self.shapes[0]


class NodeArg(NamedTuple):
    """An input or output as ONNX Runtime describes it."""

    name: str
    shape: List[int]  # the first stage's
    type: str  # "tensor(float)"


class NetworkInfo(NamedTuple):
    """A network of a model."""

    name: str
    inputs: Tuple[TensorInfo, ...]
    outputs: Tuple[TensorInfo, ...]
    stages: int
    dynamic: bool  # launches may have other shapes than those of a stage, up to these
    cores: int  # that a launch takes


def there_are(names: Iterable[str]) -> str:
    """The end of an error about a name that is not among these."""
    listed = ", ".join(f"'{name}'" for name in names)
    return f"there are: {listed}" if listed else "there are none"


class Outputs(Dict[str, Any]):
    """What a launch gave: arrays (or tensors) by their names, in the network's order; also by their places in it, as
    outputs[0] and outputs[-1]."""

    cycles: int  #: modelled cycles of the launch

    def __init__(self, values: Mapping[str, Any], cycles: int) -> None:
        super().__init__(values)
        self.cycles = cycles

    def __missing__(self, key: Any) -> Any:
        if not hasattr(key, "__index__"):
            raise KeyError(f"output {key!r} does not exist; {there_are(self)}")
        if not -len(self) <= operator.index(key) < len(self):
            raise IndexError(f"output {key}: {there_are(self)}")
        return list(self.values())[operator.index(key)]


_INT_MAX = 2**31 - 1
_tracing = threading.Lock()
_sessions: "weakref.WeakSet[Session]" = weakref.WeakSet()


def _close_all() -> None:
    for session in list(_sessions):
        session.close()
    _native.end()


def _forked() -> None:
    """In a forked process the other threads are not there, neither those in the library nor those with a mutex."""
    _native.forked()
    for session in list(_sessions):
        session._mutex = threading.Lock()  # pylint: disable=protected-access


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forked)


def _type_name(value: Any) -> str:
    return type(value).__name__


def _open_device(device: Any) -> Device:
    if isinstance(device, Device):
        return device
    if not hasattr(device, "__index__"):
        raise TypeError(f"device: {_type_name(device)}, expected a number or a qnpu.Device")
    return Device(device)


def _integer(value: Any, where: str, least: int) -> int:
    """An argument that becomes a C int."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{where}: {value!r:.40}, expected an integer") from None
    if not least <= number <= _INT_MAX:
        raise Error(f"{where}: {number}, expected {least} to {_INT_MAX}")
    return number


def _cores(cores: Any) -> List[int]:
    if isinstance(cores, (str, bytes, Mapping)) or not hasattr(cores, "__iter__"):
        raise TypeError(f"cores: {cores!r:.40}, expected a list of numbers")
    return [_integer(core, "cores", 0) for core in cores]


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, (bool, int, np.bool_, np.integer)) or value not in (0, 1):
        raise TypeError(f"{where}: {value!r:.40}, expected True or False")
    return bool(value)


def exact(value: Any, target: "np.dtype[Any]") -> "np.ndarray[Any, Any]":
    """Numbers and lists of them as an array of a type. ValueError for those that an integer type does not have, or that
    are too large for a floating-point one."""
    given = np.asarray(value)
    if given.dtype.kind == "O" and all(isinstance(one, (int, float)) for one in given.flat):
        with contextlib.suppress(OverflowError):  # integers of more than 64 bits
            given = given.astype(np.float64)
    if given.size == 0:
        return given.astype(target)
    if given.dtype.kind not in "fiub":
        raise ValueError("numbers are expected")
    if target.kind == "f":
        with np.errstate(over="ignore"):
            made = given.astype(target)
        wrong = np.isinf(made) & np.isfinite(given)
        expected = f"{target.name} has at most {np.finfo(target).max:g}"
    else:
        least, most = int(np.iinfo(target).min), int(np.iinfo(target).max)
        wrong = (given < least) | (given > most) if given.dtype.kind != "b" else np.zeros(given.shape, bool)
        if given.dtype.kind == "f":
            wrong = wrong | ~np.isfinite(given) | (np.rint(given) != given)
        made = np.where(wrong, np.zeros((), given.dtype), given).astype(target)
        expected = f"{target.name} has integers from {least} to {most}"
    if wrong.any():
        raise ValueError(f"{given[wrong].flat[0]}: {expected}")
    return made


def _is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, Tensor, bytes, bytearray, memoryview)) or any(
        hasattr(value, name) for name in ("__dlpack__", "__array_interface__", "__array__"))


_MOST_BYTES = 2**32 - 1  # a tensor's


def as_array(value: Any, dtype: str, where: str, most: Optional[int] = None) -> "np.ndarray[Any, Any]":
    """What the runtime can copy from: the value itself where it is a dense array. Numbers and lists get `dtype`, which
    must hold them. `where` is for the text of an error. An array of more than `most` elements is not copied: one with
    strides of 0 may be larger than memory."""
    target = np.dtype("uint16" if dtype == "bfloat16" else dtype)
    listed = not _is_array(value)
    try:
        if isinstance(value, np.ndarray):
            pass
        elif isinstance(value, Tensor):
            value = np.asarray(value)  # bfloat16 too, for which numpy has no DLPack
        elif hasattr(value, "__dlpack__"):
            value = np.from_dlpack(value)
        elif isinstance(value, bytes):
            value = np.frombuffer(value, np.uint8)  # asarray() would make it a text
        else:
            value = exact(value, target) if listed else np.asarray(value)
    except (TypeError, ValueError, BufferError, RuntimeError, OverflowError) as error:
        raise Error(f"{where}: {_type_name(value)} is no array"
                    + (f" of {dtype}: {error}" if listed else f": {error}")) from None
    if value.flags.c_contiguous and value.dtype.isnative:
        return value  # type: ignore[no-any-return]
    if most is not None and value.size > most:
        raise Error(f"{where}: shape {list(value.shape)}: {value.size} elements, expected at most {most}")
    if value.nbytes > _MOST_BYTES:
        raise Error(f"{where}: shape {list(value.shape)}: {value.nbytes} bytes, expected less than 4 GiB")
    return np.array(value, dtype=value.dtype.newbyteorder("="), order="C", copy=True)


class _Pending(NamedTuple):
    """A launch that somebody awaits, and the arrays that it reads and writes."""

    future: "asyncio.Future[Outputs]"
    network: NetworkInfo
    inputs: List[Any]
    outputs: List[Any]


class _EventLoop:
    """The launches that one event loop awaits."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.completions = _native.Completions()
        self.pending: Dict[_native.Job, _Pending] = {}
        self.reading = False

    def add(self, job: _native.Job, pending: _Pending) -> None:
        self.pending[job] = pending  # from now on its arrays live as long as it wants them
        self.read()
        pending.future.add_done_callback(lambda future: job.forget() if future.cancelled() else None)

    def read(self) -> None:
        """From now on the loop hears of launches that are done."""
        if self.reading:
            return
        try:
            self.loop.add_reader(self.completions.fd, self.ready)
        except NotImplementedError:
            raise Error(f"run_async: {_type_name(self.loop)} has no add_reader(); a loop of asyncio that watches files "
                        "is expected") from None
        self.reading = True

    def rest(self) -> None:
        """Until the next launch there is nothing to hear."""
        if self.reading and not self.pending:
            self.loop.remove_reader(self.completions.fd)
            self.reading = False

    def ready(self) -> None:
        """Some are done. Each ends whatever becomes of the others; what ends the program (KeyboardInterrupt) goes on,
        once all have."""
        ending: Optional[BaseException] = None
        for job in self.completions.take():
            what = self.pending.pop(job)
            if what.future.done():
                continue
            try:
                values, cycles = job.result(what.outputs)
                what.future.set_result(_outputs(what.network, values, cycles))
            except BaseException as error:  # pylint: disable=broad-exception-caught  # whoever awaits it gets it
                what.future.set_exception(error)
                if not isinstance(error, Exception):
                    ending = error
        self.rest()
        if ending is not None:
            raise ending

    def forget_done(self) -> None:
        """Of a loop that was closed: nobody reads any more."""
        for job in self.completions.take():
            self.pending.pop(job)


def _outputs(network: NetworkInfo, values: Sequence[Any], cycles: int) -> Outputs:
    return Outputs({info.name: value for info, value in zip(network.outputs, values)}, cycles)


def _names(infos: Sequence[TensorInfo]) -> List[str]:
    return [info.name for info in infos]


def _node_args(infos: Sequence[TensorInfo]) -> List[NodeArg]:
    return [NodeArg(info.name, list(info.shape), f"tensor({'float' if info.dtype == 'float32' else info.dtype})")
            for info in infos]


def _bind(arguments: Sequence[Any], named: Dict[str, Any]) -> Tuple[Any, Any, bool]:
    """The inputs and the outputs' names of a call of run(), and whether it is one in the style of ONNX Runtime."""
    as_there = ("output_names", "input_feed", "run_options")
    styled = len(arguments) > 1 or any(name in named for name in as_there)
    names, feed = (as_there, "input_feed") if styled else (("inputs",), "inputs")
    if len(arguments) > len(names):
        raise TypeError(f"run: {len(arguments)} positional arguments, expected at most {len(names)}: "
                        + ", ".join(names))
    for name, value in zip(names, arguments):
        if name in named:
            raise TypeError(f"run: {name} is given twice")
        named[name] = value
    for name in named:
        if name not in names:
            raise TypeError(f"run: unexpected argument {name!r}; run(inputs, *, network, out, cores, numbers, "
                            "on_device) and run(output_names, input_feed) are expected")
    if feed not in named:
        raise TypeError(f"run: {feed} is missing")
    if named.get("run_options") is not None:
        raise TypeError(f"run: run_options: {_type_name(named['run_options'])}, expected None")
    return named[feed], named.get("output_names"), styled


def _selected(outputs: Outputs, output_names: Any) -> List[Any]:
    """The outputs that run(output_names, input_feed) returns; all for None and for an empty list, as there."""
    return [outputs[name] for name in output_names or outputs]


def _check_output_names(net: NetworkInfo, output_names: Any) -> None:
    if output_names is None:
        return
    if not isinstance(output_names, (list, tuple)) or not all(isinstance(name, str) for name in output_names):
        raise TypeError(f"network '{net.name}': output_names: {output_names!r:.40}, expected None or a list of names")
    for name in output_names:
        _index(net, net.outputs, name, "output")


def _in_order(values: Mapping[str, Any], infos: Sequence[TensorInfo], where: str) -> List[Any]:
    """The values by the order of their tensors, None for those that are not there."""
    unknown = [name for name in values if all(name != info.name for info in infos)]
    if unknown:
        raise Error(f"{where} {unknown[0]!r} does not exist; {there_are(_names(infos))}")
    return [values.get(info.name) for info in infos]


def _index(net: NetworkInfo, infos: Sequence[TensorInfo], name: str, side: str) -> int:
    for index, info in enumerate(infos):
        if info.name == name:
            return index
    raise Error(f"network '{net.name}' {side} {name!r} does not exist; {there_are(_names(infos))}")


class Session:
    """A model on a device.

    model: path or bytes of a .bmodel, a qnpu.Model, or a network in ONNX (path, bytes, onnx.ModelProto), which is
        compiled now; the result is kept in memory only (qnpu.compile(..., output=) keeps it in a file).
    device: number, or Device object; for distributed networks a list of them.
    max_launches: so many launches of a network have activation memory at the same time (16); others wait for it.
    compile_options: of networks in ONNX, see qnpu.compile; plugin="FILE" is also for compiled ones (qnpu.load_plugin).

    Close it, use it in `with`, or leave it to Python. Any number of threads may use it at once.
    """

    def __init__(self, model: Any, *, device: Union[int, Device, Sequence[Union[int, Device]]] = 0,
                 max_launches: Optional[int] = None, **compile_options: Any) -> None:
        self._mutex = threading.Lock()
        self._lanes: Optional[_native.Lanes] = None
        self._loops: List[_EventLoop] = []
        self._runtime: Optional[_native.Runtime] = None
        self.report: Optional[str] = None  #: what the compiler says of a network that was compiled here
        plugins = compile_options.pop("plugin", None) or ()
        for plugin in plugins if isinstance(plugins, (list, tuple)) else [plugins]:
            load_plugin(plugin)
        listed = list(device) if isinstance(device, (list, tuple)) else [device]
        if not listed:
            raise Error("device: an empty list; at least one device is expected")
        if max_launches is not None:
            max_launches = _integer(max_launches, "max_launches", 1)
        self._devices = [_open_device(d) for d in listed]
        self._own = not any(isinstance(d, Device) for d in listed)
        self._index = self._devices[0].index
        self._pid = os.getpid()
        self._profile: Optional[Profile] = None  # once it is closed
        runtime = _native.Runtime(self._devices)
        if max_launches is not None:
            runtime.set_max_launches(max_launches)
        self._load(runtime, model, compile_options)
        self._runtime = runtime
        self._networks = {name: _network(runtime.network(name)) for name in runtime.names()}
        _sessions.add(self)

    def _load(self, runtime: _native.Runtime, model: Any, options: Mapping[str, Any]) -> None:
        if isinstance(model, (str, os.PathLike)):
            model = os.fsdecode(model)
            try:
                with open(model, "rb") as file:
                    compiled = is_bmodel(file.read(4)) or model.endswith(".bmodel")
            except OSError as error:
                raise Error(f"{model}: {error.strerror}") from None
            except ValueError as error:  # a NUL in the path, or half a surrogate pair
                raise Error(f"{model!r}: {error}") from None
        else:
            model = as_bytes(model)
            compiled = isinstance(model, Model) or (isinstance(model, (bytes, bytearray, memoryview))
                                                    and is_bmodel(bytes(model[:4])))
        if compiled and options:
            raise Error(f"option {next(iter(options))!r}: a .bmodel is compiled already")
        if not compiled:
            model = compile_onnx(model, **options)
            self.report = model.report
        if isinstance(model, str):
            runtime.load(os.fsencode(model))
        else:
            runtime.load_data(model.data if isinstance(model, Model) else model)

    # ---- what it is ----

    @property
    def device(self) -> Device:
        """The (first) device, with its memory, sensors and this session's profile; of a session that is closed another
        object of the same device."""
        with self._mutex:
            if not self._devices:
                self._devices = [Device(self._index)]
            return self._devices[0]

    @property
    def networks(self) -> Tuple[str, ...]:
        """Names of the model's networks."""
        return tuple(self._networks)

    def network(self, name: Optional[str] = None) -> NetworkInfo:
        """A network; without a name the first."""
        if name is None:
            return next(iter(self._networks.values()))
        if not isinstance(name, str):
            raise TypeError(f"network: {_type_name(name)}, expected a name (str)")
        try:
            return self._networks[name]
        except KeyError:
            raise Error(f"network {name!r} is not in the model; {there_are(self._networks)}") from None

    @property
    def inputs(self) -> Tuple[TensorInfo, ...]:
        """Of the first network."""
        return self.network().inputs

    @property
    def outputs(self) -> Tuple[TensorInfo, ...]:
        """Of the first network."""
        return self.network().outputs

    def get_inputs(self) -> List[NodeArg]:
        """Inputs of the first network, described as in ONNX Runtime: name, shape, type ("tensor(float)")."""
        return _node_args(self.inputs)

    def get_outputs(self) -> List[NodeArg]:
        """Outputs of the first network, described as in ONNX Runtime."""
        return _node_args(self.outputs)

    @property
    def in_flight(self) -> int:
        """Launches that are on their way at this moment."""
        return self._open().in_flight

    def profile(self) -> Profile:
        """What this session (with one Device object, all that use it) has done so far."""
        with self._mutex:
            return self._profile or self._devices[0].profile()

    def tensor(self, name: str, network: Optional[str] = None) -> Tensor:
        """Zeros in device memory, with type and shape of an input or output."""
        self._open()
        net = self.network(network)
        devices = list(self._devices)
        for info in (*net.inputs, *net.outputs):
            if info.name == name:
                return Tensor(devices[info.device], info.shape, info.dtype)
        raise Error(f"network '{net.name}': tensor {name!r} does not exist; "
                    + there_are(_names((*net.inputs, *net.outputs))))

    def quantize(self, name: str, numbers: Any, network: Optional[str] = None) -> "np.ndarray[Any, Any]":
        """Elements of an input for numbers (float32): as ONNX's QuantizeLinear with the model's scale and zero point;
        for float16 and bfloat16 rounded."""
        net = self.network(network)
        index = _index(net, net.inputs, name, "input")
        where = f"network '{net.name}' input '{name}'"
        array = as_array(numbers, "float32", where)
        if array.dtype.kind not in "fiub":
            raise Error(f"{where}: dtype {array.dtype.name}, expected numbers")
        if 4 * array.size > _MOST_BYTES:
            raise Error(f"{where}: shape {list(array.shape)}, expected less than 4 GiB of float32")
        return self._open().quantize(net.name, index, array)

    def dequantize(self, name: str, elements: Any, network: Optional[str] = None) -> "np.ndarray[Any, Any]":
        """Numbers (float32) that elements of an output stand for."""
        net = self.network(network)
        index = _index(net, net.outputs, name, "output")
        return self._open().dequantize(net.name, index, as_array(
            elements, net.outputs[index].dtype, f"network '{net.name}' output '{name}'"))

    def _open(self) -> _native.Runtime:
        if self._runtime is None:
            raise Error("the session is closed")
        return self._runtime

    # ---- launches ----

    @overload
    def run(self, inputs: Any, *, network: Optional[str] = ..., out: Optional[Mapping[str, Value]] = ...,
            cores: Sequence[int] = ..., numbers: bool = ..., on_device: bool = ...) -> Outputs: ...

    @overload
    def run(self, output_names: Optional[Sequence[str]], input_feed: Any, run_options: None = ..., *,
            network: Optional[str] = ..., out: Optional[Mapping[str, Value]] = ..., cores: Sequence[int] = ...,
            numbers: bool = ..., on_device: bool = ...) -> List[Any]: ...

    def run(self, *arguments: Any, network: Optional[str] = None, out: Optional[Mapping[str, Value]] = None,
            cores: Sequence[int] = (), numbers: bool = False, on_device: bool = False, **named: Any) -> Any:
        """Launches a network and waits for its outputs: run(inputs), or run(output_names, input_feed) as ONNX Runtime.

        inputs: arrays or qnpu.Tensor by their names; or in the network's order in a list or tuple; or the only input
            itself. Type and shape must be the network's (a network with one stage takes any shape with as many
            elements). C-contiguous arrays are copied to the device as they are; others are made dense first. Tensors
            are on the device already. Whatever has __dlpack__ or __array__ is looked at without a copy.
        network: its name; without, the model's first.
        out: C-contiguous arrays or tensors that some of the outputs are written to.
        cores: numbers of those to run on, for networks that take some of the card's.
        numbers: all arrays are float32, whatever the network's types are: converted as the model's scales say.
        on_device: outputs stay in device memory, as qnpu.Tensor.
        output_names: None for all outputs, or a list of names. input_feed: as inputs. run_options: None.

        Returns Outputs: a dict with new arrays (or what `out` had), and the modelled cycles. With output_names and
        input_feed a list: the outputs in the order of these names.
        """
        inputs, output_names, styled = _bind(arguments, named)
        runtime = self._open()
        numbers, on_device = _flag(numbers, "numbers"), _flag(on_device, "on_device")
        _check_output_names(self.network(network), output_names)
        net, feeds, places = self._arguments(inputs, network, out, numbers)
        values, cycles = runtime.launch(net.name, feeds, places, _cores(cores), numbers, on_device)
        outputs = _outputs(net, values, cycles)
        return _selected(outputs, output_names) if styled else outputs

    async def run_async(self, inputs: Any, *, network: Optional[str] = None,
                        out: Optional[Mapping[str, Value]] = None, cores: Sequence[int] = (), numbers: bool = False,
                        on_device: bool = False) -> Outputs:
        """The same for `await`. Launches begin in the order of these calls, as many side by side as the session has
        lanes (8), and end in any. Arrays must not be changed meanwhile. One that is cancelled before it has begun is
        left out; otherwise it goes on, and its outputs are dropped: arrays of `out` are not written any more once
        whoever awaits it has seen the cancellation, tensors are until the launch has ended."""
        runtime = self._open()
        numbers, on_device, listed = _flag(numbers, "numbers"), _flag(on_device, "on_device"), _cores(cores)
        net, feeds, places = self._arguments(inputs, network, out, numbers)
        state, lanes = self._state(asyncio.get_running_loop())
        future: "asyncio.Future[Outputs]" = state.loop.create_future()
        pending = _Pending(future, net, feeds, places)
        state.read()
        try:
            job = lanes.submit(runtime, state.completions, net.name, feeds, places, listed, numbers, on_device)
        except BaseException:
            state.rest()
            raise
        state.add(job, pending)
        return await future

    def _state(self, loop: asyncio.AbstractEventLoop) -> Tuple[_EventLoop, _native.Lanes]:
        with self._mutex:
            self._open()
            if self._lanes is None:
                self._lanes = _native.Lanes()
            for state in [s for s in self._loops if s.loop.is_closed()]:
                state.forget_done()
                if not state.pending:
                    self._loops.remove(state)
            for state in self._loops:
                if state.loop is loop:
                    return state, self._lanes
            self._loops.append(_EventLoop(loop))
            return self._loops[-1], self._lanes

    def _arguments(self, inputs: Any, network: Optional[str], out: Optional[Mapping[str, Value]],
                   numbers: bool) -> Tuple[NetworkInfo, List[Any], List[Any]]:
        net = self.network(network)
        where = f"network '{net.name}'"
        if isinstance(inputs, Mapping):
            values = _in_order(inputs, net.inputs, where + " input")
            for info, value in zip(net.inputs, values):
                if value is None:
                    raise Error(f"{where} input '{info.name}' is missing")
        else:
            names = ", ".join(f"'{info.name}'" for info in net.inputs)
            if inputs is None:
                raise TypeError(f"{where}: inputs: None, expected a dict of arrays by the inputs' names ({names}), a "
                                "list in this order, or the only array")
            values = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
            if len(values) != len(net.inputs):
                raise Error(f"{where}: {len(values)} inputs, expected {len(net.inputs)}: {names}")
        feeds = []
        for info, value in zip(net.inputs, values):
            feeds.append(value if isinstance(value, Tensor)
                         else as_array(value, "float32" if numbers else info.dtype, f"{where} input '{info.name}'",
                                       max(math.prod(shape) for shape in info.shapes)))
        places: List[Any] = [None] * len(net.outputs)
        if out is not None:
            if not isinstance(out, Mapping):
                raise TypeError(f"out: {_type_name(out)}, expected a dict of arrays by the outputs' names")
            places = _in_order(out, net.outputs, where + " output")
            for info, place in zip(net.outputs, places):
                if place is not None and not isinstance(place, (np.ndarray, Tensor)):
                    raise Error(f"{where} output '{info.name}': {type(place).__name__}, expected an array of numpy or "
                                "a qnpu.Tensor")
            _check_apart([(info.name, place) for info, place in zip(net.outputs, places) if place is not None], where)
        return net, feeds, places

    # ---- its end ----

    def close(self) -> None:
        """Waits for launches that have begun, cancels those that have not, and frees the device's memory and the card's
        queues. May be called again."""
        with self._mutex:
            lanes, self._lanes = self._lanes, None
            runtime, self._runtime = self._runtime, None
        if lanes is not None:
            lanes.stop()
        if runtime is not None:
            runtime.close()
            if os.getpid() != self._pid:
                return
            with self._mutex:  # Device objects hold queues of the card
                if self._own:
                    self._profile = self._devices[0].profile()
                    self._devices = []

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_runtime"):
            self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a qnpu.Session cannot be pickled or copied: it holds a device. Pass the model (its path, or "
                        "the qnpu.Model that qnpu.compile returns), and make a Session of it in the other process")

    def __repr__(self) -> str:
        return f"<qnpu.Session: {', '.join(self._networks)}>"


def _check_apart(places: Sequence[Tuple[str, Value]], where: str) -> None:
    """Each output has memory of its own."""
    for number, (name, one) in enumerate(places):
        for other_name, other in places[:number]:
            if isinstance(one, Tensor) and isinstance(other, Tensor):
                same = (one.device.index == other.device.index and one.address < other.address + other.nbytes
                        and other.address < one.address + one.nbytes)
            else:
                same = (not isinstance(one, Tensor) and not isinstance(other, Tensor)
                        and np.may_share_memory(one, other))
            if same:
                raise Error(f"{where} output '{name}': shares memory with that of output '{other_name}'; places that "
                            "do not overlap are expected")


def _network(found: Mapping[str, Any]) -> NetworkInfo:
    def infos(side: str) -> Tuple[TensorInfo, ...]:
        return tuple(TensorInfo(t["name"], t["dtype"], t["shapes"], t["scale"], t["zero_point"], t["device"])
                     for t in found[side])

    return NetworkInfo(found["name"], infos("inputs"), infos("outputs"), found["stages"], found["dynamic"],
                       found["cores"])


def tensor(array: Any, device: Union[int, Device] = 0) -> Tensor:
    """A copy of an array (of what numpy makes one of) in device memory, with its type and shape."""
    dense = as_array(array, "float32", "tensor")
    dtype = array.dtype if isinstance(array, Tensor) else dense.dtype.name  # bfloat16 is uint16 for numpy
    made = Tensor(_open_device(device), dense.shape, dtype)
    made.copy_from(dense)
    return made


def from_dlpack(other: Any, device: Union[int, Device] = 0) -> Tensor:
    """A tensor in device memory from another library's tensor in system memory (which has __dlpack__): a copy. A
    qnpu.Tensor is returned as it is."""
    if isinstance(other, Tensor):
        return other
    if not hasattr(other, "__dlpack__"):
        raise TypeError(f"from_dlpack: {_type_name(other)}, expected a tensor with __dlpack__()")
    try:
        capsule = other.__dlpack__()
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        raise Error(f"from_dlpack: {_type_name(other)}: {error}") from None
    return _native.from_dlpack(capsule, _open_device(device))


def _check_writable(path: str) -> None:
    """Raises qnpu.Error; a file that was not there is not there afterwards."""
    new = not os.path.lexists(path)
    try:
        with open(path, "ab"):
            pass
        if new:
            os.unlink(path)
    except OSError as error:
        raise Error(f"trace: {path}: {error.strerror}") from None


@contextlib.contextmanager
def _written_as(target: str) -> Iterator[str]:
    """A path for the runtime's trace. The runtime numbers a process's traces, the first has none: whatever it calls
    this one's files, they are TARGET, TARGET.1 and so on afterwards, also those that are still written."""
    if os.path.exists(target) and not os.path.isfile(target):  # a device, a pipe
        yield target
        return
    try:
        folder = tempfile.mkdtemp(prefix=".qnpu-trace-", dir=os.path.dirname(target))
    except OSError as error:
        raise Error(f"trace: {os.path.dirname(target)}: {error.strerror}") from None
    try:
        yield os.path.join(folder, "trace")
    finally:
        try:
            written = sorted(os.listdir(folder), key=lambda name: (len(name), name))
            for number, name in enumerate(written):
                os.replace(os.path.join(folder, name), f"{target}.{number}" if number else target)
            os.rmdir(folder)
        except OSError as error:
            raise Error(f"trace: {target}: {error.strerror}; what was written is in {folder}") from None


def _any_is_open() -> bool:
    return any(session._runtime is not None for session in list(_sessions))  # pylint: disable=protected-access


@contextlib.contextmanager
def trace(path: PathLike) -> Iterator[None]:
    """Within `with`, what sessions do is written to a file for https://ui.perfetto.dev: calls, launches, and the chip's
    commands with their layers, cycles and bytes. The file is there when `with` ends, and whole when the sessions that
    were made within are closed; those made after all before were closed have files of their own, PATH.1 and so on. No
    other session may be open, and no other trace. Launches take longer."""
    try:
        target = os.path.abspath(os.fsdecode(path))
        target.encode(sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())
        if "\0" in target:
            raise ValueError("a NUL in the name")
    except TypeError:
        raise TypeError(f"trace: path: {_type_name(path)}, expected a path") from None
    except ValueError as error:
        raise Error(f"trace: path: {error}") from None
    if _any_is_open():
        gc.collect()  # one that nobody holds any more may be left in a reference cycle, as exceptions make them
        if _any_is_open():
            raise Error("trace: a session is open already; a trace begins before the first")
    if not _tracing.acquire(blocking=False):  # pylint: disable=consider-using-with
        raise Error("trace: another trace has not ended yet")
    before = {name: os.environ.get(name) for name in ("BMRUNTIME_ENABLE_PROFILE", "BMRUNTIME_PROFILE_FILE")}
    try:
        _check_writable(target)
        with _written_as(os.path.realpath(target)) as path_now:
            os.environ.update(BMRUNTIME_ENABLE_PROFILE="1", BMRUNTIME_PROFILE_FILE=path_now)
            yield
    finally:
        _tracing.release()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
