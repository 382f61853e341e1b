// SPDX-License-Identifier: MIT
// What an ONNX file itself says about the shapes of its tensors, held against what the importer infers.
#ifndef NPU_GRAPH_DECLARED_SHAPES_H
#define NPU_GRAPH_DECLARED_SHAPES_H

#include <functional>
#include <map>
#include <optional>

#include "compiler/import/importer.h"

namespace npu::graph {

/// Dimensions that the file leaves open match anything. Where the caller gives such dimensions of an input, a file may
/// still have fixed numbers behind them: often only the inputs of a finished file were opened. A difference counts only
/// where it does not come from what the caller gives: where the inferred dimension stays the same for other given ones.
class DeclaredShapes {
 public:
  using Shapes = std::map<std::string, Shape>;
  /// The shapes of all tensors for given shapes of inputs, as far as the network can be imported with them.
  using Infer = std::function<Shapes(const ImportOptions &)>;

  DeclaredShapes(const RawModel &model, const ImportOptions &options, Infer infer);

  /// Empty, or in which way the file contradicts the inferred shape of a tensor.
  std::string difference(const std::string &name, const Shape &inferred);

 private:
  /// Whether the rank (dim < 0) or a dimension follows from dimensions that the caller gives and the file leaves open.
  bool follows(const std::string &name, int dim, const Shape &inferred);

  ImportOptions doubled_;  ///< with twice the dimensions that the file leaves open
  bool given_ = false;     ///< there are any
  const Infer infer_;
  std::map<std::string, const RawValue *> declared_;
  std::optional<Shapes> other_;  ///< for `doubled_`, once it is needed
};

/// "[1, N, ?]"
std::string dims_text(const RawValue &v);

}  // namespace npu::graph

#endif  // NPU_GRAPH_DECLARED_SHAPES_H
