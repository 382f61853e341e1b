// SPDX-License-Identifier: MIT
// A program's commands, kept for the trace: what shapes they compute.
#ifndef NPURT_TRACED_CODE_H
#define NPURT_TRACED_CODE_H

#include <cstdint>
#include <string>
#include <vector>

#include "npu_accel.h"
#include "npu_isa.hpp"
#include "npu_regs.h"

namespace npurt {

struct TracedCode {
  std::vector<uint8_t> bytes;           ///< empty: nobody traces
  std::vector<drm_npu_stream> streams;  ///< one a core, with places in the bytes

  /// The command that a record of the stream's profile is of; null where it is none of these.
  const uint8_t *find(size_t stream, const npu_profile &record) const;
};

/// "n=1 ih=28 iw=28 ic=1 oc=8 oh=28 ow=28 kh=3 kw=3": the sizes in a command; empty: it has none.
std::string command_shape(const uint8_t *command);
/// "F32", "S8, F32": its element types, each once, in the order of its fields.
std::string command_types(const uint8_t *command);
/// How many multiply-accumulates of it the chip can do in a cycle at most; 0: it does none.
double most_macs(const uint8_t *command);

}  // namespace npurt

#endif  // NPURT_TRACED_CODE_H
