# SPDX-License-Identifier: MIT
"""The tables of suites, boards and runs (suites.toml, boards.toml), and the plans that run.sh runs on a board."""

import functools
import os
import sys
import tomllib
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.realpath(os.environ.get("NPU_BUILD", os.path.join(TOP, "build")))
SHARE = "/mnt/share"  # the shared folder, as the board sees it
PART = 3  # one in so many of the suites that are `sampled` runs on the debug kernel

sys.path.insert(0, os.path.join(TOP, "scripts"))
from npuvm import boards as kinds  # noqa: E402  pylint: disable=wrong-import-position


class PlanError(Exception):
    """A table or a request is wrong. Its text is for the user."""


@dataclass(frozen=True)
class Suite:
    """A row of suites.toml."""
    name: str
    command: str
    targets: tuple
    group: str = "use"
    needs: tuple = ()
    apart: dict = field(default_factory=dict)
    sampled: bool = False
    reports: bool = False
    networks: tuple = ()


@dataclass(frozen=True)
class Boot:
    """One boot of a run: a board, and what runs there; or a command on the host."""
    board: str = ""
    profile: str = ""
    options: tuple = ()
    suites: tuple = ()
    group: str = ""
    without: tuple = ()
    only: str = ""
    sample: bool = False
    timeout: int = 3000
    host: str = ""


@functools.cache
def _table(name):
    with open(os.path.join(HERE, name), "rb") as file:
        return tomllib.load(file)


def _checked(what, row, kind, more=()):
    """Ends with a message where a row has a key that its kind does not have."""
    unknown = set(row) - set(kind.__dataclass_fields__) - set(more)
    if unknown:
        raise PlanError(f"{what}: unknown key {', '.join(sorted(unknown))}; expected "
                        f"{', '.join([*kind.__dataclass_fields__, *more])}")


@functools.cache
def suites():
    """All suites by name, in their order."""
    table = _table("suites.toml")
    found = {}
    for row in table["suite"]:
        _checked(f"suites.toml: suite {row.get('name')}", row, Suite, ("each",))
        for word in row.get("each", [""]):
            name = row["name"].replace("{each}", word)
            if name in found:
                raise PlanError(f"suites.toml: two suites are called {name}")
            unknown = set(row.get("needs", ())) - set(table["features"])
            if unknown:
                raise PlanError(f"suites.toml: suite {name} needs {', '.join(unknown)}, which [features] does not have")
            reports = row.get("reports", False)
            found[name] = Suite(
                name=name, command=row.get("command", "{guest}/" + name).replace("{each}", word),
                targets=tuple(row.get("targets", ["guest_" + name])), group=row.get("group", "use"),
                needs=tuple(row.get("needs", ())), apart=row.get("apart", {}), sampled=row.get("sampled", False),
                reports=reports if isinstance(reports, bool) else name in reports,
                networks=tuple(row.get("networks", ())))
    return found


def boards():
    return _table("boards.toml")["boards"]


def runs():
    return _table("boards.toml")["runs"]


def _row(what, rows, name):
    if name not in rows:
        raise PlanError(f"there is no {what} {name}; there are: {', '.join(rows)}")
    return rows[name]


def board(name):
    return _row("board", boards(), name)


def suite(name):
    return _row("suite", suites(), name)


def boots(run):
    """The boots of a run."""
    for row in _row("run", runs(), run)["boots"]:
        _checked(f"boards.toml: run {run}", row, Boot)
        yield Boot(**{key: tuple(value) if isinstance(value, list) else value for key, value in row.items()})


def profile(name):
    profiles = _table("suites.toml")["profiles"]
    return {**profiles["all"], **_row("profile", profiles, name)}


def sample():
    """NPU_SAMPLE: the same tree has the same verdict, so it is fixed unless the caller chooses another."""
    text = os.environ.get("NPU_SAMPLE") or "0"
    if len(text) != 1 or not text.isdigit():
        raise PlanError(f"NPU_SAMPLE={text}: expected a number from 0 to 9")
    return int(text)


