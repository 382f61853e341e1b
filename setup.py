#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Builds the Python packages for pip: CMake makes the native module, the libraries and the programs, which become part
of the package. pyproject.toml has what never changes. The wheel uses libraries of this system; scripts/wheel.sh makes
one that contains them.

QNPU_BUILD=DIR takes a build folder that exists (made for the same Python) instead of making one.
"""
import os
import re
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

TOP = os.path.dirname(os.path.abspath(__file__))
LIBRARIES = ("libnpu.so.1", "libbmlib.so.0", "libnpurt.so.1", "libnpu-sim.so", "libnpumodel.so.1", "libnpu-onednn.so",
             "libnpuc.so")
PROGRAMS = ("npuc", "bmrt_test", "tpu_model")


def version():
    with open(os.path.join(TOP, "CMakeLists.txt"), encoding="utf-8") as file:
        return re.search(r"^project\(.*?VERSION\s+([\d.]+)", file.read(), re.MULTILINE | re.DOTALL).group(1)


class CMake(build_ext):
    """The native module, and beside it lib/ and bin/."""

    def build_extension(self, ext):
        build = os.environ.get("QNPU_BUILD") or self.configure()
        subprocess.check_call(["cmake", "--build", build, "--target", "qnpu_python"])
        module = os.path.abspath(self.get_ext_fullpath(ext.name))
        package = os.path.dirname(module)
        for folder in ("lib", "bin"):
            os.makedirs(os.path.join(package, folder), exist_ok=True)
        self.copy_file(os.path.join(build, "python", "qnpu", os.path.basename(module)), module)
        for name in LIBRARIES:
            shutil.copy2(os.path.realpath(os.path.join(build, "lib", name)), os.path.join(package, "lib", name))
        for name in PROGRAMS:
            shutil.copy2(os.path.join(build, "bin", name), os.path.join(package, "bin", name))

    def configure(self):
        build = os.path.abspath(os.path.join(self.build_temp, "cmake"))
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        # No path of the builder's in the files, so that the same sources make the same bytes anywhere.
        maps = f"-ffile-prefix-map={TOP}=. -ffile-prefix-map={build}=build"
        subprocess.check_call(["cmake", "-S", TOP, "-B", build, *generator, "-DCMAKE_BUILD_TYPE=Release",
                               "-DBUILD_TESTING=OFF", f"-DNPU_PYTHON_EXECUTABLE={sys.executable}",
                               f"-DCMAKE_C_FLAGS={maps}", f"-DCMAKE_CXX_FLAGS={maps}"])
        return build


setup(
    version=version(),
    packages=["qnpu", "sophon"],
    package_dir={"": "python"},
    package_data={"qnpu": ["py.typed", "*.pyi"]},
    ext_modules=[Extension("qnpu._native", sources=[])],
    cmdclass={"build_ext": CMake},
)
