/* SPDX-License-Identifier: MIT */
#ifndef NPU_BMODEL_PROGRAM_H
#define NPU_BMODEL_PROGRAM_H

/*
 * What stands at the start of a command binary (CmdGroup.binary_bdc) of a .bmodel for QNPU1: the facts that the
 * container has no field for. The vendor's tools copy command binaries whole, so they survive them.
 *
 * binary_bdc  = header, tables, padding, TIU commands from commands_offset on (bdc_num of them)
 * binary_gdma = GDMA commands (gdma_num of them)
 *
 * Commands address memory as (region, offset). Region r < region_count is entry r of the region table; the runtime
 * binds it to memory at launch and appends two regions of its own for the code. All integers little endian, offsets
 * from the start of the header.
 */

#include <stdint.h>

#define NPU_PROGRAM_MAGIC 0x47525051u /* "QPRG" */
#define NPU_PROGRAM_VERSION 1u

/* Kinds of region. Tensors lie in memory row-major in the shape that the network declares, with the store mode
 * (gmem_stmode) that the tensor states. */
#define NPU_PROGRAM_COEFF 1u  /* the coefficients: the whole of binary_coeff, read only, sealed */
#define NPU_PROGRAM_CTX 2u    /* activation memory, private to a launch; contents undefined at start */
#define NPU_PROGRAM_INPUT 3u  /* input tensor number `index`, read only */
#define NPU_PROGRAM_OUTPUT 4u /* output tensor number `index` */

struct npu_program_header {
  uint32_t magic;
  uint16_t version;
  uint16_t header_bytes; /* sizeof(struct npu_program_header) */
  uint32_t isa_version;  /* NPU_ISA_VERSION it was compiled for */
  uint32_t chip_id;      /* NPU_CHIP_ID */
  uint64_t lmem_bytes;   /* local memory that the commands use, at most the card's */
  uint64_t cycles;       /* predicted modelled cycles with the parameters below */
  uint32_t cost[9];      /* mac_ic, mac_oc, mac_pixels, lmem_bw, ew_lanes, tiu_fixed, gdma_fixed, ddr_latency, ddr_bw */
  uint32_t region_count;
  uint32_t region_offset; /* struct npu_program_region[] */
  uint32_t alias_count;
  uint32_t alias_offset; /* struct npu_program_alias[] */
  uint32_t layer_count;
  uint32_t layer_offset; /* layer_count times: uint32_t bytes, then as many bytes of UTF-8, no terminator; the layer tag
                            of commands indexes it */
  uint32_t commands_offset; /* multiple of 128 */
  uint32_t rate_16, rate_8; /* cost parameters, too; 0 in files for ISA version 1 or 2 */
  uint32_t reserved[6];     /* 0 */
};

struct npu_program_region {
  uint8_t kind;
  uint8_t access; /* NPU_ACCESS_ flags */
  uint16_t index; /* INPUT, OUTPUT: tensor number; else 0 */
  uint32_t reserved0;
  uint64_t address; /* linear file address of its first byte */
  uint64_t bytes;   /* exact size */
  uint64_t reserved1;
};

/* Output `output` may be written before the last read of input `input`: they must not share memory (the runtime stages
 * that output). */
struct npu_program_alias {
  uint16_t output;
  uint16_t input;
  uint32_t reserved;
};

#ifdef __cplusplus
static_assert(sizeof(struct npu_program_header) == 128, "npu_program_header");
static_assert(sizeof(struct npu_program_region) == 32, "npu_program_region");
static_assert(sizeof(struct npu_program_alias) == 8, "npu_program_alias");
#endif

#endif /* NPU_BMODEL_PROGRAM_H */
