// SPDX-License-Identifier: MIT
// What the chip is built with. Fixed for its life.
#ifndef NPU_MODEL_CONFIG_H
#define NPU_MODEL_CONFIG_H

#include <cstdint>

#include "npu_clock.h"
#include "npu_cost.hpp"
#include "npu_regs.h"

namespace npu::model {

inline constexpr uint32_t kPageBytes = 1u << NPU_PAGE_SHIFT;
inline constexpr uint32_t kBlockBytes = 1u << NPU_BLOCK_SHIFT;
inline constexpr uint32_t kMaxRingLog2 = 16;
/// Stands for every identity of constant memory where one is forgotten.
inline constexpr uint32_t kEveryIdentity = UINT32_MAX;
inline constexpr uint32_t kFeatures =
    NPU_FEATURE_INT8 | NPU_FEATURE_GANG | NPU_FEATURE_GATHER | NPU_FEATURE_CAST | NPU_FEATURE_SYSTEM_TABLES;

struct Config {
  uint32_t cores = 2;
  uint32_t queues = 64;
  uint32_t asids = 256;
  uint32_t vectors = 33;
  uint32_t lmem_bytes = 8u << 20;
  uint32_t clock_khz = NPU_FULL_CLOCK_KHZ;
  hw::CostParams cost;
  uint64_t ddr_bytes = 0;
  uint8_t *ddr = nullptr;  ///< the owner's, page aligned
  uint64_t seed = 0;       ///< of what is left open in virtual time
};

}  // namespace npu::model

#endif  // NPU_MODEL_CONFIG_H
