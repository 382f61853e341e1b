#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Gives a kernel of Debian's, unpacked in the cache, the kernel's part for accelerators where its configuration leaves
# that out, as the one for arm64 does. That part is an option (CONFIG_DRM_ACCEL) of the module drm.ko: this one is built
# once more, of the same version's source, takes the place of the packaged one, and the headers say so. The image and
# all other modules stay Debian's.
#
#   kernel-accel.sh KDIR MODULES    headers, and folder of modules, of the kernel; used by kernel-stock.sh

NPU_STEP=kernel-accel
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

PACKAGE=linux-source-6.12
OPTION=CONFIG_DRM_ACCEL

# Of the source only what makes drm.ko.
fetch_source() {
    local to=$SOURCE version=$1 found
    found=$(apt_ask show "$PACKAGE" | awk '$1 == "Version:" && !version { version = $2 } END { print version }')
    case $found in
        "${version%%+*}"-*) ;;
        *) die "the archive has $PACKAGE ${found:-not at all}, and the kernel's version is $version" ;;
    esac
    apt_unpack "$to/package" "$PACKAGE=$found"
    tar -C "$to" -xf "$to/package/usr/src/$PACKAGE.tar.xz" --strip-components=1 --wildcards --no-wildcards-match-slash \
        "$PACKAGE/drivers/gpu/drm/*.[ch]" "$PACKAGE/drivers/gpu/drm/Makefile" "$PACKAGE/drivers/accel/drm_accel.c"
    rm -rf "$to/package"
    # The rest of the folder's Makefile names other modules. Trace headers are looked for from include/trace.
    mkdir -p "$to/include/trace"
    cat >"$to/drivers/gpu/drm/Kbuild" <<'KBUILD'
include $(src)/Makefile
obj-m := drm.o
obj-y :=
ccflags-y += -I$(src)/../../../include/trace
KBUILD
}

# What a kernel that was configured so would have in its headers.
switch_on() {
    local headers=$1
    sed -i "s/^# $OPTION is not set\$/$OPTION=y/" "$headers/.config"
    echo "$OPTION=y" >>"$headers/include/config/auto.conf"
    echo "#define $OPTION 1" >>"$headers/include/generated/autoconf.h"
}

# What the new module exports instead of the packaged one.
exports() {
    local headers=$1 built=$2
    awk -F'\t' 'BEGIN { OFS = FS } FILENAME == ARGV[1] { $3 = "drivers/gpu/drm/drm"; print; next }
        $3 != "drivers/gpu/drm/drm"' "$built/Module.symvers" "$headers/Module.symvers" >"$headers/Module.symvers.new"
    mv "$headers/Module.symvers.new" "$headers/Module.symvers"
}

main() {
    local headers=$1 modules=$2 version folder
    version=$(basename "$modules")
    grep -q "^# $OPTION is not set\$" "$headers/.config" || return 0
    need_program xz
    SOURCE=$(mktemp -d "$NPU_CACHE/accel.XXXXXX")
    trap 'rm -rf "$SOURCE"' EXIT
    folder=$SOURCE/drivers/gpu/drm
    fetch_source "$version"
    cross_path
    switch_on "$headers"
    say "building drm.ko for Linux $version with $OPTION"
    logged "$NPU_CACHE/logs/kernel-accel.log" nice make -C "$headers" M="$folder" -j"$NPU_JOBS" modules
    exports "$headers" "$folder"
    mkdir -p "$modules/updates"
    cp "$folder/drm.ko" "$modules/updates/"
}

main "$@"
