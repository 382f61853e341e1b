#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Writes the option tables of the documentation from what the programs print for --help.

usage: option_tables.py [--check]     --check writes nothing; status 1 where a page differs

A table stands between the lines `<!-- options: PROGRAM -->` and `<!-- end -->` of a page in docs/. Programs are those
of $NPU_BUILD/bin (default: build/bin) and of tools/. The last line of --check is "N passed, N failed" (a table is a
test).
"""
import collections
import glob
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("NPU_BUILD", os.path.join(TOP, "build"))
MARKS = re.compile(r"(<!-- options: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)
LEFT_OUT = ("-h", "--help", "--version")


def help_of(program):
    for path in (os.path.join(TOP, "tools", program), os.path.join(BUILD, "bin", program)):
        if os.path.isfile(path):
            done = subprocess.run([path, "--help"], capture_output=True, text=True, check=False,
                                  env={**os.environ, "COLUMNS": "100"})
            if done.returncode == 0 and done.stdout.strip():
                return done.stdout
            raise SystemExit(f"{path} --help: status {done.returncode}, {len(done.stdout)} bytes of output")
    raise SystemExit(f"{program}: there is no tools/{program} and no {BUILD}/bin/{program}: make build")


def rows(text):
    """Yields (option, meaning). An option's line is indented by two columns; its meaning begins at the column of most
    meanings, or on the next line."""
    lines = re.split(r"^Exit status", text, maxsplit=1, flags=re.M)[0].split("\n")
    starts = re.compile(r"^  (-|[a-z]+ {2,})")
    split = [re.match(r" +\S.*?\S {2,}(?=\S)", line) for line in lines if starts.match(line)]
    found = collections.Counter(match.end() for match in split if match)
    column = found.most_common(1)[0][0] if found else 0
    option, meaning = None, []
    for line in lines + [""]:
        if option and line.strip() and line.startswith(" " * max(column - 2, 9)):
            meaning.append(line.strip())
            continue
        if option:
            yield option, " ".join(meaning)
            option = None
        if starts.match(line):
            parts = re.match(r" +(\S.*?)(?: {2,}(\S.*))?$", line)
            option, meaning = parts[1], [parts[2]] if parts[2] else []


def escaped(text):
    return re.sub(r"([|<>*_])", r"\\\1", text)


def table(program):
    out = ["| option | meaning |", "|---|---|"]
    for option, meaning in rows(help_of(program)):
        if option.split(",")[0].split()[0] in LEFT_OUT or not meaning or option.count("[") != option.count("]"):
            continue
        out.append(f"| `{option.replace('|', chr(92) + '|')}` | {escaped(meaning)} |")
    if len(out) == 2:
        raise SystemExit(f"{program} --help: no options were found in it")
    return "\n".join(out) + "\n\n"


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        raise SystemExit(__doc__)
    passed = failed = 0
    for path in sorted(glob.glob(os.path.join(TOP, "docs", "**", "*.md"), recursive=True)):
        with open(path, encoding="utf-8") as file:
            old = file.read()
        new = MARKS.sub(lambda match: match[1] + "\n" + table(match[2]) + match[3], old)
        count = len(MARKS.findall(old))
        if check and new != old:
            failed += 1
            passed += count - 1
            print(f"FAIL {os.path.relpath(path, TOP)} differs from --help: scripts/option_tables.py")
        else:
            passed += count
        if not check and new != old:
            with open(path, "w", encoding="utf-8") as file:
                file.write(new)
            print(os.path.relpath(path, TOP))
    if check:
        print(f"{passed} passed, {failed} failed")
    return 1 if failed or check and not passed else 0


if __name__ == "__main__":
    sys.exit(main())
