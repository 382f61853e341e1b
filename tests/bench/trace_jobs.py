# SPDX-License-Identifier: MIT
"""How long the jobs of an emulated board have cores of its card, in the host's time: by QEMU's trace of them, which is
on for as long as somebody looks."""
import contextlib
import json
import os
import re
import shutil
import socket
import tempfile

EVENT = re.compile(r"@(\d+\.\d+):npu_job job_(start|done): queue (\d+) job (\d+)")


class Monitor:
    """QEMU's machine protocol."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._lines = self._socket.makefile("r", encoding="utf-8")
        self._lines.readline()  # the greeting
        self.ask("qmp_capabilities")

    def ask(self, command, **arguments):
        self._socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        for line in self._lines:
            answer = json.loads(line)
            if "error" in answer:
                raise OSError(f"{command}: {answer['error']['desc']}")
            if "return" in answer:
                return
        raise OSError(f"{command}: QEMU has ended")

    def close(self):
        self._lines.close()
        self._socket.close()


def busy_us(text):
    """Microseconds from the starts of jobs to their ends, added up; a job that began or ended outside does not count.
    text: of the trace."""
    started, busy = {}, 0.0
    for at, kind, *job in EVENT.findall(text):
        if kind == "start":
            started[tuple(job)] = float(at)
        elif tuple(job) in started:
            busy += float(at) - started.pop(tuple(job))
    return busy * 1e6


class Trace:
    """Of one board. arguments(): what npu-vm is started with."""

    def __init__(self):
        self._folder = tempfile.mkdtemp(prefix="npu-trace.")
        self._log, self._path = os.path.join(self._folder, "log"), os.path.join(self._folder, "qmp")

    def arguments(self):
        log = ["-D", self._log, "-msg", "timestamp=on"]
        return ["--qmp", self._path, *(word for value in log for word in ("--qemu-arg", value))]

    @contextlib.contextmanager
    def recorded(self):
        """Traces the jobs meanwhile; afterwards the list that it gives has the trace's text."""
        monitor, text = Monitor(self._path), []
        before = os.path.getsize(self._log) if os.path.exists(self._log) else 0
        monitor.ask("trace-event-set-state", name="npu_job", enable=True)
        try:
            yield text
        finally:
            monitor.ask("trace-event-set-state", name="npu_job", enable=False)
            monitor.close()
        with open(self._log, encoding="utf-8") as file:
            file.seek(before)
            text.append(file.read())

    def close(self):
        shutil.rmtree(self._folder)
