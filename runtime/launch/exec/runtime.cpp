// SPDX-License-Identifier: MIT
#include "runtime/launch/exec/runtime.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <unordered_map>

#include "runtime/launch/exec/fault.h"
#include "runtime/launch/exec/launch_check.h"
#include "runtime/launch/model/cascade.h"

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
  std::unordered_map<const void *, std::shared_ptr<Runtime::Calls>> runtimes;  // each with its calls; under mutex
  const Existing *parents = nullptr;  // of the process that this one was forked from: not used, and not lost
};

// Outlives the program's own static objects, which may destroy runtimes.
Existing *&current() {
  static auto *existing = new Existing;
  return existing;
}

// A child process has no part in its parent's devices, and another thread may have held any lock.
void in_child() {
  auto *const own = new Existing;
  own->parents = current();
  current() = own;
}

Existing &existing() {
  static const int registered = pthread_atfork(nullptr, nullptr, in_child);
  (void)registered;
  return *current();
}

/// Takes a runtime off the list; null if it was not there.
std::shared_ptr<Runtime::Calls> take(const void *runtime) {
  const std::unique_lock lock(existing().mutex);
  const auto it = existing().runtimes.find(runtime);
  if (it == existing().runtimes.end()) return nullptr;
  auto calls = std::move(it->second);
  existing().runtimes.erase(it);
  return calls;
}

Status reserve_stage(const Stage &stage) {
  for (const auto &pool : stage.pools) NPU_TRY(stage.with_needs(pool->reserve()));
  return {};
}

bool wants_verification() {
  const char *value = std::getenv("NPU_VERIFY_MODEL");
  return value && *value && std::string_view(value) != "0";
}

}  // namespace

Runtime::Runtime() : id_(next_id()) {
  auto calls = std::make_shared<Calls>(0);
  const std::unique_lock lock(existing().mutex);
  existing().runtimes.emplace(this, std::move(calls));
}

Runtime::Use::Use(const void *runtime) {
  const std::shared_lock lock(existing().mutex);
  const auto it = existing().runtimes.find(runtime);
  if (it == existing().runtimes.end()) return;
  calls_ = it->second;
  calls_->fetch_add(1, std::memory_order_relaxed);  // the lock orders it before take()
}

Runtime::Use::~Use() {
  if (calls_ && calls_->fetch_sub(1, std::memory_order_release) == 1) calls_->notify_all();
}

bool Runtime::destroy(void *runtime) {
  const auto calls = take(runtime);
  if (!calls) return false;
  for (int count; (count = calls->load(std::memory_order_acquire));) calls->wait(count, std::memory_order_acquire);
  delete static_cast<Runtime *>(runtime);
  return true;
}

bool Runtime::forked() { return existing().parents != nullptr; }

Status Runtime::create(std::span<const bm_handle_t> handles, std::unique_ptr<Runtime> &out) {
  std::unique_ptr<Runtime> r(new Runtime);
  for (size_t i = 0; i < handles.size(); ++i) {
    if (std::find(handles.begin(), handles.begin() + static_cast<std::ptrdiff_t>(i), handles[i]) !=
        handles.begin() + static_cast<std::ptrdiff_t>(i))
      return Status::error("handle " + std::to_string(i) + " is given twice");
    if (npu_bm_ref(handles[i]) != 0) return npu_error();
    Card &card = r->cards_.emplace_back();
    card.handle = handles[i];
    drm_npu_dev_info info;
    if (npu_bm_device(card.handle, &card.device) != 0 || npu_device_info(card.device, &info) != 0) return npu_error();
    card.cores = info.cores;
    card.tracing = std::make_unique<Tracing>(card.device);
    card.converter.reset(new Converter(card.device));
    card.shared_io = std::make_unique<SharedIo>();
  }
  out = std::move(r);
  return {};
}

