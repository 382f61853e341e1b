/* SPDX-License-Identifier: MIT */
/* uapi/hw as docs/hardware.md has it: what driver, compiler and chip exchange in memory, and the registers that both
 * sides need first. */
#include <npu_isa.h>
#include <npu_regs.h>

#include "tests/abi/abi.h"

VALUE(NPU_PCI_VENDOR_ID, 0x1234);
VALUE(NPU_PCI_DEVICE_ID, 0x4e50);
VALUE(NPU_CHIP_ID, 0x55504e51);
VALUE(NPU_ISA_VERSION, 2);
VALUE(NPU_JOB_MAGIC, 0x424f4a51);
VALUE(NPU_CMD_BYTES, 128);
VALUE(NPU_MAX_REGIONS, 64);
VALUE(NPU_REGION_LOCAL, 0xff);
VALUE(NPU_REGION_NONE, 0x1ff);
VALUE(NPU_COMMAND_NONE, 0xffffffffu);
VALUE(NPU_REG_ID, 0x000);
VALUE(NPU_REG_CTRL, 0x100);
VALUE(NPU_REG_STATUS, 0x104);
VALUE(NPU_REG_ASID_TABLE, 0x200);
VALUE(NPU_REG_INV_ASID, 0x218);
VALUE(NPU_CORE_REG(1, NPU_CORE_JOBS), 0x458);
VALUE(NPU_QUEUE_REG(1, NPU_QUEUE_CTRL), 0x100b0);
VALUE(NPU_DOORBELL_REG(1, NPU_DOORBELL_CQ_HEAD), 0x101004);
VALUE(NPU_PTE_VALID, 0x1);
VALUE(NPU_PTE_WRITE, 0x2);
VALUE(NPU_PTE_SYSTEM, 0x4);
VALUE(NPU_PTE_CONST, 0x8);
VALUE(NPU_PTE_LARGE, 0x10);
VALUE(NPU_PTE_ADDR, 0x000ffffffffff000ull);
VALUE(NPU_STATUS_OK, 0);
VALUE(NPU_STATUS_REGION_BOUNDS, 5);
VALUE(NPU_STATUS_DEADLOCK, 11);
VALUE(NPU_STATUS_INTERNAL, 18);
VALUE(NPU_OP_CONV, 0x10);
VALUE(NPU_OP_MATMUL, 0x11);
VALUE(NPU_OP_POOL, 0x12);
VALUE(NPU_OP_ELTWISE, 0x13);
VALUE(NPU_OP_UNARY, 0x14);
VALUE(NPU_OP_SOFTMAX, 0x15);
VALUE(NPU_OP_COPY, 0x40);
VALUE(NPU_OP_FILL, 0x41);

SIZE(struct npu_sqe, 64);
AT(struct npu_sqe, job_id, 0);
AT(struct npu_sqe, desc_addr, 8);
AT(struct npu_sqe, desc_bytes, 16);
AT(struct npu_sqe, flags, 20);

SIZE(struct npu_job, 64);
AT(struct npu_job, magic, 0);
AT(struct npu_job, version, 4);
AT(struct npu_job, flags, 6);
AT(struct npu_job, stream_count, 8);
AT(struct npu_job, region_count, 12);
AT(struct npu_job, core_mask, 16);
AT(struct npu_job, profile_region, 20);
AT(struct npu_job, budget, 24);
AT(struct npu_job, profile_offset, 32);
AT(struct npu_job, profile_bytes, 40);

SIZE(struct npu_stream, 32);
AT(struct npu_stream, tiu_offset, 0);
AT(struct npu_stream, gdma_offset, 8);
AT(struct npu_stream, tiu_count, 16);
AT(struct npu_stream, gdma_count, 20);
AT(struct npu_stream, tiu_region, 24);
AT(struct npu_stream, gdma_region, 25);

SIZE(struct npu_region, 32);
AT(struct npu_region, va, 0);
AT(struct npu_region, bytes, 8);
AT(struct npu_region, access, 16);

SIZE(struct npu_cqe, 64);
AT(struct npu_cqe, job_id, 0);
AT(struct npu_cqe, offset, 8);
AT(struct npu_cqe, fault_addr, 16);
AT(struct npu_cqe, start_cycle, 24);
AT(struct npu_cqe, end_cycle, 32);
AT(struct npu_cqe, bytes, 40);
AT(struct npu_cqe, command, 44);
AT(struct npu_cqe, region, 48);
AT(struct npu_cqe, status, 52);
AT(struct npu_cqe, engine, 54);
AT(struct npu_cqe, core, 55);
AT(struct npu_cqe, sq_head, 56);
AT(struct npu_cqe, phase, 60);

SIZE(struct npu_fence, 64);
AT(struct npu_fence, seqno, 0);
AT(struct npu_fence, cycles, 8);
AT(struct npu_fence, errors, 16);
AT(struct npu_fence, status, 24);

SIZE(struct npu_profile_header, 40);
AT(struct npu_profile_header, records, 0);
AT(struct npu_profile_header, dropped, 4);
AT(struct npu_profile_header, job_id, 8);
AT(struct npu_profile_header, cycles, 16);
AT(struct npu_profile_header, begin_ns, 24);
AT(struct npu_profile_header, end_ns, 32);

SIZE(struct npu_profile, 48);
AT(struct npu_profile, start, 0);
AT(struct npu_profile, end, 8);
AT(struct npu_profile, bytes, 16);
AT(struct npu_profile, macs, 24);
AT(struct npu_profile, command, 32);
AT(struct npu_profile, layer, 36);
AT(struct npu_profile, engine, 40);
AT(struct npu_profile, core, 41);
AT(struct npu_profile, opcode, 42);
AT(struct npu_profile, subop, 43);

