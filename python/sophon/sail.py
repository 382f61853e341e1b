# SPDX-License-Identifier: MIT
"""sophon.sail on QNPU: what programs use of it for networks (Handle, Tensor, Engine, MultiEngine, facts of devices).

Names and meanings are the vendor's; docs/reference/python.md has a table of what is here and what is not. Images and
video are not: this card has neither a decoder nor an image processor. What fails raises qnpu.Error, where the vendor's
logs.
"""
from __future__ import annotations

import base64
import contextlib
import dis
import enum
import math
import operator
import os
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, Iterable, List, Mapping, NoReturn, Optional, Sequence, Tuple, Union

import numpy as np

import qnpu
from qnpu import _native
from qnpu.compiler import as_bytes
from qnpu.session import exact, there_are

__version__ = qnpu.__version__

Array = Any  # numpy.ndarray of any type


class Dtype(enum.Enum):
    """Types of elements; numbers are BMRuntime's."""

    BM_FLOAT32 = 0
    BM_FLOAT16 = 1
    BM_INT8 = 2
    BM_UINT8 = 3
    BM_INT16 = 4
    BM_UINT16 = 5
    BM_INT32 = 6
    BM_UINT32 = 7
    BM_BFLOAT16 = 8


BM_FLOAT32 = Dtype.BM_FLOAT32
BM_FLOAT16 = Dtype.BM_FLOAT16
BM_INT8 = Dtype.BM_INT8
BM_UINT8 = Dtype.BM_UINT8
BM_INT16 = Dtype.BM_INT16
BM_UINT16 = Dtype.BM_UINT16
BM_INT32 = Dtype.BM_INT32
BM_UINT32 = Dtype.BM_UINT32
BM_BFLOAT16 = Dtype.BM_BFLOAT16


class IOMode(enum.Enum):
    """Where an engine's own tensors have memory: SYSI inputs in system memory, SYSO outputs, SYSIO both, DEVIO none
    (all have device memory)."""

    SYSI = 0
    SYSO = 1
    SYSIO = 2
    DEVIO = 3


SYSI = IOMode.SYSI
SYSO = IOMode.SYSO
SYSIO = IOMode.SYSIO
DEVIO = IOMode.DEVIO


class ImgDtype(enum.Enum):
    """Types of images' elements; numbers are BMCV's."""

    DATA_TYPE_EXT_FLOAT32 = 0
    DATA_TYPE_EXT_1N_BYTE = 1
    DATA_TYPE_EXT_4N_BYTE = 2
    DATA_TYPE_EXT_1N_BYTE_SIGNED = 3
    DATA_TYPE_EXT_4N_BYTE_SIGNED = 4
    DATA_TYPE_EXT_FP16 = 5
    DATA_TYPE_EXT_BF16 = 6


DATA_TYPE_EXT_FLOAT32 = ImgDtype.DATA_TYPE_EXT_FLOAT32
DATA_TYPE_EXT_1N_BYTE = ImgDtype.DATA_TYPE_EXT_1N_BYTE
DATA_TYPE_EXT_4N_BYTE = ImgDtype.DATA_TYPE_EXT_4N_BYTE
DATA_TYPE_EXT_1N_BYTE_SIGNED = ImgDtype.DATA_TYPE_EXT_1N_BYTE_SIGNED
DATA_TYPE_EXT_4N_BYTE_SIGNED = ImgDtype.DATA_TYPE_EXT_4N_BYTE_SIGNED
DATA_TYPE_EXT_FP16 = ImgDtype.DATA_TYPE_EXT_FP16
DATA_TYPE_EXT_BF16 = ImgDtype.DATA_TYPE_EXT_BF16


class LogLevel(enum.Enum):
    """For set_loglevel()."""

    TRACE = 0
    DEBUG = 1
    INFO = 2
    WARN = 3
    ERROR = 4
    CRITICAL = 5
    OFF = 6


_LIBRARY_NAMES = {dtype: dtype.name[3:].lower() for dtype in Dtype}
_DTYPES = {name: dtype for dtype, name in _LIBRARY_NAMES.items()}
_INT_MAX = 2**31 - 1
_MOST_ELEMENTS = _MOST_BYTES = 2**32 - 1
_print_times = False


def _elements(shape: Iterable[int]) -> int:
    return math.prod(int(n) for n in shape)


def _shape_of(where: str, shape: Any, size: Optional[int] = None) -> List[int]:
    """A shape that a caller gives; a number is one dimension. Where it is for so many elements, one dimension may be
    -1, as numpy's."""
    if hasattr(shape, "__index__") and not hasattr(shape, "__iter__"):
        shape = [shape]
    if isinstance(shape, (str, bytes)) or not hasattr(shape, "__iter__"):
        raise TypeError(f"{where}: shape {shape!r:.40}, expected a list of integers")
    try:
        dims = [operator.index(n) for n in shape]
    except TypeError:
        raise TypeError(f"{where}: shape {shape!r:.40}, expected a list of integers") from None
    if size is not None and dims.count(-1) == 1:
        rest = _elements(n for n in dims if n != -1)
        if rest < 1 or size % rest:
            raise qnpu.Error(f"{where}: shape {dims}: -1 for none of the tensor's {size} elements in this shape")
        dims[dims.index(-1)] = size // rest
    if any(n < 0 for n in dims):
        raise qnpu.Error(f"{where}: shape {dims}, expected dimensions of 0 or more"
                         + ("" if size is None else ", or one -1"))
    if _elements(dims) > _MOST_ELEMENTS:
        raise qnpu.Error(f"{where}: shape {dims}, expected at most {_MOST_ELEMENTS} elements")
    return dims


