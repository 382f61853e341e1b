# SPDX-License-Identifier: MIT
"""Commands of a wheel: each runs the program of its name that is in the package."""
import os
import sys
from typing import NoReturn

from .compiler import CompileError, program


def _run(name: str) -> NoReturn:
    try:
        path = program(name)
    except CompileError as error:
        sys.exit(f"{name}: {error}")
    if os.path.realpath(path) == os.path.realpath(sys.argv[0]):
        sys.exit(f"{name}: {path} is this command itself; the package has no such program "
                 f"(QNPU_{name.upper()} names one)")
    os.execv(path, [name, *sys.argv[1:]])


def npuc() -> NoReturn:
    """The compiler."""
    _run("npuc")


def bmrt_test() -> NoReturn:
    """Runs a compiled network, and measures it."""
    _run("bmrt_test")


def tpu_model() -> NoReturn:
    """Shows compiled networks, and takes them apart."""
    _run("tpu_model")
