// SPDX-License-Identifier: MIT
// Files beside a model that hold its data.
#ifndef NPU_GRAPH_EXTERNAL_FILES_H
#define NPU_GRAPH_EXTERNAL_FILES_H

#include <map>
#include <string>

#include "common/status.h"

namespace npu::graph {

/// The files of a model's external data: their locations as the model names them, and their paths without links. Files
/// are looked for as read_onnx_file() does.
Status external_files(const std::string &path, std::map<std::string, std::string> &out);

}  // namespace npu::graph

#endif  // NPU_GRAPH_EXTERNAL_FILES_H
