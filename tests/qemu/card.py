# SPDX-License-Identifier: MIT
"""The card as a driver sees it: BARs, registers by name, MSI-X, page tables in its DDR, one queue, jobs."""

import os
import re
import struct

from machine import Function, wait_for

HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "uapi", "hw", "npu_regs.h")

BAR_REGS, BAR_MSIX, BAR_DDR = 0xE0000000, 0xE0400000, 0x8_0000_0000
MEMORY_ENABLE, BUS_MASTER = 0x2, 0x4
CAP_PM, CAP_EXPRESS, CAP_MSIX, EXT_CAP_AER = 0x01, 0x10, 0x11, 0x0001
PAGE = 4096


def constants():
    """Plain numbers of the generated header, without their NPU_ prefix."""
    with open(HEADER, encoding="utf-8") as file:
        pairs = re.findall(r"^#define NPU_(\w+) (0x[0-9a-f]+|\d+)u?l?l?(?:\s|$)", file.read(), re.M)
    return {name: int(value, 0) for name, value in pairs}


C = constants()


class Command:
    """Encodings of the few commands used here (section 6 of docs/reference/hardware.md)."""

    @staticmethod
    def nop():
        return struct.pack("<B127x", 0x01)

    @staticmethod
    def copy(source, target, size):
        """source and target are (region, offset); size in bytes (type U8)."""
        ones, dense = [1] * 5, [0] * 5
        return struct.pack("<B15xQQBBBB4x6I6i6i16x", 0x40, source[1], target[1], source[0], target[0], 3, 3,
                           *ones, size, *dense, 1, *dense, 1)

    @staticmethod
    def fill(target, size):
        """Zeroes size bytes at (region, offset)."""
        return struct.pack("<B15xQQ1xB1xB4x6I24x6i16x", 0x41, 0, target[1], target[0], 3, *[1] * 5, size, *[0] * 5, 1)


