# SPDX-License-Identifier: MIT
"""Runs an emulated board with the NPU: the parts of tools/npu-vm."""


class BoardError(Exception):
    """Something about the board failed, not the command that ran on it. Its text is for the user."""
