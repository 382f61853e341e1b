#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Writes pictures of the digits' network as samples for npuc --calibrate, one .npy file each.

    digit_samples.py networks/digits/test_images.bin FOLDER FIRST LAST

With a file test_labels.bin beside the pictures also FOLDER.labels, for npuc --labels.
"""
import os
import struct
import sys

import numpy as np


def read(path, magic):
    with open(path, "rb") as file:
        data = file.read()
    found, count, rows, columns = struct.unpack_from("<4s3I", data)
    if found != magic or len(data) != 16 + count * rows * columns:
        sys.exit(f"{path}: not a file of {magic.decode()}")
    return np.frombuffer(data[16:], np.uint8).reshape(count, 1, rows, columns)


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    pictures, folder, first, last = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    os.makedirs(folder, exist_ok=True)
    images = read(pictures, b"QDIM").astype(np.float32) / 16
    for i in range(first, min(last, len(images))):
        np.save(os.path.join(folder, f"{i:03}.npy"), images[i])
    labels = os.path.join(os.path.dirname(pictures), "test_labels.bin")
    if os.path.exists(labels):
        with open(folder.rstrip("/") + ".labels", "w", encoding="ascii") as file:
            for i, label in enumerate(read(labels, b"QDLB").ravel()[first:last], first):
                file.write(f"{i:03}.npy {label}\n")


if __name__ == "__main__":
    main()
