// SPDX-License-Identifier: MIT
// Archives in the zip format, as numpy's .npz files are: files that are stored or deflated.
#ifndef NPU_NPUC_ZIP_H
#define NPU_NPUC_ZIP_H

#include <map>
#include <string>
#include <string_view>

#include "common/status.h"

namespace npu::npuc {

/// All files of an archive, by name. Encrypted files, other compressions and archives of several parts or of more than
/// 4 GiB are errors.
Status unzip(std::string_view archive, std::map<std::string, std::string> &out);

}  // namespace npu::npuc

#endif  // NPU_NPUC_ZIP_H
