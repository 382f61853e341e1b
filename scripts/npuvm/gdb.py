# SPDX-License-Identifier: MIT
"""--gdb: a board that waits for a debugger, and the script that such a debugger runs."""

import os
import subprocess
import sys

from . import BoardError, elf

# Registers with the first argument of a function.
_ARGUMENTS = {"x86_64": "$rdi", "aarch64": "$x0"}


def _kallsyms(options, kernel):
    """The kernel's symbols, from a board that does nothing else; addresses are the same on every board (nokaslr)."""
    line = [sys.executable, os.path.join(options.top, "tools", "npu-vm"), "--board", options.board, "--kernel",
            options.kernel, "--cards", "0", "--no-module", "--", "cat", "/proc/kallsyms"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BoardError(f"--gdb: the symbols of Linux {kernel.version} cannot be read: {done.stderr.strip()}")
    return done.stdout


def _symbols(options, kernel, machine, folder):
    """Path of a file with the kernel's symbols, made once for each kernel."""
    path = os.path.join(folder, "symbols", f"{kernel.version}-{os.stat(kernel.image).st_mtime_ns}.elf")
    if not os.path.exists(path):
        print("npu-vm: reading the symbols of the kernel on a board of its own, once", file=sys.stderr)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        elf.write_symbols(f"{path}.{os.getpid()}", _kallsyms(options, kernel), machine)
        os.rename(f"{path}.{os.getpid()}", path)
    return path


def check_module(path):
    if not any(section.name == ".debug_info" for section in elf.sections(path)):
        raise BoardError(f"--gdb: {path} has no debugging information; run: make module-gdb")


def prepare(options, kernel, board, module, scratch, cache):
    """Writes the script of --gdb. Returns arguments of QEMU."""
    machine = board.architecture.qemu
    if module:
        check_module(module)
    socket = os.path.join(scratch, "gdb")
    symbols = _symbols(options, kernel, machine, cache)
    text = ["# Written by npu-vm --gdb: gdb -x FILE", "set confirm off", "set pagination off",
            f"symbol-file {symbols}", "python", "import sys",
            f"sys.path.insert(0, {os.path.join(options.top, 'scripts')!r})", "sys.dont_write_bytecode = True",
            "from npuvm import gdb_session",
            f"gdb_session.run({socket!r}, {module!r}, {_ARGUMENTS[machine]!r})", "end"]
    try:
        with open(options.gdb, "w", encoding="utf-8") as file:
            file.write("\n".join(text) + "\n")
    except OSError as error:
        raise BoardError(f"--gdb {options.gdb}: {error.strerror}") from error
    print(f"npu-vm: the board waits for a debugger: gdb -x {options.gdb}", file=sys.stderr)
    return ["-S", "-gdb", f"unix:{socket},server=on,wait=off"]
