// SPDX-License-Identifier: MIT
// Archives in the zip format, as numpy's .npz files are: files that are stored or deflated.
#ifndef NPU_ARRAYS_ZIP_H
#define NPU_ARRAYS_ZIP_H

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "common/status.h"

namespace npu::arrays {

/// Those files of an archive that are wanted and there, by name, and the names of `others`, if given; together they
/// have at most 4 GiB. Encrypted files, other compressions, two files of a name, and archives of several parts or of
/// more than 4 GiB are errors.
Status unzip(std::string_view archive, const std::set<std::string> &wanted, std::map<std::string, std::string> &out,
             std::set<std::string> *others = nullptr);

}  // namespace npu::arrays

#endif  // NPU_ARRAYS_ZIP_H
