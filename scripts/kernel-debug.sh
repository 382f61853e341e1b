#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Builds the debug kernel of the emulated board into the cache: Debian's linux-source-6.12 with
# kernel/debug.config over allnoconfig, for arm64 changed by kernel/debug-arm64.config. Prints the path of an env file
# (KDIR, KIMAGE, KVERSION, ...).
# Keyed by source version and configuration, so that a change of the driver never builds it again.
#
#   kernel-debug.sh [CHOICE...]         build what is missing, print the env file's path
#   kernel-debug.sh [CHOICE...] --env   only print the path; fails where it is not built
#
# A CHOICE is one of
#   --arch amd64|arm64
#   --pages 4K|16K|64K        size of pages, of arm64
#   --checker kasan|kcsan     kcsan: KCSAN and gcov in place of KASAN and lockdep (kernel/kcsan.config)

NPU_STEP=kernel-debug
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

BASE=$NPU_CACHE/kernel-debug
FRAGMENTS=("$NPU_TOP/kernel/debug.config")
PACKAGE=linux-source-6.12
ARCH=amd64
PAGES=4K
CHECKER=kasan
WHAT="KASAN and lockdep"
INSTRUMENTED=() # arguments of make that choose what the checker instruments
IMAGE=vmlinux
TARGETS=(vmlinux modules)
MAKE=(ARCH=x86_64)

# DRM's libraries have no prompt in Kconfig: only a driver that selects them switches them on. This entry
# stands in for our driver, which is then built out of tree against the result.
parts_kconfig() {
    cat <<'KCONFIG'
# SPDX-License-Identifier: GPL-2.0-only
config DRM_ACCEL_NPU_PARTS
	bool "Parts of DRM that an out-of-tree accel driver uses"
	depends on DRM_ACCEL && MMU
	select DRM_TTM
	select DRM_TTM_HELPER
	select DRM_SCHED
	select DRM_EXEC
	select DRM_GPUVM
	select DRM_BUDDY
	select DRM_GEM_SHMEM_HELPER
	select DEV_COREDUMP
	select WANT_DEV_COREDUMP
	select SYNC_FILE
KCONFIG
}

# The checkers themselves are not checked: lockdep and kmemleak run at each lock and allocation, several times as long
# under KASAN, and their mistakes are not ours.
UNCHECKED=()
for object in lockdep kmemleak debugobjects unwind_frame stacktrace; do
    UNCHECKED+=("KASAN_SANITIZE_$object.o=n" "UBSAN_SANITIZE_$object.o=n")
done

# Nor are parts that no object of a driver like ours gets into: ACPI's interpreter, networks, terminals, I2C.
UNCHECKED_FOLDERS=(drivers/acpi drivers/i2c drivers/tty net)

leave_unchecked() {
    local makefile
    for makefile in $(cd "$SOURCE" && find "${UNCHECKED_FOLDERS[@]}" -name Makefile); do
        grep -q '^KASAN_SANITIZE := n$' "$SOURCE/$makefile" ||
            sed -i '1i KASAN_SANITIZE := n\nUBSAN_SANITIZE := n' "$SOURCE/$makefile"
    done
}

# KCSAN instruments the folders that share data with a driver like ours: DRM, dma-buf and the accelerators' part. All
# other folders run at their usual speed. The kernel's core still reports its barriers, without which KCSAN would take
# each of them for missing. $(obj) is the folder that make compiles.
WATCHED_FOLDERS='drivers/accel/% drivers/dma-buf/% drivers/gpu/drm/%'
BARRIER_FOLDERS='drivers/base io_uring kernel kernel/locking kernel/rcu kernel/sched lib mm'
KCSAN=(
    "KCSAN_SANITIZE=\$(if \$(filter $WATCHED_FOLDERS,\$(obj)/),y,n)"
    "KCSAN_INSTRUMENT_BARRIERS=\$(if \$(filter $BARRIER_FOLDERS,\$(obj)),y)"
)

newest_source() {
    local mark
    for mark in $(printf '%s\n' "$BASE"/source-*/.complete | sort -V); do
        [ ! -e "$mark" ] || dirname "$mark"
    done | tail -n 1
}

# Unpacks the source once per package version; the version is the directory's name.
fetch_source() {
    local incoming
    SOURCE=$(newest_source)
    [ -z "$SOURCE" ] || return 0
    need_program xz
    incoming=$BASE/incoming
    rm -rf "$incoming"
    mkdir -p "$incoming"
    apt_unpack "$incoming/package" "$PACKAGE"
    say "unpacking the kernel source"
    tar -C "$incoming" -xf "$incoming/package/usr/src/$PACKAGE.tar.xz"
    mkdir -p "$incoming/$PACKAGE/drivers/accel/npu"
    parts_kconfig >"$incoming/$PACKAGE/drivers/accel/npu/Kconfig"
    sed -i 's|^source "drivers/accel/qaic/Kconfig"|&\nsource "drivers/accel/npu/Kconfig"|' \
        "$incoming/$PACKAGE/drivers/accel/Kconfig"
    SOURCE=$BASE/source-$(make -s -C "$incoming/$PACKAGE" kernelversion)
    rm -rf "$SOURCE"
    mv "$incoming/$PACKAGE" "$SOURCE"
    touch "$SOURCE/.complete"
    rm -rf "$incoming"
}

