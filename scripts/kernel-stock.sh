#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Puts Debian's stock Linux 6.12 (image, modules, headers, kbuild) into the cache, unpacked, not installed. So is the
# image itself: an emulated processor needs 4 s to do that at each boot.
# Prints the path of an env file: KDIR, KIMAGE, KVERSION, KMODULES.
#
#   kernel-stock.sh [--arch amd64|arm64]           fetch what is missing, print the env file's path
#   kernel-stock.sh [--arch amd64|arm64] --env     only print the path; fails where the kernel is not in the cache
#   kernel-stock.sh [--arch amd64|arm64] --update  look whether the archive has a newer one

NPU_STEP=kernel-stock
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

BASE=$NPU_CACHE/kernel-stock
# MB that one kernel takes, with the packages while they are unpacked.
SPACE=500

# Modules of devices and protocols that no board can have, nine of ten, and headers of other processors: they would cost
# as much time as the rest, most of it in depmod. Patterns of tar; ./net/9p stays.
# (Debian 13 has modules in /usr/lib.)
MODULES=./*lib/modules/*/kernel
APT_LEAVE_OUT=("$MODULES/sound" "$MODULES/net/[!9]*" "$MODULES"/drivers/gpu/drm/{amd,gma500,i915,nouveau,radeon,xe}
    "$MODULES"/drivers/{ata,bluetooth,comedi,hid,hwmon,iio,infiniband,input,isdn,md,media,mmc,mtd,net,platform}
    "$MODULES"/drivers/{scsi,staging,target,usb,watchdog} "$MODULES"/fs/{[!9n]*,n[!e]*}
    './usr/src/linux-headers-*-common/arch/[!ax]*' './usr/src/linux-headers-*-common/arch/a[!r]*')
ARCH=amd64
SUFFIX= # of the targets in the Makefile

newest_env() { printf '%s\n' "$BASE"/*-"$ARCH"/npu.env | sort -V | tail -n 1; }
# The record of an earlier version of this script names a packed image (vmlinuz); one from a full disk is empty.
is_complete() { grep -q '^KIMAGE=.*/vmlinux-' "$1" 2>/dev/null; }

# The packages expect to live in /; inside the cache their absolute paths have to be made relative to it.
relocate() {
    local root=$1 version=$2 src=$1/usr/src common name
    common=$(find "$src" -maxdepth 1 -name 'linux-headers-*-common' | head -n 1)
    [ -n "$common" ] || die "the headers package has no common part in $src"
    sed -i "s|/usr/src/|$src/|g" "$src/linux-headers-$version/Makefile"
    [ ! -e "$src/linux-headers-$version/.kernelvariables" ] ||
        sed -i "s|/usr/src/|$src/|g" "$src/linux-headers-$version/.kernelvariables"
    for name in scripts tools; do
        ln -sfn "$(echo "$root"/usr/lib/linux-kbuild-*)/$name" "$common/$name"
        ln -sfn "$(echo "$root"/usr/lib/linux-kbuild-*)/$name" "$src/linux-headers-$version/$name"
    done
}

write_env() {
    local root=$1 version=$2
    write_whole "$root/npu.env" <<ENV
KDIR=$root/usr/src/linux-headers-$version
KIMAGE=$root/boot/vmlinux-$version
KVERSION=$version
KMODULES=$root/lib/modules/$version
KCONFIG=$root/boot/config-$version
ENV
}

# The common headers and kbuild that the headers package of this architecture depends on.
header_parts() {
    local headers=$1
    apt_resolve "$headers" linux-headers-
    apt_resolve "$headers" linux-kbuild-
}

# Debian 12 has Linux 6.12 beside its own; Debian 13's own is 6.12.
meta_package() {
    case $(host_release) in
        bookworm) echo "linux-image-6.12-$ARCH" ;;
        *) echo "linux-image-$ARCH" ;;
    esac
}

fetch() {
    local meta image headers version root parts
    meta=$(meta_package)
    image=$(apt_resolve "$meta" linux-image-6.12)
    headers=$(apt_resolve "${meta/image/headers}" linux-headers-6.12)
    [ -n "$image" ] && [ -n "$headers" ] ||
        die "the archive has no Linux 6.12 (looked for $meta)" \
            "Debian 12's security suite carries it, and Debian 13; is it among apt's sources?"
    version=${image#linux-image-}
    root=$BASE/$version
    ! is_complete "$root/npu.env" || return 0
    mapfile -t parts < <(header_parts "$headers")
    [ ${#parts[@]} -eq 2 ] || die "$headers does not name its common headers and linux-kbuild"
    rm -rf "$root"
    apt_unpack "$root" "$image" "$headers" "${parts[0]}"
    # Debian 13's modules are in /usr/lib.
    [ -e "$root/lib" ] || ln -s usr/lib "$root/lib"
    # programs that run here, whatever the kernel is for
    NPU_APT_ARCH='' apt_unpack "$root" "${parts[1]}"
    [ -e "$root/boot/vmlinuz-$version" ] || die "$image holds no kernel image" "looked in $root/boot"
    "$NPU_PYTHON" "$NPU_TOP/scripts/unpack_kernel.py" "$root/boot/vmlinuz-$version" "$root/boot/vmlinux-$version" ||
        die "cannot unpack the kernel image"
    relocate "$root" "$version"
    "$NPU_TOP/scripts/kernel-accel.sh" "$root/usr/src/linux-headers-$version" "$root/lib/modules/$version"
    depmod -b "$root" "$version"
    write_env "$root" "$version"
    say "Linux $version is in $root"
}

main() {
    local env
    if [ "${1:-}" = --arch ]; then
        ARCH=${2:-}
        shift $(($# > 1 ? 2 : 1))
        case $ARCH in
            amd64) ;;
            # not for what this calls: programs that run here come with it, too
            arm64) NPU_APT_ARCH=arm64 SUFFIX=-arm64 ;;
            *) die "there is no board with a processor '$ARCH'" "known: amd64, arm64" ;;
        esac
    fi
    case ${1:-} in
        '' | --env | --update) ;;
        *) die "unknown argument: '$1'" "known: --arch amd64|arm64, --env, --update" ;;
    esac
    env=$(newest_env)
    if ! is_complete "$env" || [ "${1:-}" = --update ]; then
        [ "${1:-}" != --env ] || die "the stock kernel is not in the cache" "run: make kernel-stock$SUFFIX"
        PATH=$PATH:/usr/sbin:/sbin
        need_program depmod
        need_space "$SPACE" "$NPU_CACHE"
        need_plain "$NPU_CACHE" "the driver"
        cache_lock kernel-stock
        fetch
        env=$(newest_env)
    fi
    echo "$env"
}

main "$@"
