#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Times whole inferences on the NPU against ONNX Runtime on the host, in pairs.

usage: networks.py [OPTION...] [FILE.onnx|FOLDER...]

Runs the networks of zoo.py, or the files that are named, by the runtime on the simulated card in a process of the host
(sim) and on an emulated board through the driver (guest), each in turn with ONNX Runtime with one thread and with two,
and prints median, best and worst of the ratios of their times. An inference begins and ends in the host's memory. The
results are compared before anything is timed. A busy host moves these figures, so they decide about no test; the status
is 1 where something could not be run, or its results differ. docs/develop/benchmarks.md says how to install ONNX
Runtime, and how to read the tables.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(TOP, "tests", "oracle"))

# pylint: disable=wrong-import-position
import numpy as np  # noqa: E402

import onnx_reader  # noqa: E402
import trace_jobs  # noqa: E402
import turns  # noqa: E402
import zoo  # noqa: E402

BUILD = os.path.realpath(os.environ.get("NPU_BUILD", os.path.join(TOP, "build")))
BIN = os.path.join(BUILD, "bin")
PROGRAM = os.path.join(BIN, "tests", "guest", "net_time")
PEER_THREADS = (1, 2)
PARTS = ("write", "launch", "wait", "read")
# What the worst pair may be, by the peer's time of an inference.
LARGE_US, LARGE_AIM, SMALL_AIM = 3000, 1.0, 1.5
TWO_CORES_AIM = 0.6  # of large networks, against one thread
# What a .bmodel has where the file has another type.
NARROWED = {"int64": "int32", "uint64": "uint32", "bool": "uint8", "float64": "float32", "float16": "float32"}
MEMORY = "ddr=2G"  # of the card; the weights of vgg19 do not fit into what it has by default
REST_S = 0.05  # between two samples, for threads that spin a while before they sleep


class Failed(Exception):
    """A network that cannot be measured; the text says why."""


def open_batch(value):
    """Whether the file leaves an input's first dimension open."""
    return bool(value.shape) and not isinstance(value.shape[0], int)


def batches(path, wanted):
    """Those that a file can have: the wanted ones, or the one that it has."""
    inputs = onnx_reader.load_inputs(path)
    if any(open_batch(value) for value in inputs):
        return wanted
    return [inputs[0].shape[0] if inputs and inputs[0].shape else 1]


class Net:
    """A network with one batch, its files in a folder that all workers have as their own."""

    def __init__(self, onnx, batch, folder):
        self.onnx, self.batch, self.folder = onnx, batch, folder
        self.name = os.path.splitext(os.path.basename(onnx))[0]
        self.inputs, self.shapes = [], []
        for value in onnx_reader.load_inputs(onnx):
            if value.shape is None or any(not isinstance(d, int) for d in value.shape[1:]):
                raise Failed(f"input {value.name}: dimensions are open besides that of the batch")
            dims = list(value.shape)
            if open_batch(value):
                dims[0] = batch
                self.shapes += ["--shape", f"{value.name}={','.join(map(str, dims))}"]
            self.inputs.append({"name": value.name, "type": value.dtype, "dims": dims})

    def compile(self, cores):
        command = [os.path.join(BIN, "npuc"), self.onnx, "-o", os.path.join(self.folder, "net.bmodel"), "-q",
                   *self.shapes, *(["--cores", str(cores)] if cores > 1 else [])]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise Failed(done.stderr.strip() or f"npuc ended with status {done.returncode}")

    def write_inputs(self):
        """The same random numbers for both, in the types that each has; 0 and 1 as integers."""
        random = np.random.RandomState(1)
        with open(self._path("in.peer"), "wb") as peer, open(self._path("in"), "wb") as mine:
            for tensor in self.inputs:
                values = random.uniform(-1, 1, tensor["dims"])
                if not tensor["type"].startswith("float"):
                    values = values > 0
                peer.write(values.astype(tensor["type"]).tobytes())
                mine.write(values.astype(NARROWED.get(tensor["type"], tensor["type"])).tobytes())

    def peer_load(self):
        return "load " + json.dumps({"model": os.path.abspath(self.onnx), "inputs": self.inputs, "data": "in.peer",
                                     "outputs": "out.peer"})

    def compare(self, output, types, tolerance):
        """Raises Failed where a result differs from the peer's, whose outputs are types: ["TYPE:ELEMENTS"...], by more
        than that part of its largest element."""
        with open(self._path(output), "rb") as mine, open(self._path("out.peer"), "rb") as peer:
            mine, peer = mine.read(), peer.read()
        at = peer_at = 0
        for number, (kind, elements) in enumerate(word.split(":") for word in types):
            own = np.dtype(NARROWED.get(kind, kind))
            end = at + int(elements) * own.itemsize
            if end > len(mine):
                raise Failed(f"output {number}: {elements} elements of ONNX Runtime, and fewer here")
            a = np.frombuffer(mine[at:end], own).astype(float)
            b = np.frombuffer(peer, kind, int(elements), peer_at).astype(float)
            difference = np.abs(a - b).max(initial=0)
            if not difference <= tolerance * np.abs(b).max(initial=0):
                raise Failed(f"output {number} differs from ONNX Runtime's by {difference:g} of {np.abs(b).max():g}")
            at, peer_at = end, peer_at + b.size * np.dtype(kind).itemsize
        if at != len(mine):
            raise Failed(f"{len(mine) - at} bytes of outputs that ONNX Runtime does not have")

    def _path(self, name):
        return os.path.join(self.folder, name)