Runtime::~Runtime() {
  (void)take(this);                                // one that could not be made; else it is off the list
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
Status Runtime::check_names(const std::vector<std::string> &names, const std::string &file) const {
  for (size_t i = 0; i < names.size(); ++i) {
    if (by_name_.contains(names[i]))
      return Status::error(file + ": a network named '" + names[i] + "' is loaded already");
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i))
      return Status::error(file + ": two of its networks are named '" + names[i] + "'");
  }
  return {};
}

Status Runtime::load(const npu::bmodel::Container &container, const mem_info_t *memory) {
  NPU_TRY(npu::bmodel::check_chip(container));
  if (wants_verification() || flags & BM_RUNTIME_CHECK_MEM) NPU_TRY(container.verify_hashes());
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
    NPU_TRY(check_names(names, container.name()));
  }
  UserMemory user;
  NPU_TRY(UserMemory::find(cards_, container, memory, user).within(container.name()));
  std::vector<std::unique_ptr<Network>> loaded;
  for (size_t i = 0; i < nets.size(); ++i) {
    std::unique_ptr<Network> n;
    NPU_TRY(Network::load(cards_, container, names[i], nets[i], user, n));
    loaded.push_back(std::move(n));
  }
  std::unique_lock lock(mutex_);
  NPU_TRY(check_names(names, container.name()));
  for (auto &n : loaded) {
    n->set_max_launches(max_launches_);
    by_name_.emplace(n->name(), n.get());
    networks_.push_back(std::move(n));
  }
  return {};
}

Status Runtime::find(const char *name, const Network *&net) const {
  std::shared_lock lock(mutex_);
  const auto it = by_name_.find(std::string_view(name ? name : ""));
  if (it != by_name_.end()) {
    net = it->second;
    return {};
  }
  std::string text = std::string("no network named '") + (name ? name : "(null)") + "' is loaded; there are:";
  for (const auto &n : networks_) text += " '" + n->name() + "'";
  return Status::error(networks_.empty() ? text + " none" : text);
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

Status Runtime::reserve(const char *name, int stage, std::span<const int> cores) const {
  const Network *net;
  NPU_TRY(find(name, net));
  const auto stages = static_cast<int>(net->stages().size());
  if (stage != kAllStages && (stage < 0 || stage >= stages))
    return Status::error("network '" + net->name() + "' has stages 0 to " + std::to_string(stages - 1) + ", not " +
                         std::to_string(stage));
  uint32_t mask;
  const std::string where = "network '" + net->name() + "'";
  NPU_TRY(choose_cores(*net, cores, cards_[0].cores, mask).within(where));
  for (int s = 0; s < stages; ++s)
    if (stage == kAllStages || s == stage) NPU_TRY(reserve_stage(*net->stages()[static_cast<size_t>(s)]).within(where));
  return {};
}

Status Runtime::use_scratch(const mem_info_t &memory) const {
  uint64_t need = 0;
  std::vector<Pool *> pools;
  for (const Network *net : networks())
    for (const auto &stage : net->stages()) {
      pools.push_back(stage->pools[0].get());
      need = std::max(need, pools.back()->ctx_bytes());
    }
  std::shared_ptr<SharedScratch> scratch;
  NPU_TRY(UserMemory::find_activations(cards_, memory.neuron_mem, need, scratch));
  for (Pool *pool : pools) pool->use_shared(scratch);
  return {};
}

Launched &Runtime::last_launch() const { return last_launches[id_]; }

Status Runtime::last_cycles(uint64_t *cycles) const {
  const Launched &launched = last_launch();
  if (!launched.network) return Status::error("this thread has launched nothing on this runtime");
  const auto stage = launched.stage.lock();  // a variant's may be gone
  uint64_t sum = 0;
  for (const LaunchedJob &job : launched.jobs) {
    if (job.copy) continue;
    npu_result result{};
    if (npu_wait(job.context, job.seqno, 0, &result) != 0) return Status::error("the last launch is not finished");
    if (!result.known || !stage) return Status::error("the last launch is too long ago");
    if (result.error != 0) return fault_text(job.unit, result).within("network '" + launched.network->name() + "'");
    sum += result.cycles;
  }
  *cycles = sum;
  return {};
}

}  // namespace npurt
