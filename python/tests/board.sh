#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The package qnpu inside the emulated board, over the driver: the tests that pass over the simulator on the host. Needs
# the checkout with its build. The last lines are those of unittest.

here=$(dirname "$(readlink -f "$0")")
cd "$here" || exit 1
export NPU_DEVICE=drm NPU_QUIET=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="${NPU_BUILD:-$here/../../build}/python"
exec /usr/bin/python3 -W error -m unittest -v test_session test_tensor test_errors test_threads test_async test_sail
