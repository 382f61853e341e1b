# SPDX-License-Identifier: MIT
"""Reads kernel/upstream/series.toml, whose head explains its tables."""

import dataclasses
import glob
import os
import re
import tomllib

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
FILE = os.path.join(TOP, "kernel", "upstream", "series.toml")


class DescriptionError(Exception):
    """The description does not fit the sources, or has a mistake."""


@dataclasses.dataclass
class Patch:
    """One patch of the driver. `pieces` are rows of [[driver.hold]] that come with it."""

    name: str
    subject: str
    body: str
    blocks: list = dataclasses.field(default_factory=list)
    files: dict = dataclasses.field(default_factory=dict)
    edits: list = dataclasses.field(default_factory=list)
    pieces: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Series:
    """A series of mails. One of the core has the paths of stored patches in `stored`, one of the driver `patches`."""

    name: str
    to: list
    title: str = ""
    cover: str = ""
    most: int = 0
    ignore: dict = dataclasses.field(default_factory=dict)
    stored: list = dataclasses.field(default_factory=list)
    patches: list = dataclasses.field(default_factory=list)


def _row(kind, values, where):
    """The dataclass of a table's row; an unknown or a missing key is an error."""
    known = {field.name: field for field in dataclasses.fields(kind)}
    for key in values:
        if key not in known:
            raise DescriptionError(f"{where} has the unknown key '{key}'; known: {', '.join(known)}")
    for key, field in known.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and key not in values:
            raise DescriptionError(f"{where} has no key '{key}'")
    return kind(**values)


class Description:
    """The whole file. `prefix`: that of the driver's file names; `symbol`: the driver's option in Kconfig."""

    def __init__(self, path=FILE, top=TOP):
        self.top = top
        self.prefix = self._prefix()
        self.symbol = self._symbol()
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for name, value in (("{p}", self.prefix), ("{P}", self.prefix.upper()), ("{symbol}", self.symbol)):
            text = text.replace(name, value)
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise DescriptionError(f"{path}: {error}") from error
        self.core = [self._core(row) for row in data["core"]]
        driver = data["driver"]
        self.folder = driver["folder"]
        self.out_of_tree = driver["out_of_tree"]
        self.headers = driver["headers"]
        self.compat = driver["compat"]
        self.replace = driver["replace"]
        self.checkpatch = driver["checkpatch"]
        self.maintainers = driver["maintainers"]
        self.driver = [self._driver(row) for row in driver["series"]]
        for piece in driver["hold"]:
            self._patch(piece["patch"]).pieces.append(piece)
        for edit in driver["edit"]:
            self._patch(edit["patch"]).edits.append(edit)

    def _prefix(self):
        found = glob.glob(os.path.join(self.top, "kernel", "*_drv.c"))
        if len(found) != 1:
            raise DescriptionError(f"kernel/ has {len(found)} files named *_drv.c; expected one, which has the prefix")
        return os.path.basename(found[0]).removesuffix("drv.c")

    def _symbol(self):
        with open(os.path.join(self.top, "kernel", "Kconfig"), encoding="utf-8") as file:
            found = re.search(r"^config (\w+)$", file.read(), re.MULTILINE)
        if not found:
            raise DescriptionError("kernel/Kconfig has no option")
        return found[1]

    def _core(self, values):
        series = _row(Series, values, f"core series '{values.get('name')}'")
        folder = os.path.join(self.top, "kernel", "upstream", series.name)
        series.stored = sorted(glob.glob(os.path.join(folder, "*.patch")))
        if not series.stored:
            raise DescriptionError(f"kernel/upstream/{series.name} has no patch")
        if len(series.stored) > 1 and not (series.title and series.cover):
            raise DescriptionError(f"core series '{series.name}' has several patches, and no title and cover")
        return series

    def _driver(self, values):
        patches = values.pop("patch", [])
        series = _row(Series, values, f"driver series '{values.get('name')}'")
        series.patches = [_row(Patch, row, f"patch '{row.get('name')}' of '{series.name}'") for row in patches]
        if series.most and len(patches) > series.most:
            raise DescriptionError(f"series '{series.name}' has {len(patches)} patches; at most {series.most}")
        return series

    def _patch(self, name):
        for patch in self.patches():
            if patch.name == name:
                return patch
        raise DescriptionError(f"no patch '{name}' in any series of the driver")

    def patches(self):
        """All patches of the driver, in the order in which they apply."""
        return [patch for series in self.driver for patch in series.patches]

    def check_core(self):
        """Every stored patch is one of a series."""
        stored = {path for series in self.core for path in series.stored}
        for path in glob.glob(os.path.join(self.top, "kernel", "upstream", "**", "*.patch"), recursive=True):
            if path not in stored:
                raise DescriptionError(f"{os.path.relpath(path, self.top)} is in no series of series.toml")
