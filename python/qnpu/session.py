# SPDX-License-Identifier: MIT
"""Loaded models, and launches of their networks."""
from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
import weakref
from typing import (Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union)

import numpy as np

from . import _native
from ._native import Device, Error, Tensor
from .compiler import Model, PathLike, as_bytes, is_bmodel
from .compiler import compile as compile_onnx
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


class NetworkInfo(NamedTuple):
    """A network of a model."""

    name: str
    inputs: Tuple[TensorInfo, ...]
    outputs: Tuple[TensorInfo, ...]
    stages: int
    dynamic: bool  # launches may have other shapes than those of a stage, up to these
    cores: int  # that a launch takes


class Outputs(Dict[str, Any]):
    """What a launch gave: arrays (or tensors) by their names, in the network's order."""

    cycles: int  #: modelled cycles of the launch

    def __init__(self, values: Mapping[str, Any], cycles: int) -> None:
        super().__init__(values)
        self.cycles = cycles


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


def _open_device(device: Union[int, Device]) -> Device:
    return device if isinstance(device, Device) else Device(device)


def as_array(value: Any, dtype: str) -> "np.ndarray[Any, Any]":
    """What the runtime can copy from: the value itself where it is a dense array. Numbers and lists get `dtype`."""
    if not isinstance(value, np.ndarray):
        if hasattr(value, "__dlpack__"):
            value = np.from_dlpack(value)
        elif isinstance(value, bytes):
            value = np.frombuffer(value, np.uint8)  # asarray() would make it a text
        elif isinstance(value, (bytearray, memoryview)) or hasattr(value, "__array_interface__") or hasattr(
                value, "__array__"):
            value = np.asarray(value)
        else:
            value = np.asarray(value, "uint16" if dtype == "bfloat16" else dtype)
    if value.flags.c_contiguous and value.dtype.isnative:
        return value  # type: ignore[no-any-return]
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
        if not self.reading:
            self.loop.add_reader(self.completions.fd, self.ready)
            self.reading = True
        pending.future.add_done_callback(lambda future: job.forget() if future.cancelled() else None)

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
        if not self.pending:
            self.loop.remove_reader(self.completions.fd)
            self.reading = False
        if ending is not None:
            raise ending

    def forget_done(self) -> None:
        """Of a loop that was closed: nobody reads any more."""
        for job in self.completions.take():
            self.pending.pop(job)


def _outputs(network: NetworkInfo, values: Sequence[Any], cycles: int) -> Outputs:
    return Outputs({info.name: value for info, value in zip(network.outputs, values)}, cycles)


def _names(infos: Sequence[TensorInfo]) -> str:
    return ", ".join(f"'{info.name}'" for info in infos)


def _in_order(values: Mapping[str, Any], infos: Sequence[TensorInfo], where: str) -> List[Any]:
    """The values by the order of their tensors, None for those that are not there."""
    unknown = [name for name in values if all(name != info.name for info in infos)]
    if unknown:
        raise Error(f"{where} {unknown[0]!r} does not exist; there are: {_names(infos)}")
    return [values.get(info.name) for info in infos]


def _index(net: NetworkInfo, infos: Sequence[TensorInfo], name: str, side: str) -> int:
    for index, info in enumerate(infos):
        if info.name == name:
            return index
    raise Error(f"network '{net.name}' {side} {name!r} does not exist; there are: {_names(infos)}")


