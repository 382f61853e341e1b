# SPDX-License-Identifier: MIT
"""Just enough of a VT-d driver (legacy mode, 39-bit tables) to put one PCI function behind the IOMMU of q35."""

import struct

from machine import wait_for

BASE = 0xFED90000
GLOBAL_COMMAND, GLOBAL_STATUS, ROOT_TABLE, CONTEXT_COMMAND = 0x18, 0x1C, 0x20, 0x28
FAULT_STATUS, FAULT_CONTROL, FAULT_DATA, FAULT_ADDRESS = 0x34, 0x38, 0x3C, 0x40
TRANSLATION, SET_ROOT = 1 << 31, 1 << 30
DELIVER_NMI = 0x400
PAGE = 4096
READ_WRITE = 3


class Iommu:
    def __init__(self, machine):
        self.machine = machine
        self.enabled = False
        assert self.read(0x0, 4) == 0x10, "VT-d version 1.0"
        self.iotlb = 16 * (self.read(0x10, 8) >> 8 & 0x3FF) + 8
        self.fault = 16 * (self.read(0x8, 8) >> 24 & 0x3FF)

    def read(self, offset, size):
        return self.machine.read(BASE + offset, size)

    def write(self, offset, value, size):
        self.machine.write(BASE + offset, value, size)

    def enable(self, to_bus, start, size, bus, slot):
        """Maps memory [start, start + size) for one function, at the bus addresses that to_bus() says."""
        root = self.tables(to_bus, start, size, bus, slot)
        self.write(ROOT_TABLE, root, 8)
        self.global_command(SET_ROOT)
        self.write(CONTEXT_COMMAND, 1 << 63 | 1 << 61, 8)
        self.write(self.iotlb, 1 << 63 | 1 << 60, 8)
        self.global_command(TRANSLATION)
        self.enabled = True

    def global_command(self, bit):
        self.write(GLOBAL_COMMAND, bit, 4)
        wait_for(lambda: self.read(GLOBAL_STATUS, 4) & bit, "the IOMMU")

    def tables(self, to_bus, start, size, bus, slot):
        root, context, level3, level2 = (self.machine.allocate(PAGE) for _ in range(4))
        self.machine.put(root + 16 * bus, struct.pack("<QQ", context | 1, 0))
        self.machine.put(context + 16 * (slot << 3), struct.pack("<QQ", level3 | 1, 1 << 8 | 1))
        first, block = to_bus(start), 1 << 21
        self.machine.put(level3 + 8 * (first >> 30 & 511), struct.pack("<Q", level2 | READ_WRITE))
        for bus_block in range(first // block, (first + size - 1) // block + 1):
            level1 = self.machine.allocate(PAGE)
            self.machine.put(level2 + 8 * (bus_block & 511), struct.pack("<Q", level1 | READ_WRITE))
            for page in range(block // PAGE):
                offset = bus_block * block + page * PAGE - first
                if 0 <= offset < size:
                    self.machine.put(level1 + 8 * page, struct.pack("<Q", start + offset | READ_WRITE))
        return root

    def unmask_fault_interrupt(self):
        """Faults interrupt processor 0, with an NMI: its interrupt controller need not be set up for that."""
        self.write(FAULT_ADDRESS, 0xFEE00000, 4)
        self.write(FAULT_DATA, DELIVER_NMI, 4)
        self.write(FAULT_CONTROL, 0, 4)

    def take_fault(self):
        """Page of the fault that was recorded, which is cleared."""
        wait_for(lambda: self.read(self.fault + 12, 4) >> 31, "a fault to be recorded")
        page = self.read(self.fault, 8)
        self.write(self.fault + 12, 1 << 31, 4)
        self.write(FAULT_STATUS, 1, 4)
        return page
