#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Puts the newest kernel source that Debian offers into the cache. It is neither built nor booted:
# tests/static/driver.sh compiles the driver in it. Prints the path of an env file: KSOURCE, KVERSION, KEXPORTS (what
# the kernel and its modules export, one name a line).
#
#   kernel-newest.sh           fetch what is missing, print the env file's path
#   kernel-newest.sh --env     only print the path; fails where there is none
#   kernel-newest.sh --update  look whether the archive has a newer one

NPU_STEP=kernel-newest
# Kernels appear here first.
NPU_APT_SUITE=sid
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

BASE=$NPU_CACHE/kernel-newest

# Nearly all of the documentation: left are the files that name drivers, which the series for upstream changes.
LEFT_OUT=('*/Documentation/[!ad]*/*' '*/Documentation/a[!c]*/*' '*/Documentation/accounting/*'
    '*/Documentation/d[!e]*/*' '*/Documentation/dev-*/*' '*/Documentation/devicetree/[!b]*'
    '*/Documentation/devicetree/bindings/[!v]*' '*/tools/testing/*')

newest_env() { printf '%s\n' "$BASE"/*/npu.env | sort -V | tail -n 1; }
# An earlier version of this script left out more.
is_complete() { [ -e "$1" ] && [ -e "$(dirname "$1")/source/Documentation/accel/index.rst" ]; }

# What is made by macros of other names is not found; the driver uses none of it.
list_exports() {
    grep -rhoE --include='*.[chS]' '\bEXPORT_(SYMBOL|PER_CPU_SYMBOL)[A-Z_]*\([a-zA-Z0-9_]+' "$1" | sed 's/.*(//' |
        sort -u
}

fetch() {
    local package incoming root version
    need_program xz
    package=$(apt_ask search --names-only '^linux-source-[0-9.]+$' | cut -d' ' -f1 | sort -V | tail -n 1)
    [ -n "$package" ] || die "the archive has no linux-source package"
    incoming=$BASE/incoming
    rm -rf "$incoming"
    mkdir -p "$incoming"
    apt_unpack "$incoming/package" "$package"
    say "unpacking $package"
    tar -C "$incoming" -xf "$incoming/package/usr/src/$package.tar.xz" "${LEFT_OUT[@]/#/--exclude=}"
    version=$(make -s -C "$incoming/$package" kernelversion)
    root=$BASE/$version
    rm -rf "$root"
    mkdir -p "$root"
    mv "$incoming/$package" "$root/source"
    list_exports "$root/source" >"$root/exports"
    write_whole "$root/npu.env" <<ENV
KSOURCE=$root/source
KVERSION=$version
KEXPORTS=$root/exports
ENV
    rm -rf "$incoming"
    say "the source of Linux $version is in $root/source"
}

main() {
    local env
    env=$(newest_env)
    if ! is_complete "$env" || [ "${1:-}" = --update ]; then
        [ "${1:-}" != --env ] || die "the newest kernel's source is not in the cache" "run: scripts/kernel-newest.sh"
        cache_lock kernel-newest
        need_space 2000 "$BASE"
        env=$(newest_env)
        is_complete "$env" && [ "${1:-}" != --update ] || fetch
        env=$(newest_env)
    fi
    echo "$env"
}

main "$@"