class Card:
    READ, WRITE = 1, 2

    def __init__(self, machine):
        self.machine = machine
        self.config = Function(machine, 1, 0)
        self.ddr_free = 0x10000

    # --- configuration ---

    def assign_bars(self, command=MEMORY_ENABLE | BUS_MASTER):
        self.config.write(0x10, BAR_REGS, 4)
        self.config.write(0x18, BAR_DDR & 0xFFFFFFFF, 4)
        self.config.write(0x1C, BAR_DDR >> 32, 4)
        self.config.write(0x20, BAR_MSIX, 4)
        self.config.write(0x04, command, 2)

    def bar_size(self, register, wide=False):
        """Size and flags of a BAR by the usual writing of ones."""
        size = 8 if wide else 4
        for offset in range(0, size, 4):
            self.config.write(register + offset, 0xFFFFFFFF, 4)
        value = sum(self.config.read(register + offset, 4) << 8 * offset for offset in range(0, size, 4))
        mask = (1 << 8 * size) - 1
        return (~(value & ~0xF) & mask) + 1, value & 0xF

    def function_reset(self):
        self.config.write(self.config.capability(CAP_EXPRESS) + 8, 0x8000, 2)

    # --- registers ---

    def reg(self, name, size=4):
        return self.machine.read(BAR_REGS + C["REG_" + name], size)

    def set_reg(self, name, value, size=4):
        self.machine.write(BAR_REGS + C["REG_" + name], value, size)

    def queue_address(self, name, queue):
        return BAR_REGS + C["QUEUE_BASE"] + queue * C["QUEUE_STRIDE"] + C["QUEUE_" + name]

    def queue_reg(self, name, queue=0):
        return self.machine.read(self.queue_address(name, queue), 4)

    def set_queue_reg(self, name, value, size=4, queue=0):
        self.machine.write(self.queue_address(name, queue), value, size)

    def wait_ready(self):
        wait_for(lambda: self.reg("STATUS") & C["STATUS_READY"] and not self.reg("CTRL") & C["CTRL_RESET"],
                 "STATUS.READY")

    # --- MSI-X ---

    def enable_msix(self, enable=True):
        offset = self.config.capability(CAP_MSIX) + 2
        self.config.write(offset, 0x8000 if enable else 0, 2)

    def aim_vector(self, vector, address, data, masked=False):
        entry = BAR_MSIX + 16 * vector
        for offset, value in ((12, 1), (0, address & 0xFFFFFFFF), (4, address >> 32), (8, data), (12, int(masked))):
            self.machine.write(entry + offset, value, 4)

    def pending(self, vector):
        offset = self.config.read(self.config.capability(CAP_MSIX) + 8, 4) & ~7
        return self.machine.read(BAR_MSIX + offset + vector // 64 * 8, 8) >> vector % 64 & 1

    # --- address spaces ---

    def ddr_page(self):
        """A zeroed page of the card's memory."""
        address, self.ddr_free = self.ddr_free, self.ddr_free + PAGE
        self.machine.put(BAR_DDR + address, bytes(PAGE))
        return address

    def new_address_space(self, asid=0):
        table, root = self.ddr_page(), self.ddr_page()
        self.machine.write(BAR_DDR + table + 16 * asid, root | C["ASID_VALID"], 8)
        self.set_reg("ASID_TABLE", table, 8)
        self.root = root

    def map(self, address, target, flags=0):
        """Maps one 4 KiB page; flags beyond VALID as in the leaf entry."""
        table = self.root
        for shift in (39, 30, 21):
            entry = BAR_DDR + table + 8 * (address >> shift & 511)
            table = self.machine.read(entry, 8) & C["PTE_ADDR"]
            if not table:
                table = self.ddr_page()
                self.machine.write(entry, table | C["PTE_VALID"], 8)
        self.machine.write(BAR_DDR + table + 8 * (address >> 12 & 511), target | flags | C["PTE_VALID"], 8)

    def map_repeated(self, address, target, flags):
        """Maps the whole GiB at address to one page, over and over."""
        leaves, middle = self.ddr_page(), self.ddr_page()
        self.machine.put(BAR_DDR + leaves, struct.pack("<Q", target | flags | C["PTE_VALID"]) * 512)
        self.machine.put(BAR_DDR + middle, struct.pack("<Q", leaves | C["PTE_VALID"]) * 512)
        upper = self.ddr_page()
        self.machine.write(BAR_DDR + self.root + 8 * (address >> 39 & 511), upper | C["PTE_VALID"], 8)
        self.machine.write(BAR_DDR + upper + 8 * (address >> 30 & 511), middle | C["PTE_VALID"], 8)

    def invalidate(self, asid=0):
        self.set_reg("INV_ADDR", 0, 8)
        self.set_reg("INV_BYTES", 0, 8)
        self.set_reg("INV_ASID", asid)
        ticket = self.reg("INV_ISSUED")
        wait_for(lambda: self.reg("INV_DONE") == ticket, "the invalidation")

    # --- queue 0 ---

    def start_queue(self, bus=lambda address: address, vector=0):
        """bus: bus address of an address in system memory (they differ behind an IOMMU)."""
        self.bus = bus
        self.sq, self.cq, self.fence, self.desc = (self.machine.allocate(PAGE) for _ in range(4))
        self.jobs = 0
        self.set_queue_reg("SQ_BASE", bus(self.sq), 8)
        self.set_queue_reg("CQ_BASE", bus(self.cq), 8)
        self.set_queue_reg("FENCE_ADDR", bus(self.fence), 8)
        for name, value in (("SQ_LOG2", 4), ("CQ_LOG2", 4), ("ASID", 0), ("PRIORITY", 1), ("CORE_MASK", 1),
                            ("VECTOR", vector), ("CTRL", C["QUEUE_CTRL_ENABLE"])):
            self.set_queue_reg(name, value)
        self.set_reg("CTRL", C["CTRL_ENABLE"])

    def submit(self, regions, gdma=(0, 0, 1), flags=0):
        """One job with a GDMA stream. regions: (address, bytes, access) each; gdma: (region, offset, commands)."""
        slot, self.jobs = self.jobs % 16, self.jobs + 1
        assert self.jobs < 16, "these tests stay in the first pass through the rings"
        job = struct.pack("<IHHIIIIQQIIQQ", C["JOB_MAGIC"], C["JOB_VERSION"], flags, 1, len(regions), 0, 0, 0, 0, 0, 0,
                          0, 0)
        job += struct.pack("<QQIIBB6x", 0, gdma[1], 0, gdma[2], 0, gdma[0])
        for address, size, access in regions:
            job += struct.pack("<QQIIQ", address, size, access, 0, 0)
        where = 256 * slot
        self.machine.put(self.desc + where, job)
        self.machine.put(self.sq + 64 * slot,
                         struct.pack("<QQII40x", 100 + slot, self.bus(self.desc) + where, len(job), 0))
        self.machine.write(BAR_REGS + C["DOORBELL_BASE"] + C["DOORBELL_SQ_TAIL"], self.jobs % 16, 4)

    def completion(self):
        """The completion of the job submitted last, as a dictionary."""
        entry = self.cq + 64 * (self.jobs - 1)
        wait_for(lambda: self.machine.read(entry + 60, 4) & 1, f"the completion of job {self.jobs}")
        names = ("job_id", "offset", "fault_addr", "start_cycle", "end_cycle", "bytes", "command", "region", "status",
                 "engine", "core", "sq_head", "phase")
        found = dict(zip(names, struct.unpack("<QQQQQIIIHBBII", self.machine.get(entry, 64))))
        self.machine.write(BAR_REGS + C["DOORBELL_BASE"] + C["DOORBELL_CQ_HEAD"], self.jobs % 16, 4)
        return found

    def run(self, regions, **stream):
        self.submit(regions, **stream)
        return self.completion()
