#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs the steps of tests/steps.toml, for `make check`, `make check-full`, `make nightly` and continuous integration.

usage: check.py check|full|nightly [--all]   the steps of a set; full contains check, nightly contains both
       check.py ci --minutes N               all of the set check, then the steps of full that have no cached result and
                                             fit into the rest of N minutes, in the table's order, that of value
       check.py steps [--all] NAME...        these steps
       check.py quick [--since COMMIT]       builds, and runs the unit tests of the files that changed
       check.py list [SET]                   names and purposes
       check.py table [--write]              compares, or writes, the table in docs/develop/testing.md

A step whose inputs have not changed since it passed on this machine is not run again; --all runs it. The last line is
"N passed, N failed"; the lines before it name each test that failed, its log, and the command that repeats it.
"""

import argparse
import fcntl
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from checks import pages, plan, quick, result, table  # noqa: E402  pylint: disable=wrong-import-position

BUILD = os.environ.setdefault("NPU_BUILD", os.path.join(table.TOP, "build"))
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "npu")
os.environ.setdefault("NPU_PYTHON", "/usr/bin/python3")
# Output of other programs is read here and in steps: it has to be in one language.
os.environ["LC_ALL"] = "C.UTF-8"
os.environ.pop("LANGUAGE", None)
SHOWN = 6  # failures that are named at the end


def minutes(seconds):
    return f"{max(1, round(seconds / 60))} min" if seconds >= 60 else f"{round(seconds)} s"


def one_at_a_time(places):
    """Waits for another check of this checkout."""
    path = os.path.join(places.logs, ".lock")
    places.lock = open(path, "w", encoding="utf-8")  # pylint: disable=consider-using-with
    try:
        fcntl.flock(places.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("another check of this checkout is running: waiting for it", flush=True)
        fcntl.flock(places.lock, fcntl.LOCK_EX)


def run_one(arguments, steps_table, places):
    """The step of one test of ctest."""
    step = steps_table.steps[arguments.names[0]]
    for need in step.needs:
        above = result.read_result(places.result(need))
        if above and not above.available:
            result.Result(step.name, 0, 0, result.NOT_AVAILABLE, 0, 0).write(places.result(step.name))
            print(f"not available: it needs the step {need}")
            return 0
    digest = table.Digests(CACHE).of(step) if step.cached else None
    with open(places.sources, encoding="utf-8") as file:
        sources = json.load(file)[step.name]
    found = result.run(step, places)
    found.write(places.result(step.name))
    if found.failed:
        result.show_failure(step, places)
        return 1
    if not found.available:
        result.show_failure(step, places)
        return 0
    # A file that changed meanwhile leaves in doubt what was tested.
    now = table.Digests(CACHE)
    if step.cached and now.of(step) == digest and now.sources(step) == sources:
        try:
            result.keep(step, digest, found, places)
        except OSError as error:
            print(f"the result is not kept: {error}")
    return 0


def fitting(steps_table, places, digests, seconds):
    """The steps of the full set without a cached result that fit into so many seconds, and the others."""
    processors = os.cpu_count()
    chosen, left = [], []
    for step in steps_table.of_sets("full"):
        both = plan.Plan(steps_table, chosen + [step.name], places, digests, True)
        if step.name in both.unchanged:
            continue
        done = {name for name in steps_table.steps if os.path.exists(places.result(name))}
        names = [name for name in both.names if name not in done or steps_table.steps[name].cached]
        if both.seconds(processors, names) <= seconds:
            chosen.append(step.name)
        else:
            left.append(step.name)
    return chosen, left


def slowness(results, steps_table):
    """How many times the table's processor time these steps needed on this machine: 1 where it is not slower."""
    ran = [one for one in results if one.available and steps_table.steps[one.name].cached]
    expected = sum(steps_table.steps[one.name].seconds for one in ran)
    return max(1.0, sum(one.processors for one in ran) / expected) if expected else 1.0


def report(results, unchanged, begun):
    """Prints what was found; returns the exit status."""
    print()
    for one in sorted(results, key=lambda one: -one.seconds):
        if one.name in unchanged:
            print(f"{one.name:24} {one.passed:6} passed, {one.failed} failed  (unchanged since {one.since})")
        else:
            print(f"{one.name:24} {one.passed:6} passed, {one.failed} failed  ({one.seconds:.0f} s, processors "
                  f"{one.processors:.0f} s)")
    missing = [one.name for one in results if not one.available]
    if missing:
        print("\nNOT AVAILABLE here, and not tested: " + ", ".join(missing) + "; the reason is in the log of the first")
    passed, failed = sum(one.passed for one in results), sum(one.failed for one in results)
    print(f"\n{minutes(time.monotonic() - begun)}; logs: {os.path.relpath(os.path.join(BUILD, 'check'))}")
    failures = [failure for one in results for failure in one.failures]
    for name, log, command in failures[:SHOWN]:
        print(f"failed: {name}; log: {os.path.relpath(log) if os.path.isabs(log) else log}; again: {command}")
    if len(failures) > SHOWN:
        print(f"and {len(failures) - SHOWN} more")
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0


