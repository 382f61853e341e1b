#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Decodes with a language model, token by token, and compares the tokens with a plain model in numpy.

The networks are those of tests/bench/llama.py, compiled with npuc; sample_decode runs them and says what crossed the
bus. The plain model computes all of each prefix from scratch, in float64: no cache, no tables, no tricks. With
NPU_SHARED_MODELS=DIR also a trained model, DIR/models/stories260k-prefill64.onnx, whose tokens DIR/stories260k.json
has.

Without --guest the chip model in the process runs the networks, under the race detector; with --guest the card of one
emulated board (tools/npu-vm). Prints a line for each failure; the last line is "N passed, N failed".
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import numpy as np

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BUILD = os.path.realpath(os.environ.get("NPU_BUILD", os.path.join(TOP, "build")))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(TOP, "tests", "bench"))

import llama  # pylint: disable=wrong-import-position  # noqa: E402

STEP_SECONDS = 300
DECISIVE = 1e-3  # by how much the likeliest token is ahead, of the largest score: more than rounding can change


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def normed(x, factors):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + llama.EPSILON) * factors


def turned(x, head):
    """[tokens, heads, head]: each pair is a complex number, turned by its place times its frequency."""
    pairs = x[..., 0::2] + 1j * x[..., 1::2]
    angles = np.arange(len(x))[:, None] * llama.THETA ** (-np.arange(0, head, 2) / head)
    pairs = pairs * np.exp(1j * angles)[:, None, :]
    return np.stack([pairs.real, pairs.imag], -1).reshape(x.shape)


def scores(w, tokens):
    """The scores of the token behind these."""
    x = w["emb"].astype(np.float64)[tokens]
    for i in range(w.layers):
        part = {name: w["l%d_%s" % (i, name)].astype(np.float64) for name in w.LAYER}
        h = normed(x, part["an_w"])
        q = turned((h @ part["qW"]).reshape(len(tokens), w.heads, w.head), w.head)
        k = turned((h @ part["kW"]).reshape(len(tokens), w.kv_heads, w.head), w.head)
        v = (h @ part["vW"]).reshape(len(tokens), w.kv_heads, w.head)
        seen = np.zeros_like(q)
        for at in range(len(tokens)):
            for head in range(w.heads):
                other = head * w.kv_heads // w.heads
                shares = softmax(k[:at + 1, other] @ q[at, head] / w.head ** 0.5)
                seen[at, head] = shares @ v[:at + 1, other]
        x = x + seen.reshape(len(tokens), w.dim) @ part["oW"]
        h = normed(x, part["fn_w"])
        gate = h @ part["gW"]
        x = x + (gate / (1 + np.exp(-gate)) * (h @ part["uW"])) @ part["dnW"]
    return normed(x[-1], w["fin_w"]) @ w["lmhead"]


def expected_tokens(w, prompt, count):
    tokens = list(prompt)
    for _ in range(count):
        all_scores = scores(w, tokens)
        second, first = np.argsort(all_scores)[-2:]
        if all_scores[first] - all_scores[second] < DECISIVE * np.abs(all_scores).max():
            sys.exit("run_decode: token %d is not decided: take another seed" % len(tokens))
        tokens.append(int(first))
    return tokens


