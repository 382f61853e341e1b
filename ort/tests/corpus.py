#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs networks under ONNX Runtime with the plug-in, and compares with ONNX Runtime's own CPU provider.

corpus.py [--build DIR] [--runtime VERSION]... [--seeds FIRST-LAST] [--quantized FIRST-LAST] [--onnx]
          [--folder DIR]... [--every N] [--all] [--least-npu N] [--most-skipped N]

Without options: ONNX's own tests (Debian's libonnx-testdata), random networks of the seeds 1 to 400, and the network of
networks/digits, with each version of ONNX Runtime that scripts/onnxruntime.sh has. --seeds, --quantized, --onnx and
--folder choose. --folder takes folders that have folders as ONNX's tests are. --quantized takes seeds of quantized
networks: a NaN that is quantized there may be another number than ONNX Runtime's.

Prints each network with another result than the CPU's, and counts; --all prints every network. A process that does not
reach its end counts as wrong, too. --least-npu and --most-skipped are limits for each version: without them a plug-in
that takes nothing is right. Status 0 if nothing is wrong.
"""

import argparse
import collections
import concurrent.futures
import glob
import os
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ONNX_TESTS = "/usr/share/libonnx-testdata/data"
RANDOM = "bernoulli"  # in the names of tests whose results are random numbers
SUITES = ("node", "pytorch-converted", "pytorch-operator", "simple")
BATCH = 20  # networks of one process
SECONDS = 1200  # after which a process hangs


def environment(build):
    """{version: (program, environment)}"""
    path = subprocess.run([os.path.join(TOP, "scripts/onnxruntime.sh"), "--env"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout.strip()
    with open(path, encoding="utf-8") as lines:
        values = dict(line.rstrip("\n").split("=", 1) for line in lines)
    common = {**os.environ, "NPU_DEVICE": "sim", "NPU_QUIET": "1"}
    programs = os.path.join(build, "bin")
    return {"1.23": (programs + "/ort_corpus_test", {**common, "LD_LIBRARY_PATH": values["ORT_PROVIDERS"]}),
            "newer": (programs + "/ort_corpus_newer_test", common)}


def run_batch(program, env, plugin, work, folders):
    """[(folder, verdict, text)]; a process that ends in the middle is that network's verdict, and one that ends badly
    after its last network is the verdict of that one."""
    results, left = [], list(folders)
    while left:
        try:
            done = subprocess.run([program, plugin, work, *left], env=env, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=SECONDS, check=False)
            status, output = done.returncode, done.stdout
        except subprocess.TimeoutExpired as expired:
            status, output = "no end", expired.stdout or b""
        begun, ended = None, False
        for line in output.decode(errors="replace").splitlines():
            verdict, _, text = line.partition(" ")
            if verdict == "begin":
                begun = text
            elif begun and verdict in ("right", "wrong", "skipped"):
                results.append((begun, verdict, text))
                begun = None
            ended = ended or verdict == "end"
        known = {folder for folder, _, _ in results}
        rest = [folder for folder in left if folder not in known]
        if rest or not ended or status not in (0, 1):
            tail = output.decode(errors="replace").strip().splitlines()[-1:]
            # After the last network: closing the sessions, the plug-in and the runtime.
            blamed = begun or rest[0] if rest else left[-1]
            results = [result for result in results if result[0] != blamed]
            results.append((blamed, "wrong", f"the process ended: {status} {tail}"))
            rest = [folder for folder in rest if folder != blamed]
        left = rest
    return results


def random_networks(build, seeds, work, quantized):
    first, last = (int(n) for n in seeds.split("-"))
    folder = os.path.join(work, "quantized" if quantized else "random")
    subprocess.run([os.path.join(build, "bin/fuzz_nets"), "--seeds", f"{first}-{last}", "--save", folder,
                    *(["--quantized"] if quantized else [])], check=True)
    return sorted(glob.glob(folder + "/*"))


def digits(work):
    folder = os.path.join(work, "digits")
    os.mkdir(folder)
    os.symlink(os.path.join(TOP, "networks/digits/digits.onnx"), os.path.join(folder, "model.onnx"))
    return [folder]


def folders_of(arguments, work):
    chosen = arguments.seeds or arguments.onnx or arguments.folder or arguments.quantized
    found = []
    if arguments.onnx or not chosen:
        tests = [path for suite in SUITES for path in sorted(glob.glob(f"{ONNX_TESTS}/{suite}/*"))]
        found += [path for path in tests if RANDOM not in path]
    if arguments.seeds or not chosen:
        found += random_networks(arguments.build, arguments.seeds or "1-400", work, False)
    if arguments.quantized:
        found += random_networks(arguments.build, arguments.quantized, work, True)
    if not chosen:
        found += digits(work)
    for folder in arguments.folder:
        found += sorted(os.path.dirname(path) for path in glob.glob(folder + "/*/model.onnx"))
    return found


def report(version, results, arguments):
    """Prints the results of a version; returns how many are wrong, where a limit that is missed counts as one."""
    counts = collections.Counter()
    for folder, verdict, text in sorted(results):
        counts[verdict + (" on the " + text.upper() if verdict == "right" else "")] += 1
        if verdict == "wrong" or arguments.all:
            print(f"{version} {folder}: {verdict}: {text}")
    print(f"ONNX Runtime {version}: {len(results)} networks: " + ", ".join(f"{n} {what}"
                                                                            for what, n in sorted(counts.items())))
    wrong = counts["wrong"]
    for what, found, missed in (
            (f"at least {arguments.least_npu} right on the NPU", counts["right on the NPU"],
             counts["right on the NPU"] < arguments.least_npu),
            (f"at most {arguments.most_skipped} skipped", counts["skipped"],
             arguments.most_skipped is not None and counts["skipped"] > arguments.most_skipped)):
        if missed:
            print(f"ONNX Runtime {version}: {found} found, expected {what}; --all shows each network")
            wrong += 1
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.environ.get("NPU_BUILD", os.path.join(TOP, "build")))
    parser.add_argument("--runtime", action="append", choices=["1.23", "newer"])
    parser.add_argument("--seeds", metavar="FIRST-LAST")
    parser.add_argument("--quantized", metavar="FIRST-LAST", help="seeds of quantized networks")
    parser.add_argument("--onnx", action="store_true")
    parser.add_argument("--folder", action="append", default=[])
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each Nth network")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--least-npu", type=int, default=0, metavar="N", help="right on the NPU")
    parser.add_argument("--most-skipped", type=int, metavar="N")
    arguments = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as work, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        folders = folders_of(arguments, work)[::arguments.every]
        if not folders:
            sys.exit("corpus: no networks")
        batches = [folders[i:i + BATCH] for i in range(0, len(folders), BATCH)]
        plugin = os.path.join(arguments.build, "lib/libqnpu_ep.so")
        for version, (program, env) in environment(arguments.build).items():
            if version in (arguments.runtime or [version]):
                done = pool.map(lambda batch, p=program, e=env: run_batch(p, e, plugin, work, batch), batches)
                wrong += report(version, [result for results in done for result in results], arguments)
    print(f"{'nothing' if not wrong else wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
