// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/origins.h"

namespace npu::model {

void Origins::note(const Origin &origin) {
  written(origin.first, origin.end);
  if (!origins_.empty()) {
    Origin &last = origins_.back();
    // Large operands come in several copies.
    const bool goes_on = last.end == origin.first && last.va + (last.end - last.first) == origin.va;
    if (goes_on && last.identity == origin.identity) {
      last.end = origin.end;
      return;
    }
  }
  if (origins_.size() == kMost) origins_.erase(origins_.begin());
  origins_.push_back(origin);
}

void Origins::written(uint64_t first, uint64_t end) {
  for (size_t i = 0; i < origins_.size();) {
    Origin &o = origins_[i];
    if (end <= o.first || o.end <= first) {
      ++i;
      continue;
    }
    const Origin behind{end, o.end, o.va + (end - o.first), o.identity};
    if (o.first < first) {
      o.end = first;
      ++i;
    } else {
      origins_.erase(origins_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (behind.first < behind.end && origins_.size() < kMost)
      origins_.insert(origins_.begin() + static_cast<std::ptrdiff_t>(i++), behind);
  }
}

bool Origins::find(uint64_t first, uint64_t end, Origin &origin) const {
  for (const Origin &o : origins_) {
    if (first < o.first || end > o.end) continue;
    origin = {first, end, o.va + (first - o.first), o.identity};
    return true;
  }
  return false;
}

}  // namespace npu::model
