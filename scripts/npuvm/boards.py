#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The kinds of boards: what one has that others have not. A further one is an entry of BOARDS.

    boards.py          names them, with what they are
    boards.py NAME     what scripts have to know of one, as lines KEY=VALUE for a shell
"""

import shlex
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Architecture:
    """What depends on the processor alone."""
    name: str
    # QEMU's target: qemu-system-QEMU.
    qemu: str
    # As Debian calls it.
    debian: str
    # Folder of programs and driver below the build folder, and below its kernel/; none where they are the host's.
    folder: str
    # Whether /usr is the host's; else it is that of the system root (scripts/sysroot-DEBIAN.sh).
    host_usr: bool
    # What programs look for in /lib, and lies in /usr/lib.
    lib_links: tuple
    # There as well.
    top_links: tuple
    # Whether its programs have the compiler among them, which dynamic networks need.
    compiler: bool
    # The kernels that scripts/kernel-NAME.sh has for it.
    kernels: tuple
    # Of the targets of make that build for it.
    suffix: str


@dataclass(frozen=True)
class Board:
    """What QEMU is told. In `card`, {n} counts the cards from 0, {slot} from 1."""
    name: str
    description: str
    architecture: Architecture
    # Machine, processors and what belongs to them.
    machine: tuple
    console: str
    # Arguments of the kernel.
    kernel_arguments: tuple
    # Devices of one NPU, the NPU itself last.
    card: tuple
    # For --iommu, which has to come before the devices whose accesses it translates.
    iommu: tuple
    iommu_kernel_arguments: tuple
    # Properties that an NPU needs behind it.
    iommu_card: tuple = ()
    # Whose time may pass: --time.
    times: tuple = ("host",)
    most_cards: int = 1 << 10
    # Whether its caches have a watch, whose module is loaded with the driver.
    cache_watch: bool = False


X86_64 = Architecture(
    name="x86-64", qemu="x86_64", debian="amd64", folder="", host_usr=True,
    lib_links=("x86_64-linux-gnu", "i386-linux-gnu", "ld-linux.so.2", "terminfo"), top_links=("lib64", "lib32"),
    compiler=True, kernels=("stock", "debug", "kcsan", "gcov", "upstream"), suffix="")

ARM64 = Architecture(
    name="arm64", qemu="aarch64", debian="arm64", folder="arm64", host_usr=False,
    lib_links=("aarch64-linux-gnu", "ld-linux-aarch64.so.1", "terminfo"), top_links=(),
    compiler=False, kernels=("stock", "debug", "debug-16K", "debug-64K", "kcsan", "gcov"), suffix="-arm64")

_PCI_CARD = ("pcie-root-port,id=rp{n},chassis={slot},slot={slot}", "npu,id=npu{n},bus=rp{n}")

# Atomics in one instruction, and neither pointer authentication nor vectors of many lengths, which take TCG long.
_VIRT = ("-M", "virt,gic-version=3", "-cpu", "neoverse-n1")

_PC = ("-M", "q35",
       # All that TCG can, but the claim that string instructions are fast: it executes them element by element, and a
       # kernel that believes the claim clears pages and copies structures byte by byte.
       "-cpu", "max,-erms,-fsrm,-fzrm,-fsrs,-fsrc",
       # Ports that are plugged as PCI Express has it; ACPI's way leaves their links down.
       "-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off")

BOARDS = {board.name: board for board in (
    Board(
        name="pc", description="a PCI Express card in a PC (q35, x86-64)", architecture=X86_64,
        machine=_PC, console="ttyS0",
        # no_timer_check: a timer that ticks late on a busy host is none that is wired wrongly
        kernel_arguments=("tsc=reliable", "no_timer_check"),
        card=_PCI_CARD,
        iommu=("-device", "intel-iommu,intremap=on,caching-mode=on"), iommu_kernel_arguments=("intel_iommu=on",),
        times=("host", "exact")),
    Board(
        name="virt", description="the same card in an arm64 machine (virt)", architecture=ARM64,
        machine=_VIRT, console="ttyAMA0", kernel_arguments=(),
        card=_PCI_CARD,
        iommu=("-M", "iommu=smmuv3"), iommu_kernel_arguments=()),
    Board(
        name="soc", description="an NPU in the same chip as arm64 processors (virt)", architecture=ARM64,
        machine=_VIRT, console="ttyAMA0", kernel_arguments=(),
        card=("npu-soc,id=npu{n}",), most_cards=1, cache_watch=True,
        iommu=("-M", "iommu=smmuv3"), iommu_kernel_arguments=(), iommu_card=("smmu=on",)),
)}


def _main(names):
    if not names:
        for board in BOARDS.values():
            print(f"{board.name:6} {board.description}")
        return 0
    board = BOARDS.get(names[0])
    if not board:
        print(f"there is no board {names[0]}; there are: {', '.join(BOARDS)}", file=sys.stderr)
        return 1
    for key, value in (("SUFFIX", board.architecture.suffix), ("FOLDER", board.architecture.folder),
                       ("DESCRIPTION", board.description)):
        print(f"{key}={shlex.quote(value)}")
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
