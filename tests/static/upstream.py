#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The series for upstream in the newest kernel's source: every patch applies without fuzz, compiles with W=1 and has no
complaint of checkpatch --strict; the option that the driver's series adds can be chosen, and the whole driver compiles.

usage: upstream.py [--keep FOLDER]   the last line is "N passed, N failed" (a patch is two tests)

--keep writes the mails to FOLDER. The source tree is one of links into the cache, which stays there with what `make
prepare` has built; files that a series changes are copies, made new in each run.
"""
import argparse
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import types

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "scripts"))
import upstream_series  # noqa: E402  pylint: disable=wrong-import-position
from upstream.description import Description, DescriptionError  # noqa: E402  pylint: disable=wrong-import-position
from upstream.mail import apply_all  # noqa: E402  pylint: disable=wrong-import-position
from upstream.tree import Tree, files_of  # noqa: E402  pylint: disable=wrong-import-position

CONFIG = os.path.join(TOP, "kernel", "newest.config")
NO_SENDER = "The sender <sender@example.org>"
# Types of checkpatch that no patch can avoid, with the reason.
IGNORED = {"UNKNOWN_COMMIT_ID": "the source package has no history"}


class Checks:
    """Counts tests, prints the complaints of those that fail."""

    def __init__(self):
        self.passed = self.failed = 0

    def add(self, name, complaints):
        if complaints:
            print(f"FAIL {name}:", *complaints, sep="\n")
            self.failed += 1
        else:
            self.passed += 1


def targets(tree, description, paths):
    """Arguments of make for the objects that a patch has changed: those of the driver by its folder. A header of the
    core makes the series' own files compile, whose paths are in `paths` as well."""
    driver = [path for path in paths if path.startswith(description.folder + "/")]
    objects = [re.sub(r"\.c$", ".o", path) for path in paths if path.endswith(".c") and path not in driver]
    if tree.has(f"{description.folder}/Makefile"):
        objects += [f"CONFIG_{description.symbol}=m", f"{description.folder}/"]
    return objects


def check_series(checks, tree, description, series, mails):
    """Each patch of one series applies, and its files compile."""
    sources = [path for mail in mails for path in files_of(mail) if path.endswith(".c") and
               not path.startswith(description.folder + "/")]
    for mail in mails:
        try:
            apply_all([mail], tree.root)
        except DescriptionError as error:
            checks.add(f"{series.name}: {os.path.basename(mail)}", [str(error)])
            return False
        arguments = targets(tree, description, sorted(set(sources)) if sources else files_of(mail))
        complaints = tree.make("W=1", *arguments) if arguments else []
        checks.add(f"{series.name}: {os.path.basename(mail)} with W=1", complaints)
    return True


def check_whole(checks, tree, description):
    """The option can be chosen, KUnit's as well, and the driver compiles with it."""
    complaints = tree.configure(CONFIG)
    with open(CONFIG, encoding="utf-8") as file:
        complaints += [f"the configuration does not take {line}" for line in tree.refused(file.read())]
    complaints += tree.make("W=1", f"{description.folder}/")
    checks.add("the whole driver as its option configures it", complaints)


def check_patch(checks, tree, series, mail, by_file):
    """checkpatch --strict, in the tree with all patches, which has the documents that it looks for. `by_file`: types
    that do not matter in a file."""
    command = ["perl", os.path.join(tree.source, "scripts", "checkpatch.pl"), "--strict", "--terse", "--no-summary",
               "--show-types", "--showfile", f"--root={tree.root}", "--ignore",
               ",".join(sorted({**IGNORED, **series.ignore})), mail]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          cwd=tree.root)
    # FILE: LINE: ERROR:TYPE: words; for the text of the mail FILE is the mail.
    found = [re.match(r"(\S+): ?\d+: (?:ERROR|WARNING|CHECK):(\w+): ", line) for line in done.stdout.split("\n")]
    found = [match for match in found if match]
    complaints = [match.string for match in found if match[2] not in by_file.get(os.path.basename(match[1]), {})]
    if done.returncode and not found:
        complaints = done.stdout.split("\n")[-20:]
    checks.add(f"checkpatch {series.name}/{os.path.basename(mail)}", complaints)


def run(checks, out, folder):
    """All series, first each of the core's alone, then all of them and the driver."""
    sender = None if upstream_series.git_of_checkout("config", "user.email") else NO_SENDER
    source = upstream_series.newest_source()
    done = upstream_series.write(types.SimpleNamespace(out=out, kernel=source, sender=sender))
    description = Description()
    tree = Tree(source, folder)
    owned = {path for _, mails in done for mail in mails for path in files_of(mail)}
    shutil.rmtree(os.path.join(tree.build, description.folder), ignore_errors=True)
    tree.reset(owned)
    tree.remove_objects(owned)
    checks.add("the tree without patches", tree.configure(CONFIG))
    for series, mails in done:
        if series.stored:
            try:
                alone = Tree(source, os.path.join(out, ".alone"))
                alone.reset({path for mail in mails for path in files_of(mail)})
                apply_all(mails, alone.root)
                checks.add(f"{series.name} alone", [])
            except DescriptionError as error:
                checks.add(f"{series.name} alone", [str(error)])
    complete = all([check_series(checks, tree, description, series, mails) for series, mails in done])
    if complete:
        check_whole(checks, tree, description)
    for series, mails in done:
        for mail in mails:
            check_patch(checks, tree, series, mail, description.checkpatch)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--keep", metavar="FOLDER", help="write the mails to this folder")
    options = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="upstream.") as temporary:
        try:
            folder = os.path.join(os.path.dirname(upstream_series.newest_source()), "upstream")
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, "lock"), "w", encoding="utf-8") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                run(checks, options.keep or temporary, folder)
        except DescriptionError as error:
            checks.add("the series", [str(error)])
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed or not checks.passed else 0


if __name__ == "__main__":
    sys.exit(main())
