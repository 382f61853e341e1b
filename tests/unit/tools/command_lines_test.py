#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The command lines of all tools: what they have in common, and random ones, after which each tool ends with a status
and a message of its own.

usage: command_lines_test.py BIN TOP [--rounds N] [--seed N]     N rounds for each tool (default: 12)
"""
import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PARSER = argparse.ArgumentParser(usage=__doc__)
PARSER.add_argument("bin")
PARSER.add_argument("top")
PARSER.add_argument("--rounds", type=int, default=12)
PARSER.add_argument("--seed", type=int, default=1)
ARGUMENTS, REST = PARSER.parse_known_args()
BIN, TOP = os.path.abspath(ARGUMENTS.bin), os.path.abspath(ARGUMENTS.top)
DIGITS = os.path.join(TOP, "networks", "digits", "digits.onnx")
HANGS = 120  # seconds after which a tool counts as hung

# tool -> statuses besides 0, 1 and 2
TOOLS = {"npuc": (3, 4), "bmrt_test": (3, 4), "tpu_model": (), "npu-asm": (), "npu-dump": (), "npu-smi": (),
         "npu-vm": (125,)}
# Options that would boot a board, serve, or take as long as their value says.
LEFT_OUT = {"--interactive", "--listen", "--optimize", "--loopnum", "--loop", "--timeout", "--load"}


def path_of(tool):
    return os.path.join(TOP, "tools", tool) if tool == "npu-vm" else os.path.join(BIN, tool)


def run(tool, *arguments, cwd=None):
    done = subprocess.run([path_of(tool), *arguments], capture_output=True, check=False, timeout=HANGS, cwd=cwd,
                          stdin=subprocess.DEVNULL, env={**os.environ, "NPU_DEVICE": "sim"})
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def options_of(tool):
    """(name, value's name or None) of each option in --help."""
    text = re.split(r"^Exit status", run(tool, "--help")[1], maxsplit=1, flags=re.M)[0]
    found = []
    for line in text.splitlines():
        match = re.match(r"  (-[\w-]+(?:, *-[\w-]+)*)( (?! )\S+)?", line)
        if match:
            found += [(name.strip(), match[2]) for name in match[1].split(",")]
    return found


class Case(unittest.TestCase):
    def setUp(self):
        self.tools = [tool for tool in TOOLS if os.path.exists(path_of(tool))]
        self.folder = tempfile.mkdtemp(prefix="npu-command-lines-")
        self.addCleanup(shutil.rmtree, self.folder)

    def refused(self, tool, *arguments):
        """The one line of a wrong command line, without the program's name and the reference to --help."""
        code, out, err = run(tool, *arguments, cwd=self.folder)
        self.assertEqual((code, out), (2, ""), (tool, arguments, err))
        self.assertRegex(err, rf"\A{tool}: [^\n]*; see {tool} --help\n\Z")
        return err[len(tool) + 2:-len(f"; see {tool} --help\n")]


class Common(Case):
    def test_help_and_version(self):
        for tool in self.tools:
            with self.subTest(tool):
                code, out, err = run(tool, "--help")
                self.assertEqual((code, err), (0, ""))
                self.assertRegex(out, rf"\Ausage: {tool}\b")
                self.assertEqual(run(tool, "-h"), (code, out, err))
                self.assertRegex(out, r"\n  -h, --help ")
                self.assertRegex(run(tool, "--version")[1], rf"\A{tool} \d+\.\d+\.\d+\n\Z")
                self.assertTrue(all(len(line) <= 120 for line in out.splitlines()))

    def test_unknown_options_are_quoted_as_typed(self):
        for tool in self.tools:
            for word in ("--no-such-option", "--no-such-option=a b", "-Z", "--"+ "x" * 500):
                with self.subTest(tool, word=word[:30]):
                    self.assertEqual(self.refused(tool, word), word + ": unknown option")

    def test_misspelt_options_have_a_suggestion(self):
        for tool, typed, meant in (
                ("npuc", "--shap=x=1,2", "--shape"), ("npuc", "-cores", "--cores"), ("npuc", "-output", "--output"),
                ("npuc", "--input_type=int8", "--input-type"), ("npuc", "--Quiet", "--quiet"),
                ("npuc", "--repotr", "--report"), ("npuc", "--quanti", "--quantize"),
                ("bmrt_test", "--bmodle", "--bmodel"), ("bmrt_test", "--context-dir=d", "--context_dir"),
                ("bmrt_test", "--accuracy-abs=1", "--accuracy_abs"), ("tpu_model", "--inf", "--info"),
                ("npu-smi", "--jsn", "--json"), ("npu-smi", "dmom", "dmon"), ("npu-dump", "--row", "--raw"),
                ("npu-vm", "--memroy=1G", "--memory"), ("npu-asm", "--verson", "--version")):
            with self.subTest(tool, typed=typed):
                self.assertRegex(self.refused(tool, typed), re.escape(typed) + rf": unknown \w+; is {meant} meant\?$")

    def test_values(self):
        for tool, arguments, message in (
                ("npuc", (DIGITS, "-o"), "-o: a value is expected, FILE"),
                ("npuc", (DIGITS, "-o", "--quiet"), "-o: a value is expected, FILE, and the option --quiet follows"),
                ("npuc", (DIGITS, "--output="), "--output is empty: expected FILE"),
                ("npuc", (DIGITS, "-o", "x", "--cores", "9"), "--cores 9: expected a whole number from 1 to 8"),
                ("npuc", (DIGITS, "-o", "x", "--cores=1.5"), "--cores 1.5: expected a whole number from 1 to 8"),
                ("npuc", (DIGITS, "-o", "x", "-o", "y"), "-o: the option is given twice"),
                ("npuc", (DIGITS, "-ox", "--quiet=1"), "--quiet=1: --quiet takes no value"),
                ("npuc", (DIGITS, "-o", "x", "--reals", "fp8"), "--reals fp8: expected fp32, fp16 or bf16"),
                ("npuc", (DIGITS, "-o", "x", "--symmetric"), "--symmetric needs --quantize"),
                ("npuc", (DIGITS, "-o", "x", "--input", "a\n"), "--input a\\x0a: NAME=VALUE or NAME=FILE.npy is "
                                                                "expected"),
                ("npuc", (DIGITS, "-o", "x", "--shape", "1,8"), "--shape 1,8: NAME=D0,D1,... or NAME=D0xD1x... is "
                                                                "expected, as image=1,3,224,224"),
                ("npuc", (DIGITS, "-o", "x", "--stage", "image="), "--stage image=: dimension 0, '', is not a "
                 "positive number; NAME=D0,D1,... or NAME=D0xD1x... is expected, as image=1,3,224,224"),
                ("npuc", (DIGITS, "-o", "x", "--shape", "a=1", "--shape", "a=2"), "--shape names 'a' twice"),
                ("npuc", (DIGITS, "-o", "x", "--shape", "a=1", "--stage", "b=1", "--stage", "a=1"),
                 "--stage a=1: 'a' has a shape already, from --stage or --shape"),
                ("npuc", (DIGITS, "-o", "x", "--stage", "a=1;b=2", "--stage", "b=2;a=1"),
                 "--stage b=2;a=1: another --stage has the same shapes"),
                ("npuc", (DIGITS, "-o", "x", "--input", "n=x"), "--input n=x: 'x' is neither numbers nor the name of "
                                                                "a .npy file"),
                ("npuc", (DIGITS, "-o", "x", "--input", "n=1", "--input", "n=x.npy"), "--input names 'n' twice"),
                ("npuc", (DIGITS, "-o", "x", "--input-type", "int4"), "--input-type int4: TYPE or NAME=TYPE is "
                 "expected, TYPE is int8, uint8, float16, bfloat16 or float32"),
                ("npuc", (DIGITS, "-o", "x", "--lmem", "1K"), "--lmem 1K: local memory of 1024 bytes: a multiple of "
                                                              "4096 from 65536 to 268435456 is expected"),
                ("npuc", (DIGITS, "--explain", "--lmem", "much"), "--lmem much: a size such as 262144, 256K or 8M is "
                                                                  "expected"),
                ("npuc", (DIGITS, "-o", "x", "--quantize", "int8"), "--quantize needs --calibrate, a folder of "
                                                                    "samples, or --calibration-table"),
                ("npuc", (DIGITS, "-o", "x", "--quantize", "fp16", "--symmetric"), "--symmetric is for --quantize "
                                                                                   "int8 and uint8, not for fp16"),
                ("npuc", (DIGITS, "-o", "x", "--quantize", "fp16", "--reals", "bf16"), "--quantize fp16 and --reals "
                                                                                       "bf16: one of them is expected"),
                ("npuc", (DIGITS, "other.onnx", "-o", "x"), "other.onnx: unexpected operand, one MODEL is expected"),
                ("npuc", ("-o", "x"), "a MODEL is expected"),
                ("npuc", (DIGITS,), "--output is needed: the file to write"),
                ("npuc", (DIGITS, "-o", "x", "--cores", "\n"), "--cores \\x0a: expected a whole number from 1 to 8"),
                ("npuc", (DIGITS, "-o", "x", "--stage", "image=1;;"), "--stage image=1;;: NAME=D0,D1,... is expected "
                                                                      "before and behind each ';'"),
                ("npuc", (DIGITS, "--verify", "--verify-range", "x"), "--verify-range x: NAME=LOW,HIGH is expected"),
                ("npuc", (DIGITS, "--verify", "--verify-range", "x=1"), "--verify-range x=1: NAME=LOW,HIGH is "
                                                                        "expected"),
                ("npuc", (DIGITS, "--verify", "--verify-range", "x=2,1"), "--verify-range x=2,1: two numbers are "
                                                                          "expected, the lower one first"),
                ("npuc", (DIGITS, "--verify", "--verify-range", "x=nan,1"), "--verify-range x=nan,1: two numbers are "
                                                                            "expected, the lower one first"),
                ("npuc", (DIGITS, "--verify", "--verify-range", "x=0,1", "--verify-range", "x=0,2"),
                 "--verify-range names 'x' twice"),
                ("bmrt_test", (), "exactly one of --bmodel and --context_dir is needed"),
                ("bmrt_test", ("--bmodel", "m", "--accuracy_f", "nan"), "--accuracy_f nan: expected a number from 0 to "
                                                                        "1e+30"),
                ("bmrt_test", ("--bmodel", "m", "--core_list", "0,,1"), "--core_list 0,,1: expected whole numbers from "
                                                                        "0 to 65535 with commas between them"),
                ("tpu_model", (), "one command is expected, as --info FILE, and 0 are given"),
                ("tpu_model", ("--dump", "a"), "--dump: expected FILE START BYTES OUT, and 1 operands are given"),
                ("tpu_model", ("--combine", "a"), "--combine: expected FILE... -o NEW, and -o is missing"),
                ("npu-asm", ("x",), "-o OUT or -d is needed"),
                ("npu-dump", ("a", "b"), "b: unexpected operand, one FILE is expected")):
            with self.subTest(tool, arguments=arguments):
                self.assertEqual(self.refused(tool, *arguments), message)

    def test_forms_of_a_value(self):
        for form in (("-o", "x"), ("-ox",), ("-o=x",), ("--output", "x"), ("--output=x",)):
            code, _, err = run("npuc", DIGITS, "-q", *form, cwd=self.folder)
            self.assertEqual((code, err), (0, ""), form)
            os.unlink(os.path.join(self.folder, "x"))
        shutil.copy(DIGITS, os.path.join(self.folder, "-net.onnx"))
        code, _, err = run("npuc", "-q", "-o", "x", "--", "-net.onnx", cwd=self.folder)
        self.assertEqual((code, err), (0, ""))

    def test_shapes(self):
        for shape in ("1,1,8,8", "1x1x8x8", "[1,1,8,8]", "[1, 1, 8, 8]"):
            code, _, err = run("npuc", DIGITS, "-q", "-o", "x", "--shape", "image=" + shape, cwd=self.folder)
            self.assertEqual((code, err), (0, ""), shape)
        for shape, wrong in (("1,1,N,8", "dimension 2, 'N',"), ("1x1xN", "dimension 2, 'N',"), ("", "dimension 0, '',"),
                             ("1,0", "dimension 1, '0',"), ("1;2", "dimension 0, '1;2',")):
            code, _, err = run("npuc", DIGITS, "-q", "-o", "y", "--shape", "image=" + shape, cwd=self.folder)
            self.assertEqual(code, 2, shape)
            self.assertIn(f"--shape image={shape}: {wrong} is not a positive number; NAME=D0,D1,... or NAME=D0xD1x...",
                          err)

    def test_progress_is_for_a_terminal(self):
        code, _, err = run("npuc", DIGITS, "-o", "x", "--optimize", "0.1", cwd=self.folder)
        self.assertEqual((code, err), (0, ""))


class Fuzz(Case):
    def setUp(self):
        super().setUp()
        files = {"empty": b"", "binary": bytes(range(256)) * 16, "text": b"hello\n", "model.onnx": None}
        for name, content in files.items():
            with open(os.path.join(self.folder, name), "wb") as file:
                if content is None:
                    with open(DIGITS, "rb") as digits:
                        content = digits.read()
                file.write(content)
        os.mkdir(os.path.join(self.folder, "folder"))
        if "npuc" in self.tools:
            run("npuc", DIGITS, "-q", "-o", "model.bmodel", cwd=self.folder)
        self.random = random.Random(ARGUMENTS.seed)

    def word(self):
        pick = self.random.choice
        kind = self.random.randrange(8)
        if kind == 0:
            return pick(("0", "1", "2", "-1", "1e400", "nan", "-inf", "0x10", "1.5", "99999999999999999999", "1,2",
                         "8M", "7K", "1x1x8x8"))
        if kind == 1:
            return pick(("", " ", "=", "a=b", "=1", "image=1,1,8,8", "image=", "json", "json=", "html=folder", "x=,",
                         "image=1x1", "int8", "cosine:2", "resize=0", "--", "-", "---", "-q", "help", "%s%n"))
        if kind == 2:
            return "".join(chr(self.random.choice((*range(1, 127), 0xe9, 0x4e2d))) for _ in
                           range(self.random.randrange(1, 12)))
        if kind == 3:
            return pick("ab=-,/") * self.random.choice((1, 300, 5000))
        return pick(("empty", "binary", "text", "folder", "missing", "model.onnx", "model.bmodel", "folder/x",
                     "missing/x", "text/x", "model.onnx", "model.bmodel"))

    def command_line(self, options):
        words = []
        for _ in range(self.random.randrange(5)):
            name, value = self.random.choice(options)
            if self.random.randrange(6) == 0:
                at = self.random.randrange(1, len(name) + 1)
                name = name[:at] + self.random.choice(("", "x", "-", "=", name)) + name[at + 1:]
            if name.split("=")[0] in LEFT_OUT:
                continue
            word = self.word()
            if (value is None) != (self.random.randrange(8) == 0):
                words.append(name)
            elif self.random.randrange(2):
                words.append(name + "=" + word)
            else:
                words += [name, word]
        for _ in range(self.random.randrange(3)):
            words.insert(self.random.randrange(len(words) + 1), self.word())
        return [word.replace("\0", "") for word in words]

    def test_every_command_line_ends_with_a_message(self):
        for tool, more in TOOLS.items():
            if tool not in self.tools:
                continue
            options = options_of(tool)
            self.assertGreater(len(options), 2, tool)
            for _ in range(ARGUMENTS.rounds):
                words = self.command_line(options)
                if tool == "npu-smi":
                    words.append("--count=1")
                if tool == "npu-vm":
                    words = [word for word in words if word != "--" and not word.startswith("--inter")]
                with self.subTest(tool, words=words):
                    code, _, err = run(tool, *words, cwd=self.folder)
                    self.assertIn(code, (0, 1, 2, *more), err)
                    if code:
                        self.assertTrue(err.startswith(tool + ": "), err)
                    self.assertNotRegex(err, r"terminate called|AddressSanitizer|runtime error|Traceback")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *REST])
