/* SPDX-License-Identifier: MIT */
/* npu.h, version 1.1. Pointers inside: 64 and 32 bits (i386, where 64-bit numbers are aligned to 4) differ. */
#include <npu.h>

#include "tests/abi/abi.h"

VALUE(NPU_LOG_DEBUG, 0);
VALUE(NPU_LOG_INFO, 1);
VALUE(NPU_LOG_WARNING, 2);
VALUE(NPU_LOG_ERROR, 3);
VALUE(NPU_LOG_OFF, 4);

SIZE2(struct npu_job_region, 32, 28);
AT2(struct npu_job_region, bo, 0, 0);
AT2(struct npu_job_region, offset, 8, 4);
AT2(struct npu_job_region, size, 16, 12);
AT2(struct npu_job_region, access, 24, 20);
AT2(struct npu_job_region, reserved, 28, 24);

SIZE2(struct npu_job_fence, 16, 12);
AT2(struct npu_job_fence, context, 0, 0);
AT2(struct npu_job_fence, seqno, 8, 4);

SIZE2(struct npu_job_desc, 72, 60);
AT2(struct npu_job_desc, regions, 0, 0);
AT2(struct npu_job_desc, streams, 8, 4);
AT2(struct npu_job_desc, in_fences, 16, 8);
AT2(struct npu_job_desc, region_count, 24, 12);
AT2(struct npu_job_desc, stream_count, 28, 16);
AT2(struct npu_job_desc, in_fence_count, 32, 20);
AT2(struct npu_job_desc, flags, 36, 24);
AT2(struct npu_job_desc, core_mask, 40, 28);
AT2(struct npu_job_desc, profile_region, 44, 32);
AT2(struct npu_job_desc, profile_offset, 48, 36);
AT2(struct npu_job_desc, budget, 56, 44);
AT2(struct npu_job_desc, profile_bytes, 64, 52);
AT2(struct npu_job_desc, reserved, 68, 56);

SIZE(struct npu_result, 72);
AT(struct npu_result, error, 0);
AT(struct npu_result, known, 4);
AT(struct npu_result, cycles, 8);
AT(struct npu_result, fault, 16);

VALUE(NPU_ASYNC_AUTO, 0);
VALUE(NPU_ASYNC_URING, 1);
VALUE(NPU_ASYNC_THREADS, 2);

SIZE2(struct npu_completion, 80, 76);
AT2(struct npu_completion, context, 0, 0);
AT2(struct npu_completion, seqno, 8, 4);
AT2(struct npu_completion, count, 16, 12);
AT2(struct npu_completion, error, 20, 16);
AT2(struct npu_completion, fault, 24, 20);
