#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs the commands that documents tell their readers to type, in the documents' order.

usage: commands.py [--board] [--arm64] [DOCUMENT...]

Commands are lines indented by four spaces and blocks marked `sh`, one a line; a block that is marked with a language
and a name (c work/hello.c) is a file for those behind it. Each document has a folder of its own, in which the
checkout's files are links. Commands write to the folder work/, which git ignores, and nowhere else. Commands that boot
a board run with --board, those of arm64 boards with --arm64. Without an option the others run. The last line is
"N passed, N failed".
"""
import argparse
import glob
import os
import re
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# serving.md is for a container runtime and a cluster; ort/tests/test_documents.py looks at its examples.
GUIDES = sorted(set(glob.glob("docs/guide/*.md", root_dir=TOP)) - {"docs/guide/serving.md"})
REFERENCES = ["docs/reference/%s.md" % name
              for name in ("boards", "compiler", "hardware", "libnpu", "python", "runtime", "tools")]
DOCUMENTS = ["README.md", *GUIDES, *REFERENCES, "docs/explanation/caches.md", "docs/explanation/compiler.md",
             "docs/explanation/numerics.md", "docs/develop/add-an-operator.md"]

# What is not typed here, and why. An entry that no document has is a mistake.
NOT_RUN = {
    r"make demo\b": "a step of the check of its own",
    r"make (programs|build|qemu|kernel-stock|module)(?!-)\b": "the check begins with it",
    r"make build-arm64\b": "the step documents-arm64 begins with it",
    r"make module-gdb\b|tools/npu-vm --gdb\b": "tests/env/gdb_session.py runs the session",
    r"make (test|quick|bench|install)\b": "other steps of the check run the same",
    r"tests/fuzz/": "the nightly check fuzzes",
    r"/tmp/env/bin/pip\b": "python/tests/test_wheel.py does the same",
    r"npu-smi exporter --listen\b": "serves until it is interrupted",
    r"tools/npu-vm --interactive\b": "needs a person",
    r"tests/bench/cycles.py": "a step of the check of its own",
}
BOARD = re.compile(r"(^|&& |; )(sudo )?tools/npu-vm\b")
ARM64 = re.compile(r"tools/npu-vm .*--board (soc|virt)\b|sysroot-arm64\.sh|\$COMPILER/")
TIMEOUT = 900  # seconds after which a command counts as hung
WORK = "work"  # the folder for files of readers


def parts(path):
    """Yields (line number, kind, text) of a document's commands and files: kind "command", or a file's name."""
    fence = name = None
    block, start, waiting = [], 0, ""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    before = ""
    for number, line in enumerate(lines, 1):
        mark = re.match(r"```(\w*) ?(\S*)$", line)
        if mark and fence is None:
            fence, name, block, start = mark.group(1) or "text", mark.group(2), [], number
        elif line == "```" and fence is not None:
            if name and fence != "diff":
                yield start, name, "\n".join(block) + "\n"
            fence = None
        elif fence is not None:
            block.append(line)
            if fence == "sh" and line.strip():
                waiting += line
                if not waiting.endswith("\\"):
                    yield number, "command", waiting
                    waiting = ""
                else:
                    waiting = waiting[:-1]
        elif line.startswith("    ") and (waiting or not before.strip() or before.startswith("    ")):
            waiting += line.strip()
            if not waiting.endswith("\\"):
                yield number, "command", waiting
                waiting = ""
            else:
                waiting = waiting[:-1]
        before = line


def folder_for(where):
    """A folder that has everything of the checkout."""
    for entry in os.listdir(TOP):
        if entry != WORK:
            os.symlink(os.path.join(TOP, entry), os.path.join(where, entry))
    return where


def run(command, where):
    """Status and output."""
    try:
        done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=where, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired as error:
        return "no end", (error.stdout or b"").decode(errors="replace")
    return done.returncode, done.stdout.decode(errors="replace")


class Runner:
    """Counts, and remembers which entries of NOT_RUN are of use."""

    def __init__(self, board, arm64):
        self.board, self.arm64 = board, arm64
        self.passed = self.failed = 0
        self.used = set()
        self.exports = []

    def exported(self, command):
        """The command behind the document's lines that set variables: readers type all in one shell."""
        before = "; ".join([*self.exports, command])
        if command.startswith(("export ", ". ")):
            self.exports.append(command)
        return before

    def left_out(self, command):
        for pattern, reason in NOT_RUN.items():
            if re.match(pattern, command):
                self.used.add(pattern)
                return reason
        if ARM64.search(command):
            return None if self.arm64 else "needs an arm64 board"
        if BOARD.search(command) and not self.board:
            return "needs a board"
        return None

    def result(self, good, text, output=""):
        print(("ok " if good else "FAILED ") + text, flush=True)
        if good:
            self.passed += 1
        else:
            self.failed += 1
            print("".join("    | %s\n" % line for line in output.splitlines()[-30:]), end="", flush=True)

    def document(self, name):
        self.exports = []
        with tempfile.TemporaryDirectory(prefix="npu-documents-") as where:
            folder_for(where)
            commands = 0
            for number, kind, text in parts(os.path.join(TOP, name)):
                at = "%s:%d" % (name, number)
                if kind != "command":
                    path = os.path.join(where, kind)
                    if os.path.dirname(kind) != WORK:
                        self.result(False, "%s: %s is not in %s/" % (at, kind, WORK))
                        continue
                    if not os.path.isdir(os.path.dirname(path)):
                        self.result(False, "%s: no command before it makes %s/" % (at, WORK))
                        continue
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(text)
                    continue
                commands += 1
                reason = self.left_out(text)
                if reason:
                    print("not run %s: %s (%s)" % (at, text, reason), flush=True)
                    continue
                status, output = run(self.exported(text), where)
                self.result(status == 0, "%s: %s" % (at, text), "status %s\n%s" % (status, output))
            strange = sorted(set(os.listdir(where)) - set(os.listdir(TOP)) - {WORK})
            if strange:
                self.result(False, "%s: commands have left %s outside of %s/" % (name, ", ".join(strange), WORK))
            if not commands:
                self.result(False, "%s has no command" % name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--board", action="store_true", help="also what boots a board")
    parser.add_argument("--arm64", action="store_true", help="also what boots an arm64 board")
    parser.add_argument("document", nargs="*", help="of the checkout; default: all that are tested")
    options = parser.parse_args()
    runner = Runner(options.board, options.arm64)
    for name in options.document or DOCUMENTS:
        runner.document(name)
    if not options.document:
        for pattern in NOT_RUN.keys() - runner.used:
            runner.result(False, "no document has a command like %s" % pattern)
    print("%d passed, %d failed" % (runner.passed, runner.failed))
    return 1 if runner.failed or not runner.passed else 0


if __name__ == "__main__":
    sys.exit(main())