SIZE(struct npu_asid_entry, 16);
AT(struct npu_asid_entry, root, 0);

SIZE(struct npu_cmd, 128);
AT(struct npu_cmd, opcode, 0);
AT(struct npu_cmd, subop, 1);
AT(struct npu_cmd, flags, 2);
AT(struct npu_cmd, wait, 4);
AT(struct npu_cmd, layer, 8);

SIZE(struct npu_cmd_conv, 128);
AT(struct npu_cmd_conv, in_addr, 16);
AT(struct npu_cmd_conv, out_addr, 20);
AT(struct npu_cmd_conv, psum_addr, 24);
AT(struct npu_cmd_conv, in_dtype, 28);
AT(struct npu_cmd_conv, wgt_dtype, 29);
AT(struct npu_cmd_conv, out_dtype, 30);
AT(struct npu_cmd_conv, act, 31);
AT(struct npu_cmd_conv, wgt_offset, 32);
AT(struct npu_cmd_conv, param_offset, 40);
AT(struct npu_cmd_conv, wgt_region, 48);
AT(struct npu_cmd_conv, param_region, 49);
AT(struct npu_cmd_conv, n, 52);
AT(struct npu_cmd_conv, ih, 56);
AT(struct npu_cmd_conv, iw, 60);
AT(struct npu_cmd_conv, ic, 64);
AT(struct npu_cmd_conv, oc, 68);
AT(struct npu_cmd_conv, oh, 72);
AT(struct npu_cmd_conv, ow, 76);
AT(struct npu_cmd_conv, kh, 80);
AT(struct npu_cmd_conv, kw, 82);
AT(struct npu_cmd_conv, sh, 84);
AT(struct npu_cmd_conv, sw, 86);
AT(struct npu_cmd_conv, dh, 88);
AT(struct npu_cmd_conv, dw, 90);
AT(struct npu_cmd_conv, groups, 92);
AT(struct npu_cmd_conv, pad_t, 96);
AT(struct npu_cmd_conv, pad_l, 100);
AT(struct npu_cmd_conv, act_a, 104);
AT(struct npu_cmd_conv, act_b, 108);
AT(struct npu_cmd_conv, in_zp, 112);
AT(struct npu_cmd_conv, out_zp, 116);

SIZE(struct npu_cmd_matmul, 128);
AT(struct npu_cmd_matmul, in_addr, 16);
AT(struct npu_cmd_matmul, wgt_offset, 32);
AT(struct npu_cmd_matmul, batch, 52);
AT(struct npu_cmd_matmul, m, 56);
AT(struct npu_cmd_matmul, k, 60);
AT(struct npu_cmd_matmul, n, 64);
AT(struct npu_cmd_matmul, a_batch_stride, 68);
AT(struct npu_cmd_matmul, b_batch_stride, 72);

SIZE(struct npu_cmd_pool, 128);
AT(struct npu_cmd_pool, dtype, 28);
AT(struct npu_cmd_pool, c, 64);
AT(struct npu_cmd_pool, oh, 72);
AT(struct npu_cmd_pool, kh, 80);
AT(struct npu_cmd_pool, pad_t, 96);
AT(struct npu_cmd_pool, pad_r, 108);

SIZE(struct npu_cmd_eltwise, 128);
AT(struct npu_cmd_eltwise, a_addr, 16);
AT(struct npu_cmd_eltwise, b_addr, 20);
AT(struct npu_cmd_eltwise, out_addr, 24);
AT(struct npu_cmd_eltwise, act, 31);
AT(struct npu_cmd_eltwise, dims, 32);
AT(struct npu_cmd_eltwise, a_stride, 52);
AT(struct npu_cmd_eltwise, b_stride, 72);
AT(struct npu_cmd_eltwise, imm, 92);
AT(struct npu_cmd_eltwise, act_a, 104);

SIZE(struct npu_cmd_unary, 128);
AT(struct npu_cmd_unary, in_addr, 16);
AT(struct npu_cmd_unary, out_addr, 20);
AT(struct npu_cmd_unary, count, 24);
AT(struct npu_cmd_unary, in_dtype, 28);
AT(struct npu_cmd_unary, act_a, 104);

SIZE(struct npu_cmd_softmax, 128);
AT(struct npu_cmd_softmax, rows, 24);
AT(struct npu_cmd_softmax, cols, 32);

SIZE(struct npu_cmd_copy, 128);
AT(struct npu_cmd_copy, src_offset, 16);
AT(struct npu_cmd_copy, dst_offset, 24);
AT(struct npu_cmd_copy, src_region, 32);
AT(struct npu_cmd_copy, dst_region, 33);
AT(struct npu_cmd_copy, src_dtype, 34);
AT(struct npu_cmd_copy, dst_dtype, 35);
AT(struct npu_cmd_copy, dims, 40);
AT(struct npu_cmd_copy, src_stride, 64);
AT(struct npu_cmd_copy, dst_stride, 88);

SIZE(struct npu_cmd_fill, 128);
AT(struct npu_cmd_fill, value, 16);
AT(struct npu_cmd_fill, dst_offset, 24);
AT(struct npu_cmd_fill, dst_region, 33);
AT(struct npu_cmd_fill, dst_dtype, 35);
AT(struct npu_cmd_fill, dims, 40);
AT(struct npu_cmd_fill, dst_stride, 88);