def _value(options, name, default):
    """The last value of one of npu-vm's options."""
    at = [i for i, word in enumerate(options) if word == name]
    return options[at[-1] + 1] if at else default


def kind(options):
    """The kind of board (of npu-vm) that these options ask for."""
    return kinds.BOARDS[_value(options, "--board", "pc")]


def features(options):
    """The features of a board with these options of npu-vm."""
    architecture = kind(options).architecture
    soc, kernel = _value(options, "--board", "pc") == "soc", _value(options, "--kernel", "stock")
    has = {"soc" if soc else "card"}
    if int(_value(options, "--cards", "1")) > 1:
        has.add("two-cards")
    if "--sleep" in options:
        has.add("sleep")
    has.add("hibernation" if kernel == "stock" else "debug-kernel")  # others are configured without
    if architecture.name == "x86-64" or kernel == "stock":  # the debug kernel for arm64 is built without COMPAT
        has.add("programs-32")
    return has


def options(boot):
    """All options of npu-vm that belong to a boot."""
    return [*board(boot.board)["options"], *boot.options]


def _named(words):
    """Suites of a list of names, in which "@NAME" is one of [lists]."""
    for word in words:
        if word.startswith("@"):
            yield from _named(_row("list", _table("suites.toml")["lists"], word[1:]))
        else:
            yield suite(word)


def _select(boot):
    """(suites, [(suite, why it is left out)]) before the board's features are known. Suites that a boot names run, also
    where others leave them out."""
    if boot.suites:
        wanted = {s.name for s in _named(boot.suites)}
        return [s for s in suites().values() if s.name in wanted], []
    chosen, left, sampled = [], [], 0
    for s in suites().values():
        if s.group == "named":
            continue
        sampled += s.sampled
        if boot.group and s.group != boot.group or boot.only and boot.only not in s.apart:
            continue
        if why := next((s.apart[name] for name in boot.without if name in s.apart), ""):
            left.append((s, why))
        elif boot.sample and s.sampled and sampled % PART != sample() % PART:
            left.append((s, f"NPU_SAMPLE={sample()} runs another third of these suites"))
        else:
            chosen.append(s)
    return chosen, left


def select(boot):
    """(suites that run, [(suite, why it does not)])."""
    chosen, left = _select(boot)
    has, texts = features(options(boot)), _table("suites.toml")["features"]
    able = [s for s in chosen if has.issuperset(s.needs)]
    left += [(s, "it is for " + ", ".join(texts[need] for need in s.needs if need not in has))
             for s in chosen if s not in able]
    return able, left


def folders(boot):
    """The values of {bin}, {guest}, {here} and {share} in a command."""
    bin_folder = os.path.join(BUILD, kind(options(boot)).architecture.folder, "bin")
    return {"bin": bin_folder, "guest": os.path.join(bin_folder, "tests", "guest"), "here": HERE, "share": SHARE}


def line(name, command, flags=()):
    """A line of a plan."""
    return "\t".join((name, ",".join(flags) or "-", command)) + "\n"


def plan(boot):
    """The text of the plan that run.sh runs on that board."""
    parameters = {**profile(boot.profile or board(boot.board)["profile"]), **folders(boot)}
    chosen, left = select(boot)
    if not chosen:
        raise PlanError("; ".join(f"{s.name} does not run on the board {boot.board}: {why}" for s, why in left) or
                        f"no suite runs on the board {boot.board}")
    return "".join([f"# {s.name} is left out: {why}\n" for s, why in left] +
                   [line(s.name, s.command.format_map(parameters), ["reports"] if s.reports else []) for s in chosen])


def needs(boot):
    """The calls of make, as lists of their arguments, that the board needs."""
    return [] if boot.host else board(boot.board)["make"]
