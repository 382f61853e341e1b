// SPDX-License-Identifier: MIT
// Dumps of the driver (docs/reference/uapi.md, "Dumps") made readable. Functions keep no state and throw nothing but
// std::bad_alloc.
#ifndef NPU_TOOLS_DUMP_H
#define NPU_TOOLS_DUMP_H

#include <string>
#include <string_view>

#include "common/status.h"

namespace npu::dump {

inline constexpr unsigned kVersion = 1;

enum class Part {
  kAll,
  kCommands,  ///< the activity of the job: its commands where each stream stood
};

/// The dump with commands disassembled, ring entries taken apart and empty ones left out. Lines that are not known stay
/// as they are. An error: it is none (or none of this version), or it is cut off; then `out` has what there is.
Status decode(std::string_view text, std::string &out, Part part = Part::kAll);

}  // namespace npu::dump

#endif  // NPU_TOOLS_DUMP_H
