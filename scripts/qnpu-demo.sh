#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The command qnpu-demo of the package qnpu-board: boots the emulated board and reads handwritten digits on its NPU.
set -e
digits=/usr/share/qnpu/board/digits
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
npuc "$digits/digits.onnx" -o "$work/digits.bmodel"
cp "$digits/test_images.bin" "$digits/test_labels.bin" "$work/"
npu-vm --share "$work" --timeout 600 --env NPU_DEVICE=drm -- sh -ec 'npu-smi; digits digits.bmodel .'
