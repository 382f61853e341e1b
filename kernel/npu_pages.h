/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_PAGES_H
#define NPU_PAGES_H

#include <linux/types.h>

struct npu_device;
struct npu_mem;
struct ttm_buffer_object;
struct ttm_device;
struct ttm_operation_ctx;
struct ttm_tt;

void npu_pages_init(struct npu_mem *mem);
void npu_pages_fini(struct npu_mem *mem);
void npu_pages_release_dma(struct npu_device *npu);

struct ttm_tt *npu_pages_create(struct ttm_buffer_object *tbo, u32 page_flags);
int npu_pages_populate(struct ttm_device *ttm, struct ttm_tt *base, struct ttm_operation_ctx *ctx);
void npu_pages_unpopulate(struct ttm_device *ttm, struct ttm_tt *base);
void npu_pages_destroy(struct ttm_device *ttm, struct ttm_tt *base);
int npu_pages_sync(struct npu_device *npu, struct ttm_tt *base, u64 offset, u64 bytes,
		   u32 direction);

#endif
