#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Says where a job's instructions go: boots a board, runs workloads, and prints a table of functions for each.

The figure of a function is what all processors of the board executed of it between begin and end of the workload,
divided by the number of jobs (or buffers, or whatever the workload repeats). A halted processor executes nothing; what
the kernel's idle task does around that is counted apart, as "idle", and is no part of the total. What processors
spend waiting for each other's locks is part of it, and named besides: with --time host the host has a say in it.

Workloads: hot.py --list. "all" stands for all of them.
"""
import argparse
import json
import sys
import tempfile

sys.dont_write_bytecode = True

import instructions  # pylint: disable=wrong-import-position  # noqa: E402


def board(options):
    """Options of npu-vm."""
    found = ["--kernel", options.kernel, "--smp", str(options.smp), "--timeout", "3000", "--time", options.time]
    busywait = options.busywait
    if busywait is None and options.time == "host":
        busywait = 0  # how long it looks for a job would depend on the host
    return found if busywait is None else found + ["--module-args", f"busywait_us={busywait}"]


def show(result, top):
    print(f"{result['workload']}: {result['total']:.0f} instructions each, of {result['times']} "
          f"({result['spin']:.0f} of them for locks that another processor has; idle besides: {result['idle']:.0f}), "
          f"{result['ns']:.0f} ns")
    print("  " + ", ".join(f"{where} {executed:.0f}" for where, executed in result["objects"].items()
                           if executed >= 0.5))
    print(f"  {'instructions':>12} {'share':>6}  function")
    for function in result["functions"][:top]:
        print(f"  {function['instructions']:12.1f} {function['share']:6.1%}  {function['function']} "
              f"[{function['object']}]")
    print()


def parse(known):
    parser = argparse.ArgumentParser(prog="hot.py", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage="hot.py [OPTION...] -- WORKLOAD...")
    add = parser.add_argument
    add("--kernel", choices=["stock", "debug"], default="stock", help="of the board (default: stock)")
    add("--time", choices=["exact", "host"], default="exact",
        help="of the board: exact (default), with the same figures each time, or the host's, with processors that run "
             "at once")
    add("--smp", type=int, default=2, metavar="N",
        help="processors (default: 2; with 1 nothing waits for another's locks)")
    add("--top", type=int, default=30, metavar="N", help="functions to print of each workload (default: 30)")
    add("--times", type=int, metavar="N",
        help="how often to do it, a multiple of 64 (default: each has its own number)")
    add("--busywait", type=int, metavar="US",
        help="the driver's busywait_us (default: 0 with the host's time, else the driver's own)")
    add("--json", metavar="FILE", help="write all figures there, too; -: only there, on standard output")
    add("--list", action="store_true", help="say what the workloads are")
    add("workload", nargs="*", metavar="WORKLOAD")
    options = parser.parse_args()
    if options.workload == ["all"]:
        options.workload = list(known)
    unknown = [name for name in options.workload if name not in known]
    if unknown or not (options.workload or options.list):
        parser.error(f"{unknown[0]}: no such workload, see --list" if unknown else "name a workload after --")
    if options.times is not None and (options.times <= 0 or options.times % 64):
        parser.error("--times is a multiple of 64")
    return options


def main():
    known = instructions.workloads()
    options = parse(known)
    if options.list:
        for workload in known.values():
            print(f"{workload.name:16} {workload.what}")
        return 0
    wanted = [(name, options.times or known[name].times) for name in options.workload]
    try:
        with tempfile.TemporaryDirectory(prefix="npu-hot.") as scratch:
            results, _ = instructions.measure(wanted, board(options), scratch)
    except instructions.BoardFailed as error:
        raise SystemExit(f"hot.py: {error}") from error
    if options.json:
        with open(options.json, "w", encoding="utf-8") if options.json != "-" else sys.stdout as file:
            json.dump(results, file, indent=1)
    if options.json != "-":
        for result in results:
            show(result, options.top)
    return 0


if __name__ == "__main__":
    sys.exit(main())
