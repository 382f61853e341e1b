#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Debian packages of the last commit, in build/deb: the source package and all binary packages, built outside of the
# checkout from what `make dist` makes, and looked at by lintian, whose errors are errors. Compiled files come from
# ccache where it has them.
#
#   deb.sh             builds them, unless those of this state are there
#   deb.sh --quick     to try them, not to release them: compiled as `make build` does, without Debian's hardening, so
#                      that nearly all comes from ccache, and without packages of debugging symbols; those of a whole
#                      build will do as well
#   deb.sh --print     only prints the folder; fails where the packages of this state are not there
#
# QNPU_BOARD=DIR     files of the package qnpu-board that scripts/stage-board.sh has copied elsewhere
# QNPU_KEEP=1        leaves the build tree in build/deb

NPU_STEP=deb
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$NPU_TOP"

OUT=$NPU_BUILD/deb

QUICK=

# Of what the packages hold, and of what they are built by.
state() {
    {
        git rev-parse "HEAD^{tree}"
        dpkg-query -W
        scripts/onnxruntime.sh --env 2>/dev/null || true
        echo "${QNPU_BOARD:-}${QNPU_KEEP:-}"
        scripts/stage-board.sh --state 2>/dev/null || true
    } | hash_of
}

# is_built KIND...: whether packages of this state and one of these kinds (whole, quick) are there.
is_built() {
    local kind
    for kind; do [ "$(cat "$OUT/.state" 2>/dev/null)" != "$(state) $kind" ] || return 0; done
    return 1
}

# Sets profiles, and the variables of debian/rules: packages that are made only where their parts are there.
choose_profiles() {
    local env
    # The plug-in for ONNX Runtime is left out where its headers were not fetched (make onnxruntime).
    if env=$(scripts/onnxruntime.sh --env 2>/dev/null); then
        QNPU_ORT_INCLUDE=$(sed -n 's/^ORT_INCLUDE=//p' "$env")
        export QNPU_ORT_INCLUDE
        profiles=pkg.qnpu.onnxruntime
    fi
    # The emulated board is left out where it was not built (make programs qemu kernel-stock module).
    if [ -z "${QNPU_BOARD:-}" ] && scripts/stage-board.sh --state >/dev/null 2>&1; then
        QNPU_BOARD=$(scripts/stage-board.sh)
    fi
    if [ -z "${QNPU_BOARD:-}" ]; then
        say "qnpu-board is left out, since its parts are not built (make programs qemu kernel-stock module)"
        return
    fi
    check_glibc "$QNPU_BOARD"/usr/lib/qnpu-board/qemu-system-x86_64
    export QNPU_BOARD
    profiles+=${profiles:+,}pkg.qnpu.board
}

# A program that was built on another release of the distribution.
check_glibc() {
    local needed here
    needed=$(readelf -VW "$1" | sed -nE 's/.*Name: GLIBC_([0-9.]+)  Flags.*/\1/p' | sort -V | tail -n 1)
    here=$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)
    [ "$(printf '%s\n' "$needed" "$here" | sort -V | tail -n 1)" = "$here" ] ||
        die "$1 was built with glibc $needed, and this system has $here" "build it on this or an older system"
}

# Packages of each release of a distribution have versions of their own: 0.1.0-1+deb12 for Debian 12.
set_distribution() {
    local name
    # shellcheck source=/dev/null
    name=$(. /etc/os-release && echo "${ID/debian/deb}$VERSION_ID")
    sed -i "1s/)/+$name)/" "$1"
}

build() {
    local tarball version profiles=
    for program in dpkg-buildpackage dh dh_dkms lintian; do need_program "$program"; done
    tarball=$(scripts/dist.sh)
    version=$(scripts/dist.sh --version)
    rm -rf "$OUT"
    mkdir -p "$OUT"
    cp "$tarball" "$OUT/qnpu_$version.orig.tar.xz"
    tar -C "$OUT" -xf "$tarball"
    set_distribution "$OUT/qnpu-$version/debian/changelog"
    choose_profiles
    say "building the packages of version $version; log: $NPU_BUILD/deb.log"
    # debhelper gives the compiler a home of its own, where ccache would find nothing
    (
        cd "$OUT/qnpu-$version"
        export DEB_BUILD_OPTIONS="nocheck parallel=$NPU_JOBS${QUICK:+ noautodbgsym}"
        export QNPU_QUICK=$QUICK
        if type ccache >/dev/null 2>&1; then
            CCACHE_DIR=$(ccache --get-config cache_dir)
            export CCACHE_DIR
        fi
        logged "$NPU_BUILD/deb.log" dpkg-buildpackage --no-sign ${profiles:+"--build-profiles=$profiles"}
    )
    [ -n "${QNPU_KEEP:-}" ] || rm -rf "$OUT/qnpu-$version"
}

# make_packages KIND
make_packages() {
    local made
    made="$(state) $1"
    build
    inspect
    echo "$made" >"$OUT/.state"
}

inspect() {
    logged "$NPU_BUILD/lintian.log" lintian --allow-root --fail-on error --display-info "$OUT"/*.changes
    grep -cE '^[EWI]: ' "$NPU_BUILD/lintian.log" >/dev/null || say "lintian has nothing to say"
    say "lintian: $(grep -c '^E: ' "$NPU_BUILD/lintian.log") errors," \
        "$(grep -c '^W: ' "$NPU_BUILD/lintian.log") warnings; $NPU_BUILD/lintian.log"
}

main() {
    case ${1:-} in
        --print) is_built whole quick || die "the packages of this state are not built" "run: make deb" ;;
        --quick)
            QUICK=1
            is_built whole quick || make_packages quick
            ;;
        '') is_built whole || make_packages whole ;;
        *) die "usage: deb.sh [--quick|--print]" ;;
    esac
    echo "$OUT"
}

main "$@"
