#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The two steps of the action. Their inputs are environment variables.
#
#   board.sh prepare   installs the packages of QNPU_PACKAGES, or builds the board of these sources
#   board.sh run       runs QNPU_PROGRAM on the board, in the folder QNPU_FILES, with npu-vm's options QNPU_OPTIONS
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)

prepare() {
    local names=(libnpu1 libbmlib0 libbmrt0 libnpumodel1 libnpu-sim libnpuc qnpu-tools qnpu-board) name files=()
    # shellcheck source=/dev/null
    . /etc/os-release
    if [ -z "${QNPU_PACKAGES:-}" ]; then
        command -v make >/dev/null || { apt-get update && apt-get install -y --no-install-recommends make; }
        make -C "$top" setup SET=board
        make -C "$top" programs qemu kernel-stock module
        return
    fi
    for name in "${names[@]}"; do
        files+=("$(realpath "$QNPU_PACKAGES")/$name"_*"+${ID/debian/deb}${VERSION_ID}_"*.deb)
        [ -e "${files[-1]}" ] || { echo "::error::$QNPU_PACKAGES has no package $name for $PRETTY_NAME" && exit 1; }
    done
    apt-get update
    apt-get install -y --no-install-recommends "${files[@]}"
}

run() {
    local vm=$top/tools/npu-vm options
    [ -z "${QNPU_PACKAGES:-}" ] || vm=npu-vm
    read -ra options <<<"${QNPU_OPTIONS:-}"
    "$vm" --share "${QNPU_FILES:-.}" "${options[@]}" -- sh -c "${QNPU_PROGRAM:?the input program is empty}"
}

case ${1:-} in
    prepare) prepare ;;
    run) run ;;
    *) echo "usage: board.sh prepare|run" >&2 && exit 2 ;;
esac
