// SPDX-License-Identifier: MIT
// Files that leave the batch of their inputs open and nothing else.
#ifndef NPU_GRAPH_OPEN_BATCH_H
#define NPU_GRAPH_OPEN_BATCH_H

#include "compiler/import/importer.h"

namespace npu::graph {

/// Gives the inputs of a file the batch 1, if dimension 0 and dimensions of the same name are all that is open. Returns
/// a sentence for each of these inputs. A file with other open dimensions is left alone, and so are all where the
/// options give a shape.
std::vector<std::string> assume_batch(const RawModel &model, ImportOptions &options);

}  // namespace npu::graph

#endif  // NPU_GRAPH_OPEN_BATCH_H
