// SPDX-License-Identifier: MIT
// A network under construction. It knows the shape of every tensor by rules of its own, and declares it in the file:
// the compiler, which compares what it infers with that, is so checked at every tensor.
#ifndef NPU_FUZZ_NETS_NET_H
#define NPU_FUZZ_NETS_NET_H

#include <functional>
#include <span>

#include "tests/fuzz/nets/plan.h"
#include "tests/unit/compiler/onnx_builder.h"

namespace npu::fuzz {

using test::Dims;

struct Tensor {
  std::string name;
  Dims dims;
  /// Bounds of the elements' absolute values: networks keep them small, so that rounding errors stay small, and divide
  /// by nothing that may be near 0.
  double most = 1, least = 0;

  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  int64_t count() const;
};

class Net {
 public:
  Net(int64_t opset, int64_t most_elements, uint64_t data);

  const int64_t opset, most_elements;
  test::OnnxBuilder b;
  bool onnxruntime = true;

  /// A tensor for which `fits` holds, mostly one of the latest; null: there is none.
  const Tensor *pick(Choices &c, const std::function<bool(const Tensor &)> &fits) const;
  const Tensor *pick(Choices &c) const {
    return pick(c, [](const Tensor &) { return true; });
  }

  /// Before each node: its constants follow from its number, and not from what was begun and given up before it.
  void begin_node(size_t number) { random_ = Random(data_ + number); }
  Tensor input(const Dims &dims);
  /// An initializer of numbers in [-most, most], or, with least > 0, of absolute values in [least, most].
  Tensor constant(const Dims &dims, double most, double least = 0);
  /// The same as a list of numbers that the caller has.
  Tensor constant(const Dims &dims, const std::vector<float> &values);

  /// Whether a tensor of that shape and size of elements may be made.
  bool allows(const Dims &dims, double most = 1) const;
  /// A node; attributes are set with b.attr() before anything else is added.
  std::string node(const std::string &type, const std::vector<std::string> &inputs) { return b.op(type, inputs); }
  /// Makes a result of a node known, with its shape and bounds.
  void add(const std::string &name, const Dims &dims, double most, double least = 0);
  /// Numbers of a tensor of integers: an initializer, or a node Constant.
  std::string ints(Choices &c, const std::vector<int64_t> &values);

  /// Everything that nobody reads becomes an output, and some others.
  Made finish(Choices &c);

 private:
  std::vector<Tensor> tensors_;
  Random random_;
  const uint64_t data_;
  size_t inputs_ = 0;
};

int64_t count_of(const Dims &dims);

/// Adds a node of its type, or nothing and returns false where none of the tensors suits it.
struct Op {
  const char *type;
  bool (*add)(Net &, Choices &, const char *type);
};
std::span<const Op> element_ops();
std::span<const Op> window_ops();
std::span<const Op> matrix_ops();
std::span<const Op> shape_ops();
std::span<const Op> move_ops();

}  // namespace npu::fuzz

#endif  // NPU_FUZZ_NETS_NET_H