def run_steps(wanted, steps_table, places, digests, use_cache):
    """Runs steps by ctest. Returns their results, and the names of those that the cache answered."""
    chosen = plan.Plan(steps_table, wanted, places, digests, use_cache)
    if chosen.unchanged:
        print(f"unchanged since they passed ({'--all' if use_cache else ''} runs them again): "
              + " ".join(chosen.unchanged))
    if chosen.names:
        tests = [name for name in chosen.names if steps_table.steps[name].cached]
        processors = os.cpu_count()
        built, nothing = (minutes(chosen.seconds(processors, names)) for names in (tests, None))
        print(f"{len(chosen.names)} steps on {processors} processors: {built} when everything is built, {nothing} from "
              "nothing", flush=True)
        chosen.run(os.path.join(places.logs, "ctest"), [])
    return chosen.results(), set(chosen.unchanged)


def run_sets(arguments, steps_table, places):
    """The modes check, full, nightly, ci and steps."""
    begun = time.monotonic()
    if arguments.mode == "nightly":
        os.environ.setdefault("NPU_SAMPLE", str(time.localtime().tm_yday % 10))
    one_at_a_time(places)
    places.remove_old()
    digests = table.Digests(CACHE)
    sets = {"check": ["check"], "ci": ["check"], "full": ["check", "full"], "nightly": ["check", "full", "nightly"]}
    if arguments.mode == "steps":
        wanted = arguments.names
    else:
        wanted = [step.name for step in steps_table.of_sets(*sets[arguments.mode])]
    results, unchanged = run_steps(wanted, steps_table, places, digests, not arguments.all and arguments.mode != "ci")
    if arguments.mode == "ci":
        rest = arguments.minutes * 60 - (time.monotonic() - begun)
        chosen, left = fitting(steps_table, places, digests, rest / slowness(results, steps_table))
        why = f"for lack of time ({arguments.minutes} minutes)"
        if any(one.failed for one in results):
            left, why = chosen + left, "after a failure"
        elif chosen:
            more, more_unchanged = run_steps(chosen, steps_table, places, digests, True)
            known = {one.name for one in results}
            results += [one for one in more if one.name not in known]
            unchanged |= more_unchanged
        if left:
            print(f"\nleft out {why}: {' '.join(left)}")
    places.lock.close()
    return report(results, unchanged, begun)


def parse(steps_table):
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["check", "full", "nightly", "ci", "steps", "run", "quick", "list", "table"])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--all", action="store_true", help="run steps whose inputs have not changed, too")
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--since", default="")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_intermixed_args()
    known = {"steps": steps_table.steps, "run": steps_table.steps, "list": table.SETS}.get(arguments.mode, {})
    if arguments.names and not known:
        parser.error(f"the mode {arguments.mode} takes no names; `check.py steps NAME` runs single steps")
    for name in arguments.names:
        if name not in known:
            near = [one for one in known if name in one]
            parser.error(f"there is no {'set' if arguments.mode == 'list' else 'step'} {name}"
                         + (f"; did you mean {', '.join(near)}?" if near else f"; known: {', '.join(known)}"))
    if arguments.mode in ("steps", "run") and not arguments.names:
        parser.error("name one or more steps; `check.py list` lists them")
    return arguments


def main():
    steps_table = table.Table()
    arguments = parse(steps_table)
    if arguments.mode == "list":
        for step in steps_table.of_sets(*(arguments.names or table.SETS)):
            print(f"{step.name:22} {step.set:8} {step.seconds:5} s  {step.purpose}")
        return 0
    if arguments.mode == "table":
        return pages.main(steps_table, arguments.write)
    if arguments.mode == "quick":
        return quick.main(steps_table, arguments.since)
    if arguments.mode == "ci":
        os.environ.pop("MINUTES", None)  # make passes it on; here it is the check's, not a fuzzer's
    places = result.Places(BUILD, CACHE)
    if arguments.mode == "run":
        return run_one(arguments, steps_table, places)
    return run_sets(arguments, steps_table, places)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except subprocess.CalledProcessError as failure:
        reason = (failure.stderr or "").strip() or f"failed with status {failure.returncode}"
        print(f"check: {' '.join(failure.cmd)}: {reason}", file=sys.stderr)
    except (OSError, table.TableError) as failure:
        print(f"check: {failure}", file=sys.stderr)
    sys.exit(2)
