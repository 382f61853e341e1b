#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The plug-in's tests on an emulated board, through the real driver: ort_session_test as ctest runs it on the simulator.
# The board does not see the cache, so what it needs of ONNX Runtime goes to it in a shared folder. The last line is
# "N passed, N failed".
#
#   board.sh [NPU-VM OPTION...]

NPU_STEP=ort-board
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/../../scripts/lib.sh"

env=$("$NPU_TOP/scripts/onnxruntime.sh" --env)
# shellcheck source=/dev/null
. "$env"
share=$(mktemp -d "$NPU_CACHE/ort-board.XXXXXX")
trap 'rm -rf "$share"' EXIT
cp "$ORT_LIBRARY/libonnxruntime.so.1" "$ORT_PROVIDERS/libonnxruntime_providers_shared.so" "$share/"
"$NPU_PYTHON" "$NPU_TOP/ort/tests/make_networks.py" "$share/networks"
status=0
"$NPU_TOP/tools/npu-vm" --timeout 3000 --share "$share" "$@" -- env LD_LIBRARY_PATH=/mnt/share NPU_DEVICE=drm \
    "$NPU_BUILD/bin/ort_session_test" "$NPU_BUILD/lib/libqnpu_ep.so" /mnt/share/networks "$NPU_TOP/networks/digits" \
    /mnt/share/work >"$share/out" 2>&1 </dev/null || status=$?
cat "$share/out"
good=$(grep -c '^\[       OK \]' "$share/out" || true)
bad=$(grep '^\[  FAILED  \] [a-z_]*$' "$share/out" | sort -u | grep -c . || true)
[ "$status" -eq 0 ] || [ "$bad" -gt 0 ] || bad=1
echo "$good passed, $bad failed"
[ "$bad" -eq 0 ] && [ "$good" -gt 0 ]
