// SPDX-License-Identifier: MIT
#include "core.h"

#include <exception>
#include <string>

#include "npu_cost.hpp"
#include "npu_isa.hpp"
#include "profile.h"
#include "stream.h"
#include "validate.h"

namespace npu::model {

namespace {

constexpr unsigned kEngines = 2;

/// What report_mismatch() said on the thread that runs the command; empty: nothing.
thread_local std::string mismatch;

}  // namespace

void report_mismatch(const char *text) { mismatch = text; }

void CoreCounters::reset() {
  for (auto *c : {&busy_cycles, &engine_cycles[0], &engine_cycles[1], &jobs, &job_id, &progress}) c->store(0);
  for (auto *c : {&queue, &retired[0], &retired[1]}) c->store(0);
}

/// One job on one core.
class Execution {
 public:
  Execution(Core &core, const Job &job, const std::atomic<Stop> &stop)
      : core_(core),
        job_(job),
        pace_{stop, core.counters_.progress},
        streams_{{job, NPU_ENGINE_TIU}, {job, NPU_ENGINE_GDMA}},
        replay_(core.config_.cost, 1),
        profile_(job, core.index_) {}

  JobResult run() {
    JobResult result;
    result.core = static_cast<uint8_t>(core_.index_);
    result.start_cycle = core_.counters_.busy_cycles.load(std::memory_order_relaxed);
    result.error = profile_.check();
    const bool profile = !result.error;
    if (!result.error) result.error = loop();
    result.cycles = replay_.now();
    for (unsigned e = 0; e < kEngines; ++e)
      if (replay_.busy(e)) engines_[e].cycles += replay_.now() - engines_[e].start;
    if (profile && pace_.stop.load() <= Stop::Aborted) {
      const Error late = profile_.write(core_.memory_, result.cycles);
      if (!result.error) result.error = late;
    }
    account(result.cycles);
    return result;
  }

 private:
  struct Engine {
    uint32_t begun = 0;
    uint32_t retired = 0;
    uint64_t budget = 0;  ///< uncontended cycles used
    uint64_t start = 0;   ///< of the command in progress
    uint64_t cycles = 0;  ///< at work
  };

  /// The replay of docs/hardware.md section 8.3: a command takes effect when it begins.
  Error loop() {
    for (const Stream &s : streams_)
      if (Error e = s.check()) return e;
    for (;;) {
      for (bool changed = true; changed;) {
        changed = retire();
        for (unsigned e = 0; e < kEngines; ++e) {
          bool begun = false;
          if (Error error = begin(e, begun)) return error;
          changed |= begun;
        }
      }
      if (!replay_.any_busy()) return deadlock();
      replay_.advance();
    }
  }

  bool retire() {
    bool any = false;
    for (unsigned e = 0; e < kEngines; ++e) {
      if (!replay_.retire(e)) continue;
      Engine &x = engines_[e];
      ++x.retired;
      x.cycles += replay_.now() - x.start;
      core_.counters_.retired[e].store(x.retired, std::memory_order_relaxed);
      core_.counters_.progress.fetch_add(1, std::memory_order_relaxed);
      profile_.retire(e, replay_.now());
      any = true;
    }
    return any;
  }

  /// Nothing runs any more: the end of the job, or engines that wait for commands that will not come.
  Error deadlock() const {
    for (unsigned e = 0; e < kEngines; ++e)
      if (engines_[e].begun != streams_[e].count()) return named(error(NPU_STATUS_DEADLOCK), e);
    return {};
  }

  /// Begins the engine's next command if it may.
  Error begin(unsigned e, bool &begun) {
    Engine &x = engines_[e];
    if (replay_.busy(e) || x.begun == streams_[e].count()) return {};
    if (pace_.stopped()) return stopped();
    if (Error error = streams_[e].seek(core_.memory_, x.begun)) return error;
    const Command &command = streams_[e].current();
    if (engines_[e ^ 1].retired < command.head().wait) return {};
    Operands operands;
    if (Error error = check_command(command, e, job_, core_.local_.size(), operands)) return named(error, e);
    const hw::CostParams &params = core_.config_.cost;
    const hw::Cost cost = hw::command_cost(command.bytes, e == NPU_ENGINE_GDMA, params);
    const uint64_t alone = hw::uncontended(cost, params);
    if (job_.header.budget && alone > job_.header.budget - x.budget) return named(error(NPU_STATUS_BUDGET), e);
    x.budget += job_.header.budget ? alone : 0;
    if (Error error = execute(command, operands)) return killed(error) ? error : named(error, e);
    profile_.begin(e, x.begun, command, cost, replay_.now());
    x.start = replay_.now();
    ++x.begun;
    replay_.begin(e, cost);
    begun = true;
    return {};
  }

