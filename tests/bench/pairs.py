#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Times things against what they are compared with, in pairs, in the host's time.

usage: pairs.py [--json FILE] [NPU-VM OPTION...]

Both of a pair run one right after the other, and a comparison has seven pairs: median, best and worst of their ratios
are printed. An aim is met when the worst pair meets it. A busy host moves these figures, so they decide about no test.
"""
import argparse
import json
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(TOP, "tests", "oracle"))

import turns  # pylint: disable=wrong-import-position  # noqa: E402
from net_builder import Builder  # pylint: disable=wrong-import-position  # noqa: E402

BUILD = os.path.realpath(os.environ.get("NPU_BUILD", os.path.join(TOP, "build")))
BENCH = os.path.join(BUILD, "bench")
BIN = os.path.join(BUILD, "bin")
PAIRS = 7

# (name, what, operation on the board, compared with, whether that runs on the host, aim): the ratio is that of the
# times. An aim is "<= N".
COMPARISONS = [
    ("s2d", "bm_memcpy_s2d, 64 MiB", "s2d", "memcpy", True, None),
    ("d2s", "bm_memcpy_d2s, 64 MiB", "d2s", "memcpy", True, None),
    ("pinned-s2d", "to the card from pinned memory, 64 MiB", "pinned-s2d", "memcpy", True, 1.25),
    ("pinned-d2s", "from the card to pinned memory, 64 MiB", "pinned-d2s", "memcpy", True, 1.25),
    ("memcpy", "memcpy in the guest, 64 MiB", "memcpy", "memcpy", True, None),
    ("load", "bmrt_create and load, 64 MiB of weights", "load", "read", False, 1.2),
    ("load-mapping", "the same through its mapping", "load-mapping", "read", False, None),
    ("load-uring", "the same with io_uring", "load-uring", "read", False, None),
]
ENGINES = [
    ("engines", "convolutions of ResNet-50 by the chip's engines", 1 / 0.97),
    ("engines-u8", "the same of 8 bits, u8", 1 / 0.95),
    ("engines-s8", "the same of 8 bits, s8 with a zero point", 1 / 0.95),
    ("engines-matmul", "matrix products of BERT-base for 128 tokens", 1 / 0.97),
    ("engines-u8-matmul", "the same of 8 bits, u8", 1 / 0.95),
    ("engines-s8-matmul", "the same of 8 bits, s8 with a zero point", 1 / 0.95),
    ("engines-depthwise", "depthwise convolutions of MobileNetV2", None),
    ("engines-u8-depthwise", "the same of 8 bits, u8", None),
    ("engines-s8-depthwise", "the same of 8 bits, s8 with a zero point", None),
]


class Result:
    """Pairs of one comparison."""

    def __init__(self, name, what, than, aim, pairs):
        self.name, self.what, self.than, self.pairs = name, what, than, pairs
        self.ratios = turns.Ratios(pairs, aim)

    def line(self):
        return f"{self.what:48} {self.ratios.text()} x {self.than:20} {self.ratios.verdict()}".rstrip()


def large_network():
    """Path of a .bmodel that is hardly more than its 64 MiB of weights."""
    os.makedirs(BENCH, exist_ok=True)
    net = Builder("large", 1)
    net.output(net.op("MatMul", net.input([1, 4096]), net.weights([4096, 4096], 4096)))
    onnx, path = os.path.join(BENCH, "large.onnx"), os.path.join(BENCH, "large.bmodel")
    with open(onnx, "wb") as file:
        file.write(net.graph.serialize())
    subprocess.run([os.path.join(BIN, "npuc"), onnx, "-o", path], check=True, stdout=subprocess.DEVNULL)
    return path


def engines():
    done = subprocess.run([os.path.join(BIN, "bench_engines")], stdout=subprocess.PIPE, text=True, check=True)
    pairs = {name: [] for name, _, _ in ENGINES}
    for line in done.stdout.splitlines():
        if line.startswith("pair "):
            _, name, bare, chip = line.split()
            pairs[name].append((float(chip), float(bare)))
        else:
            print(line)
    return [Result(name, what, "bare oneDNN calls", aim, pairs[name]) for name, what, aim in ENGINES]


def board(options):
    program = os.path.join(BIN, "tests", "guest", "host_time")
    card = turns.Worker(os.path.join(TOP, "tools", "npu-vm"), *options, "--", program, "card", large_network())
    clock = turns.Clock(card)
    host = turns.Worker(program, "memory")
    for name, what, operation, than, on_host, aim in COMPARISONS:
        other = host if on_host else card
        # both of the card are by its clock
        rate = clock.rate() if on_host else 1.0
        pairs = []
        for turn in range(PAIRS + 1):
            pair = (float(card.ask(operation)[0]) / rate, float(other.ask(than)[0]))
            if turn:  # the first one makes what is kept
                pairs.append(pair)
        yield Result(name, what, than + (" on the host" if on_host else "(2) of the file"), aim, pairs)
    card.end()
    host.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", default=os.path.join(BENCH, "pairs.json"))
    options, rest = parser.parse_known_args()
    results = [*engines(), *board(rest)]
    print(f"\ntimes in pairs, {PAIRS} each, load {os.getloadavg()[0]:.1f}\n{'':48} {'median':>7} {'best':>7} "
          f"{'worst':>7}")
    for result in results:
        print(result.line())
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump({result.name: result.pairs for result in results}, file, indent=1)


if __name__ == "__main__":
    try:
        main()
    except turns.Ended as problem:
        sys.exit(f"pairs.py: {problem}")
