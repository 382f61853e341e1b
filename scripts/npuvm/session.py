# SPDX-License-Identifier: MIT
"""One run of a board: starts QEMU, carries bytes between it and the caller, watches time and health."""

import ctypes
import os
import selectors
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
import tty

from . import BoardError
from .machine import MachineControl
from .qemu import CHANNELS

# Limits in seconds for what takes about three on an idle machine; a loaded one may be far slower.
BOOT_LIMIT = 900
OFF_LIMIT = 300
SAVE_LIMIT = 300
# How long a board may go on when its kernel has shown a splat, so that all of it reaches the log.
SPLAT_GRACE = 30

_PR_SET_PDEATHSIG = 1
_END_OF_INPUT = b"\x04"
_EMPTY_LINE = b"\x15"


class ReaderGone(Exception):
    """Nobody reads any more what the command writes."""


def _die_with_parent():
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Session:
    """State of a running board. run() returns the command's status, or raises BoardError or ReaderGone."""

    def __init__(self, console, limit, interactive, live, patient=False):
        """`live`: the board may be given something while it runs. `patient`: a debugger may stop it for any time."""
        self._console = console
        self._limit = limit
        self._interactive = interactive
        self._live = live
        self._patient = patient
        self._selector = selectors.DefaultSelector()
        self._ends = {}
        self._messages = b""
        self._spoken = False
        self._status = None
        self._failure = None
        self._off = False
        self._process = None
        self._terminal = None
        self._machine = None
        self._saver = None
        self._phase = "boot"
        self._deadline = time.monotonic() + BOOT_LIMIT

    def state(self):
        """How far the board has come, for resume() of the session in which it goes on."""
        return {"phase": self._phase, "spoken": self._spoken,
                "status": self._status, "messages": self._messages.decode("latin-1")}

    def resume(self, state):
        """The board is one that was saved."""
        self._status = state["status"]
        self._spoken = state["spoken"]
        self._messages = state["messages"].encode("latin-1")
        self._enter(state["phase"], {"boot": BOOT_LIMIT, "command": self._limit, "end": OFF_LIMIT}[state["phase"]])

    def open_channels(self, control=False, saver=None):
        """Makes the socket pairs; returns the descriptors that QEMU inherits, by name. `control`: the command may
        control the machine. `saver` saves the board when it stops."""
        inherited = {}
        names = ("console",) + CHANNELS + (("tty",) if self._interactive else ())
        control = control and self._live
        names += ("machine", "monitor") if control else ("monitor",) if saver else ()
        for name in names:
            ours, theirs = socket.socketpair()
            self._ends[name] = ours
            inherited[name] = theirs.detach()
            self._selector.register(ours, selectors.EVENT_READ, name)
        if control:
            self._machine = MachineControl(self._ends["machine"], self._ends["monitor"])
        elif saver:
            self._machine = self._saver = saver
            saver.attach(self._ends["monitor"])
        return inherited

    def run(self, line, environment, inherited, log_path):
        with open(log_path, "wb") as log:
            self._process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                             pass_fds=tuple(inherited.values()), env=environment,
                                             preexec_fn=_die_with_parent)
        for descriptor in inherited.values():
            os.close(descriptor)
        try:
            self._carry()
            self._let_end()
        finally:
            self._give_terminal_back()
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
        return self._verdict(log_path)

    def _let_end(self):
        """QEMU closes its channels some time before it ends: its own status is worth knowing."""
        try:
            self._process.wait(OFF_LIMIT)
        except subprocess.TimeoutExpired:
            pass

    def _take_terminal(self):
        """In an interactive session keys go to the guest one by one."""
        if os.isatty(0):
            self._terminal = termios.tcgetattr(0)
            tty.setraw(0)
            signal.signal(signal.SIGWINCH, lambda *_: self._tell_size())
            self._tell_size()  # it may have changed since the board was given one

    def _tell_size(self):
        """The board's terminal gets the size of ours."""
        try:
            size = os.get_terminal_size(0)
            self._ends["control"].sendall(b"size %d %d\n" % (size.lines, size.columns))
        except OSError:
            pass  # the board is gone, or the terminal

    def _start_input(self):
        """What we read goes to the command. By a thread of its own: a command that does not read holds up nobody, and
        any kind of file will do."""
        threading.Thread(target=self._pump_input, daemon=True).start()

    def _pump_input(self):
        to = self._ends["tty" if self._interactive else "stdin"]
        try:
            while data := _read_input():
                to.sendall(data)
            if not self._interactive:
                to.shutdown(socket.SHUT_WR)
            # A terminal has no end, only a key for it, which one reader takes; when a shell switches line editing on,
            # one typed before becomes a character of its line. So it is typed, on an empty line, until the command has
            # ended.
            keys = _END_OF_INPUT
            while self._interactive:
                to.sendall(keys)
                keys = _EMPTY_LINE + _END_OF_INPUT
                time.sleep(0.2)
        except OSError:
            pass  # the board is gone

    def _give_terminal_back(self):
        if self._terminal is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, self._terminal)

    # --- carrying -------------------------------------------------------------------------------

    def _carry(self):
        """Until QEMU has closed every channel, or a limit is over."""
        open_channels = set(self._ends)
        while open_channels:
            for key, _ in self._selector.select(timeout=0.5):
                name = key.data
                data = self._receive(name)
                if data:
                    self._handle(name, data)
                    continue
                self._selector.unregister(key.fileobj)
                open_channels.discard(name)
            self._watch_time()
            if self._failure and self._process.poll() is None:
                self._process.kill()

    def _receive(self, name):
        try:
            return self._ends[name].recv(65536)
        except ConnectionResetError:
            return b""

    def _handle(self, name, data):
        if name == "console":
            self._spoken = True
            self._console.feed(data)
            self._watch_health()
        elif name == "control":
            self._messages += data
            *lines, self._messages = self._messages.split(b"\n")
            for line in lines:
                self._obey(line.decode("utf-8", "replace"))
        elif name == "machine":
            self._machine.ask(data)
        elif name == "monitor":
            self._machine.answer(data)
            if self._saver and self._saver.begun:
                self._deadline = max(self._deadline, time.monotonic() + SAVE_LIMIT)
        elif name == "stderr":
            _write(sys.stderr, data)
        else:
            _write(sys.stdout, data)

    def _obey(self, message):
        word, _, rest = message.partition(" ")
        if word == "ready":
            self._enter("command", self._limit)
            if self._interactive:
                self._take_terminal()
            if self._live:
                self._start_input()
        elif word == "status":
            self._status = int(rest)
            self._enter("end", OFF_LIMIT)
        elif word == "failed":
            self._failure = self._failure or rest
        elif word == "off":
            self._off = True

    # --- watching -------------------------------------------------------------------------------

    def _watch_health(self):
        if self._console.splat:
            self._enter("splat", SPLAT_GRACE)

    def _enter(self, phase, limit):
        """Nothing follows a splat."""
        if self._phase != "splat":
            self._phase, self._deadline = phase, time.monotonic() + limit

    def _watch_time(self):
        if time.monotonic() < self._deadline or self._failure or (self._patient and self._phase != "splat"):
            return
        self._failure = {
            "boot": f"the board did not boot within {BOOT_LIMIT} s",
            "command": f"the command did not end within {self._limit:g} s",
            "end": f"the board did not switch off within {OFF_LIMIT} s after the command",
            "splat": f"the kernel reported: {self._console.splat}",
        }[self._phase]

    def _verdict(self, log_path):
        if self._console.splat:
            raise BoardError(f"the kernel reported: {self._console.splat}")
        if self._failure:
            raise BoardError(self._failure)
        with open(log_path, encoding="utf-8", errors="replace") as log:
            said = log.read().strip()
        if self._saver:
            return self._verdict_of_saver(said)
        code = self._process.returncode
        if self._status is None or not self._off or code:
            when = ("before the command did" if self._status is None else
                    "after the board had switched off" if self._off else "before the board switched off")
            raise BoardError(f"QEMU ended with status {code} {when}" + (f": {said}" if said else ""))
        if self._console.race and not self._status:
            raise BoardError(f"the kernel reported: {self._console.race}")
        return self._status

    def _verdict_of_saver(self, said):
        if self._saver.done and not self._spoken:
            raise BoardError("the board cannot be saved so early: its firmware is still reading the kernel and the "
                             "initial file system, which are not saved; save it when the kernel has written to the "
                             "console")
        if self._saver.done and not self._process.returncode:
            return 0
        if self._saver.begun:
            raise BoardError(f"the board cannot be saved: {said or self._saver.failure or 'QEMU ended'}")
        how = f"the command ended with status {self._status}" if self._status is not None else "QEMU ended"
        raise BoardError(f"the board was not saved: {how} before it stopped" + (f": {said}" if said else ""))


def _read_input():
    """Empty at the end, and where there is none: it is closed, or a terminal that belongs to another program now."""
    try:
        return os.read(0, 65536)
    except OSError:
        return b""


def _write(stream, data):
    """Raises ReaderGone, and BoardError where the stream takes no more for another reason."""
    try:
        stream.buffer.write(data)
        stream.flush()
    except BrokenPipeError:
        raise ReaderGone from None
    except OSError as error:
        raise BoardError(f"{stream.name}: {error.strerror}") from error
