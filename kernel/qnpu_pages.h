/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_PAGES_H
#define QNPU_PAGES_H

#include <linux/types.h>

struct qnpu_device;
struct ttm_buffer_object;
struct ttm_device;
struct ttm_operation_ctx;
struct ttm_tt;

void qnpu_pages_release_dma(struct qnpu_device *npu);

struct ttm_tt *qnpu_pages_create(struct ttm_buffer_object *tbo, u32 page_flags);
int qnpu_pages_populate(struct ttm_device *ttm, struct ttm_tt *base, struct ttm_operation_ctx *ctx);
void qnpu_pages_unpopulate(struct ttm_device *ttm, struct ttm_tt *base);
void qnpu_pages_destroy(struct ttm_device *ttm, struct ttm_tt *base);
int qnpu_pages_sync(struct qnpu_device *npu, struct ttm_tt *base, u64 offset, u64 bytes,
		    u32 direction);

#endif
