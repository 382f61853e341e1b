#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Says where a job's instructions go: boots a board, runs workloads, and prints a table of functions for each.

The figure of a function is what all processors of the board executed of it between begin and end of the workload,
divided by the number of jobs (or buffers, or whatever the workload repeats). A halted processor executes nothing; what
the kernel's idle task does around that is counted apart, as "idle", and is no part of the total. What processors
spend waiting for each other's locks is part of it, and named besides, since the host has a say in it.

Workloads: hot.py --list. "all" stands for all of them.
"""
import argparse
import bisect
import json
import os
import re
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
BUILD = os.path.realpath(os.environ.get("NPU_BUILD", os.path.join(TOP, "build")))
PROGRAM = os.path.join(BUILD, "bin", "tests", "guest", "bench_hot")
DISK = ["--module", "nvme", "--qemu-arg", "-drive", "--qemu-arg", "driver=null-co,size=1G,if=none,id=nothing",
        "--qemu-arg", "-device", "--qemu-arg", "nvme,serial=nothing,drive=nothing"]
KERNEL_START = 1 << 63

# The idle task, between two tasks that have something to do.
IDLE = re.compile(r"(do_idle|cpu_startup_entry|default_idle(_call)?|pv_native_safe_halt|arch_cpu_idle\w*|cpuidle_\w+|"
                  r"ct_idle_\w+|ct_kernel_\w+|tick_nohz_(idle|next|get_sleep|stop|restart|start_idle)\w*|"
                  r"menu_\w+|haltpoll_\w+|ladder_\w+|get_next_timer_interrupt|__get_next_timer_interrupt|"
                  r"can_stop_idle_tick\w*|need_update|cpu_idle_poll\w*|quiet_vmstat|nohz_run_idle_balance|"
                  r"timer_base_try_to_set_idle|tmigr_\w+|rcu_needs_cpu|hrtimer_(next_event_without|get_next_event)|"
                  r"nr_iowait_cpu|update_ts_time_stats|flush_smp_call_function_queue)")

# What a processor does while another one has a lock: how long that is depends on the host, too.
SPIN = {"native_queued_spin_lock_slowpath", "queued_read_lock_slowpath", "queued_write_lock_slowpath", "osq_lock",
        "mutex_spin_on_owner", "rwsem_spin_on_owner"}


class Symbols:
    """Names of functions by address."""

    def __init__(self):
        self._starts = []
        self._names = []

    def fill(self, found):
        """From (address, name, object)."""
        for address, name, where in sorted(found):
            if self._starts and self._starts[-1] == address:
                continue  # of the names of one place the first
            self._starts.append(address)
            self._names.append((name, where))

    def find(self, address):
        index = bisect.bisect_right(self._starts, address) - 1
        return self._names[index] if index >= 0 else ("?", "?")


def plain(name):
    """Parts that the compiler has made of one function are one function."""
    return re.sub(r"\.(cold|isra|constprop|part|llvm)\b.*", "", name)


def kernel_symbols(path):
    def lines():
        with open(path, encoding="utf-8") as file:
            for line in file:
                words = line.split()
                if words[1] in "tTwW":
                    yield int(words[0], 16), plain(words[2]), words[3].strip("[]") if len(words) > 3 else "vmlinux"
    symbols = Symbols()
    symbols.fill(lines())
    return symbols


def run_text(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


class Object:
    """A program or library that was mapped: finds functions by offset in its file."""

    _cache = {}

    def __init__(self, path):
        self.name = os.path.basename(path)
        self._symbols = Symbols()
        self._loads = []
        if not os.path.exists(path):
            return
        for line in run_text("readelf", "-lW", path).splitlines():
            words = line.split()
            if words[:1] == ["LOAD"]:
                self._loads.append((int(words[1], 16), int(words[2], 16), int(words[4], 16)))
        found = []
        for option in ("-C", "-DC"):
            for line in run_text("nm", option, path).splitlines():
                entry = re.fullmatch(r"([0-9a-f]+) ([tTwWi]) (.*)", line)
                if entry:
                    name = re.sub(r"@.*|\(.*\)( const)?$", "", entry[3])
                    found.append((int(entry[1], 16), plain(name), self.name))
        self._symbols.fill(found)

    @classmethod
    def of(cls, path):
        if path not in cls._cache:
            cls._cache[path] = cls(path)
        return cls._cache[path]

    def find(self, offset):
        for start, address, size in self._loads:
            if start <= offset < start + size:
                name, where = self._symbols.find(offset - start + address)
                return name, where if where != "?" else self.name
        return "?", self.name


class Space:
    """The address space of the workload's program."""

    def __init__(self, lines):
        self._maps = []
        for line in lines:
            words = line.split(None, 5)
            start, end = (int(word, 16) for word in words[0].split("-"))
            if "x" in words[1] and len(words) > 5:
                self._maps.append((start, end, int(words[2], 16), words[5]))

    def find(self, address):
        for start, end, offset, path in self._maps:
            if start <= address < end:
                return Object.of(path).find(address - start + offset)
        return "?", "other programs"


def windows_of_program(text):
    """(workload, times, Space) in their order."""
    lines = iter(text.splitlines())
    for line in lines:
        words = line.split()
        if words[:1] != ["window"]:
            continue
        maps = []
        for mapping in lines:
            if mapping == "end":
                break
            maps.append(mapping)
        yield words[1], int(words[2]), Space(maps)


