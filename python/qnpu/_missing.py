# SPDX-License-Identifier: MIT
"""The reason why qnpu._native cannot be imported, and what to do about it."""
import glob
import os
import sys
import sysconfig

_HERE = os.path.dirname(os.path.abspath(__file__))


def _build() -> str:
    """The command that makes the module, and where it is then."""
    top = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    if not os.path.isfile(os.path.join(top, "native", "module.cpp")):
        return "install the package again"
    top = os.path.dirname(top)
    return f"run `make programs` in {top}, and name its package: PYTHONPATH={os.path.join(top, 'build', 'python')}"


def reason(error: ImportError) -> str:
    """The text for an error of `from ._native import ...`."""
    modules = sorted(os.path.basename(path) for path in glob.glob(os.path.join(_HERE, "_native*.so")))
    if not modules:
        return f"qnpu: the module qnpu._native is not built in {_HERE}: {_build()}"
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    if f"_native{suffix}" not in modules and "_native.so" not in modules:
        return (f"qnpu: {modules[0]} is for another Python than this one, {sys.executable}, whose modules end with "
                f"{suffix}: use the Python that it was built for, or configure with -DNPU_PYTHON_EXECUTABLE="
                f"{sys.executable}")
    return f"qnpu: {modules[0]} cannot be loaded: {error}; {_build()}"
