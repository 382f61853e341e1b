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
  bool positive = false;  ///< no element is below 0
  /// The elements are the same to the bit, whatever computes them: only then may the network decide by them.
  bool exact = false;
  int type = onnx::TensorProto::FLOAT;

  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  int64_t count() const;
  /// Truth values are no integers here.
  bool is_float() const { return type == onnx::TensorProto::FLOAT; }
  bool is_bool() const { return type == onnx::TensorProto::BOOL; }
  bool is_integer() const { return !is_float() && !is_bool(); }
};

class Net {
 public:
  Net(int64_t opset, int64_t most_elements, bool host, uint64_t data);

  const int64_t opset, most_elements;
  const bool host;  ///< parts of it may run on the CPU
  test::OnnxBuilder b;
  bool onnxruntime = true;

  /// A tensor for which `fits` holds, mostly one of the latest; null: there is none.
  const Tensor *pick_any(Choices &c, const std::function<bool(const Tensor &)> &fits) const;
  /// The same of floating-point tensors. There is always one.
  const Tensor *pick(Choices &c, const std::function<bool(const Tensor &)> &fits) const {
    return pick_any(c, [&](const Tensor &t) { return t.is_float() && fits(t); });
  }
  const Tensor *pick(Choices &c) const {
    return pick(c, [](const Tensor &) { return true; });
  }
  const Tensor *pick_integer(Choices &c, const std::function<bool(const Tensor &)> &fits) const {
    return pick_any(c, [&](const Tensor &t) { return t.is_integer() && fits(t); });
  }
  /// For operators of any type, which have that type since an operator set.
  const Tensor *pick_moved(Choices &c, int64_t since, const std::function<bool(const Tensor &)> &fits) const {
    return opset < since ? pick(c, fits) : pick_any(c, fits);
  }

  /// Before each node: its constants follow from its number, and not from what was begun and given up before it.
  void begin_node(size_t number) { random_ = Random(data_ + number); }
  Tensor input(const Dims &dims, int type = onnx::TensorProto::FLOAT, const std::string &name = {});
  /// An initializer of numbers in [-most, most], or, with least > 0, of absolute values in [least, most].
  Tensor constant(const Dims &dims, double most, double least = 0);
  /// The same as a list of numbers that the caller has.
  Tensor constant(const Dims &dims, const std::vector<float> &values);
  /// An initializer of integers in [low, high], or of truth values.
  Tensor integers(const Dims &dims, int64_t low, int64_t high, int type = onnx::TensorProto::INT64);
  /// The same of numbers that the caller has.
  Tensor integers(const Dims &dims, const std::vector<int64_t> &values, int type = onnx::TensorProto::INT64);
  /// A number of the node, which does not count for its shape: in [0, n).
  int64_t any(int64_t n) { return static_cast<int64_t>(random_.below(static_cast<uint32_t>(n))); }

  /// Whether a tensor of that shape and size of elements may be made.
  bool allows(const Dims &dims, double most = 1) const;
  /// A node; attributes are set with b.attr() before anything else is added.
  std::string node(const std::string &type, const std::vector<std::string> &inputs) { return b.op(type, inputs); }
  /// Makes a result of a node known, with its shape and bounds.
  void add(const std::string &name, const Dims &dims, double most, double least = 0, bool positive = false);
  /// The same with its type and everything that is known, except the shape, from another tensor.
  void add_like(const std::string &name, const Dims &dims, const Tensor &x);
  void add(const Tensor &t);
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
std::span<const Op> function_ops();
std::span<const Op> norm_ops();
// With CPU parts.
std::span<const Op> host_function_ops();
std::span<const Op> host_window_ops();
std::span<const Op> reduce_ops();
std::span<const Op> index_ops();
std::span<const Op> integer_ops();
std::span<const Op> recurrent_ops();
std::span<const Op> control_ops();
std::span<const Op> signal_ops();

/// The network of a plan for quantized operators (quantized.cpp).
Made make_quantized_network(const Plan &plan, Plan *smallest);
/// The network of a plan of float32 that becomes integers by samples.
Made make_calibrated_network(const Plan &plan, Plan *smallest);

/// The shape of a result of two operands; false where they do not fit.
bool broadcast(const Dims &a, const Dims &b, Dims &out);
/// A shape that broadcasts to `dims`: some dimensions are 1, and leading ones may be missing.
Dims narrowed(Choices &c, const Dims &dims);
/// x, or x times a number, so that no element is larger than `most`.
Tensor bounded(Net &net, const Tensor &x, double most);
/// A positive operand, no element of which is near 0.
Tensor positive_operand(Net &net, Choices &c);
/// Axes of a reduction or another operator, at least one; some count from the end where the operator set has that.
std::vector<int64_t> choose_axes(Net &net, Choices &c, int64_t rank);

}  // namespace npu::fuzz

#endif  // NPU_FUZZ_NETS_NET_H
