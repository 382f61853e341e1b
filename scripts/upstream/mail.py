# SPDX-License-Identifier: MIT
"""Writes series as mails, by git, in a repository that has only the files of the kernel that they change."""

import os
import re
import shutil
import subprocess
import tempfile
import textwrap

from .description import DescriptionError


class Stored:
    """A patch of kernel/upstream: an SPDX line, the subject, the body, a line of three dashes, the diff."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            content = file.read()
        match = re.fullmatch(r"SPDX-License-Identifier: GPL-2\.0-only\nSubject: \[PATCH\] ([^\n]+)\n\n(.+?)\n---\n(.*)",
                             content, re.DOTALL)
        if not match:
            raise DescriptionError(f"{path}: not of the form: SPDX line, 'Subject: [PATCH] ...', body, '---', diff")
        self.path, self.subject, self.body, self.diff = path, match[1], match[2], match[3]

    def files(self):
        """The paths that the patch changes."""
        return re.findall(r"^\+\+\+ b/(\S+)$", self.diff, re.MULTILINE)


class Mailer:
    """`source`: a kernel's source; `out`: the folder of the series; `sender`: "Name <mail>"."""

    def __init__(self, source, out, sender, date):
        self.source, self.out = source, out
        match = re.fullmatch(r"\s*(.+?)\s*<([^<>\s]+@[^<>\s]+)>\s*", sender)
        if not match:
            raise DescriptionError(f"the sender is '{sender}'; expected 'Name <mail>'")
        self.sender = f"{match[1]} <{match[2]}>"
        self.folder = tempfile.TemporaryDirectory(prefix="upstream.")
        self.repo = self.folder.name
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")}, "LC_ALL": "C.UTF-8",
            "GIT_AUTHOR_NAME": match[1], "GIT_AUTHOR_EMAIL": match[2], "GIT_AUTHOR_DATE": date,
            "GIT_COMMITTER_NAME": match[1], "GIT_COMMITTER_EMAIL": match[2], "GIT_COMMITTER_DATE": date,
            "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
        self._git("init", "-q", "-b", "base")

    def _git(self, *arguments, text=""):
        done = subprocess.run(["git", "-C", self.repo, *arguments], input=text, env=self.environment, text=True,
                              capture_output=True, check=False)
        if done.returncode:
            raise DescriptionError(f"git {' '.join(arguments[:2])}: {done.stderr.strip()}")
        return done.stdout

    def pristine(self, path):
        """The text of a file of the kernel."""
        try:
            with open(os.path.join(self.source, path), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError as error:
            raise DescriptionError(f"the kernel's source has no {path}") from error

    def _write(self, path, text):
        full = os.path.join(self.repo, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def base(self, paths):
        """Makes the commit that every series starts from."""
        for path in sorted(set(paths)):
            self._write(path, self.pristine(path))
        self._git("add", "-A")
        self._git("commit", "-q", "--allow-empty", "-m", "base")

    def _commit(self, subject, body):
        self._git("add", "-A")
        self._git("commit", "-q", "-s", "-F", "-", text=f"{subject}\n\n{body.strip()}\n")

    def core(self, series, stored):
        """One series of the core, on a branch of its own."""
        self._git("checkout", "-q", "-b", series.name, "base")
        for patch in stored:
            try:
                self._git("apply", "--index", "-", text=patch.diff)
            except DescriptionError as error:
                raise DescriptionError(f"{patch.path} does not apply: {error}") from error
            self._commit(patch.subject, patch.body)
        return self._format(series, "base", {})

    def driver(self, series, driver, begin, after):
        """One series of the driver, behind `begin` patches, which are on the branch `after`."""
        self._git("checkout", "-q", "-b", series.name, after)
        notes = {}
        for number, patch in enumerate(series.patches, 1):
            for path, text in driver.state(begin + number).items():
                self._write(path, text)
            self._commit(patch.subject, patch.body)
            moved = driver.moved.get(begin + number - 1)
            if moved:
                words = f"Files of this patch include headers of blocks that follow: {', '.join(sorted(moved))}."
                notes[number] = textwrap.fill(words, 74) + "\n"
        return self._format(series, after, notes)

    def _format(self, series, after, notes):
        """Writes the mails; returns their paths, without the cover letter's."""
        folder = os.path.join(self.out, series.name)
        shutil.rmtree(folder, ignore_errors=True)
        cover = bool(series.cover)
        self._git("format-patch", "-q", "-o", folder, "--zero-commit", "--signature=", "--no-renames", "-M100%",
                  "--cover-letter" if cover else "--no-cover-letter", *[f"--to={one}" for one in series.to],
                  f"{after}..{series.name}")
        names = sorted(os.listdir(folder))
        if cover:
            self._fill_cover(os.path.join(folder, names.pop(0)), series)
        for number, note in notes.items():
            self._add_note(os.path.join(folder, names[number - 1]), note)
        return [os.path.join(folder, name) for name in names]

    @staticmethod
    def _fill_cover(path, series):
        with open(path, encoding="utf-8") as file:
            content = file.read()
        content = content.replace("*** SUBJECT HERE ***", series.title).replace("*** BLURB HERE ***",
                                                                               series.cover.strip())
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)

    @staticmethod
    def _add_note(path, note):
        """A note behind the three dashes is no part of the commit."""
        with open(path, encoding="utf-8") as file:
            head, rest = file.read().split("\n---\n", 1)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{head}\n---\n{note}\n{rest}")


def apply_all(paths, folder):
    """Applies mails with patch, without fuzz; an error names the first that does not apply."""
    for path in paths:
        with open(path, encoding="utf-8") as file:
            done = subprocess.run(["patch", "-s", "-p1", "--fuzz=0", "--no-backup-if-mismatch", "-d", folder],
                                  stdin=file, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DescriptionError(f"{path} does not apply: {done.stdout.strip()}")
