// SPDX-License-Identifier: MIT
// A chip in virtual time as bytes, with the jobs that wait and run.
#include <algorithm>
#include <exception>
#include <functional>
#include <utility>

#include "qemu-device/model/src/archive.h"
#include "qemu-device/model/src/chip.h"

namespace npu::model {

namespace {

constexpr uint64_t kMagic = 0x50414e5355504e51u;  // "QNPUSNAP", lowest byte first
constexpr uint32_t kVersion = 6;                  // raised with each change of the state

struct Number {
  const char *name;
  uint64_t value;
};

/// What has to be the same in the chip that is loaded.
std::vector<Number> identity(const Config &c) {
  return {{"cores", c.cores},
          {"queues", c.queues},
          {"asids", c.asids},
          {"vectors", c.vectors},
          {"lmem_bytes", c.lmem_bytes},
          {"clock_khz", c.clock_khz},
          {"mac_ic", c.cost.mac_ic},
          {"mac_oc", c.cost.mac_oc},
          {"mac_pixels", c.cost.mac_pixels},
          {"lmem_bw", c.cost.lmem_bw},
          {"ew_lanes", c.cost.ew_lanes},
          {"tiu_fixed", c.cost.tiu_fixed},
          {"gdma_fixed", c.cost.gdma_fixed},
          {"ddr_latency", c.cost.ddr_latency},
          {"ddr_bw", c.cost.ddr_bw},
          {"rate_16", c.cost.rate_16},
          {"rate_8", c.cost.rate_8},
          {"ddr_bytes", c.ddr_bytes}};
}

std::string other(const char *what, uint64_t saved, uint64_t here) {
  return std::string("the snapshot is of a chip with ") + what + " " + std::to_string(saved) + ", this one has " +
         std::to_string(here);
}

/// Writes or compares what says whose snapshot it is.
std::string visit_identity(Archive &a, const Config &config) {
  uint64_t magic = kMagic;
  uint32_t version = kVersion;
  a(magic, version);
  if (magic != kMagic) return "this is no snapshot of a chip";
  if (version != kVersion) return other("state version", version, kVersion);
  for (const Number &n : identity(config)) {
    uint64_t value = n.value;
    a(value);
    if (value != n.value) return other(n.name, value, n.value);
  }
  return {};
}

}  // namespace

/// The cores that run the queue's job, a bit each.
uint32_t Chip::cores_of(const Queue &q) const {
  uint32_t mask = 0;
  for (unsigned c = 0; c < config_.cores; ++c) mask |= running_[c] == &q ? 1u << c : 0;
  return mask;
}

/// Flights are made anew for their jobs before they get their state.
void Chip::visit_flights(Archive &a) {
  uint32_t count = static_cast<uint32_t>(flights_.size());
  a(count);
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t queue = a.loading() ? 0 : flights_[i]->queue.index;
    uint32_t mask = a.loading() ? 0 : cores_of(flights_[i]->queue);
    a(queue, mask);
    if (a.loading()) {
      if (queue >= config_.queues || mask == 0 || mask >> config_.cores || (mask & ~queues_[queue]->cores))
        return a.refuse();
      Queue &q = *queues_[queue];
      std::vector<Core *> cores;
      for (unsigned c = 0; c < config_.cores; ++c) {
        if (!(mask >> c & 1)) continue;
        if (running_[c]) return a.refuse();
        running_[c] = &q;
        cores.push_back(cores_[c].get());
      }
      if (cores.size() != q.job.cores()) return a.refuse();
      flights_.push_back(
          std::make_unique<Flight>(Flight{q, std::make_unique<Run>(cores, q.job, q.index, q.stop, true, 0), 0}));
    }
    Flight &f = *flights_[i];
    a(f.base, f.state, f.fresh);
    f.run->visit_state(a);
  }
}

void Chip::visit_state(Archive &a) {
  a(enabled_, ecc_corrected_, ecc_uncorrected_, events_, mmu_, sensors_, board_.faults(), arbiter_, asked_);
  if (a.loading() && !arbiter_.sound()) return a.refuse();
  // The board's clock goes on where it was, or elsewhere: cycles are what counts.
  uint64_t passed = cycle_;
  a(dice_, cycles_, passed);
  cycle_ = passed;
  for (auto &q : queues_) {
    a(*q);
    if (a.loading() && q->cores >> config_.cores) return a.refuse();
  }
  std::vector<uint32_t> listed;
  list_.for_each([&](const Queue &q) { listed.push_back(q.index); });
  a(listed);
  if (a.loading()) {
    for (uint32_t index : listed) {
      if (index >= config_.queues || queues_[index]->listed) return a.refuse();
      queues_[index]->listed = true;
      list_.push(*queues_[index]);
    }
  }
  visit_flights(a);
  for (auto &core : cores_) a(*core);
  for (Busy &busy : busy_) a(busy);
}

std::string Chip::not_to_be_saved() const {
  if (!board_.has_clock()) return "a chip in host time cannot be saved: its board lends it no clock";
  if (resetting_) return "the chip is being reset, which a core holds up";
  for (const auto &f : flights_)
    if (f->queue.stop.load() != Stop::None)
      return "the job of queue " + std::to_string(f->queue.index) + " is being stopped: it cannot be saved";
  return {};
}

std::string Chip::save(std::vector<uint8_t> &bytes, const std::function<void(Archive &)> &more) {
  arrive();
  const Guard guard(*this);
  if (std::string why = not_to_be_saved(); !why.empty()) return why;
  Archive a;
  visit_identity(a, config_);
  visit_state(a);
  more(a);
  if (!a.sound()) return "a job runs under the race detector: it cannot be saved";
  bytes = a.take();
  return {};
}

std::string Chip::load(std::span<const uint8_t> bytes, const std::function<void(Archive &)> &more) {
  if (!board_.has_clock()) return "a chip in host time cannot be loaded: its board lends it no clock";
  arrive();
  reset();
  flights_.clear();
  std::string why;
  {
    const Guard guard(*this);
    if (resetting_) finish_reset();
    Archive a(bytes);
    why = visit_identity(a, config_);
    if (!why.empty()) return why;
    visit_state(a);
    more(a);
    if (a.sound()) return {};
    flights_.clear();
  }
  reset();
  return "the snapshot is damaged";
}

}  // namespace npu::model
