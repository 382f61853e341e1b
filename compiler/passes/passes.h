// SPDX-License-Identifier: MIT
// Passes over a graph. Each keeps the network's meaning; one a file.
#ifndef NPU_GRAPH_PASSES_H
#define NPU_GRAPH_PASSES_H

#include <functional>

#include "compiler/graph/ir.h"
#include "compiler/graph/remove_dead.h"

namespace npu::graph {

/// Moves a constant factor or summand a channel into the weights and bias of the convolution or matrix product in front
/// of it, also through a Concat of channels, and a positive factor through a Relu: this is where batch normalization
/// and separate bias additions disappear. A factor that has none goes into the matrix products behind it: the scale of
/// RMS normalization.
void fold_affine(Graph &graph);

/// Makes one convolution, of one element in each channel, of two element-wise nodes that scale or shift the channels of
/// a picture: a batch normalization that fold_affine() could not put anywhere.
void join_affine(Graph &graph);

/// Makes a Reduce of float32 operators that the chip has: a pooling over all of what it reduces, or, for products, one
/// half times the other again and again. What no kernel can reach over stays.
void expand_reduce(Graph &graph);
/// The same of those that are wanted.
void expand_reduce(Graph &graph, const std::function<bool(const Node &)> &wanted);

/// Makes quantized operators of operators between nodes that make floating-point numbers of integers and integers of
/// floating-point numbers. A product differs by one step at most from what it was, all others are the same.
void fuse_quantized(Graph &graph);

/// Makes an activation part of the command that computes its operand, also if nodes in between pass that on in another
/// order or shape.
void fuse_activation(Graph &graph);

/// Merges nodes of the chip with equal operators, attributes and operands.
void merge_equal(Graph &graph);

/// Lets a convolution or an average do the zero padding that stands in front of it.
void merge_pad(Graph &graph);

/// Replaces a pooling whose window alone needs more than `max_elements` by two, of rows and of columns, and a window
/// over all of one dimension by one over its pieces and one over their results.
void split_pool(Graph &graph, int64_t max_elements);

/// Lets an element-wise node read what is repeated (Expand, then Reshape: a picture made larger) once for all its
/// places instead of copies of it.
void repeat_late(Graph &graph);

/// Stores results between operators of the chip in float16 or bfloat16, and what they multiply with; what is computed
/// from squares stays float32, and so do inputs and outputs of the network. After all other passes.
void use_half(Graph &graph, Dtype half);

}  // namespace npu::graph

#endif  // NPU_GRAPH_PASSES_H
