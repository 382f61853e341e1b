# SPDX-License-Identifier: MIT
"""Lets the command on the board control the machine that it runs on: lines of QEMU's machine protocol (QMP) that it
writes to the virtio port "machine" go to QEMU, and each gets one line as answer. Greeting and events stay here."""

import json


class _Lines:
    def __init__(self):
        self._rest = b""

    def split(self, data):
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line.strip() for line in lines if line.strip()]


class MachineControl:
    """Between the guest's port and QEMU's monitor, two sockets."""

    def __init__(self, port, monitor):
        self._port = port
        self._monitor = monitor
        self._from_port = _Lines()
        self._from_monitor = _Lines()
        self._negotiated = False
        self._monitor.sendall(b'{"execute": "qmp_capabilities"}\n')

    def ask(self, data):
        """Bytes from the guest."""
        for line in self._from_port.split(data):
            try:
                json.loads(line)
            except ValueError as error:
                answer = {"error": {"class": "GenericError", "desc": f"this is not a line of JSON: {error}"}}
                self._port.sendall(json.dumps(answer).encode() + b"\n")
                continue
            self._monitor.sendall(line + b"\n")

    def answer(self, data):
        """Bytes from QEMU."""
        for line in self._from_monitor.split(data):
            message = json.loads(line)
            if "return" not in message and "error" not in message:
                continue
            if self._negotiated:
                self._port.sendall(line + b"\n")
            self._negotiated = True
