#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# What newer versions of ONNX say than Debian 12's, from the newest package that Debian offers: its tests, unpacked into
# the cache for `make conformance SUITE=newest`, and the names of attributes that the importer knows.
#
#   onnx-newest.sh               fetch the tests if they are missing, print the env file's path: ONNX_TESTS (the data
#                                folder), ONNX_VERSION (of the package)
#   onnx-newest.sh --env         only print the path; fails where there is none
#   onnx-newest.sh --update      look whether the archive has newer tests
#   onnx-newest.sh --attributes  write compiler/import/known_attributes.cpp again, from the newest ONNX's own schemas

NPU_STEP=onnx-newest
# New versions appear here first.
NPU_APT_SUITE=sid
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

BASE=$NPU_CACHE/onnx-newest
TABLE=$NPU_TOP/compiler/import/known_attributes.cpp

newest_env() { printf '%s\n' "$BASE"/*/npu.env | sort -V | tail -n 1; }

# The version of a package in the archive; apt-cache also shows the one that is installed.
newest_version() { apt_ask madison "$1" | awk -F' *[|] *' '{ print $2 }' | sort -V | tail -n 1; }

fetch() {
    local version root
    version=$(newest_version libonnx-testdata)
    [ -n "$version" ] || die "the archive has no package libonnx-testdata"
    root=$BASE/$version
    [ ! -e "$root/npu.env" ] || return 0
    rm -rf "$root"
    apt_unpack "$root" "libonnx-testdata=$version"
    write_whole "$root/npu.env" <<ENV
ONNX_TESTS=$root/usr/share/libonnx-testdata/data
ONNX_VERSION=$version
ENV
    say "the tests of ONNX $version are in $root"
}

# ONNX's Python module needs a newer C library than Debian 12 has: it runs with that, and a Python of its own.
attributes() {
    local root loader
    cache_lock onnx-newest
    root=$(mktemp -d "$NPU_CACHE/onnx.XXXXXX")
    # shellcheck disable=SC2064  # this folder
    trap "rm -rf '$root'" EXIT
    apt_unpack "$root" python3-onnx libprotobuf-lite32t64 libc6 libstdc++6 libgcc-s1 libexpat1 zlib1g \
        python3.13-minimal libpython3.13-minimal libpython3.13-stdlib
    loader=$root/usr/lib/x86_64-linux-gnu
    PYTHONHOME=$root/usr "$loader/ld-linux-x86-64.so.2" --library-path "$loader" "$root/usr/bin/python3.13" \
        "$NPU_TOP/scripts/onnx_attributes.py" "$root/usr/lib/python3/dist-packages/onnx" \
        "$(newest_version python3-onnx)" >"$root/table"
    clang-format --assume-filename="$TABLE" <"$root/table" >"$TABLE"
    say "wrote $TABLE"
}

main() {
    local env
    if [ "${1:-}" = --attributes ]; then
        need_program clang-format
        attributes
        return
    fi
    env=$(newest_env)
    if [ ! -e "$env" ] || [ "${1:-}" = --update ]; then
        [ "${1:-}" != --env ] || die "the newest ONNX's tests are not in the cache" "run: scripts/onnx-newest.sh"
        cache_lock onnx-newest
        fetch
        env=$(newest_env)
    fi
    echo "$env"
}

main "$@"
