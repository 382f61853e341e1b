#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Takes the plain kernel out of an image: the ELF file (vmlinux) of one for x86 (bzImage), and the plain Image for
arm64, which Debian does not pack.

    unpack_kernel.py VMLINUZ VMLINUX

QEMU starts the ELF file at its PVH entry. Where the packed kernel lies in the image is told by its header: "The
Linux/x86 boot protocol" in the kernel's documentation, 2.08 and later; "Booting AArch64 Linux" describes the other one.
"""

import struct
import subprocess
import sys

_MAGIC = 0x202
_VERSION = 0x206
_SETUP_SECTORS = 0x1F1
_PAYLOAD = 0x248
_SECTOR = 512
_ARM64_MAGIC = 0x38

_PROGRAMS = {b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\0": "xz", b"\x1f\x8b": "gzip"}


def payload(image):
    """The packed kernel in the image. The last four bytes of it are the size of the unpacked one."""
    if image[_MAGIC:_MAGIC + 4] != b"HdrS" or struct.unpack_from("<H", image, _VERSION)[0] < 0x208:
        raise ValueError("is neither an arm64 kernel image nor an x86 one of boot protocol 2.08 or later")
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


def plain_kernel(image):
    if image[_ARM64_MAGIC:_ARM64_MAGIC + 4] == b"ARMd":
        return image
    plain = unpack(payload(image))
    if not plain.startswith(b"\x7fELF"):
        raise ValueError("holds no ELF file")
    return plain


def main():
    source, target = sys.argv[1:]
    try:
        with open(source, "rb") as file:
            plain = plain_kernel(file.read())
    except (OSError, ValueError) as error:
        sys.exit(f"unpack_kernel.py: {source}: {error}")
    with open(target, "wb") as file:
        file.write(plain)


main()
