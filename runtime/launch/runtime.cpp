// SPDX-License-Identifier: MIT
#include "runtime.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "cascade.h"
#include "fault.h"
#include "launch_check.h"

namespace npurt {

namespace {

uint64_t next_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

// By Runtime::id_. Entries of runtimes that are gone stay until their thread ends; nobody looks them up.
thread_local std::unordered_map<uint64_t, Launched> last_launches;

/// The runtimes that there are: programs free memory by a runtime that they have destroyed before.
struct Existing {
  std::shared_mutex mutex;
  std::unordered_set<const void *> runtimes;  // under mutex
};

Existing &existing() {
  static auto *const all = new Existing;  // outlives the program's own static objects, which may destroy runtimes
  return *all;
}

bool wants_verification() {
  const char *value = std::getenv("NPU_VERIFY_MODEL");
  return value && *value && std::string_view(value) != "0";
}

}  // namespace

Runtime::Runtime() : id_(next_id()) {
  const std::unique_lock lock(existing().mutex);
  existing().runtimes.insert(this);
}

bool Runtime::exists(const void *runtime) {
  const std::shared_lock lock(existing().mutex);
  return existing().runtimes.contains(runtime);
}

Reason Runtime::create(std::span<const bm_handle_t> handles, std::unique_ptr<Runtime> &out) {
  std::unique_ptr<Runtime> r(new Runtime);
  for (size_t i = 0; i < handles.size(); ++i) {
    if (std::find(handles.begin(), handles.begin() + static_cast<std::ptrdiff_t>(i), handles[i]) !=
        handles.begin() + static_cast<std::ptrdiff_t>(i))
      return "handle " + std::to_string(i) + " is given twice";
    if (npu_bm_ref(handles[i]) != 0) return npu_last_error();
    Card &card = r->cards_.emplace_back();
    card.handle = handles[i];
    drm_npu_dev_info info;
    if (npu_bm_device(card.handle, &card.device) != 0 || npu_device_info(card.device, &info) != 0)
      return npu_last_error();
    card.cores = info.cores;
    card.tracing = std::make_unique<Tracing>(card.device);
    card.converter = std::make_unique<Converter>(card.device);
    card.shared_io = std::make_unique<SharedIo>();
  }
  out = std::move(r);
  return {};
}

Runtime::~Runtime() {
  {
    const std::unique_lock lock(existing().mutex);
    existing().runtimes.erase(this);
  }
  for (Card &card : cards_) card.tracing.reset();  // reads the profiles of this runtime's launches
  last_launches.erase(id_);
  by_name_.clear();
  networks_.clear();  // each pool waits for its jobs
  for (Card &card : cards_) {
    card.converter.reset();
    npu_bm_unref(card.handle);
  }
  if (owns_handle_) bm_dev_free(handle());
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

Reason Runtime::load(const npu::bmodel::Container &container, const mem_info_t *memory) {
  Reason why = npu::bmodel::check_chip(container);
  if (why.empty() && (wants_verification() || flags & BM_RUNTIME_CHECK_MEM)) why = container.verify_hashes();
  if (!why.empty()) return why;
  std::vector<std::string> names;
  std::vector<Nets> nets;  // of each name: one, or the steps of a distributed network
  for (const auto *net : *container.model().net()) {
    const std::string name = npu::bmodel::is_step(*net) ? net->cascade()->main_name()->str() : net->name()->str();
    const auto known = std::find(names.begin(), names.end(), name);
    const auto at = static_cast<size_t>(known - names.begin());
    if (npu::bmodel::is_step(*net) && known != names.end() && npu::bmodel::is_step(*nets[at][0])) {
      nets[at].push_back(net);
      continue;
    }
    names.push_back(name);
    nets.push_back({net});
  }
  {
    std::shared_lock lock(mutex_);  // a first look, before anything is uploaded
    why = check_names(names, container.name());
    if (!why.empty()) return why;
  }
  Given given;
  why = Given::find(cards_, container, memory, given);
  if (!why.empty()) return container.name() + ": " + why;
  std::vector<std::unique_ptr<Network>> loaded;
  for (size_t i = 0; i < nets.size(); ++i) {
    std::unique_ptr<Network> n;
    why = Network::load(cards_, container, names[i], nets[i], given, n);
    if (!why.empty()) return why;
    loaded.push_back(std::move(n));
  }
  std::unique_lock lock(mutex_);
  why = check_names(names, container.name());
  if (!why.empty()) return why;
  for (auto &n : loaded) {
    n->set_max_launches(max_launches_);
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
  for (const auto &n : networks_) n->set_max_launches(count);
}

Reason Runtime::reserve(const char *name, int stage, std::span<const int> cores) const {
  Reason why;
  const Network *net = find(name, why);
  if (!net) return why;
  const auto stages = static_cast<int>(net->stages().size());
  if (stage != kAllStages && (stage < 0 || stage >= stages))
    return "network '" + net->name() + "' has stages 0 to " + std::to_string(stages - 1) + ", not " +
           std::to_string(stage);
  uint32_t mask;
  why = choose_cores(*net, cores, cards_[0].cores, mask);
  for (int s = 0; s < stages && why.empty(); ++s)
    if (stage == kAllStages || s == stage)
      for (const auto &pool : net->stages()[static_cast<size_t>(s)]->pools)
        if (why.empty()) why = pool->reserve();
  return why.empty() ? why : "network '" + net->name() + "': " + why;
}

Reason Runtime::lend(const mem_info_t &memory) const {
  uint64_t need = 0;
  std::vector<Pool *> pools;
  for (const Network *net : networks())
    for (const auto &stage : net->stages()) {
      pools.push_back(stage->pools[0].get());
      need = std::max(need, pools.back()->ctx_bytes());
    }
  std::shared_ptr<Lent> lent;
  const Reason why = Given::find_activations(cards_, memory.neuron_mem, need, lent);
  for (Pool *pool : pools) pool->lend(lent);
  return why;
}

Launched &Runtime::last_launch() const { return last_launches[id_]; }

Reason Runtime::last_cycles(uint64_t *cycles) const {
  const Launched &launched = last_launch();
  if (!launched.network) return "this thread has launched nothing on this runtime";
  const auto stage = launched.stage.lock();  // a variant's may be gone
  uint64_t sum = 0;
  for (const LaunchedJob &job : launched.jobs) {
    if (job.copy) continue;
    npu_result result{};
    if (npu_wait(job.context, job.seqno, 0, &result) != 0) return "the last launch is not finished";
    if (!result.known || !stage) return "the last launch is too long ago";
    if (result.error != 0) return fault_text(*launched.network, *job.unit, result);
    sum += result.cycles;
  }
  *cycles = sum;
  return {};
}

}  // namespace npurt
