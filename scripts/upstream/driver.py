# SPDX-License-Identifier: MIT
"""The driver as a kernel tree has it, and as it grows from patch to patch.

A file is added whole by one patch. Parts of it come later only where the description holds them back: conditional
blocks, named declarations, matching lines, the prompt of the option. A header is added by the first patch with a file
that includes it. Kbuild compiles what is there: the Makefile lists the objects whose sources have been added.
"""

import glob
import os
import re

from . import hw_header, text
from .description import DescriptionError

_INCLUDE = re.compile(r'^#include ["<](?:drm/)?([\w.]+)[">]', re.MULTILINE)


class Driver:
    """`state(n)`: path in the tree -> text, after the first n patches. `pristine(path)` reads a file of the tree."""

    def __init__(self, description, pristine, maintainer):
        self.description = description
        self.pristine = pristine
        self.maintainer = maintainer
        self.patches = description.patches()
        self.texts = {}  # path in the tree -> final text
        self.first = {}  # path in the tree -> index of the patch that adds it
        self.moved = {}  # index of a patch -> names of headers that it adds for a later patch
        self._collect()
        self._place_headers()

    # The sources

    def _read(self, name):
        with open(os.path.join(self.description.top, name), encoding="utf-8") as file:
            return file.read()

    def _collect(self):
        """Fills `texts` and `first` by the lists of the description; every source has to be in one of them."""
        taken = set()
        for number, patch in enumerate(self.patches):
            for name in self._sources(patch):
                if name in taken:
                    raise DescriptionError(f"{name} is in two patches, the second is '{patch.name}'")
                taken.add(name)
                path = self._path(name, patch)
                self.texts[path] = self._transformed(name)
                self.first[path] = number
        forgotten = [name for name in self._all_sources() if name not in taken and not self._is_out_of_tree(name)]
        if forgotten:
            raise DescriptionError(f"in no patch and not in out_of_tree of series.toml: {' '.join(forgotten)}")

    def _all_sources(self):
        """Files of kernel/ and uapi/, without the patches for upstream."""
        out = []
        for folder in ("kernel", "uapi"):
            for base, folders, files in os.walk(os.path.join(self.description.top, folder)):
                folders[:] = [one for one in folders if one not in ("upstream", "__pycache__")]
                out += [os.path.relpath(os.path.join(base, one), self.description.top) for one in files]
        return sorted(out)

    def _is_out_of_tree(self, name):
        return any(re.fullmatch(glob_to_re(pattern), name) for pattern in self.description.out_of_tree)

    def _sources(self, patch):
        """The source files of a patch, from its blocks and its files."""
        out = []
        for block in patch.blocks:
            pattern = os.path.join(self.description.top, "kernel", self.description.prefix + block + ".[ch]")
            found = sorted(os.path.relpath(one, self.description.top) for one in glob.glob(pattern))
            if not found:
                raise DescriptionError(f"patch '{patch.name}': no kernel/{self.description.prefix}{block}.[ch]")
            out += found
        for name in patch.files:
            if not os.path.exists(os.path.join(self.description.top, name)):
                raise DescriptionError(f"patch '{patch.name}': no {name}")
            out.append(name)
        return out

    def _path(self, name, patch):
        return patch.files.get(name) or f"{self.description.folder}/{os.path.basename(name)}"

    def _transformed(self, name):
        """The final text of a source, as the newest kernel has it."""
        source = self._read(name)
        for pattern, words in self.description.replace.items():
            source = re.sub(pattern, words, source)
        left = re.search(r"(?<![\w/])(docs|upstream|uapi/hw|scripts|libnpu|qemu-device)/[\w/.-]+", source)
        if left and not name.startswith("uapi/hw/"):
            raise DescriptionError(f"{name} names {left[0]}, which a kernel tree does not have: driver.replace")
        if name in self.description.headers:
            used = self._identifiers() if self.description.headers[name] == "used" else None
            return hw_header.kernel_form(source, used)
        if not name.startswith("kernel/") or not name.endswith((".c", ".h")):
            return source
        compat = self.description.compat
        known = {one: True for one in compat["defined"]} | {one: False for one in compat["undefined"]}
        source = text.resolve_conditions(source, known)
        for header, instead in compat["include"].items():
            source = text.tidy_blank(source.replace(f'#include "{header}"\n', ""))
            if os.path.basename(name) in instead:
                line = f"#include <{instead[os.path.basename(name)]}>"
                source = text.insert_sorted(source, line, "#include <linux/")
        left = re.findall(rf"{self.description.prefix.upper()}HAVE_\w+", source)
        if left:
            raise DescriptionError(f"{name}: {left[0]} is not in driver.compat of series.toml")
        return text.tidy_blank(source)

    def _identifiers(self):
        """The identifiers in the driver's C files, without those that only tests name."""
        names = set()
        for path in glob.glob(os.path.join(self.description.top, "kernel", "*.[ch]")):
            with open(path, encoding="utf-8") as file:
                names |= set(re.findall(r"\w+", re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)))
        return names

    # Patches

    def _place_headers(self):
        """A header comes with the first patch that has a file which includes it."""
        by_name = {os.path.basename(path): path for path in self.texts}
        for number in range(len(self.patches)):
            waiting = [path for path, first in self.first.items() if first <= number]
            while waiting:
                path = waiting.pop()
                for name in _INCLUDE.findall(self._held(path, number)):
                    other = by_name.get(name)
                    if other and self.first[other] > number:
                        if other.endswith(".c"):
                            raise DescriptionError(f"{path} includes {name} of a later patch: hold the line back")
                        self.moved.setdefault(number, []).append(name)
                        self.first[other] = number
                        waiting.append(other)

    def _held(self, path, number):
        """The text of a file without the pieces that come after the patch `number`."""
        source = self.texts[path]
        for later in self.patches[number + 1:]:
            for piece in later.pieces:
                source = self._without(piece, path, source)
        return source

    def _without(self, piece, path, source):
        name = os.path.basename(path)
        try:
            if "condition" in piece and name.endswith((".c", ".h")):
                source = text.resolve_conditions(source, {piece["condition"]: False})
            if "condition" in piece and name == "Kconfig":
                source = text.without_kconfig_entry(source, piece["condition"])
            if "prompt" in piece and name == "Kconfig":
                source = text.without_prompt(source, piece["prompt"])
            if piece.get("file") == name:
                for pattern in piece.get("lines", []):
                    source = text.without_lines(source, pattern)
                for declaration in piece.get("declarations", []):
                    source = text.without_declaration(source, declaration)
        except text.TextError as error:
            raise DescriptionError(f"driver.hold for '{piece['patch']}': {path}: {error}") from error
        return source

    def state(self, count):
        """The files of the tree that differ from the pristine ones after `count` patches."""
        files = {}
        for path, first in self.first.items():
            if first < count:
                files[path] = self._held(path, count - 1)
        makefile = f"{self.description.folder}/Makefile"
        if makefile in files:
            files[makefile] = text.makefile_with(
                files[makefile],
                lambda name: f"{self.description.folder}/{name.removesuffix('.o')}.c" in files)
        for patch in self.patches[:count]:
            for edit in patch.edits:
                files[edit["file"]] = self._edited(edit, files)
        return files

    def _edited(self, edit, files):
        before = files.get(edit["file"]) or self.pristine(edit["file"])
        try:
            if edit.get("maintainers"):
                return self._with_section(before)
            return text.insert_sorted(before, edit["line"], edit["like"])
        except text.TextError as error:
            raise DescriptionError(f"driver.edit of {edit['file']}: {error}") from error

    def _with_section(self, before):
        """MAINTAINERS with the driver's section in order among those like it; not all titles are in order."""
        title, like = self.description.maintainers["title"], self.description.maintainers["like"]
        lines = [line.replace("{maintainer}", self.maintainer) for line in self.description.maintainers["lines"]]
        for match in re.finditer(r"^([0-9A-Z][^\n]*)\n[A-Z]:\t", before, re.MULTILINE):
            if match[1].startswith(like) and match[1] > title:
                return before[:match.start()] + "\n".join([title, *lines, "", ""]) + before[match.start():]
        raise text.TextError(f"no section '{like}...' behind '{title}'")


def glob_to_re(pattern):
    """A regular expression for a pattern in which * matches also /."""
    return re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
