#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Looks for races: runs suites of the driver's tests on exact boards, under one seed after another.

usage: explore.py [OPTION...]
  --seconds N       no further seed is begun after that (600)
  --seeds N         so many at most
  --first SEED      the first one (1); 0 is the board without any variation
  --kernel KERNEL   stock or debug
  --suite NAME,...  suites (tests/guest/check.py --suites)
  --test PATTERN    of their tests only those whose names are like that (* and ?)
  --rounds N        runs each suite so often on a board (1)
  --boards N        so many boards at a time (one a processor)
  --limit N         a board that is not done after so many seconds has failed (3600)
  --stop            at the first failure
  --boot            boot a board for each seed, instead of loading one that was saved before its command began

A seed chooses the number of processors, the card's clock, how the kernel shares a processor, turns of the processors,
delays of the card, and random numbers of the guest (docs/explanation/exact.md). The same seed is the same run: for each
failure the command that repeats it is printed, and its output and console are kept in build/explore. Status: 0 when
nothing failed."""

import argparse
import concurrent.futures
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
BUILD = os.path.realpath(os.environ.get("NPU_BUILD", os.path.join(TOP, "build")))
KEPT = os.path.join(BUILD, "explore")
VM = os.path.join(TOP, "tools", "npu-vm")
# The programs that a board runs; it sees the build folder.
PLAN = os.path.join(KEPT, "plan")
# Not "priority": it knows the order in which the card takes jobs, and a seed delays what the card knows of them.
SUITES = ("jobs", "fences", "uring", "gang", "isolation", "eviction", "prime", "userptr", "kill", "bugclass",
          "recovery", "reset", "hotplug", "removal")
DEBUG = ["--memory", "3G"]
# A small card, so that tests which need more than it has are done soon.
CARD = ["--device", "ddr=128M"]
# What a seed chooses from: processors; the card's clock in kHz, since the delays of a slow card are long ones for the
# driver, and a second of it takes less of the host; whether the kernel takes the processor from its own calls, too.
PROCESSORS = (2, 2, 3)
CLOCKS = (20000, 20000, 100000, 1000000)
PREEMPTION = ("voluntary", "full")
PRESENT = re.compile(r"\[  FAILED  \] \w|npu-vm: |not ok|FAIL|WARNING:|BUG:|KASAN|Oops")


def variation(seed):
    """What the board of a seed has of its own."""
    if not seed:
        return []
    choice = random.Random(seed)
    return ["--smp", str(choice.choice(PROCESSORS)), "--device", f"clock-khz={choice.choice(CLOCKS)}",
            "--append", f"preempt={choice.choice(PREEMPTION)}"]


def boots(seed, options, share, turns=None):
    """The command that boots the board of a seed and runs the suites; its turns and delays are those of `turns`, by
    default of the seed."""
    kernel = ["--kernel", "debug", *DEBUG] if options.kernel == "debug" else []
    chosen = (["--env", f"NPU_TESTS={options.test}"] if options.test else []) + \
        (["--env", f"NPU_ROUNDS={options.rounds}"] if options.rounds > 1 else [])
    return [VM, "--time", "exact", "--seed", str(seed if turns is None else turns), *CARD, *variation(seed), *kernel,
            *chosen, "--control", "--sleep", "--timeout", str(options.limit), "--share", share, "--",
            os.path.join(TOP, "tests", "guest", "run.sh"), PLAN]


def snapshot_of(seed):
    """The file with the board that a seed's begins with: seeds with the same variation have the same."""
    return os.path.join(KEPT, "-".join(["board", *variation(seed)[1::2]]))


def board(seed, options, share):
    """The command that runs the suites under a seed."""
    if options.boot:
        return boots(seed, options, share)
    return [VM, "--load", snapshot_of(seed), "--seed", str(seed), "--timeout", str(options.limit), "--share", share]


def as_always(share):
    """The folder, whose mode and date are part of what a board sees."""
    os.chmod(share, 0o755)
    os.utime(share, (0, 0))
    return share


def write_plan(options):
    """Ends the program if there are no such suites."""
    board_name = "debug" if options.kernel == "debug" else "exact"
    command = [os.path.join(TOP, "tests", "guest", "check.py"), "--suite", ",".join(options.suite),
               "--board", board_name, "--profile", "brief", "--plan", PLAN]
    if subprocess.run(command, check=False).returncode:
        raise SystemExit(2)


SAVING = threading.Lock()


def save(seed, options):
    """Boots and saves the board that a seed's begins with, where none is. Ends the program if it cannot be saved."""
    with SAVING, tempfile.TemporaryDirectory(prefix="npu-explore.") as share:
        if options.boot or os.path.exists(snapshot_of(seed)):
            return
        command = boots(seed, options, as_always(share), turns=0)  # whichever seed comes first, it is the same board
        command[1:1] = ["--save", snapshot_of(seed), "--save-at", "ready"]
        if subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode:
            raise SystemExit(f"explore.py: the board that seed {seed} begins with was not saved")


def run(seed, options, end):
    """None when there was no time left, else (seed, what failed; empty: nothing)."""
    if time.monotonic() >= end:
        return None
    save(seed, options)
    console, log = (os.path.join(KEPT, f"seed-{seed}.{kind}") for kind in ("console", "log"))
    with tempfile.TemporaryDirectory(prefix="npu-explore.") as share:
        command = board(seed, options, as_always(share))
        command[1:1] = ["--console", console]
        with open(log, "wb") as file:
            status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False).returncode
    if status == 0:
        os.unlink(console)
        os.unlink(log)
        return seed, ""
    return seed, signs(log) or f"status {status}"


def signs(log):
    """The first lines that say what failed, of a board's output."""
    with open(log, encoding="utf-8", errors="replace") as file:
        found = [line.strip() for line in file if PRESENT.search(line)]
    return "; ".join(found[:3])


def report(seed, why, options):
    print(f"seed {seed}: {why}")
    folder = "rm -rf /tmp/explore && mkdir -m 755 /tmp/explore && touch -d @0 /tmp/explore"
    print(f"  repeat it: {folder} && {shlex.join(board(seed, options, '/tmp/explore'))}")
    print(f"  output:    {os.path.join(KEPT, f'seed-{seed}.log')}", flush=True)


def parse():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seeds", type=int, default=sys.maxsize)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--kernel", choices=("stock", "debug"), default="stock")
    parser.add_argument("--suite", default=",".join(SUITES))
    parser.add_argument("--test", default="")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--boards", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=int, default=3600)
    parser.add_argument("--stop", action="store_true")
    parser.add_argument("--boot", action="store_true")
    options = parser.parse_args()
    if options.first < 0:
        parser.error("--first counts from 0")
    if min(options.boards, options.seeds, options.rounds, options.limit) < 1:
        parser.error("--boards, --seeds, --rounds and --limit count from 1")
    options.suite = options.suite.split(",")
    return options


def main():
    options = parse()
    shutil.rmtree(KEPT, ignore_errors=True)
    os.makedirs(KEPT)
    write_plan(options)
    begun = time.monotonic()
    end, last = begun + options.seconds, options.first + options.seeds
    seeds, failed = 0, []
    with concurrent.futures.ThreadPoolExecutor(options.boards) as pool:
        waiting, seed = set(), options.first
        more = lambda: time.monotonic() < end and seed < last and not (failed and options.stop)
        while waiting or more():
            while len(waiting) < options.boards and more():
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
    print(f"{seeds} seeds in {time.monotonic() - begun:.0f} s, {len(failed)} failed" +
          (f": {', '.join(map(str, sorted(failed)))}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
