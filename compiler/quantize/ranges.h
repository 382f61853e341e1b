// SPDX-License-Identifier: MIT
// Which range of a tensor's numbers 256 integers should stand for.
#ifndef NPU_QUANTIZE_RANGES_H
#define NPU_QUANTIZE_RANGES_H

#include "compiler/quantize/histogram.h"
#include "compiler/quantize/table.h"

namespace npu::quantize {

/// Always within what there was; 0 is in it.
Range find_range(const Histogram &histogram, const RangeRule &rule);

}  // namespace npu::quantize

#endif  // NPU_QUANTIZE_RANGES_H
