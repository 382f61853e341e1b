/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_PARAMS_H
#define NPU_PARAMS_H

extern unsigned int npu_timeout_ms;
extern unsigned int npu_busywait_us;
extern unsigned int npu_job_limit_ms;
extern unsigned int npu_budget_ms;

#endif
