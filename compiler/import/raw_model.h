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

struct RawAttribute {
  std::optional<int64_t> i;
  std::optional<float> f;
  std::optional<std::string> s;
  std::vector<int64_t> ints;
  std::vector<float> floats;
  TensorPtr tensor;
  bool other = false;  ///< graphs, strings, sparse tensors: nothing that a supported operator needs
};

struct RawNode {
  std::string name, type, domain;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, RawAttribute> attributes;
};

struct RawDim {
  int64_t value = -1;  ///< -1: not fixed
  std::string symbol;  ///< its name, may be empty
};

struct RawValue {
  std::string name;
  Dtype dtype = Dtype::Undefined;
  bool has_shape = false;
  std::vector<RawDim> dims;
};

struct RawModel {
  std::string graph_name, producer;
  int64_t opset = 0;
  std::vector<RawNode> nodes;
  std::map<std::string, TensorPtr> initializers;
  std::vector<RawValue> inputs, outputs;  ///< inputs without those that are initializers
  std::vector<RawValue> values;           ///< what the file says about other tensors
};

/// Reads an ONNX file's bytes. External data and sparse initializers are errors.
Status read_onnx(const void *bytes, size_t size, RawModel &model);

/// The same from a file.
Status read_onnx_file(const std::string &path, RawModel &model);
/// The file's bytes; not more than an ONNX file can have.
Status read_bytes(const std::string &path, std::vector<char> &bytes);

}  // namespace npu::graph

#endif  // NPU_GRAPH_RAW_MODEL_H
