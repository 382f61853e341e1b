// SPDX-License-Identifier: MIT
// Element types and store modes as a .bmodel numbers them.
#ifndef NPU_BMODEL_TYPES_H
#define NPU_BMODEL_TYPES_H

#include <cstdint>
#include <string>

namespace npu::bmodel {

/// Bytes of an element of a bm_data_type_t, 0 for an unknown one.
uint32_t dtype_bytes(uint32_t dtype);
/// "float32" and so on; "unknown" for other numbers.
const char *dtype_name(uint32_t dtype);

/// Batches in a 32-bit word of a store mode (bm_store_mode_t): 1, 2 or 4; 0: tensors of this type cannot have the mode.
uint32_t store_lanes(int32_t mode, uint32_t dtype);
/// "BM_STORE_1N" and so on, the number itself for others.
std::string store_mode_name(int32_t mode);
/// The error message for a store mode that the type cannot have.
std::string store_mode_error(int32_t mode, uint32_t dtype);

/// bm_store_mode_t, as Tensor.gmem_stmode has it.
inline constexpr int32_t kStore1N = 0, kStore2N = 1, kStore4N = 2;

}  // namespace npu::bmodel

#endif  // NPU_BMODEL_TYPES_H
