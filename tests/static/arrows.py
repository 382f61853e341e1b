#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Holds the arrows between the parts (docs/explanation/architecture.md): what each folder may include, and what each
built object may need.

usage: arrows.py [BUILD]     BUILD: build folder, default: build
"""
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# folder -> project headers that its sources must not include (regular expressions on the text of the #include)
DRIVER = r"npu_accel\.h|drm.*\.h"
LIBRARY = r"(.*/)?npu\.h|bmlib_runtime\.h|npu_bm_internal\.h"
COMPILER = r"compiler/.*"
RUNTIME = r"bmdef\.h|bmruntime_.*\.h"
MODEL = r"npu_model\.h"
CHIP = r"npu_clock\.h|npu_regs\.h|npu_isa\.hp?p?|npu_(cost|arith|enums)\.hpp|npu_hw_params\.h"
ASSEMBLER = r"uapi/hw/asm/.*"
FORBIDDEN = [
    ("common", r".*\.hp?p?"),
    ("uapi/hw", "|".join([DRIVER, LIBRARY, RUNTIME, MODEL, COMPILER])),
    ("uapi/drm", "|".join([LIBRARY, RUNTIME, MODEL, CHIP])),
    ("kernel", "|".join([LIBRARY, RUNTIME, MODEL, r"npu_isa.*"])),
    ("qemu-device/model", "|".join([DRIVER, LIBRARY, RUNTIME, ASSEMBLER, COMPILER])),
    ("qemu-device/qemu", "|".join([DRIVER, LIBRARY, RUNTIME])),
    ("libnpu/src", "|".join([RUNTIME, MODEL])),
    ("libnpu/bmlib", "|".join([RUNTIME, MODEL])),
    ("libnpu/sim", RUNTIME),
    ("runtime/bmodel", "|".join([DRIVER, LIBRARY, MODEL])),
    ("runtime/cpu", "|".join([DRIVER, LIBRARY, RUNTIME, MODEL, COMPILER, r"runtime/launch/.*"])),
    ("runtime/arrays", "|".join([DRIVER, LIBRARY, RUNTIME, MODEL, COMPILER, r"runtime/(launch|bmodel)/.*"])),
    ("compiler", "|".join([DRIVER, LIBRARY, RUNTIME, MODEL])),
    ("runtime/launch", "|".join([MODEL, COMPILER, r"onnx.*"])),
    ("runtime/bmodel", "|".join([COMPILER, r"runtime/launch/.*"])),
    ("compiler", r"runtime/launch/.*"),
    # The plug-in reaches the compiler by functions of C alone, and has no protobuf: another copy of ONNX's descriptions
    # ends a process that has one.
    ("ort", "|".join([DRIVER, MODEL, ASSEMBLER, r"compiler/(?!api/npuc_c\.h).*", r"runtime/launch/.*",
                      r"onnx/.*", r"google/.*"])),
    ("python", "|".join([MODEL, COMPILER, CHIP, ASSEMBLER, r"npu_.*_internal\.h", r"runtime/launch/.*", r"libnpu/.*"])),
    # The runtime's rooms: memory <- trace <- model <- exec <- api; error.h is before all of them.
    ("runtime/launch/memory", r"runtime/launch/(trace|model|exec|api)/.*"),
    ("runtime/launch/trace", r"runtime/launch/(model|exec|api)/.*"),
    ("runtime/launch/model", r"runtime/launch/(exec|api)/.*"),
    ("runtime/launch/exec", r"runtime/launch/api/.*"),
    # The compiler's rooms: import -> graph <- passes <- lowering <- kernels <- schedule <- api, and passes <- quantize.
    ("compiler/graph", r"compiler/(import|passes|quantize|lowering|kernels|schedule|api)/.*"),
    ("compiler/import", r"compiler/(passes|quantize|lowering|kernels|schedule|api)/.*"),
    ("compiler/passes", r"compiler/(import|quantize|lowering|kernels|schedule|api)/.*"),
    ("compiler/quantize", r"compiler/(import|lowering|kernels|schedule|api)/.*"),
    ("compiler/lowering", r"compiler/(import|quantize|kernels|schedule|api)/.*"),
    ("compiler/kernels", r"compiler/(import|quantize|schedule|api)/.*"),
    ("compiler/schedule", r"compiler/(import|quantize|api)/.*"),
]

# The driver leaves commands to user space, but for those by which it zeroes and moves memory.
ALLOWED = {("kernel/qnpu_copy.c", "npu_isa.h")}

# object in the build -> libraries that it must not need, directly or through others
NEEDED = [
    ("lib/libnpu.so", r"libnpumodel|libdnnl|libprotobuf|libonnx|libnpurt|libnpuc"),
    ("lib/libbmlib.so", r"libnpumodel|libdnnl|libprotobuf|libonnx|libnpurt|libnpuc"),
    ("lib/libnpurt.so", r"libnpumodel|libdnnl|libprotobuf|libonnx|libnpuc"),
    ("lib/libnpumodel.so", r"libdrm|libdnnl|libnpu\.|libnpurt|libprotobuf"),
    ("lib/libnpuc.so", r"libnpu\.|libdrm|libnpumodel|libnpurt|libbmlib|libdnnl|libpng|libjpeg"),
    ("lib/libqnpu_ep.so", r"libprotobuf|libonnx|libdnnl|libnpumodel|libnpuc"),
    ("lib/libqnpu_ort.so", r"libprotobuf|libonnx|libnpu|libbmlib"),
    ("bin/npuc", r"libnpu\.|libdrm|libnpumodel|libnpurt|libbmlib|libdnnl"),
    ("bin/bmrt_test", r"libprotobuf|libonnx|libdnnl|libnpumodel"),
    ("bin/npu-smi", r"libprotobuf|libonnx|libdnnl|libnpumodel|libnpurt"),
]


def includes(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        for number, line in enumerate(f, 1):
            m = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
            if m:
                yield number, m.group(1)


def check_includes(folder, forbidden):
    """Offending lines; None when there was nothing to look at."""
    bad, seen = [], 0
    for root, _, names in os.walk(os.path.join(TOP, folder)):
        for name in names:
            if not re.search(r"\.(c|h|cpp|hpp)$", name):
                continue
            seen += 1
            path = os.path.join(root, name)
            for number, header in includes(path):
                if header.startswith(folder + "/"):
                    continue
                base = header.rsplit("/", 1)[-1]
                if re.fullmatch(forbidden, header) or re.fullmatch(forbidden, base):
                    if folder == "kernel" and base != "npu_isa.h" and header.startswith(("drm/", "linux/")):
                        continue
                    if (os.path.relpath(path, TOP), header) in ALLOWED:
                        continue
                    bad.append(f"{os.path.relpath(path, TOP)}:{number}: includes {header}")
    return bad if seen else None


def needed(path, env):
    """Libraries of a program, directly or through others; an error where ldd cannot tell them all."""
    done = subprocess.run(["ldd", path], capture_output=True, text=True, env=env, check=False)
    libraries = [line.split()[0] for line in done.stdout.splitlines() if line.strip()]
    if done.returncode or "not found" in done.stdout or not any(library.startswith("libc.so") for library in libraries):
        raise OSError(f"ldd {path}: status {done.returncode}: {done.stdout}{done.stderr}")
    return libraries


def made_by(build):
    """NEEDED without what the build leaves out, which is said: the plug-in where ONNX Runtime's headers are missing."""
    left_out = False
    if os.path.exists(os.path.join(build, "build.ninja")):
        with open(os.path.join(build, "build.ninja"), encoding="utf-8") as file:
            left_out = "build lib/libqnpu_ort.so:" not in file.read()
    absent = [name for name, _ in NEEDED if left_out and name.startswith("lib/libqnpu_")]
    if absent:
        print("not in this build:", *absent)
    return [(name, forbidden) for name, forbidden in NEEDED if name not in absent]


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(TOP, "build"))
    env = dict(os.environ, LD_LIBRARY_PATH=os.path.join(build, "lib"))
    passed = failed = 0
    for folder, forbidden in FORBIDDEN:
        bad = check_includes(folder, forbidden)
        if bad is None:
            bad = [f"{folder}: no source files"]
        passed, failed = (passed + 1, failed) if not bad else (passed, failed + 1)
        for line in bad:
            print("FAIL", line)
    for name, forbidden in made_by(build):
        path = os.path.join(build, name)
        try:
            bad = [f"{name} needs {lib}" for lib in needed(path, env) if re.match(forbidden, lib)]
        except OSError as error:
            bad = [str(error)]
        passed, failed = (passed + 1, failed) if not bad else (passed, failed + 1)
        for line in bad:
            print("FAIL", line)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
