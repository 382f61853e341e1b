#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs npu_runtime_c_test with a model made for it: run_c_test.sh BIN_DIR
set -eu
models=$(mktemp -d)
trap 'rm -rf "$models"' EXIT
"$1/bmodel_seeds" "$models"
"$1/npu_runtime_c_test" "$models/sample.bmodel"
