/* SPDX-License-Identifier: MIT */
/* The chip's clock where the board says nothing else: the power-on value of CLOCK_KHZ, and what the compiler's report
 * counts with. */
#ifndef NPU_HW_CLOCK_H
#define NPU_HW_CLOCK_H

#define NPU_FULL_CLOCK_KHZ 1000000u

#endif /* NPU_HW_CLOCK_H */
