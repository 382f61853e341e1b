# SPDX-License-Identifier: MIT
"""A QEMU machine without a guest: this program is its processor. Memory, ports and PCI configuration space are
accessed through QEMU's qtest protocol, plugging and resets through QMP. One card sits behind one root port."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time

TIMEOUT = 60.0  # seconds; generous, since a loaded machine may be slow: reached only when something hangs

ECAM = 0xB0000000
ROOT_PORT_SLOT = 1
PORT_WINDOW, PORT_WINDOW_END = 0xE0000000, 0xE0FFFFFF
PORT_PREFETCH, PORT_PREFETCH_END = 0x8_0000_0000, 0xB_FFFF_FFFF
RAM_BYTES = 128 << 20


def wait_for(condition, what):
    """Polls until condition() is true and returns its value; hanging is a failure that names what was awaited."""
    end = time.monotonic() + TIMEOUT
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"nothing came of waiting for {what}")
        time.sleep(0.001)


class LineSocket:
    """One side of a unix socket that QEMU connects to; speaks in lines."""

    def __init__(self, path):
        self.path = path
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(path)
        self.server.listen(1)
        self.file = None

    def accept(self, process):
        self.server.settimeout(0.2)
        end = time.monotonic() + TIMEOUT
        while True:
            try:
                connection = self.server.accept()[0]
                break
            except socket.timeout:
                if process.poll() is not None or time.monotonic() > end:
                    raise AssertionError("QEMU did not start: " + Machine.stderr_of(process)) from None
        connection.settimeout(TIMEOUT)
        self.connection = connection
        self.file = connection.makefile("rwb", buffering=0)
        self.buffer = b""

    def send(self, line):
        self.connection.sendall(line.encode() + b"\n")

    def receive(self):
        while b"\n" not in self.buffer:
            data = self.connection.recv(1 << 16)
            if not data:
                raise EOFError("QEMU closed the connection")
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode()

    def close(self):
        if self.file:
            self.file.close()
            self.connection.close()
        self.server.close()


class Machine:
    def __init__(self, binary, *arguments, accelerator="qtest"):
        self.directory = tempfile.mkdtemp(prefix="npu-qtest-")
        self.qtest = LineSocket(os.path.join(self.directory, "qtest"))
        self.qmp = LineSocket(os.path.join(self.directory, "qmp"))
        self.events = []
        self.closed = False
        self.next_free = 1 << 20
        self.process = subprocess.Popen(
            base_command(binary, self.directory, accelerator) + [
                "-qtest", f"unix:{self.qtest.path}", "-qmp", f"unix:{self.qmp.path}", *arguments],
            env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            self.qtest.accept(self.process)
            self.qmp.accept(self.process)
            self.qmp.receive()
            self.command("qmp_capabilities")
            self.enable_ecam()
        except BaseException:
            self.close(kill=True)
            raise

    @staticmethod
    def stderr_of(process):
        if process.poll() is None:
            process.kill()
        return process.stderr.read().decode(errors="replace").strip()

    def close(self, kill=False):
        """Ends QEMU as a user does; returns (status, standard error)."""
        self.closed = True
        try:
            if kill:
                self.process.kill()
            elif self.process.poll() is None:
                self.command("quit")
            error = self.process.communicate(timeout=TIMEOUT)[1].decode(errors="replace")
        except (subprocess.TimeoutExpired, OSError, EOFError) as reason:
            self.process.kill()
            said = self.process.communicate()[1].decode(errors="replace")
            error = f"QEMU does not end ({type(reason).__name__}: {reason})\n{said}"
        self.qtest.close()
        self.qmp.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        return self.process.returncode, error

    # --- QMP ---

    def command(self, name, **arguments):
        """Returns the answer; a refusal is a RuntimeError with QEMU's text."""
        self.qmp.send(json.dumps({"execute": name, "arguments": arguments}))
        while True:
            answer = json.loads(self.qmp.receive())
            if "event" in answer:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(answer["error"]["desc"])
            else:
                return answer["return"]

    def wait_event(self, name):
        def seen():
            self.command("query-name")  # collects what has come
            return [e for e in self.events if e["event"] == name]
        event = wait_for(seen, f"the event {name}")[0]
        self.events.remove(event)
        return event

    # --- memory and ports ---

    def ask(self, line):
        self.qtest.send(line)
        while True:
            answer = self.qtest.receive().split()
            if answer[0] == "OK":
                return answer[1:]
            if answer[0] != "IRQ":
                raise RuntimeError(f"qtest: {line}: {' '.join(answer)}")

    def read(self, address, size):
        return int(self.ask(f"read{'_bw_l___q'[size]} {address:#x}")[0], 16)

    def write(self, address, value, size):
        self.ask(f"write{'_bw_l___q'[size]} {address:#x} {value:#x}")

    def get(self, address, size):
        return bytes.fromhex(self.ask(f"read {address:#x} {size:#x}")[0][2:])

    def put(self, address, data):
        self.ask(f"write {address:#x} {len(data):#x} 0x{data.hex()}")

    def out32(self, port, value):
        self.ask(f"outl {port:#x} {value:#x}")

    def allocate(self, size, align=4096):
        """Zeroed system memory that nobody else has."""
        address = -(-self.next_free // align) * align
        self.next_free = address + size
        assert self.next_free <= RAM_BYTES
        self.ask(f"memset {address:#x} {size:#x} 0")
        return address

    # --- PCI ---

    def enable_ecam(self):
        for offset, value in ((0x64, 0), (0x60, ECAM | 1)):
            self.out32(0xCF8, 0x80000000 | offset)
            self.out32(0xCFC, value)

    def threads(self):
        """Names of QEMU's threads that belong to the card."""
        names = []
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            try:
                with open(f"/proc/{self.process.pid}/task/{task}/comm", encoding="ascii") as file:
                    names.append(file.read().strip())
            except FileNotFoundError:
                pass  # it has just ended
        return sorted(n for n in names if n.startswith("npu-"))


def environment():
    """QEMU finds the chip model in the build directory; what LD_LIBRARY_PATH names already comes first."""
    top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    libraries = os.path.join(os.environ.get("NPU_BUILD") or os.path.join(top, "build"), "lib")
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, (os.environ.get("LD_LIBRARY_PATH"), libraries)))}


