#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Writes the fixes of the kernel's core and the driver as they are mailed, one folder for each series.

usage: upstream_series.py [--out FOLDER] [--kernel SOURCE] [--from "NAME <MAIL>"] [--list]

kernel/upstream/series.toml describes the series, kernel/upstream/README.md explains them. The mails have the sender's
Signed-off-by; the sender is git's user unless --from names one. The sum of the driver's patches is compared with the
sources in kernel/ and uapi/, and each of them has to be in a patch.
"""
import argparse
import os
import subprocess
import sys
import tempfile

from upstream.description import TOP, Description, DescriptionError
from upstream.driver import Driver
from upstream.mail import Mailer, Stored, apply_all


def newest_source():
    """The newest kernel's source in the cache."""
    script = os.path.join(TOP, "scripts", "kernel-newest.sh")
    env = subprocess.run([script], stdout=subprocess.PIPE, text=True, check=False)
    if env.returncode:
        raise DescriptionError("no source of the newest kernel: make kernel-newest")
    with open(env.stdout.strip(), encoding="utf-8") as file:
        return dict(line.strip().split("=", 1) for line in file)["KSOURCE"]


def git_of_checkout(*arguments):
    done = subprocess.run(["git", "-C", TOP, *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def default_sender():
    name, mail = git_of_checkout("config", "user.name"), git_of_checkout("config", "user.email")
    if not name or not mail:
        raise DescriptionError("git has no user.name and user.email; expected: --from 'NAME <MAIL>'")
    return f"{name} <{mail}>"


def check_sum(mailer, driver, mails):
    """The mails, applied one after the other to the kernel's files, give the driver's sources and nothing else."""
    expected = driver.state(len(driver.patches))
    for path, text in driver.texts.items():
        if expected.get(path) != text:
            raise DescriptionError(f"{path} differs from its source after the last patch: it names an object that has "
                                   "no source, or a part of it is held back for ever")
    with tempfile.TemporaryDirectory(prefix="upstream.") as folder:
        edited = {edit["file"] for patch in driver.patches for edit in patch.edits}
        for path in edited:
            os.makedirs(os.path.join(folder, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
                file.write(mailer.pristine(path))
        apply_all(mails, folder)
        found = {}
        for base, _, files in os.walk(folder):
            for name in files:
                path = os.path.join(base, name)
                with open(path, encoding="utf-8") as file:
                    found[os.path.relpath(path, folder)] = file.read()
    for path in sorted(set(expected) | set(found)):
        if expected.get(path) != found.get(path):
            raise DescriptionError(f"{path} after all patches differs from its source")


def write(options):
    """Writes all series; returns [(series, paths of its patches)]."""
    description = Description()
    description.check_core()
    date = git_of_checkout("log", "-1", "--format=%aI") or "2026-01-01T00:00:00Z"
    mailer = Mailer(options.kernel or newest_source(), options.out, options.sender or default_sender(), date)
    driver = Driver(description, mailer.pristine, mailer.sender)
    stored = {series.name: [Stored(path) for path in series.stored] for series in description.core}
    mailer.base([path for patches in stored.values() for patch in patches for path in patch.files()]
                + [edit["file"] for patch in driver.patches for edit in patch.edits])
    done = [(series, mailer.core(series, stored[series.name])) for series in description.core]
    begin, after, mails = 0, "base", []
    for series in description.driver:
        paths = mailer.driver(series, driver, begin, after)
        done.append((series, paths))
        begin, after, mails = begin + len(series.patches), series.name, mails + paths
    check_sum(mailer, driver, mails)
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    build = os.environ.get("NPU_BUILD") or os.path.join(TOP, "build")
    parser.add_argument("--out", default=os.path.join(build, "upstream"), metavar="FOLDER",
                        help="folder of the series (default: build/upstream)")
    parser.add_argument("--kernel", metavar="SOURCE", help="the kernel's source (default: the newest one in the cache)")
    parser.add_argument("--from", dest="sender", metavar="'NAME <MAIL>'", help="sender (default: git's user)")
    options = parser.parse_args()
    try:
        for series, paths in write(options):
            print(f"{series.name}: {len(paths)} {'patch' if len(paths) == 1 else 'patches'}")
            for path in paths:
                print(f"    {os.path.relpath(path)}")
    except DescriptionError as error:
        sys.exit(f"upstream_series.py: {error}")


if __name__ == "__main__":
    main()
