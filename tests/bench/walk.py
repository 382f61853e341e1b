#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Counts the functions that one input tensor of a launch walks through, from bmrt_launch_tensor_ex to the chip.

usage: walk.py [--tree]

Builds the libraries and bench_walk in build/walk, without optimization and with a hook in every function of the project
(none of the standard library), and takes the fourth launch of a network with one input and one output: by then pools,
contexts and lists are there. Two ends: the transport's ioctl that submits, and the chip model's submission.

- A function is *on the walk* if it gets the tensor, or what has become of it (CARRIERS): by its parameters, its result
  or as a member of it; and if it calls such a function. One that is entered again counts once.
- *Small*: constructors, destructors, operators, and functions whose definition is one line. They are counted apart.
- *All*: whatever the launch enters on the way, as locks, pools and the look for finished jobs.

The first build takes minutes. --tree prints every function as it is first entered: indented by its depth, "+" on the
walk, "." small on the walk.
"""
import argparse
import collections
import os
import re
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BUILD = os.path.join(TOP, "build", "walk")
FLAGS = f"-O0 -finstrument-functions -finstrument-functions-exclude-file-list=/usr/include,{BUILD}/"

# What an input tensor is on its way (docs/reference/runtime.md, "The way of a tensor"), and its memory.
CARRIERS = re.compile(r"\b(bm_tensor_[ts]|bm_device_mem_t|bm_mem_desc|bm_shape_[ts]|TensorInfo|LaunchTensors|Place|"
                      r"npu_job_region|npu_bo|drm_npu_region|npu_region|Bo|Job)\b")
ENDS = {"the transport": re.compile(r"^npu::sim::ioctl$"), "the chip": re.compile(r"^npu::model::Chip::submit$")}

Function = collections.namedtuple("Function", "name declaration small gets")


def run(*command, **options):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **options).stdout


def plain(name):
    """npu::f of "int npu::(anonymous namespace)::f<char>(T<char> const&) const"; operators without their symbols."""
    name = name.replace("(anonymous namespace)::", "").replace("operator()", "operator")
    for pair in r"<[^<>]*>", r"\([^()]*\)":
        while re.search(pair, name):
            name = re.sub(pair, "", name)
    return re.sub(r"(\boperator\b).*| const$", r"\1", name).split(" ")[-1]


def without_own_arguments(name):
    """Demangled, without what a template is made for: "f(T<char>)" of "f<int>(T<char>)"."""
    name, depth = name.replace("(anonymous namespace)", ""), 0
    for at, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and not depth:
            return re.sub(r"<.*>", "", name[:at]) + name[at:]
    return name


def definition(word, place):
    """The lines of a definition up to its body; `place` is any of them."""
    path, line = place.rsplit(":", 1)
    with open(path, encoding="utf-8") as source:
        lines = source.read().splitlines()
    first = last = int(line) - 1
    while word not in lines[first] and first > int(line) - 6:
        first -= 1
    while "{" not in lines[last] and last < int(line) + 4:
        last += 1
    return lines[first:last + 1]


def describe(name, place):
    """Function from what addr2line says."""
    short = plain(name)
    owner, word = ([""] + short.split("::"))[-2:]
    lines = definition(word, place) if os.path.exists(place.rsplit(":", 1)[0]) else []
    special = word.lstrip("~") == owner or (word == "operator" and "lambda" not in owner) or not lines
    one_line = len(lines) == 1 and lines[0].rstrip().endswith(("}", "};"))
    gets = bool(CARRIERS.search(without_own_arguments(name)) or CARRIERS.search(" ".join(lines)))
    return Function(short, " ".join(lines), special or one_line, gets)


def trace():
    """[(depth, Function)] in the order of the calls."""
    run("cmake", "-S", TOP, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DNPU_WALK=ON",
        "-DCMAKE_CXX_FLAGS=" + FLAGS)
    run("cmake", "--build", BUILD, "--target", "bench_walk", "npu-sim")
    environment = dict(os.environ, NPU_DEVICE="sim", NPU_SIM="backend=reference")
    calls = [line.split() for line in run(os.path.join(BUILD, "bin", "bench_walk"), env=environment).splitlines()]
    functions = {}
    for file in {file for _, file, _ in calls}:
        addresses = sorted({address for _, of, address in calls if of == file})
        lines = run("addr2line", "-f", "-C", "-e", file, *addresses).splitlines()
        for i, address in enumerate(addresses):
            functions[file, address] = describe(lines[2 * i], lines[2 * i + 1].split(" ")[0])
    return [(int(depth), functions[file, address]) for depth, file, address in calls]


def walk_of(calls):
    """The functions on the walk: those that get the tensor, and their callers."""
    stack, walk = [], set()
    for depth, function in calls:
        stack[depth:] = [function]
        if function.gets:
            walk.update(stack)
    return walk


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", action="store_true", help="print the functions, too")
    tree = parser.parse_args().tree
    calls = trace()
    for end, pattern in ENDS.items():
        last = next(i for i, (_, f) in enumerate(calls) if pattern.search(f.name))
        walk = walk_of(calls[:last + 1])
        small, depth = sum(f.small for f in walk), calls[last][0] + 1
        distinct = {f for _, f in calls[:last + 1]}
        print(f"to {end}: {len(walk) - small} functions on the walk, and {small} small ones; {depth} deep; "
              f"{len(distinct)} functions in all")
    seen = set()
    for depth, f in calls[:last + 1] if tree else []:
        if f not in seen:
            print("+" if f in walk and not f.small else "." if f in walk else " ", "  " * depth + f.name)
        seen.add(f)


if __name__ == "__main__":
    main()