def base_command(binary, directory, accelerator="qtest"):
    """A board with nothing on it, whose processor never runs (-S); so the file of its firmware is empty."""
    firmware = os.path.join(directory, "firmware")
    with open(firmware, "wb") as file:
        file.write(bytes(65536))
    return [binary, "-M", "q35", "-accel", accelerator, "-S", "-m", f"{RAM_BYTES >> 20}M", "-nodefaults",
            "-display", "none", "-bios", firmware, "-name", "npu-test,debug-threads=on", "-qtest-log", os.devnull,
            "-global", "apic.vapic=off",
            "-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off"]


PORT_ARGUMENTS = ["-device", f"pcie-root-port,id=rp0,bus=pcie.0,addr={ROOT_PORT_SLOT},chassis=1"]


class Function:
    """Configuration space of a PCI function."""

    def __init__(self, machine, bus, slot):
        self.machine = machine
        self.base = ECAM + (bus << 20) + (slot << 15)

    def read(self, offset, size):
        return self.machine.read(self.base + offset, size)

    def write(self, offset, value, size):
        self.machine.write(self.base + offset, value, size)

    def capability(self, wanted):
        """Offset of a capability; 0 where there is none."""
        offset = self.read(0x34, 1)
        while offset and self.read(offset, 1) != wanted:
            offset = self.read(offset + 1, 1)
        return offset

    def extended_capability(self, wanted):
        offset = 0x100
        while offset:
            header = self.read(offset, 4)
            if header & 0xFFFF == wanted:
                return offset
            offset = header >> 20
        return 0


class RootPort(Function):
    SLOT_CONTROL, POWER_OFF, INDICATOR_MASK, INDICATOR_ON, INDICATOR_OFF = 0x18, 0x400, 0x300, 0x100, 0x300

    def __init__(self, machine):
        super().__init__(machine, 0, ROOT_PORT_SLOT)

    def open_windows(self):
        self.write(0x18, 0x010100, 4)
        self.write(0x20, PORT_WINDOW >> 16 | PORT_WINDOW_END & 0xFFF00000, 4)
        self.write(0x24, PORT_PREFETCH >> 16 & 0xFFF0 | PORT_PREFETCH_END & 0xFFF00000, 4)
        self.write(0x28, PORT_PREFETCH >> 32, 4)
        self.write(0x2C, PORT_PREFETCH_END >> 32, 4)
        self.write(0x04, 0x6, 2)

    def slot_power(self, on):
        offset = self.capability(0x10) + self.SLOT_CONTROL
        value = self.read(offset, 2) & ~(self.POWER_OFF | self.INDICATOR_MASK)
        value |= self.INDICATOR_ON if on else self.INDICATOR_OFF | self.POWER_OFF
        self.write(offset, value, 2)
