#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Tests of the card in QEMU without a guest: what a driver finds in configuration space and behind the BARs, resets,
interrupts, bus accesses with and without an IOMMU, plugging, the end of QEMU, wrong properties.

    test_device.py QEMU            or NPU_QEMU=QEMU test_device.py; further arguments choose tests, as in unittest

The chip model is found in build/lib (or $NPU_BUILD/lib), unless LD_LIBRARY_PATH leads to another one.

The last line is "N passed, N failed"; the status is 0 when all passed."""

import os
import subprocess
import sys
import tempfile
import time
import unittest

from card import (BAR_DDR, BAR_REGS, BUS_MASTER, C, CAP_EXPRESS, CAP_MSIX, CAP_PM, EXT_CAP_AER, MEMORY_ENABLE, PAGE,
                  Card, Command)
from iommu import Iommu
from machine import PORT_ARGUMENTS, TIMEOUT, Machine, RootPort, base_command, environment, wait_for

QEMU = None
NPU_ARGUMENTS = "npu,bus=rp0,id=npu0,ddr=64M,lmem=64K,backend=reference"
SYSTEM = C["PTE_SYSTEM"]


class DeviceTest(unittest.TestCase):
    """A machine with a card that has its BARs, in self.machine and self.card; QEMU must end well, without a word."""

    def start(self, device=NPU_ARGUMENTS, before=(), after=(), accelerator="qtest"):
        devices = ["-device", device] if device else []
        self.machine = Machine(QEMU, *before, *PORT_ARGUMENTS, *devices, *after, accelerator=accelerator)
        self.addCleanup(self.finish)
        self.port = RootPort(self.machine)
        self.port.open_windows()
        self.card = Card(self.machine)
        if device:
            self.card.assign_bars()

    words = r"\A\Z"  # what QEMU may say on standard error

    def finish(self):
        if not self.machine.closed:
            status, error = self.machine.close()
            self.assertRegex(error, self.words)
            self.assertEqual(status, 0)

    def plug(self):
        self.machine.command("device_add", driver="npu", bus="rp0", id="npu0", ddr=16 << 20, backend="reference")
        self.port.slot_power(True)
        self.card = Card(self.machine)
        self.card.assign_bars()
        self.assertEqual(self.card.reg("ID"), C["CHIP_ID"])

    def unplug(self):
        """Asks for it and agrees to it, as the guest's hot-plug driver does."""
        self.machine.command("device_del", id="npu0")
        self.port.slot_power(False)
        self.machine.wait_event("DEVICE_DELETED")

    def prepare_jobs(self, **queue):
        """An address space with a page of NOPs in system memory at 0x1000, and a queue."""
        self.card.wait_ready()
        self.card.new_address_space()
        self.nops = self.machine.allocate(PAGE)
        self.machine.put(self.nops, Command.nop() * (PAGE // 128))
        self.card.map(0x1000, self.nops, SYSTEM)
        self.card.start_queue(**queue)

    NOP_REGION = (0x1000, PAGE, Card.READ)

    def submit_long_job(self, bus=lambda address: address):
        """A job that would take minutes: it zeroes a GiB again and again. The GiB is one page of system memory."""
        stream, target = self.machine.allocate(PAGE), self.machine.allocate(PAGE)
        self.machine.put(stream, Command.fill((1, 0), 1 << 30) * (PAGE // 128))
        self.card.map_repeated(1 << 39, bus(stream), SYSTEM)
        self.card.map_repeated(2 << 39, bus(target), SYSTEM | C["PTE_WRITE"])
        self.card.submit([(1 << 39, 1 << 30, Card.READ), (2 << 39, 1 << 30, Card.WRITE)], gdma=(0, 0, 1 << 12))
        wait_for(lambda: self.card.reg("CORE_BUSY"), "the job to begin")


class StoppedMachine(DeviceTest):
    def setUp(self):
        self.start(NPU_ARGUMENTS)
        self.machine.command("cont")  # it is started with -S
        self.prepare_jobs()

    def test_a_running_job_stands_still(self):
        self.submit_long_job()
        start = self.card.reg("PROGRESS", 8)
        wait_for(lambda: self.card.reg("PROGRESS", 8) > start, "progress")
        self.machine.command("stop")
        stopped = self.card.reg("PROGRESS", 8)
        for _ in range(2000):
            self.assertEqual(self.card.reg("PROGRESS", 8), stopped)
        self.machine.command("cont")
        wait_for(lambda: self.card.reg("PROGRESS", 8) > stopped, "progress after cont")

    def test_a_submitted_job_waits(self):
        self.machine.command("stop")
        self.card.submit([self.NOP_REGION])
        for _ in range(2000):
            self.assertEqual(self.card.queue_reg("SQ_HEAD"), 0)
        self.machine.command("cont")
        self.assertEqual(self.card.completion()["status"], C["STATUS_OK"])

    def test_a_reset_is_obeyed(self):
        self.submit_long_job()
        self.machine.command("stop")
        self.card.set_reg("CTRL", C["CTRL_RESET"])
        self.card.wait_ready()
        self.assertEqual(self.card.reg("CORE_BUSY"), 0)
        self.machine.command("cont")


class Configuration(DeviceTest):
    def setUp(self):
        self.start(NPU_ARGUMENTS + ",vectors=70")

    def test_identity(self):
        config = self.card.config
        self.assertEqual((config.read(0, 2), config.read(2, 2)), (0x1234, 0x4E50))
        self.assertEqual(config.read(0x0A, 2), 0x1200)
        self.assertEqual(config.read(0x08, 1), C["HW_VERSION"] >> 16)
        self.assertEqual((config.read(0x2C, 2), config.read(0x2E, 2)), (0x1234, 0x4E50))
        self.assertEqual(config.read(0x0E, 1), 0, "header type")

    def test_bars(self):
        self.assertEqual(self.card.bar_size(0x10), (2 << 20, 0x0), "BAR0: 32-bit memory")
        self.assertEqual(self.card.bar_size(0x18, wide=True), (64 << 20, 0xC), "BAR2: 64-bit prefetchable")
        self.assertEqual(self.card.bar_size(0x20), (4096, 0x0), "BAR4")
        self.assertEqual(self.card.bar_size(0x24)[1], 0)
        self.assertEqual(self.card.config.read(0x24, 4), 0, "BAR5 does not exist")

    def test_capabilities(self):
        config = self.card.config
        express = config.capability(CAP_EXPRESS)
        self.assertEqual(config.read(express + 2, 2) >> 4 & 0xF, 0, "an endpoint")
        self.assertTrue(config.read(express + 4, 4) & 1 << 28, "function level reset")
        self.assertTrue(config.capability(CAP_PM))
        self.assertTrue(config.extended_capability(EXT_CAP_AER))

    def test_msix_capability(self):
        config = self.card.config
        msix = config.capability(CAP_MSIX)
        self.assertEqual(config.read(msix + 2, 2) & 0x7FF, 70 - 1)
        self.assertEqual((config.read(msix + 4, 4) & 7, config.read(msix + 8, 4) & 7), (4, 4))

    def test_power_state_hides_the_bars(self):
        control = self.card.config.capability(CAP_PM) + 4
        self.assertTrue(self.card.config.read(control, 2) & 0x8, "no soft reset")
        self.card.set_reg("EVENT_ENABLE", 0x1F)
        self.card.config.write(control, 0x3, 2)
        self.assertNotEqual(self.card.reg("ID"), C["CHIP_ID"])
        self.card.config.write(control, 0x0, 2)
        self.assertEqual((self.card.reg("ID"), self.card.reg("EVENT_ENABLE")), (C["CHIP_ID"], 0x1F))


class Registers(DeviceTest):
    CHOSEN = {"cores": 3, "queues": 17, "asids": 9, "vectors": 5, "clock-khz": 123456, "mac-ic": 4, "mac-oc": 8,
              "mac-pixels": 3, "lmem-bw": 96, "ew-lanes": 16, "tiu-fixed": 11, "gdma-fixed": 13, "ddr-latency": 77,
              "ddr-bw": 24, "rate-16": 3, "rate-8": 5}

    def test_defaults_are_those_of_the_contract(self):
        self.start("npu,bus=rp0")
        expected = {
            "ID": 0x55504E51, "HW_VERSION": 0x10000, "ISA_VERSION": 3, "CORES": 2, "QUEUES": 64, "ASIDS": 256,
            "VA_BITS": 48, "LMEM_BYTES": 8 << 20, "CLOCK_KHZ": 1000000, "VECTORS": 33, "MAC_IC": 32, "MAC_OC": 32,
            "MAC_PIXELS": 2, "LMEM_BW": 512, "EW_LANES": 128, "TIU_FIXED": 32, "GDMA_FIXED": 32, "DDR_LATENCY": 200,
            "DDR_BW": 64, "RATE_16": 2, "RATE_8": 4, "FEATURES": 0x2F}
        self.assertEqual({name: self.card.reg(name) for name in expected}, expected)
        self.assertEqual(self.card.reg("DDR_BYTES", 8), 512 << 20)
        self.assertEqual(self.card.bar_size(0x18, wide=True)[0], 512 << 20)

    def test_properties_reach_the_registers(self):
        self.start("npu,bus=rp0,id=npu0,ddr=1M,lmem=12K," + ",".join(f"{k}={v}" for k, v in self.CHOSEN.items()))
        for name, value in self.CHOSEN.items():
            with self.subTest(name):
                self.assertEqual(self.card.reg(name.upper().replace("-", "_")), value)
                self.assertEqual(self.machine.command("qom-get", path="/machine/peripheral/npu0", property=name), value)
        self.assertEqual((self.card.reg("LMEM_BYTES"), self.card.reg("DDR_BYTES", 8)), (12 << 10, 1 << 20))

    def test_access_sizes(self):
        self.start()
        address = BAR_REGS + C["REG_DDR_BYTES"]
        self.assertEqual(self.machine.read(address, 8), 64 << 20)
        self.assertEqual((self.machine.read(address, 4), self.machine.read(address + 4, 4)), (64 << 20, 0))
        self.card.set_reg("ASID_TABLE", 0x123000, 8)
        self.assertEqual(self.card.reg("ASID_TABLE", 8), 0x123000)
        table = BAR_REGS + C["REG_ASID_TABLE"]
        self.machine.write(table, 0x456000, 4)
        self.machine.write(table + 4, 0, 4)
        self.assertEqual(self.card.reg("ASID_TABLE", 8), 0x456000)

    def test_other_accesses_read_zero_and_write_nothing(self):
        self.start()
        self.card.set_reg("EVENT_ENABLE", 0x1F)
        register = BAR_REGS + C["REG_EVENT_ENABLE"]
        for offset, size in ((0, 1), (0, 2), (2, 2), (1, 4)):
            with self.subTest(offset=offset, size=size):
                self.assertEqual(self.machine.read(register + offset, size), 0)
                self.machine.write(register + offset, 0, size)
                self.assertEqual(self.card.reg("EVENT_ENABLE"), 0x1F)
        self.assertEqual(self.machine.read(BAR_REGS + 0xFFF8, 8), 0, "an undefined offset")

    def test_memory_of_the_card_keeps_what_is_written(self):
        self.start()
        for offset in (0, (64 << 20) - 8):
            self.assertEqual(self.machine.read(BAR_DDR + offset, 8), 0)
            self.machine.write(BAR_DDR + offset, 0x1122334455667788, 8)
            self.assertEqual(self.machine.read(BAR_DDR + offset, 8), 0x1122334455667788)


class Interrupts(DeviceTest):
    """Messages are aimed at ordinary memory, where they can be seen."""

    def setUp(self):
        self.start()
        self.mailbox = self.machine.allocate(PAGE)

    def arrived(self, vector):
        return self.machine.read(self.mailbox + 4 * vector, 4)

    def aim(self, vector, masked=False):
        self.card.aim_vector(vector, self.mailbox + 4 * vector, 0xABC00 + vector, masked)

    def test_every_vector_is_delivered(self):
        self.card.enable_msix()
        for vector in range(33):
            self.aim(vector)
            self.card.set_reg("IRQ_TEST", vector)
        for vector in range(33):
            wait_for(lambda v=vector: self.arrived(v) == 0xABC00 + v, f"vector {vector}")

    def test_masked_vector_is_pending_until_unmasked(self):
        self.card.enable_msix()
        self.aim(7, masked=True)
        self.aim(8)
        self.card.set_reg("IRQ_TEST", 7)
        wait_for(lambda: self.card.pending(7), "the pending bit")
        self.card.set_reg("IRQ_TEST", 8)
        wait_for(lambda: self.arrived(8), "vector 8")
        self.assertEqual((self.arrived(7), self.card.pending(8)), (0, 0))
        self.aim(7)
        wait_for(lambda: self.arrived(7) == 0xABC07, "vector 7 after unmasking")
        self.assertEqual(self.card.pending(7), 0)

    def test_without_msix_an_interrupt_is_lost(self):
        self.aim(3)
        self.aim(4)
        self.card.set_reg("IRQ_TEST", 3)
        self.machine.command("query-name")  # the main loop has been round
        self.card.enable_msix()
        self.card.set_reg("IRQ_TEST", 4)
        wait_for(lambda: self.arrived(4), "vector 4")
        self.assertEqual((self.arrived(3), self.card.pending(3)), (0, 0))

    def test_vector_beyond_the_last_is_ignored(self):
        self.card.enable_msix()
        for vector in (33, 64, 2048, 0xFFFFFFFF):
            self.card.set_reg("IRQ_TEST", vector)
        self.aim(32)
        self.card.set_reg("IRQ_TEST", 32)
        wait_for(lambda: self.arrived(32), "vector 32")

    def test_interrupt_of_a_job(self):
        self.card.enable_msix()
        self.aim(5)
        self.prepare_jobs(vector=5)
        self.assertEqual(self.card.run([self.NOP_REGION], flags=0)["status"], C["STATUS_OK"])
        self.assertEqual(self.arrived(5), 0, "the job asked for none")
        self.card.run([self.NOP_REGION], flags=C["JOB_IRQ"])
        wait_for(lambda: self.arrived(5) == 0xABC05, "the job's interrupt")


class Resets(DeviceTest):
    def setUp(self):
        self.start()

    def dirty(self):
        """Leaves something behind in every part of the card."""
        self.prepare_jobs()
        self.assertEqual(self.card.run([self.NOP_REGION])["status"], C["STATUS_OK"])
        self.card.set_reg("EVENT_ENABLE", 0x1F)
        self.machine.write(BAR_DDR + 0x800, 0x5A5A, 8)
        self.card.enable_msix()
        self.card.aim_vector(2, self.machine.allocate(PAGE), 1, masked=True)
        self.card.set_reg("IRQ_TEST", 2)
        wait_for(lambda: self.card.pending(2), "the pending bit")

    def assert_chip_as_new(self):
        self.card.wait_ready()
        for name in ("CTRL", "EVENT_ENABLE", "EVENT_STATUS", "INV_ISSUED", "CORE_BUSY"):
            self.assertEqual(self.card.reg(name), 0, name)
        self.assertEqual(self.card.reg("ASID_TABLE", 8), 0)
        self.assertEqual((self.card.queue_reg("STATUS"), self.card.queue_reg("SQ_HEAD")), (0, 0))
        self.assertEqual(self.machine.read(BAR_DDR + 0x800, 8), 0x5A5A, "DDR keeps its contents")

    def assert_function_as_new(self):
        self.assertEqual(self.card.config.read(0x04, 2), 0, "command")
        self.assertEqual(self.card.config.read(0x10, 4), 0, "BAR0")
        self.assertEqual(self.card.config.read(self.card.config.capability(CAP_MSIX) + 2, 2) & 0x8000, 0)
        self.card.assign_bars()
        self.assertEqual(self.card.pending(2), 0)

    def assert_usable(self):
        self.prepare_jobs()
        self.assertEqual(self.card.run([self.NOP_REGION])["status"], C["STATUS_OK"])

    def test_function_level_reset(self):
        self.dirty()
        self.card.function_reset()
        self.assert_function_as_new()
        self.assert_chip_as_new()
        self.assert_usable()

    def test_system_reset(self):
        self.dirty()
        self.machine.command("system_reset")
        self.machine.wait_event("RESET")
        self.machine.enable_ecam()
        self.port.open_windows()
        self.assert_function_as_new()
        self.assert_chip_as_new()
        self.assert_usable()

    def test_reset_by_register(self):
        self.dirty()
        self.card.set_reg("CTRL", C["CTRL_RESET"])
        self.assert_chip_as_new()
        self.assertEqual(self.card.config.read(0x04, 2) & BUS_MASTER, BUS_MASTER, "the function is not concerned")
        self.assert_usable()

    def assert_job_was_dropped(self):
        self.card.wait_ready()
        self.assertEqual(self.machine.get(self.card.cq, PAGE), bytes(PAGE), "no completion was written")
        self.assert_usable()

    def test_function_level_reset_drops_a_running_job(self):
        self.prepare_jobs()
        self.submit_long_job()
        self.card.function_reset()
        self.card.assign_bars()
        self.assert_job_was_dropped()

    def test_reset_by_register_drops_a_running_job(self):
        self.prepare_jobs()
        self.submit_long_job()
        self.card.set_reg("CTRL", C["CTRL_RESET"])
        self.assert_job_was_dropped()


class BusAccess(DeviceTest):
    DATA = bytes(range(256)) * 12

    def setUp(self):
        self.start()
        self.prepare_jobs()

    def run_at(self, target, flags=SYSTEM):
        """Status of a job whose stream lies at the page that a leaf entry with target and flags names."""
        self.card.map(0x2000, target, flags)
        self.card.invalidate()
        return self.card.run([(0x2000, PAGE, Card.READ)])

    def assert_next_job_works(self):
        self.assertEqual(self.card.run([self.NOP_REGION])["status"], C["STATUS_OK"])

    def test_job_of_nops(self):
        found = self.card.run([self.NOP_REGION], gdma=(0, 0, 32))
        self.assertEqual((found["status"], found["job_id"], found["sq_head"]), (C["STATUS_OK"], 100, 1))
        self.assertEqual(found["end_cycle"] - found["start_cycle"], 32 * 32, "32 commands of 32 cycles")
        fence = wait_for(lambda: self.machine.read(self.card.fence, 8), "the fence page")
        self.assertEqual(fence, 100)

    def test_copy_between_system_memory_and_the_card(self):
        source, target, stream = (self.machine.allocate(PAGE) for _ in range(3))
        self.machine.put(source + 64, self.DATA)
        self.machine.put(stream, Command.copy((1, 64), (2, 128), len(self.DATA)) +
                         Command.copy((2, 128), (3, 512), len(self.DATA)))
        middle = self.card.ddr_page()
        write = C["PTE_WRITE"]
        self.card.map(0x2000, stream, SYSTEM)
        self.card.map(0x3000, source, SYSTEM)
        self.card.map(0x4000, middle, write)
        self.card.map(0x5000, target, SYSTEM | write)
        both = Card.READ | Card.WRITE
        found = self.card.run([(0x2000, PAGE, 1), (0x3000, PAGE, 1), (0x4000, PAGE, both), (0x5000, PAGE, both)],
                              gdma=(0, 0, 2))
        self.assertEqual(found["status"], C["STATUS_OK"], found)
        self.assertEqual(self.machine.get(BAR_DDR + middle + 128, len(self.DATA)), self.DATA)
        self.assertEqual(self.machine.get(target, PAGE), bytes(512) + self.DATA + bytes(PAGE - 512 - len(self.DATA)))

    def test_what_is_not_memory_is_an_error(self):
        for name, target in (("registers of the card", BAR_REGS),
                             ("doorbells of the card", BAR_REGS + C["DOORBELL_BASE"]),
                             ("memory of the card over the bus", BAR_DDR), ("nothing", 0x7_0000_0000),
                             ("registers of the board", 0xFEC00000), ("the interrupt controller", 0xFEE00000)):
            with self.subTest(name):
                found = self.run_at(target)
                self.assertEqual((found["status"], found["fault_addr"]), (C["STATUS_DMA_ERROR"], 0x2000), found)
                self.assert_next_job_works()

    def test_write_to_registers_of_the_card_is_an_error(self):
        stream = self.machine.allocate(PAGE)
        self.machine.put(stream, Command.copy((2, 0), (1, C["REG_EVENT_ENABLE"]), 4))
        self.machine.put(self.machine.allocate(PAGE), b"\x1f\0\0\0")
        self.card.map(0x2000, stream, SYSTEM)
        self.card.map(0x3000, BAR_REGS, SYSTEM | C["PTE_WRITE"])
        self.card.map(0x4000, stream + PAGE, SYSTEM)
        found = self.card.run([(0x2000, PAGE, 1), (0x3000, PAGE, 2), (0x4000, PAGE, 1)])
        self.assertEqual((found["status"], found["fault_addr"]),
                         (C["STATUS_DMA_ERROR"], 0x3000 + C["REG_EVENT_ENABLE"]))
        self.assertEqual(self.card.reg("EVENT_ENABLE"), 0)
        self.assert_next_job_works()

    def test_without_bus_mastering_the_queue_stops(self):
        self.card.config.write(0x04, MEMORY_ENABLE, 2)
        self.card.submit([self.NOP_REGION])
        wait_for(lambda: self.card.queue_reg("STATUS") & C["QUEUE_STATUS_ERROR"], "QUEUE_STATUS.ERROR")
        self.assertTrue(self.card.reg("EVENT_STATUS") & C["EVENT_STATUS_QUEUE_ERROR"])
        self.assertEqual(self.machine.get(self.card.cq, PAGE), bytes(PAGE))
        self.card.config.write(0x04, MEMORY_ENABLE | BUS_MASTER, 2)
        self.card.set_queue_reg("CTRL", 0)
        wait_for(lambda: self.card.queue_reg("STATUS") == 0, "the queue to be disabled")
        self.prepare_jobs()
        self.assert_next_job_works()

    def test_bus_mastering_taken_away_from_a_running_job(self):
        self.submit_long_job()
        self.card.config.write(0x04, MEMORY_ENABLE, 2)
        wait_for(lambda: not self.card.reg("CORE_BUSY"), "the job to fail")
        self.assertEqual(self.machine.get(self.card.cq, PAGE), bytes(PAGE), "a completion cannot be written")


class BehindIommu(DeviceTest):
    """QEMU's model of VT-d: bus addresses are BUS above the addresses of memory, and only a window is mapped. The
    accelerator is TCG, which insists on the big lock when the IOMMU interrupts the processor about a fault."""

    BUS = 1 << 32

    def setUp(self):
        self.start(before=["-device", "intel-iommu,intremap=off"], accelerator="tcg")
        self.iommu = Iommu(self.machine)

    def to_bus(self, address):
        return address + self.BUS

    def prepare(self):
        if not self.iommu.enabled:
            self.iommu.enable(self.to_bus, 1 << 20, 8 << 20, bus=1, slot=0)
        self.prepare_jobs(bus=self.to_bus)
        self.card.map(0x1000, self.to_bus(self.nops), SYSTEM)
        self.card.invalidate()

    def test_untranslated_until_it_is_enabled(self):
        self.prepare_jobs()
        self.assertEqual(self.card.run([self.NOP_REGION])["status"], C["STATUS_OK"])

    def test_accesses_are_translated(self):
        self.prepare()
        self.assertEqual(self.card.run([self.NOP_REGION], gdma=(0, 0, 32))["status"], C["STATUS_OK"])

    def test_fault_is_an_error_of_the_job_and_of_the_iommu(self):
        self.prepare()
        self.words = r"\A(qemu[^\n]*: (vtd_|New fault is not recorded due to compression)[^\n]*\n)+\Z"
        self.iommu.unmask_fault_interrupt()
        for bus_address in (self.nops, self.to_bus(64 << 20)):
            self.card.map(0x2000, bus_address, SYSTEM)
            self.card.invalidate()
            found = self.card.run([(0x2000, PAGE, Card.READ)])
            self.assertEqual((found["status"], found["fault_addr"]), (C["STATUS_DMA_ERROR"], 0x2000))
            self.assertEqual(self.iommu.take_fault(), bus_address)
        self.assertEqual(self.card.run([self.NOP_REGION])["status"], C["STATUS_OK"])

    def test_registers_answer_while_a_job_uses_the_bus(self):
        self.prepare()
        self.submit_long_job(self.to_bus)
        for _ in range(200):
            self.assertEqual(self.card.reg("ID"), C["CHIP_ID"])
        self.card.set_queue_reg("CTRL", 0)
        wait_for(lambda: self.card.queue_reg("STATUS") == 0, "the queue to be disabled")

    def test_unplugging_while_a_job_uses_the_bus(self):
        for _ in range(8):
            self.prepare()
            self.submit_long_job(self.to_bus)
            self.unplug()
            wait_for(lambda: not self.machine.threads(), "the threads to leave")
            self.plug()

    def test_end_of_qemu_while_a_job_uses_the_bus(self):
        self.prepare()
        self.submit_long_job(self.to_bus)
        self.assertEqual(self.machine.close(), (0, ""))


class Faults(DeviceTest):
    """Properties fault-NAME, at the start and while the machine runs. What each does to the chip is the
        model's test."""

    def fault(self, name, value=None):
        where = {"path": "/machine/peripheral/npu0", "property": "fault-" + name}
        if value is None:
            return self.machine.command("qom-get", **where)
        return self.machine.command("qom-set", value=value, **where)

    def begin(self, device=NPU_ARGUMENTS):
        self.start(device)
        self.prepare_jobs()

    def submit_nop(self):
        self.card.submit([self.NOP_REGION])

    def wait_until_taken(self, name):
        wait_for(lambda: self.fault(name) == 0, "the fault to be taken")

    def test_all_are_properties_with_a_description(self):
        self.begin()
        found = {p["name"]: p for p in self.machine.command("device-list-properties", typename="npu")}
        names = [name for name in found if name.startswith("fault-")]
        self.assertGreaterEqual(len(names), 14)
        for name in names:
            self.assertEqual(found[name]["type"], "uint64")
            self.assertTrue(found[name]["description"], name)
            self.assertEqual(self.fault(name[len("fault-"):]), 0)

    def test_a_hang_wanted_from_the_start(self):
        self.begin(NPU_ARGUMENTS + ",fault-hang=1")
        self.submit_nop()
        self.wait_until_taken("hang")
        time.sleep(0.05)
        self.assertEqual(self.card.queue_reg("STATUS"), C["QUEUE_STATUS_ENABLED"] | C["QUEUE_STATUS_RUNNING"])
        self.card.set_queue_reg("ABORT_JOB", 100, 8)
        self.assertEqual(self.card.completion()["status"], C["STATUS_ABORTED"])
        self.assertEqual(self.card.run([self.NOP_REGION])["status"], C["STATUS_OK"])

    def test_stuck_cores(self):
        for name, means in (("stuck-abort", lambda: self.card.set_reg("CORE_RESET", 1)),
                            ("stuck-core", lambda: self.card.set_reg("CTRL", C["CTRL_RESET"])),
                            ("stuck-device", lambda: self.fault("stuck-device", 0))):
            with self.subTest(name):
                if name == "stuck-abort":
                    self.start()
                self.prepare_jobs()
                self.fault(name, 1)
                self.submit_nop()
                self.wait_until_taken(name)
                self.card.set_queue_reg("CTRL", 0)
                if name != "stuck-abort":
                    self.card.set_reg("CORE_RESET", 1)
                if name == "stuck-device":
                    self.card.set_reg("CTRL", C["CTRL_RESET"])
                    time.sleep(0.05)
                    self.assertEqual(self.card.reg("STATUS"), 0)
                else:
                    self.assertTrue(self.card.queue_reg("STATUS") & C["QUEUE_STATUS_RUNNING"])
                means()
                wait_for(lambda: self.card.reg("STATUS") and not self.card.reg("CORE_BUSY"), "the core")

    def test_lost_interrupts(self):
        self.begin()
        mailbox = self.machine.allocate(PAGE)
        self.card.enable_msix()
        self.card.aim_vector(3, mailbox, 0xABC)
        self.fault("lost-interrupts", 2)
        for _ in range(2):
            self.card.set_reg("IRQ_TEST", 3)
        self.assertEqual((self.machine.read(mailbox, 4), self.fault("lost-interrupts")), (0, 0))
        self.card.set_reg("IRQ_TEST", 3)
        wait_for(lambda: self.machine.read(mailbox, 4) == 0xABC, "the message")

    def test_corrupt_completions(self):
        self.begin()
        self.fault("corrupt-id", 1)
        self.assertNotEqual(self.card.run([self.NOP_REGION])["job_id"], 100)
        self.fault("corrupt-status", 1)
        self.assertGreater(self.card.run([self.NOP_REGION])["status"], C["STATUS_INTERNAL"])
        self.fault("corrupt-phase", 1)
        self.submit_nop()
        wait_for(lambda: self.card.queue_reg("CQ_TAIL") == 3, "CQ_TAIL")
        self.assertEqual(self.machine.read(self.card.cq + 2 * 64 + 60, 4) & 1, 0)

    def test_memory_errors(self):
        self.begin()
        stream = self.machine.allocate(PAGE)
        self.machine.put(stream, Command.fill((1, 0), 64))
        self.card.map(0x2000, stream, SYSTEM)
        self.card.map(0x3000, self.card.ddr_page(), C["PTE_WRITE"])
        self.card.invalidate()
        self.fault("ecc-uncorrected", 1)
        found = self.card.run([(0x2000, PAGE, Card.READ), (0x3000, PAGE, Card.WRITE)])
        self.assertEqual((found["status"], found["fault_addr"]), (C["STATUS_ECC"], 0x3000))
        self.fault("ecc-corrected", 5)
        self.assertEqual((self.card.reg("ECC_UNCORRECTED"), self.card.reg("ECC_CORRECTED")), (1, 5))
        self.assertTrue(self.card.reg("EVENT_STATUS") & C["EVENT_STATUS_ECC"])

    def test_temperature(self):
        self.begin()
        self.fault("temperature", 100000)
        self.assertEqual((self.card.reg("TEMP_MC"), self.card.reg("CUR_CLOCK_KHZ")), (100000, 500000))
        self.assertTrue(self.card.reg("EVENT_STATUS") & C["EVENT_STATUS_THERMAL"])
        self.fault("temperature", 0)
        self.assertEqual(self.card.reg("CUR_CLOCK_KHZ"), 1000000)

    def test_fatal(self):
        self.begin()
        self.fault("fatal", 1)
        self.assertTrue(self.card.reg("STATUS") & C["STATUS_FATAL"])
        self.submit_nop()
        self.card.set_reg("CTRL", C["CTRL_RESET"])
        self.card.wait_ready()
        self.assertFalse(self.card.reg("STATUS") & C["STATUS_FATAL"])

    def test_dead_card(self):
        self.begin()
        self.machine.write(BAR_DDR + 8, 0x1234, 8)
        self.fault("dead", 1)
        self.assertEqual((self.card.reg("ID"), self.card.config.read(0, 4)), (0xFFFFFFFF, 0xFFFFFFFF))
        self.assertEqual(self.machine.read(BAR_DDR + 8, 8), (1 << 64) - 1)
        self.machine.write(BAR_DDR + 8, 0x5678, 8)
        self.card.config.write(0x10, 0, 4)
        self.card.set_reg("CTRL", C["CTRL_RESET"])
        self.fault("dead", 0)
        self.assertEqual((self.card.reg("ID"), self.machine.read(BAR_DDR + 8, 8)), (C["CHIP_ID"], 0x1234))
        self.assertEqual(self.card.run([self.NOP_REGION])["status"], C["STATUS_OK"])

    def test_unplugging_a_dead_card(self):
        self.begin()
        self.submit_long_job()
        self.fault("dead", 1)
        self.unplug()
        wait_for(lambda: not self.machine.threads(), "the threads to leave")

    def test_a_wrong_value_is_refused(self):
        self.begin()
        with self.assertRaisesRegex(RuntimeError, "'fault-dead' cannot be 2"):
            self.fault("dead", 2)


class Plugging(DeviceTest):
    def assert_gone(self):
        wait_for(lambda: not self.machine.threads(), "the threads to leave")
        self.assertEqual(self.card.config.read(0, 4), 0xFFFFFFFF)
        self.assertNotEqual(self.machine.read(BAR_REGS, 4), C["CHIP_ID"])

    def test_twenty_times(self):
        self.start(device=None)
        tasks = f"/proc/{self.machine.process.pid}/task"
        before = None
        for round_number in range(20):
            self.plug()
            wait_for(self.machine.threads, f"threads of the card, round {round_number}")
            if round_number % 2:
                self.prepare_jobs()
                self.assertEqual(self.card.run([self.NOP_REGION])["status"], C["STATUS_OK"])
            self.unplug()
            self.assert_gone()
            before = before or len(os.listdir(tasks))
            self.assertLessEqual(len(os.listdir(tasks)), before, f"threads of QEMU, round {round_number}")

    def test_unplugging_with_a_running_job(self):
        self.start(device=None)
        for _ in range(3):
            self.plug()
            self.prepare_jobs()
            self.submit_long_job()
            self.unplug()
            self.assert_gone()

    def test_unplugging_with_an_interrupt_on_its_way(self):
        self.start(device=None)
        for _ in range(5):
            self.plug()
            self.card.enable_msix()
            for vector in range(8):
                self.card.aim_vector(vector, self.machine.allocate(PAGE), 1)
                self.card.set_reg("IRQ_TEST", vector)
            self.unplug()
            self.assert_gone()

    def test_two_cards(self):
        self.start(after=["-device", "pcie-root-port,id=rp1,bus=pcie.0,addr=2,chassis=2",
                          "-device", "npu,bus=rp1,ddr=1M"])
        self.assertEqual(self.card.reg("DDR_BYTES", 8), 64 << 20)
        wait_for(lambda: len(self.machine.threads()) == 2 * len(set(self.machine.threads())), "threads of both cards")


class End(DeviceTest):
    def test_quit_with_a_running_job(self):
        self.start()
        self.prepare_jobs()
        self.submit_long_job()
        self.assertEqual(self.machine.close(), (0, ""))

    def test_sigterm_with_a_running_job(self):
        self.start()
        self.prepare_jobs()
        self.submit_long_job()
        self.machine.process.terminate()
        self.machine.process.wait(timeout=TIMEOUT)
        status, error = self.machine.close()
        self.assertEqual(status, 0)
        self.assertRegex(error, r"\A(qemu[^\n]*: terminating on signal 15[^\n]*\n)?\Z")

    def test_migration_is_refused(self):
        self.start()
        with self.assertRaisesRegex(RuntimeError, "a card with time=host cannot be saved; it needs time=virtual"):
            self.machine.command("migrate", uri="file:/dev/null")


class Traces(DeviceTest):
    def test_events(self):
        with tempfile.NamedTemporaryFile("r", encoding="utf-8") as log:
            self.start(after=["-trace", "npu_*", "-D", log.name])
            self.prepare_jobs()
            self.card.enable_msix()
            self.card.run([self.NOP_REGION], flags=C["JOB_IRQ"])
            self.card.map(0x2000, 0x7_0000_0000, SYSTEM)
            self.card.invalidate()
            self.card.run([(0x2000, PAGE, Card.READ)])
            self.card.function_reset()
            self.unplug()
            self.assertEqual(self.machine.close(), (0, ""))
            seen = log.read()
        for event in (r"npu_realize \d+ threads, back end reference", "npu_reset", "npu_mmio_read 0x104 size 4 -> 0x1",
                      "npu_mmio_write 0x100 size 4 <- 0x1", "npu_doorbell queue 0 register 0x0 <- 1",
                      "npu_interrupt vector 0", "npu_job job_start", "npu_job job_done",
                      "npu_dma_read_error bus address 0x700000000", "npu_unplug", "npu_gone"):
            self.assertRegex(seen, event)


class VirtualTime(DeviceTest):
    """The card on QEMU's virtual clock, which the test moves."""

    DEVICE = NPU_ARGUMENTS + ",time=virtual"
    NOPS = 32  # commands of a job; each takes as many cycles, of a nanosecond

    def setUp(self):
        self.start(self.DEVICE)
        self.machine.command("cont")
        self.now = 1000000
        self.machine.ask(f"clock_set {self.now}")
        self.prepare_jobs()

    def step(self, nanoseconds):
        self.now += nanoseconds
        self.machine.ask(f"clock_set {self.now}")

    def completions(self):
        return [self.machine.read(self.card.cq + 64 * i + 60, 4) & 1 for i in range(self.card.jobs)]

    def test_a_job_completes_at_its_instant(self):
        mailbox = self.machine.allocate(PAGE)
        self.card.enable_msix()
        self.card.aim_vector(0, mailbox, 0xABC)
        self.card.submit([self.NOP_REGION], gdma=(0, 0, self.NOPS), flags=C["JOB_IRQ"])
        self.step(self.NOPS * 32 - 1)
        self.assertEqual((self.completions(), self.machine.read(self.card.fence, 8)), ([0], 0))
        self.assertEqual(self.machine.read(mailbox, 4), 0)
        self.step(1)
        self.assertEqual((self.completions(), self.machine.read(self.card.fence, 8)), ([1], 100))
        self.assertEqual(self.machine.read(mailbox, 4), 0xABC, "the interrupt comes in the same instant")

    def test_it_has_no_threads(self):
        self.assertEqual(self.machine.threads(), [])

    def test_registers_are_those_of_the_instant(self):
        self.card.submit([self.NOP_REGION], gdma=(0, 0, self.NOPS))
        self.step(320)
        self.assertEqual(self.card.reg("PROGRESS", 8), 10)
        self.assertEqual(self.card.reg("CORE_BUSY"), 1)

    def test_unplugging_in_the_middle_of_a_job(self):
        self.card.submit([self.NOP_REGION], gdma=(0, 0, self.NOPS))
        self.step(320)
        self.unplug()
        self.step(100000)
        self.assertEqual(self.completions(), [0])

    def saved(self):
        path = os.path.join(self.machine.directory, "snapshot")
        self.machine.command("migrate", uri=f"file:{path}")
        wait_for(lambda: self.machine.command("query-migrate").get("status") == "completed", "the snapshot")
        return path

    def load(self, path, device=None):
        """Another machine, and its card, as the snapshot has them."""
        old, devices = self.machine, ["-device", device or self.DEVICE]
        machine = Machine(QEMU, *PORT_ARGUMENTS, *devices, "-incoming", "defer")
        self.addCleanup(lambda: self.assertEqual(old.close(), (0, "")))
        machine.ask(f"clock_set {self.now}")
        machine.command("migrate-incoming", uri=f"file:{path}")
        return machine

    def test_a_snapshot_goes_on_in_another_process(self):
        for _ in range(3):
            self.card.submit([self.NOP_REGION], gdma=(0, 0, self.NOPS))
        self.step(self.NOPS * 32 + 500)
        self.assertEqual(self.completions(), [1, 0, 0])
        self.machine = self.card.machine = self.card.config.machine = self.load(self.saved())
        wait_for(lambda: self.machine.command("query-migrate").get("status") == "completed", "the loaded snapshot")
        self.machine.command("cont")
        self.assertEqual(self.card.reg("PROGRESS", 8), self.NOPS + 500 // 32)
        self.step(self.NOPS * 32 - 501)
        self.assertEqual(self.completions(), [1, 0, 0])
        self.step(1)
        self.assertEqual(self.completions(), [1, 1, 0])
        self.step(self.NOPS * 32)
        self.assertEqual((self.completions(), self.machine.read(self.card.fence, 8)), ([1, 1, 1], 102))

    def test_a_snapshot_of_another_card_is_refused(self):
        machine = self.load(self.saved(), self.DEVICE + ",cores=1")
        self.assertEqual(machine.process.wait(TIMEOUT), 1)
        status, error = machine.close()
        self.assertIn("the snapshot is of a chip with cores 2, this one has 1", error)
        self.assertEqual(status, 1)


class WrongProperties(unittest.TestCase):
    CASES = {
        "cores=9": "'cores' must be 1 to 8 .*, not 9",
        "queues=257": "'queues' must be 1 to 256 .*, not 257",
        "asids=1025": "'asids' must be 1 to 1024 .*, not 1025",
        "vectors=2049": "'vectors' must be 1 to 2048 .*, not 2049",
        "lmem=4095": "'lmem' must be a multiple of 4 KiB up to 256 MiB .*, not 4095 bytes",
        "lmem=512M": "'lmem' must be a multiple of 4 KiB up to 256 MiB .*, not 536870912 bytes",
        "ddr=0": "'ddr' must be a power of two of at least 1 MiB, not 0 bytes",
        "ddr=512K": "'ddr' must be a power of two of at least 1 MiB, not 524288 bytes",
        "ddr=3M": "'ddr' must be a power of two of at least 1 MiB, not 3145728 bytes",
        "backend=magic": "magic",
        "time=later": "'time' must be host or virtual, not 'later'",
        "seed=1": "'seed' needs time=virtual",
        "cores=two": "cores",
        "colour=red": "colour",
    }

    def error_of(self, device, port=PORT_ARGUMENTS):
        with tempfile.TemporaryDirectory(prefix="npu-qtest-") as directory:
            done = subprocess.run(base_command(QEMU, directory) + [*port, "-device", device], env=environment(),
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr.decode()

    def test_message(self):
        for argument, message in self.CASES.items():
            with self.subTest(argument):
                self.assertRegex(self.error_of(f"npu,bus=rp0,{argument}"), message)

    def test_conventional_bus(self):
        bridge = ["-device", "pcie-pci-bridge,id=old,bus=pcie.0"]
        self.assertIn("plug it into a pcie-root-port", self.error_of("npu,bus=old,addr=1", bridge))

    def test_a_failed_device_add_leaves_a_working_machine(self):
        machine = Machine(QEMU, *PORT_ARGUMENTS)
        try:
            for arguments in ({"cores": 9}, {"backend": "magic"}, {"ddr": 5 << 20}):
                with self.assertRaises(RuntimeError):
                    machine.command("device_add", driver="npu", bus="rp0", id="npu0", **arguments)
                self.assertEqual(machine.threads(), [])
            machine.command("device_add", driver="npu", bus="rp0", id="npu0", ddr=1 << 20)
            wait_for(machine.threads, "threads of the card")
        finally:
            self.assertEqual(machine.close(), (0, ""))


class Result(unittest.TextTestResult):
    """Counts tests; a test with failing subtests is one failure, a skipped test is one too."""

    def failed(self):
        tests = [test for test, _ in self.failures + self.errors + self.skipped]
        return len({getattr(test, "test_case", test).id() for test in [*tests, *self.unexpectedSuccesses]})


def main():
    global QEMU
    arguments = sys.argv[1:]
    QEMU = os.environ.get("NPU_QEMU")
    if arguments and os.path.sep in arguments[0]:
        QEMU = arguments.pop(0)
    if not QEMU or not os.access(QEMU, os.X_OK):
        sys.exit(f"{sys.argv[0]}: name a QEMU that has the device, as argument or in NPU_QEMU, not {QEMU or 'none'}")
    loader, module = unittest.TestLoader(), sys.modules[__name__]
    suite = loader.loadTestsFromNames(arguments, module) if arguments else loader.loadTestsFromModule(module)
    start = time.monotonic()
    result = unittest.TextTestRunner(verbosity=2, resultclass=Result).run(suite)
    failed = result.failed()
    print(f"the card in QEMU: {time.monotonic() - start:.0f} s")
    print(f"{result.testsRun - failed} passed, {failed} failed")
    return 1 if failed or not result.testsRun else 0


if __name__ == "__main__":
    sys.exit(main())
