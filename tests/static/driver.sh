#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The driver without a warning: W=1 and sparse for the kernels that it runs on and for the newest one that Debian has,
# checkpatch --strict, coccicheck. Needs all four kernels in the cache.

cd "$(dirname "$0")/../.." || exit 1
passed=0
failed=0

# check NAME FILE: the file is a list of complaints, which has to be empty.
check() {
    if [ -s "$2" ]; then
        echo "FAIL $1:"
        cat "$2"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# build KERNEL FLAG...: compiles everything anew, in a build folder of its own; complaints go to $work/complaints.
build() {
    rm -rf "$work/build"
    NPU_BUILD=$work/build scripts/module.sh "$@" >"$work/log" 2>&1 || echo "the build ended with status $?" \
        >>"$work/log"
    # Not our fault: this machine's compiler is not the one, to the letter, that built Debian's kernel.
    grep -E 'warning:|error:|ended with status' "$work/log" | grep -v 'warning: the compiler differs from' \
        >"$work/complaints"
    [ -e "$work/build/kernel/$1/kernel/qnpu.ko" ] || echo "no qnpu.ko" >>"$work/complaints"
}

build stock W=1 C=2
grep -q '  CHECK ' "$work/build/kernel/stock/build.log" || echo "sparse did not run" >>"$work/complaints"
check "W=1 and sparse, stock kernel" "$work/complaints"
build debug W=1
check "W=1, debug kernel" "$work/complaints"
build stock-arm64 W=1
check "W=1, arm64 boards' kernel" "$work/complaints"

# shellcheck source=tests/static/newest.sh
. tests/static/newest.sh
# shellcheck source=/dev/null
. "$(scripts/kernel-newest.sh --env)" || { echo "no newest kernel: make kernel-newest"; exit 1; }
in_tree "$work/tree"
newest_build "$work/tree" >"$work/log" 2>&1 || echo "error: the build ended with status $?" >>"$work/log"
# Where a module's parameters and description are put together this sparse takes everything for a mistake.
grep -E 'warning:|error:' "$work/log" | grep -v 'error: bad constant expression$' >"$work/complaints"
grep -q '  CHECK .*/qnpu_drv.c' "$work/log" || echo "sparse did not run" >>"$work/complaints"
check "W=1 and sparse as drivers/accel/qnpu of Linux $KVERSION" "$work/complaints"
newest_missing "$work/tree" >"$work/complaints"
check "exports of Linux $KVERSION" "$work/complaints"
newest_coccicheck >"$work/log"
grep -v 'be a metavariable?$' "$work/log" | grep -v '^semantic patches: [1-9][0-9]*$' >"$work/complaints"
grep -q '^semantic patches: [1-9]' "$work/log" || echo "no semantic patch ran" >>"$work/complaints"
check "coccicheck of Linux $KVERSION" "$work/complaints"

# Names of the driver's page that the driver has not.
: >"$work/complaints"
while read -r name; do
    grep -rqw -- "$name" kernel/*.[ch] kernel/Kconfig uapi/drm || [ -e "kernel/$name" ] ||
        echo "error: $name" >>"$work/complaints"
done < <(grep -oE '``[A-Za-z0-9]+_[A-Za-z0-9_.]+``' kernel/Documentation/qnpu.rst | tr -d '`' | sed 's/^CONFIG_//')
check "names in kernel/Documentation/qnpu.rst" "$work/complaints"

# shellcheck source=/dev/null
. "$(scripts/kernel-debug.sh --env)" || { echo "no debug kernel, so no checkpatch"; exit 1; }
for file in kernel/*.c kernel/*.h; do
    options=()
    # The macros of trace events look like no C that it knows.
    [ "$file" != kernel/qnpu_trace.h ] || options=(--ignore PARENTHESIS_ALIGNMENT,OPEN_ENDED_LINE)
    checkpatch "$file" "${options[@]}" >"$work/complaints"
    check "checkpatch $file" "$work/complaints"
done

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
