# SPDX-License-Identifier: MIT
"""Copies of the checkout, in which something is changed and built."""

import os
import shutil
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def _contents(path):
    with open(path, "rb") as file:
        return file.read()


def copy(target):
    """Every file that git knows or does not ignore. One that is the same keeps its time there, so that the next build
    compiles little."""
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=TOP,
                           capture_output=True, text=True, check=True).stdout.split("\n")
    for name in filter(None, names):
        source, copied = os.path.join(TOP, name), os.path.join(target, name)
        if not os.path.isfile(source):
            continue
        os.makedirs(os.path.dirname(copied), exist_ok=True)
        if not os.path.exists(copied) or _contents(source) != _contents(copied):
            shutil.copyfile(source, copied)
            shutil.copymode(source, copied)
