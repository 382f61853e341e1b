# SPDX-License-Identifier: MIT
"""Changes of C, Kconfig and Makefile texts that the series needs: conditions, held pieces, sorted lines."""

import re

_DIRECTIVE = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b\s*(.*?)\s*(?:/\*.*)?$")
_CONDITION = [(r"ifdef (\w+)$", True), (r"ifndef (\w+)$", False), (r"if defined\((\w+)\)$", True),
              (r"if !defined\((\w+)\)$", False), (r"if IS_ENABLED\((?:CONFIG_)?(\w+)\)$", True),
              (r"if IS_REACHABLE\((?:CONFIG_)?(\w+)\)$", True)]


class TextError(Exception):
    """A text has no piece that the description names."""


def _truth(directive, argument, known):
    """True or False for a condition on a name in `known`, else None."""
    for pattern, sense in _CONDITION:
        match = re.match(pattern, f"{directive} {argument}")
        if match:
            value = known.get(match[1], known.get(match[1].removeprefix("CONFIG_")))
            return None if value is None else value == sense
    return None


def resolve_conditions(text, known):
    """The text without #if blocks on the names in `known` (name: defined or not), of which one branch stays.

    Conditions with other names or with more than one name stay as they are. An #elif behind a resolved #if is an error.
    """
    out = []
    stack = []  # (the condition is resolved, its lines stay)
    for line in text.split("\n"):
        match = _DIRECTIVE.match(line)
        directive = match[1] if match else None
        if directive in ("if", "ifdef", "ifndef"):
            truth = _truth(directive, match[2], known)
            stack.append([truth is not None, truth is not False])
            if truth is not None:
                continue
        elif directive in ("elif", "else", "endif") and stack and stack[-1][0]:
            if directive == "elif":
                raise TextError(f"cannot resolve '{line.strip()}'")
            stack[-1][1] = not stack[-1][1]
            if directive == "endif":
                stack.pop()
            continue
        if all(stays for _, stays in stack):
            out.append(line)
        if directive == "endif" and stack:
            stack.pop()
    return tidy_blank("\n".join(out))


def tidy_blank(text):
    """No two blank lines in sequence, none at the end."""
    return re.sub(r"\n{3,}", "\n\n", text).rstrip("\n") + "\n"


def without_lines(text, pattern):
    """The text without the lines that match; at least one has to."""
    kept = [line for line in text.split("\n") if not re.search(pattern, line)]
    if len(kept) == text.count("\n") + 1:
        raise TextError(f"no line matches '{pattern}'")
    return tidy_blank("\n".join(kept))


def without_declaration(text, name):
    """The text without a top-level `struct NAME {...};` or `#define NAME`, and the comment directly above it."""
    lines = text.split("\n")
    start = next((i for i, line in enumerate(lines) if re.match(rf"(struct {name} \{{|#define {name}\b)", line)), None)
    if start is None:
        raise TextError(f"no declaration of {name}")
    end = start
    if lines[start].startswith("struct"):
        while not lines[end].startswith("}"):
            end += 1
    else:
        while lines[end].endswith("\\"):
            end += 1
    if start and lines[start - 1].rstrip().endswith("*/"):
        start -= 1
        while not lines[start].lstrip().startswith("/*"):
            start -= 1
    return tidy_blank("\n".join(lines[:start] + lines[end + 1:]))


def without_kconfig_entry(text, symbol):
    """The Kconfig text without `config SYMBOL`; unchanged where it has none."""
    entry = re.compile(rf"^config {symbol}\n(?:(?:[ \t].*)?\n)*", re.MULTILINE)
    return tidy_blank(entry.sub("", text))


def without_prompt(text, symbol):
    """The Kconfig text in which `config SYMBOL` has no prompt, so that no user can choose it."""
    found = re.compile(rf'^(config {symbol}\n\t(?:tristate|bool)) "[^"\n]*"', re.MULTILINE)
    if not found.search(text):
        raise TextError(f"config {symbol} does not begin with a prompt")
    return found.sub(r"\1", text)


def insert_sorted(text, line, like):
    """The text with `line` in order among the lines that match `like`: before the first one that is greater."""
    lines = text.split("\n")
    peers = [i for i, other in enumerate(lines) if re.match(like, other)]
    if not peers:
        raise TextError(f"no line matches '{like}'")
    at = next((i for i in peers if lines[i].lower() > line.lower()), None)
    if at is None:
        raise TextError(f"'{line}' would be the last line of its kind")
    return "\n".join(lines[:at] + [line] + lines[at:])


def makefile_with(text, present):
    """The Makefile text with only those objects for which present(object) is true."""
    out = []
    listed = []  # lines of the list that is being read, without backslashes
    for line in text.split("\n"):
        if line.endswith("\\") and not line.startswith("\t"):
            listed = [line[:-1].rstrip()]
            continue
        if listed:
            bare = line.rstrip("\\").strip()
            if present(bare):
                listed.append("\t" + bare)
            if not line.endswith("\\"):
                out += [one + " \\" for one in listed[:-1]] + [listed[-1]] if len(listed) > 1 else []
                listed = []
            continue
        objects = re.match(r"[\w-]+-(?:y|\$\([^)]*\)) \+= (\S+\.o)$", line)
        flags = re.match(r"(?:CFLAGS|KASAN_SANITIZE)_(\S+\.o)\b", line)
        name = (flags or objects) and (flags or objects)[1]
        if name and not line.startswith("obj-") and not present(name):
            if flags and out and out[-1].startswith("#"):
                out.pop()
            continue
        out.append(line)
    return tidy_blank("\n".join(out))
