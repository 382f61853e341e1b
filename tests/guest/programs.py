#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs the programs above the driver on one boot of an emulated board; the last line is "N passed, N failed".

The parts, in their order:
  runtime      the runtime's tests, npu-smi beside a program, and the C ABI (runtime.sh)
  networks     generated networks against the oracle (tests/conformance/run_nets.py)
  decode       a language model, token by token (tests/conformance/run_decode.py)
  python       the package qnpu (python/tests/board.sh)
  onnxruntime  the plug-in for ONNX Runtime (ort/tests/ort_test.c), if `make onnxruntime` has fetched ONNX Runtime

Each part also runs alone: programs.py PART. The host compiles the networks first. A warning of the board's kernel is a
failure."""

import argparse
import os
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True

import boards  # pylint: disable=wrong-import-position  # noqa: E402
import plan  # pylint: disable=wrong-import-position  # noqa: E402
from plan import BUILD, SHARE, TOP  # pylint: disable=wrong-import-position  # noqa: E402

sys.path.insert(0, os.path.join(TOP, "tests", "conformance"))
import run_decode  # pylint: disable=wrong-import-position  # noqa: E402
import run_nets  # pylint: disable=wrong-import-position  # noqa: E402

BIN = os.path.join(BUILD, "bin")
TIMEOUT = 3500  # for a board that hangs


class LeftOut(Exception):
    """A part cannot run here. Its text says why, and what to do."""


class Part:
    """One line of the plan. The board counts the tests, unless `on_host` is true."""
    name = ""
    on_host = False

    def __init__(self, folder):
        self.folder = folder  # in the shared folder, its own
        self.inside = f"{SHARE}/{self.name}"

    def prepare(self):
        """Fills the folder; returns the command. Raises LeftOut."""
        raise NotImplementedError

    def judge(self):
        """(number of tests, [(name, log, command that repeats it)] of those that failed), where the host counts."""
        raise NotImplementedError


class Runtime(Part):
    name = "runtime"

    def prepare(self):
        return os.path.join(plan.HERE, "runtime.sh")


class Networks(Part):
    name = "networks"
    on_host = True

    def prepare(self):
        # Programs for other sizes of local memory run in the process; the driver does not see a difference.
        self.options = run_nets.parse(["--quick", "--guest", "--lmem", "default", "--bin", BIN])
        self.cases = run_nets.prepared(self.options, self.folder)
        run_nets.write_guest_script([case for case in self.cases if not case.failure], self.folder)
        return f"env NPU_DEVICE=drm sh {self.inside}/run.sh"

    def judge(self):
        run_nets.judge_guest([case for case in self.cases if not case.failure])
        return len(self.cases), run_nets.failures(self.cases, self.options)


class Decode(Part):
    name = "decode"
    on_host = True

    def prepare(self):
        self.options = run_decode.parse(["--guest"])
        self.cases = run_decode.prepared(self.folder, BIN)
        run_decode.write_guest_script([case for case in self.cases if not case.failure], self.folder)
        return f"env NPU_DEVICE=drm sh {self.inside}/run.sh"

    def judge(self):
        run_decode.judge_guest([case for case in self.cases if not case.failure])
        return len(self.cases), run_decode.failures([(case.name, case.failure) for case in self.cases], self.options)


class Python(Part):
    name = "python"

    def prepare(self):
        return f"env NPU_BUILD={BUILD} {TOP}/python/tests/board.sh"


class OnnxRuntime(Part):
    """The board does not see the cache: what the plug-in needs of ONNX Runtime is copied to the shared folder."""
    name = "onnxruntime"

    def prepare(self):
        script = os.path.join(TOP, "scripts", "onnxruntime.sh")
        found = subprocess.run([script, "--env"], capture_output=True, text=True, check=False)
        if found.returncode:
            raise LeftOut("ONNX Runtime is not in the cache; run: make onnxruntime")
        with open(found.stdout.strip(), encoding="utf-8") as file:
            env = dict(text.strip().split("=", 1) for text in file)
        shutil.copy(os.path.join(env["ORT_LIBRARY"], "libonnxruntime.so.1"), self.folder)
        shutil.copy(os.path.join(env["ORT_PROVIDERS"], "libonnxruntime_providers_shared.so"), self.folder)
        subprocess.run([sys.executable, os.path.join(TOP, "ort", "tests", "make_networks.py"),
                        os.path.join(self.folder, "networks")], check=True, stdout=subprocess.DEVNULL)
        return (f"env NPU_DEVICE=drm LD_LIBRARY_PATH={self.inside} {BIN}/ort_session_test {BUILD}/lib/libqnpu_ep.so "
                f"{self.inside}/networks {TOP}/networks/digits {self.inside}/work")


PARTS = {part.name: part for part in (Runtime, Networks, Decode, Python, OnnxRuntime)}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these parts: {', '.join(PARTS)}")
    parser.add_argument("--board", default="stock-large", metavar="NAME",
                        help="which board, of check.py --boards (default: stock-large)")
    parser.add_argument("--needs", action="store_true",
                        help="prints the targets of make that it needs, and runs nothing")
    options = parser.parse_args()
    unknown = [name for name in options.parts if name not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]}; there are: {', '.join(PARTS)}")
    options.parts = [name for name in PARTS if not options.parts or name in options.parts]
    return options


def prepare(names, share, result):
    """The parts that run, and their plan; what is left out is printed."""
    parts, lines = [], []
    for name in names:
        part = PARTS[name](os.path.join(share, name))
        os.makedirs(part.folder)
        begun = time.monotonic()
        try:
            command = part.prepare()
        except LeftOut as error:
            print(f"left out: {name}: {error}")
            continue
        except (subprocess.CalledProcessError, OSError) as error:
            log = boards.log_path("programs", name)
            with open(log, "w", encoding="utf-8") as file:
                file.write(f"{error}\n")
            result.fail(f"{name}: cannot be prepared: {error}", log, f"tests/guest/programs.py {name}", 1)
            continue
        parts.append(part)
        lines.append(plan.line(name, command, ["host"] if part.on_host else []))
        print(f"== prepared {name} in {time.monotonic() - begun:.0f} s", flush=True)
    return parts, "".join(lines)


def main():
    options = parse()
    boot = plan.Boot(board=options.board, timeout=TIMEOUT)
    if options.needs:
        print("\n".join(plan.needs(boot)))
        return 0
    share = os.path.join(BUILD, "vm", "programs-" + "-".join(options.parts) if len(options.parts) == 1 else "programs")
    shutil.rmtree(share, ignore_errors=True)
    os.makedirs(share)
    result = boards.Result()
    parts, text = prepare(options.parts, share, result)
    if parts:
        boards.write_plan(share, text)
        words = boards.command(plan.options(boot), share, boot.timeout)
        print("==", boards.shell(words), flush=True)
        ran = boards.run(words, boards.log_path("programs"))
        boards.collect(result, ran, lambda name: "tests/guest/programs.py" + (f" {name}" if name else ""), "programs")
        for part in parts:
            if part.on_host:
                count, failed = part.judge()
                result.add(count - len(failed), 0)
                for failure in failed:
                    result.fail(*failure, 1)
                print(f"== {part.name}: {count - len(failed)} passed, {len(failed)} failed")
    return result.finish()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except plan.PlanError as error:
        sys.exit(f"programs.py: {error}")
