# SPDX-License-Identifier: MIT
"""Makes the series for upstream: scripts/upstream_series.py is the program."""
