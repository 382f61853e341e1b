#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Measures driver and libraries on an emulated board and prints a table of ratios.

usage: guest.py [--json FILE] [NPU-VM OPTION...]

Every figure is a ratio of two things that were measured in the same run on the same board: absolute times say more
about the host than about the driver. The JSON file (default: build/bench/guest.json) has the plain figures, too.
"""
import argparse
import json
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "oracle"))

from net_builder import Builder  # pylint: disable=wrong-import-position

BENCH = os.path.join(TOP, "build", "bench")
BIN = os.path.join(TOP, "build", "bin")
DISK = ["--module", "nvme", "--qemu-arg", "-drive", "--qemu-arg", "driver=null-co,size=1G,if=none,id=nothing",
        "--qemu-arg", "-device", "--qemu-arg", "nvme,serial=nothing,drive=nothing"]
DEPTHS = (1, 8, 64)
PROCESSES = (1, 4, 16)


def output(what, *command):
    """Standard output of a program that has to work."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{what} ended with status {done.returncode}")
    return done.stdout


def compiled(name, onnx):
    """Path of a network's .bmodel."""
    path = os.path.join(BENCH, name + ".bmodel")
    output("npuc", os.path.join(BIN, "npuc"), onnx, "-o", path)
    return path


def large_network():
    """A network that is hardly more than its 64 MiB of weights."""
    net = Builder("large", 1)
    net.output(net.op("MatMul", net.input([1, 4096]), net.weights([4096, 4096], 4096)))
    path = os.path.join(BENCH, "large.onnx")
    with open(path, "wb") as file:
        file.write(net.graph.serialize())
    return path


def measure(options):
    """All figures by name, as (value, unit). One that is measured twice counts with the smaller value."""
    os.makedirs(BENCH, exist_ok=True)
    models = [compiled("large", large_network()),
              compiled("digits", os.path.join(TOP, "networks", "digits", "digits.onnx"))]
    script = os.path.join(TOP, "tests", "bench", "guest", "run.sh")
    text = output("bench_runtime", os.path.join(BIN, "tests", "guest", "bench_runtime"), "memcpy")
    text += output("the board's run", os.path.join(TOP, "tools", "npu-vm"), "--timeout", "600", *DISK, *options, "--",
                   script, *models)
    figures = {}
    for line in text.splitlines():
        name, value, unit = line.split()
        value = float(value)
        figures[name] = (min(value, figures[name][0]) if name in figures else value, unit)
    return figures


def ratios(figures):
    """Rows of (what, compared with, ratio, aim). An aim is a limit with its direction, or None."""
    value = lambda name: figures[name][0]
    base = value("jobs_ioctl_depth1_processes1")
    rows = [("empty job, submit and wait by ioctl", "interrupt-test register to woken thread",
             value("latency_wait") / value("irq_test"), ("<=", 2)),
            ("empty job, fence page", "interrupt-test register to woken thread",
             value("latency_fence_page") / value("irq_test"), None),
            ("submit ioctl alone", "interrupt-test register to woken thread",
             value("submit_call") / value("irq_test"), None)]
    best = max(value(f"jobs_{way}_depth64_processes1") for way in ("uring", "uring_lazy"))
    rows.append(("jobs a second by io_uring, 64 in flight", "one in flight by ioctl", best / base, (">=", 5)))
    for way in ("ioctl", "batch", "uring", "uring_lazy"):
        for depth in DEPTHS:
            for processes in PROCESSES:
                rows.append((f"jobs a second by {way}, {depth} in flight, {processes} processes",
                             "one in flight by ioctl",
                             value(f"jobs_{way}_depth{depth}_processes{processes}") / base, None))
    for lazy in ("", "_lazy"):
        for depth in DEPTHS:
            rows.append((f"jobs a second by uring{lazy}, {depth} in flight", "NVMe reads a second by the same ring",
                         value(f"jobs_uring{lazy}_depth{depth}_processes1") / value(f"nvme_uring{lazy}_depth{depth}"),
                         None))
    for size in ("4K", "1M", "64M"):
        for place in ("system", "card"):
            rows.append((f"create, map, touch, free {size} of {place} memory", "a memfd of the same size",
                         value(f"bo_{place}_{size}") / value(f"memfd_{size}"), None))
    for name, what in (("s2d", "bm_memcpy_s2d, 64 MiB"), ("d2s", "bm_memcpy_d2s, 64 MiB"),
                       ("d2d", "bm_memcpy_d2d, 64 MiB"),
                       ("pinned_s2d", "to the card from pinned memory, 64 MiB"),
                       ("pinned_d2s", "from the card to pinned memory, 64 MiB"),
                       ("guest_memcpy", "memcpy in the guest, 64 MiB")):
        rows.append((what, "memcpy on the host", value(name) / value("host_memcpy"),
                     (">=", 0.8) if name.startswith("pinned") else None))
    rows.append(("bmrt_create and load, 64 MiB of weights", "read(2) of the file",
                 value("load_model") / value("read_model"),
                 ("<=", 1.2)))
    for way, what in (("mapping", "through its mapping"), ("uring", "with io_uring")):
        rows.append((f"the same, {what}", "read(2) of the file", value(f"load_model_{way}") / value("read_model"),
                     None))
    base = value("launches_depth1_threads1")
    rows.append(("bmrt_launch of digits, launch to sync", "empty job, submit and wait by ioctl",
                 1e6 / base / value("latency_wait"), None))
    for depth in (1, 16):
        for threads in (1, 2, 4):
            rows.append((f"launches a second, {depth} a sync, {threads} threads", "one launch a sync, one thread",
                         value(f"launches_depth{depth}_threads{threads}") / base, None))
    for way in ("uring", "threads"):
        for depth in (1, 64, 1024):
            rows.append((f"launches a second by npu_async, {way}, {depth} in flight",
                         "npu_submit and npu_wait, one in flight",
                         value(f"async_{way}_depth{depth}") / value("npu_submit_and_wait"), None))
    return rows


def verdict(ratio, aim):
    if not aim:
        return ""
    met = ratio <= aim[1] if aim[0] == "<=" else ratio >= aim[1]
    return f"aim {aim[0]} {aim[1]}: {'met' if met else 'MISSED'}"


def host():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--json", default=os.path.join(BENCH, "guest.json"))
    options, rest = parser.parse_known_args()
    figures = measure(rest)
    rows = ratios(figures)
    print(f"on {host()}, load {os.getloadavg()[0]:.1f}; interrupt test {figures['irq_test'][0]:.1f} us, "
          f"insmod {figures['insmod'][0]:.1f} ms")
    for what, than, ratio, aim in rows:
        print(f"{what:56} {ratio:8.2f} x  {than:42} {verdict(ratio, aim)}".rstrip())
    os.makedirs(os.path.dirname(options.json), exist_ok=True)
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump({"host": host(), "load": os.getloadavg()[0],
                   "figures": {name: {"value": v, "unit": u} for name, (v, u) in figures.items()},
                   "ratios": [{"what": w, "compared_with": t, "ratio": r, "aim": a} for w, t, r, a in rows]},
                  file, indent=1)
    print(f"figures: {options.json}")


if __name__ == "__main__":
    sys.exit(main())
