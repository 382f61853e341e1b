// SPDX-License-Identifier: MIT
#include "variants.h"

#include <algorithm>

#include "card.h"
#include "compiler.h"
#include "launch_check.h"
#include "network.h"

namespace npurt {

Reason Variants::find(std::span<const bm_shape_t> shapes, std::shared_ptr<const Stage> &out) {
  Key key;
  for (const bm_shape_t &s : shapes) key.emplace_back(s.dims, s.dims + s.num_dims);
  std::shared_ptr<Entry> entry;
  {
    std::lock_guard lock(mutex_);
    auto &known = entries_[key];
    if (!known) known = std::make_shared<Entry>();
    entry = known;
    entry->used = ++uses_;
  }
  Reason why;
  {
    std::lock_guard lock(entry->mutex);
    if (!entry->stage) why = compile(shapes, key, entry->stage);
    out = entry->stage;
  }
  trim(kMost, {});
  return why.empty() ? why : "network '" + network_ + "': " + why;
}

void Variants::set_max_launches(int count) {
  std::vector<std::shared_ptr<Entry>> all;
  {
    std::lock_guard lock(mutex_);
    max_launches_ = count;
    for (const auto &[key, entry] : entries_) all.push_back(entry);
  }
  for (const auto &entry : all) {
    std::lock_guard lock(entry->mutex);
    if (entry->stage) entry->stage->pools[0]->set_limit(count);
  }
}

/// Called with the entry's mutex held, which comes before mutex_.
Reason Variants::compile(std::span<const bm_shape_t> shapes, const Key &key, std::shared_ptr<const Stage> &out) {
  const TracedCall traced("compile");
  drm_npu_dev_info info;
  if (npu_device_info(card_.device, &info) != 0) return npu_last_error();
  std::vector<npu_compile_shape> wanted;
  Reason text;
  for (size_t i = 0; i < key.size(); ++i) {
    wanted.push_back({inputs_[i].name.c_str(), key[i].data(), static_cast<uint32_t>(key[i].size())});
    text += " " + shape_text(shapes[i]);
  }
  std::vector<uint8_t> file;
  Reason why = compile_network({source_.data(), source_.size(), network_.c_str(), info.lmem_bytes, wanted.data(),
                                static_cast<uint32_t>(wanted.size())},
                               file);
  if (!why.empty()) return "input shapes" + text + ": " + why;
  auto stage = std::make_shared<Stage>();
  why = load(file, *stage);
  if (!why.empty()) {  // perhaps the card is full of what was compiled before
    trim(0, key);
    *stage = {};
    why = load(file, *stage);
  }
  if (!why.empty()) return "input shapes" + text + ": " + why;
  std::lock_guard lock(mutex_);
  stage->pools[0]->set_limit(max_launches_);
  out = std::move(stage);
  return {};
}

Reason Variants::load(std::span<const uint8_t> file, Stage &stage) const {
  std::string error;
  const auto container = npu::bmodel::Container::from_memory(file.data(), file.size(), error);
  if (!container) return error;
  const Reason why = load_stage_alone(card_, *container, stage);
  if (!why.empty()) return why;
  if (!same_tensors(stage.inputs, inputs_) || !same_tensors(stage.outputs, outputs_))
    return "the network in the file has other tensors than its stages";
  return {};
}

/// Forgets what was used longest ago, but not `but`. What launches still use goes with them.
void Variants::trim(size_t most, const Key &but) {
  if (card_.tracing->on()) return;           // the trace names layers of all launches at its end
  std::vector<std::shared_ptr<Entry>> gone;  // waits for jobs, without the lock
  std::lock_guard lock(mutex_);
  while (entries_.size() > most) {
    auto oldest = entries_.end();
    for (auto it = entries_.begin(); it != entries_.end(); ++it)
      if (it->first != but && (oldest == entries_.end() || it->second->used < oldest->second->used)) oldest = it;
    if (oldest == entries_.end()) return;
    gone.push_back(std::move(oldest->second));
    entries_.erase(oldest);
  }
}

}  // namespace npurt
