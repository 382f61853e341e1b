# SPDX-License-Identifier: MIT
"""Counts the instructions that workloads execute on an emulated board, by function: what hot.py and the benchmarks
share.

The board runs tests/bench/guest/workloads.c, one process for each workload, and the plugin hot.so counts what all
processors execute between its markers.
"""
import bisect
import os
import re
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
BUILD = os.path.realpath(os.environ.get("NPU_BUILD", os.path.join(TOP, "build")))
PROGRAM = os.path.join(BUILD, "bin", "tests", "guest", "workloads")
DISK = ["--module", "nvme", "--qemu-arg", "-drive", "--qemu-arg", "driver=null-co,size=1G,if=none,id=nothing",
        "--qemu-arg", "-device", "--qemu-arg", "nvme,serial=nothing,drive=nothing"]
KERNEL_START = 1 << 63

# On the board, for each workload. Programs are at the same addresses each time: blocks that are translated once keep
# the address of that time. What the workload before left in the page cache and in the kernel's slabs is no part of this
# one's memory.
SCRIPT = """
cat /proc/kallsyms >kallsyms && uname -rv >kernel && echo 0 >/proc/sys/kernel/randomize_va_space || exit 1
program=$1; shift
while [ $# -gt 0 ]; do
    sync; echo 3 >/proc/sys/vm/drop_caches
    for cache in /sys/kernel/slab/*/shrink; do echo 1 >$cache; done
    $program "$1" "$2" || exit 1
    shift 2
done
"""

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


def program_of(folder):
    """The one for a board whose programs are in this folder of the build folder."""
    return os.path.join(BUILD, folder, os.path.relpath(PROGRAM, BUILD))


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
    """(workload, times, nanoseconds, Space) in their order."""
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
        yield words[1], int(words[2]), int(words[3]), Space(maps)


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


def account(workload, times, nanoseconds, space, kernel, blocks):
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
    return {"workload": workload, "times": times, "ns": nanoseconds / times, "total": total / times,
            "spin": spin / times, "idle": idle / times,
            "objects": {where: executed / times for where, executed in sorted(objects.items(), key=lambda o: -o[1])},
            "functions": functions}


class BoardFailed(Exception):
    """The board, or a program on it, ended with another status than 0; the reason is on stderr."""


class Workload:
    """One of the program's: what it is, how often it is done (a multiple of step), and its peer, or None."""

    def __init__(self, line):
        name, times, step, peer, self.what = line.split(" ", 4)
        self.name = name
        self.times = int(times)
        self.step = int(step)
        self.peer = None if peer == "-" else peer


def workloads():
    """All that there are, by name, in their order."""
    if not os.path.exists(PROGRAM):
        raise SystemExit(f"{PROGRAM} is missing; run: make build")
    return {workload.name: workload for workload in map(Workload, run_text(PROGRAM, "--list").splitlines())}


def network():
    """Path of the digits' .bmodel, compiled by this build, for those that launch."""
    path = os.path.join(BUILD, "bench", "digits.bmodel")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    subprocess.run([os.path.join(BUILD, "bin", "npuc"), os.path.join(TOP, "networks", "digits", "digits.onnx"), "-o",
                    path], check=True, stdout=subprocess.DEVNULL)
    return path


def qemu_script(*arguments):
    return subprocess.run([os.path.join(TOP, "qemu-device", "qemu", "build.sh"), *arguments], stdout=subprocess.PIPE,
                          text=True, check=True).stdout.strip()


def measure(wanted, board, scratch, folder=""):
    """Runs (name, times) of workloads on one board, an npu-vm with these options. `scratch`: an empty folder; `folder`:
    of the programs for its processor, where they are not the host's (those have the disk as well). Returns the results
    in their order, and the kernel's version."""
    out = os.path.join(scratch, "blocks")
    plugin = qemu_script("--plugin", "hot")
    share = os.path.join(scratch, "share")
    os.mkdir(share)
    os.utime(share, (0, 0))  # an exact board sees the same each time
    command = [os.path.join(TOP, "tools", "npu-vm"), *([] if folder else DISK), *board, "--env", "NPU_DEVICE=drm",
               "--env", f"NPU_BENCH_MODEL={network()}", "--share", share,
               "--qemu-arg", "-plugin", "--qemu-arg", f"{plugin},out={out}",
               "--", "/bin/sh", "-c", SCRIPT, "sh",
               program_of(folder)]
    for name, times in wanted:
        command += [name, str(times)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise BoardFailed(f"the board ended with status {done.returncode}")
    kernel = kernel_symbols(os.path.join(share, "kallsyms"))
    with open(os.path.join(share, "kernel"), encoding="utf-8") as file:
        version = file.read().strip()
    pairs = zip(windows_of_program(done.stdout), windows_of_plugin(out), strict=True)
    return [account(*window, kernel, blocks) for window, blocks in pairs], version
