#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The board's own terminal (TERM=linux) inside a terminal of tmux: npu-smi live there, and the size of the window.

usage: terminal_test.py NPU-VM
"""
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from terminal import Terminal  # noqa: E402, pylint: disable=wrong-import-position

VM = sys.argv.pop(1)
PROGRAM = "bmrt_test --bmodel /mnt/share/digits.bmodel --loopnum 1000000000"
GRAPH = "\N{LOWER HALF BLOCK}"  # all that a console's font has, besides whole ones


def title_is(columns):
    return lambda lines: bool(lines) and len(lines[0]) == columns and lines[0].endswith("Z")


def working(program):
    """A core at work, with a graph of that, and the program with its arguments, as far as there is room."""
    core = re.compile(r"  core \d  \[[# ]*\] +[1-9]\d* %")
    return lambda lines: any(map(core.match, lines)) and all(any(text in line for line in lines)
                                                             for text in (GRAPH, program))


class Board(unittest.TestCase):
    def test_live_view_and_size_of_the_window(self):
        # A console has no second screen: what was there before the view is gone.
        script = f"before=$(stty size); {PROGRAM} >/dev/null 2>&1 &\n" \
                 "npu-smi live; echo status $?; echo $before to $(stty size), $TERM; kill $!"
        share = os.environ["NPU_TEST_SHARE"]
        with Terminal(100, 30, [VM, "--interactive", "--share", share, "--", "sh", "-c", script]) as terminal:
            terminal.wait_until(title_is(100), "100 columns wide")
            terminal.wait_until(working("bmrt_test --bmodel"), "a core that works")
            self.assertTrue(any("0000:" in line for line in terminal.lines()))
            terminal.resize(150, 40)
            terminal.wait_until(title_is(150), "150 columns wide")
            terminal.wait_until(working(PROGRAM), "a core that works")
            terminal.press("h")
            terminal.wait_for("a job was on the core")
            terminal.press("q")
            self.assertEqual(terminal.wait_for_end(), 0)
            lines = [line.strip() for line in terminal.lines()]
            for line in ("status 0", "30 100 to 40 150, linux"):
                self.assertIn(line, lines)


if __name__ == "__main__":
    unittest.main()
