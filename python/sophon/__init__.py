# SPDX-License-Identifier: MIT
"""For programs that import sophon.sail."""
