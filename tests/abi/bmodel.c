/* SPDX-License-Identifier: MIT */
/* program.h: what stands in files. */
#include "runtime/bmodel/program.h"
#include "tests/abi/abi.h"

VALUE(NPU_PROGRAM_MAGIC, 0x47525051u);
VALUE(NPU_PROGRAM_COEFF, 1);
VALUE(NPU_PROGRAM_CTX, 2);
VALUE(NPU_PROGRAM_INPUT, 3);
VALUE(NPU_PROGRAM_OUTPUT, 4);

SIZE(struct npu_program_header, 128);
AT(struct npu_program_header, magic, 0);
AT(struct npu_program_header, version, 4);
AT(struct npu_program_header, header_bytes, 6);
AT(struct npu_program_header, isa_version, 8);
AT(struct npu_program_header, chip_id, 12);
AT(struct npu_program_header, lmem_bytes, 16);
AT(struct npu_program_header, cycles, 24);
AT(struct npu_program_header, cost, 32);
AT(struct npu_program_header, region_count, 68);
AT(struct npu_program_header, region_offset, 72);
AT(struct npu_program_header, alias_count, 76);
AT(struct npu_program_header, alias_offset, 80);
AT(struct npu_program_header, layer_count, 84);
AT(struct npu_program_header, layer_offset, 88);
AT(struct npu_program_header, commands_offset, 92);
AT(struct npu_program_header, rate_16, 96);
AT(struct npu_program_header, rate_8, 100);
AT(struct npu_program_header, reserved, 104);

SIZE(struct npu_program_region, 32);
AT(struct npu_program_region, kind, 0);
AT(struct npu_program_region, access, 1);
AT(struct npu_program_region, index, 2);
AT(struct npu_program_region, address, 8);
AT(struct npu_program_region, bytes, 16);

SIZE(struct npu_program_alias, 8);
AT(struct npu_program_alias, output, 0);
AT(struct npu_program_alias, input, 2);
