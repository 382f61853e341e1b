// SPDX-License-Identifier: MIT
// Pitches of commands, and windows of CONV in the form that oneDNN takes: no negative padding, no input that no window
// reaches.
#ifndef NPU_MODEL_COMPUTE_ONEDNN_GEOMETRY_H
#define NPU_MODEL_COMPUTE_ONEDNN_GEOMETRY_H

#include <cstddef>
#include <cstdint>

namespace npu::model {

/// A field of a command, where 0 stands for its default.
inline size_t or_else(uint32_t value, size_t otherwise) { return value ? value : otherwise; }

/// One dimension of the windows: `skip` leading cells of the input are passed over, `in` cells follow, with zeroes
/// before and behind.
struct Axis {
  int64_t skip, in, before, behind;
  bool usable;  ///< false: no window meets the image, or sizes beyond what the library handles

  static Axis of(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad) {
    constexpr int64_t kLimit = 1 << 20;
    const int64_t skip = pad < 0 ? -pad : 0;
    const int64_t before = pad < 0 ? 0 : pad;
    // Input cells behind `skip` that the windows need: past the last cell of the last one.
    const int64_t reach = (out - 1) * stride + (kernel - 1) * dilation + 1 - before;
    Axis a{skip, in - skip, before, reach - (in - skip), true};
    if (a.behind <= -stride) a.in = reach;
    if (a.behind < 0) a.behind = 0;
    a.usable = a.in > 0 && before < kLimit && a.behind < kLimit && out < kLimit && a.in < kLimit;
    return a;
  }
};

}  // namespace npu::model

#endif  // NPU_MODEL_COMPUTE_ONEDNN_GEOMETRY_H