  Error execute(const Command &command, const Operands &operands) {
    for (const Operand &o : operands.at)
      if (o.used && o.write && o.local()) core_.local_.dirty(o.offset + o.bytes);
    Outcome outcome;
    switch (command.head().opcode) {
      case NPU_OP_NOP:
        return {};
      case NPU_OP_COPY:
        outcome = core_.gdma_.copy(hw::decode<npu_cmd_copy>(command.bytes), operands, job_, pace_);
        break;
      case NPU_OP_FILL:
        outcome = core_.gdma_.fill(hw::decode<npu_cmd_fill>(command.bytes), operands, job_, pace_);
        break;
      default:
        mismatch.clear();
        outcome = core_.tiu_.run(command, operands, job_, pace_);
        if (!mismatch.empty()) {
          core_.board_.trace("mismatch", mismatch.c_str());
          return error(NPU_STATUS_INTERNAL);
        }
    }
    if (outcome.stopped) return stopped();
    return outcome.fault ? failed(outcome.fault, operands.at[outcome.operand]) : Error{};
  }

  /// A kill is nobody's fault: it names no command.
  static bool killed(const Error &e) { return e.status == NPU_STATUS_ABORTED || e.status == NPU_STATUS_CORE_RESET; }
  static Error error(uint16_t status) {
    Error e;
    e.status = status;
    return e;
  }
  Error stopped() const {
    return error(pace_.stop.load() == Stop::CoreReset ? NPU_STATUS_CORE_RESET : NPU_STATUS_ABORTED);
  }
  static Error failed(const Fault &fault, const Operand &o) {
    Error e = error(fault.status);
    e.region = o.region;
    e.offset = o.offset;
    e.bytes = saturate32(o.bytes);
    e.access = o.write ? NPU_ACCESS_WRITE : NPU_ACCESS_READ;
    e.fault_addr = fault.addr;
    return e;
  }
  /// Adds the engine and the command that it was about to begin.
  Error named(Error e, unsigned engine) const {
    e.engine = static_cast<uint8_t>(engine);
    e.command = engines_[engine].begun;
    return e;
  }

  void account(uint64_t cycles) {
    CoreCounters &c = core_.counters_;
    c.busy_cycles.fetch_add(cycles, std::memory_order_relaxed);
    for (unsigned e = 0; e < kEngines; ++e) c.engine_cycles[e].fetch_add(engines_[e].cycles, std::memory_order_relaxed);
    c.jobs.fetch_add(1, std::memory_order_relaxed);
  }

  Core &core_;
  const Job &job_;
  const Pace pace_;
  Stream streams_[kEngines];
  Engine engines_[kEngines];
  hw::Replay replay_;
  Profile profile_;
};

Core::Core(unsigned index, const Config &config, Mmu &mmu, const Board &board, Backend &backend)
    : index_(index),
      config_(config),
      board_(board),
      local_(config.lmem_bytes),
      memory_(config, mmu, board, index),
      gdma_(memory_, local_),
      tiu_(memory_, local_, backend) {}

JobResult Core::run(const Job &job, unsigned queue, const std::atomic<Stop> &stop) {
  counters_.job_id.store(job.id, std::memory_order_relaxed);
  counters_.queue.store(queue, std::memory_order_relaxed);
  for (auto &r : counters_.retired) r.store(0, std::memory_order_relaxed);
  local_.clear();
  memory_.set_asid(job.asid);
  JobResult result;
  try {
    result = Execution(*this, job, stop).run();
  } catch (const std::exception &) {
    // The host ran out of memory, or the arithmetic failed: this job's misfortune, not the chip's.
    result.core = static_cast<uint8_t>(index_);
    result.start_cycle = counters_.busy_cycles.load(std::memory_order_relaxed);
    result.error.status = NPU_STATUS_INTERNAL;
  }
  tiu_.trim();
  return result;
}

}  // namespace npu::model
