// SPDX-License-Identifier: MIT
#include "runtime/launch/model/variants.h"

#include <algorithm>

#include "runtime/launch/model/card.h"
#include "runtime/launch/model/compiler.h"
#include "runtime/launch/model/network.h"

namespace npurt {

namespace {

std::vector<npu_compile_type> types_of(const std::vector<TensorInfo> &tensors) {
  std::vector<npu_compile_type> out;
  for (const TensorInfo &t : tensors) out.push_back({t.name.c_str(), static_cast<uint32_t>(t.dtype)});
  return out;
}

}  // namespace

Status Variants::find(std::span<const bm_shape_t> shapes, std::shared_ptr<const Stage> &out) {
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
  Status compiled;
  {
    std::lock_guard lock(entry->mutex);
    if (!entry->stage) compiled = compile(shapes, key, entry->stage);
    out = entry->stage;
  }
  trim(kMost, {});
  return compiled.within("network '" + network_ + "'");
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
Status Variants::compile(std::span<const bm_shape_t> shapes, const Key &key, std::shared_ptr<const Stage> &out) {
  const TracedCall traced("compile");
  drm_npu_dev_info info;
  if (npu_device_info(card_.device, &info) != 0) return npu_error();
  std::vector<npu_compile_shape> wanted;
  std::string text = "input shapes";
  for (size_t i = 0; i < key.size(); ++i) {
    wanted.push_back({inputs_[i].name.c_str(), key[i].data(), static_cast<uint32_t>(key[i].size())});
    text += " " + shape_text(shapes[i]);
  }
  const std::vector<npu_compile_type> in = types_of(inputs_), out_types = types_of(outputs_);
  std::vector<uint8_t> file;
  NPU_TRY(compile_network({source_.data(), source_.size(), network_.c_str(), info.lmem_bytes, wanted.data(),
                           static_cast<uint32_t>(wanted.size()), static_cast<uint32_t>(in.size()),
                           static_cast<uint32_t>(out_types.size()), in.data(), out_types.data()},
                          file)
              .within(text));
  auto stage = std::make_shared<Stage>();
  if (!load(file, *stage).ok()) {  // perhaps the card is full of what was compiled before
    trim(0, key);
    *stage = {};
    NPU_TRY(load(file, *stage).within(text));
  }
  std::lock_guard lock(mutex_);
  stage->pools[0]->set_limit(max_launches_);
  out = std::move(stage);
  return {};
}

Status Variants::load(std::span<const uint8_t> file, Stage &stage) const {
  std::unique_ptr<npu::bmodel::Container> container;
  NPU_TRY(npu::bmodel::Container::from_memory(file.data(), file.size(), container));
  NPU_TRY(load_stage_alone(card_, *container, stage));
  if (!same_tensors(stage.inputs, inputs_) || !same_tensors(stage.outputs, outputs_))
    return Status::error("the network in the file has other tensors than its stages");
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
