# SPDX-License-Identifier: MIT
"""QNPU for Python: compile networks, run them on the NPU, look at devices.

    import numpy, qnpu
    session = qnpu.Session("digits.onnx")
    outputs = session.run({"image": numpy.zeros((1, 1, 8, 8), numpy.float32)})

Arrays are numpy's, dense and row-major; shapes are in elements, outermost dimension first. Sizes are in bytes, cycles
are the chip's modelled ones. What fails raises qnpu.Error with the reason. Everything may be used by any number of
threads, which run side by side: the interpreter's lock is free while a launch is on its way. docs/reference/python.md
has more.
"""
try:
    from ._native import Device, Error, Tensor
except ImportError as _error:
    from ._missing import reason as _reason
    raise ImportError(_reason(_error), name=_error.name, path=_error.path) from _error
from .compiler import CompileError, Model, compile, load_plugin  # pylint: disable=redefined-builtin
from .device import DeviceInfo, MemoryInfo, Profile, Stat, Status, devices
from .session import NetworkInfo, NodeArg, Outputs, Session, TensorInfo, from_dlpack, tensor, trace

Error.__module__ = Tensor.__module__ = Device.__module__ = __name__

__version__ = "0.1.0"
__all__ = [
    "CompileError", "Device", "DeviceInfo", "Error", "MemoryInfo", "Model", "NetworkInfo", "NodeArg", "Outputs",
    "Profile", "Session", "Stat", "Status", "Tensor", "TensorInfo", "compile", "devices", "from_dlpack", "load_plugin",
    "tensor", "trace",
]
