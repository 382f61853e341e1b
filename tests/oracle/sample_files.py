#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Writes the files by which npuc's reading of samples is tested: what numpy and the zlib module make.

    sample_files.py FOLDER

Arrays have the elements 0, 1, 2 ... in the order of C; pictures are 5 wide and 4 high with red 10 x, green 20 y and
blue 7 (x + y), gray ones 10 x + y.
"""
import os
import struct
import sys
import zlib

import numpy as np

WIDTH, HEIGHT = 5, 4


def ramp(shape, dtype=np.float32):
    return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)


def picture():
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    return np.stack([10 * x, 20 * y, 7 * (x + y)], axis=-1).astype(np.uint8)


def gray():
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    return (10 * x + y).astype(np.uint8)


def png(pixels, color_type, extra=()):
    """Color type 0: gray, 2: RGB, 3: palette, 6: with alpha."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + pixels[y].tobytes() for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, color_type, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + b"".join(chunk(k, d) for k, d in extra) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def bmp(pixels):
    """24 bits, rows from the bottom."""
    height, width = pixels.shape[:2]
    line = -(-width * 3 // 4) * 4
    rows = b"".join(pixels[y, :, ::-1].tobytes().ljust(line, b"\0") for y in reversed(range(height)))
    return (b"BM" + struct.pack("<IHHI", 54 + len(rows), 0, 0, 54) +
            struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, len(rows), 0, 0, 0, 0) + rows)


def write(folder, name, data):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for name, dtype in (("f4", np.float32), ("f8", np.float64), ("f2", np.float16), ("i8", np.int64), ("u1", np.uint8)):
        np.save(os.path.join(folder, name + ".npy"), ramp((2, 3), dtype))
    np.save(os.path.join(folder, "batch.npy"), ramp((1, 2, 3)))
    np.save(os.path.join(folder, "u64.npy"), np.array([1, 2**64 - 1], np.uint64))
    np.save(os.path.join(folder, "minus.npy"), np.array([1, -1], np.int64))
    np.save(os.path.join(folder, "fortran.npy"), np.asfortranarray(ramp((2, 3))))
    np.savez(os.path.join(folder, "stored.npz"), a=ramp((2, 3)), b=ramp((4,), np.int64))
    np.savez_compressed(os.path.join(folder, "deflated.npz"), a=ramp((2, 3)), b=ramp((4,), np.int64))
    rgb = picture()
    write(folder, "rgb.png", png(rgb, 2))
    write(folder, "gray.png", png(gray(), 0))
    alpha = np.full((HEIGHT, WIDTH, 1), 255, np.uint8)
    write(folder, "alpha.png", png(np.concatenate([rgb, alpha], axis=-1), 6))
    write(folder, "rgb.bmp", bmp(rgb))
    write(folder, "rgb.ppm", b"P6 # a comment\n%d %d\n255\n" % (WIDTH, HEIGHT) + rgb.tobytes())
    write(folder, "gray.pgm", b"P5\n%d %d 255\n" % (WIDTH, HEIGHT) + gray().tobytes())


if __name__ == "__main__":
    main()
