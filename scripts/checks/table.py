# SPDX-License-Identifier: MIT
"""Reads tests/steps.toml: groups of files, and the steps."""

import dataclasses
import hashlib
import os
import re
import shutil
import subprocess
import tomllib

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
FILE = os.environ.get("NPU_STEPS") or os.path.join(TOP, "tests", "steps.toml")
# Variables that change what a step does, besides those that begin with NPU_.
VARIABLES = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "CONFIG", "UNITY", "MINUTES", "SINCE")
SETS = ("prepare", "check", "full", "nightly")
TYPES = {dict: "a table", str: "a string", bool: "true or false", int: "a number", list[str]: "a list of strings"}


class TableError(Exception):
    """The table is not as its head describes it."""


@dataclasses.dataclass
class Step:
    """One row. `inputs` are patterns, with groups resolved; `seconds` is processor time, `limit` wall time."""

    name: str
    set: str
    purpose: str
    command: str
    seconds: int
    needs: list[str] = dataclasses.field(default_factory=list)
    after: list[str] = dataclasses.field(default_factory=list)
    inputs: list[str] = dataclasses.field(default_factory=list)
    cores: int = 1
    limit: int = 3600
    keep: bool = True

    @property
    def cached(self):
        """True where a result may come from the cache."""
        return self.set != "prepare" and self.keep


class Table:
    """`steps`: name to Step, in the file's order, which is that of value; `groups` and `labels`: name to patterns."""

    def __init__(self, path=FILE):
        self.path = path
        try:
            with open(path, "rb") as file:
                data = tomllib.load(file)
        except OSError as error:
            raise TableError(f"{path}: {error.strerror}; expected the table of steps") from error
        except ValueError as error:  # no TOML, or no UTF-8
            raise TableError(f"{path}: {error}; expected TOML") from error
        for key in ("files", "labels", "step"):
            self._expect(key, data.get(key, {}), dict)
        for key in ("files", "labels"):
            for name, patterns in data.get(key, {}).items():
                self._expect(f"{key}.{name}", patterns, list[str])
        self.groups = {}
        self._raw = data.get("files", {})
        for name in self._raw:
            self.groups[name] = self._resolved(["@" + name], [])
        self.labels = {name: self._resolved(patterns, []) for name, patterns in data.get("labels", {}).items()}
        self.steps = {name: self._step(name, row) for name, row in data.get("step", {}).items()}
        self._check_needs()

    def _expect(self, what, value, kind):
        """An error where a value of the file is not of this one of TYPES."""
        good = isinstance(value, {int: (int, float), list[str]: list}.get(kind, kind))
        if not good or kind == list[str] and not all(isinstance(one, str) for one in value):
            raise TableError(f"{self.path}: {what} is {value!r}; expected {TYPES[kind]}")

    def _resolved(self, patterns, above):
        """Patterns with groups replaced by their patterns; `above` are the groups that are being resolved."""
        found = []
        for pattern in patterns:
            if not pattern.startswith("@"):
                found.append(pattern)
                continue
            name = pattern[1:]
            if name not in self._raw:
                raise TableError(f"{self.path}: there is no group of files @{name}; known: {', '.join(self._raw)}")
            if name in above:
                raise TableError(f"{self.path}: the group @{name} contains itself")
            found += self._resolved(self._raw[name], above + [name])
        return list(dict.fromkeys(found))

    def _step(self, name, row):
        self._expect(f"step {name}", row, dict)
        known = {field.name: field.type for field in dataclasses.fields(Step) if field.name != "name"}
        if unknown := set(row) - set(known):
            raise TableError(f"{self.path}: step {name} has the unknown key {sorted(unknown)[0]}; known: "
                             + ", ".join(sorted(known)))
        for key in ("set", "purpose", "command", "seconds"):
            if key not in row:
                raise TableError(f"{self.path}: step {name} has no {key}")
        for key, value in row.items():
            self._expect(f"{key} of step {name}", value, known[key])
        if row["set"] not in SETS:
            raise TableError(f"{self.path}: step {name} is in the unknown set {row['set']}; known: {', '.join(SETS)}")
        step = Step(name, **row)
        if step.set != "prepare" and not step.inputs:
            raise TableError(f"{self.path}: step {name} names no inputs")
        step.inputs = self._resolved(step.inputs, [])
        return step

    def _check_needs(self):
        for step in self.steps.values():
            for need in step.needs + step.after:
                if need not in self.steps:
                    raise TableError(f"{self.path}: step {step.name} needs the unknown step {need}")
            if step.name in self.needed([step.name], below=True):
                raise TableError(f"{self.path}: step {step.name} needs itself")

    def of_sets(self, *sets):
        """The steps of these sets, in order of value."""
        return [step for step in self.steps.values() if step.set in sets]

    def needed(self, names, below=False):
        """The names of all steps that these need, directly or not, in the table's order; and, without `below`, they
        themselves."""
        found, rest = set(), list(names)
        while rest:
            step = self.steps[rest.pop()]
            for need in step.needs + step.after:
                if need not in found:
                    found.add(need)
                    rest.append(need)
        if not below:
            found |= set(names)
        return [name for name in self.steps if name in found]


