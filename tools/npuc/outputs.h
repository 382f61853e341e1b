// SPDX-License-Identifier: MIT
// The files that npuc writes: all of them or none.
#ifndef NPU_NPUC_OUTPUTS_H
#define NPU_NPUC_OUTPUTS_H

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace npu::npuc {

/// A file by what it is on the command line: "--output", "the model".
struct NamedFile {
  std::string what, path;
};

/// Before work that may take long: whether the outputs can be written, and no two of them, nor one of them and one of
/// the other files, are the same. Devices and pipes may be named more than once.
Status check_outputs(const std::vector<NamedFile> &outputs, const std::vector<NamedFile> &others);

struct Output {
  std::string path;
  std::string_view bytes;
};

/// Writes all of them beside the files that they replace, and then lets them replace those. What is no regular file,
/// such as a device, a pipe or a link to nothing, is written as it is, before that.
Status write_outputs(const std::vector<Output> &outputs);

}  // namespace npu::npuc

#endif  // NPU_NPUC_OUTPUTS_H
