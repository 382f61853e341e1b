# SPDX-License-Identifier: MIT
"""The command line of QEMU for a board."""

import os
import shutil
import subprocess

from . import BoardError, installed, snapshot

# The guest's side of each channel is a virtio port of this name; "console" is a serial port instead.
CHANNELS = ("control", "stdout", "stderr", "stdin")

# When an exact board starts. No file of the host was written later, so what is written on the board is newer.
_EXACT_DATE = "2038-01-01T00:00:00"

_FIRMWARE = ("/usr/share/qemu", "/usr/share/seabios")


def binary(top, build, board):
    """Path of the QEMU with the NPU device for the board's processor."""
    override = os.environ.get("NPU_QEMU")
    if override:
        found = shutil.which(override)
        if not found:
            raise BoardError(f"NPU_QEMU={override}: there is no such program")
        return found
    packaged = installed.part(top, f"qemu-system-{board.architecture.qemu}", f"QEMU for {board.architecture.name}")
    if packaged:
        return packaged
    script = os.path.join(top, "qemu-device", "qemu", "build.sh")
    found = subprocess.run([script, "--print", board.architecture.qemu], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise BoardError(f"QEMU for {board.architecture.name} with this checkout's NPU device is not built; "
                         f"run: make qemu{board.architecture.suffix}")
    if not os.path.exists(model(build)):
        raise BoardError(f"the chip model is not built ({model(build)} is missing); run: make build")
    return found.stdout.strip()


def model(build):
    """Path of the chip model."""
    return os.path.join(build, "lib", "libnpumodel.so")


def environment(options):
    """QEMU finds the chip model where the build put it, so that a changed model needs no new QEMU."""
    libraries = [os.path.join(options.build, "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, libraries))}


def _time(options, report):
    """Who carries the processors, and what time it is."""
    if options.time == "host":
        return ["-accel", "tcg,thread=multi"]
    count = f"shift=1,sleep=off,exact={options.seed}"
    if options.report:
        count += f",report={_escaped(report)}"
    if options.save and (options.save_at or "").isdigit():
        count += f",stop={options.save_at}"
    return ["-accel", "tcg,thread=single", "-icount", count, "-rtc", f"base={_EXACT_DATE},clock=vm",
            "-seed", str(options.seed), "-global", "virtio-pci.ioeventfd=off",
            # also for the cards that are plugged later
            "-global", "npu.time=virtual", "-global", f"npu.seed={options.seed}"]


def _machine(options, board, report):
    # TCG runs everywhere.
    return [*board.machine, *_time(options, report), "-smp", str(options.smp),
            "-m", options.memory, "-nodefaults", "-no-user-config", "-display", "none", "-nic", "none",
            "-no-reboot"]


def kernel_arguments(options, board):
    # mitigations: they cost boot time and protect nothing here
    # pcie_ports: a kernel without power management of links does not ask the firmware for hotplug and bus errors
    words = [f"console={board.console}", "panic=-1", "oops=panic", "nokaslr", "mitigations=off",
             *board.kernel_arguments, "random.trust_cpu=on", "pcie_ports=native", "rdinit=/init"]
    if options.iommu:
        words += board.iommu_kernel_arguments
    if options.kmemleak:
        words.append("kmemleak=on")
    words += options.append
    return " ".join(words)


def _own_device(options, number, device):
    """A device of the board itself. Linux resets such a one when the system sleeps, and not all of its drivers can
    bring it back, unless it says that
    it keeps its state; only those behind a port say so. The ports come after the cards', whose addresses stay the
    same."""
    if not options.sleep:
        return ["-device", device]
    return ["-device",
            f"pcie-root-port,id=own{number},chassis={100 + number},slot={100 + number},addr={0x10 + number:#x}",
            "-device", f"{device},bus=own{number},x-pcie-pm-no-soft-reset=on"]


def _channel_arguments(options, channels):
    tty = options.interactive
    found = ["-chardev", f"socket,id=console,fd={channels['console']}", "-serial", "chardev:console"]
    found += _own_device(options, 0, "virtio-serial-pci,max_ports=8")
    for number, name in enumerate(CHANNELS, start=1):
        found += ["-chardev", f"socket,id={name},fd={channels[name]}",
                  "-device", f"virtserialport,chardev={name},name={name},nr={number}"]
    if options.time == "exact" and options.machine_port:
        found += ["-device", "virtserialqmp,name=machine,nr=6"]
    elif options.control:
        found += ["-chardev", f"socket,id=machine,fd={channels['machine']}",
                  "-device", "virtserialport,chardev=machine,name=machine,nr=6",
                  "-chardev", f"socket,id=monitor,fd={channels['monitor']}",
                  "-mon", "chardev=monitor,mode=control"]
    if options.save:  # the board runs as soon as it is loaded, though it stood still when it was saved
        found += ["-chardev", f"socket,id=monitor,fd={channels['monitor']}",
                  "-mon", "chardev=monitor,mode=control", "-global", "migration.store-global-state=off"]
    if tty:
        found += ["-chardev", f"socket,id=tty,fd={channels['tty']}",
                  "-device", "virtconsole,chardev=tty,name=tty,nr=7"]
    return found


def _folder_arguments(options, folders):
    found = []
    for number, folder in enumerate(folders, start=1):
        mode = "off" if folder.writable else "on"
        found += ["-fsdev", f"local,id={folder.tag},path={_escaped(folder.source)},security_model=none,"
                            f"readonly={mode},multidevs=remap"]
        found += _own_device(options, number, f"virtio-9p-pci,fsdev={folder.tag},mount_tag={folder.tag}")
    return found


def _escaped(value):
    """QEMU separates options by commas and reads two as one that is meant."""
    return value.replace(",", ",,")


def _card_arguments(options, board):
    found = []
    behind = list(board.iommu_card) if options.iommu else []
    for number in range(options.cards):
        *ports, npu = [device.format(n=number, slot=number + 1) for device in board.card]
        for device in ports + [",".join([npu] + behind + options.device)]:
            found += ["-device", device]
    return found


def command(options, board, kernel, initrd, report, channels, folders):
    """The whole command line. `report`: where that of --report goes. `channels` maps names to file descriptors that
    QEMU inherits."""
    line = [binary(options.top, options.build, board)]
    for path in _FIRMWARE:
        line += ["-L", path]
    line += _machine(options, board, report)
    line += ["-kernel", kernel.image, "-initrd", initrd, "-append", kernel_arguments(options, board)]
    if options.iommu:
        line += board.iommu
    line += _channel_arguments(options, channels)
    line += _folder_arguments(options, folders)
    line += _card_arguments(options, board)
    if options.trace:
        line += ["-trace", "npu_*", "-trace", "soc_*", "-D", os.path.abspath(options.trace)]
    if options.qmp:
        line += ["-qmp", f"unix:{_escaped(options.qmp)},server=on,wait=off"]
    if options.load:
        line += ["-incoming", snapshot.uri(os.path.abspath(options.load))]
    return line + options.qemu_arg
