#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Failures that corpus.py has to find, from programs that print what the test gives them."""
import argparse
import contextlib
import io
import os
import tempfile
import unittest

import corpus

FOLDERS = ["/one", "/two"]
RIGHT = ["begin /one", "right npu", "begin /two", "right cpu"]


class Verdicts(unittest.TestCase):
    def run_program(self, lines, end):
        """Verdicts of a program that prints `lines`, and then does `end`, at its first start; then it is right."""
        with tempfile.TemporaryDirectory() as work:
            program = os.path.join(work, "program")
            with open(program, "w", encoding="utf-8") as f:
                f.write("#!/bin/sh\nif mkdir \"$2/begun\" 2>/dev/null; then\n" +
                        "".join(f"echo '{line}'\n" for line in lines) + end +
                        "\nfi\nshift 2\nfor f; do echo \"begin $f\"; echo right npu; done\necho end 1.23\n")
            os.chmod(program, 0o700)
            return {folder: verdict for folder, verdict, _ in corpus.run_batch(program, None, "plugin", work, FOLDERS)}

    def test_everything_right(self):
        self.assertEqual(self.run_program(RIGHT, "echo end 1.23; exit 0"), {"/one": "right", "/two": "right"})

    def test_a_wrong_result_is_no_crash(self):
        self.assertEqual(self.run_program([*RIGHT[:2], "begin /two", "wrong it is"], "echo end 1.23; exit 1"),
                         {"/one": "right", "/two": "wrong"})

    def test_ends_after_the_last_network(self):
        for end in ("kill -SEGV $$", "exit 0", "exit 1", "echo end 1.23; kill -ABRT $$", "echo end 1.23; exit 2"):
            self.assertEqual(self.run_program(RIGHT, end), {"/one": "right", "/two": "wrong"}, end)

    def test_ends_in_the_middle(self):
        self.assertEqual(self.run_program(["begin /one"], "kill -SEGV $$"), {"/one": "wrong", "/two": "right"})
        self.assertEqual(self.run_program([], "exit 2"), {"/one": "wrong", "/two": "right"})

    def wrong(self, verdicts, least_npu, most_skipped):
        arguments = argparse.Namespace(all=False, least_npu=least_npu, most_skipped=most_skipped)
        with contextlib.redirect_stdout(io.StringIO()):
            return corpus.report("1.23", [(str(i), *v) for i, v in enumerate(verdicts)], arguments)

    def test_limits(self):
        npu, cpu, skipped = ("right", "npu"), ("right", "cpu"), ("skipped", "no such operator")
        self.assertEqual(self.wrong([npu, npu, cpu, skipped], 2, 1), 0)
        self.assertEqual(self.wrong([npu, npu, cpu, skipped], 3, 1), 1)
        self.assertEqual(self.wrong([npu, npu, skipped, skipped], 2, 1), 1)
        self.assertEqual(self.wrong([cpu, cpu, cpu], 1, None), 1)
        self.assertEqual(self.wrong([skipped] * 3, 1, 0), 2)
        self.assertEqual(self.wrong([cpu, skipped, ("wrong", "it is")], 0, None), 1)


if __name__ == "__main__":
    unittest.main()
