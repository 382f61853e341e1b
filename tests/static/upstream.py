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

CONFIG = os.path.join(TOP, "kernel", "newest.config")
# "Warning:" is kernel-doc's; of the core's files it has some without our patches.
COMPLAINT = re.compile(r"warning:|error:|\*\*\* |/accel/qnpu/\S+ Warning:|Warning: \S+/accel/qnpu/")
NO_SENDER = "The sender <sender@example.org>"
# Types of checkpatch that no patch can avoid, with the reason.
IGNORED = {"UNKNOWN_COMMIT_ID": "the source package has no history"}


def files_of(path):
    """The paths that a mail changes or adds."""
    with open(path, encoding="utf-8") as file:
        return re.findall(r"^\+\+\+ b/(\S+)$", file.read(), re.MULTILINE)


class Tree:
    """A kernel tree of links to `source`, in which the paths in `owned` are copies."""

    def __init__(self, source, folder):
        self.source = source
        self.root = os.path.join(folder, "tree")
        self.build = os.path.join(folder, "build")

    def reset(self, owned):
        """Makes the tree new. Objects of changed files go, since their sources become older."""
        shutil.rmtree(self.root, ignore_errors=True)
        # make follows a link of the top Makefile back to the source.
        owned = set(owned) | {"Makefile"}
        folders = {""}
        for path in owned:
            while path:
                path = os.path.dirname(path)
                folders.add(path)
        for folder in sorted(folders):
            os.makedirs(os.path.join(self.root, folder))
            if not os.path.isdir(os.path.join(self.source, folder)):
                continue
            for name in os.listdir(os.path.join(self.source, folder)):
                path = os.path.join(folder, name)
                if path not in folders and path not in owned:
                    os.symlink(os.path.join(self.source, path), os.path.join(self.root, path))
        for path in owned:
            if os.path.exists(os.path.join(self.source, path)):
                shutil.copy2(os.path.join(self.source, path), os.path.join(self.root, path))
            for built in (re.sub(r"\.c$", ".o", path), os.path.join(os.path.dirname(path), "built-in.a")):
                if os.path.isfile(os.path.join(self.build, built)) and built != path:
                    os.remove(os.path.join(self.build, built))

    def make(self, *arguments):
        """Complaints of make."""
        os.makedirs(self.build, exist_ok=True)
        command = ["make", "-C", self.root, f"O={self.build}", "ARCH=x86_64", f"-j{os.cpu_count()}", *arguments]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        found = [line for line in done.stdout.split("\n") if COMPLAINT.search(line)]
        if done.returncode and not found:
            found = done.stdout.split("\n")[-20:] + [f"make {' '.join(arguments)} ended with status {done.returncode}"]
        return found

    def configure(self):
        """The configuration of kernel/newest.config over allnoconfig, without options that the tree does not have."""
        return self.make(f"KCONFIG_ALLCONFIG={CONFIG}", "allnoconfig") + self.make("prepare")

    def has(self, path):
        return os.path.exists(os.path.join(self.root, path))


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
    complaints = tree.configure()
    with open(CONFIG, encoding="utf-8") as file:
        wanted = [line.strip() for line in file if line.startswith("CONFIG_")]
    with open(os.path.join(tree.build, ".config"), encoding="utf-8") as file:
        have = set(file.read().split("\n"))
    complaints += [f"the configuration does not take {option}" for option in wanted if option not in have]
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
    checks.add("the tree without patches", tree.configure())
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