def _number(where: str, name: str, value: Any, most: int) -> int:
    """A place or a number of elements or bytes, from 0 on."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{where}: {name} {value!r:.40}, expected an integer") from None
    if not 0 <= number <= most:
        raise qnpu.Error(f"{where}: {name} {number}, expected 0 to {most}")
    return number


def _part(where: str, source: "Tensor", target: "Tensor", what: Sequence[Any]) -> Tuple[int, int, int]:
    """First element of the source, first one of the target, and how many, all within both."""
    count = _number(where, "length", what[2], min(source.size(), target.size()))
    return (_number(where, "first element of the source", what[0], source.size() - count),
            _number(where, "first element of the destination", what[1], target.size() - count), count)


def _numpy_type(dtype: Dtype) -> "np.dtype[Any]":
    return np.dtype("uint16" if dtype is Dtype.BM_BFLOAT16 else _LIBRARY_NAMES[dtype])


def _dtype_argument(where: str, dtype: Any) -> Dtype:
    """A Dtype, its number, or what numpy takes for one: numpy.float32, "float32"."""
    if isinstance(dtype, str) and dtype in _DTYPES:
        return _DTYPES[dtype]
    if isinstance(dtype, (Dtype, int)):
        with contextlib.suppress(ValueError):
            return Dtype(dtype)
    elif dtype is not None:
        with contextlib.suppress(TypeError, ValueError, KeyError):
            return _DTYPES[np.dtype(dtype).name]
    raise qnpu.Error(f"{where}: dtype {dtype!r:.40}, expected one of sail.Dtype, or numpy's: " + ", ".join(_DTYPES))


def _dtype_of(array: Array) -> Dtype:
    try:
        return _DTYPES[array.dtype.name]
    except KeyError:
        raise qnpu.Error(f"dtype {array.dtype.name}: tensors may have " + ", ".join(_DTYPES)) from None


def _bind(where: str, names: Sequence[str], needed: Sequence[str], what: Sequence[Any], named: Mapping[str, Any],
          also: Mapping[str, str]) -> Dict[str, Any]:
    """Arguments by the names that a call of this form has; `also` says what other names mean. A TypeError as Python's
    own where they do not fit."""
    def shown(name: str) -> str:
        return " or ".join([name, *(other for other, meant in also.items() if meant == name)])

    if len(what) > len(names):
        raise TypeError(f"{where}: {len(what)} arguments, at most {len(names)} are expected: "
                        + ", ".join(map(shown, names)))
    bound = dict(zip(names, what))
    for name, value in named.items():
        meant = also.get(name, name)
        if meant not in names:
            raise TypeError(f"{where}: {name!r} is no argument; there are: " + ", ".join(map(shown, names)))
        if meant in bound:
            raise TypeError(f"{where}: {shown(meant)} is there twice")
        bound[meant] = value
    for name in needed:
        if name not in bound:
            raise TypeError(f"{where}: {shown(name)} is missing")
    return bound


# ---- devices ----


class Handle:
    """A device."""

    def __init__(self, dev_id: int) -> None:
        self._device = qnpu.Device(dev_id)

    def get_device_id(self) -> int:
        """Its number."""
        return self._device.index

    def get_sn(self) -> str:
        """Cards of QNPU have no serial number: the empty string."""
        return ""

    def get_target(self) -> str:
        """The chip's name."""
        return "QNPU1"


def get_available_tpu_num() -> int:
    """How many devices there are."""
    return _native.device_count()


def get_dev_stat(dev_id: int) -> List[int]:
    """Device memory and that in use, in MiB, and the utilisation of all cores in the next 10 ms, in percent."""
    stat = qnpu.Device(dev_id).stat()
    return [stat["memory_mib"], stat["memory_used_mib"], stat["utilisation"]]


def get_chip_temp(dev_id: int) -> int:
    """Degrees Celsius."""
    return round(qnpu.Device(dev_id).status()["temperature_c"])


def get_board_temp(dev_id: int) -> int:
    """The card has one sensor, the chip's."""
    return get_chip_temp(dev_id)


def get_tpu_util(dev_id: int) -> int:
    """Utilisation of all cores in the next 10 ms, in percent."""
    return get_dev_stat(dev_id)[2]


def set_print_flag(print_flag: bool) -> None:
    """Whether Engine.process() prints how long it took."""
    global _print_times  # pylint: disable=global-statement
    _print_times = bool(print_flag)


def set_dump_io_flag(dump_io_flag: bool) -> None:
    """Whether launches write their tensors to input_ref_data.dat.bmrt and output_ref_data.dat.bmrt."""
    os.environ["BMRT_SAVE_IO_TENSORS"] = "1" if dump_io_flag else "0"


def set_loglevel(loglevel: LogLevel) -> int:
    """Nothing is logged here, failures are exceptions: 0."""
    if not isinstance(loglevel, LogLevel):
        return -1
    return 0


def base64_encode(handle: Handle, input_bytes: bytes) -> bytes:
    """By the host."""
    del handle
    return base64.b64encode(input_bytes)


def base64_decode(handle: Handle, encode_bytes: bytes) -> bytes:
    """By the host."""
    del handle
    return base64.b64decode(encode_bytes)


def base64_encode_array(handle: Handle, input_arr: Array) -> bytes:
    """An array's bytes, row by row."""
    return base64_encode(handle, np.ascontiguousarray(input_arr).tobytes())


def base64_decode_asarray(handle: Handle, encode_arr_bytes: bytes, array_type: str = "uint8") -> Array:
    """An array with one dimension; array_type: float, uint8, int8, int16, int32 or int64."""
    return np.frombuffer(base64_decode(handle, encode_arr_bytes),
                         "float32" if array_type == "float" else array_type).copy()


class Bmcv:
    """Programs that work on images with OpenCV and numpy ask this class for a type. It works on no image itself."""

    _FORMATS = {Dtype.BM_FLOAT32: ImgDtype.DATA_TYPE_EXT_FLOAT32, Dtype.BM_INT8: ImgDtype.DATA_TYPE_EXT_1N_BYTE_SIGNED,
                Dtype.BM_UINT8: ImgDtype.DATA_TYPE_EXT_1N_BYTE, Dtype.BM_FLOAT16: ImgDtype.DATA_TYPE_EXT_FP16,
                Dtype.BM_BFLOAT16: ImgDtype.DATA_TYPE_EXT_BF16}

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def get_bm_image_data_format(self, dtype: Dtype) -> ImgDtype:
        """The images' type for tensors of a type."""
        try:
            return self._FORMATS[dtype]
        except KeyError:
            raise qnpu.Error(f"get_bm_image_data_format: no image has {dtype}, expected "
                             + ", ".join(str(known) for known in self._FORMATS)) from None

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"sophon.sail.Bmcv.{name} is not there: {_NO_IMAGES}")


# ---- tensors ----