def pattern_expression(pattern):
    """The regular expression of a pattern: ** for any number of folders, * and ? within a name."""
    parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(parts.get(part) or re.escape(part)
                              for part in re.split(r"(\*\*/|\*\*|\*|\?)", pattern)) + r"\Z")


def _git(*arguments):
    return os.fsdecode(subprocess.run(["git", *arguments], cwd=TOP, capture_output=True, check=False).stdout)


def files_of_checkout():
    """All files that git tracks or does not ignore; without git, all that are not built."""
    # A repository around this folder may ignore all of its files.
    if shutil.which("git") and os.path.realpath(_git("rev-parse", "--show-toplevel").rstrip("\n") or "/") == TOP:
        found = _git("ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0")
    else:
        found = []
        for folder, folders, names in os.walk(TOP):
            folders[:] = [name for name in folders if name != "__pycache__"
                          and not (folder == TOP and name.startswith(("build", ".")))]
            found += [os.path.relpath(os.path.join(folder, name), TOP) for name in names]
    return sorted(name for name in found if name and os.path.isfile(os.path.join(TOP, name)))


def matching(patterns, files):
    """The files that one of the patterns matches."""
    expressions = [pattern_expression(pattern) for pattern in patterns]
    return [name for name in files if any(expression.match(name) for expression in expressions)]


class Digests:
    """The digests of steps' inputs. Reads each file once."""

    def __init__(self, cache):
        self._cache = cache
        self._files = files_of_checkout()
        self._contents = {}
        self._surroundings = None

    def _content(self, name):
        if name not in self._contents:
            with open(os.path.join(TOP, name), "rb") as file:
                self._contents[name] = hashlib.sha256(file.read()).hexdigest()
        return self._contents[name]

    def _environment(self):
        """All that is not in the checkout: packages, kernels, QEMU, processors, our variables that are not empty."""
        if self._surroundings is None:
            packages = subprocess.run(["dpkg-query", "-W"], capture_output=True, text=True, check=False).stdout
            folders = []
            for name in ("arm64", "qemu/bin", "kernel-stock", "kernel-debug", "kernel-newest", "onnxruntime"):
                folder = os.path.join(self._cache, name)
                folders.append((name, sorted(os.listdir(folder)) if os.path.isdir(folder) else []))
            variables = sorted(item for item in os.environ.items()
                               if item[1] and (item[0] in VARIABLES or item[0].startswith("NPU_")
                                               and item[0] not in ("NPU_BUILD", "NPU_STEPS")))
            self._surroundings = repr((packages, folders, os.cpu_count(), variables))
        return self._surroundings

    def sources(self, step):
        """The digest of a step's command and of its files with their contents."""
        digest = hashlib.sha256(step.command.encode())
        names = matching(step.inputs, self._files)
        if step.inputs and not names:
            raise TableError(f"{FILE}: no file of {TOP} is an input of step {step.name}: {' '.join(step.inputs)}")
        for name in names:
            digest.update(f"\0{name}\0{self._content(name)}".encode())
        return digest.hexdigest()

    def of(self, step):
        """The digest of a step: its sources and the environment."""
        return hashlib.sha256((self.sources(step) + self._environment()).encode()).hexdigest()[:16]
