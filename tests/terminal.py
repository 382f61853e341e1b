# SPDX-License-Identifier: MIT
"""A program in a terminal of tmux: what it shows, and keys for it. Waits for what is to be seen, never for a time."""
import os
import re
import subprocess
import tempfile
import time

LIMIT = 900  # seconds that anything may take
STEP = 0.1


class Terminal:
    """A terminal of this size with a program in it, which ends with the `with` block."""

    def __init__(self, columns, rows, command, **environment):
        self._folder = tempfile.TemporaryDirectory(prefix="npu-tmux-")
        self._socket = os.path.join(self._folder.name, "socket")
        self._status = os.path.join(self._folder.name, "status")
        clean = {key: value for key, value in os.environ.items() if key not in ("TMUX", "COLUMNS", "LINES")}
        self._environment = {**clean, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color", **environment}
        # The first window is there before any option can be set, so the program comes with the second command.
        self._tmux("new-session", "-d", "-x", str(columns), "-y", str(rows), "sleep 100000", ";",
                   "set-option", "-g", "remain-on-exit", "on", ";", "set-option", "-g", "window-size", "manual", ";",
                   "respawn-pane", "-k", "sh", "-c", '"$@"; echo $? >"$0"', self._status, *command)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._tmux("kill-server")
        self._folder.cleanup()

    def _tmux(self, *arguments):
        return subprocess.run(["tmux", "-u", "-f", "/dev/null", "-S", self._socket, *arguments], capture_output=True,
                              text=True, check=True, env=self._environment).stdout

    def lines(self):
        return self._tmux("capture-pane", "-p").splitlines()

    def colored_lines(self):
        """The lines with their escape sequences."""
        return self._tmux("capture-pane", "-p", "-e").splitlines()

    def colors(self):
        """Whether anything is coloured."""
        return bool(re.search(r"\x1b\[(?:\d+;)*3[0-7][;m]", "\n".join(self.colored_lines())))

    def status(self):
        """None while the program runs. Not asked of tmux, which may overlook the end of a process that it has begun."""
        try:
            with open(self._status, encoding="ascii") as file:
                text = file.read()
        except FileNotFoundError:
            return None
        return int(text) if text.endswith("\n") else None

    def press(self, *keys):
        self._tmux("send-keys", *keys)

    def resize(self, columns, rows):
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def wait_until(self, true, what):
        """`true` is called with the lines; returns them when it is."""
        end = time.monotonic() + LIMIT
        while True:
            ended = self.status()
            lines = self.lines()
            if true(lines):
                return lines
            if ended is not None or time.monotonic() > end:
                raise AssertionError(f"not {what} (status {ended}):\n" + "\n".join(lines))
            time.sleep(STEP)

    def wait_for(self, text):
        return self.wait_until(lambda lines: any(text in line for line in lines), f"there: {text!r}")

    def wait_for_end(self):
        end = time.monotonic() + LIMIT
        while (status := self.status()) is None:
            if time.monotonic() > end:
                raise AssertionError("it does not end:\n" + "\n".join(self.lines()))
            time.sleep(STEP)
        return status
