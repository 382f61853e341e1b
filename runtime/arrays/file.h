// SPDX-License-Identifier: MIT
// Files that are read as a whole.
#ifndef NPU_ARRAYS_FILE_H
#define NPU_ARRAYS_FILE_H

#include <string>

#include "common/status.h"

namespace npu::arrays {

/// A file's bytes. A folder is an error; errors name the file.
Status read_file(const std::string &path, std::string &out);

}  // namespace npu::arrays

#endif  // NPU_ARRAYS_FILE_H
