# SPDX-License-Identifier: MIT
"""Runs one step, and keeps its result: counts of tests, time, and the tests that failed."""

import contextlib
import dataclasses
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

from checks import table

# The last line of our programs and scripts; and the closing lines of ctest and unittest.
PLAIN = re.compile(r"(\d+) passed, (\d+) failed")
CTEST = re.compile(r"tests passed, (\d+) tests failed out of (\d+)")
UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in", re.MULTILINE)
UNITTEST_END = re.compile(r"^(?:OK|FAILED) \(([a-z]+[a-z ]*=.*)\)$", re.MULTILINE)
# A line by which a step names a test that failed, and the command that repeats it.
FAILED = re.compile(r"^failed: (?:(.+?) \(log (\S+)\)|([^:\s]+)): (.*)$", re.MULTILINE)
# Lines that are worth a look in the log of a step that failed.
SIGNS = re.compile(r"^not ok|FAILED|^FAIL\b|^ERROR:|npu-vm: |\*\*\*Failed|\*\*\*Timeout|kernel reported|[^a-z]error: |"
                   r"AddressSanitizer|ThreadSanitizer")


NOT_AVAILABLE = 75  # the status of a command for which something is missing that cannot be had here


@dataclasses.dataclass
class Result:
    """`failures`: [test, log, command] of each test that failed; `since`: when a cached result was made."""

    name: str
    passed: int
    failed: int
    status: int
    seconds: float
    processors: float
    failures: list = dataclasses.field(default_factory=list)
    since: str = ""

    @property
    def available(self):
        return self.status != NOT_AVAILABLE

    def write(self, path):
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(dataclasses.asdict(self), file)
        os.replace(path + ".new", path)


def read_result(path):
    """The result in a file, with the file's time, or None. The file may be of another version, or no result at all."""
    try:
        with open(path, encoding="utf-8") as file:
            found = Result(**json.load(file))
            found.since = time.strftime("%F %H:%M", time.localtime(os.fstat(file.fileno()).st_mtime))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    good = all(isinstance(getattr(found, field.name), (int, float) if field.type is float else field.type)
               for field in dataclasses.fields(Result))
    good = good and all(isinstance(one, list) and [type(part) for part in one] == [str] * 3 for one in found.failures)
    return found if good else None


def _count_unittest(text):
    """(passed, failed) of the runs of unittest in a text. A skipped test did not pass; a run of no other has failed."""
    passed = failed = 0
    parts = UNITTEST_RAN.split(text)
    for ran, rest in zip(parts[1::2], parts[2::2]):
        end = UNITTEST_END.search(rest)
        numbers = dict(part.split("=") for part in end[1].split(", ")) if end else {}
        bad = sum(int(numbers.get(name, 0)) for name in ("failures", "errors", "unexpected successes"))
        good = max(0, int(ran) - bad - int(numbers.get("skipped", 0)))
        passed, failed = passed + good, failed + (bad if good or bad else 1)
    return passed, failed


def count(text):
    """(passed, failed) of a step's output: its last line, "N passed, N failed"; without one, the closing lines of ctest
    and unittest."""
    last = PLAIN.fullmatch(text.strip().rpartition("\n")[2])
    if last:
        return int(last[1]), int(last[2])
    passed, failed = _count_unittest(text)
    for bad, all_of in CTEST.findall(text):
        passed, failed = passed + int(all_of) - int(bad), failed + int(bad)
    return passed, failed


class Places:
    """The folders of logs and results (in the build folder) and of cached results (in the cache)."""

    def __init__(self, build, cache):
        self.logs = os.path.join(build, "check")
        self.kept = os.path.join(cache, "results")
        self.sources = os.path.join(self.logs, "sources.json")  # of each step when the run began
        self.lock = None  # an open file: other checks wait until no process has it open
        for folder, variable in ((self.logs, "NPU_BUILD"), (self.kept, "XDG_CACHE_HOME")):
            with contextlib.suppress(OSError):
                os.makedirs(folder, exist_ok=True)
            if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
                raise OSError(f"{folder}: expected a folder that can be written; {variable} chooses another")

    def log(self, name):
        return os.path.join(self.logs, name + ".log")

    def result(self, name):
        return os.path.join(self.logs, name + ".json")

    def record(self, step, digest):
        return os.path.join(self.kept, f"{step.name}-{digest}.json")

    def remove_old(self, days=30):
        """Removes cached results that are older than so many days."""
        for name in os.listdir(self.kept):
            path = os.path.join(self.kept, name)
            with contextlib.suppress(OSError):  # a folder, or another check removed it
                if time.time() - os.lstat(path).st_mtime > days * 86400:
                    os.remove(path)


def on_signals(action):
    """Sets the action for each signal that interrupts or ends this process."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, action)


def end(process, seconds):
    """Ends a process that leads a group, with its group: what is left after so many seconds is killed."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        for _ in range(seconds * 10):
            process.poll()  # it belongs to the group until its status is read
            os.killpg(process.pid, 0)
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _execute(step, log):
    """Runs the command with its output in a log. Returns its status; one that hangs is ended with all that it
    started."""
    with open(log, "wb") as output:
        process = subprocess.Popen(["bash", "-o", "pipefail", "-c", step.command], cwd=table.TOP, stdout=output,
                                   stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)

        def interrupted(*_):
            on_signals(signal.SIG_IGN)  # a second signal does not keep us from ending the step
            sys.exit(130)

        on_signals(interrupted)
        try:
            return process.wait(step.limit)
        except SystemExit:
            end(process, 5)
            raise
        except subprocess.TimeoutExpired:
            end(process, 5)
            output.write(f"\nthe step did not end within {step.limit} s\n".encode())
            return 124


def run(step, places):
    """Runs a step; returns its Result. A step that ends with another status than 0, or that ran no test, has failed."""
    begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    status = _execute(step, places.log(step.name))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(places.log(step.name), encoding="utf-8", errors="replace") as file:
        text = file.read()
    if status == NOT_AVAILABLE:
        passed = failed = 0
    elif step.set == "prepare":
        passed, failed = (1, 0) if status == 0 else (0, 1)
    else:
        passed, failed = count(text)
        if status != 0 and failed == 0:
            failed = 1
        if passed + failed == 0:
            failed = 1
            with open(places.log(step.name), "a", encoding="utf-8") as file:
                file.write("no test ran\n")
    again = "make test T=" + step.name
    failures = [[name or bare, log or places.log(step.name), command]
                for name, log, bare, command in FAILED.findall(text)]
    if failed and not failures:
        failures = [[step.name, places.log(step.name), again]]
    return Result(step.name, passed, failed, status, time.monotonic() - begun,
                  after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, failures)


def show_failure(step, places):
    """Prints what a log says of its failure, and its end."""
    with open(places.log(step.name), encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()
    signs = [f"{number}: {line[:200]}" for number, line in enumerate(lines, 1) if SIGNS.search(line)]
    for line in signs[:12] + ["..."] + [line[:400] for line in lines[-20:]]:
        print("    | " + line)


def keep(step, digest, result, places):
    """Keeps a result that passed, with its log."""
    shutil.copyfile(places.log(step.name), places.record(step, digest)[:-5] + ".log")
    result.write(places.record(step, digest))
