# SPDX-License-Identifier: MIT
"""Measures models: latency, throughput, and what the chip's model says.

    python3 -m qnpu.bench digits.bmodel --threads 4
    python3 -m qnpu.bench a.bmodel b.onnx --csv
    python3 -m qnpu.bench b.onnx --shape x=1,3,224,224 --cores 2

Times are those of the host, which on an emulated chip plays the chip; cycles are the chip's, and the same everywhere.
"""
from __future__ import annotations

import argparse
import asyncio
import csv
import io
import json
import os
import sys
import threading
import time
from typing import Any, Dict, List, NoReturn, Optional

import numpy as np

from ._native import Error
from .compiler import OPTIONS, REPEATED, PathLike
from .session import NetworkInfo, Session

_PERCENTILES = (50, 90, 95, 99)


def random_inputs(net: NetworkInfo, stage: int = 0, seed: int = 0) -> Dict[str, "np.ndarray[Any, Any]"]:
    """Arrays for a network's inputs: numbers from 0 to 1, integers 0 and 1 (so that indices exist)."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for info in net.inputs:
        shape = info.shapes[stage]
        if info.dtype.startswith("float"):
            arrays[info.name] = np.asarray(rng.random(shape)).astype(info.dtype)
        elif info.dtype == "bfloat16":
            arrays[info.name] = (np.asarray(rng.random(shape), np.float32).view(np.uint32) >> 16).astype(np.uint16)
        else:
            arrays[info.name] = np.asarray(rng.integers(0, 2, shape)).astype(info.dtype)
    return arrays


class _Measured:
    """Latencies of launches, in seconds, from any number of threads."""

    def __init__(self, session: Session, net: NetworkInfo, feeds: Dict[str, Any], runs: int) -> None:
        self.session, self.net, self.feeds = session, net, feeds
        self.left = runs
        self.mutex = threading.Lock()
        self.latencies: List[float] = []
        self.failure: Optional[Exception] = None
        self.cycles = 0

    def take(self) -> bool:
        """Whether there is another launch to be made."""
        with self.mutex:
            self.left -= 1
            return self.left >= 0 and self.failure is None

    def add(self, latency: float, cycles: int) -> None:
        """A launch has ended."""
        with self.mutex:
            self.latencies.append(latency)
            self.cycles = cycles

    def thread(self) -> None:
        """Launch after launch."""
        while self.take():
            begin = time.perf_counter()
            try:
                cycles = self.session.run(self.feeds, network=self.net.name).cycles
            except Exception as error:  # pylint: disable=broad-exception-caught  # raised by by_threads()
                self.failure = error
                return
            self.add(time.perf_counter() - begin, cycles)

    async def task(self) -> None:
        """The same for an event loop."""
        while self.take():
            begin = time.perf_counter()
            cycles = (await self.session.run_async(self.feeds, network=self.net.name)).cycles
            self.add(time.perf_counter() - begin, cycles)

    def by_threads(self, count: int) -> float:
        """Seconds for all launches."""
        threads = [threading.Thread(target=self.thread) for _ in range(count)]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failure is not None:
            raise self.failure
        return time.perf_counter() - begin

    def by_tasks(self, count: int) -> float:
        """Likewise, in one thread."""
        async def all_of_them() -> None:
            await asyncio.gather(*(self.task() for _ in range(count)))

        begin = time.perf_counter()
        asyncio.run(all_of_them())
        return time.perf_counter() - begin


def measure(session: Session, *, network: Optional[str] = None, stage: int = 0,
            inputs: Optional[Dict[str, Any]] = None, runs: int = 100, warmup: int = 5, threads: int = 1,
            asynchronous: bool = False) -> Dict[str, Any]:
    """Launches a network `runs` times, by so many threads (or tasks of an event loop) at once.

    Returns network, stage, shapes (of the inputs, as "1x3x8x8"), batch, runs, threads, mode; latency_ms: min, mean,
    p50, p90, p95, p99, max; throughput: launches a second, and items (batch times that); cycles: modelled cycles of a
    launch; modelled: latency_ms and throughput of one launch after another at the nominal clock.
    """
    for name, value, least in (("runs", runs, 1), ("warmup", warmup, 0), ("threads", threads, 1)):
        if value < least:
            raise Error(f"{name}: {value}, at least {least} is expected")
    net = session.network(network)
    if not 0 <= stage < net.stages:
        raise Error(f"network '{net.name}': stage {stage}, expected 0 to {net.stages - 1}")
    feeds = random_inputs(net, stage) if inputs is None else inputs
    for _ in range(warmup):
        session.run(feeds, network=net.name)
    measured = _Measured(session, net, feeds, runs)
    seconds = measured.by_tasks(threads) if asynchronous else measured.by_threads(threads)
    times = np.asarray(measured.latencies) * 1e3
    latency = {"min": times.min(), "mean": times.mean(), "max": times.max()}
    latency.update((f"p{p}", np.percentile(times, p)) for p in _PERCENTILES)
    shape = np.shape(feeds[net.inputs[0].name]) if net.inputs else ()
    batch = int(shape[0]) if shape else 1
    chip_ms = measured.cycles / session.device.info()["clock_khz"]
    return {
        "network": net.name, "stage": stage,
        "shapes": " ".join("x".join(map(str, np.shape(feeds[info.name]))) for info in net.inputs),
        "batch": batch, "runs": len(times), "threads": threads, "mode": "async" if asynchronous else "sync",
        "latency_ms": {name: float(value) for name, value in latency.items()},
        "throughput": {"launches": len(times) / seconds, "items": batch * len(times) / seconds},
        "cycles": measured.cycles,
        "modelled": {"latency_ms": chip_ms, "launches": 1e3 / chip_ms if chip_ms else 0.0},
    }


def bench(path: PathLike, *, device: int = 0, network: Optional[str] = None, compile_options: Optional[Dict[str, Any]]
          = None, **how: Any) -> List[Dict[str, Any]]:
    """Measures the networks of a file (or one of them), all stages; `how` as for measure()."""
    results = []
    with Session(path, device=device, **(compile_options or {})) as session:
        for name in session.networks if network is None else (network,):
            for stage in range(session.network(name).stages):
                results.append({"model": os.fspath(path), "transport": session.device.info()["transport"],
                                **measure(session, network=name, stage=stage, **how)})
    return results


_COLUMNS = (("model", "{model}"), ("network", "{network}"), ("stage", "{stage}"), ("batch", "{batch}"),
            ("p50 ms", "{latency_ms[p50]:.3f}"), ("p99 ms", "{latency_ms[p99]:.3f}"),
            ("launches/s", "{throughput[launches]:.1f}"), ("cycles", "{cycles}"),
            ("chip ms", "{modelled[latency_ms]:.4f}"))


def table(results: List[Dict[str, Any]]) -> str:
    """Results for people."""
    rows = [[title for title, _ in _COLUMNS]]
    rows += [[form.format_map(result) for _, form in _COLUMNS] for result in results]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def lines(results: List[Dict[str, Any]]) -> str:
    """Results for programs that read tables: a line of names, then one for each result, all of its values."""
    def flat(result: Dict[str, Any]) -> Dict[str, Any]:
        row: Dict[str, Any] = {}
        for name, value in result.items():
            row.update({f"{name}_{key}": v for key, v in value.items()} if isinstance(value, dict) else {name: value})
        return row

    text = io.StringIO()
    writer = csv.DictWriter(text, flat(results[0]) if results else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat(result) for result in results)
    return text.getvalue().rstrip("\n")


class _Parser(argparse.ArgumentParser):
    """Prints one line for a wrong command line, which begins with the program's name."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"qnpu.bench: {message}; see {self.prog} --help\n")


