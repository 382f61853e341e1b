/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_RECOVER_H
#define NPU_RECOVER_H

#include <linux/types.h>

struct npu_device;
struct work_struct;

void npu_recover_watch_work(struct work_struct *work);
void npu_recover_device(struct npu_device *npu, u32 resets);
void npu_recover_lose(struct npu_device *npu, const char *why);
void npu_recover_end(struct npu_device *npu);
void npu_recover_drain(struct npu_device *npu);
void npu_recover_sleep(struct npu_device *npu);
void npu_recover_empty(struct npu_device *npu);
void npu_recover_wake(struct npu_device *npu, bool reset);
void npu_recover_offline(struct npu_device *npu);
void npu_recover_reset_prepare(struct npu_device *npu);
void npu_recover_reset_done(struct npu_device *npu);
void npu_recover_event_work(struct work_struct *work);
void npu_recover_lost_work(struct work_struct *work);
void npu_recover_pulse_work(struct work_struct *work);
void npu_recover_pulse(struct npu_device *npu);

#endif
