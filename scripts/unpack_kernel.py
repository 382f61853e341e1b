#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Takes the plain ELF file (vmlinux) out of an x86 kernel image (bzImage).

    unpack_kernel.py BZIMAGE VMLINUX

QEMU starts it at its PVH entry. Where the packed kernel lies in the image is told by its header: "The Linux/x86 boot
protocol" in the kernel's documentation, 2.08 and later.
"""

import struct
import subprocess
import sys

_MAGIC = 0x202
_VERSION = 0x206
_SETUP_SECTORS = 0x1F1
_PAYLOAD = 0x248
_SECTOR = 512

_PROGRAMS = {b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\0": "xz", b"\x1f\x8b": "gzip"}


def payload(image):
    """The packed kernel in the image. The last four bytes of it are the size of the unpacked one."""
    if image[_MAGIC:_MAGIC + 4] != b"HdrS" or struct.unpack_from("<H", image, _VERSION)[0] < 0x208:
        raise ValueError("is no x86 kernel image of boot protocol 2.08 or later")
    offset, size = struct.unpack_from("<II", image, _PAYLOAD)
    begin = (image[_SETUP_SECTORS] + 1) * _SECTOR + offset
    return image[begin:begin + size]


def unpack(packed):
    for magic, program in _PROGRAMS.items():
        if packed.startswith(magic):
            done = subprocess.run([program, "-dc"], input=packed[:-4], capture_output=True, check=False)
            if done.returncode or len(done.stdout) != struct.unpack("<I", packed[-4:])[0]:
                raise ValueError(f"{program} cannot unpack it: {done.stderr.decode(errors='replace').strip()}")
            return done.stdout
    raise ValueError(f"is packed in an unknown way (it begins with {packed[:4].hex()})")


def main():
    source, target = sys.argv[1:]
    try:
        with open(source, "rb") as file:
            plain = unpack(payload(file.read()))
        if not plain.startswith(b"\x7fELF"):
            raise ValueError("holds no ELF file")
    except (OSError, ValueError) as error:
        sys.exit(f"unpack_kernel.py: {source}: {error}")
    with open(target, "wb") as file:
        file.write(plain)


main()
