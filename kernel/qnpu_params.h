/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_PARAMS_H
#define QNPU_PARAMS_H

extern unsigned int qnpu_timeout_ms;
extern unsigned int qnpu_busywait_us;
extern unsigned int qnpu_job_limit_ms;
extern unsigned int qnpu_budget_ms;

#endif
