#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Drives the live view of npu-smi in a terminal.

usage: smi_live_test.py NPU-SMI

NPU_TEST_TERM: the kind of terminal, xterm by default.
"""
import fcntl
import glob
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

import pyte

SMI = sys.argv.pop(1)
LIMIT = 300  # seconds that anything may take
TERM = os.environ.get("NPU_TEST_TERM", "xterm")
# A block of a SoC has no memory of its own.
MEMORY = " MiB of the system" if glob.glob("/sys/bus/platform/drivers/qnpu/*/accel") else "memory  ["


class Live:
    """npu-smi in a terminal of this size, and what the terminal shows."""

    def __init__(self, rows, columns, term=TERM, arguments=("live",)):
        self.master, slave = pty.openpty()
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.resize(rows, columns, tell=False)
        self.before = termios.tcgetattr(slave)
        self.process = subprocess.Popen([SMI, *arguments], stdin=slave, stdout=slave, stderr=slave,
                                        env={**os.environ, "TERM": term}, start_new_session=True)
        self.slave = slave

    def resize(self, rows, columns, tell=True):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)
        if tell:
            self.process.send_signal(signal.SIGWINCH)

    def read(self, seconds):
        """Takes what comes within this time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.master], [], [], left)[0]:
                return
            data = os.read(self.master, 65536)
            self.raw += data
            self.stream.feed(data)

    def shows(self, text):
        return any(text in line for line in self.screen.display)

    def wait_until(self, holds, what):
        """A screen is read in pieces: what is to be true of it is true a moment later than a part of it."""
        end = time.monotonic() + LIMIT
        while not holds():
            ended = self.process.poll() is not None
            self.read(0.1)
            if (ended and not holds()) or time.monotonic() > end:
                raise AssertionError("not %s:\n%s\n%r" % (what, "\n".join(self.screen.display), self.raw[-400:]))

    def wait_for(self, text):
        self.wait_until(lambda: self.shows(text), "%r shown" % text)

    def end(self):
        """Status, after all output."""
        status = self.process.wait(LIMIT)
        self.read(0.2)
        return status

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


class LiveView(unittest.TestCase):
    def start(self, *args, **options):
        live = Live(*args, **options)
        self.addCleanup(live.close)
        return live

    def test_shows_the_card_and_leaves_the_terminal_as_it_was(self):
        live = self.start(30, 100)
        live.wait_for("QNPU1")
        for text in ("q: quit", "core 0  [", "core 1  [", MEMORY, " MiB", "errors  memory 0", "PID"):
            live.wait_for(text)
        live.wait_for("npu-smi")
        os.write(live.master, b"q")
        self.assertEqual(live.end(), 0)
        self.assertEqual(termios.tcgetattr(live.slave), live.before)
        if TERM == "xterm":  # the console has no alternate screen
            self.assertIn(b"\x1b[?1049l", live.raw)  # back from it

    def test_fits_when_the_terminal_changes(self):
        live = self.start(30, 100)
        live.wait_for("QNPU1")
        live.resize(6, 30)
        live.wait_for("more lines")
        live.resize(40, 120)
        live.wait_until(lambda: live.shows("PID") and not live.shows("more lines"), "all lines shown")
        os.write(live.master, b"q")
        self.assertEqual(live.end(), 0)

    def test_goes_on_until_it_is_told_to_stop(self):
        live = self.start(24, 80)
        live.wait_for("QNPU1")
        live.read(2.5)
        self.assertIsNone(live.process.poll())
        live.process.send_signal(signal.SIGINT)
        live.process.wait(LIMIT)

    def test_unknown_terminals_are_named(self):
        live = self.start(24, 80, term="no-such-terminal")
        self.assertEqual(live.end(), 1)
        self.assertIn(b"TERM=no-such-terminal is not known", live.raw)

    def test_no_such_card(self):
        live = self.start(24, 100, arguments=("live", "-i", "7"))
        self.assertEqual(live.end(), 1)
        self.assertIn(b"no NPU device 7", live.raw)


if __name__ == "__main__":
    unittest.main()
