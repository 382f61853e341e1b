#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Looks for races: runs suites of the driver's tests on exact boards, under one seed after another.

usage: explore.py [--seconds N] [--kernel stock|debug] [--suite NAME[,NAME...]] [--first SEED] [--boards N]

A seed chooses the length of the processors' turns, delays of the card and random numbers of the guest (docs/exact.md).
The same seed is the same run: for each failure the command that repeats it is printed, and its output and console are
kept in build/explore. Status: 0 when nothing failed."""

import argparse
import concurrent.futures
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
BUILD = os.path.realpath(os.environ.get("NPU_BUILD", os.path.join(TOP, "build")))
KEPT = os.path.join(BUILD, "explore")
SUITES = ("jobs", "fences", "uring", "gang", "priority", "isolation", "eviction", "prime", "userptr", "kill",
          "bugclass", "recovery", "reset", "hotplug", "removal")
DEBUG = ["--memory", "3G", "--device", "ddr=128M"]
LIMIT = 3600  # seconds for one board


def board(seed, options, share):
    """The command that runs the suites under a seed."""
    kernel = ["--kernel", "debug", *DEBUG] if options.kernel == "debug" else []
    return [os.path.join(TOP, "tools", "npu-vm"), "--time", "exact", "--smp", "2", "--seed", str(seed), *kernel,
            "--control", "--sleep", "--timeout", str(LIMIT), "--share", share, "--",
            os.path.join(TOP, "tests", "guest", "run.sh"), "--quick", *options.suite]


def run(seed, options, end):
    """None when there was no time left, else (seed, what failed; empty: nothing)."""
    if time.monotonic() >= end:
        return None
    console, log = (os.path.join(KEPT, f"seed-{seed}.{kind}") for kind in ("console", "log"))
    with tempfile.TemporaryDirectory(prefix="npu-explore.") as share:
        command = board(seed, options, share)
        command[1:1] = ["--console", console]
        with open(log, "wb") as file:
            status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False).returncode
    if status == 0:
        os.unlink(console)
        os.unlink(log)
        return seed, ""
    with open(log, encoding="utf-8", errors="replace") as file:
        signs = [line.strip() for line in file if re.match(r"\[  FAILED  \] \w|npu-vm: |not ok|FAIL", line)]
    return seed, "; ".join(signs[:3]) or f"status {status}"


def report(seed, why, options):
    print(f"seed {seed}: {why}")
    print(f"  repeat it: mkdir -p /tmp/explore && {shlex.join(board(seed, options, '/tmp/explore'))}")
    print(f"  output:    {os.path.join(KEPT, f'seed-{seed}.log')}", flush=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="no further seed is begun after that (600)")
    parser.add_argument("--kernel", choices=("stock", "debug"), default="stock")
    parser.add_argument("--suite", default=",".join(SUITES), help="suites of tests/guest/run.sh, separated by commas")
    parser.add_argument("--first", type=int, default=1, metavar="SEED", help="the first seed (1)")
    parser.add_argument("--boards", type=int, default=os.cpu_count(), help="boards at a time (one a processor)")
    options = parser.parse_args()
    if options.first < 1 or options.boards < 1:
        parser.error("--first and --boards count from 1")
    options.suite = options.suite.split(",")
    return options


def main():
    options = parse()
    shutil.rmtree(KEPT, ignore_errors=True)
    os.makedirs(KEPT)
    end = time.monotonic() + options.seconds
    seeds, failed = 0, []
    with concurrent.futures.ThreadPoolExecutor(options.boards) as pool:
        waiting, seed = set(), options.first
        while waiting or time.monotonic() < end:
            while len(waiting) < options.boards and time.monotonic() < end:
                waiting.add(pool.submit(run, seed, options, end))
                seed += 1
            done, waiting = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
            for result in filter(None, (future.result() for future in done)):
                seeds += 1
                if result[1]:
                    failed.append(result[0])
                    report(*result, options)
                elif sys.stdout.isatty():
                    print(f"\r{seeds} seeds, {len(failed)} failed", end="", flush=True)
    print(f"{seeds} seeds, {len(failed)} failed" + (f": {', '.join(map(str, sorted(failed)))}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
