#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# A system that has everything to boot the emulated board, in build/image: Debian 12 with the packages of `make deb`,
# and with QEMU, a kernel and the driver from this checkout. Its command qnpu-demo boots the board and reads handwritten
# digits on it; npu-vm is there, too. The root file system is a tarball; where podman or buildah is installed, it also
# becomes a container image, qnpu:VERSION (STORAGE_DRIVER=vfs where their overlay does not work).
#
#   image.sh          makes it (as root, or where users may have namespaces)
#   image.sh --quick  to try it: with packages of deb.sh --quick
#   image.sh --test   unpacks the tarball, and runs the demo in it

NPU_STEP=image
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$NPU_TOP"

OUT=$NPU_BUILD/image
# Where npu-vm finds in the image what it finds in a checkout and its cache.
HOME_OF_BOARD=usr/lib/qnpu-board

# Debian packages that npu-vm and this QEMU need: package | what for
packages() {
    cat <<'LIST'
python3|npu-vm
bash|env file of the kernel
kmod|what the driver needs loaded
busybox-static|user space of the board
seabios|firmware of the board
libglib2.0-0|QEMU
libpixman-1-0|QEMU
libfdt1|QEMU
libattr1|QEMU
libcap-ng0|QEMU
zlib1g|QEMU
LIST
}

# From the kernel only what the board loads; npu-vm knows what that is.
stage_kernel() {
    local stage=$1 env to path
    env=$(scripts/kernel-stock.sh --env)
    # shellcheck source=/dev/null
    . "$env"
    to=$stage/cache/npu/kernel-stock/$KVERSION
    mkdir -p "$to/boot" "$to/lib/modules/$KVERSION"
    cp "$KIMAGE" "$to/boot/"
    cp "$KMODULES"/modules.{dep,builtin} "$to/lib/modules/$KVERSION/"
    "$NPU_PYTHON" - "$NPU_TOP" "$NPU_BUILD/kernel/npu.ko" >"$stage/modules" <<'PY'
import sys
sys.path.insert(0, sys.argv[1] + "/scripts")
from npuvm import boards
from npuvm.kernel import Kernel
print("\n".join(Kernel("stock", sys.argv[1], boards.X86_64).module_files(sys.argv[2], [])))
PY
    while read -r path; do
        install -D -m 0644 "$path" "$to/lib/modules/$KVERSION/${path#"$KMODULES"/}"
    done <"$stage/modules"
    rm "$stage/modules"
    sed "s|=.*/kernel-stock/|=/$HOME_OF_BOARD/cache/npu/kernel-stock/|" "$env" >"$to/npu.env"
}

