// SPDX-License-Identifier: MIT
// Cuts TIU commands into slices: smaller commands that, run one after the other, do the same and take at most
// kStepOperations each. No element of a result depends on the cut: each slice computes some elements whole, or goes on
// with the accumulators that the one before left in the result.
#ifndef NPU_MODEL_SLICES_H
#define NPU_MODEL_SLICES_H

#include <cstdint>
#include <functional>

#include "npu_isa.h"
#include "qemu-device/model/src/pace.h"

namespace npu::model {

/// A part of CONV or MATMUL. Its offsets count elements from the first one of the whole command's operands.
template <class Cmd>
struct Product {
  Cmd c;                 ///< dims, padding, flags and activation of the part; its addresses are the whole command's
  uint64_t in = 0;       ///< input; of a CONV with fewer channels than the whole one: of cells as far apart as there
  uint64_t wgt = 0;      ///< weights or B
  uint64_t weights = 0;  ///< elements that it reads from there
  uint64_t param = 0;    ///< bias
  uint64_t out = 0;      ///< result and partial sums
  bool chained = false;  ///< begins with what the slice before left in the result, not with the partial sums
};

/// A part of a command that reads one or two operands in local memory.
template <class Cmd>
struct Pointwise {
  Cmd c;
  uint64_t a = 0, b = 0, out = 0;  ///< first elements of the operands and the result
};

template <class Slice>
using Each = std::function<bool(const Slice &)>;

/// What a slice may need at most, where the command can be cut that far.
struct SliceLimits {
  uint64_t operations = kStepOperations;
  uint64_t weights = kStepOperations;  ///< elements of weights or of B
};

/// Each calls `each` for the slices in order, until it returns false.
void for_slices(const npu_cmd_conv &c, const SliceLimits &limits, const Each<Product<npu_cmd_conv>> &each);
void for_slices(const npu_cmd_matmul &c, const SliceLimits &limits, const Each<Product<npu_cmd_matmul>> &each);
void for_slices(const npu_cmd_pool &c, const SliceLimits &limits, const Each<Pointwise<npu_cmd_pool>> &each);
void for_slices(const npu_cmd_eltwise &c, const SliceLimits &limits, const Each<Pointwise<npu_cmd_eltwise>> &each);
void for_slices(const npu_cmd_unary &c, const SliceLimits &limits, const Each<Pointwise<npu_cmd_unary>> &each);
void for_slices(const npu_cmd_softmax &c, const SliceLimits &limits, const Each<Pointwise<npu_cmd_softmax>> &each);

}  // namespace npu::model

#endif  // NPU_MODEL_SLICES_H