def windows_of_plugin(path):
    """Lists of (address, instructions) in their order."""
    with open(path, encoding="ascii") as file:
        blocks = []
        for line in file:
            first, _, second = line.partition(" ")
            if first == "window":
                blocks = []
            elif first.strip() == "end":
                yield blocks
            else:
                blocks.append((int(first, 16), int(second)))


def account(workload, times, space, kernel, blocks):
    """The result of one workload, figures for each time."""
    counts, idle = {}, 0
    for address, executed in blocks:
        name, where = kernel.find(address) if address >= KERNEL_START else space.find(address)
        if where == "vmlinux" and IDLE.fullmatch(name):
            idle += executed
            continue
        counts[(name, where)] = counts.get((name, where), 0) + executed
    total = sum(counts.values())
    objects = {}
    for (_, where), executed in counts.items():
        objects[where] = objects.get(where, 0) + executed
    functions = [{"function": name, "object": where, "instructions": executed / times, "share": executed / total}
                 for (name, where), executed in counts.items()]
    functions.sort(key=lambda function: -function["instructions"])
    spin = sum(executed for (name, where), executed in counts.items() if where == "vmlinux" and name in SPIN)
    return {"workload": workload, "times": times, "total": total / times, "spin": spin / times, "idle": idle / times,
            "objects": {where: executed / times for where, executed in sorted(objects.items(), key=lambda o: -o[1])},
            "functions": functions}


def measure(options, workloads, scratch):
    out = os.path.join(scratch, "blocks")
    plugin = subprocess.run([os.path.join(TOP, "qemu-device", "qemu", "build.sh"), "--plugin", "hot"],
                            stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    # Programs at the same addresses each time: blocks that are translated once keep the address of that time.
    script = "cat /proc/kallsyms >kallsyms && echo 0 >/proc/sys/kernel/randomize_va_space || exit 1; "
    script += "for workload; do %s $workload %d || exit 1; done" % (PROGRAM, options.times)
    command = [os.path.join(TOP, "tools", "npu-vm"), "--kernel", options.kernel, "--smp", str(options.smp),
               "--timeout", "3000", *DISK, "--module-args", f"busywait_us={options.busywait}",
               "--env", "NPU_DEVICE=drm", "--share", scratch,
               "--qemu-arg", "-plugin", "--qemu-arg", f"{plugin},out={out}",
               "--", "/bin/sh", "-c", script, "sh", *workloads]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"hot.py: the board ended with status {done.returncode}")
    kernel = kernel_symbols(os.path.join(scratch, "kallsyms"))
    pairs = zip(windows_of_program(done.stdout), windows_of_plugin(out), strict=True)
    return [account(*window, kernel, blocks) for window, blocks in pairs]


def show(result, top):
    print(f"{result['workload']}: {result['total']:.0f} instructions each, of {result['times']} "
          f"({result['spin']:.0f} of them for locks that another processor has; idle besides: {result['idle']:.0f})")
    print("  " + ", ".join(f"{where} {executed:.0f}" for where, executed in result["objects"].items()
                           if executed >= 0.5))
    print(f"  {'instructions':>12} {'share':>6}  function")
    for function in result["functions"][:top]:
        print(f"  {function['instructions']:12.1f} {function['share']:6.1%}  {function['function']} "
              f"[{function['object']}]")
    print()


def main():
    parser = argparse.ArgumentParser(prog="hot.py", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage="hot.py [OPTION...] -- WORKLOAD...")
    add = parser.add_argument
    add("--kernel", choices=["stock", "debug"], default="stock", help="of the board (default: stock)")
    add("--smp", type=int, default=2, metavar="N",
        help="processors (default: 2; with 1 nothing waits for another's locks)")
    add("--top", type=int, default=30, metavar="N", help="functions to print of each workload (default: 30)")
    add("--times", type=int, default=6400, metavar="N", help="jobs to count, a multiple of 64 (default: 6400)")
    add("--busywait", type=int, default=0, metavar="US",
        help="the driver's busywait_us (default: 0, since how long it looks for a job depends on the host)")
    add("--json", metavar="FILE", help="write all figures there, too; -: only there, on standard output")
    add("--list", action="store_true", help="say what the workloads are")
    add("workload", nargs="*", metavar="WORKLOAD")
    options = parser.parse_args()
    if not os.path.exists(PROGRAM):
        raise SystemExit(f"hot.py: {PROGRAM} is missing; run: make build")
    known = dict(line.split(" ", 1) for line in run_text(PROGRAM, "--list").splitlines())
    if options.list:
        for name, what in known.items():
            print(f"{name:16} {what}")
        return 0
    wanted = list(known) if options.workload == ["all"] else options.workload
    unknown = [name for name in wanted if name not in known]
    if not wanted or unknown:
        parser.error(f"{unknown[0]}: no such workload, see --list" if unknown else "name a workload after --")
    if options.times <= 0 or options.times % 64:
        parser.error("--times is a multiple of 64")
    with tempfile.TemporaryDirectory(prefix="npu-hot.") as scratch:
        results = measure(options, wanted, scratch)
    if options.json:
        with open(options.json, "w", encoding="utf-8") if options.json != "-" else sys.stdout as file:
            json.dump(results, file, indent=1)
    if options.json != "-":
        for result in results:
            show(result, options.top)
    return 0


if __name__ == "__main__":
    sys.exit(main())
