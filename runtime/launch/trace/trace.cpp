// SPDX-License-Identifier: MIT
#include "runtime/launch/trace/trace.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <string_view>

#include "npu_bm_internal.h"
#include "npu_isa.hpp"
#include "npu_regs.h"
#include "runtime/launch/trace/trace_file.h"

namespace npurt {

namespace {

// Groups of tracks; cards are numbered from kCard on, and in cycles from kCycles on.
constexpr int64_t kHost = 1, kCard = 1000, kCycles = 2000;
constexpr int64_t kTracksPerCore = 4;  // jobs, then one for each engine
constexpr size_t kMaxPending = 256;

/// A launch whose job may be unfinished.
struct Pending {
  npu_device *device;
  Traced what;
  npu_context *context;
  uint64_t seqno;
  Bo profile;
  double submitting, submitted;  ///< begin and end of the submission
  Track from;
};

/// A card's number and, for each core, when it is free again.
struct Lane {
  int64_t number;
  bool exact;           ///< the card's modelled time is the system's: NPU_FEATURE_VIRTUAL_TIME
  double us_per_cycle;  ///< at the nominal clock
  std::map<unsigned, double> free_at;
  std::map<unsigned, uint64_t> free_cycle;  ///< the same in the view by cycles
};

/// When a job begins and how long its cycles are, microseconds.
struct Placed {
  double start;
  double us_per_cycle;
};

/// A view of a card's jobs: by time, or by cycles, of which a microsecond in the file stands for one.
struct View {
  int64_t process;
  const char *suffix;  ///< of its tracks' names
  Placed placed;

  double at(uint64_t cycle) const { return placed.start + static_cast<double>(cycle) * placed.us_per_cycle; }
};

/// Where the cores of a job stand among those that it has.
using Cores = std::map<unsigned, size_t>;

/// The process's trace.
class Trace {
 public:
  static Status open(std::unique_ptr<Trace> &out);
  void call(const char *name, double begin, double end);
  void add(Pending pending);
  /// Waits for all launches and writes them.
  void drain();
  double microseconds(int64_t ns) const { return static_cast<double>(ns - start_ns_) / 1e3; }
  Track this_thread();

 private:
  Trace() = default;
  void collect(size_t keep);
  void write(const Pending &p, const npu_result &result);
  void write_job(const Pending &p, const View &view, const Cores &cores, const npu_profile_header &header,
                 const std::vector<npu_profile> &records, const std::string &args);
  void write_record(const Pending &p, const View &view, size_t stream, const npu_profile &r);
  void write_counters(const Pending &p, const View &view, const Cores &cores, const std::vector<npu_profile> &records);
  Placed place(const Pending &p, const Lane &card, const npu_profile_header &header, const Cores &cores) const;
  Lane &card_of(npu_device *device);
  Track track(const View &view, unsigned core, int64_t row);