class Side:
    """A worker, and how many inferences one sample of it has."""

    def __init__(self, worker, seconds):
        self.worker, self.seconds = worker, seconds
        self.times = 0
        self.rate = 1.0  # of its clock, to the host's

    def load(self, line):
        """(microseconds of load and first inference together, the answer's other words)."""
        words = self.worker.ask(line)
        return (float(words[0]) + float(words[1])) / self.rate, words[2:]

    def warm_up(self):
        """Finds how many inferences last as long as a sample shall."""
        us = float(self.worker.ask("time 2")[0]) / self.rate
        self.times = int(min(max(self.seconds * 1e6 / us, 3), 2000))
        self.worker.ask(f"time {max(self.times // 2, 1)}")

    def sample(self):
        """Microseconds of one inference, and of its parts."""
        time.sleep(REST_S)
        return [float(word) / self.rate for word in self.worker.ask(f"time {self.times}")]

    def end(self):
        try:
            self.worker.end()
        except turns.Ended as problem:
            turns.progress(f"networks.py: {problem}")


class Card(Side):
    """Our side; `place` is where: sim or guest."""

    def __init__(self, place, folder, options):
        self.place = place
        self.trace = None
        if place == "sim":
            environment = {"NPU_SIM": MEMORY, **os.environ, "NPU_DEVICE": "sim", "NPU_QUIET": "1"}
            worker = turns.Worker(PROGRAM, cwd=folder, env=environment)
        else:
            self.trace = trace_jobs.Trace()
            board = ["--share", folder, "--timeout", "86400", "--env", "NPU_DEVICE=drm", "--device", MEMORY]
            worker = turns.Worker(os.path.join(TOP, "tools", "npu-vm"), *board, *self.trace.arguments(), *options.vm,
                                  "--", PROGRAM)
        super().__init__(worker, options.seconds)
        self.clock = None

    def load(self, line):
        if self.place == "guest":
            self.clock = self.clock or turns.Clock(self.worker)
            self.rate = self.clock.rate()
        return super().load(line)

    def parts(self):
        """Microseconds of an inference by parts; on the board also those for which it has a core of the chip."""
        if not self.trace:
            return dict(zip(PARTS, self.sample()[1:]))
        with self.trace.recorded() as text:
            parts = dict(zip(PARTS, self.sample()[1:]))
        return {**parts, "chip": trace_jobs.busy_us(text[0]) / self.times}

    def end(self):
        super().end()
        if self.trace:
            self.trace.close()