def _add_compile_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("compile options", "of models in ONNX, as npuc has them (npuc --help, man npuc)")
    for name, value in OPTIONS.items():  # also --verify: then a wrong network is not measured
        if value == "True":
            group.add_argument(f"--{name}", action="store_true")
        else:
            group.add_argument(f"--{name}", action="append" if name in REPEATED else "store", metavar="VALUE")


def _compile_options(args: argparse.Namespace) -> Dict[str, Any]:
    values = {name.replace("-", "_"): getattr(args, name.replace("-", "_")) for name in OPTIONS}
    return {name: value for name, value in values.items() if value}


def main(arguments: Optional[List[str]] = None) -> int:
    """The program."""
    parser = _Parser(prog="python3 -m qnpu.bench", description="Measures models on the NPU.")
    parser.add_argument("models", nargs="+", metavar="MODEL", help=".bmodel, or .onnx, which is compiled first")
    parser.add_argument("--device", type=int, default=0, help="its number (0)")
    parser.add_argument("--network", help="only this network of a model")
    parser.add_argument("--runs", type=int, default=100, help="launches that are measured (100)")
    parser.add_argument("--warmup", type=int, default=5, help="launches before (5)")
    parser.add_argument("--threads", type=int, default=1, help="that launch side by side (1)")
    parser.add_argument("--async", dest="asynchronous", action="store_true",
                        help="tasks of one event loop instead of threads")
    _add_compile_options(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="a list of objects instead of a table")
    form.add_argument("--csv", action="store_true", help="lines of comma-separated values instead")
    args = parser.parse_args(arguments)
    results = []
    try:
        for path in args.models:
            results += bench(path, device=args.device, network=args.network, compile_options=_compile_options(args),
                             runs=args.runs, warmup=args.warmup, threads=args.threads,
                             asynchronous=args.asynchronous)
    except Error as error:
        print(f"qnpu.bench: {error}", file=sys.stderr)
        return 1
    print(json.dumps(results, indent=2) if args.json else lines(results) if args.csv else table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
