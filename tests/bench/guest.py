#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Measures the driver on an emulated board and prints a table of ratios.

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
DISK = ["--module", "nvme", "--qemu-arg", "-drive", "--qemu-arg", "driver=null-co,size=1G,if=none,id=nothing",
        "--qemu-arg", "-device", "--qemu-arg", "nvme,serial=nothing,drive=nothing"]
DEPTHS = (1, 8, 64)
PROCESSES = (1, 4, 16)


def measure(options):
    """All figures by name, as (value, unit). One that is measured twice counts with the smaller value."""
    script = os.path.join(TOP, "tests", "bench", "guest", "run.sh")
    command = [os.path.join(TOP, "tools", "npu-vm"), "--timeout", "600", *DISK, *options, "--", script]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    figures = {}
    for line in done.stdout.splitlines():
        name, value, unit = line.split()
        value = float(value)
        figures[name] = (min(value, figures[name][0]) if name in figures else value, unit)
    if done.returncode != 0:
        raise SystemExit(f"the board's run ended with status {done.returncode}")
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
                rows.append((f"jobs a second by {way}, {depth} in flight, {processes} processes", "one in flight by ioctl",
                             value(f"jobs_{way}_depth{depth}_processes{processes}") / base, None))
    for lazy in ("", "_lazy"):
        for depth in DEPTHS:
            rows.append((f"jobs a second by uring{lazy}, {depth} in flight", "NVMe reads a second by the same ring",
                         value(f"jobs_uring{lazy}_depth{depth}_processes1") / value(f"nvme_uring{lazy}_depth{depth}"), None))
    for size in ("4K", "1M", "64M"):
        for place in ("system", "card"):
            rows.append((f"create, map, touch, free {size} of {place} memory", "a memfd of the same size",
                         value(f"bo_{place}_{size}") / value(f"memfd_{size}"), None))
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
    parser.add_argument("--json", default=os.path.join(TOP, "build", "bench", "guest.json"))
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
