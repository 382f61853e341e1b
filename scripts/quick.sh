#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Builds, and runs the unit tests of the components that changed (`make quick`): since the last commit, or, where
# nothing is changed, in it. Since another one: SINCE=COMMIT. What depends on a component is not tested; `make check`
# does that. The table of paths and tests stands in CONTRIBUTING.md.
#
#   quick.sh            builds and tests
#   quick.sh --labels   prints the labels of what changed, and tests nothing

NPU_STEP=quick
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$NPU_TOP"

changed() {
    local since=${SINCE:-HEAD}
    [ -n "${SINCE:-}" ] || [ -n "$(git status --porcelain)" ] || since=HEAD~1
    git diff --name-only "$since"
    git ls-files --others --exclude-standard
}

# label PATH: the tests that a path belongs to.
label() {
    case $1 in
        uapi/*) echo "abi chip libnpu" ;;
        qemu-device/model/* | tests/unit/model/* | tests/unit/compute/* | tests/unit/commands/* | tests/fuzz/*chip*)
            echo chip
            ;;
        qemu-device/qemu/*) echo qemu ;;
        kernel/*) echo driver ;;
        libnpu/include/* | runtime/include/*) echo "abi libnpu runtime" ;;
        libnpu/* | tests/unit/libnpu/* | tools/npu-smi/*) echo libnpu ;;
        runtime/* | tests/unit/runtime/* | tools/bmrt_test/*) echo runtime ;;
        compiler/* | tests/unit/compiler/* | tests/oracle/* | tests/conformance/* | tests/fuzz/nets/* | tools/npuc/*)
            echo compiler
            ;;
        tools/npu-vm | scripts/npuvm/* | tests/env/*) echo vm ;;
        tools/* | tests/unit/tools/*) echo tools ;;
        python/* | pyproject.toml | setup.py) echo python ;;
        tests/abi/*) echo abi ;;
        docs/* | man/* | README.md | CHANGELOG.md | debian/changelog) echo "documents" ;;
        cmake/install.cmake | tests/install/*) echo install ;;
        tests/guest/* | tests/fuzz/kernel/*) echo "driver" ;;
    esac
}

labels=$(changed | sort -u | while read -r path; do label "$path"; done | tr ' ' '\n' | sort -u)
[ "${1:-}" != --labels ] || { echo "$labels"; exit 0; }

make -s build
tests/static/spdx.sh | tail -n 5
uapi/hw/generate.py --check
wanted=
for one in $labels; do
    case $one in
        driver) make -s module ;;
        vm) "$NPU_PYTHON" tests/env/test_console.py ;;
        qemu) say "the device: make qemu && make test T=qemu-device" ;;
        documents) wanted+="|documents" ;;
        *) wanted+="|$one" ;;
    esac
done
if [ -z "$wanted" ]; then
    say "no unit tests for what changed:" ${labels:-nothing}
    exit 0
fi
say "unit tests of:" $labels
exec ctest --test-dir "$NPU_BUILD" --output-on-failure -j "$(nproc)" -L "^(${wanted#|})\$" -LE slow
