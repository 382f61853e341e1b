# SPDX-License-Identifier: MIT
"""Files that the caller names to be written. Links are followed, and devices and pipes written to, never replaced."""

import os
import stat

from . import BoardError


def _kind(path):
    """The type of the file; None where there is none."""
    try:
        return stat.S_IFMT(os.stat(path).st_mode)
    except FileNotFoundError:
        return None


def _refuse(option, path, error):
    raise BoardError(f"{option} {path}: {error.strerror}") from error


def begin(option, path):
    """Empties what an earlier board has left there. Raises BoardError where nothing can be written."""
    try:
        if _kind(path) in (None, stat.S_IFREG, stat.S_IFDIR):  # a pipe's reader would see its end
            with open(path, "wb"):
                pass
    except OSError as error:
        _refuse(option, path, error)


def copy(option, source, path):
    """Writes there what is in the file `source`."""
    try:
        with open(source, "rb") as file, open(path, "wb") as output:
            output.write(file.read())
    except OSError as error:
        _refuse(option, path, error)


class Unfinished:
    """A file beside the one that the caller has named, which gets its name when all of it is there."""

    def __init__(self, option, path):
        self._option = option
        self._named = path
        self._path = os.path.realpath(path)
        self.path = f"{self._path}.{os.getpid()}"
        try:
            if _kind(path) not in (None, stat.S_IFREG):
                raise BoardError(f"{option} {path}: this is no regular file")
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as error:
            _refuse(option, path, error)

    def finish(self):
        try:
            os.replace(self.path, self._path)
        except OSError as error:
            _refuse(self._option, self._named, error)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if os.path.exists(self.path):  # finish() has not been called
            os.unlink(self.path)
