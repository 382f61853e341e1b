#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The driver's descriptions for syzkaller fit the header: the compiler compares the size and the offset of every field,
every flag and the number, direction and size of every ioctl. Names of the header that the descriptions lack fail, too.

usage: syzkaller.py [DESCRIPTIONS HEADER]

The last line is "N passed, N failed" (a struct, a list of flags, an ioctl or a name of the header is a test). The
status is 75 without compiler or libdrm. Only the part of syzlang that the descriptions use is read. A line
"# Not described: NAME, struct NAME (why)" exempts names.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SIZES = {"int8": 1, "int16": 2, "int32": 4, "int64": 8, "vma64": 8, "fd": 4}
# Resources and types of other files of syzkaller.
ELSEWHERE = {"fd_dri": 4, "drm_gem_handle": 4, "drm_syncobj": 4, "drm_syncpoint": 8}


class SyzlangError(Exception):
    """A line of the descriptions that this program does not understand."""


def arguments(text):
    """The arguments of `name[a, b[c, d]]`, or of `name(...)`, split at the outer commas."""
    out, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "[(") - (char in "])")
        if char == "," and not depth:
            out.append(text[start:at].strip())
            start = at + 1
    return out + [text[start:].strip()]


class Descriptions:
    """`structs`, `unions`: name -> [(field, type)]; `flags`: name -> values; `ioctls`: command -> direction, struct."""

    def __init__(self, text):
        self.structs, self.unions, self.flags, self.ioctls, self.resources = {}, {}, {}, {}, dict(ELSEWHERE)
        self.defined, self.exempt = set(), set()
        body = None
        for number, line in enumerate(text.split("\n"), 1):
            try:
                body = self._line(line.rstrip(), body)
            except (SyzlangError, KeyError) as error:
                raise SyzlangError(f"line {number}: {error}: {line.strip()}") from error

    def _line(self, line, body):
        """Reads a line; returns the list of fields that is open behind it."""
        if line.startswith("# Not described:"):
            words = re.sub(r"\(.*", "", line.split(":", 1)[1])
            self.exempt |= {word.strip().removeprefix("struct ") for word in words.split(",")}
        if not line or line.startswith(("#", "include ")):
            return body
        if body is not None:
            if line in ("}", "]"):
                return None
            field = re.match(r"\t(\w+)\s+(\S.*?)(?:\t\((?:in|out|inout)\))?$", line)
            if not field:
                raise SyzlangError("no field")
            body.append((field[1], field[2]))
            return body
        opened = re.match(r"(\w+) ([{\[])$", line)
        if opened:
            return (self.structs if opened[2] == "{" else self.unions).setdefault(opened[1], [])
        self._single(line)
        return None

    def _single(self, line):
        resource = re.match(r"resource (\w+)\[(\w+)\]", line)
        define = re.match(r"define (\w+)\s", line)
        flags = re.match(r"(\w+) = (.*)$", line)
        call = re.match(r"(\w+\$\w+)\((.*)\)(?: \w+)?$", line)
        if resource:
            self.resources[resource[1]] = self._base(resource[2])
        elif define:
            self.defined.add(define[1])
        elif flags:
            self.flags[flags[1]] = arguments(flags[2])
        elif call:
            self._call(call[1], arguments(call[2]))
        else:
            raise SyzlangError("unknown line")

    def _base(self, name):
        return SIZES.get(name) or self.resources[name]

    def _call(self, name, parameters):
        if not name.startswith("ioctl$"):
            return
        command = re.match(r"cmd const\[(\w+)\]", parameters[1])
        pointer = re.match(r"arg ptr\[(in|out|inout), (\w+)\]", parameters[2])
        if not command or not pointer or name != f"ioctl${command[1]}":
            raise SyzlangError("no ioctl of the form ioctl$CMD(fd FD, cmd const[CMD], arg ptr[DIRECTION, STRUCT])")
        self.ioctls[command[1]] = (pointer[1], pointer[2])

    def size(self, kind):
        """The size of a type as a C expression, and its alignment."""
        match = re.match(r"(\w+)(?:\[(.*)\])?$", kind)
        name, inner = match[1], arguments(match[2]) if match[2] else []
        if name in ("flags", "len", "const", "bytesize"):
            return self.size(inner[1])
        if name == "ptr64":
            return "8", 8
        if name == "array":
            size, align = self.size(inner[0])
            return f"({size}) * ({inner[1]})", align
        if name in self.structs:
            return f"sizeof(struct {name})", max(self.size(field)[1] for _, field in self.structs[name])
        known = SIZES.get(name) or self.resources.get(name)
        if not known:
            raise SyzlangError(f"unknown type {kind}")
        return str(known), known

    def names(self):
        """Every name of the header that the descriptions use."""
        used = {value for values in self.flags.values() for value in values} | set(self.ioctls)
        kinds = " ".join(kind for fields in self.structs.values() for _, kind in fields)
        used |= set(re.findall(r"\b[A-Z]\w+", kinds))
        return (used | set(self.structs) | self.exempt) - self.defined