def measure(net, cards, peers, options):
    """A result a card. cards: [Card]; peers: {threads: Side}, may be empty."""
    firsts = {}
    for threads, peer in peers.items():
        firsts[f"peer {threads}"], types = peer.load(net.peer_load())
        peer.warm_up()
    for card in cards:
        output = f"out.{card.place}"
        firsts[card.place], _ = card.load(f"load net.bmodel in {output}")
        if peers:
            net.compare(output, types, options.tolerance)
    for card in cards:
        turns.progress(f"{net.name}, batch {net.batch}: {card.place}")
        card.warm_up()
        samples = {"mine": [], **{threads: [] for threads in peers}}
        sides = [("mine", card), *peers.items()]
        for turn in range(options.pairs):
            for key, side in sides if turn % 2 == 0 else reversed(sides):
                samples[key].append(side.sample())
        yield {"network": net.name, "batch": net.batch, "card": card.place, "first_us": firsts,
               "us": [sample[0] for sample in samples["mine"]],
               "parts_us": card.parts(), "clock_rate": card.rate, "cores": options.cores,
               "peer_us": {threads: [sample[0] for sample in samples[threads]] for threads in peers}}


# ---- what is run

def files(names):
    """The .onnx files among files and folders."""
    for name in names:
        if not os.path.isdir(name):
            yield name
            continue
        for folder, _, found in sorted(os.walk(name)):
            yield from (os.path.join(folder, file) for file in sorted(found) if file.endswith(".onnx"))


def networks(options, folder):
    """(name, batch, function that makes the file); where a file cannot be read, that function says so."""
    for path in files(options.network):
        name = os.path.splitext(os.path.basename(path))[0]
        try:
            found = batches(path, options.batch)
        except (onnx_reader.OnnxError, OSError):
            found = options.batch[:1]
        for batch in found:
            yield name, batch, lambda path=path: path
    for name in [] if options.network else options.only or small(options):
        for batch in options.batch:
            yield name, batch, lambda name=name, batch=batch: zoo.write(name, folder, batch)


def small(options):
    return [name for name in zoo.NETWORKS if options.all or name not in zoo.LARGE]


