// SPDX-License-Identifier: MIT
// Elements of one type as those of another (docs/reference/hardware.md, section 7): what COPY does where its types
// differ.
#ifndef NPU_MODEL_CAST_H
#define NPU_MODEL_CAST_H

#include <cstddef>
#include <cstdint>

namespace npu::model {

/// to[i] = from[i] in the other type. Both are aligned to their elements and do not overlap.
void cast_elements(uint8_t from_dtype, const void *from, uint8_t to_dtype, void *to, size_t count);

}  // namespace npu::model

#endif  // NPU_MODEL_CAST_H
