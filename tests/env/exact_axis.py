#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Host and card share one exact time: checks what bmrt_test left on exact boards with clocks of different rates.

usage: exact_axis.py CYCLES KHZ:OUTPUT:TRACE...

CYCLES: of one launch, as npuc predicted them. OUTPUT: of bmrt_test on a board with clock-khz=KHZ. TRACE: of a second
one there, with --profile. Prints a line for each test and ends with "N passed, N failed".
"""
import json
import re
import statistics
import sys

ROUNDING_US = 0.0021  # times in traces are whole nanoseconds
PATH_US = 200  # the way through library, driver and interrupt: 100,000 instructions would be far too many


class Results:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, what, good, seen):
        self.passed += good
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.passed + self.failed} - {what}" + ("" if good else f": {seen}"))


def slices(events, track):
    """(name, begin, end) of the slices of the tracks whose name ends so, in their order."""
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    found = [(e["name"], e["ts"], e["ts"] + e["dur"]) for e in events
             if e["ph"] == "X" and re.search(track, names[(e["pid"], e["tid"])])]
    return sorted(found, key=lambda found: found[1])


def check_board(results, cycles, khz, output, trace):
    """Returns the median of what a launch took beside its predicted cycles, microseconds."""
    predicted = cycles * 1000 / khz
    with open(output, encoding="utf-8") as file:
        totals = [int(number) for number in re.findall(r"launch total time is (\d+) us", file.read())]
    with open(trace, encoding="utf-8") as file:
        events = json.load(file)
    jobs, host = slices(events, r" jobs$"), slices(events, "^thread ")
    submits = [s for s in host if s[0] == "submit"]
    syncs = [s for s in host if s[0] == "bm_thread_sync"]
    commands = slices(events, " (TIU|GDMA)$")
    at = f"at {khz} kHz:"
    results.check(f"{at} the trace has all launches", len(jobs) == len(submits) == len(syncs) == len(totals) > 2,
                  (jobs, submits, syncs, totals))
    lengths = [end - begin for _, begin, end in jobs]
    results.check(f"{at} a job takes the predicted cycles",
                  all(abs(length - predicted) <= ROUNDING_US + 1e-3 for length in lengths), (predicted, lengths))
    results.check(f"{at} a job begins within its submission",
                  all(s[1] <= j[1] <= s[2] for s, j in zip(submits, jobs)), (submits, jobs))
    results.check(f"{at} and ends before the wait for it does",
                  all(j[2] <= s[2] for s, j in zip(syncs, jobs)), (syncs, jobs))
    within = [any(j[1] - ROUNDING_US <= c[1] and c[2] <= j[2] + ROUNDING_US for j in jobs) for c in commands]
    to_the_end = [any(abs(j[2] - c[2]) <= ROUNDING_US for c in commands) for j in jobs]
    results.check(f"{at} commands lie within their jobs, the last one to its end", all(within + to_the_end),
                  (jobs, commands))
    path = statistics.median(totals) - predicted
    results.check(f"{at} a launch takes the predicted time and at most {PATH_US} us more by the clock of the program",
                  0 < path <= PATH_US, (predicted, totals))
    return path


def main():
    cycles = int(sys.argv[1])
    results = Results()
    for board in sys.argv[2:]:
        khz, output, trace = board.split(":")
        path = check_board(results, cycles, int(khz), output, trace)
        print(f"# {khz} kHz: {path:.1f} us beside the prediction")
    print(f"{results.passed} passed, {results.failed} failed")
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())
