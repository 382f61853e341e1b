#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# A self-contained wheel of the last commit, in build/wheel: the packages qnpu and sophon, the compiler and the
# simulated chip, with all libraries that they need (scripts/bundle_wheel.py). It is for this system's Python.
# The same commit makes the same bytes on the same system. Prints the path.
#
#   wheel.sh             makes it
#   wheel.sh --here DIR  makes it of the sources of this folder, which need not be a checkout, in DIR

NPU_STEP=wheel
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$NPU_TOP"

OUT=$NPU_BUILD/wheel

build_here() {
    local out=$1 plain
    for program in cmake ninja patchelf readelf strip; do need_program "$program"; done
    "$NPU_PYTHON" -c 'import setuptools, pip, wheel' 2>/dev/null ||
        die "pip, setuptools or wheel is missing for $NPU_PYTHON" "run: make setup SET=wheel"
    mkdir -p "$out"
    out=$(cd "$out" && pwd)
    rm -rf "$out/plain"
    say "building the wheel; log: $out/wheel.log"
    logged "$out/wheel.log" env CMAKE_BUILD_PARALLEL_LEVEL="$NPU_JOBS" PIP_NO_CACHE_DIR=1 \
        "$NPU_PYTHON" -m pip wheel --no-index --no-build-isolation --no-deps -w "$out/plain" .
    plain=$(echo "$out"/plain/qnpu-*.whl)
    rm -f "$out"/qnpu-*.whl
    "$NPU_PYTHON" scripts/bundle_wheel.py "$plain" "$out"
    rm -rf "$out/plain"
}

main() {
    local tarball version
    case ${1:-} in
        --here)
            [ -n "${2:-}" ] || die "usage: wheel.sh [--here DIR]"
            build_here "$2"
            return
            ;;
        '') ;;
        *) die "usage: wheel.sh [--here DIR]" ;;
    esac
    tarball=$(scripts/dist.sh)
    version=$(scripts/dist.sh --version)
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
    export SOURCE_DATE_EPOCH
    mkdir -p "$OUT"
    rm -rf "$OUT/qnpu-$version"
    tar -C "$OUT" -xf "$tarball"
    "$OUT/qnpu-$version/scripts/wheel.sh" --here "$OUT"
    rm -rf "$OUT/qnpu-$version"
}

main "$@"
