# SPDX-License-Identifier: MIT
"""What docs/reference/python.md shows runs, and says what it says it does."""
import os
import re
import subprocess
import sys
import unittest

import qnpu
import sophon.sail as sail
import support


class Document(support.Test):
    def setUp(self):
        super().setUp()
        with open(os.path.join(support.TOP, "docs", "reference", "python.md"), encoding="utf-8") as file:
            self.text = file.read()

    def test_programs_run(self):
        os.symlink(os.path.join(support.TOP, "networks"), self.path("networks"))
        programs = re.findall(r"^```python\n(.*?)^```", self.text, re.MULTILINE | re.DOTALL)
        self.assertEqual(len(programs), 2)
        done = subprocess.run([sys.executable, "-W", "error", "-c", "\n".join(programs)], capture_output=True,
                              text=True, check=False, cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        right = int(re.search(r"^(\d+) of 100 right", done.stdout, re.MULTILINE).group(1))
        self.assertGreaterEqual(right, 97)
        self.assertTrue(os.path.getsize(self.path("trace.json")))

    def test_benchmark_commands_run(self):
        os.symlink(os.path.join(support.TOP, "networks"), self.path("networks"))
        os.symlink(os.environ["QNPU_BUILD"], self.path("build"))
        section = re.search(r"^## Benchmark\n(.*?)^## ", self.text, re.MULTILINE | re.DOTALL).group(1)
        commands = re.findall(r"^    (.*)$", section, re.MULTILINE)
        self.assertEqual(len(commands), 5)
        for command in commands:
            command = command.removeprefix("time ").replace("/usr/bin/python3", sys.executable)
            done = subprocess.run(command.split(), capture_output=True, text=True, check=False, cwd=self.folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""), command)

    def test_tables_name_what_there_is(self):
        names = re.findall(r"`(\w+)", re.search(r"## Session\n(.*?)\n\*\*Inputs", self.text, re.DOTALL).group(1))
        for name in names:
            known = any(hasattr(thing, name) for thing in (qnpu, qnpu.Session, qnpu.Outputs))
            self.assertTrue(known or name in ("x", "await", "with", "run_async", "report", "onnx", "qnpu"), name)
        tensor = re.search(r"^\| `Tensor` \|.*$", self.text, re.MULTILINE).group(0)
        for name in re.findall(r"`(\w+)`", tensor)[1:]:
            self.assertTrue(hasattr(sail.Tensor, name), name)


if __name__ == "__main__":
    unittest.main()
