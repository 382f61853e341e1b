#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The driver without a warning: W=1 for both kernels, sparse, checkpatch --strict. Needs both kernels in the cache.

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
    NPU_BUILD=$work/build scripts/module.sh "$@" >"$work/log" 2>&1 || echo "the build ended with status $?" >>"$work/log"
    grep -E 'warning:|error:|ended with status' "$work/log" >"$work/complaints"
    [ -e "$work/build/kernel/$1/kernel/npu.ko" ] || echo "no npu.ko" >>"$work/complaints"
}

build stock W=1
check "W=1, stock kernel" "$work/complaints"
build stock C=2
grep -q '  CHECK ' "$work/build/kernel/stock/build.log" || echo "sparse did not run" >>"$work/complaints"
check "sparse" "$work/complaints"
build debug W=1
check "W=1, debug kernel" "$work/complaints"

# shellcheck source=/dev/null
. "$(scripts/kernel-debug.sh --env)" || { echo "no debug kernel, so no checkpatch"; exit 1; }
for file in kernel/*.c kernel/*.h; do
    perl "$CHECKPATCH" --no-tree --strict --max-line-length=100 --quiet --terse --file "$file" | grep -v '^total:' >"$work/complaints"
    check "checkpatch $file" "$work/complaints"
done

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
