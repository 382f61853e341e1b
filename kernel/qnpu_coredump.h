/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_COREDUMP_H
#define QNPU_COREDUMP_H

#include <linux/ratelimit_types.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "npu_regs.h"

struct drm_printer;
struct qnpu_ctx_job;
struct qnpu_device;

/* The dump in progress; only one at a time. */
struct qnpu_coredump {
	unsigned long busy;		/* bit 0: dump in progress, its maker owns all below */
	struct ratelimit_state limit;
	struct work_struct work;	/* writes @text unless it is there, then publishes it */
	struct qnpu_ctx_job *job;	/* failed job, with a reference */
	const char *reason;
	u32 asid;			/* address space of the job when it failed */
	bool completed;			/* @cqe is valid */
	struct npu_cqe cqe;
	char *text;			/* text of the dump; NULL: not yet written */
	size_t used;			/* bytes of @text in use */
};

void qnpu_coredump_init(struct qnpu_device *npu);
void qnpu_coredump_fini(struct qnpu_device *npu);
void qnpu_coredump_state(struct qnpu_device *npu, struct drm_printer *p);
void qnpu_coredump_fault(struct qnpu_ctx_job *job, const struct npu_cqe *cqe);
void qnpu_coredump_kill(struct qnpu_ctx_job *job, const char *reason);

#endif