def _array_of(value: Any, where: str) -> Array:
    try:
        return np.asarray(value)
    except (ValueError, OverflowError, BufferError) as error:  # lists of different lengths
        raise qnpu.Error(f"{where}: {type(value).__name__} is no array: {error}") from None


def _native_order(array: Array) -> Array:
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _of_a_tensor_s_type(array: Any) -> Array:
    """The array in this machine's byte order; of types that tensors do not have, its numbers as float32, where that
    changes no integer."""
    array = _array_of(array, "Tensor")
    if max(array.nbytes, 4 * array.size) > _MOST_BYTES:  # strides of 0 may make it larger than memory
        raise qnpu.Error(f"Tensor: shape {list(array.shape)}, expected less than 4 GiB")
    array = _native_order(array)
    if array.dtype.name in _DTYPES or array.dtype.kind not in "fiub":
        return array
    numbers = array.astype(np.float32)
    if array.dtype.kind != "f" and not np.array_equal(numbers.astype(array.dtype), array):
        raise qnpu.Error(f"dtype {array.dtype.name}: numbers that float32 does not have; tensors may have "
                         + ", ".join(_DTYPES))
    return numbers


def _are_ranges(value: Any) -> bool:
    """As against a shape."""
    return isinstance(value, (tuple, list)) and len(value) > 0 and isinstance(value[0], (tuple, list))


