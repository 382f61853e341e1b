// SPDX-License-Identifier: MIT
// Card memory that tensors of a launch take: the runtime allocates by these rules, and npuc reports by them.
#ifndef NPU_BMODEL_ROOM_H
#define NPU_BMODEL_ROOM_H

#include <cstdint>

namespace npu::bmodel {

/// Inputs, outputs and tensors between sub-networks begin on pages of their own.
inline constexpr uint64_t kTensorAlign = 4096;

/// The whole pages of a tensor, or of the activation memory that tensors between sub-networks follow.
constexpr uint64_t tensor_room(uint64_t bytes) { return (bytes + kTensorAlign - 1) / kTensorAlign * kTensorAlign; }

}  // namespace npu::bmodel

#endif  // NPU_BMODEL_ROOM_H
