// SPDX-License-Identifier: MIT
// The 16-bit types that tensors have in the file. The graph computes in float32, and other runtimes round to them.
#ifndef NPU_GRAPH_FILE_TYPES_H
#define NPU_GRAPH_FILE_TYPES_H

#include "compiler/import/importer.h"

namespace npu::graph {

/// By the numbers of values: F16 or BF16; all else means that no such rounding is known. It may be shorter than the
/// list of values.
using FileTypes = std::vector<Dtype>;

inline Dtype type_of(const FileTypes &types, ValueId v) {
  return at(v) < types.size() ? types[at(v)] : Dtype::Undefined;
}

/// As import_model(), and says which types values have. A value has one type: where a node of the file changes it, as
/// Cast does, the graph has a node that copies the value.
Status import_with_types(const RawModel &model, const ImportOptions &options, Graph &graph, FileTypes &types);

/// The shape of an input whose value has that shape. Dimensions of 1 may be left out, as numbers of a command line do;
/// a number for a dimension that is open has to be clear then.
bool fit_value(const RawValue &v, const Shape &given, Shape &out);

class OpContext;

/// Follows the types during an import.
class TypeFollower {
 public:
  TypeFollower(const RawModel &model, Graph &graph, FileTypes &types);

  /// The value has this type in the file.
  void set(ValueId v, Dtype in_file);
  /// A node of the file has been converted, and its nodes of the graph are those from `first` on. `outermost`: it is in
  /// no body and no function.
  Status follow(OpContext &converted, size_t first, bool outermost);

 private:
  Dtype result_type(const OpContext &c, size_t k, bool outermost) const;

  Graph &graph_;
  FileTypes &types_;
  std::map<std::string, Dtype> declared_;  ///< by the names of the network's tensors
};

}  // namespace npu::graph

#endif  // NPU_GRAPH_FILE_TYPES_H
