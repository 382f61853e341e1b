# SPDX-License-Identifier: MIT
"""The types that the packages declare: consistent, and those that the native module has."""
import os
import subprocess
import sys
import unittest

import qnpu
import support


class Types(support.Test):
    def mypy(self, *arguments, folder=support.TOP):
        cache = os.path.join(os.environ["QNPU_BUILD"], "mypy")
        done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, check=False,
                              cwd=folder, env={**os.environ, "MYPY_CACHE_DIR": cache,
                                               "MYPYPATH": os.path.dirname(os.path.dirname(qnpu.__file__))})
        return done.returncode, done.stdout + done.stderr

    def test_the_packages_are_consistent(self):
        code, output = self.mypy("mypy", "--config-file", "pyproject.toml")
        self.assertEqual(code, 0, output)

    def test_the_stub_is_what_the_native_module_has(self):
        classes = ("Completions", "Device", "Job", "Lanes", "Runtime", "Tensor")
        with open(self.path("allowed"), "w", encoding="utf-8") as file:
            file.writelines(f"qnpu._native.{name}\n" for name in classes)  # the class of these classes is pybind11's
        code, output = self.mypy("mypy.stubtest", "qnpu._native", "--ignore-missing-stub", "--allowlist",
                                 self.path("allowed"))
        self.assertEqual(code, 0, output)

    def test_programs_are_checked_against_the_types(self):
        with open(self.path("program.py"), "w", encoding="utf-8") as file:
            file.write("import qnpu\n"
                       "session = qnpu.Session('a.bmodel')\n"
                       "cycles: int = session.run({}).cycles\n"
                       "name: str = session.inputs[0].shape\n"
                       "session.run({}, outputs={})\n"
                       "outputs: list[object] = session.run(None, {})\n")
        code, output = self.mypy("mypy", "--strict", "program.py", folder=self.folder)
        self.assertEqual(code, 1, output)
        self.assertRegex(output, r'program.py:4: error: Incompatible types in assignment \(expression has type '
                                 r'"[Tt]uple\[int, ...]"')
        self.assertIn('program.py:5: error: No overload variant of "run" of "Session" matches', output)
        self.assertIn("Found 2 errors", output)

    def test_everything_public_is_described(self):
        missing = []
        for name in qnpu.__all__:
            thing = getattr(qnpu, name)
            members = [] if not isinstance(thing, type) else [
                (f"{name}.{key}", value) for key, value in vars(thing).items()
                if not key.startswith("_") and (callable(value) or isinstance(value, property))
                and thing.__module__ == "qnpu" or isinstance(value, property)]
            missing += [what for what, value in [(name, thing), *members] if not value.__doc__]
        self.assertEqual(missing, [])


if __name__ == "__main__":
    unittest.main()
