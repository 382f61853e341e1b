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
    } | hash_of
}

# is_built KIND...: whether packages of this state and one of these kinds (whole, quick) are there.
is_built() {
    local kind
    for kind; do [ "$(cat "$OUT/.state" 2>/dev/null)" != "$(state) $kind" ] || return 0; done
    return 1
}

build() {
    local tarball version env profile=()
    for program in dpkg-buildpackage dh dh_dkms lintian; do need_program "$program"; done
    tarball=$(scripts/dist.sh)
    version=$(scripts/dist.sh --version)
    rm -rf "$OUT"
    mkdir -p "$OUT"
    cp "$tarball" "$OUT/qnpu_$version.orig.tar.xz"
    tar -C "$OUT" -xf "$tarball"
    # The plug-in for ONNX Runtime is left out where its headers were not fetched (make onnxruntime).
    if env=$(scripts/onnxruntime.sh --env 2>/dev/null); then
        QNPU_ORT_INCLUDE=$(sed -n 's/^ORT_INCLUDE=//p' "$env")
        export QNPU_ORT_INCLUDE
        profile=(--build-profiles=pkg.qnpu.onnxruntime)
    fi
    say "building the packages of version $version; log: $NPU_BUILD/deb.log"
    # debhelper gives the compiler a home of its own, where ccache would find nothing
    (
        cd "$OUT/qnpu-$version"
        export DEB_BUILD_OPTIONS="nocheck parallel=${NPU_JOBS:-$(nproc)}${QUICK:+ noautodbgsym}"
        CCACHE_DIR=$(ccache --get-config cache_dir)
        export CCACHE_DIR QNPU_QUICK=$QUICK
        logged "$NPU_BUILD/deb.log" dpkg-buildpackage --no-sign "${profile[@]}"
    )
    rm -rf "$OUT/qnpu-$version"
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
