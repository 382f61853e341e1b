# SPDX-License-Identifier: MIT
"""Chooses the steps of a run, writes them as tests of ctest, and runs ctest."""

import json
import os
import signal
import subprocess
import sys

from checks import result, table

PROGRAM = os.path.join(table.TOP, "scripts", "check.py")


def quoted(text):
    """An argument in CMake's language."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$") + '"'


def write_ctest(steps, names, folder, extra):
    """Writes the tests file. A step that others need is a fixture: ctest runs it first, and none of those where it
    failed."""
    os.makedirs(folder, exist_ok=True)
    lines = ["# Written by scripts/check.py from tests/steps.toml."]
    needed = {need for name in names for need in steps[name].needs + steps[name].after}
    for name in names:
        step = steps[name]
        lines.append(f"add_test({name} {sys.executable} {quoted(PROGRAM)} run {' '.join(extra)} {name})")
        values = {"LABELS": step.set, "PROCESSORS": step.cores, "COST": step.seconds, "TIMEOUT": step.limit + 60}
        if step.needs + step.after:
            values["FIXTURES_REQUIRED"] = quoted(";".join(step.needs + step.after))
        if name in needed:
            values["FIXTURES_SETUP"] = name
        lines.append(f"set_tests_properties({name} PROPERTIES "
                     + " ".join(f"{key} {value}" for key, value in values.items()) + ")")
    with open(os.path.join(folder, "CTestTestfile.cmake"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


class Plan:
    """The steps of one run: those that are asked for, what they need, and what of them the cache answers."""

    def __init__(self, steps_table, wanted, places, digests, use_cache):
        self.steps = steps_table.steps
        self.places = places
        self.unchanged = {}
        self._digests = digests
        for name in wanted:
            step = self.steps[name]
            if use_cache and step.cached:
                kept = result.read_result(places.record(step, digests.of(step)))
                if kept and kept.name == name and kept.available and kept.passed and not kept.failed:
                    self.unchanged[name] = kept
        self.to_run = [name for name in wanted if name not in self.unchanged]
        self.names = steps_table.needed(self.to_run)

    def seconds(self, processors, names=None):
        """The expected wall time of these steps, or of all, where all processors are busy."""
        names = self.names if names is None else names
        return sum(self.steps[name].seconds for name in names) / processors

    def run(self, folder, extra):
        """Runs them by ctest; returns its status."""
        for name in self.names:
            for path in (self.places.result(name), self.places.log(name)):
                if os.path.exists(path):
                    os.remove(path)
        write_ctest(self.steps, self.names, folder, extra)
        # A step in check.py compares: a file that has changed since may or may not be part of what was built.
        with open(self.places.sources, "w", encoding="utf-8") as file:
            json.dump({name: self._digests.sources(self.steps[name]) for name in self.names}, file)

        def interrupted(number, _):
            result.on_signals(signal.SIG_IGN)  # a second signal does not keep us from ending the steps
            raise SystemExit(128 + number)

        result.on_signals(interrupted)
        # ctest and its children, check.py, have the lock, too: where this process is killed, they still run. Steps and
        # what these leave behind do not have it.
        with subprocess.Popen(["ctest", "--test-dir", folder, "--output-on-failure", "-j", str(os.cpu_count()),
                               "--no-tests=error", "--output-junit", os.path.join(folder, "junit.xml")],
                              start_new_session=True, pass_fds=[self.places.lock.fileno()]) as ctest:
            try:
                return ctest.wait()
            except SystemExit:
                # With the steps that run, each of which ends what it started, in five seconds at most.
                result.end(ctest, 10)
                raise

    def results(self):
        """The results of all steps, those from the cache included. One without a result was not run."""
        found = []
        for name in self.names:
            found.append(result.read_result(self.places.result(name)) or
                         result.Result(name, 0, 1, -1, 0, 0, [[name, "not run: a step that it needs failed",
                                                               "make test T=" + name]]))
        return found + list(self.unchanged.values())