class Case:
    """A model, its networks, and the tokens that it has to give."""

    def __init__(self, name, work, weights, expected, prompt, *, stages, prefill, numbers=False, lmem=None):
        self.name, self.folder, self.weights = name, os.path.join(work, name), weights
        self.expected, self.prompt = expected, prompt
        self.stages, self.prefill, self.numbers = stages, prefill, numbers
        self.lmem = [] if lmem is None else ["--lmem", lmem]
        self.failure = None

    def compile(self, bin_dir):
        """The folder that sample_decode wants."""
        os.makedirs(self.folder)
        for graph, arguments in llama.networks(self.weights, self.stages, self.prefill, self.numbers):
            path = os.path.join(self.folder, graph.name)
            with open(path + ".onnx", "wb") as file:
                file.write(graph.serialize())
            code, output = run([os.path.join(bin_dir, "npuc"), "-q", path + ".onnx", "-o", path + ".bmodel",
                                *self.lmem, *arguments])
            if code:
                self.failure = "npuc: " + output
                return

    def command(self, program, folder):
        return [program, folder, str(len(self.expected) - len(self.prompt)), *map(str, self.prompt)]

    def judge(self, code, output):
        """Takes the exit code and output of sample_decode over."""
        if code:
            self.failure = "sample_decode ended with status %d: %s" % (code, output)
            return
        costs = re.findall(r"^token \d+: (.*), cycles [1-9]\d*$", output, re.M)
        # The token and its place, if the network wants numbers; the scores.
        decode = "launches 1, to the card %s copies, from it %d in 1" % (
            "8 bytes in 2" if self.numbers else "0 bytes in 0", 4 * self.weights.vocabulary)
        tokens = [int(t) for t in output.splitlines()[-1].split()]
        if tokens != self.expected:
            wrong = [i for i, pair in enumerate(zip(tokens, self.expected)) if pair[0] != pair[1]]
            self.failure = "%d tokens, expected %d; different from token %s on" % (
                len(tokens), len(self.expected), wrong[0] if wrong else "(none)")
        elif len(costs) != len(self.expected) - len(self.prompt) or set(costs[1:]) != {decode}:
            self.failure = "expected '%s' for each token, got:\n%s" % (decode, "\n".join(costs))


def run(command, environment=None):
    """(exit code, all output); a command that hangs is stopped."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=STEP_SECONDS,
                              check=False, env={**os.environ, **(environment or {})})
    except subprocess.TimeoutExpired:
        return -1, "stopped after %d s" % STEP_SECONDS
    return done.returncode, done.stdout.decode(errors="replace")


def make_cases(work):
    weights = llama.Weights.random(1)
    prompt = [3, 5, 7, 60, 2]
    expected = expected_tokens(weights, prompt, 44)
    sizes = {"stages": [8, 24, 48], "prefill": 16}
    cases = [Case("stages", work, weights, expected, prompt, **sizes),
             Case("small_local_memory", work, weights, expected, prompt, lmem="65536", **sizes),
             Case("numbers", work, weights, expected, prompt, stages=[48], prefill=8, numbers=True)]
    models = os.environ.get("NPU_SHARED_MODELS")
    if models:
        with open(os.path.join(models, "stories260k.json"), encoding="utf-8") as file:
            story = json.load(file)["tokens"]
        trained = llama.Weights.load(os.path.join(models, "models", "stories260k-prefill64.onnx"), 8)
        cases.append(Case("stories260k", work, trained, story, story[:1], stages=[64, 128, 256], prefill=64))
    else:
        print("NPU_SHARED_MODELS is not set: no trained model")
    return cases


def refusals(work, cases, bin_dir):
    """Command lines and folders that sample_decode has to refuse: [(what, arguments, text)]."""
    folder = cases[0].folder
    vocabulary = cases[0].weights.vocabulary
    mixed = []
    for name, other in (("tables", llama.Weights.random(1)), ("decode", llama.Weights.random(2, layers=3)),
                        ("prefill", llama.Weights.random(2, layers=3))):
        mixed.append(os.path.join(work, "other_" + name))
        shutil.copytree(folder, mixed[-1])
        made = Case("made_" + name, work, other, [], [], stages=[96] if name == "tables" else [48], prefill=16)
        made.compile(bin_dir)
        shutil.copy(os.path.join(made.folder, name + ".bmodel"), mixed[-1])
    no_model = "the networks are not of one model"
    return [("a token that is no number", [folder, "4", "x"], "'x' is no number from 0 on"),
            ("a negative token", [folder, "4", "-1"], "'-1' is no number from 0 on"),
            ("a token of another model", [folder, "4", str(vocabulary)], "the model has tokens from 0 to"),
            ("a count that is no number", [folder, "x", "1"], "'x' is no number from 0 on"),
            ("a long prompt", [folder, "4"] + ["1"] * 17, "the prompt has 17 tokens, prefill.bmodel takes at most 16"),
            ("an empty folder", [work, "4", "1"], "tables"),
            *(("networks of two models", [other, "4", "1"], no_model) for other in mixed)]


def refuse(_, arguments, text, bin_dir):
    """What is wrong, or None."""
    code, output = run([os.path.join(bin_dir, "sample_decode"), *arguments], {"NPU_DEVICE": "sim"})
    good = code == 1 and text in output
    return None if good else "expected status 1 and '%s', got %d:\n%s" % (text, code, output)


def run_in_process(case, bin_dir):
    case.judge(*run(case.command(os.path.join(bin_dir, "sample_decode"), case.folder),
                    {"NPU_DEVICE": "sim", "NPU_SIM": "check=races"}))


def write_guest_script(cases, work):
    """work/run.sh decodes with each model on the board; results go to files beside it."""
    with open(os.path.join(work, "run.sh"), "w", encoding="utf-8") as file:
        file.write('cd "$(dirname "$0")" || exit 1\n')
        for case in cases:
            command = " ".join(shlex.quote(word) for word in case.command("sample_decode", case.name))
            file.write("%s > %s/log 2>&1; echo $? > %s/status\n" % (command, case.name, case.name))


def judge_guest(cases):
    """Reads what the script has left."""
    for case in cases:
        try:
            with open(os.path.join(case.folder, "status"), encoding="utf-8") as status:
                with open(os.path.join(case.folder, "log"), encoding="utf-8") as log:
                    case.judge(int(status.read()), log.read())
        except (OSError, ValueError):
            case.failure = "was not run on the board"


def run_in_guest(cases, work, kind):
    """All cases in one boot. The board's own failure, a warning of its kernel among them, fails all."""
    write_guest_script(cases, work)
    code, output = run([os.path.join(TOP, "tools", "npu-vm"), "--board", kind, "--share", work,
                        "--timeout", str(STEP_SECONDS), "--env", "NPU_DEVICE=drm", "--", "sh", "/mnt/share/run.sh"])
    judge_guest(cases)
    for case in cases:
        if code:
            case.failure = "%s; the board ended with status %d:\n%s" % (case.failure or "it passed", code, output)


