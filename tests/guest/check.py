#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs the driver's suites on emulated boards; the last line is "N passed, N failed".

  check.py RUN                     boots the boards of a run
  check.py --suite NAME            one suite on one board, or several suites: NAME,NAME
  check.py --list                  names the runs
  check.py --suites                names the suites, each with the CMake targets that it needs
  check.py --boards                names the boards that --board takes

suites.toml and boards.toml are the tables behind it. NPU_SAMPLE=0..9 (default 0) chooses the sample of tests that take
too long for the debug kernel: a third of libnpu's groups, and one in twenty of the allocations that fail_nth lets fail
while the driver probes and unbinds. NPU_ROUNDS=N repeats each suite."""

import argparse
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True

import boards  # pylint: disable=wrong-import-position  # noqa: E402
import plan  # pylint: disable=wrong-import-position  # noqa: E402


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("run", nargs="?", metavar="RUN", help="a name that --list shows")
    parser.add_argument("--suite", metavar="NAME,...", help="names that --suites shows")
    parser.add_argument("--board", metavar="NAME", help="a name that --boards shows (default: stock)")
    parser.add_argument("--profile", metavar="NAME", help="how many rounds: all, quick, brief or debug")
    parser.add_argument("--tests", metavar="PATTERN", help="only tests with such names (* and ?), of cmocka programs")
    parser.add_argument("--list", action="store_true", help="names the runs")
    parser.add_argument("--suites", action="store_true", help="names the suites and their CMake targets")
    parser.add_argument("--boards", action="store_true", help="names the boards")
    parser.add_argument("--needs", action="store_true",
                        help="prints the targets of make that the boards need, a line for each call, and runs nothing")
    parser.add_argument("--make", action="store_true", help="makes what the boards need first")
    parser.add_argument("--plan", metavar="FILE", help="only writes the plan for run.sh, of one board (-: prints all)")
    options = parser.parse_args()
    if sum(map(bool, (options.run, options.suite, options.list, options.suites, options.boards))) != 1:
        parser.error("expected a RUN, or --suite, --list, --suites or --boards")
    if options.run and (options.board or options.profile or options.tests):
        parser.error("--board, --profile and --tests are for --suite")
    return options


def show(options):
    """--list, --suites, --boards."""
    if options.list:
        for name, run in plan.runs().items():
            print(f"{name}\t{run['purpose']}")
    elif options.suites:
        for suite in plan.suites().values():
            print(f"{suite.name}\t{' '.join(suite.targets)}")
    else:
        print("\n".join(plan.boards()))


def boots_of(options):
    """The boots that the command line names."""
    if options.run:
        return list(plan.boots(options.run))
    names = tuple(options.suite.split(","))
    # The suites for two cards are on the boards that have two.
    board = options.board or "stock"
    two = all("two-cards" in plan.suite(name).needs for name in names)
    if two and "two-cards" not in plan.features(plan.board(board)["options"]):
        board = {"stock": "cards", "iommu": "cards", "debug": "cards-debug"}.get(board, board)
    more = () if "--sleep" in plan.board(board)["options"] else ("--sleep",)
    return [plan.Boot(board=board, profile=options.profile or "", options=more, suites=names)]


def repeat(boot, options):
    """Returns the function that gives the command for a suite of this boot, or for all of it (None)."""
    environment = {name: os.environ[name] for name in ("NPU_SAMPLE", "NPU_ROUNDS") if os.environ.get(name)}
    words = ["tests/guest/check.py"]

    def command(suite):
        if not suite and options.run:
            return boards.shell([*words, options.run], **environment)
        more = ["--board", boot.board] + (["--profile", boot.profile] if boot.profile else []) + \
            (["--tests", options.tests] if options.tests else [])
        return boards.shell([*words, "--suite", suite or options.suite, *more], **environment)

    return command


def environment_of(options):
    found = [f"NPU_SAMPLE={plan.sample()}"] if plan.sample() else []
    if options.tests:
        found.append(f"NPU_TESTS={options.tests}")
    return found + [f"{name}={os.environ[name]}" for name in ("NPU_ROUNDS",) if os.environ.get(name)]


def compile_networks(boot, share):
    """Networks that suites of a boot launch."""
    npuc = os.path.join(plan.BUILD, "bin", "npuc")
    for name in sorted({name for suite in plan.select(boot)[0] for name in suite.networks}):
        source = os.path.join(plan.TOP, "networks", name, name + ".onnx")
        subprocess.run([npuc, source, "-o", os.path.join(share, name + ".bmodel")], check=True,
                       stdout=subprocess.DEVNULL)


def keep_counters(boot, share, name, number):
    """Moves the counters of gcov that run.sh has left in the shared folder to scripts/coverage.py's."""
    counters = os.path.join(share, "gcov")
    if not os.path.isdir(counters):
        return
    architecture = plan.kind(plan.options(boot)).architecture.name
    folder = os.path.join(plan.BUILD, "coverage", "counters", architecture, f"{name}-{number}")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    shutil.move(counters, folder)


def run_boot(boot, number, name, options, result):
    """One board, or the command on the host."""
    if boot.host:
        print("==", boot.host, flush=True)
        ran = boards.run([os.path.join(plan.TOP, boot.host)], boards.log_path(name, str(number)))
        result.add(*(ran.output.sum or (0, 0)))
        if ran.status or not ran.output.sum or ran.output.sum[1]:
            result.fail(boot.host, ran.log, boot.host, 0 if ran.output.sum and ran.output.sum[1] else 1)
        return
    # A folder on a disk, which a process can map. On an exact board it is empty but for the plan.
    share = os.path.join(plan.BUILD, "vm", "guest-" + name)
    shutil.rmtree(share, ignore_errors=True)
    os.makedirs(share)
    boards.write_plan(share, plan.plan(boot))
    compile_networks(boot, share)
    words = boards.command(plan.options(boot), share, boot.timeout, environment_of(options))
    print("==", boards.shell(words), flush=True)
    one = boards.Result()
    boards.collect(one, boards.run(words, boards.log_path(name, str(number))), repeat(boot, options), name, str(number))
    keep_counters(boot, share, name, number)
    result.add(one.passed, one.failed)
    result.failures += one.failures


def needs(boots):
    return list(dict.fromkeys(call for boot in boots for call in plan.needs(boot)))


def write_plans(boots, path):
    texts = [plan.plan(boot) for boot in boots if not boot.host]
    if path == "-":
        for boot, text in zip((b for b in boots if not b.host), texts):
            print(f"# npu-vm {boards.shell(plan.options(boot))}\n{text}", end="")
        return
    if len(texts) != 1:
        raise plan.PlanError(f"--plan {path}: the run boots {len(texts)} boards; expected one")
    with open(path, "w", encoding="utf-8") as file:
        file.write(texts[0])


def main():
    options = parse()
    if options.list or options.suites or options.boards:
        show(options)
        return 0
    boots = boots_of(options)
    if options.plan:
        write_plans(boots, options.plan)
        return 0
    if options.needs:
        print("\n".join(needs(boots)))
        return 0
    for boot in boots:
        if not boot.host:
            plan.plan(boot)  # mistakes in the table show before anything runs
    if options.make:
        for call in needs(boots):
            subprocess.run(["make", "-s", "-C", plan.TOP, *call.split()], check=True)
    result = boards.Result()
    for number, boot in enumerate(boots, 1):
        run_boot(boot, number, options.run or "suite", options, result)
    return result.finish()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (plan.PlanError, subprocess.CalledProcessError, OSError) as error:
        sys.exit(f"check.py: {error}")
