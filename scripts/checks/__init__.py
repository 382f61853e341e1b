# SPDX-License-Identifier: MIT
"""The steps of the checks: their table, their inputs, how one runs, and how ctest runs them all."""
