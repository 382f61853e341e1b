// SPDX-License-Identifier: MIT
// Parts of fuse_quantized(): a walk over a graph that makes a new list of nodes, and knows of float32 values which
// integers they stand for.
#ifndef NPU_GRAPH_INTEGERS_H
#define NPU_GRAPH_INTEGERS_H

#include <map>
#include <optional>

#include "compiler/passes/affine.h"

namespace npu::graph {

/// What a float32 value is: integers, and what they stand for.
struct Integers {
  ValueId value = kNoValue;
  Quant quant;
  int source = -1;  ///< of the node that makes floating-point numbers of them
};

/// How a value becomes integers again: nodes that are each other's only readers, up to one that quantizes. Between them
/// may be moves, which take integers as well.
struct Tail {
  Quant quant;  ///< of the result
  Dtype type = Dtype::I8;
  std::vector<size_t> absorbed;  ///< nodes that the operator in front computes as well
  Activation act;                ///< of those together
  ValueId last = kNoValue;       ///< result of the last of those; without any the value itself
};

/// What an operator can compute behind its own result.
enum class Takes : uint8_t { Nothing, Activation };

/// A Requant from float32, or to it, without a function.
bool quantizes(const Node &n);
bool dequantizes(const Node &n);
/// Whether sums of numbers of that scale, or of products of two, neither overflow in float32 nor lose bits: else they
/// are not what integers add up to.
inline bool is_usual(float scale) { return scale >= 0x1p-48f && scale <= 0x1p48f; }
/// Relu, Clip, LeakyRelu: what works on steps of a result.
bool is_simple(const Activation &act);
/// Makes one function of two, of which the second may be None. False: none of these does what they do.
bool join_functions(Activation &first, const Activation &second);

class IntegerWalk {
 public:
  explicit IntegerWalk(Graph &graph);

  Graph &graph;
  const std::vector<Node> nodes;  ///< as they were

  /// Operands as they are now: what quantizes integers that are known is those.
  ValueId now(ValueId v) const;
  /// The integers of a float32 value, of 8 bits or any; null: it is not known to be such.
  const Integers *integers(ValueId v) const;
  const Integers *bytes(ValueId v) const;
  /// The same, or of a constant with one scale; none.
  std::optional<Integers> operand(ValueId v);

  /// The node that made a value; null: an input or constant.
  const Node *maker(ValueId v) const;
  int maker_index(ValueId v) const { return made_by_[static_cast<size_t>(v)]; }
  /// The only reader of a value, -1: there are several, or it is an output.
  int only_reader(ValueId v) const;
  /// How a value becomes integers of 8 bits. False: it does not, or somebody else reads it on the way.
  bool tail(ValueId v, Takes takes, Tail &out) const;

  // The new nodes.

  /// A node as it was, but for its operands.
  void keep(const Node &n);
  ValueId add(Op op, std::vector<ValueId> inputs, Attrs attrs, int source);
  /// The same with the value that it makes.
  void add(Op op, std::vector<ValueId> inputs, Attrs attrs, int source, ValueId output);
  /// A float32 value is made of integers from now on, also for those who read it as it is.
  void set(ValueId v, const Integers &made);
  /// A node is gone: a value becomes what it made, and another node does its work (source, -1: none needs to).
  void drop(size_t index, ValueId becomes, int into);
  void drop(const std::vector<size_t> &list, int into);
  /// Another node does a node's work, unless somebody else reads its result.
  void joins(size_t index, int into) { went_.emplace(nodes[index].source, into); }
  bool is_dropped(size_t index) const { return dropped_[index]; }
  /// A node reads integers itself: what made floating-point numbers of them is in it, where nobody else needs that.
  void takes(const Integers &operand, int source);

  ValueId constant(TensorPtr tensor);
  /// The integers of a constant with a single zero point. False: there is none.
  bool single_zero(const std::shared_ptr<const QuantizedConstant> &constant, ValueId &value, int32_t &zero);

  /// Why a node stays in float32.
  std::map<int, std::string> reasons;  ///< by source

  /// Puts the new nodes into the graph.
  void finish();

 private:
  void grow();
  /// Bounds of the integers that a result becomes (Max and Min: a Clip) as those of numbers.
  void take_range(ValueId integers, Tail &out) const;
  /// Where nodes went that have no successor.
  void set_fates();

  std::vector<std::vector<size_t>> readers_;
  std::vector<bool> is_output_, dropped_;
  std::vector<int> made_by_;
  std::vector<ValueId> now_;
  std::vector<Integers> known_;
  std::vector<Node> made_;
  std::map<int, int> went_;  // from source to source
  std::map<std::shared_ptr<const QuantizedConstant>, std::pair<ValueId, int32_t>> single_zeros_;
};

// Each looks at node `i`, whose operands are as they are now, and puts its integer form in its place; false: it has
// none.
bool fuse_product(IntegerWalk &walk, size_t i);
bool fuse_elements(IntegerWalk &walk, size_t i);
bool fuse_lookup(IntegerWalk &walk, size_t i);
bool fuse_move(IntegerWalk &walk, size_t i);
/// The same of nodes that compute with 8 bits as they are: a Clip between those that quantize, and others.
bool fuse_bytes(IntegerWalk &walk, size_t i);

/// Whether a value is computed, element by element, from integers of 8 bits and single numbers alone: a lookup.
bool is_lookup(const IntegerWalk &walk, ValueId v);

}  // namespace npu::graph

#endif  // NPU_GRAPH_INTEGERS_H
