// SPDX-License-Identifier: MIT
// From what an ONNX file says to a typed graph with every shape known.
#ifndef NPU_GRAPH_IMPORTER_H
#define NPU_GRAPH_IMPORTER_H

#include <map>

#include "compiler/graph/ir.h"
#include "compiler/import/raw_model.h"

namespace npu::graph {

inline constexpr int64_t kMinOpset = 6, kMaxOpset = 17;

struct ImportOptions {
  std::map<std::string, Shape> shapes;  ///< of inputs whose dimensions the file leaves open
};

/// Converts all nodes that the outputs need. Every node that cannot be converted is named in one message.
Status import_model(const RawModel &model, const ImportOptions &options, Graph &graph);

}  // namespace npu::graph

#endif  // NPU_GRAPH_IMPORTER_H