class Tensor:
    """Elements in system memory, in device memory, or in both; sync_s2d() and sync_d2s() copy between them.

    Tensor(handle, shape, dtype, own_sys_data, own_dev_data): zeros.
    Tensor(handle, array, own_sys_data=True, own_dev_data=True): a copy of an array.
    Tensor(array): in system memory only.
    Tensor(tensor, ranges): a copy of a part, as tensor[a:b, c:d] of numpy.
    Tensor(tensor, shape, offset, no_copy=True): another shape in the same memory, from element `offset` on.

    Arrays of other types than tensors have (float64, int64) become float32.
    """

    def __init__(self, *what: Any, **named: Any) -> None:
        self._sys: Optional[Array] = None
        self._dev: Optional[qnpu.Tensor] = None
        self._handle: Optional[Handle] = None
        self._zero_point = 0
        also = {"src": "tensor", "array_data": "data"}
        given = {also.get(name, name) for name in named}
        if isinstance(what[0], Handle) if what else "handle" in given:
            by_array = isinstance(what[1], np.ndarray) if len(what) > 1 else "data" in given
            names: Tuple[str, ...] = ("data",) if by_array else ("shape", "dtype")
            bound = _bind("Tensor", ("handle", *names, "own_sys_data", "own_dev_data"), ("handle", names[0]), what,
                          named, also)
            if not isinstance(bound["handle"], Handle):
                raise TypeError(f"Tensor: 'handle' is {type(bound['handle']).__name__}, a Handle is expected")
            if by_array:
                self._from_array(bound["handle"], bound["data"], bound.get("own_sys_data", True),
                                 bound.get("own_dev_data", True))
            else:
                self._make(**bound)
        elif isinstance(what[0], Tensor) if what else "tensor" in given:
            by_ranges = _are_ranges(what[1]) if len(what) > 1 else "ranges" in given
            names = ("ranges", "d2d_flag") if by_ranges else ("shape", "offset", "no_copy")
            bound = _bind("Tensor", ("tensor", *names), ("tensor", names[0]), what, named, also)
            if not isinstance(bound["tensor"], Tensor):
                raise TypeError(f"Tensor: 'tensor' is {type(bound['tensor']).__name__}, a Tensor is expected")
            if by_ranges:
                self._from_ranges(bound["tensor"], bound["ranges"])
            else:
                self._from_tensor(**bound)
        else:
            self._from_array(None, _bind("Tensor", ("data",), ("data",), what, named, also)["data"], True, False)

    def _make(self, handle: Handle, shape: Sequence[int], dtype: Dtype = Dtype.BM_FLOAT32, own_sys_data: bool = False,
              own_dev_data: bool = False) -> None:
        self._handle, self._shape, self._dtype = handle, _shape_of("Tensor", shape), _dtype_argument("Tensor", dtype)
        if own_sys_data:
            self._sys = np.zeros(self._shape, _numpy_type(self._dtype))
        if own_dev_data:
            self._allocate()

    def _from_array(self, handle: Optional[Handle], array: Array, own_sys_data: bool, own_dev_data: bool) -> None:
        array = _of_a_tensor_s_type(array)
        self._handle, self._dtype, self._shape = handle, _dtype_of(array), list(array.shape)
        if own_sys_data:
            self._sys = np.array(array, order="C", copy=True)
        if own_dev_data:
            self._allocate()
            self._device_tensor().copy_from(np.ascontiguousarray(array).reshape(self._shape))

    def _share(self, other: "Tensor") -> None:
        self._handle, self._dtype, self._zero_point = other._handle, other._dtype, other._zero_point

    def _from_ranges(self, tensor: "Tensor", ranges: Sequence[Sequence[int]]) -> None:
        self._share(tensor)
        part = tuple(slice(begin, end) for begin, end in ranges)
        if tensor._sys is not None:
            self._sys = np.array(tensor._sys.reshape(tensor._shape)[part], order="C", copy=True)
            self._shape = list(self._sys.shape)
        if tensor._dev is not None:
            array = np.ascontiguousarray(tensor._dev_array()[part])
            self._shape = list(array.shape)
            self._allocate()
            self._device_tensor().copy_from(array)

    def _from_tensor(self, tensor: "Tensor", shape: Sequence[int], offset: int = 0, no_copy: bool = True) -> None:
        self._share(tensor)
        self._shape = _shape_of("Tensor", shape, tensor.size())
        count = _elements(self._shape)
        room = min((memory.nbytes // tensor.element_size() for memory in (tensor._sys, tensor._dev)
                    if memory is not None), default=0)
        if count > room:
            raise qnpu.Error(f"Tensor: shape {self._shape}: {count} elements, the tensor has {room}")
        first = _number("Tensor", "offset", offset, room - count)
        if tensor._sys is not None:
            part_of = tensor._sys.reshape(-1)[first:first + count]
            self._sys = (part_of if no_copy else part_of.copy()).reshape(self._shape)
        if tensor._dev is not None:
            self._dev = tensor._dev.view(self._shape, first)
            if not no_copy:
                array = self._dev.numpy()
                self._allocate()
                self._dev.copy_from(array)

    def _allocate(self) -> None:
        if self._handle is None:
            raise qnpu.Error("a tensor without a handle has no device memory")
        self._dev = qnpu.Tensor(self._handle._device, self._shape, _LIBRARY_NAMES[self._dtype])

    def _device_tensor(self) -> qnpu.Tensor:
        if self._dev is None:
            raise qnpu.Error("the tensor has no device memory (own_dev_data)")
        return self._dev if list(self._dev.shape) == self._shape else self._dev.view(self._shape)

    def _system_array(self) -> Array:
        if self._sys is None:
            raise qnpu.Error("the tensor has no system memory (own_sys_data)")
        return self._sys.reshape(-1)[:self.size()].reshape(self._shape)

    def _dev_array(self) -> Array:
        return self._device_tensor().numpy()

    def shape(self) -> List[int]:
        """Elements, outermost dimension first."""
        return list(self._shape)

    def dtype(self) -> Dtype:
        """Type of the elements."""
        return self._dtype

    def size(self) -> int:
        """Number of elements."""
        return _elements(self._shape)

    def element_size(self) -> int:
        """Bytes of an element."""
        return _numpy_type(self._dtype).itemsize

    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size() * self.element_size()

    def device_id(self) -> int:
        """Number of its device; -1 without one."""
        return -1 if self._handle is None else self._handle.get_device_id()

    def own_sys_data(self) -> bool:
        """Whether it has system memory."""
        return self._sys is not None

    def own_dev_data(self) -> bool:
        """Whether it has device memory."""
        return self._dev is not None

    def __len__(self) -> int:
        return self.size()

    def __getitem__(self, index: int) -> Any:
        """An element of system memory, by its place among all."""
        if not 0 <= index < self.size():
            raise IndexError(f"element {index}: the tensor has {self.size()}")
        return self._system_array().reshape(-1)[index].item()

    is_sys_data_valid = own_sys_data
    is_dev_data_valid = own_dev_data

    def reshape(self, shape: Sequence[int]) -> None:
        """Another shape. Where it has more elements than there is memory for, memory becomes new (zeros)."""
        self._shape = _shape_of("reshape", shape, self.size())
        if self._sys is not None and self._sys.size < self.size():
            self._sys = np.zeros(self._shape, _numpy_type(self._dtype))
        if self._dev is not None and self._dev.nbytes < self.nbytes():
            self._allocate()

    def _fit(self, where: str, shape: Sequence[int]) -> None:
        """Gives it a shape for which it has memory; an error where it has not."""
        need = _elements(shape) * self.element_size()
        have = [memory.nbytes for memory in (self._sys, self._dev) if memory is not None]
        if not have or min(have) < need:
            raise qnpu.Error(f"{where}: {need} bytes, the tensor has {min(have, default=0)}")
        self._shape = [int(n) for n in shape]

    def asnumpy(self, shape: Optional[Sequence[int]] = None) -> Array:
        """A copy of the elements: of system memory, or of device memory where there is no other."""
        array = self._dev_array() if self._sys is None else self._system_array().copy()
        if shape is None:
            return array
        dims = _shape_of("asnumpy", shape, array.size)
        count = _elements(dims)
        if count > array.size:
            raise qnpu.Error(f"asnumpy: {count} elements, the tensor has {array.size}")
        return array.reshape(-1)[:count].reshape(dims)

    def pysys_data(self) -> Array:
        """The system memory itself."""
        return self._system_array()

    def update_data(self, data: Array) -> None:
        """New elements, as many or fewer, of the tensor's type: into system memory, or into device memory where there
        is no other. float16 may be its bits in uint16."""
        array = _array_of(data, "update_data")
        if array.size > self.size():
            raise qnpu.Error(f"update_data: {array.size} elements, the tensor has {self.size()}")
        array = _native_order(np.ascontiguousarray(array))
        if self._dtype is Dtype.BM_FLOAT32:
            array = _of_a_tensor_s_type(array)
        elif self._dtype is Dtype.BM_FLOAT16 and array.dtype == np.uint16:
            array = array.view(np.float16)
        if array.dtype != _numpy_type(self._dtype):
            raise qnpu.Error(f"update_data: dtype {array.dtype.name}, expected {_numpy_type(self._dtype).name}")
        if self._sys is not None:
            self._system_array().reshape(-1)[:array.size] = array.reshape(-1)
        else:
            self._device_tensor().view([array.size]).copy_from(array.reshape(-1))

    def scale_from(self, data: Array, scale: float) -> None:
        """Numbers times scale, rounded and saturated, into system memory. What an engine made for an input or output
        adds that one's zero point; else it is 0."""
        target = _numpy_type(self._dtype)
        values = np.asarray(data, np.float32) * np.float32(scale)
        if target.kind in "iu":
            limits = np.iinfo(target)
            values = np.clip(np.rint(values) + self._zero_point, limits.min, limits.max)
        self.update_data(values.astype(target))

    def scale_to(self, scale: float, shape: Optional[Sequence[int]] = None) -> Array:
        """Elements of system memory (less the zero point of what an engine made) times scale, as float32."""
        return (self.asnumpy(shape).astype(np.float32) - np.float32(self._zero_point)) * np.float32(scale)

    def sync_s2d(self, *what: Any) -> None:
        """To device memory: all; the first so many bytes; or (source tensor, its first element, the first one here,
        number of elements)."""
        if len(what) == 4:
            source = what[0]
            here, there, count = _part("sync_s2d", source, self, what[1:])
            flat = source._system_array().reshape(-1)[here:here + count]
            if count:
                self._device_tensor().view([count], there).copy_from(flat)
            return
        count = self._bytes("sync_s2d", what)
        if count:
            self._device_tensor().view([count], 0, "uint8").copy_from(self._system_bytes()[:count])

    def sync_d2s(self, *what: Any) -> None:
        """From device memory: all; the first so many bytes; or (source tensor, its first element, the first one here,
        number of elements)."""
        if len(what) == 4:
            here, there, count = _part("sync_d2s", what[0], self, what[1:])
            if count:
                flat = self._system_array().reshape(-1)[there:there + count]
                what[0]._device_tensor().view([count], here).copy_to(flat)
            return
        count = self._bytes("sync_d2s", what)
        if count:
            self._device_tensor().view([count], 0, "uint8").copy_to(self._system_bytes()[:count])

    def sync_d2d(self, src: "Tensor", offset_src: int, offset_dst: int, length: int) -> None:
        """Elements of another tensor's device memory into this one's; offsets and length in elements."""
        first, to, count = _part("sync_d2d", src, self, (offset_src, offset_dst, length))
        if count:
            array = src._device_tensor().view([count], first).numpy()
            self._device_tensor().view([count], to).copy_from(array)

    def sync_d2d_stride(self, src: "Tensor", stride_src: int, stride_dst: int, count: int) -> None:
        """So many elements of another tensor's device memory, every stride_src-th, to every stride_dst-th here."""
        where = "sync_d2d_stride"
        count = _number(where, "count", count, min(src.size(), self.size()))
        steps = [_number(where, "stride_src", stride_src, src.size()),
                 _number(where, "stride_dst", stride_dst, self.size())]
        for name, step, tensor in (("stride_src", steps[0], src), ("stride_dst", steps[1], self)):
            if step < 1 or count * step > tensor.size():
                raise qnpu.Error(f"sync_d2d_stride: {count} elements with {name} {step}: the tensor has "
                                 f"{tensor.size()}")
        elements = src._dev_array().reshape(-1)[:count * steps[0]:steps[0]]
        array = self._dev_array()
        array.reshape(-1)[:count * steps[1]:steps[1]] = elements
        self._device_tensor().copy_from(array)

    def _system_bytes(self) -> Array:
        return self._system_array().reshape(-1).view(np.uint8)

    def _bytes(self, where: str, what: Tuple[Any, ...]) -> int:
        if len(what) > 1:
            raise TypeError(f"{where}: {len(what)} arguments; none, 1 (bytes) or 4 (a part) are expected")
        if not what or what[0] is None:
            return self.nbytes()
        return _number(where, "bytes", what[0], self.nbytes())

    def memory_set(self, value: Any) -> None:
        """Fills all memory that it has."""
        try:
            number = exact(value, _numpy_type(self._dtype))
        except ValueError as error:
            raise qnpu.Error(f"memory_set: {error}") from None
        filled = np.full(self._shape, number)
        if self._sys is not None:
            self._system_array()[...] = filled
        if self._dev is not None:
            self._device_tensor().copy_from(filled)

    def zeros(self) -> None:
        """Fills with 0."""
        self.memory_set(0)

    def ones(self) -> None:
        """Fills with 1."""
        self.memory_set(1)

    def dump_data(self, file_name: str, bin: bool = False) -> None:  # pylint: disable=redefined-builtin
        """Writes the elements: as text, one a line, or their bytes."""
        self.asnumpy().tofile(file_name, sep="" if bin else "\n")


