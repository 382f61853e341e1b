#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The package npu-dkms beside every kernel of Debian 12 and 13, in clean systems of both: it is installed before and
# after headers of each kernel, and no package ends half configured. A kernel that can have the driver has it, another
# one has the module that says so. As root, or where users may have namespaces. Prints "N passed, N failed" for each
# release.
#
#   test-dkms.sh [RELEASE...]           bookworm and trixie, unless others are named
#   test-dkms.sh --in ROOT RELEASE      what mmdebstrap calls, with the new system
#
# The package is that of scripts/deb.sh, or $NPU_DKMS_DEB.

NPU_STEP=test-dkms
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

# shellcheck source=scripts/clean-system.sh
. "$(dirname "$0")/clean-system.sh"

apt() { inside apt-get -q -y -o APT::Keep-Downloaded-Packages=true --no-install-recommends "$@"; }
shell() { inside sh -ec "$1"; }

# Prints the packages with headers that a release has for this processor, one a line: those that name the newest of a
# kind of kernel.
# KERNELS of the environment is a pattern for those that are wanted.
headers() {
    inside apt-cache pkgnames linux-headers- | grep -E '^linux-headers-([0-9.]+-)?(cloud-|rt-)?amd64$' |
        grep -E "${KERNELS:-.}" | sort
}

healthy() { shell '[ -z "$(dpkg --audit)" ] && apt-get -q -y -f install && apt-get -q -y check'; }

# expect_module VERSION: the module of a kernel is the driver where that kernel can have it, and only there.
expect_module() {
    local kernel=$1 config description
    config=$ROOT/usr/src/linux-headers-$kernel/.config
    description=$(inside modinfo -F description -k "$kernel" qnpu) || return 1
    if dpkg --compare-versions "$kernel" ge 6.12 && grep -q '^CONFIG_DRM_ACCEL=y' "$config"; then
        [ "$description" = "QNPU neural processing unit" ]
    else
        [ "$description" = "QNPU neural processing unit: not for this kernel" ]
    fi
}

expect_modules() {
    local folder kernel
    for folder in "$ROOT"/usr/src/linux-headers-*-amd64; do
        kernel=${folder##*/linux-headers-}
        is "$kernel: its module is the right one" expect_module "$kernel"
    done
}

run_inside() {
    local release=$2 deb name first
    ROOT=$1
    deb=${NPU_DKMS_DEB:-$(ls "$NPU_BUILD"/deb/npu-dkms_*.deb)}
    cp "$deb" "$ROOT/tmp/npu-dkms.deb"
    bring_archives
    mapfile -t names < <(headers)
    [ ${#names[@]} -gt 0 ] || die "$release has no packages with headers of kernels"
    first=${names[0]}
    is "$first is installed before the driver" apt install "$first"
    is "npu-dkms is installed" apt install /tmp/npu-dkms.deb
    is "nothing is half configured" healthy
    for name in "${names[@]:1}"; do
        is "$name is installed behind it" apt install "$name"
        is "nothing is half configured" healthy
    done
    expect_modules
    is "npu-dkms upgrades over itself beside all of them" apt --reinstall install /tmp/npu-dkms.deb
    is "nothing is half configured" healthy
    expect_modules
    is "npu-dkms is purged" apt purge npu-dkms
    is "no module is left" sh -c "[ -z \"\$(find '$ROOT/lib/modules/' -name 'qnpu*.ko*')\" ]"
    inside apt-get autoclean >/dev/null
    keep_archives
    echo "$passed passed, $failed failed" >"$NPU_BUILD/test-dkms.$release"
}

main() {
    local release status=0
    if [ "${1:-}" = --in ]; then
        set +e
        run_inside "$2" "$3"
        return
    fi
    [ -n "${NPU_DKMS_DEB:-}" ] || "$NPU_TOP/scripts/deb.sh" --print >/dev/null
    [ $# -gt 0 ] || set -- bookworm trixie
    for release; do
        in_clean_system "$release" "$NPU_BUILD/test-dkms.$release" "$NPU_TOP/scripts/test-dkms.sh" "$release" ||
            status=1
    done
    return $status
}

main "$@"
