#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# A system that has everything to boot the emulated board, in build/image: Debian with the packages of `make deb`,
# qnpu-board among them. Its command qnpu-demo boots the board and reads handwritten digits on it; npu-vm is there, too.
# The root file system is a tarball; where podman or buildah is installed, it also becomes a container image,
# qnpu:VERSION (STORAGE_DRIVER=vfs where their overlay does not work).
#
#   image.sh          makes it (as root, or where users may have namespaces)
#   image.sh --quick  to try it: with packages of deb.sh --quick
#   image.sh --test   unpacks the tarball, and runs the demo in it
#
# QNPU_DEBS=DIR takes packages that were built elsewhere, QNPU_RELEASE=CODENAME the release of Debian that they are for
# (default: this host's).

NPU_STEP=image
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$NPU_TOP"

OUT=$NPU_BUILD/image
RELEASE=${QNPU_RELEASE:-$(host_release)} # the codename of Debian
PACKAGES=(libnpu1 libbmlib0 libbmrt0 libnpumodel1 libnpu-sim libnpuc qnpu-tools qnpu-board qnpu-doc)

# Run by mmdebstrap, with the new system.
furnish() {
    local root=$1 debs=$2 name
    mkdir -p "$root/tmp/debs"
    for name in "${PACKAGES[@]}"; do cp "$debs/${name}"_*.deb "$root/tmp/debs/"; done
    chmod -R a+rX "$root/tmp/debs"
    chroot "$root" sh -ec 'DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install /tmp/debs/*.deb'
    rm -rf "$root/tmp/debs"
}

make_tarball() {
    local tarball=$1 debs=$2
    # Documents of Debian's packages are left out, those of ours are not.
    logged "$NPU_BUILD/image.log" mmdebstrap --quiet --variant=minbase \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
        --dpkgopt='path-include=/usr/share/doc/qnpu*' \
        --customize-hook="'$NPU_TOP/scripts/image.sh' --furnish \"\$1\" '$debs'" \
        "$RELEASE" "$tarball" "$OUT/sources.list"
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
    local version tarball debs quick=()
    version=$(scripts/dist.sh --version)
    tarball=$OUT/qnpu-image-$version.tar.gz
    case ${1:-} in
        --furnish)
            furnish "$2" "$3"
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
    debs=${QNPU_DEBS:-$(scripts/deb.sh "${quick[@]}")}
    compgen -G "$debs/qnpu-board_*.deb" >/dev/null || die "$debs has no package qnpu-board" \
        "its parts were not built; run: make programs qemu kernel-stock module"
    mkdir -p "$OUT"
    apt_sources_of_debian "$RELEASE" >"$OUT/sources.list"
    say "making the image; log: $NPU_BUILD/image.log"
    # the same packages make the same bytes
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
    export SOURCE_DATE_EPOCH
    make_tarball "$tarball" "$debs"
    rm -rf "$OUT/sources.list"
    say "$tarball: $(($(stat -c %s "$tarball") >> 20)) MB"
    import "$tarball" "$version"
    echo "$tarball"
}

main "$@"
