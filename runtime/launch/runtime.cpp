// SPDX-License-Identifier: MIT
#include "runtime.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <unordered_map>

#include "fault.h"

namespace npurt {

namespace {

uint64_t next_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

// By Runtime::id_. Entries of runtimes that are gone stay until their thread ends; nobody looks them up.
thread_local std::unordered_map<uint64_t, Launched> last_launches;

bool wants_verification() {
  const char *value = std::getenv("NPU_VERIFY_MODEL");
  return value && *value && std::string_view(value) != "0";
}

}  // namespace

Runtime::Runtime(bm_handle_t handle, npu_device *device, uint32_t cores)
    : id_(next_id()), handle_(handle), device_(device), cores_(cores) {}

Reason Runtime::create(bm_handle_t handle, std::unique_ptr<Runtime> &out) {
  npu_device *device;
  drm_npu_dev_info info;
  if (npu_bm_device(handle, &device) != 0 || npu_device_info(device, &info) != 0 || npu_bm_ref(handle) != 0)
    return npu_last_error();
  out.reset(new Runtime(handle, device, info.cores));
  return {};
}

Runtime::~Runtime() {
  last_launches.erase(id_);
  by_name_.clear();
  networks_.clear();  // each pool waits for its jobs
  npu_bm_unref(handle_);
}

/// No name twice, neither among `names` nor with what is loaded. Called with mutex_ held.
Reason Runtime::check_names(const std::vector<std::string> &names, const std::string &file) const {
  for (size_t i = 0; i < names.size(); ++i) {
    if (by_name_.contains(names[i])) return file + ": a network named '" + names[i] + "' is loaded already";
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i))
      return file + ": two of its networks are named '" + names[i] + "'";
  }
  return {};
}

Reason Runtime::load(const npu::bmodel::Container &container) {
  Reason why = npu::bmodel::check_chip(container);
  if (why.empty() && wants_verification()) why = container.verify_hashes();
  if (!why.empty()) return why;
  std::vector<std::string> names;
  for (const auto *net : *container.model().net()) names.push_back(net->name()->str());
  {
    std::shared_lock lock(mutex_);  // a first look, before anything is uploaded
    why = check_names(names, container.name());
    if (!why.empty()) return why;
  }
  std::vector<std::unique_ptr<Network>> loaded;
  for (const auto *net : *container.model().net()) {
    std::unique_ptr<Network> n;
    why = Network::load(device_, container, *net, n);
    if (!why.empty()) return why;
    loaded.push_back(std::move(n));
  }
  std::unique_lock lock(mutex_);
  why = check_names(names, container.name());
  if (!why.empty()) return why;
  for (auto &n : loaded) {
    for (const auto &stage : n->stages()) stage->pool->set_limit(max_launches_);
    by_name_.emplace(n->name(), n.get());
    networks_.push_back(std::move(n));
  }
  return {};
}

const Network *Runtime::find(const char *name, Reason &why) const {
  std::shared_lock lock(mutex_);
  const auto it = by_name_.find(std::string_view(name ? name : ""));
  if (it != by_name_.end()) return it->second;
  why = std::string("no network named '") + (name ? name : "(null)") + "' is loaded; there are:";
  for (const auto &n : networks_) why += " '" + n->name() + "'";
  if (networks_.empty()) why += " none";
  return nullptr;
}

std::vector<const Network *> Runtime::networks() const {
  std::shared_lock lock(mutex_);
  std::vector<const Network *> out;
  for (const auto &n : networks_) out.push_back(n.get());
  return out;
}

void Runtime::set_max_launches(int count) {
  std::unique_lock lock(mutex_);
  max_launches_ = count;
  for (const auto &n : networks_)
    for (const auto &stage : n->stages()) stage->pool->set_limit(count);
}

Launched &Runtime::last_launch() const { return last_launches[id_]; }

Reason Runtime::last_cycles(uint64_t *cycles) const {
  const Launched &launched = last_launch();
  if (!launched.context) return "this thread has launched nothing on this runtime";
  npu_result result{};
  if (npu_wait(launched.context, launched.main_seqno, 0, &result) != 0) return "the last launch is not finished";
  if (!result.known) return "the last launch is too long ago";
  if (result.error != 0) return fault_text(launched, result);
  *cycles = result.cycles;
  return {};
}

}  // namespace npurt
