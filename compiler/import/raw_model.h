// SPDX-License-Identifier: MIT
// An ONNX file as plain structures: what the reader found, before anything is understood. No protobuf type leaves the
// reader.
#ifndef NPU_GRAPH_RAW_MODEL_H
#define NPU_GRAPH_RAW_MODEL_H

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/tensor.h"

namespace npu::graph {

struct RawGraph;

struct RawAttribute {
  std::optional<int64_t> i;
  std::optional<float> f;
  std::optional<std::string> s;
  std::vector<int64_t> ints;
  std::vector<float> floats;
  std::vector<std::string> strings;
  TensorPtr tensor;
  std::shared_ptr<const RawGraph> graph;
  std::string reference;  ///< in a function: the attribute of the call whose value it has
  /// Not a list.
  bool is_single() const { return i || f || s || tensor || graph; }
  bool other = false;  ///< sparse tensors, lists of tensors: nothing that a supported operator needs
};

struct RawNode {
  std::string name, type, domain;
  std::string overload;  ///< of a call: which of the functions of that name
  std::vector<std::string> inputs, outputs;
  std::map<std::string, RawAttribute> attributes;
};

struct RawDim {
  int64_t value = -1;  ///< -1: not fixed
  std::string symbol;  ///< its name, may be empty
  bool zero = false;   ///< the file has 0 for it, which is taken as not fixed
};

struct RawValue {
  std::string name;
  bool is_tensor = true;  ///< not a sequence, an optional value or another type
  Dtype dtype = Dtype::Undefined;
  bool has_shape = false;
  std::vector<RawDim> dims;
};

/// The network, or a body of If, Loop or Scan.
struct RawGraph {
  std::string graph_name;
  std::vector<RawNode> nodes;
  std::map<std::string, TensorPtr> initializers;
  std::vector<RawValue> inputs, outputs;  ///< inputs without those that are initializers
  std::vector<RawValue> values;           ///< what the file says about other tensors
};

/// An operator that the file itself defines.
struct RawFunction {
  std::string name, domain, overload;
  int64_t opset = 0;
  std::vector<std::string> inputs, outputs;
  std::vector<std::string> attributes;           ///< that a call may give
  std::map<std::string, RawAttribute> defaults;  ///< others, which have this value where a call gives none
  std::vector<RawNode> nodes;
};

inline constexpr int64_t kMinOpset = 1, kMaxOpset = 25;

struct RawModel : RawGraph {
  std::string producer;
  int64_t opset = 0;       ///< version of ONNX's own operators
  bool has_opset = false;  ///< the file says so; else it has imports of other domains only, and `opset` is the newest
  std::vector<RawFunction> functions;
};

/// Reads an ONNX file's bytes. External data and sparse initializers are errors.
Status read_onnx(const void *bytes, size_t size, RawModel &model);

/// The same from a file. External data comes from files in its folder and below. Where the model is a link, also from
/// the folder of the file that it leads to and below, and from the same content store (content_store.h).
Status read_onnx_file(const std::string &path, RawModel &model);
/// The file's bytes; not more than an ONNX file can have.
Status read_bytes(const std::string &path, std::vector<char> &bytes);

}  // namespace npu::graph

#endif  // NPU_GRAPH_RAW_MODEL_H
