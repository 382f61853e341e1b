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

std::mutex constants_mutex;
std::multimap<uint64_t, std::weak_ptr<const Tensor>> constants;  // by fingerprint; guarded by constants_mutex

bool same_tensor(const Tensor &a, const Tensor &b) {
  return static_cast<const npu::cpu::TensorKind &>(a) == b && a.data == b.data;
}

/// An equal tensor that a graph has, or this one, which is known from now on. Called with constants_mutex held.
TensorPtr shared_constant(const TensorPtr &tensor) {
  const uint64_t print = fingerprint(tensor->data);
  for (auto [it, end] = constants.equal_range(print); it != end; ++it)
    if (TensorPtr other = it->second.lock(); other && same_tensor(*other, *tensor)) return other;
  constants.emplace(print, tensor);
  return tensor;
}

}  // namespace

void share_constants(npu::cpu::HostGraph &graph) {
  std::lock_guard lock(constants_mutex);
  std::erase_if(constants, [](const auto &entry) { return entry.second.expired(); });
  for (TensorPtr &constant : graph.constants)
    if (constant->data.size() >= kLeastBytes) constant = shared_constant(constant);
}

}  // namespace npurt
