#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Builds the newest kernel source with all series of kernel/upstream applied, for the emulated board, into the cache
# beside that source: kernel/debug.config without the checkers, and the driver as modules of that tree, which are copied
# to build/kernel as qnpu-upstream.ko and qnpu_watch-upstream.ko. Prints the path of an env file (KDIR, KIMAGE,
# KVERSION, ...).
# Keyed by source, patches of the core and configuration: a change of the driver compiles only its own objects again.
#
#   kernel-upstream.sh         build what is missing or older than the series, print the env file's path
#   kernel-upstream.sh --env   only print the path; fails where it is not built

NPU_STEP=kernel-upstream
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

KERNEL=$NPU_TOP/kernel

# The checkers that go are those that the kernel with KCSAN has not either.
checkers() { grep '^# CONFIG_.* is not set$' "$KERNEL/kcsan.config"; }

# An object directory is found again by what went into it.
key() {
    {
        cat "$KERNEL"/upstream/*/*.patch "$KERNEL/Kconfig" "$KERNEL/debug.config" "$KERNEL/upstream.config"
        checkers
        gcc -dumpfullversion
    } | hash_of
}

main() {
    local env source base folder
    case ${1:-} in
        '') env=$("$NPU_TOP/scripts/kernel-newest.sh") ;;
        --env) env=$("$NPU_TOP/scripts/kernel-newest.sh" --env) ;;
        *) die "unknown argument '$1'" "usage: $0 [--env]" ;;
    esac
    source=$(sed -n 's/^KSOURCE=//p' "$env")
    base=$(dirname "$source")
    folder=$base/boot-$(key)
    if [ "${1:-}" = --env ]; then
        [ -e "$folder/npu.env" ] ||
            die "the kernel with the series for upstream is not built" "run: make kernel-upstream"
        echo "$folder/npu.env"
        return
    fi
    for program in gcc bison flex bc make patch git; do need_program "$program"; done
    cache_lock kernel-upstream
    [ -e "$folder/npu.env" ] || {
        need_space 1000 "$base"
        say "building Linux $(basename "$base") with all series (about 6 minutes with 2 jobs); log: $folder/build.log"
    }
    mkdir -p "$folder"
    checkers >"$folder/checkers"
    PYTHONPATH=$NPU_TOP/scripts NPU_JOBS=$NPU_JOBS PYTHONDONTWRITEBYTECODE=1 nice "$NPU_PYTHON" -m upstream.kernel \
        "$source" "$folder" "$NPU_BUILD/kernel" "$KERNEL/debug.config" "$folder/checkers" "$KERNEL/upstream.config"
    echo "$folder/npu.env"
}

main "$@"
