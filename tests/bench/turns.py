# SPDX-License-Identifier: MIT
"""What benchmarks in the host's time share: programs that work in turn, and the ratios of their times."""
import contextlib
import statistics
import subprocess
import sys
import time


class Worker:
    """A program that waits for a line that says what to do, and answers with one."""

    def __init__(self, *command, **options):
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)

    def ask(self, line):
        """The answer's words."""
        with contextlib.suppress(BrokenPipeError):  # its status says more
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise Ended(f"{line}: {self._process.args[0]} ended with status {self._close()}")
        return answer.split()

    def end(self):
        """It has nothing more to do."""
        if self._close() != 0:
            raise Ended(f"{self._process.args[0]} ended with status {self._process.returncode}")

    def _close(self):
        """Its status."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        return self._process.wait()


class Ended(Exception):
    """A worker ended too early; the reason is on stderr."""


class Clock:
    """How fast the clock of a worker goes, which knows the operation "clock". A board finds out its clock's frequency
    when it boots, and one that booted on a busy host was seen to count 2.7 seconds in one."""

    LEAST_S = 1.0

    def __init__(self, worker, host=time):
        """host: has the host's monotonic() and sleep()."""
        self._worker = worker
        self._host = host
        worker.ask("clock")  # until a board has booted
        self._start = self._now()

    def _now(self):
        """(the worker's microseconds, the host's)."""
        before = self._host.monotonic()
        answer = float(self._worker.ask("clock")[0])
        return answer, (before + self._host.monotonic()) / 2 * 1e6

    def rate(self):
        """Seconds that the worker has counted in one of the host, since the beginning."""
        self._host.sleep(max(0.0, self._start[1] / 1e6 + self.LEAST_S - self._host.monotonic()))
        theirs, host = (now - start for now, start in zip(self._now(), self._start))
        return theirs / host


class Ratios:
    """Of pairs (mine, other); smaller is better. aim: what the worst may be, or None."""

    def __init__(self, pairs, aim):
        self.pairs, self.aim = pairs, aim
        ratios = sorted(mine / other for mine, other in pairs)
        self.best, self.worst, self.median = ratios[0], ratios[-1], statistics.median(ratios)

    def text(self):
        return f"{self.median:7.2f} {self.best:7.2f} {self.worst:7.2f}"

    def verdict(self):
        """"met" needs the worst pair."""
        if self.aim is None:
            return ""
        if self.worst <= self.aim:
            return f"aim {self.aim:.2f}: met"
        return f"aim {self.aim:.2f}: MISSED by the " + ("worst pair" if self.median <= self.aim else "median")


def progress(text):
    """Says on a terminal what is being done, or in a log, a line each."""
    print(text, file=sys.stderr, flush=True)