def prepared(work, bin_dir):
    """All cases, compiled."""
    cases = make_cases(work)
    for case in cases:
        case.compile(bin_dir)
    return cases


def failures(texts, options):
    """[(name, log, command that repeats it)] of (name, what is wrong or None)."""
    found = []
    for name, text in texts:
        if not text:
            continue
        log = os.path.join(BUILD, "decode", name.replace(" ", "-") + ".log")
        os.makedirs(os.path.dirname(log), exist_ok=True)
        with open(log, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        command = "tests/conformance/run_decode.py" + (" --guest" if options.guest else "")
        found.append(("decode: " + name, log, command))
    return found


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--guest", action="store_true", help="run on an emulated board")
    parser.add_argument("--board", default="pc", metavar="NAME", help="which one (of tools/npu-vm; default: pc)")
    parser.add_argument("--bin", default=os.path.join(BUILD, "bin"), metavar="DIR",
                        help="where npuc and sample_decode are")
    return parser.parse_args(arguments)


def main():
    options = parse()
    with tempfile.TemporaryDirectory(prefix="npu-decode-") as work:
        cases = prepared(work, options.bin)
        compiled = [case for case in cases if not case.failure]
        if options.guest and compiled:
            run_in_guest(compiled, work, options.board)
        elif not options.guest:
            for case in compiled:
                run_in_process(case, options.bin)
        wrong = [(case.name, case.failure) for case in cases]
        if not options.guest and compiled == cases:
            wrong += [(one[0], refuse(*one, options.bin)) for one in refusals(work, cases, options.bin)]
    for name, text in wrong:
        if text:
            print("%s: %s" % (name, text))
    failed = failures(wrong, options)
    for name, log, command in failed[:8]:
        print("failed: %s (log %s): %s" % (name, log, command))
    print("%d passed, %d failed" % (len(wrong) - len(failed), len(failed)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
