#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The live view of npu-smi in a terminal emulator that is not ours: tmux.

usage: smi_tmux_test.py NPU-SMI
"""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from terminal import Terminal  # noqa: E402, pylint: disable=wrong-import-position

# Called by its name, which leaves room for its arguments.
os.environ["PATH"] = os.path.dirname(os.path.abspath(sys.argv[1])) + ":" + os.environ["PATH"]
SMI = os.path.basename(sys.argv.pop(1))


def title_is(columns):
    """The title, with the time at its right end, takes all columns."""
    return lambda lines: bool(lines) and len(lines[0]) == columns and lines[0].endswith("Z")


class Live(unittest.TestCase):
    def check_size(self, columns, rows):
        with Terminal(columns, rows, [SMI, "live"]) as terminal:
            terminal.wait_until(title_is(columns), f"as wide as {columns} columns")
            lines = terminal.wait_for("npu-smi live")  # its own process, with its arguments
            self.assertLessEqual(len(lines), rows)
            for text in ("card 0  QNPU1", "core 0  [", "core 1  [", "memory  [", "PID", "USER", "COMMAND"):
                self.assertTrue(any(text in line for line in lines), text)
            self.assertTrue(terminal.colors())
            terminal.press("q")
            self.assertEqual(terminal.wait_for_end(), 0)

    def test_80x24(self):
        self.check_size(80, 24)

    def test_200x50(self):
        self.check_size(200, 50)

    def test_follows_the_size(self):
        with Terminal(80, 24, [SMI, "live", "--loop=1000"]) as terminal:
            terminal.wait_until(title_is(80), "80 columns wide")
            terminal.resize(132, 40)
            terminal.wait_until(title_is(132), "132 columns wide")
            terminal.resize(30, 6)
            terminal.wait_for("more lines")
            terminal.press("q")
            self.assertEqual(terminal.wait_for_end(), 0)

    def test_keys(self):
        with Terminal(100, 30, [SMI, "live", "--loop=1000"]) as terminal:
            terminal.wait_for("sort (engine %)")
            terminal.press("s")
            terminal.wait_for("sort (jobs/s)")
            terminal.press("r")
            terminal.wait_for("sort (jobs/s, reversed)")
            terminal.press("h")
            terminal.wait_for("a job was on the core")
            terminal.press("h")
            terminal.wait_for("core 0  [")
            terminal.press("q")
            self.assertEqual(terminal.wait_for_end(), 0)

    def test_plain_terminals(self):
        plain = {"LC_ALL": "C", "NO_COLOR": "1"}
        with Terminal(80, 24, ["env", *(f"{k}={v}" for k, v in plain.items()), SMI, "live"]) as terminal:
            terminal.wait_until(title_is(80), "80 columns wide")
            lines = terminal.wait_for("npu-smi live")
            self.assertTrue(all(line.isascii() for line in lines), lines)
            self.assertFalse(terminal.colors())
            terminal.press("q")
            self.assertEqual(terminal.wait_for_end(), 0)


if __name__ == "__main__":
    unittest.main()
