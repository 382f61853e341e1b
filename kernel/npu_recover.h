/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_RECOVER_H
#define NPU_RECOVER_H

#include <linux/types.h>

#include <drm/gpu_scheduler.h>

struct npu_device;
struct work_struct;

enum drm_gpu_sched_stat npu_recover_timedout_job(struct drm_sched_job *base);
void npu_recover_device(struct npu_device *npu, u32 resets);
void npu_recover_lose(struct npu_device *npu, const char *why);
void npu_recover_end(struct npu_device *npu);
void npu_recover_sleep(struct npu_device *npu);
void npu_recover_wake(struct npu_device *npu, bool reset);
void npu_recover_offline(struct npu_device *npu);
void npu_recover_reset_prepare(struct npu_device *npu);
void npu_recover_reset_done(struct npu_device *npu);
void npu_recover_event_work(struct work_struct *work);
void npu_recover_lost_work(struct work_struct *work);
void npu_recover_pulse_work(struct work_struct *work);
void npu_recover_pulse(struct npu_device *npu);

#endif
