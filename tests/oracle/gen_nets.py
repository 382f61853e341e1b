#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Generates ONNX networks of one operator, and small chains, in shapes that people rarely write by hand.

    gen_nets.py OUT_DIR --quick            about 60 networks, small ones
    gen_nets.py OUT_DIR --full             about 300, large ones included
    gen_nets.py OUT_DIR --full --only 'conv_*' --only 'chain_*'      only what a pattern matches
    gen_nets.py --full --list              names and operators only, writes nothing

For each network NAME: OUT_DIR/NAME/model.onnx, open.onnx (the same with open dimensions) and, unless --no-cases,
OUT_DIR/NAME/{input,output}_ref_data.dat with the oracle's answer, so that OUT_DIR/NAME is a `bmrt_test --context_dir`
once compilation.bmodel is there. OUT_DIR/manifest.json describes them all: [{"name", "dir", "ops", "inputs", "outputs",
"bytes", "seed" (of the inputs)}, ...].

The same --seed gives the same files. Weights are scaled so that results are of the order of 1, inputs lie in
[-1, 1], and a network whose outputs say nothing (all zero, not finite) is an error here and not a test that passes.
"""

import argparse
import fnmatch
import json
import os
import sys
import zlib

import numpy as np

import net_chains
import net_operators
import net_parts
from make_case import random_inputs, write_case
from net_builder import Builder
from onnx_reader import OnnxError, parse_model
from onnx_ref import evaluate


def catalogue(level, extra, parts=False):
    """[(name, function of a Builder)] of the quick or full list, names unique."""
    nets = net_operators.nets(level) + net_chains.nets(level)
    if parts:
        nets += net_parts.nets()
    if extra:
        nets += net_operators.extra_nets()
    names = [name for name, _ in nets]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise OnnxError("names used twice: %s" % ", ".join(twice))
    return nets


def build(name, make, seed, is_open=False):
    """A network's Builder, complete; its random numbers depend on its own name and the seed only."""
    builder = Builder(name, zlib.crc32(("%d/%s" % (seed, name)).encode()), is_open=is_open)
    make(builder)
    return builder


def check_outputs(name, results):
    """Refuses outputs that would let a wrong compiler pass."""
    for output, array in results.items():
        if not np.all(np.isfinite(array)):
            raise OnnxError("%s: output %r is not finite" % (name, output))
        size = float(np.abs(array).max())
        if not 1e-3 < size < 1e3 or (array.size > 4 and np.mean(array == 0) > 0.95):
            raise OnnxError("%s: output %r says too little (largest value %g)" % (name, output, size))


def _describe(feeds):
    return [{"name": n, "type": a.dtype.name, "shape": list(a.shape)} for n, a in feeds.items()]


def write_net(builder, directory, with_case):
    """Writes one network, with the outputs' shapes declared as the oracle finds them; returns its manifest entry."""
    model = parse_model(builder.graph.serialize())
    feeds = random_inputs(model, builder.input_seed, None, builder.ranges)
    results = evaluate(model, feeds)
    check_outputs(builder.name, results)
    builder.graph.set_output_shapes({name: array.shape for name, array in results.items()})
    data = builder.graph.serialize()
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, "model.onnx"), "wb") as file:
        file.write(data)
    if with_case:
        write_case(directory, feeds.values(), results.values())
    return {"name": builder.name, "dir": builder.name, "ops": [n.op for n in model.nodes], "bytes": len(data),
            "seed": builder.input_seed, "inputs": _describe(feeds), "outputs": _describe(results)}


def main():
    parser = argparse.ArgumentParser(description="Generates ONNX networks with reference results.")
    parser.add_argument("out_dir", nargs="?")
    level = parser.add_mutually_exclusive_group()
    level.add_argument("--quick", action="store_const", dest="level", const="quick", help="about 60 (the default)")
    level.add_argument("--full", action="store_const", dest="level", const="full", help="about 300")
    parser.add_argument("--extra", action="store_true", help="also LeakyRelu, Concat and Dropout")
    parser.add_argument("--parts", action="store_true", help="also networks of which parts run on the CPU")
    parser.add_argument("--only", action="append", metavar="PATTERN", help="names to take, may be repeated")
    parser.add_argument("--except", action="append", dest="but", default=[], metavar="PATTERN",
                        help="names to leave out")
    parser.add_argument("--or-none", action="store_true", help="no error where no network has such a name")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-cases", action="store_true", help="networks only, no reference data")
    parser.add_argument("--list", action="store_true", help="print names and operators, write nothing")
    args = parser.parse_args()
    if not args.list and not args.out_dir:
        parser.error("OUT_DIR is missing")

    def matches(name, patterns):
        return any(fnmatch.fnmatchcase(name, p) for p in patterns)

    try:
        chosen = [(n, m) for n, m in catalogue(args.level or "quick", args.extra, args.parts)
                  if (not args.only or matches(n, args.only)) and not matches(n, args.but)]
        if not chosen and not args.or_none:
            sys.exit("gen_nets: no network has such a name")
        manifest = []
        for name, make in chosen:
            builder = build(name, make, args.seed)
            if args.list:
                print("%-44s %s" % (name, " ".join(n.op for n in parse_model(builder.graph.serialize()).nodes)))
                continue
            manifest.append(write_net(builder, os.path.join(args.out_dir, name), not args.no_cases))
            with open(os.path.join(args.out_dir, name, "open.onnx"), "wb") as file:
                file.write(build(name, make, args.seed, True).graph.serialize())
        if args.list:
            return
        os.makedirs(args.out_dir, exist_ok=True)
        with open(os.path.join(args.out_dir, "manifest.json"), "w", encoding="utf-8") as file:
            json.dump(manifest, file, indent=1)
            file.write("\n")
        print("%d networks in %s" % (len(manifest), args.out_dir))
    except (OnnxError, OSError) as error:
        sys.exit("gen_nets: %s" % error)


if __name__ == "__main__":
    main()
