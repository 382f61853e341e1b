// SPDX-License-Identifier: MIT
#include "runtime/launch/memory/shared_constants.h"

#include <map>
#include <mutex>

#include "runtime/launch/memory/fingerprint.h"

namespace npurt {

namespace {

using npu::cpu::Tensor;
using npu::cpu::TensorPtr;

constexpr size_t kLeastBytes = 4096;  // smaller constants are not worth an entry

std::mutex known_mutex;
std::multimap<uint64_t, std::weak_ptr<const Tensor>> known;  // by fingerprint; guarded by known_mutex

bool equal(const Tensor &a, const Tensor &b) {
  return static_cast<const npu::cpu::TensorKind &>(a) == b && a.data == b.data;
}

/// An equal tensor that a graph has, or this one, which is known from now on. Called with known_mutex held.
TensorPtr shared(const TensorPtr &tensor) {
  const uint64_t print = fingerprint(tensor->data);
  for (auto [it, end] = known.equal_range(print); it != end; ++it)
    if (TensorPtr other = it->second.lock(); other && equal(*other, *tensor)) return other;
  known.emplace(print, tensor);
  return tensor;
}

}  // namespace

void share_constants(npu::cpu::HostGraph &graph) {
  std::lock_guard lock(known_mutex);
  std::erase_if(known, [](const auto &entry) { return entry.second.expired(); });
  for (TensorPtr &constant : graph.constants)
    if (constant->data.size() >= kLeastBytes) constant = shared(constant);
}

}  // namespace npurt
