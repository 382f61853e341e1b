# SPDX-License-Identifier: MIT
"""Inside of gdb: connects to a board that waits, and runs it to the moment at which the driver's module is in place and
has not begun. Then symbols of kernel and module are there, and breakpoints can be set anywhere in the driver."""

import os
import time

import gdb  # pylint: disable=import-error

from . import elf

# enum mod_mem_type of <linux/module.h>
_TEXT, _DATA, _RODATA, _RO_AFTER_INIT, _INIT_TEXT, _INIT_DATA, _INIT_RODATA = range(7)
_CORE = (_TEXT, _RODATA, _RO_AFTER_INIT, _DATA)
_INIT = (_INIT_TEXT, _INIT_RODATA, None, _INIT_DATA)
_AFTER_INIT = (".data..ro_after_init", "__jump_table")
# The kernel reads these and does not keep them; the last one is each processor's.
_NOT_KEPT = (".modinfo", "__versions", ".data..percpu")
# An unused address: types of the module are needed before it is loaded.
_NOWHERE = 0x1000
_START_LIMIT = 120  # seconds until QEMU has its socket


def _kinds(section):
    """As layout_sections() of the kernel sorts: code, constants, constants after the start, variables."""
    if not section.flags & elf.SHF_ALLOC or section.name in _NOT_KEPT:
        return None
    kind = (0 if section.flags & elf.SHF_EXECINSTR else 1 if not section.flags & elf.SHF_WRITE else
            2 if section.name in _AFTER_INIT else 3)
    return (_INIT if section.name.startswith(".init") else _CORE)[kind]


def layout(sections, bases):
    """Name -> address of each section of a module, whose memory of each type begins at bases[type]."""
    used, found = {}, {}
    for section in sections:
        kind = _kinds(section)
        if kind is None or kind not in bases:
            continue
        start = -(-used.get(kind, 0) // section.align) * section.align
        used[kind] = start + section.size
        found[section.name] = bases[kind] + start
    return found


def _wait_for(name, argument):
    """Runs until the kernel is about to start the module; returns where its memory begins, by type."""
    gdb.execute("hbreak do_init_module", to_string=True)
    while True:
        gdb.execute("continue", to_string=True)
        module = gdb.parse_and_eval(f"(struct module *){argument}")
        if module["name"].string() == name:
            break
    gdb.execute("delete", to_string=True)
    return {kind: int(module["mem"][kind]["base"]) for kind in range(7)}


def run(socket, module, argument):
    """socket: where the board waits. module: path of the driver's module, or None: the board stops at its first
    instruction. argument: register with a function's first argument."""
    limit = time.monotonic() + _START_LIMIT
    while not os.path.exists(socket) and time.monotonic() < limit:
        time.sleep(0.1)
    gdb.execute(f"target remote {socket}", to_string=True)
    if not module:
        return
    gdb.execute(f"add-symbol-file {module} {_NOWHERE:#x}", to_string=True)
    bases = _wait_for("qnpu", argument)
    gdb.execute(f"remove-symbol-file -a {_NOWHERE:#x}", to_string=True)
    found = layout(elf.sections(module), bases)
    others = " ".join(f"-s {name} {address:#x}" for name, address in found.items() if name != ".text")
    gdb.execute(f"add-symbol-file {module} {found['.text']:#x} {others}", to_string=True)
    print(f"qnpu.ko is at {found['.text']:#x} and has not begun: set breakpoints, then continue")
