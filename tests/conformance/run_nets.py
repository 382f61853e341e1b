#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Compiles networks with npuc, runs them with bmrt_test, and compares with the oracle's results.

The networks are those of tests/oracle/gen_nets.py, each once for every size of local memory; some once more as dynamic
ones: compiled for larger shapes, and by the runtime for those of the reference; some once more for two cores, and with
results of 16 bits. With NPU_SHARED_MODELS=DIR also trained ones (DIR/models/*.onnx with results of another runtime in
DIR/ref). A result is right when |a-b| <= 1e-3 * max|b| (of 16 bits HALF), of a quantized network when it differs by one
step at most, and for trained networks also the class is the same. The modelled cycles must be those that npuc
predicted.

Without --guest the chip model in the process runs them, with as much local memory as they were compiled for; with
--guest the card of one emulated board (tools/npu-vm) runs all. Prints a line for each failure and how to
repeat it; the last line is "N passed, N failed".
"""

import argparse
import concurrent.futures
import fnmatch
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile

import numpy as np

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "scripts"))
from npuvm import boards  # noqa: E402  pylint: disable=wrong-import-position

BUILD = os.path.realpath(os.environ.get("NPU_BUILD", os.path.join(TOP, "build")))
LOGS = os.path.join(BUILD, "networks")
ORACLE = os.path.join(TOP, "tests", "oracle")
ACCURACY = "1e-3"
DEFAULT_SIZES = "65536,262144,default"
# The trained networks that this compiler has to handle (fp32, the operators that npuc knows).
SHARED = ["mnist-cntk", "mnist-onnxmlir", "iris-mlp-b1", "hello-sine-fp32", "ic-resnet8-cifar10-fp32", "kws-dscnn-fp32",
          "mobilenetv1-025-128-fp32", "vww96-mobilenetv1-fp32", "cifar10-pytorch-cnn-b1", "espcn-superres-x3",
          "fastestdet-coco"]
# Quantized ones, with the step of their outputs: roundings may differ by one.
QUANTIZED = {"hello-sine-int8-qdq": 0.00829095673, "ic-resnet8-cifar10-int8-qdq": 1 / 256,
             "kws-dscnn-int8-qdq": 1 / 256, "person-detect-int8-qdq": 1 / 256}
# Networks that mean something in other shapes than those of the reference.
DYNAMIC = ["conv_*", "*pool_*", "matmul_*_dynamic", "relu_*", "sigmoid_*", "tanh_*", "clip_*", "softmax_*",
           "batchnormalization_*x*x*",
           "identity_*", "chain_conv_bn_relu", "chain_residual", "chain_two_outputs"]
# Networks that are cut between two cores, small as they are.
TWO_CORES = ["conv_*", "chain_*", "matmul_*", "maxpool_*", "softmax_*"]
# What results of 16 bits may differ by, as a part of the largest: a few roundings of 11 and of 8 bits.
HALF = {"fp16": "4e-3", "bf16": "3e-2"}
EXPORTED = "output_ref_data.dat.bmrt_test"
STEP_SECONDS = 300


class Case:
    """A network, a size of local memory, and reference data: one test."""

    def __init__(self, name, onnx, reference, size, directory, same_class=False, shapes=None, cores=1,
                 step=None, reals=None):
        self.name = "%s (local memory %s%s%s%s)" % (name, size, ", dynamic" if shapes else "",
                                                    ", cores %d" % cores if cores > 1 else "",
                                                    ", " + reals if reals else "")
        self.cores = cores
        self.reals = reals  # a key of HALF
        self.shapes = shapes  # of a dynamic network: [(input, shape)] of the reference
        self.predicted = None
        self.onnx, self.reference, self.size, self.directory = onnx, reference, size, directory
        self.same_class = same_class
        self.step = step  # by which results may differ, instead of ACCURACY
        self.failure = None
        self.output = ""  # of the last program that ran for it


def run(command, environment=None):
    """(exit code, output); a command that hangs is stopped."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=STEP_SECONDS,
                              check=False,
                              env={**os.environ, **(environment or {})})
    except subprocess.TimeoutExpired as error:
        return -1, "%s\nstopped after %d s" % ((error.stdout or b"").decode(errors="replace"), STEP_SECONDS)
    return done.returncode, done.stdout.decode(errors="replace")


def checked(command):
    """Runs a step that all others need; ends the program if it fails."""
    code, output = run(command)
    if code:
        sys.exit("run_nets: %s ended with status %d:\n%s" % (" ".join(command), code, output))


def last_line(output):
    """The line that says what failed."""
    lines = [line for line in output.strip().splitlines() if line.strip()]
    wanted = [line for line in lines if "error" in line.lower() or line.startswith(("bmrt_test:", "npuc:"))]
    return (wanted or lines or ["no output"])[-1]


def generated_cases(work, level, only, sizes):
    """The oracle's networks."""
    nets = os.path.join(work, "nets")
    checked([sys.executable, os.path.join(ORACLE, "gen_nets.py"), nets, "--" + level, "--parts", "--or-none"] +
            [arg for pattern in only for arg in ("--only", pattern)])
    with open(os.path.join(nets, "manifest.json"), encoding="utf-8") as file:
        entries = json.load(file)
    cases = [Case(entry["dir"], os.path.join(nets, entry["dir"], "model.onnx"), os.path.join(nets, entry["dir"]), size,
                  os.path.join(work, "cases", size, entry["dir"])) for size in sizes for entry in entries]
    if "default" in sizes:
        cases += [Case(entry["dir"], os.path.join(nets, entry["dir"], "open.onnx"), os.path.join(nets, entry["dir"]),
                       "default",
                       os.path.join(work, "cases", "dynamic", entry["dir"]),
                       shapes=[(i["name"], i["shape"]) for i in entry["inputs"]])
                  for entry in entries if any(fnmatch.fnmatchcase(entry["name"], pattern) for pattern in DYNAMIC)]
    cases += [Case(entry["dir"], os.path.join(nets, entry["dir"], "model.onnx"), os.path.join(nets, entry["dir"]),
                   sizes[-1], os.path.join(work, "cases", "cores", entry["dir"]), cores=2)
              for entry in entries if any(fnmatch.fnmatchcase(entry["name"], pattern) for pattern in TWO_CORES)]
    cases += [Case(entry["dir"], os.path.join(nets, entry["dir"], "model.onnx"), os.path.join(nets, entry["dir"]),
                   sizes[0], os.path.join(work, "cases", reals, entry["dir"]), reals=reals)
              for reals in HALF
              for entry in entries if any(fnmatch.fnmatchcase(entry["name"], pattern) for pattern in TWO_CORES)]
    return cases


def shared_cases(work, models, only, sizes):
    """Trained networks, a case for each reference."""
    cases = []
    for model in SHARED + list(QUANTIZED):
        onnx = os.path.join(models, "models", model + ".onnx")
        if not os.path.exists(onnx):
            sys.exit("run_nets: %s does not exist (NPU_SHARED_MODELS=%s)" % (onnx, models))
        references = sorted(f for f in os.listdir(os.path.join(models, "ref"))
                            if f.startswith(model + "__") and f.endswith(".npz"))
        if not references:
            sys.exit("run_nets: %s/ref has no results for %s" % (models, model))
        for reference in references:
            name = reference[:-len(".npz")]
            if only and not any(fnmatch.fnmatchcase(name, pattern) for pattern in only):
                continue
            directory = os.path.join(work, "shared", name)
            checked([sys.executable, os.path.join(ORACLE, "shared_case.py"), os.path.join(models, "ref", reference),
                     onnx,
                     directory])
            cases += [Case(name, onnx, directory, size, os.path.join(work, "cases", size, name),
                           True, step=QUANTIZED.get(model)) for size in sizes]
    return cases


def shape_arguments(shapes, more=0):
    """--shape for each input; `more` is added to the dimensions that are not channels."""
    for name, shape in shapes:
        larger = [d + more if axis != 1 or len(shape) < 3 else d for axis, d in enumerate(shape)]
        yield from ("--shape", "%s=%s" % (name, ",".join(str(d) for d in larger)))


def npuc(case, bin_dir, arguments, name):
    """Compiles; returns npuc's prediction, or None with the case's failure."""
    path = os.path.join(case.directory, name)
    code, output = run([os.path.join(bin_dir, "npuc"), case.onnx, "-o", path] + list(arguments))
    case.output = output
    if code:
        case.failure = "npuc ended with status %d: %s" % (code, last_line(output))
        return None
    return predicted_cycles(path)


def compile_case(case, bin_dir):
    """The context directory of a case, complete."""
    os.makedirs(case.directory, exist_ok=True)
    for name in ("input_ref_data.dat", "output_ref_data.dat"):
        shutil.copy(os.path.join(case.reference, name), case.directory)
    arguments = [] if case.size == "default" else ["--lmem", case.size]
    if case.cores > 1:
        arguments += ["--cores", str(case.cores), "--all-cores"]
    if case.reals:
        arguments += ["--reals", case.reals]
    if case.shapes:
        case.predicted = npuc(case, bin_dir, shape_arguments(case.shapes), "static.bmodel")
        arguments = [*shape_arguments(case.shapes, 3), "--dynamic"]
    cycles = npuc(case, bin_dir, arguments, "compilation.bmodel")
    if not case.shapes:
        case.predicted = cycles


def accuracy(case):
    """The largest difference, as a part of the largest result."""
    if case.step is None:
        return HALF.get(case.reals, ACCURACY)
    expected = np.fromfile(os.path.join(case.reference, "output_ref_data.dat"), "<f4")
    return repr(1.001 * case.step / float(np.abs(expected).max()))


def test_command(program, case, directory):
    shapes = ",".join(str(list(shape)).replace(" ", "") for _, shape in case.shapes or [])
    return [program, "--context_dir", directory, "--accuracy_f", accuracy(case), "--export_output"] + (
        ["--net_idx", "0", "--shapes", shapes] if shapes else [])


def predicted_cycles(path):
    """The predictions in the program headers of a bmodel (runtime/bmodel/program.h), together: a network may have
    several programs, or none."""
    with open(path, "rb") as file:
        data = file.read()
    cycles, at = 0, -1
    while (at := data.find(b"QPRG" + struct.pack("<HH", 1, 128), at + 1)) >= 0:
        cycles += struct.unpack_from("<Q", data, at + 24)[0]
    return cycles


def judge(case, code, output):
    """Takes a test's exit code and output over into the case."""
    case.output = output
    if code:
        case.failure = "bmrt_test ended with status %d: %s" % (code, last_line(output))
        return
    if "cmp success" not in output:
        case.failure = "bmrt_test compared nothing: %s" % last_line(output)
        return
    if "modelled cycles %d " % case.predicted not in output:
        case.failure = "npuc predicted %d cycles: %s" % (
            case.predicted, next((line for line in output.splitlines() if "modelled cycles" in line),
                                 "no cycles printed"))
    elif case.same_class:
        got, expected = (np.fromfile(os.path.join(case.directory, name), "<f4") for name in (EXPORTED,
                                                                                             "output_ref_data.dat"))
        if got.argmax() != expected.argmax():
            case.failure = "class %d, expected %d" % (got.argmax(), expected.argmax())


def run_in_process(case, bin_dir):
    """On the chip model, with the local memory that the network was compiled for and under the race detector."""
    environment = {"NPU_DEVICE": os.environ.get("NPU_DEVICE", "sim")}
    options = [o for o in os.environ.get("NPU_SIM", "").split(",") if o and not o.startswith(("lmem=", "check="))]
    if case.size != "default":
        options.append("lmem=" + case.size)
    environment["NPU_SIM"] = ",".join(options + ["check=races"])
    judge(case, *run(test_command(os.path.join(bin_dir, "bmrt_test"), case, case.directory), environment))


def write_guest_script(cases, work):
    """work/run.sh runs every case on the board; results go to files beside it."""
    with open(os.path.join(work, "run.sh"), "w", encoding="utf-8") as file:
        file.write('cd "$(dirname "$0")" || exit 1\n')
        for case in cases:
            inside = os.path.relpath(case.directory, work)
            command = " ".join(shlex.quote(word) for word in test_command("bmrt_test", case, inside))
            file.write("%s > %s/log 2>&1; echo $? > %s/status\n" % (command, shlex.quote(inside), shlex.quote(inside)))


def judge_guest(cases):
    """Reads what the script has left."""
    for case in cases:
        try:
            with open(os.path.join(case.directory, "status"), encoding="utf-8") as file:
                code = int(file.read())
            with open(os.path.join(case.directory, "log"), encoding="utf-8", errors="replace") as file:
                judge(case, code, file.read())
        except (OSError, ValueError):
            case.failure = "was not run on the board"


def run_in_guest(cases, work, kind):
    """All cases in one boot; returns npu-vm's status, which is not 0 either if the kernel warned."""
    write_guest_script(cases, work)
    limit = 600 + 4 * len(cases)
    status = subprocess.run([os.path.join(TOP, "tools", "npu-vm"), "--board", kind, "--share", work,
                             "--timeout", str(limit), "--env", "NPU_DEVICE=drm", "--", "sh", "/mnt/share/run.sh"],
                            check=False).returncode
    judge_guest(cases)
    return status


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    level = parser.add_mutually_exclusive_group()
    level.add_argument("--quick", action="store_const", dest="level", const="quick",
                       help="about 60 networks (the default)")
    level.add_argument("--full", action="store_const", dest="level", const="full", help="about 300")
    parser.add_argument("--lmem", default=DEFAULT_SIZES, metavar="SIZES",
                        help="sizes of local memory in bytes, separated by commas (default: %s)" % DEFAULT_SIZES)
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="names to take, may be repeated")
    parser.add_argument("--case", metavar="NAME", help="only the case with this whole name")
    parser.add_argument("--guest", action="store_true", help="run on an emulated board")
    parser.add_argument("--board", default="pc", metavar="NAME", help="which one (of tools/npu-vm; default: pc)")
    parser.add_argument("--bin", default=os.path.join(BUILD, "bin"), metavar="DIR",
                        help="where npuc and bmrt_test are")
    parser.add_argument("--keep", metavar="DIR", help="work in DIR and leave everything there")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N")
    options = parser.parse_args(arguments)
    options.sizes = options.lmem.split(",")
    for size in options.sizes:
        if size != "default" and not size.isdigit():
            parser.error("--lmem %s: expected numbers of bytes or the word default" % options.lmem)
    return options


def prepared(options, work):
    """All cases, compiled; those that npuc refuses have their failure."""
    cases = generated_cases(work, options.level or "quick", options.only, options.sizes)
    models = os.environ.get("NPU_SHARED_MODELS")
    if models:
        cases += shared_cases(work, models, options.only, options.sizes)
    else:
        print("NPU_SHARED_MODELS is not set: no trained networks")
    if options.guest and not boards.BOARDS[options.board].architecture.compiler:
        print("no dynamic networks: the board %s has no compiler" % options.board)
        cases = [case for case in cases if not case.shapes]
    if options.case:
        cases = [case for case in cases if case.name == options.case]
    if not cases:
        sys.exit("run_nets: no network has such a name")
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda case: compile_case(case, options.bin), cases))
    return cases


def repeat_command(case, options):
    """The command that repeats one case."""
    network = os.path.basename(os.path.dirname(case.onnx)) if case.onnx.endswith(("/model.onnx", "/open.onnx")) \
        else case.name.partition(" (")[0]
    words = ["tests/conformance/run_nets.py", "--" + (options.level or "quick"), "--only", network, "--lmem",
             ",".join(options.sizes), "--case", case.name]
    if options.guest:
        words += ["--guest"] + (["--board", options.board] if options.board != "pc" else [])
    return " ".join(shlex.quote(word) for word in words)


def failures(cases, options):
    """[(name, log, command that repeats it)]; the logs are written."""
    found = []
    for case in cases:
        if not case.failure:
            continue
        os.makedirs(LOGS, exist_ok=True)
        log = os.path.join(LOGS, re.sub(r"\W+", "-", case.name).strip("-") + ".log")
        with open(log, "w", encoding="utf-8") as file:
            file.write("%s\n%s\n" % (case.failure, case.output))
        found.append((case.name, log, repeat_command(case, options)))
    return found


def report(cases, options, board=0):
    """Prints what failed; returns the program's exit status. `board` is that of npu-vm."""
    for case in cases:
        if case.failure:
            print("%s: %s" % (case.name, case.failure))
    failed = failures(cases, options)
    for name, log, command in failed[:8]:
        print("failed: %s (log %s): %s" % (name, log, command))
    if board:
        print("the board ended with status %d" % board)
    # A board that failed has failed, even if every case passed.
    bad = len(failed) or (1 if board else 0)
    print("%d passed, %d failed" % (len(cases) - len(failed), bad))
    return 1 if bad else 0


def conform(options, work):
    """Returns the program's exit status."""
    cases = prepared(options, work)
    compiled = [case for case in cases if not case.failure]
    board = 0
    if not options.guest:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(lambda case: run_in_process(case, options.bin), compiled))
    elif compiled:
        board = run_in_guest(compiled, work, options.board)
    return report(cases, options, board)


def main():
    options = parse()
    for program in ("npuc", "bmrt_test"):
        if not os.access(os.path.join(options.bin, program), os.X_OK):
            sys.exit("run_nets: %s/%s does not exist: build first, or give --bin" % (options.bin, program))
    if options.keep:
        os.makedirs(options.keep, exist_ok=True)
        return conform(options, os.path.realpath(options.keep))
    with tempfile.TemporaryDirectory(prefix="npu-nets-") as work:
        return conform(options, work)


if __name__ == "__main__":
    sys.exit(main())