  int64_t start_ns_ = trace_now_ns();
  std::unique_ptr<TraceFile> file_;
  std::mutex mutex_;             // guards what follows
  std::deque<Pending> pending_;  // in the order of submission
  std::map<npu_device *, Lane> cards_;
  uint64_t launches_ = 0;
};

std::mutex users_mutex;
unsigned users;                // guarded by users_mutex
unsigned traces;               // opened so far, guarded by users_mutex
std::unique_ptr<Trace> owner;  // guarded by users_mutex
std::atomic<bool> active{false};
std::mutex calls_mutex;  // held while a call is written: the trace may not go meanwhile
Trace *current_trace;    // guarded by calls_mutex

bool wanted() {
  const char *value = std::getenv("BMRUNTIME_ENABLE_PROFILE");
  return value && *value && std::string_view(value) != "0";
}

std::string path_of(unsigned number) {
  const char *value = std::getenv("BMRUNTIME_PROFILE_FILE");
  const std::string path = value && *value ? value : "bmrt_trace_" + std::to_string(getpid()) + ".json";
  return number ? path + "." + std::to_string(number) : path;
}

std::string opcode_name(uint8_t opcode) {
  const npu::hw::Command *const command = npu::hw::find_command(opcode);
  return command ? std::string(command->name) : "command";
}

std::string member(const char *name, uint64_t value) { return '"' + std::string(name) + "\":" + std::to_string(value); }

Status Trace::open(std::unique_ptr<Trace> &out) {
  std::unique_ptr<Trace> trace(new Trace);
  NPU_TRY(TraceFile::create(path_of(traces), trace->file_));
  out = std::move(trace);
  return {};
}

Track Trace::this_thread() {
  const Track t{kHost, gettid()};
  file_->name(t, "host", "thread " + std::to_string(t.thread));
  return t;
}

/// Of a call of the host.
const char *category_of(std::string_view name) {
  if (name == "submit") return "submit";
  if (name.starts_with("copy")) return "copy";
  return name.find("sync") != name.npos ? "wait" : "call";
}

void Trace::call(const char *name, double begin, double end) {
  file_->slice(this_thread(), category_of(name), name, begin, end, "");
}

void Trace::add(Pending pending) {
  std::lock_guard lock(mutex_);
  pending_.push_back(std::move(pending));
  collect(kMaxPending);
}

void Trace::drain() {
  std::lock_guard lock(mutex_);
  collect(0);
}

/// Writes what is finished, in the order of submission, and waits for the oldest while there are more than `keep`.
/// Called with mutex_ held.
void Trace::collect(size_t keep) {
  while (!pending_.empty()) {
    const Pending &p = pending_.front();
    npu_result result{};
    if (npu_wait(p.context, p.seqno, pending_.size() > keep ? -1 : 0, &result) == -ETIME) return;
    write(p, result);
    pending_.pop_front();
  }
}

Lane &Trace::card_of(npu_device *device) {
  const auto [at, is_new] = cards_.try_emplace(device);
  if (is_new) {
    drm_npu_dev_info info{};
    npu_device_info(device, &info);
    at->second.number = kCard + static_cast<int64_t>(cards_.size()) - 1;
    at->second.exact = info.features & NPU_FEATURE_VIRTUAL_TIME;
    at->second.us_per_cycle = info.clock_khz ? 1e3 / info.clock_khz : 1e-3;
  }
  return at->second;
}

Track Trace::track(const View &view, unsigned core, int64_t row) {
  static constexpr const char *kRows[] = {"jobs", "TIU", "GDMA"};
  const Track t{view.process, core * kTracksPerCore + row};
  const bool cycles = view.process >= kCycles;
  const int64_t number = view.process - (cycles ? kCycles : kCard);
  file_->name(t, "NPU " + std::to_string(number) + view.suffix,
              "core " + std::to_string(core) + " " + kRows[row] + (cycles ? " by cycles" : ""));
  return t;
}

/// In exact time where the card says that it was; else behind its submission and the jobs before it.
Placed Trace::place(const Pending &p, const Lane &card, const npu_profile_header &header, const Cores &cores) const {
  drm_npu_time_info clocks{};
  if (card.exact && npu_device_time(p.device, &clocks) == 0) {
    const auto ns = static_cast<int64_t>(clocks.monotonic_ns - clocks.card_ns + header.begin_ns);
    const double us = static_cast<double>(header.end_ns - header.begin_ns) / 1e3;
    return {microseconds(ns), header.cycles ? us / static_cast<double>(header.cycles) : 0};
  }
  double start = p.submitted;
  for (const auto &[core, stream] : cores) {
    const auto free_at = card.free_at.find(core);
    if (free_at != card.free_at.end()) start = std::max(start, free_at->second);
  }
  return {start, card.us_per_cycle};
}

/// Called with mutex_ held.
void Trace::write(const Pending &p, const npu_result &result) {
  npu_profile_header header{};
  std::vector<npu_profile> records;
  if (npu_read(p.profile.get(), 0, &header, sizeof header) != 0) return;
  const uint64_t room = (npu_bo_size(p.profile.get()) - sizeof header) / sizeof(npu_profile);
  records.resize(std::min<uint64_t>(header.records, room));
  if (!records.empty() &&
      npu_read(p.profile.get(), sizeof header, records.data(), records.size() * sizeof records[0]) != 0)
    return;
  Lane &card = card_of(p.device);
  Cores cores;
  for (const npu_profile &r : records) cores[r.core] = 0;
  size_t stream = 0;
  for (auto &[core, place] : cores) place = stream++;
  const std::string args =
      member("launch", ++launches_) + "," + member("cycles", header.cycles) +
      ",\"inputs\":" + json_string(p.what.inputs) + ",\"outputs\":" + json_string(p.what.outputs) +
      (result.known && result.error ? ",\"error\":" + json_string(std::strerror(-result.error)) : "");
  const View by_time{card.number, card.exact ? "" : ", modelled time", place(p, card, header, cores)};
  uint64_t first = 0;
  for (const auto &[core, place] : cores) first = std::max(first, card.free_cycle[core]);
  const View by_cycles{card.number - kCard + kCycles, ", cycles (1 us is 1 cycle)", {static_cast<double>(first), 1}};
  for (const View &view : {by_time, by_cycles}) write_job(p, view, cores, header, records, args);
  for (const auto &[core, place] : cores) {
    card.free_at[core] = by_time.at(header.cycles);
    card.free_cycle[core] = first + header.cycles;
  }
  if (!cores.empty())
    file_->arrow(launches_, p.from, p.submitting, track(by_time, cores.begin()->first, 0), by_time.placed.start);
}

void Trace::write_job(const Pending &p, const View &view, const Cores &cores, const npu_profile_header &header,
                      const std::vector<npu_profile> &records, const std::string &args) {
  for (const auto &[core, stream] : cores)
    file_->slice(track(view, core, 0), "launch", p.what.network, view.at(0), view.at(header.cycles), args);
  for (const npu_profile &r : records) write_record(p, view, cores.at(r.core), r);
  write_counters(p, view, cores, records);
}

void Trace::write_record(const Pending &p, const View &view, size_t stream, const npu_profile &r) {
  const auto &layers = p.what.layers;
  const std::string name = r.layer < layers.size() ? layers[r.layer] : opcode_name(r.opcode);
  std::string args = "\"command\":\"" + opcode_name(r.opcode) + "\"," + member("index", r.command) + "," +
                     member("cycles", r.end - r.start) + "," + member("bytes", r.bytes);
  if (r.macs) args += "," + member("macs", r.macs);
  if (const uint8_t *const command = p.what.code.find(stream, r)) {
    const std::string shape = command_shape(command), types = command_types(command);
    if (!shape.empty()) args += ",\"shape\":" + json_string(shape);
    if (!types.empty()) args += ",\"types\":" + json_string(types);
  }
  const bool gdma = r.engine == NPU_ENGINE_GDMA;
  const char *const category = r.opcode == NPU_OP_SEM_SIGNAL || r.opcode == NPU_OP_SEM_WAIT ? "synchronize"
                               : gdma                                                       ? "transfer"
                                                                                            : "compute";
  file_->slice(track(view, r.core, gdma ? 2 : 1), category, name, view.at(r.start), view.at(r.end), args);
}

/// A quantity that commands of a core have while they run, as steps over its cycles.
class Steps {
 public:
  void add(const npu_profile &r, double value) {
    at_[r.start][r.engine] = value;
    at_[r.end].try_emplace(r.engine, 0);  // unless the next one begins then
  }
  /// Calls f(cycle, sum of both engines) where that changes.
  template <class F>
  void visit(F f) const {
    std::map<uint8_t, double> now;
    double last = 0;
    for (const auto &[cycle, changes] : at_) {
      double sum = 0;
      for (const auto &[engine, value] : changes) now[engine] = value;
      for (const auto &[engine, value] : now) sum += value;
      if (sum != last) f(cycle, sum);
      last = sum;
    }
  }