# The options of all fragments: what a later one says of an option counts, also that it is not set.
options() {
    cat "${FRAGMENTS[@]}" | awk '
        /^CONFIG_/ { split($0, part, "="); name = part[1] }
        /^# CONFIG_.* is not set$/ { name = $2 }
        name { if (!(name in line)) order[++n] = name; line[name] = $0; name = "" }
        END { for (i = 1; i <= n; i++) print line[order[i]] }'
    [ "$ARCH" != arm64 ] || echo "CONFIG_ARM64_${PAGES}_PAGES=y"
}

configure() {
    local line missing=()
    options >"$OBJ/options"
    logged "$OBJ/config.log" make -C "$SOURCE" O="$OBJ" "${MAKE[@]}" KCONFIG_ALLCONFIG="$OBJ/options" allnoconfig
    # A line that Kconfig dropped would be a checker that silently does not run.
    while read -r line; do
        grep -qxF "$line" "$OBJ/.config" || missing+=("${line%%=*}")
    done < <(grep '^CONFIG_' "$OBJ/options")
    [ ${#missing[@]} -eq 0 ] ||
        die "the kernel's configuration does not take: ${missing[*]}" "see $OBJ/options and $OBJ/.config"
}

write_env() {
    write_whole "$OBJ/npu.env" <<ENV
KDIR=$OBJ
KIMAGE=$OBJ/$IMAGE
KVERSION=$(cat "$OBJ/include/config/kernel.release")
KMODULES=
KCONFIG=$OBJ/.config
KSOURCE=$SOURCE
CHECKPATCH=$SOURCE/scripts/checkpatch.pl
ENV
}

# An object directory is found again by what went into it.
key() {
    {
        basename "$SOURCE"
        parts_kconfig
        echo "${UNCHECKED[@]}" "${UNCHECKED_FOLDERS[@]}"
        cat "${FRAGMENTS[@]}"
        gcc -dumpfullversion
        [ "$ARCH" = amd64 ] || echo "$ARCH $PAGES"
        [ "$CHECKER" = kasan ] || echo "${KCSAN[@]}"
    } | hash_of
}

built_env() {
    SOURCE=$(newest_source)
    [ -n "$SOURCE" ] || return 1
    OBJ=$BASE/obj-$(key)
    [ -e "$OBJ/npu.env" ]
}

# Reads --arch, --pages and --checker; leaves the other arguments in REST.
choose() {
    while [ $# -gt 0 ]; do
        case $1 in
            --arch) ARCH=${2:-} ;;
            --pages) PAGES=${2:-} ;;
            --checker) CHECKER=${2:-} ;;
            *) break ;;
        esac
        shift $(($# > 1 ? 2 : 1))
    done
    REST=("$@")
    case $CHECKER in
        kasan) ;;
        kcsan) FRAGMENTS+=("$NPU_TOP/kernel/kcsan.config") WHAT="KCSAN and gcov" INSTRUMENTED=("${KCSAN[@]}") ;;
        *) die "there is no debug kernel with '$CHECKER'" "known: kasan kcsan" ;;
    esac
    case $ARCH-$PAGES in
        amd64-4K) ;;
        arm64-4K | arm64-16K | arm64-64K)
            FRAGMENTS+=("$NPU_TOP/kernel/debug-arm64.config")
            IMAGE=arch/arm64/boot/Image
            TARGETS=(Image modules)
            MAKE=(ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-)
            ;;
        *) die "there is no debug kernel for '$ARCH' with pages of '$PAGES'" "known: amd64 4K, arm64 4K 16K 64K" ;;
    esac
}

main() {
    choose "$@"
    if built_env; then
        echo "$OBJ/npu.env"
        return
    fi
    [ "${REST[0]:-}" != --env ] || die "the debug kernel is not built" "run: $0 ${*%--env}"
    for program in gcc bison flex bc make; do need_program "$program"; done
    cache_lock kernel-debug
    if [ -n "$SOURCE" ]; then need_space 450 "$BASE"; else need_space 2300 "$BASE"; fi
    fetch_source
    [ "$ARCH" != arm64 ] || cross_path
    OBJ=$BASE/obj-$(key)
    mkdir -p "$OBJ"
    leave_unchecked
    configure
    say "building Linux $(basename "$SOURCE") with $WHAT (about 6 minutes with 2 jobs); log: $OBJ/build.log"
    logged "$OBJ/build.log" nice make -C "$SOURCE" O="$OBJ" "${MAKE[@]}" -j"$NPU_JOBS" "${UNCHECKED[@]}" \
        "${INSTRUMENTED[@]}" "${TARGETS[@]}"
    write_env
    say "built $OBJ/$IMAGE"
    echo "$OBJ/npu.env"
}

main "$@"