class Session:
    """A model on a device.

    model: path or bytes of a .bmodel, a qnpu.Model, or a network in ONNX (path, bytes, onnx.ModelProto), which is
        compiled now; the result is kept in memory only (qnpu.compile(..., output=) keeps it in a file).
    device: number, or Device object; for distributed networks a list of them.
    max_launches: so many launches of a network have activation memory at the same time (16); others wait for it.
    compile_options: of networks in ONNX, see qnpu.compile.

    Close it, use it in `with`, or leave it to Python. Any number of threads may use it at once.
    """

    def __init__(self, model: Any, *, device: Union[int, Device, Sequence[Union[int, Device]]] = 0,
                 max_launches: Optional[int] = None, **compile_options: Any) -> None:
        self._mutex = threading.Lock()
        self._lanes: Optional[_native.Lanes] = None
        self._loops: List[_EventLoop] = []
        self._runtime: Optional[_native.Runtime] = None
        self.report: Optional[str] = None  #: what the compiler says of a network that was compiled here
        listed = [device] if isinstance(device, (int, Device)) else list(device)
        if not listed:
            raise Error("device: an empty list; at least one device is expected")
        self._devices = [_open_device(d) for d in listed]
        runtime = _native.Runtime(self._devices)
        if max_launches is not None:
            runtime.set_max_launches(max_launches)
        self._load(runtime, model, compile_options)
        self._runtime = runtime
        self._networks = {name: _network(runtime.network(name)) for name in runtime.names()}
        _sessions.add(self)

    def _load(self, runtime: _native.Runtime, model: Any, options: Mapping[str, Any]) -> None:
        if isinstance(model, (str, os.PathLike)):
            try:
                with open(model, "rb") as file:
                    compiled = is_bmodel(file.read(4)) or os.fspath(model).endswith(".bmodel")
            except OSError as error:
                raise Error(f"{os.fspath(model)}: {error.strerror}") from None
        else:
            model = as_bytes(model)
            compiled = isinstance(model, Model) or (isinstance(model, (bytes, bytearray, memoryview))
                                                    and is_bmodel(bytes(model[:4])))
        if compiled and options:
            raise Error(f"option {next(iter(options))!r}: a .bmodel is compiled already")
        if not compiled:
            model = compile_onnx(model, **options)
            self.report = model.report
        if isinstance(model, (str, os.PathLike)):
            runtime.load(os.fspath(model))
        else:
            runtime.load_data(model.data if isinstance(model, Model) else model)

    # ---- what it is ----

    @property
    def device(self) -> Device:
        """The (first) device, with its memory, sensors and this session's profile."""
        return self._devices[0]

    @property
    def networks(self) -> Tuple[str, ...]:
        """Names of the model's networks."""
        return tuple(self._networks)

    def network(self, name: Optional[str] = None) -> NetworkInfo:
        """A network; without a name the first."""
        if name is None:
            return next(iter(self._networks.values()))
        try:
            return self._networks[name]
        except KeyError:
            raise Error(f"network {name!r} is not in the model; there are: "
                        + ", ".join(f"'{n}'" for n in self._networks)) from None

    @property
    def inputs(self) -> Tuple[TensorInfo, ...]:
        """Of the first network."""
        return self.network().inputs

    @property
    def outputs(self) -> Tuple[TensorInfo, ...]:
        """Of the first network."""
        return self.network().outputs

    @property
    def in_flight(self) -> int:
        """Launches that are on their way at this moment."""
        return self._open().in_flight

    def profile(self) -> Profile:
        """What this session (with one Device object, all that use it) has done so far."""
        return self.device.profile()

    def tensor(self, name: str, network: Optional[str] = None) -> Tensor:
        """Zeros in device memory, with type and shape of an input or output."""
        net = self.network(network)
        for info in (*net.inputs, *net.outputs):
            if info.name == name:
                return Tensor(self._devices[info.device], info.shape, info.dtype)
        raise Error(f"network '{net.name}': tensor {name!r} does not exist; there are: "
                    + _names((*net.inputs, *net.outputs)))

    def quantize(self, name: str, numbers: Any, network: Optional[str] = None) -> "np.ndarray[Any, Any]":
        """Elements of an input for numbers (float32): as ONNX's QuantizeLinear with the model's scale and zero point;
        for float16 and bfloat16 rounded."""
        net = self.network(network)
        return self._open().quantize(net.name, _index(net, net.inputs, name, "input"), as_array(numbers, "float32"))

    def dequantize(self, name: str, elements: Any, network: Optional[str] = None) -> "np.ndarray[Any, Any]":
        """Numbers (float32) that elements of an output stand for."""
        net = self.network(network)
        index = _index(net, net.outputs, name, "output")
        return self._open().dequantize(net.name, index, as_array(elements, net.outputs[index].dtype))

    def _open(self) -> _native.Runtime:
        if self._runtime is None:
            raise Error("the session is closed")
        return self._runtime

    # ---- launches ----

    def run(self, inputs: Any, *, network: Optional[str] = None, out: Optional[Mapping[str, Value]] = None,
            cores: Sequence[int] = (), numbers: bool = False, on_device: bool = False) -> Outputs:
        """Launches a network and waits for its outputs.

        inputs: arrays or qnpu.Tensor by their names; or in the network's order in a list or tuple; or the only input
            itself. Type and shape must be the network's (a network with one stage takes any shape with as many
            elements). C-contiguous arrays are copied to the device as they are; others are made dense first. Tensors
            are on the device already. Whatever has __dlpack__ or __array__ is looked at without a copy.
        network: its name; without, the model's first.
        out: C-contiguous arrays or tensors that some of the outputs are written to.
        cores: numbers of those to run on, for networks that take some of the card's.
        numbers: all arrays are float32, whatever the network's types are: converted as the model's scales say.
        on_device: outputs stay in device memory, as qnpu.Tensor.

        Returns Outputs: a dict with new arrays (or what `out` had), and the modelled cycles.
        """
        runtime = self._open()
        net, feeds, places = self._arguments(inputs, network, out, numbers)
        values, cycles = runtime.launch(net.name, feeds, places, list(cores), numbers, on_device)
        return _outputs(net, values, cycles)

    async def run_async(self, inputs: Any, *, network: Optional[str] = None,
                        out: Optional[Mapping[str, Value]] = None, cores: Sequence[int] = (), numbers: bool = False,
                        on_device: bool = False) -> Outputs:
        """The same for `await`. Launches begin in the order of these calls, as many side by side as the session has
        lanes (8), and end in any. Arrays must not be changed meanwhile. One that is cancelled before it has begun is
        left out; otherwise it goes on, and its outputs are dropped."""
        runtime = self._open()
        net, feeds, places = self._arguments(inputs, network, out, numbers)
        state, lanes = self._state(asyncio.get_running_loop())
        future: "asyncio.Future[Outputs]" = state.loop.create_future()
        pending = _Pending(future, net, feeds, places)
        job = lanes.submit(runtime, state.completions, net.name, feeds, places, list(cores), numbers, on_device)
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
            values = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
            if len(values) != len(net.inputs):
                raise Error(f"{where}: {len(values)} inputs, expected {len(net.inputs)}: {_names(net.inputs)}")
        feeds = []
        for info, value in zip(net.inputs, values):
            try:
                feeds.append(value if isinstance(value, Tensor)
                             else as_array(value, "float32" if numbers else info.dtype))
            except (TypeError, ValueError, BufferError) as error:
                raise Error(f"{where} input '{info.name}': {type(value).__name__} is no array: {error}") from None
        places: List[Any] = [None] * len(net.outputs)
        if out is not None:
            places = _in_order(out, net.outputs, where + " output")
            for info, place in zip(net.outputs, places):
                if place is not None and not isinstance(place, (np.ndarray, Tensor)):
                    raise Error(f"{where} output '{info.name}': {type(place).__name__}, expected an array of numpy or "
                                "a qnpu.Tensor")
        return net, feeds, places

    # ---- its end ----

    def close(self) -> None:
        """Waits for launches that have begun, cancels those that have not, and frees the device's memory. May be called
        again."""
        with self._mutex:
            lanes, self._lanes = self._lanes, None
            runtime, self._runtime = self._runtime, None
        if lanes is not None:
            lanes.stop()
        if runtime is not None:
            runtime.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_runtime"):
            self.close()

    def __repr__(self) -> str:
        return f"<qnpu.Session: {', '.join(self._networks)}>"


