// SPDX-License-Identifier: MIT
// A convolution can begin with what is added to its result, and saves the operator that adds.
#include <algorithm>

#include "compiler/lowering/lowered.h"

namespace npu::compiler {
namespace {

class SumFuser {
 public:
  SumFuser(graph::Graph &graph, Lowered &lowered)
      : g_(graph), l_(lowered), reads_(lowered.storages.size()), writes_(lowered.storages.size()) {
    for (size_t i = 0; i < l_.ops.size(); ++i) {
      for (const View *v : l_.ops[i].inputs()) reads_[static_cast<size_t>(v->storage)].push_back(i);
      writes_[static_cast<size_t>(l_.ops[i].out.storage)].push_back(i);
    }
  }

  void run() {
    std::vector<bool> dead(l_.ops.size());
    for (LoweredOp &sum : l_.ops) {
      const BinaryOp *add = sum.as<BinaryOp>();
      if (!add || add->kind != graph::BinaryKind::Add || !std::holds_alternative<View>(add->b)) continue;
      if (l_.storage_of(sum.out).type != graph::Dtype::F32 || !is_float(*add)) continue;
      const View operands[] = {add->a, std::get<View>(add->b)};
      // Of two convolutions the later one, which the other one's result is there for.
      size_t best = l_.ops.size(), which = 0;
      for (size_t k = 0; k < 2; ++k) {
        const size_t conv = fusible(operands[k], operands[1 - k], sum.out);
        if (conv == l_.ops.size() || dead[conv] || (best != l_.ops.size() && conv < best)) continue;
        best = conv;
        which = k;
      }
      if (best == l_.ops.size()) continue;
      graph::Source &source = g_.sources[static_cast<size_t>(sum.source)];
      source.fate = "in " + g_.sources[static_cast<size_t>(l_.ops[best].source)].name;
      LoweredOp fused = l_.ops[best];
      ConvOp &conv = std::get<ConvOp>(fused.body);
      conv.addend = *as_picture(operands[1 - which]);
      conv.act = add->act;
      fused.out = *as_picture(sum.out);
      sum = std::move(fused);
      dead[best] = true;
    }
    size_t kept = 0;
    for (size_t i = 0; i < l_.ops.size(); ++i) {
      if (dead[i]) continue;
      if (kept != i) l_.ops[kept] = std::move(l_.ops[i]);
      ++kept;
    }
    l_.ops.resize(kept);
  }

 private:
  /// Integers of two scales cannot be added as they are.
  bool is_float(const BinaryOp &add) const {
    return l_.storage_of(add.a).type == graph::Dtype::F32 &&
           l_.storage_of(std::get<View>(add.b)).type == graph::Dtype::F32;
  }

  /// The convolution that makes an operand of a sum, for it alone; the number of operators if there is none.
  size_t fusible(const View &made, const View &added, const View &result) const {
    const size_t none = l_.ops.size();
    const auto s = static_cast<size_t>(made.storage);
    const auto operand = as_picture(made), other = as_picture(added), out = as_picture(result);
    if (!operand || !other || !out) return none;
    if (l_.storages[s].kind != StorageKind::Temp || reads_[s].size() != 1 || writes_[s].size() != 1) return none;
    const LoweredOp &maker = l_.ops[writes_[s][0]];
    const ConvOp *conv = maker.as<ConvOp>();
    if (!conv || conv->quant.on || conv->addend || !constant_of(conv->weights) ||
        conv->act.kind != graph::ActKind::None)
      return none;
    if (maker.out.dims != operand->dims || !same_places(maker.out, *operand)) return none;
    for (size_t d = 0; d < other->dims.size(); ++d)
      if (other->dims[d] != 1 && other->strides[d] == 0) return none;
    return writes_[s][0];
  }

  graph::Graph &g_;
  Lowered &l_;
  std::vector<std::vector<size_t>> reads_, writes_;  ///< operators of each storage
};

}  // namespace

void fuse_sums(graph::Graph &graph, Lowered &lowered) { SumFuser(graph, lowered).run(); }

}  // namespace npu::compiler
