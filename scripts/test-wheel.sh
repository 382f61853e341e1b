#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Installs self-contained wheels in clean systems that have Python and numpy alone, and uses them as a stranger would: a
# network is compiled and run on the simulated chip, from Python, through sophon.sail, and by the commands. As root, or
# where users may have namespaces. Prints "N passed, N failed" for each.
#
#   test-wheel.sh WHEEL...   each in the Debian that has its version of Python

NPU_STEP=test-wheel
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/clean-system.sh
. "$(dirname "$0")/clean-system.sh"

HERE=tmp/qnpu # in the new system

shell() { inside sh -ec "cd /$HERE; export NPU_DEVICE=sim PATH=/$HERE/venv/bin:\$PATH; $1"; }

# Libraries outside of the environment that the process uses, but those of every system.
program() {
    cat <<'PYTHON'
import re
import sys
import numpy
import qnpu
import sophon.sail as sail

assert qnpu.__file__.startswith(sys.prefix), qnpu.__file__
images = numpy.fromfile("test_images.bin", numpy.uint8, offset=16 + 7 * 64, count=64)
label = numpy.fromfile("test_labels.bin", numpy.uint8, offset=16 + 7, count=1)
with qnpu.Session("digits.onnx") as session:
    out = session.run({"image": images.reshape(1, 1, 8, 8).astype(numpy.float32) / 16})
    with open("/proc/self/maps") as maps:
        loaded = {line.split()[-1] for line in maps if ".so" in line}
assert out["probabilities"].argmax() == label[0], out
ours = [path for path in loaded if re.search("npu|dnnl|bmlib|uring|onnx", path)]
assert ours and all(path.startswith(sys.prefix) for path in ours), ours
assert sail.Engine("digits.onnx", 0, sail.IOMode.SYSIO).get_graph_names() == ["digits"]
PYTHON
}

run_inside() {
    local wheel=$1
    bring_archives
    inside apt-get -q -y --no-install-recommends install python3 python3-venv python3-numpy >&2
    keep_archives
    mkdir -p "$ROOT/$HERE"
    cp "$wheel" "$NPU_TOP"/networks/digits/{digits.onnx,test_images.bin,test_labels.bin} \
        "$NPU_BUILD/test-wheel/nets/relu_1x5x7x9/open.onnx" "$ROOT/$HERE/"
    program >"$ROOT/$HERE/program.py"
    chmod -R a+rX "$ROOT/$HERE"
    is "no library of the project is installed" shell '[ -z "$(find /usr -name "libnpu*" -o -name "libdnnl*")" ]'
    is "an environment is made" shell 'python3 -m venv --system-site-packages venv'
    is "pip installs the wheel" shell 'venv/bin/pip install --no-index ./qnpu-*.whl'
    is "a program reads a digit" shell 'venv/bin/python -W error program.py'
    is "with oneDNN, which is asked for" shell 'NPU_SIM=backend=onednn venv/bin/python -W error program.py'
    is "npuc compiles the network" shell 'npuc -q digits.onnx -o digits.bmodel'
    is "bmrt_test runs it" shell 'bmrt_test --bmodel digits.bmodel'
    is "tpu_model shows it" shell 'tpu_model --info digits.bmodel | grep -q digits'
    is "a dynamic network is compiled at its launch" shell 'npuc -q open.onnx --shape x0=2,5,7,9 --dynamic \
        -o open.bmodel; bmrt_test --bmodel open.bmodel --net_idx 0 --shapes "[1,3,2,2]"'
    is "licences of the libraries are there" shell 'set -- venv/lib/python3*/site-packages/qnpu-*.dist-info
        test -s "$1"/licenses/libdnnl*/copyright'
    is "pip removes it" shell 'venv/bin/pip uninstall -y qnpu && [ -z "$(find venv -name "*npu*")" ]'
    echo "$passed passed, $failed failed" >"$NPU_BUILD/test-wheel.result"
}

main() {
    local suite wheel
    if [ "${1:-}" = --in ]; then
        set +e
        ROOT=$2
        run_inside "$3"
        return
    fi
    [ $# -gt 0 ] || die "usage: test-wheel.sh WHEEL..."
    mkdir -p "$NPU_BUILD"
    rm -rf "$NPU_BUILD/test-wheel"
    "$NPU_PYTHON" "$NPU_TOP/tests/oracle/gen_nets.py" "$NPU_BUILD/test-wheel/nets" --only 'relu_*' >/dev/null
    for wheel; do
        [ -e "$wheel" ] || die "there is no wheel $wheel" "run: make wheel"
        case $wheel in
            *-cp311-*) suite=bookworm ;;
            *-cp313-*) suite=trixie ;;
            *) die "$wheel is for a Python that no Debian has" "known: cp311 (Debian 12), cp313 (Debian 13)" ;;
        esac
        in_clean_system "$suite" "$NPU_BUILD/test-wheel.result" "$NPU_TOP/scripts/test-wheel.sh" "$(realpath "$wheel")"
    done
}

main "$@"
