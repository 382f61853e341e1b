// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/arbiter.h"

#include <algorithm>

namespace npu::model {

void Arbiter::remove(unsigned queue) {
  std::erase_if(waiting_, [&](const Waiting &w) { return w.queue == queue; });
}

void Arbiter::clear() {
  waiting_.clear();
  std::fill(served_.begin(), served_.end(), 0);
}

uint32_t Arbiter::reserved() const {
  uint32_t mask = 0;
  for (const Waiting &w : waiting_) mask |= w.reserved;
  return mask;
}

/// Two jobs that collect cores at the same time want none in common: neither can have what the other needs.
bool Arbiter::may_reserve(const Waiting &w) const {
  return std::none_of(waiting_.begin(), waiting_.end(), [&](const Waiting &other) {
    return &other != &w && other.reserved && other.core_mask & w.core_mask;
  });
}

bool Arbiter::may_have(const Waiting &w, unsigned core) const {
  return w.wants(core) && (w.cores == 1 || w.reserved || may_reserve(w));
}

bool Arbiter::wanted(unsigned core) const {
  return !(reserved() >> core & 1) &&
         std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting &w) { return may_have(w, core); });
}

/// The job that gets the core: one that collects cores and wants it, else the one of the highest rank.
Arbiter::Waiting *Arbiter::choose(unsigned core) {
  Waiting *best = nullptr;
  for (Waiting &w : waiting_) {
    if (!may_have(w, core)) continue;
    if (w.reserved) return &w;
    const uint32_t mine = w.weight + w.age, its = best ? best->weight + best->age : 0;
    if (!best || mine > its || (mine == its && served_[w.queue] < served_[best->queue])) best = &w;
  }
  return best;
}

std::optional<Arbiter::Grant> Arbiter::pick(unsigned core) {
  if (reserved() >> core & 1) return std::nullopt;
  Waiting *const best = choose(core);
  if (!best) return std::nullopt;
  for (Waiting &w : waiting_)
    if (&w != best && w.wants(core)) w.age = std::min(w.age + 1, kMaxAge);
  best->reserved |= 1u << core;
  if (best->lacks()) return std::nullopt;
  const Grant grant{best->queue, best->reserved};
  served_[best->queue] = ++clock_;
  waiting_.erase(waiting_.begin() + (best - waiting_.data()));
  return grant;
}

}  // namespace npu::model
