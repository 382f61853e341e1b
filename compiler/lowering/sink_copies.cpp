// SPDX-License-Identifier: MIT
// The GDMA does one copy after another. A copy whose result is wanted later stands in the way of one that the next
// operator waits for.
#include <algorithm>
#include <set>

#include "compiler/lowering/lowered.h"

namespace npu::compiler {
namespace {

constexpr size_t kLookAhead = 64;  ///< operators that a copy passes at most

bool reads(const LoweredOp &op, int storage) {
  const ViewList<const View> inputs = op.inputs();
  return std::any_of(inputs.begin(), inputs.end(), [&](const View *v) { return v->storage == storage; });
}

/// Where operator i, which copies, has to stand at the latest: before whatever touches its result or changes its
/// operand.
size_t latest(const std::vector<LoweredOp> &ops, size_t i, const CopyOp &copy) {
  const int from = copy.input.storage, to = ops[i].out.storage;
  size_t j = i + 1;
  while (j < std::min(ops.size(), i + kLookAhead) && !reads(ops[j], to) && ops[j].out.storage != to &&
         ops[j].out.storage != from)
    ++j;
  return j;
}

/// Bytes of all that operators [first, end) touch.
int64_t bytes_of(const Lowered &l, size_t first, size_t end) {
  std::set<int> storages;
  for (size_t i = first; i < end; ++i) {
    storages.insert(l.ops[i].out.storage);
    for (const View *v : l.ops[i].inputs()) storages.insert(v->storage);
  }
  int64_t bytes = 0;
  for (int s : storages) bytes += l.storages[static_cast<size_t>(s)].bytes();
  return bytes;
}

}  // namespace

void sink_copies(Lowered &lowered, int64_t lmem_bytes) {
  std::vector<LoweredOp> &ops = lowered.ops;
  const auto at = [&](size_t i) { return ops.begin() + static_cast<std::ptrdiff_t>(i); };
  for (size_t i = ops.size(); i-- > 0;) {
    const CopyOp *copy = ops[i].as<CopyOp>();
    if (!copy) continue;
    const StorageKind from = lowered.storages[static_cast<size_t>(copy->input.storage)].kind;
    // Another core waits for what goes to an exchange, maybe before it writes what this one waits for.
    if (lowered.storages[static_cast<size_t>(ops[i].out.storage)].kind == StorageKind::Exchange) continue;
    const size_t to = latest(ops, i, *copy);
    // What memory has all along may come early; nobody waits for a result that goes out; and what is wanted for longer
    // must not drive out other tensors.
    if (from == StorageKind::Temp && to < ops.size() && bytes_of(lowered, i, to) <= lmem_bytes / 2)
      std::rotate(at(i), at(i + 1), at(to));
  }
}

}  // namespace npu::compiler