def argmax(tensor: Tensor) -> int:
    """Place of the largest element."""
    return int(np.argmax(tensor.asnumpy()))


def argmin(tensor: Tensor) -> int:
    """Place of the smallest element."""
    return int(np.argmin(tensor.asnumpy()))


# ---- engines ----


_ENGINE_NAMES = {"bmodel_path": "model", "bmodel_bytes": "model", "bmodel_size": "size", "tpu_id": "device",
                 "handle": "device"}


def _engine_model(what: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The model of a call; None without one."""
    return what[0] if what else next((value for name, value in named.items()
                                      if _ENGINE_NAMES.get(name, name) == "model"), None)


def _model_arguments(what: Sequence[Any], named: Mapping[str, Any]) -> Tuple[str, ...]:
    """Models in memory have a size."""
    in_memory = isinstance(_engine_model(what, named), (bytes, bytearray, memoryview))
    return ("model", "size") if in_memory else ("model",)


class Engine:
    """Loaded models on a device.

    Engine(tpu_id), Engine(handle): without a model; load() follows.
    Engine(path, tpu_id or handle, mode), Engine(bytes, size, tpu_id or handle, mode).

    By name: bmodel_path, or bmodel_bytes and bmodel_size; tpu_id, or handle; mode.
    """

    def __init__(self, *what: Any, **named: Any) -> None:
        self._modes: Dict[str, IOMode] = {}
        self._sessions: Dict[str, qnpu.Session] = {}
        if isinstance(what[0], (int, np.integer, Handle)) if what else _engine_model(what, named) is None:
            names: Tuple[str, ...] = ()
        else:
            names = _model_arguments(what, named)
        bound = _bind("Engine", (*names, "device", "mode"), (*names[:1], "device"), what, named, _ENGINE_NAMES)
        self._mode = bound.pop("mode", IOMode.SYSIO)
        if not isinstance(self._mode, IOMode):
            raise TypeError(f"Engine: mode is {self._mode!r}, an IOMode is expected")
        device = bound.pop("device")
        self._handle = device if isinstance(device, Handle) else Handle(device)
        if bound and not self.load(**bound):
            raise qnpu.Error("Engine: the model has no network")

    def load(self, *what: Any, **named: Any) -> bool:
        """load(path), load(bytes, size): a .bmodel, or a network in ONNX, from a file or from memory. Names are the
        constructor's."""
        bound = _bind("load", _model_arguments(what, named), ("model",), what, named, _ENGINE_NAMES)
        model = bound["model"]
        if bound.get("size") is not None:
            data, size = as_bytes(memoryview(model)), operator.index(bound["size"])
            if not 0 <= size <= len(data):
                raise qnpu.Error(f"load: {size} bytes, the model has {len(data)}")
            model = data[:size]
        session = qnpu.Session(model, device=self._handle._device)
        for name in session.networks:
            if name in self._sessions:
                session.close()
                raise qnpu.Error(f"load: a network named '{name}' is loaded already")
        self._sessions.update((name, session) for name in session.networks)
        return bool(session.networks)

    def _net(self, graph_name: str) -> qnpu.NetworkInfo:
        try:
            return self._sessions[graph_name].network(graph_name)
        except KeyError:
            raise qnpu.Error(f"graph {graph_name!r} is not loaded; {there_are(self._sessions)}") from None

    def _tensor(self, graph_name: str, name: str, side: str) -> qnpu.TensorInfo:
        infos: Tuple[qnpu.TensorInfo, ...] = getattr(self._net(graph_name), side + "s")
        for info in infos:
            if info.name == name:
                return info
        raise qnpu.Error(f"graph '{graph_name}': {side} {name!r} does not exist; "
                         + there_are(info.name for info in infos))

    def get_handle(self) -> Handle:
        """The engine's device."""
        return self._handle

    def get_device_id(self) -> int:
        """Its number."""
        return self._handle.get_device_id()

    def get_graph_names(self) -> List[str]:
        """Names of all networks."""
        return list(self._sessions)

    def graph_is_dynamic(self, graph_name: str) -> bool:
        """Whether inputs may have other shapes than those of the model, up to these."""
        return self._net(graph_name).dynamic

    def set_io_mode(self, graph_name: str, mode: IOMode) -> bool:
        """Where create_input_tensors_map() and create_output_tensors_map() allocate memory."""
        self._net(graph_name)
        self._modes[graph_name] = IOMode(mode)
        return True

    def get_input_names(self, graph_name: str) -> List[str]:
        """In the network's order."""
        return [info.name for info in self._net(graph_name).inputs]

    def get_output_names(self, graph_name: str) -> List[str]:
        """In the network's order."""
        return [info.name for info in self._net(graph_name).outputs]

    def get_input_num(self, graph_name: str) -> int:
        """How many inputs there are."""
        return len(self._net(graph_name).inputs)

    def get_output_num(self, graph_name: str) -> int:
        """How many outputs there are."""
        return len(self._net(graph_name).outputs)

    def get_max_input_shapes(self, graph_name: str) -> Dict[str, List[int]]:
        """Of each input the shape with the most elements, over all stages."""
        return {info.name: list(max(info.shapes, key=_elements)) for info in self._net(graph_name).inputs}

    def get_max_output_shapes(self, graph_name: str) -> Dict[str, List[int]]:
        """Likewise of outputs."""
        return {info.name: list(max(info.shapes, key=_elements)) for info in self._net(graph_name).outputs}

    def get_input_shape(self, graph_name: str, tensor_name: str) -> List[int]:
        """That with the most elements, over all stages."""
        return list(max(self._tensor(graph_name, tensor_name, "input").shapes, key=_elements))

    def get_output_shape(self, graph_name: str, tensor_name: str) -> List[int]:
        """That with the most elements, over all stages."""
        return list(max(self._tensor(graph_name, tensor_name, "output").shapes, key=_elements))

    def get_input_dtype(self, graph_name: str, tensor_name: str) -> Dtype:
        """Type of its elements."""
        return _DTYPES[self._tensor(graph_name, tensor_name, "input").dtype]

    def get_output_dtype(self, graph_name: str, tensor_name: str) -> Dtype:
        """Type of its elements."""
        return _DTYPES[self._tensor(graph_name, tensor_name, "output").dtype]

    def get_input_scale(self, graph_name: str, tensor_name: str) -> float:
        """What numbers are multiplied by to become elements."""
        return self._tensor(graph_name, tensor_name, "input").scale

    def get_output_scale(self, graph_name: str, tensor_name: str) -> float:
        """What elements are multiplied by to become numbers."""
        return self._tensor(graph_name, tensor_name, "output").scale

    def _create(self, graph_name: str, infos: Sequence[qnpu.TensorInfo], create_mode: int,
                system: Tuple[IOMode, IOMode]) -> Dict[str, Tensor]:
        mode = self._modes.get(graph_name, self._mode)
        in_system = create_mode == 0 or (create_mode != 1 and mode in system)
        made = {}
        for info in infos:
            made[info.name] = Tensor(self._handle, max(info.shapes, key=_elements), _DTYPES[info.dtype], in_system,
                                     create_mode != 0)
            made[info.name]._zero_point = info.zero_point
        return made

    def create_input_tensors_map(self, graph_name: str, create_mode: int = -1) -> Dict[str, Tensor]:
        """Tensors for all inputs, of the largest shape: 0 in system memory only, 1 in device memory only, else as the
        IOMode says (device memory always, system memory with SYSI and SYSIO)."""
        return self._create(graph_name, self._net(graph_name).inputs, create_mode, (IOMode.SYSI, IOMode.SYSIO))

    def create_output_tensors_map(self, graph_name: str, create_mode: int = -1) -> Dict[str, Tensor]:
        """Likewise for outputs (SYSO and SYSIO)."""
        return self._create(graph_name, self._net(graph_name).outputs, create_mode, (IOMode.SYSO, IOMode.SYSIO))

    def process(self, graph_name: str, *what: Any, **named: Any) -> Optional[Dict[str, Any]]:
        """Launches a network and waits.

        process(graph, arrays[, core_list]): returns arrays. Numbers for inputs of other types are converted: to and
            from floating-point as the model's scales say, integers where that changes none. Integers with a scale,
            float16 and bfloat16 come back as float32.
        process(graph, tensors[, core_list]): returns tensors in device memory (and system memory as the IOMode says).
        process(graph, input_tensors, output_tensors[, core_list])
        process(graph, input_tensors, input_shapes, output_tensors[, core_list]): of tensors that are larger, the part.

        Inputs are read from the tensors' device memory; where they have system memory too, and the IOMode has it for
        inputs, that is copied first. Outputs likewise, afterwards.
        """
        begin = time.perf_counter()
        also = {"input_tensors": "input", "output_tensors": "output"}
        if what and isinstance(what[-1], (list, tuple)):
            if "core_list" in named:
                raise TypeError("process: core_list is there twice")
            named, what = {**named, "core_list": what[-1]}, what[:-1]
        shapes_before = len(what) > 2 or any(also.get(name, name) == "output" for name in named)
        names = ("input", "input_shapes", "output") if shapes_before else ("input", "output", "input_shapes")
        bound = _bind("process", (*names, "core_list"), ("input",), what, named, also)
        cores = list(bound.pop("core_list", None) or [])
        if not all(isinstance(a, Mapping) for a in bound.values()):
            raise qnpu.Error("process: a dict of arrays, or dicts of tensors, are expected")
        feeds, shapes, targets = bound["input"], bound.get("input_shapes"), bound.get("output")
        if shapes is not None and targets is None:
            raise TypeError("process: input_shapes without output")
        net = self._net(graph_name)
        cores = cores[:max(net.cores, 1)]
        kinds = {isinstance(value, Tensor) for value in (*feeds.values(), *(targets or {}).values())}
        if len(kinds) > 1 or (targets is not None and False in kinds):
            raise qnpu.Error("process: arrays and tensors together: either a dict of arrays, or dicts of tensors, are "
                             "expected")
        if True in kinds:
            result = self._process_tensors(net, feeds, shapes, targets, cores)
        else:
            result = self._process_arrays(net, feeds, cores)
        if _print_times:
            print(f"Engine.process {graph_name}: {(time.perf_counter() - begin) * 1e3:.3f} ms", file=sys.stderr)
        return result

    def _process_arrays(self, net: qnpu.NetworkInfo, arrays: Mapping[str, Array], cores: List[int]) -> Dict[str, Any]:
        session = self._sessions[net.name]
        feeds = dict(arrays)
        for info in net.inputs:
            if info.name in feeds:
                feeds[info.name] = _for_input(session, net, info, feeds[info.name])
        outputs = session.run(feeds, network=net.name, cores=cores)
        return {info.name: session.dequantize(info.name, outputs[info.name], network=net.name)
                if info.dtype in ("float16", "bfloat16") or (info.dtype in ("int8", "uint8", "int16", "uint16")
                                                             and (info.scale != 1 or info.zero_point))
                else outputs[info.name] for info in net.outputs}

    def _process_tensors(self, net: qnpu.NetworkInfo, tensors: Mapping[str, Tensor],
                         shapes: Optional[Mapping[str, Sequence[int]]], targets: Optional[Mapping[str, Tensor]],
                         cores: List[int]) -> Optional[Dict[str, Any]]:
        mode = self._modes.get(net.name, self._mode)
        feeds = {}
        for name, tensor in tensors.items():
            if tensor.own_sys_data() and tensor.own_dev_data() and mode in (IOMode.SYSI, IOMode.SYSIO):
                tensor.sync_s2d()
            feeds[name] = tensor._device_tensor() if tensor.own_dev_data() else tensor._system_array()
        for name, shape in (shapes or {}).items():
            if name in feeds:
                feeds[name] = _first_part(feeds[name], shape)
        session = self._sessions[net.name]
        in_system = mode in (IOMode.SYSO, IOMode.SYSIO)
        if targets is None:
            outputs = session.run(feeds, network=net.name, cores=cores, on_device=True)
            return {info.name: _wrap(self._handle, info, outputs[info.name], in_system) for info in net.outputs}
        self._fill(net, feeds, targets, in_system, cores)
        return None

    def _fill(self, net: qnpu.NetworkInfo, feeds: Mapping[str, Any], targets: Mapping[str, Tensor], in_system: bool,
              cores: List[int]) -> None:
        """Tensors of the program's get the outputs and their shapes. Where the shapes are known beforehand, the chip
        writes into their memory, which other tensors may share; else it is copied."""
        session = self._sessions[net.name]
        stage = _stage(net, feeds)
        places: Dict[str, Any] = {}
        for name, tensor in targets.items():
            info = self._tensor(net.name, name, "output")
            if stage is not None:
                tensor._fit(f"graph '{net.name}' output '{name}'", info.shapes[stage])
                places[name] = tensor._device_tensor() if tensor.own_dev_data() else tensor._system_array()
        outputs = session.run(feeds, network=net.name, cores=cores, out=places, on_device=True)
        for name, tensor in targets.items():
            if stage is None:
                tensor._fit(f"graph '{net.name}' output '{name}'", outputs[name].shape)
                if tensor.own_dev_data():
                    tensor._device_tensor().copy_from(outputs[name].numpy())
                else:
                    outputs[name].copy_to(tensor._system_array())
            if in_system and tensor.own_sys_data() and tensor.own_dev_data():
                tensor.sync_d2s()


def _stage(net: qnpu.NetworkInfo, feeds: Mapping[str, Any]) -> Optional[int]:
    """The stage that inputs of these shapes run, where that decides the outputs' shapes."""
    if net.dynamic:
        return None
    for stage in range(net.stages):
        if all(info.name in feeds and tuple(feeds[info.name].shape) == info.shapes[stage] for info in net.inputs):
            return stage
    return 0 if net.stages == 1 else None


def _for_input(session: qnpu.Session, net: qnpu.NetworkInfo, info: qnpu.TensorInfo, value: Any) -> Array:
    """An array of the input's type, where the value has one that becomes it; else the launch says what is wrong."""
    array, wanted = _native_order(_array_of(value, f"input '{info.name}'")), _numpy_type(_DTYPES[info.dtype])
    if array.dtype == wanted:
        return array
    if array.dtype.kind == "f" or (array.dtype.kind in "iub" and wanted.kind == "f"):
        return session.quantize(info.name, array, network=net.name)
    if array.dtype.kind in "iub" and info.dtype != "bfloat16":
        cast = array.astype(wanted)
        if np.array_equal(cast, array):
            return cast
    return array


def _first_part(value: Any, shape: Sequence[int]) -> Any:
    count = _elements(shape)
    if isinstance(value, qnpu.Tensor):
        return value.view([int(n) for n in shape])
    return value.reshape(-1)[:count].reshape(shape)


def _wrap(handle: Handle, info: qnpu.TensorInfo, made: qnpu.Tensor, in_system: bool) -> Tensor:
    tensor = Tensor(handle, made.shape, _DTYPES[made.dtype], False, False)
    tensor._zero_point = info.zero_point
    tensor._dev = made
    if in_system:
        tensor._sys = made.numpy()
    return tensor


def _are_tensors(feeds: Any) -> bool:
    return isinstance(feeds, Mapping) and all(isinstance(value, Tensor) for value in feeds.values())


class MultiEngine:
    """A model on several devices: the batch is dealt out among them.

    Each device runs batches of the model's own size; a rest is filled up with zeros.
    """

    def __init__(self, bmodel_path: str, tpu_ids: Sequence[int], sys_out: bool = True, graph_idx: int = 0) -> None:
        if not isinstance(bmodel_path, (str, os.PathLike)):
            raise TypeError(f"MultiEngine: bmodel_path is {type(bmodel_path).__name__}, a path is expected")
        if isinstance(tpu_ids, (str, bytes)) or not hasattr(tpu_ids, "__iter__"):
            raise TypeError(f"MultiEngine: tpu_ids {tpu_ids!r:.40}, expected a list of integers")
        tpu_ids = [_number("MultiEngine", "tpu_ids", tpu_id, _INT_MAX) for tpu_id in tpu_ids]
        if not tpu_ids:
            raise qnpu.Error("MultiEngine: an empty list of devices")
        if not isinstance(sys_out, (bool, np.bool_)):
            raise TypeError(f"MultiEngine: sys_out {sys_out!r:.40}, expected True or False")
        graph_idx = _number("MultiEngine", "graph_idx", graph_idx, _INT_MAX)
        mode = IOMode.SYSIO if sys_out else IOMode.SYSI
        self._engines = [Engine(bmodel_path, tpu_id, mode) for tpu_id in tpu_ids]
        names = self._engines[0].get_graph_names()
        if graph_idx >= len(names):
            raise qnpu.Error(f"MultiEngine: graph {graph_idx}, the model has {len(names)}")
        self._graph = names[graph_idx]
        self._pool = ThreadPoolExecutor(len(self._engines))

    def set_print_flag(self, flag: bool) -> None:
        """As the function of this name."""
        set_print_flag(flag)

    set_print_time = set_print_flag

    def get_device_ids(self) -> List[int]:
        """Numbers of its devices."""
        return [engine.get_device_id() for engine in self._engines]

    def get_graph_names(self) -> List[str]:
        """Names of all networks of the model."""
        return self._engines[0].get_graph_names()

    def get_input_names(self, graph_name: str) -> List[str]:
        """In the network's order."""
        return self._engines[0].get_input_names(graph_name)

    def get_output_names(self, graph_name: str) -> List[str]:
        """In the network's order."""
        return self._engines[0].get_output_names(graph_name)

    def get_input_shape(self, graph_name: str, tensor_name: str) -> List[int]:
        """Of one launch."""
        return self._engines[0].get_input_shape(graph_name, tensor_name)

    def get_output_shape(self, graph_name: str, tensor_name: str) -> List[int]:
        """Of one launch."""
        return self._engines[0].get_output_shape(graph_name, tensor_name)

    def process(self, input_tensors: Union[Mapping[str, Array], Sequence[Mapping[str, Tensor]]]) -> Any:
        """Arrays with any batch in dimension 0, the same for all: returns arrays with that batch. Or a list of dicts of
        tensors, each on the device of one of the engines: returns a list of dicts of tensors."""
        if isinstance(input_tensors, Mapping):
            return self._process_arrays(input_tensors)
        if not isinstance(input_tensors, (list, tuple)) or not all(_are_tensors(feeds) for feeds in input_tensors):
            raise TypeError(f"MultiEngine.process: {type(input_tensors).__name__}, expected a dict of arrays, or a "
                            "list of dicts of tensors")

        def launch(feeds: Mapping[str, Tensor]) -> Optional[Dict[str, Any]]:
            ids = {tensor.device_id() for tensor in feeds.values()}
            for engine in self._engines:
                if ids == {engine.get_device_id()}:
                    return engine.process(self._graph, feeds)
            raise qnpu.Error(f"MultiEngine.process: tensors on devices {sorted(ids)}, one of "
                             f"{self.get_device_ids()} is expected")

        return list(self._pool.map(launch, input_tensors))

    def _process_arrays(self, input_tensors: Mapping[str, Array]) -> Dict[str, Array]:
        first = self._engines[0]
        for name, value in input_tensors.items():
            if isinstance(value, Tensor) or np.ndim(value) == 0:
                raise TypeError(f"MultiEngine.process: input {name!r}: {type(value).__name__}, expected an array with "
                                "a batch; tensors are given as a list of dicts")
            first._tensor(self._graph, name, "input")
        for name in first.get_input_names(self._graph):
            if name not in input_tensors:
                raise qnpu.Error(f"MultiEngine.process: input '{name}' is missing")
        batch = first.get_input_shape(self._graph, first.get_input_names(self._graph)[0])[0]
        arrays = {name: np.asarray(array) for name, array in input_tensors.items()}
        total = {array.shape[0] for array in arrays.values()}
        if len(total) != 1:
            raise qnpu.Error(f"MultiEngine.process: batches {sorted(total)}, the same is expected for all inputs")
        rows = total.pop()

        def part(number: int) -> Dict[str, Array]:
            feeds = {}
            for name, array in arrays.items():
                piece = array[number * batch:(number + 1) * batch]
                feeds[name] = np.concatenate([piece, np.zeros((batch - len(piece), *piece.shape[1:]), piece.dtype)])
            result = self._engines[number % len(self._engines)].process(self._graph, feeds)
            assert result is not None
            return result

        parts = list(self._pool.map(part, range(-(-rows // batch))))
        return {name: np.concatenate([p[name] for p in parts])[:rows] for name in parts[0]} if parts else {}


_NO_IMAGES = "QNPU has no image processor, video or post-processing units; docs/reference/python.md says what there is"
_NO_LANGUAGE = ("it is the vendor's engine for language models; here an Engine runs their networks token by token, as "
                "examples/decode does in C++")
_ABSENT = {
    **dict.fromkeys((
        "BMImage", "BMImageArray", "Decoder", "Decoder_RawStream", "Encoder", "MultiDecoder", "ImagePreProcess",
        "EngineImagePreProcess", "PaddingAtrr", "TensorPTRWithName", "set_decoder_env", "get_vpu_util", "get_vpp_util",
        "tpu_kernel_api_yolov5_detect_out", "algo_yolov5_post_1output", "algo_yolov5_post_3output",
        "deepsort_tracker_controller", "bytetrack_tracker_controller"), _NO_IMAGES),
    "EngineLLM": _NO_LANGUAGE,
}


def _imports_from(frame: types.FrameType) -> bool:
    """Whether it is at `from sophon.sail import name`, which would replace an AttributeError's text by its own."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] == "IMPORT_FROM"


def __getattr__(name: str) -> NoReturn:
    if name not in _ABSENT:
        raise AttributeError(f"module 'sophon.sail' has no attribute {name!r}")
    text = f"sophon.sail.{name} is not there: {_ABSENT[name]}"
    if _imports_from(sys._getframe(1)):
        raise ImportError(text, name=__name__, path=__file__)
    raise AttributeError(text)
