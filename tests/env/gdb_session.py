#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The debugging session of docs/guide/driver-work.md: its commands on a board that waits, and its answers.

usage: gdb_session.py    needs QEMU, the stock kernel, build/kernel/qnpu-gdb.ko, gdb; ends with "N passed, N failed"
"""
import os
import re
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
PAGE = os.path.join(TOP, "docs", "guide", "driver-work.md")
LIMIT = 1800


def documented():
    """Commands and answers, in their order."""
    with open(PAGE, encoding="utf-8") as file:
        block = re.search(r"<!-- gdb session -->\n+```text\n(.*?)```", file.read(), re.S)[1]
    lines = block.splitlines()
    commands = [line[len("(gdb) "):] for line in lines if line.startswith("(gdb) ")]
    return commands, [line for line in lines if not line.startswith("(gdb) ")]


def session(folder):
    """Status of the board's command, gdb's output, and what the board has said."""
    script = os.path.join(folder, "board.gdb")
    commands, _ = documented()
    with open(os.path.join(folder, "err"), "w+", encoding="utf-8") as err:
        with subprocess.Popen([os.path.join(TOP, "tools", "npu-vm"), "--gdb", script, "--", "npu-smi", "-L"],
                              stdout=subprocess.PIPE, stderr=err, text=True) as board:
            try:
                while "gdb -x" not in open(err.name, encoding="utf-8").read() and board.poll() is None:
                    try:
                        board.wait(0.2)
                    except subprocess.TimeoutExpired:
                        pass
                line = ["gdb", "-q", "-nx", "-batch", "-x", script]
                for command in commands:
                    line += ["-ex", command]
                said = subprocess.run(line, capture_output=True, text=True, check=False, timeout=LIMIT)
                out = board.communicate(timeout=LIMIT)[0]
            finally:
                board.kill()
        err.seek(0)
        return board.returncode, out, said.stdout + said.stderr, err.read()


def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        status, out, said, err = session(folder)
    _, answers = documented()
    at = 0
    for answer in answers:
        found = said.find(answer, at)
        passed, failed = passed + (found >= 0), failed + (found < 0)
        if found < 0:
            print(f"not ok: gdb does not answer {answer!r}")
        at = max(found, at)
    good = status == 0 and out.startswith("NPU 0: QNPU1")
    passed, failed = passed + good, failed + (not good)
    if failed:
        print(f"status {status}, output {out!r}\n--- gdb\n{said}\n--- board\n{err}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
