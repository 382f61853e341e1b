#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# What is released: build/dist/qnpu-VERSION.tar.xz, the files of the last commit. The same commit makes the same bytes.
# Prints the path.
#
#   dist.sh            makes it
#   dist.sh --version  only prints the version
#
# QNPU_DIST=FILE is printed instead, and nothing is made: other versions of xz make other bytes.

NPU_STEP=dist
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$NPU_TOP"

main() {
    local version to
    need_program git
    git rev-parse --verify --quiet 'HEAD^{commit}' >/dev/null 2>&1 ||
        die "$NPU_TOP is no checkout of git with a commit" "packages are made of commits"
    version=$(git show HEAD:CMakeLists.txt | sed -nE 's/^project\(qnpu VERSION ([0-9.]+) .*/\1/p')
    [ -n "$version" ] || die "CMakeLists.txt of the last commit has no version"
    if [ "${1:-}" = --version ]; then
        echo "$version"
        return
    fi
    if [ -n "${QNPU_DIST:-}" ]; then
        [ -e "$QNPU_DIST" ] || die "QNPU_DIST names a file that is missing: $QNPU_DIST"
        echo "$QNPU_DIST"
        return
    fi
    git diff --quiet HEAD || say "files differ from the last commit, which is what this takes"
    to=$NPU_BUILD/dist/qnpu-$version.tar.xz
    mkdir -p "$(dirname "$to")"
    # neither this user's settings nor the number of processors are in it
    git -c tar.umask=0022 -c core.attributesFile=/dev/null archive --format=tar --prefix="qnpu-$version/" HEAD |
        xz -6 --threads=1 >"$to.new"
    mv "$to.new" "$to"
    echo "$to"
}

main "$@"
