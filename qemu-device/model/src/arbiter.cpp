// SPDX-License-Identifier: MIT
#include "arbiter.h"

#include <algorithm>

namespace npu::model {

void Arbiter::remove(unsigned queue) {
  std::erase_if(waiting_, [&](const Waiting &w) { return w.queue == queue; });
}

void Arbiter::clear() {
  waiting_.clear();
  std::fill(served_.begin(), served_.end(), 0);
}

int Arbiter::pick(unsigned core) {
  Waiting *best = nullptr;
  for (Waiting &w : waiting_) {
    if (!(w.core_mask >> core & 1)) continue;
    const uint32_t mine = w.weight + w.age, its = best ? best->weight + best->age : 0;
    if (!best || mine > its || (mine == its && served_[w.queue] < served_[best->queue])) best = &w;
  }
  if (!best) return -1;
  for (Waiting &w : waiting_)
    if (&w != best && w.core_mask >> core & 1) w.age = std::min(w.age + 1, kMaxAge);
  const unsigned queue = best->queue;
  served_[queue] = ++clock_;
  waiting_.erase(waiting_.begin() + (best - waiting_.data()));
  return static_cast<int>(queue);
}

}  // namespace npu::model
