// SPDX-License-Identifier: MIT
// What is small and read several times comes to local memory once: a transfer of a few bytes takes as long as one of
// several kilobytes.
#include <algorithm>

#include "compiler/lowering/lowered.h"

namespace npu::compiler {
namespace {

/// About what memory moves in the time that a transfer takes to begin.
constexpr int64_t kSmall = 16384;

class LoadSharer {
 public:
  explicit LoadSharer(Lowered &lowered) : l_(lowered), reads_(lowered.storages.size()) {
    for (const LoweredOp &op : l_.ops)
      for (const View *v : op.inputs()) ++reads_[static_cast<size_t>(v->storage)];
  }

  void run() {
    std::vector<int> copies(l_.storages.size(), -1);
    std::vector<LoweredOp> ops;
    for (LoweredOp &op : l_.ops) {
      for (View *v : op.inputs()) {
        if (!worth_it(v->storage)) continue;
        int &copy = copies[static_cast<size_t>(v->storage)];
        if (copy < 0) ops.push_back(load(v->storage, op.source, copy));
        v->storage = copy;
      }
      ops.push_back(std::move(op));
    }
    l_.ops = std::move(ops);
  }

 private:
  bool worth_it(int storage) const {
    const Storage &s = l_.storages[static_cast<size_t>(storage)];
    return (s.kind == StorageKind::Input || s.kind == StorageKind::Const) && s.bytes() <= kSmall &&
           reads_[static_cast<size_t>(storage)] > 1;
  }

  /// The operator that brings a storage, into a new one.
  LoweredOp load(int storage, int source, int &copy) {
    Storage s;
    const Storage &from = l_.storages[static_cast<size_t>(storage)];
    s.type = from.type;
    s.elements = from.elements;
    s.name = from.name;
    copy = static_cast<int>(l_.storages.size());
    const Shape all{s.elements};
    l_.storages.push_back(std::move(s));
    return {source, dense_view(copy, all), CopyOp{dense_view(storage, all)}};
  }

  Lowered &l_;
  std::vector<size_t> reads_;  ///< operands in each storage
};

}  // namespace

void share_loads(Lowered &lowered) { LoadSharer(lowered).run(); }

}  // namespace npu::compiler
