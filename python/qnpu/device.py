# SPDX-License-Identifier: MIT
"""What devices there are, and what they tell of themselves."""
from __future__ import annotations

from typing import List, TypedDict

from . import _native


class DeviceInfo(TypedDict):
    """What never changes of a device."""

    index: int  # for Device() and Session(device=)
    transport: str  # "drm": the driver; "sim": the chip model in this process
    bus: str  # "pci": a card; "platform": a block of a system on a chip
    cores: int
    lmem_bytes: int  # local memory of each core
    memory_bytes: int  # the card's own memory; 0: it has none
    clock_khz: int  # nominal
    isa_version: int
    coherent: bool  # the chip sees what is in the processor's caches


class MemoryInfo(TypedDict):
    """The card's memory, in bytes, at this moment."""

    total: int
    free: int
    largest: int  # free block
    process: int  # of the card's memory, by this process
    process_system: int  # of system memory that the card reaches, by this process


class Status(TypedDict):
    """Sensors and counters, at this moment."""

    temperature_c: float
    power_w: float
    voltage_v: float
    clock_khz: int
    fan_rpm: int
    busy_cores: int  # a mask: bit n is core n
    busy_cycles: List[int]  # modelled, of each core since the device was reset
    jobs: List[int]  # finished, of each core since then
    ecc_corrected: int
    resets: int


class Stat(TypedDict):
    """What BMLIB's bm_get_stat() says."""

    memory_mib: int  # of the card; of a block of a system on a chip what buffers can have of the machine's
    memory_used_mib: int
    utilisation: int  # percent of the time with a job, the mean of the cores, since the object was asked before; of the
    # first time 10 ms


class Profile(TypedDict):
    """What one Device object (a session has its own) has done. Times in microseconds."""

    launches: int
    completed: int
    npu_us: int  # of launches, as the chip counts: modelled cycles at the nominal clock
    to_device: int  # copies
    to_device_us: int  # as the program waited for them
    from_device: int
    from_device_us: int


def devices() -> List[DeviceInfo]:
    """All devices, in the order of their numbers. Which there are depends on NPU_DEVICE (drm, sim, auto)."""
    return [_native.Device(index).info() for index in range(_native.device_count())]