# What is no package.
stage() {
    local stage=$OUT/board firmware=/usr/share/qemu
    rm -rf "$stage"
    mkdir -p "$stage"/{tools,scripts,build/kernel,build/lib,build/bin,build/vm}
    cp tools/npu-vm "$stage/tools/"
    cp CMakeLists.txt "$stage/" # the version
    cp scripts/lib.sh scripts/kernel-stock.sh "$stage/scripts/"
    mkdir "$stage/scripts/npuvm"
    cp scripts/npuvm/*.py scripts/npuvm/init.sh "$stage/scripts/npuvm/"
    cp "$NPU_BUILD/kernel/npu.ko" "$stage/build/kernel/"
    cp "$NPU_BUILD/bin/digits" "$stage/build/bin/"
    cp "$(qemu-device/qemu/build.sh --print)" "$stage/"
    # of QEMU's firmware what an x86-64 board without graphics and network has; the rest is SeaBIOS's package
    mkdir "$stage/firmware"
    cp "$firmware"/{pvh.bin,linuxboot_dma.bin,kvmvapic.bin} "$stage/firmware/"
    stage_kernel "$stage"
    cat >"$stage/npu-vm" <<'SH'
#!/bin/sh
# SPDX-License-Identifier: MIT
# npu-vm with the QEMU, the kernel and the driver of this image.
home=/usr/lib/qnpu-board
export NPU_QEMU="${NPU_QEMU:-$home/qemu-system-x86_64}" XDG_CACHE_HOME="$home/cache" HOME="${HOME:-/root}"
exec "$home/tools/npu-vm" "$@"
SH
    cat >"$stage/qnpu-demo" <<'SH'
#!/bin/sh
# SPDX-License-Identifier: MIT
# Boots the emulated board and reads handwritten digits on its NPU.
set -e
digits=/usr/share/doc/qnpu-doc/examples/networks/digits
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
npuc "$digits/digits.onnx" -o "$work/digits.bmodel"
cp "$digits/test_images.bin" "$digits/test_labels.bin" "$work/"
npu-vm --share "$work" --timeout 600 --env NPU_DEVICE=drm -- sh -ec 'npu-smi; digits digits.bmodel .'
SH
    chmod +x "$stage/npu-vm" "$stage/qnpu-demo"
}

# Run by mmdebstrap, with the new system.
furnish() {
    local root=$1 board=$1/$HOME_OF_BOARD name
    mkdir -p "$root/tmp/debs"
    for name in libnpu1 libbmlib0 libbmrt0 libnpumodel1 libnpu-sim libnpuc qnpu-tools qnpu-doc; do
        cp "$NPU_BUILD/deb/${name}"_*.deb "$root/tmp/debs/"
    done
    chmod -R a+rX "$root/tmp/debs"
    chroot "$root" sh -ec 'DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install /tmp/debs/*.deb'
    rm -rf "$root/tmp/debs"
    cp -r "$OUT/board" "$board"
    ln -s "/$(cd "$root" && ls usr/lib/*/libnpumodel.so.1)" "$board/build/lib/libnpumodel.so"
    mkdir -p "$root/usr/share/qemu"
    cp -n "$board"/firmware/* "$root/usr/share/qemu/"
    rm -r "$board/firmware"
    mv "$board/npu-vm" "$board/qnpu-demo" "$root/usr/local/bin/"
    ! chroot "$root" ldd "/$HOME_OF_BOARD/qemu-system-x86_64" | grep 'not found' ||
        die "QEMU lacks libraries in the image (above)"
}

make_tarball() {
    local tarball=$1 include
    include=$(packages | cut -d'|' -f1 | paste -sd,)
    # Documents of Debian's packages are left out, those of ours are not.
    logged "$NPU_BUILD/image.log" mmdebstrap --quiet --variant=minbase --include="$include" \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
        --dpkgopt='path-include=/usr/share/doc/qnpu*' \
        --customize-hook="'$NPU_TOP/scripts/image.sh' --furnish \"\$1\"" \
        bookworm "$tarball" "$OUT/sources.list"
}

# As a container image, by whichever program is there.
import() {
    local tarball=$1 name=qnpu:$2 container
    if command -v podman >/dev/null; then
        podman import --change 'CMD ["qnpu-demo"]' "$tarball" "$name"
    elif command -v buildah >/dev/null; then
        container=$(buildah from scratch)
        buildah add "$container" "$tarball" /
        buildah config --cmd qnpu-demo "$container"
        buildah commit --rm "$container" "$name"
    else
        say "neither podman nor buildah is here; on a machine that has one: podman import" \
            "--change 'CMD [\"qnpu-demo\"]' $(basename "$tarball") $name"
        return
    fi
    say "container image $name; run: podman run --rm $name"
}

# In the unpacked tarball: the demo reads digits on the board.
try() {
    local root
    root=$(mktemp -d "$NPU_BUILD/image.XXXXXX")
    trap "rm -rf '$root'" EXIT
    tar -C "$root" -xf "$1"
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" qnpu-demo </dev/null |
        tee "$NPU_BUILD/image-demo.log"
    grep -q 'by transport drm' "$NPU_BUILD/image-demo.log" || die "the demo did not use the driver"
    grep -q 'pictures right' "$NPU_BUILD/image-demo.log" || die "the demo read no digits"
    echo "1 passed, 0 failed"
}

main() {
    local version tarball quick=()
    version=$(scripts/dist.sh --version)
    tarball=$OUT/qnpu-image-$version.tar.gz
    case ${1:-} in
        --furnish)
            furnish "$2"
            return
            ;;
        --test)
            [ -e "$tarball" ] || die "$tarball is missing" "run: make image"
            try "$tarball"
            return
            ;;
        --quick) quick=(--quick) ;;
        '') ;;
        *) die "usage: image.sh [--quick|--test]" ;;
    esac
    need_program mmdebstrap
    # The packages are of the last commit, the board's part is of this folder.
    [ -n "${quick[*]}" ] || [ -z "$(git status --porcelain)" ] ||
        die "there are changes that are not committed" "commit them, or make an image to try: scripts/image.sh --quick"
    scripts/deb.sh "${quick[@]}" >/dev/null
    mkdir -p "$OUT"
    apt_sources_of_debian >"$OUT/sources.list"
    stage
    say "making the image; log: $NPU_BUILD/image.log"
    make_tarball "$tarball"
    rm -rf "$OUT/board" "$OUT/sources.list"
    say "$tarball: $(($(stat -c %s "$tarball") >> 20)) MB"
    import "$tarball" "$version"
    echo "$tarball"
}

main "$@"