def assertions(descriptions):
    """(name of the test, lines of C) for each thing that is compared."""
    for name, fields in descriptions.structs.items():
        lines, at = [], "0"
        for field, kind in fields:
            size = descriptions.size(kind)[0]
            lines.append(f'_Static_assert(offsetof(struct {name}, {field}) == {at}, "{name}.{field}: offset");')
            lines.append(f'_Static_assert(sizeof(((struct {name} *)0)->{field}) == {size}, "{name}.{field}: size");')
            at = f"offsetof(struct {name}, {field}) + sizeof(((struct {name} *)0)->{field})"
        lines.append(f'_Static_assert(sizeof(struct {name}) == {at}, "{name}: size");')
        yield f"struct {name}", lines
    for name, values in descriptions.flags.items():
        yield f"flags {name}", [f"enum {{ {name}_{i} = ({value}) != 0 }};" for i, value in enumerate(values)]
    for command, (direction, struct) in descriptions.ioctls.items():
        bits = " | ".join({"in": ["_IOC_WRITE"], "out": ["_IOC_READ"], "inout": ["_IOC_READ", "_IOC_WRITE"]}[direction])
        yield f"ioctl {command}", [
            f'_Static_assert(_IOC_SIZE({command}) == sizeof(struct {struct}), "size of the argument");',
            f'_Static_assert(_IOC_DIR({command}) == ({bits}), "direction");',
            f'_Static_assert(_IOC_TYPE({command}) == DRM_IOCTL_BASE, "type");',
            f"void number_{command}(int nr); void number_{command}(int nr) "
            f"{{ switch (nr) {{ case _IOC_NR({command}): break; }} }}"]
    numbers = " ".join(f"case _IOC_NR({command}): break;" for command in descriptions.ioctls)
    yield "numbers of the ioctls", [f"void numbers(int nr); void numbers(int nr) {{ switch (nr) {{ {numbers} }} }}"]


def header_names(text):
    """Structs, ioctls and constants of the header, without the bare numbers of the ioctls and the include guard."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    defines = re.findall(r"^#define ((?:DRM_IOCTL|DRM)_\w+)", text, re.MULTILINE)
    calls = {name.replace("DRM_IOCTL_", "DRM_", 1) for name in defines if name.startswith("DRM_IOCTL_")}
    return set(re.findall(r"^struct (\w+) \{", text, re.MULTILINE)) | {name for name in defines if name not in calls}


def compile_errors(lines, include, flags):
    """Errors of the compiler for these lines."""
    with tempfile.NamedTemporaryFile("w", suffix=".c") as file:
        file.write(f'#include <stddef.h>\n#include <sys/ioctl.h>\n#include "{include}"\n' + "\n".join(lines) + "\n")
        file.flush()
        done = subprocess.run(["cc", "-std=gnu11", "-fsyntax-only", "-Wall", "-Werror", *flags, file.name],
                              capture_output=True, text=True, check=False)
    return [line for line in done.stderr.split("\n") if "error:" in line] if done.returncode else []


def main():
    if len(sys.argv) == 3:
        path, header = sys.argv[1], os.path.abspath(sys.argv[2])
    else:
        path = os.path.join(TOP, "kernel", "upstream", "syzkaller", "dev_accel_qnpu.txt")
        header = glob.glob(os.path.join(TOP, "uapi", "drm", "*_accel.h"))[0]
    drm = subprocess.run(["pkg-config", "--cflags", "libdrm"], capture_output=True, text=True, check=False) \
        if shutil.which("pkg-config") else None
    if not shutil.which("cc") or not drm or drm.returncode:
        print("no C compiler, pkg-config or libdrm")
        return 75
    try:
        with open(path, encoding="utf-8") as file:
            descriptions = Descriptions(file.read())
        tests = list(assertions(descriptions))
    except SyzlangError as error:
        print(f"FAIL {path}: {error}\n0 passed, 1 failed")
        return 1
    passed = failed = 0
    flags = drm.stdout.split()
    whole = compile_errors([line for _, lines in tests for line in lines], header, flags)
    for name, lines in tests:
        errors = compile_errors(lines, header, flags) if whole else []
        passed, failed = passed + (not errors), failed + bool(errors)
        for error in errors:
            print(f"FAIL {name}: {re.sub(r'^.*error: ', '', error)}")
    with open(header, encoding="utf-8") as file:
        for name in sorted(header_names(file.read())):
            missing = name not in descriptions.names()
            passed, failed = passed + (not missing), failed + missing
            if missing:
                print(f"FAIL {os.path.basename(path)} lacks {name}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
