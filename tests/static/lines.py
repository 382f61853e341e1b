#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Lines of documents, of C and C++, of scripts and of CMake files have at most 120 columns, those of the driver and its
interface 100. Exempt: tables and code of documents, words that cannot be broken, strings of the driver (people search
for them), what is generated, the generator (its lines are those of other files), and what is listed below.

usage: lines.py           check; the last line is "N passed, N failed" (a file is a test)
       lines.py --wrap FILE.md...    breaks the long lines of paragraphs and lists in place
"""
import os
import re
import subprocess
import sys
import textwrap
import unicodedata

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SUFFIXES = (".md", ".c", ".h", ".cpp", ".hpp", ".py", ".sh", ".cmake", "CMakeLists.txt", "tools/npu-vm", "pre-commit")
EXEMPT = ("uapi/hw/generate.py",)

# (what paths match, columns)
LIMITS = [(r"(uapi/drm|kernel)/.*\.[ch]$", 100), ("", 120)]


def generated(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as f:
        return "generate.py" in f.read(400) and path.startswith("uapi/hw/")


def columns(text):
    """Columns on a terminal; a tabulator goes to the next multiple of 8."""
    width = 0
    for char in text:
        if char == "\t":
            width += 8 - width % 8
        elif not unicodedata.combining(char):
            width += 2 if unicodedata.east_asian_width(char) in "WF" else 1
    return width


def breakable(line):
    """Whether the line has a place to break it behind its first word."""
    return len(line.split()) > 2


def exempt(path):
    """Tells line by line whether a document's line is none of text: a table, code, or generated; of the driver, a line
    with a string."""
    if path.startswith("kernel/") and path.endswith((".c", ".h")):
        return lambda line: '"' in line
    fence = generated = False

    def is_exempt(line):
        nonlocal fence, generated
        if line.startswith("<!-- "):
            generated = line.startswith("<!-- npu.json")
        if line.lstrip().startswith("```"):
            fence = not fence
        return fence or generated or line.startswith("    ") or line.lstrip().startswith("|")

    return is_exempt if path.endswith(".md") else lambda line: False


def long_lines(path, limit):
    skipped = exempt(path)
    with open(os.path.join(TOP, path), encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            line = line.rstrip("\n")
            if not skipped(line) and columns(line) > limit and breakable(line):
                yield number, columns(line)


def wrap(text, limit=120):
    """Markdown with the long lines of its paragraphs and lists broken; code and tables stay as they are."""
    out, fence, generated, block = [], False, False, []

    def flush():
        if not block:
            return
        if any(columns(line) > limit for line in block):
            first = re.match(r"(\s*(?:(?:[-*]|\d+\.)\s+)?)", block[0]).group(1)
            words = " ".join(line.strip() for line in [block[0][len(first):]] + block[1:])
            out.extend(textwrap.wrap(words, limit, initial_indent=first, subsequent_indent=" " * len(first),
                                     break_long_words=False, break_on_hyphens=False))
        else:
            out.extend(block)
        block.clear()

    for line in text.split("\n"):
        if line.startswith("<!-- "):
            generated = line.startswith(("<!-- npu.json", "<!-- options"))
        if line.lstrip().startswith("```"):
            flush()
            fence = not fence
            out.append(line)
        elif fence or generated or not line.strip() or line.startswith(("    ", "#", "|", "<!--")) and not block:
            flush()
            out.append(line)
        elif line.lstrip().startswith(("|", "#", "<!--")):
            flush()
            out.append(line)
        elif re.match(r"\s*(?:[-*]|\d+\.)\s", line):
            flush()
            block.append(line)
        else:
            block.append(line)
    flush()
    return "\n".join(out)


def main():
    if sys.argv[1:2] == ["--wrap"]:
        for path in sys.argv[2:]:
            with open(path, encoding="utf-8") as f:
                text = f.read()
            with open(path, "w", encoding="utf-8") as f:
                f.write(wrap(text))
        return 0
    listing = ["git", "-C", TOP, "ls-files", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split("\n")
    passed = failed = 0
    for path in files:
        if not path.endswith(SUFFIXES) or path in EXEMPT:
            continue
        if not os.path.exists(os.path.join(TOP, path)) or generated(path):
            continue
        limit = next(limit for pattern, limit in LIMITS if re.match(pattern, path))
        bad = list(long_lines(path, limit))
        passed, failed = (passed + 1, failed) if not bad else (passed, failed + 1)
        for number, width in bad:
            print(f"FAIL {path}:{number}: {width} columns, at most {limit}")
    if not passed + failed:
        print("no file was looked at")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
