# SPDX-License-Identifier: MIT
"""pip makes a wheel of the checkout, which runs in an environment of its own without build tree and checkout; and
installs the checkout itself."""
import glob
import os
import re
import shutil
import subprocess
import sys
import unittest
import venv
import zipfile

import numpy as np
import support

# Libraries that every system has.
PLATFORM = re.compile(r"(libc|libm|libgcc_s|libstdc\+\+|libz|ld-linux[\w-]*)\.so\.")

PROGRAM = """
import numpy, os, sys
import qnpu
import sophon.sail as sail
assert qnpu.__file__.startswith(sys.prefix), qnpu.__file__
picture = numpy.load("picture.npy")
with qnpu.Session("digits.onnx") as session:
    numpy.save("result.npy", session.run({"image": picture})["probabilities"])
    with open("/proc/self/maps") as maps:
        ours = {line.split()[-1] for line in maps if "npu" in line.split()[-1]}
assert ours and all(path.startswith(sys.prefix) for path in ours), ours
assert sail.Engine("digits.onnx", 0, sail.IOMode.SYSIO).get_graph_names() == ["digits"]
"""


class Wheel(support.Test):
    def run_clean(self, *command, **more):
        """Nothing of this test's environment, but for where the build folder is."""
        env = {"PATH": "/usr/bin:/bin", "HOME": self.folder, "NPU_DEVICE": "sim", "NPU_QUIET": "1",
               "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INDEX": "1", **more}
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder, env=env)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def environment(self, name):
        """Python of a new environment that has Debian's numpy and setuptools."""
        folder = self.path(name)
        venv.create(folder, system_site_packages=True, with_pip=True, symlinks=True)
        return os.path.join(folder, "bin", "python")

    def sources(self):
        """A copy of what pip looks at: it writes beside its sources."""
        folder = self.path("sources")
        os.mkdir(folder)
        for name in ("pyproject.toml", "setup.py", "CMakeLists.txt", "LICENSE"):
            shutil.copy(os.path.join(support.TOP, name), folder)
        for name in ("docs", "python"):
            shutil.copytree(os.path.join(support.TOP, name), os.path.join(folder, name))
        return folder

    def check(self, python):
        np.save(self.path("picture.npy"), support.pictures()[0][7])
        shutil.copy(support.digits_model(), self.folder)
        self.run_clean(python, "-c", PROGRAM)
        got = np.load(self.path("result.npy"))
        self.assertLess(np.abs(got[0] - support.pictures()[1][7]).max(), 1e-5)

    def check_bundled(self, wheel):
        """The self-contained wheel has all libraries but the platform's, with their licences, and is reproducible."""
        bundle = os.path.join(support.TOP, "scripts", "bundle_wheel.py")
        made = []
        for folder in ("first", "second"):
            made.append(self.run_clean(sys.executable, bundle, wheel, self.path(folder), SOURCE_DATE_EPOCH="1700000000")
                        .strip())
        self.assertRegex(os.path.basename(made[0]), r"^qnpu-[\d.]+-cp3\d+-cp3\d+-manylinux_2_\d+_\w+\.whl$")
        contents = []
        for path in made:
            with open(path, "rb") as file:
                contents.append(file.read())
        self.assertEqual(contents[0], contents[1])
        with zipfile.ZipFile(made[0]) as archive:
            archive.extractall(self.path("unpacked"))
            names = archive.namelist()
        inside = {os.path.basename(name) for name in names}
        libraries = [name for name in names if ".so" in name or "/bin/" in name]
        self.assertTrue([name for name in libraries if name.startswith("qnpu.libs/libdnnl-")], libraries)
        for name in libraries:
            shown = self.run_clean("readelf", "-dW", self.path(os.path.join("unpacked", name)))
            for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", shown):
                self.assertTrue(needed in inside or PLATFORM.match(needed), f"{name} needs {needed}")
            for run_path in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", shown):
                self.assertTrue(all(part.startswith("$ORIGIN") for part in run_path.split(":")), f"{name}: {run_path}")
        self.assertTrue([name for name in names if re.search(r"/licenses/libdnnl\d+(\.\d+)?/copyright$", name)], names)

    def test_a_wheel_is_built_installed_and_runs(self):
        build = os.environ["QNPU_BUILD"]
        self.run_clean(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w",
                       self.path("wheels"), self.sources(), QNPU_BUILD=build)
        (wheel,) = glob.glob(self.path("wheels/qnpu-*.whl"))
        self.assertRegex(os.path.basename(wheel), r"^qnpu-[\d.]+-cp3\d+-cp3\d+-linux_\w+\.whl$")
        names = zipfile.ZipFile(wheel).namelist()
        for name in ("qnpu/__init__.py", "qnpu/_native.pyi", "qnpu/py.typed", "sophon/sail.py", "qnpu/bin/npuc",
                     "qnpu/bin/bmrt_test", "qnpu/bin/tpu_model", "qnpu/lib/libnpurt.so.1", "qnpu/lib/libnpu-sim.so"):
            self.assertIn(name, names)
        self.assertFalse([name for name in names if re.search(r"(^|/)tests?(/|_.*\.py$)", name)])
        python = self.environment("wheel")
        self.run_clean(python, "-m", "pip", "install", "--no-deps", wheel)
        shutil.rmtree(self.path("sources"))
        self.check(python)
        self.check_bundled(wheel)
        commands = os.path.dirname(python)
        self.run_clean(os.path.join(commands, "npuc"), "digits.onnx", "-o", "by_command.bmodel", "-q")
        with open(self.path("by_command.bmodel"), "rb") as file:
            self.assertEqual(file.read(), support.digits().data)
        shown = self.run_clean(os.path.join(commands, "qnpu-bench"), "by_command.bmodel", "--runs", "1")
        self.assertIn(str(support.digits().cycles), shown)

    def test_pip_installs_the_checkout(self):
        python = self.environment("checkout")
        self.run_clean(python, "-m", "pip", "install", "--no-build-isolation", "--no-deps", self.sources(),
                       QNPU_BUILD=os.environ["QNPU_BUILD"])
        self.check(python)


if __name__ == "__main__":
    unittest.main()
