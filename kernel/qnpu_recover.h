/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_RECOVER_H
#define QNPU_RECOVER_H

#include <linux/types.h>

struct qnpu_device;
struct work_struct;

void qnpu_recover_watch_work(struct work_struct *work);
void qnpu_recover_event_work(struct work_struct *work);
void qnpu_recover_lost_work(struct work_struct *work);
void qnpu_recover_pulse_work(struct work_struct *work);
void qnpu_recover_pulse(struct qnpu_device *npu);

void qnpu_recover_request(struct qnpu_device *npu, const char *why);
void qnpu_recover_lose(struct qnpu_device *npu, const char *why);
void qnpu_recover_end(struct qnpu_device *npu);

void qnpu_recover_drain(struct qnpu_device *npu);
void qnpu_recover_sleep(struct qnpu_device *npu);
void qnpu_recover_offline(struct qnpu_device *npu, u32 cause);
void qnpu_recover_wake(struct qnpu_device *npu);
void qnpu_recover_empty(struct qnpu_device *npu);

#endif
