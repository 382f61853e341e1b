// SPDX-License-Identifier: GPL-2.0-only
/*
 * Parameters of the module.
 */
#include <linux/moduleparam.h>

#include "qnpu_params.h"

unsigned int qnpu_timeout_ms = 5000;
module_param_named(timeout_ms, qnpu_timeout_ms, uint, 0644);
MODULE_PARM_DESC(timeout_ms, "time between two looks of the watchdog at a job, for new contexts");

unsigned int qnpu_job_limit_ms = 10000;
module_param_named(job_limit_ms, qnpu_job_limit_ms, uint, 0644);
MODULE_PARM_DESC(job_limit_ms, "time that even a job that makes progress may run, 0: no limit");

unsigned int qnpu_budget_ms = 10000;
module_param_named(budget_ms, qnpu_budget_ms, uint, 0644);
MODULE_PARM_DESC(budget_ms, "modelled time of a job without a budget of its own, and the most for others, 0: no limit");

unsigned int qnpu_busywait_us = 100;
module_param_named(busywait_us, qnpu_busywait_us, uint, 0644);
MODULE_PARM_DESC(busywait_us, "time that a waiter looks for a short job before it sleeps, 0: sleeps at once");
