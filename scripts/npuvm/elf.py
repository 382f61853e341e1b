# SPDX-License-Identifier: MIT
"""The little of ELF (64 bits, little-endian) that a debugging session needs: sections of a module, and a file that has
nothing but the kernel's symbols. Runs inside of gdb, too."""

import struct
from collections import namedtuple

SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR = 1, 2, 4
_SHT_PROGBITS, _SHT_SYMTAB, _SHT_STRTAB, _SHT_NOBITS = 1, 2, 3, 8
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
MACHINES = {"x86_64": 62, "aarch64": 183}

Section = namedtuple("Section", "name flags offset size align")


def _name(table, at):
    return table[at:table.index(b"\0", at)].decode()


def sections(path):
    """Sections of a file in their order."""
    with open(path, "rb") as file:
        data = file.read()
    header = _HEADER.unpack_from(data)
    table, size, count, names = header[6], header[11], header[12], header[13]
    raw = [_SECTION.unpack_from(data, table + i * size) for i in range(count)]
    strings = data[raw[names][4]:raw[names][4] + raw[names][5]]
    return [Section(_name(strings, s[0]), s[2], s[4], s[5], max(s[8], 1)) for s in raw]


def _kernel_symbols(kallsyms):
    """(address, kind, name) of the kernel's own symbols, not of modules'."""
    for line in kallsyms.splitlines():
        words = line.split()
        if len(words) == 3 and int(words[0], 16):
            yield int(words[0], 16), words[1], words[2]


def write_symbols(path, kallsyms, machine):
    """A file with the symbols of /proc/kallsyms, as gdb's symbol-file takes it."""
    symbols = list(_kernel_symbols(kallsyms))
    bounds = {name: address for address, _, name in symbols if name in ("_text", "_etext", "_end")}
    text, etext, end = (bounds[name] for name in ("_text", "_etext", "_end"))
    names, table = bytearray(1), bytearray(_SYMBOL.size)  # the first symbol is none
    for address, kind, name in symbols:
        if not text <= address < end:
            continue  # a variable that each processor has
        of_text = address < etext
        info = (1 << 4 if kind.isupper() else 0) | (2 if kind in "tTwW" else 1)
        table += _SYMBOL.pack(len(names), info, 0, 1 if of_text else 2, address, 0)
        names += name.encode() + b"\0"
    strings = b"\0.text\0.data\0.symtab\0.strtab\0"
    at = _HEADER.size
    parts = [
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (strings.index(b".text"), _SHT_NOBITS, SHF_ALLOC | SHF_EXECINSTR, text, at, etext - text, 0, 0, 16, 0),
        (strings.index(b".data"), _SHT_NOBITS, SHF_ALLOC | SHF_WRITE, etext, at, end - etext, 0, 0, 16, 0),
        (strings.index(b".symtab"), _SHT_SYMTAB, 0, 0, at, len(table), 4, 1, 8, _SYMBOL.size),
        (strings.index(b".strtab"), _SHT_STRTAB, 0, 0, at + len(table), len(names) + len(strings), 0, 0, 1, 0),
    ]
    shift = len(names)  # names of sections stand behind those of symbols
    parts = [(p[0] + shift if p[1] else 0,) + p[1:] for p in parts]
    body = bytes(table + names) + strings
    with open(path, "wb") as file:
        file.write(_HEADER.pack(b"\x7fELF\x02\x01\x01" + bytes(9), 2, MACHINES[machine], 1, text, 0, at + len(body), 0,
                                _HEADER.size, 0, 0, _SECTION.size, len(parts), 4))
        file.write(body)
        for part in parts:
            file.write(_SECTION.pack(*part))