def _network(found: Mapping[str, Any]) -> NetworkInfo:
    def infos(side: str) -> Tuple[TensorInfo, ...]:
        return tuple(TensorInfo(t["name"], t["dtype"], t["shapes"], t["scale"], t["zero_point"], t["device"])
                     for t in found[side])

    return NetworkInfo(found["name"], infos("inputs"), infos("outputs"), found["stages"], found["dynamic"],
                       found["cores"])


def tensor(array: Any, device: Union[int, Device] = 0) -> Tensor:
    """A copy of an array (of what numpy makes one of) in device memory, with its type and shape."""
    dense = as_array(array, "float32")
    made = Tensor(_open_device(device), dense.shape, dense.dtype.name)
    made.copy_from(dense)
    return made


def from_dlpack(other: Any, device: Union[int, Device] = 0) -> Tensor:
    """A tensor in device memory from another library's tensor in system memory (which has __dlpack__): a copy. A
    qnpu.Tensor is returned as it is."""
    if isinstance(other, Tensor):
        return other
    return _native.from_dlpack(other.__dlpack__(), _open_device(device))


@contextlib.contextmanager
def trace(path: PathLike) -> Iterator[None]:
    """Within `with`, what sessions do is written to a file for https://ui.perfetto.dev: calls, launches, and the chip's
    commands with their layers, cycles and bytes. The file is whole when the sessions that were made within are closed.
    No other session may be open. Launches take longer."""
    if any(s._runtime is not None for s in list(_sessions)):  # pylint: disable=protected-access
        raise Error("trace: a session is open already; a trace begins before the first")
    wanted = {"BMRUNTIME_ENABLE_PROFILE": "1", "BMRUNTIME_PROFILE_FILE": os.fspath(path)}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