class Workers:
    """Those of one run; made anew when one has ended."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.cards, self.peers = [], {}

    def __enter__(self):
        return self

    def get(self):
        if not self.cards:
            self.peers = {threads: Side(turns.Worker("node", os.path.join(HERE, "peer.js"), self.options.peer,
                                                     str(threads), cwd=self.folder), self.options.seconds)
                          for threads in (PEER_THREADS if self.options.peer else ())}
            self.cards = [Card(place, self.folder, self.options) for place in self.options.places]
        return self.cards, self.peers

    def end(self):
        sides, self.cards, self.peers = [*self.cards, *self.peers.values()], [], {}
        for side in sides:
            side.end()

    def __exit__(self, *_):
        self.end()


def run(options):
    """(results, [what failed])."""
    results, failed = [], []
    with tempfile.TemporaryDirectory(prefix="npu-bench.") as folder, Workers(options, folder) as workers:
        for name, batch, make in networks(options, folder):
            turns.progress(f"{name}, batch {batch}: npuc")
            try:
                net = Net(make(), batch, folder)
                net.compile(options.cores)
                net.write_inputs()
                results += measure(net, *workers.get(), options)
            except (Failed, onnx_reader.OnnxError, OSError) as problem:
                failed.append(f"{name}, batch {batch}: {problem}")
            except turns.Ended as problem:
                failed.append(f"{name}, batch {batch}: {problem}")
                workers.end()
            if not options.network:  # up to 575 MB
                os.unlink(os.path.join(folder, name + ".onnx"))
    return results, failed


# ---- what is printed

def ms(us):
    return f"{us / 1e3:9.2f}"


def aim(cores, threads, peer_us):
    """None where the sides are not equal."""
    if cores == threads:
        return LARGE_AIM if peer_us > LARGE_US else SMALL_AIM
    return TWO_CORES_AIM if (cores, threads) == (2, 1) and peer_us > LARGE_US else None


def ratio_lines(results):
    yield f"{'network':28} batch {'card':5} {'ms':>9} {'peer ms':>9} threads  {'median':>7} {'best':>7} {'worst':>7}"
    for r in results:
        mine = statistics.median(r["us"])
        head = f"{r['network']:28} {r['batch']:5} {r['card']:5} {ms(mine)}"
        if not r["peer_us"]:
            yield head
        for threads, peer in r["peer_us"].items():
            middle = statistics.median(peer)
            ratios = turns.Ratios(list(zip(r["us"], peer)), aim(r["cores"], threads, middle))
            yield f"{head} {ms(middle)} {threads:7}  {ratios.text()}  {ratios.verdict()}".rstrip()


def first_lines(results):
    names = list(dict.fromkeys(name for r in results for name in r["first_us"]))
    yield f"{'loading and the first inference, ms':26}"
    yield f"{'network':28} batch " + " ".join(f"{name:>9}" for name in names)
    for key in dict.fromkeys((r["network"], r["batch"]) for r in results):
        firsts = next(r["first_us"] for r in results if (r["network"], r["batch"]) == key)
        yield f"{key[0]:28} {key[1]:5} " + " ".join(ms(firsts[name]) for name in names)


def part_lines(results):
    yield "one sample more, ms by parts; chip: a core of the board has the job; rest: launch and wait without that"
    yield f"{'network':28} batch {'card':5} " + " ".join(f"{name:>9}" for name in (*PARTS, "chip", "rest"))
    for r in results:
        parts = r["parts_us"]
        cells = [ms(us) for us in parts.values()]
        cells += [ms(parts["launch"] + parts["wait"] - parts["chip"])] if "chip" in parts else []
        yield f"{r['network']:28} {r['batch']:5} {r['card']:5} " + " ".join(cells)


def report(results, failed, options):
    print(f"inferences on {options.cores} core(s) of the card, {options.pairs} pairs, load {os.getloadavg()[0]:.1f}")
    if not options.peer:
        print("no ONNX Runtime: give its folder by --peer or NPU_PEER (docs/develop/benchmarks.md); "
              "nothing was compared")
    rates = [r["clock_rate"] for r in results if r["card"] == "guest"]
    if rates:
        print(f"the board's clock went {min(rates):.3f} to {max(rates):.3f} times as fast as the host's; "
              "its times are the host's")
    for lines in (ratio_lines, first_lines, part_lines):
        print("\n".join(lines(results)) + "\n")
    for line in failed:
        print(f"not measured: {line}")
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump({"cores": options.cores, "load": os.getloadavg(), "results": results, "failed": failed}, file,
                  indent=1)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("network", nargs="*", help=".onnx files, or folders with them, instead of the zoo")
    add("--only", action="append", choices=list(zoo.NETWORKS), metavar="NAME", help="a network of the zoo; repeatable")
    add("--all", action="store_true", help="the large networks of the zoo, too")
    add("--batch", type=int, action="append", metavar="N", help="repeatable (default: 1 and 8)")
    add("--pairs", type=int, default=5, metavar="N", help="pairs for each ratio (default: 5)")
    add("--seconds", type=float, default=0.3, metavar="S", help="of a sample, at least 3 inferences (default: 0.3)")
    add("--tolerance", type=float, default=1e-3, metavar="X",
        help="right results differ by at most X times the largest element of the output (default: 1e-3)")
    add("--sim", dest="places", action="append_const", const="sim", help="only on the simulated card")
    add("--guest", dest="places", action="append_const", const="guest", help="only on the board")
    add("--cores", type=int, default=1, metavar="N", help="of the card, for one inference: npuc's option (default: 1)")
    add("--peer", default=os.environ.get("NPU_PEER"), metavar="DIR",
        help="folder with node_modules/onnxruntime-node (default: $NPU_PEER)")
    add("--vm", action="append", default=[], metavar="OPTION", help="an option of npu-vm; repeatable")
    add("--json", default=os.path.join(BUILD, "bench", "networks.json"), metavar="FILE")
    options = parser.parse_args()
    if options.network and options.only:
        parser.error("--only chooses from the zoo, and there are files")
    if min([options.pairs, options.cores, *(options.batch or [])]) < 1 or options.seconds <= 0:
        parser.error("--batch, --pairs, --seconds and --cores are above 0")
    options.batch = options.batch or [1, 8]
    options.places = options.places or ["sim", "guest"]
    if options.peer and not os.path.isdir(os.path.join(options.peer, "node_modules", "onnxruntime-node")):
        parser.error(f"--peer {options.peer}: there is no node_modules/onnxruntime-node")
    return options


def main():
    options = parse()
    os.makedirs(os.path.dirname(os.path.abspath(options.json)), exist_ok=True)
    results, failed = run(options)
    report(results, failed, options)
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
