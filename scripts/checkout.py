# SPDX-License-Identifier: MIT
"""Copies of the checkout, in which something is changed and built."""

import os
import shutil

from checks import table

TOP = table.TOP


def _contents(path):
    with open(path, "rb") as file:
        return file.read()


def copy(target):
    """Every file of the checkout. One that is the same keeps its time there, so that the next build compiles little."""
    for name in table.files_of_checkout():
        source, copied = os.path.join(TOP, name), os.path.join(target, name)
        os.makedirs(os.path.dirname(copied), exist_ok=True)
        if not os.path.exists(copied) or _contents(source) != _contents(copied):
            shutil.copyfile(source, copied)
            shutil.copymode(source, copied)
