#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Builds qnpu.ko out of tree: module.sh stock -> build/kernel/qnpu.ko, module.sh debug -> build/kernel/qnpu-debug.ko,
# module.sh stock-gdb -> build/kernel/qnpu-gdb.ko, with debugging information;
# for arm64 boards module.sh stock-arm64 -> build/kernel/arm64/qnpu.ko; debug-arm64, debug-16K-arm64, debug-64K-arm64,
# kcsan-arm64 and gcov-arm64 have names in the same way.
# Two drivers are for the kernel with KCSAN and gcov: module.sh kcsan -> build/kernel/qnpu-kcsan.ko, which KCSAN
# instruments, and module.sh gcov -> build/kernel/qnpu-gcov.ko, which counts executed lines.
# Each has the module of the cache watch beside it: qnpu_watch.ko, qnpu_watch-debug.ko, ...
# Further arguments go to make (W=1, C=1, ...). The objects of the kernels are kept apart, and the
# checkout stays clean: each is built in a folder of links to kernel/ and uapi/.

NPU_STEP=module
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

# Links every source file into the object folder; links whose source is gone are removed.
link_sources() {
    local from=$1 to=$2
    mkdir -p "$to"
    find "$to" -xtype l -delete
    cp -rsf "$from"/. "$to"
}

main() {
    local kernel=${1:-} kind name folder env script module to choice=() cross=() lean=()
    kind=${kernel%-arm64}
    script=kernel-${kind%%-*}.sh
    case $kind in
        kcsan) script=kernel-debug.sh choice=(--checker kcsan) ;;
        # Functions that are not inlined have counts of their own.
        gcov)
            script=kernel-debug.sh choice=(--checker kcsan)
            lean=(KCSAN_SANITIZE=n GCOV_PROFILE=y KCFLAGS=-fno-inline)
            ;;
    esac
    case $kernel in
        stock | stock-gdb | debug | kcsan | gcov) ;;
        stock-arm64 | debug-arm64 | debug-16K-arm64 | debug-64K-arm64 | kcsan-arm64 | gcov-arm64)
            choice+=(--arch arm64) cross=(ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-)
            [ "${kind#debug-}" = "$kind" ] || choice+=(--pages "${kind#debug-}")
            cross_path
            ;;
        *)
            die "usage: module.sh KERNEL [MAKE ARGUMENT...]" \
                "KERNEL: stock|stock-gdb|debug|kcsan|gcov|stock-arm64|debug[-16K|-64K]-arm64|kcsan-arm64|gcov-arm64"
            ;;
    esac
    name=qnpu-$kind.ko
    # Debian's configuration has debugging information in all modules, which takes a fifth of the time of compiling
    # them. Tools that need it use the debug kernel.
    [ "$kind" != stock-gdb ] || name=qnpu-gdb.ko lean=(CONFIG_DEBUG_INFO_BTF_MODULES=)
    [ "$kind" != stock ] || name=qnpu.ko lean=(CONFIG_DEBUG_INFO= CONFIG_DEBUG_INFO_BTF_MODULES=)
    [ ${#cross[@]} -eq 0 ] || name=arm64/$name
    shift
    [ -e "$NPU_TOP/kernel/Kbuild" ] || die "there is no driver in kernel/ (its Kbuild is missing)"
    env=$("$NPU_TOP/scripts/$script" "${choice[@]}")
    # shellcheck source=/dev/null
    . "$env"
    folder=$NPU_BUILD/kernel/$kernel
    need_plain "$folder" "the driver"
    mkdir -p "$folder" "$(dirname "$NPU_BUILD/kernel/$name")"
    exec 9>"$folder/.lock" # two boards may ask for the same driver
    flock 9
    link_sources "$NPU_TOP/kernel" "$folder/kernel"
    link_sources "$NPU_TOP/uapi" "$folder/uapi"
    say "building the driver for Linux $KVERSION"
    PATH=$PATH:/usr/sbin:/sbin make -C "$KDIR" M="$folder/kernel" -j"$NPU_JOBS" \
        CONFIG_DRM_ACCEL_QNPU=m "${cross[@]}" "${lean[@]}" "$@" modules >"$folder/build.log" 2>&1 || {
        cat "$folder/build.log" >&2
        die "the driver does not build for Linux $KVERSION" "whole output: $folder/build.log"
    }
    grep -E 'warning:|error:' "$folder/build.log" >&2 || true
    for module in qnpu qnpu_watch; do
        [ -e "$folder/kernel/$module.ko" ] || die "kernel/Kbuild made no $module.ko"
        to=$NPU_BUILD/kernel/${name/qnpu/$module}
        cmp -s "$folder/kernel/$module.ko" "$to" || cp "$folder/kernel/$module.ko" "$to"
    done
}

main "$@"
