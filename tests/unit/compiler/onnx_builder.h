// SPDX-License-Identifier: MIT
// ONNX files made in a test.
#ifndef NPU_TEST_COMPILER_ONNX_BUILDER_H
#define NPU_TEST_COMPILER_ONNX_BUILDER_H

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>
#include <vector>

namespace npu::test {

using Dims = std::vector<int64_t>;

class OnnxBuilder {
 public:
  explicit OnnxBuilder(int64_t opset = 13);

  /// Each returns the name of the tensor. Numbers are pseudo-random in [-1, 1], the same in every run.
  std::string input(const Dims &dims, const std::string &name = {}, int type = onnx::TensorProto::FLOAT);
  std::string weights(const Dims &dims);
  std::string ints(const std::vector<int64_t> &values);
  /// A tensor of integers of that shape.
  std::string indices(const Dims &dims, const std::vector<int64_t> &values);
  std::string ints32(const std::vector<int32_t> &values);
  std::string scalar(float value);
  std::string floats(const std::vector<float> &values);
  std::string constant(const Dims &dims, const std::vector<float> &values);
  std::string op(const std::string &type, const std::vector<std::string> &inputs);
  /// Another output of the last node.
  std::string more_output();
  OnnxBuilder &output(const std::string &name);
  /// What the file says about the shape of a tensor, or of the last output; -1: a dimension without a number.
  OnnxBuilder &declare(const std::string &name, const Dims &dims);
  OnnxBuilder &declare_output(const Dims &dims);

  /// Attributes and name of the last node.
  OnnxBuilder &attr(const std::string &name, int64_t value);
  OnnxBuilder &attr(const std::string &name, float value);
  OnnxBuilder &attr(const std::string &name, const std::vector<int64_t> &values);
  OnnxBuilder &attr(const std::string &name, const char *value);
  OnnxBuilder &attr(const std::string &name, const std::vector<float> &values);
  /// A tensor as an attribute, one of integers with one dimension.
  OnnxBuilder &tensor_attr(const std::string &name, const std::vector<int64_t> &values);
  OnnxBuilder &tensor_attr(const std::string &name, const Dims &dims, const std::vector<float> &values);
  /// A body: the network of another builder.
  OnnxBuilder &attr(const std::string &name, const OnnxBuilder &body);
  OnnxBuilder &named(const std::string &name);

  std::string bytes() const { return model.SerializeAsString(); }

  onnx::ModelProto model;

 private:
  onnx::GraphProto &graph() { return *model.mutable_graph(); }
  onnx::AttributeProto &new_attr(const std::string &name, onnx::AttributeProto::AttributeType type);
  std::string fresh(const char *stem) { return stem + std::to_string(++count_); }
  unsigned count_ = 0;
  uint32_t random_ = 12345;
};

}  // namespace npu::test

#endif  // NPU_TEST_COMPILER_ONNX_BUILDER_H