 private:
  std::map<uint64_t, std::map<uint8_t, double>> at_;  // by cycle and engine
};

/// How much of the arithmetic is in use, and how many bytes move from and to memory, on the average of each command.
void Trace::write_counters(const Pending &p, const View &view, const Cores &cores,
                           const std::vector<npu_profile> &records) {
  for (const auto &[core, stream] : cores) {
    Steps macs, bytes;
    for (const npu_profile &r : records) {
      if (r.core != core || r.end == r.start) continue;
      const double cycles = static_cast<double>(r.end - r.start);
      const uint8_t *const command = p.what.code.find(stream, r);
      const double most = command ? most_macs(command) : 0;
      macs.add(r, most > 0 ? 100 * static_cast<double>(r.macs) / (cycles * most) : 0);
      bytes.add(r, static_cast<double>(r.bytes) / cycles);
    }
    const std::string name = "core " + std::to_string(core);
    macs.visit([&](uint64_t cycle, double value) {
      file_->counter(view.process, name + " MAC use", "percent", view.at(cycle), value);
    });
    bytes.visit([&](uint64_t cycle, double value) {
      file_->counter(view.process, name + " memory", "bytes per cycle", view.at(cycle), value);
    });
  }
}

void write_call(const char *name, int64_t begin_ns, int64_t end_ns) {
  std::lock_guard lock(calls_mutex);
  if (current_trace)
    current_trace->call(name, current_trace->microseconds(begin_ns), current_trace->microseconds(end_ns));
}

}  // namespace

bool is_traced() { return active.load(std::memory_order_relaxed); }

int64_t trace_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Tracing::Tracing(npu_device *device) : device_(device) {
  if (!wanted()) return;
  std::lock_guard lock(users_mutex);
  if (users == 0) {
    if (!report("BMRUNTIME_ENABLE_PROFILE", Trace::open(owner))) return;
    ++traces;
    std::lock_guard calls(calls_mutex);
    current_trace = owner.get();
    active = true;
    npu_bm_set_trace(write_call);
  }
  ++users;
  on_ = true;
}

Tracing::~Tracing() {
  if (!on_) return;
  std::lock_guard lock(users_mutex);
  owner->drain();
  if (--users) return;
  npu_bm_set_trace(nullptr);
  std::lock_guard calls(calls_mutex);
  active = false;
  current_trace = nullptr;
  owner.reset();
}

Status Tracing::attach(uint64_t commands, std::vector<npu_job_region> &regions, npu_job_desc &job, Bo &profile) const {
  const uint64_t bytes = sizeof(npu_profile_header) + commands * sizeof(npu_profile);
  npu_bo *bo;
  if (npu_bo_create(device_, bytes, DRM_NPU_BO_SYSTEM, &bo) != 0) return npu_error().within("memory for its profile");
  profile.reset(bo);
  job.profile_region = job.region_count;
  job.profile_bytes = static_cast<uint32_t>(bytes);
  regions.push_back({bo, 0, npu_bo_size(bo), DRM_NPU_REGION_WRITE, 0});
  job.regions = regions.data();
  job.region_count = static_cast<uint32_t>(regions.size());
  return {};
}

void Tracing::launched(const Traced &what, npu_context *context, uint64_t seqno, Bo profile, int64_t submit_ns) {
  const double begin = owner->microseconds(submit_ns), end = owner->microseconds(trace_now_ns());
  const Track from = owner->this_thread();
  owner->call("submit", begin, end);
  owner->add({device_, what, context, seqno, std::move(profile), begin, end, from});
}

TracedCall::TracedCall(const char *name)
    : name_(name), begin_ns_(active.load(std::memory_order_relaxed) ? trace_now_ns() : 0) {}

TracedCall::~TracedCall() {
  if (begin_ns_) write_call(name_, begin_ns_, trace_now_ns());
}

}  // namespace npurt
