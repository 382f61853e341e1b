# SPDX-License-Identifier: MIT
"""Parts of a board where they are installed: the package qnpu-board. A checkout has them in its build folder and in the
cache instead.

The folder of npu-vm then holds a link, `installed`, to the folder of these parts:

    qemu-system-x86_64    QEMU with the NPU
    npu.env               the kernel: what scripts/kernel-stock.sh prints in a checkout
    kernel/qnpu.ko        the driver, as below a build folder
    lib/libnpumodel.so    the chip model, as below a build folder
    bin/                  programs for the board, as below a build folder
    version               version of the package
"""

import os

from . import BoardError


def folder(top):
    """The folder of the installed parts; None in a checkout."""
    path = os.path.join(top, "installed")
    return os.path.realpath(path) if os.path.isdir(path) else None


def part(top, name, what):
    """Path of an installed part; None in a checkout."""
    parts = folder(top)
    if not parts:
        return None
    path = os.path.join(parts, name)
    if not os.path.exists(path):
        raise BoardError(f"the package qnpu-board has no {what} ({path} is missing); a checkout has all boards and "
                         "kernels")
    return path


def kernel_env(top, name, architecture):
    """Path of the kernel's env file; None in a checkout."""
    usual = name == "stock" and not architecture.suffix
    file = "npu.env" if usual else f"npu-{name}{architecture.suffix}.env"
    return part(top, file, f"kernel {name} for {architecture.name}")


def version(top):
    """The version of the package; None in a checkout."""
    path = part(top, "version", "version")
    if not path:
        return None
    with open(path, encoding="utf-8") as file:
        return file.read().strip()
