// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/core.h"

#include <algorithm>
#include <array>
#include <deque>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "npu_cost.hpp"
#include "npu_isa.hpp"
#include "qemu-device/model/src/profile.h"
#include "qemu-device/model/src/races.h"
#include "qemu-device/model/src/stream.h"
#include "qemu-device/model/src/validate.h"

namespace npu::model {

namespace {

constexpr unsigned kEngines = 2;
constexpr uint64_t kStepCycles = 32768;      // between two steps of a command, docs/reference/hardware.md section 8.4
constexpr uint64_t kStepsAhead = 64;         // of a command that takes longer, before it retires
constexpr uint64_t kProgressCycles = 65536;  // at work that count as progress, docs/reference/hardware.md section 8.4
constexpr uint64_t kBegunAhead = 256;        // commands of a crew that have begun and not taken effect

/// What report_mismatch() said on the thread that runs the command; empty: nothing.
thread_local std::string mismatch;

}  // namespace

void report_mismatch(const char *text) { mismatch = text; }

void CoreCounters::reset() {
  for (auto *c : {&busy_cycles, &engine_cycles[0], &engine_cycles[1], &jobs, &job_id, &progress}) c->store(0);
  for (auto *c : {&queue, &retired[0], &retired[1]}) c->store(0);
}

/// A core's part in a job: its two streams, and how far they are.
class Lane {
 public:
  Lane(Core &core, const Job &job, unsigned place, const std::atomic<Stop> &stop, bool watched)
      : core_(core),
        job_(job),
        stop_(stop),
        watched_(watched),
        streams_{{job, place, NPU_ENGINE_TIU}, {job, place, NPU_ENGINE_GDMA}} {}

  struct Engine {
    uint32_t begun = 0;
    uint32_t retired = 0;
    uint64_t budget = 0;   ///< uncontended cycles used
    uint64_t start = 0;    ///< of the command in progress
    uint64_t step = 0;     ///< it takes its next step then; only while it is parked()
    uint64_t stride = 0;   ///< cycles between two of them
    uint64_t steps = 0;    ///< it has taken so many
    bool repeats = false;  ///< it was parked when the chip was saved, and no fiber knows it yet
    uint64_t since = 0;    ///< the command in progress, if there is one, has been counted in `cycles` up to here
    uint64_t cycles = 0;   ///< at work
    uint64_t told = 0;     ///< of these, in the core's counter
    bool signals = false;  ///< the command in progress is a SEM_SIGNAL
    uint32_t sem = 0, value = 0;
    Error error;        ///< of the command in progress
    uint64_t mark = 0;  ///< of it in the crew, if there is one
  };

  uint8_t core() const { return static_cast<uint8_t>(core_.index_); }
  Engine &engine(unsigned e) { return engines_[e]; }
  const Engine &engine(unsigned e) const { return engines_[e]; }
  bool finished(unsigned e) const { return engines_[e].begun == streams_[e].count(); }
  bool stopped() const { return pace().stopped(); }
  Memory &memory() { return core_.memory_; }
  /// Large buffers of the calling thread go back to the host.
  void trim_thread() { core_.tiu_.trim_thread(); }

  Error check_streams() const {
    for (const Stream &s : streams_)
      if (Error e = s.check()) return e;
    return {};
  }

  /// Finds the engine's next command; its `wait` is not looked at.
  Error seek(unsigned e, const Command *&command) {
    if (Error error = streams_[e].seek(core_.fetches_, engines_[e].begun)) return error;
    command = &streams_[e].current();
    return {};
  }
  bool waits(unsigned e, const Command &command) const { return engines_[e ^ 1].retired < command.head().wait; }
  Error check(unsigned e, const Command &command, Operands &operands) const {
    return check_command(command, e, job_, core_.local_.size(), operands);
  }

  /// Runs a command that begins now and takes `alone` cycles where nothing contends with it. While somebody watches, a
  /// long one goes on in steps of its own: see parked().
  Error execute(unsigned e, const Command &command, const Operands &operands, uint64_t now, uint64_t alone) {
    Engine &x = engines_[e];
    x.error = {};
    if (!watched_) return x.error = outcome(perform(e, x.begun, command, operands, pace()));
    x.start = now;
    x.stride = std::max(kStepCycles, alone / kStepsAhead);
    x.step = now + x.stride;
    start(e, command, operands, 0);
    return x.error = outcome(x.error);
  }
  /// Runs a command at any time after it has begun, on any thread. It stops, as if killed, once one that began before
  /// it has failed.
  Error execute_late(unsigned e, uint32_t index, const Command &command, const Operands &operands, uint64_t sequence,
                     const std::atomic<uint64_t> &failed) {
    Pace pace = this->pace();
    pace.failed = &failed;
    pace.sequence = sequence;
    Error error;
    try {
      error = outcome(perform(e, index, command, operands, pace));
    } catch (const std::exception &) {
      error = Lane::error(NPU_STATUS_INTERNAL);
    }
    count_retired(e, error ? index : index + 1);
    return error;
  }
  /// Is a command of the engine still taking effect?
  bool parked(unsigned e) const { return core_.fibers_[e].parked() || engines_[e].repeats; }
  /// Takes the steps that are due; `all`: those that are left.
  Error go_on(unsigned e, uint64_t now, bool all) {
    Engine &x = engines_[e];
    if (x.repeats) repeat(e);
    for (; parked(e) && (all || x.step <= now); x.step += x.stride) core_.fibers_[e].resume();
    return x.error = outcome(x.error);
  }
  void cancel() {
    for (Fiber &fiber : core_.fibers_) fiber.cancel();
    for (Engine &x : engines_) x.repeats = false;
  }

  void visit_state(Archive &a) {
    for (unsigned e = 0; e < kEngines; ++e) {
      Engine &x = engines_[e];
      a(streams_[e], x.begun, x.retired, x.budget, x.start, x.step, x.stride, x.steps, x.since, x.cycles, x.told);
      a(x.signals, x.sem, x.value, x.error);
      bool parked = this->parked(e);
      a(parked);
      if (a.loading()) x.repeats = parked;
    }
    a(told_);
  }

  void retired(unsigned e, uint64_t now) {
    Engine &x = engines_[e];
    ++x.retired;
    x.cycles += now - x.since;
    if (!x.mark) count_retired(e, x.retired);
  }

  /// An injected memory error hits the first operand in memory.
  Error memory_error(const Operands &operands) const {
    Faults &faults = core_.board_.faults();
    if (!faults.get(NPU_MODEL_FAULT_ECC_UNCORRECTED)) return {};
    for (const Operand &o : operands.at) {
      uint64_t va = 0;
      if (!o.used || o.local() || region_address(job_, o.region, o.offset, o.bytes, o.write, va)) continue;
      if (faults.take(NPU_MODEL_FAULT_ECC_UNCORRECTED)) return failed({NPU_STATUS_ECC, o.write, va}, o);
    }
    return {};
  }

  /// Is this where the core is to hang?
  bool stands() const { return core_.hang_.holds(uint64_t{engines_[0].begun} + engines_[1].begun); }

  /// Brings the core's counters up to `cycles` since the job began.
  void account(uint64_t cycles) {
    CoreCounters &c = core_.counters_;
    c.busy_cycles.fetch_add(cycles - told_, std::memory_order_relaxed);
    told_ = cycles;
    for (unsigned e = 0; e < kEngines; ++e) {
      Engine &x = engines_[e];
      c.engine_cycles[e].fetch_add(x.cycles - x.told, std::memory_order_relaxed);
      if (watched_)
        c.progress.fetch_add(x.cycles / kProgressCycles - x.told / kProgressCycles, std::memory_order_relaxed);
      x.told = x.cycles;
    }
  }
  void ended() { core_.counters_.jobs.fetch_add(1, std::memory_order_relaxed); }

  /// A kill is nobody's fault: it names no command.
  static bool killed(const Error &e) { return e.status == NPU_STATUS_ABORTED || e.status == NPU_STATUS_CORE_RESET; }
  static Error error(uint16_t status) {
    Error e;
    e.status = status;
    return e;
  }
  Error stop_error() const {
    return error(stop_.load() == Stop::CoreReset ? NPU_STATUS_CORE_RESET : NPU_STATUS_ABORTED);
  }
  /// Adds the engine and the command that it was about to begin.
  Error named(Error e, unsigned engine) const { return named(e, engine, engines_[engine].begun); }
  static Error named(Error e, unsigned engine, uint32_t command) {
    e.engine = static_cast<uint8_t>(engine);
    e.command = command;
    return e;
  }

 private:
  /// In the registers.
  void count_retired(unsigned e, uint32_t count) {
    core_.counters_.retired[e].store(count, std::memory_order_relaxed);
    core_.counters_.progress.fetch_add(1, std::memory_order_relaxed);
  }

  /// Takes the first step of a command, or those that were taken before the chip was saved.
  void start(unsigned e, const Command &command, const Operands &operands, uint64_t done_before) {
    Engine &x = engines_[e];
    x.steps = 0;
    core_.fibers_[e].start([this, e, &x, command, operands, done_before] {
      Pace pace = this->pace();
      pace.fiber = &core_.fibers_[e];
      pace.steps = &x.steps;
      pace.done_before = done_before;
      try {
        x.error = perform(e, x.begun, command, operands, pace);
      } catch (const std::exception &) {
        x.error = error(NPU_STATUS_INTERNAL);
      }
    });
  }
  void repeat(unsigned e) {
    engines_[e].repeats = false;
    Operands operands;
    if (Error error = check(e, streams_[e].current(), operands))
      engines_[e].error = error;
    else
      start(e, streams_[e].current(), operands, engines_[e].steps);
  }

  Pace pace() const { return {stop_, watched_ ? uncounted_ : core_.counters_.progress, core_.gate_}; }

  Error perform(unsigned e, uint32_t index, const Command &command, const Operands &operands, const Pace &pace) {
    core_.memory_.note(e, index, command.head().layer);
    for (const Operand &o : operands.at)
      if (o.used && o.write && o.local()) core_.local_.written(o.offset, o.offset + o.bytes);
    const Outcome o = e == NPU_ENGINE_GDMA ? core_.gdma_.run(command, operands, job_, pace)
                                           : core_.tiu_.run(command, operands, job_, pace);
    if (o.stopped) return stop_error();
    return o.fault ? failed(o.fault, operands.at[o.operand]) : Error{};
  }

  /// The error of a command that has just had control.
  Error outcome(const Error &error) const {
    if (mismatch.empty()) return error;
    core_.board_.trace("mismatch", mismatch.c_str());
    mismatch.clear();
    return Lane::error(NPU_STATUS_INTERNAL);
  }

  static Error failed(const Fault &fault, const Operand &o) {
    Error e = error(fault.status);
    e.region = o.region;
    e.offset = o.offset;
    e.bytes = saturate32(o.bytes);
    e.access = o.write ? NPU_ACCESS_WRITE : NPU_ACCESS_READ;
    if (fault.status == NPU_STATUS_INDEX_BOUNDS)
      e.offset = fault.addr;  // the number of the index
    else
      e.fault_addr = fault.addr;
    return e;
  }

  Core &core_;
  const Job &job_;
  const std::atomic<Stop> &stop_;
  const bool watched_;
  mutable std::atomic<uint64_t> uncounted_{0};  ///< steps that are progress by their cycles instead
  Stream streams_[kEngines];
  Engine engines_[kEngines];
  uint64_t told_ = 0;  ///< cycles in the core's counter
};

/// One job on its cores. Engines are numbered place * 2 + engine.
class Execution {
 public:
  Execution(std::span<Core *const> cores, const Job &job, const std::atomic<Stop> &stop, bool watched,
            uint64_t begin_ns)
      : job_(job),
        stop_(stop),
        params_(cores[0]->config_.cost),
        first_(*cores[0]),
        replay_(params_, static_cast<unsigned>(cores.size())),
        profile_(job, begin_ns) {
    for (unsigned i = 0; i < cores.size(); ++i) lanes_.emplace_back(*cores[i], job, i, stop, watched);
    if (first_.check_races_.load(std::memory_order_relaxed)) races_.emplace(job, engines());
    if (cores.size() > 1 && !watched && !races_) {
      std::vector<Helper *> helpers;
      for (Core *core : cores) helpers.push_back(&core->helper_);
      crew_.emplace(
          std::move(helpers), first_.gate_,
          [this](unsigned lane, uint64_t mark) { take_effect(lanes_[lane], slot(lane, mark)); },
          [this] { lanes_[0].trim_thread(); });
      for (unsigned i = 0; i < cores.size(); ++i) begun_[i].resize(kBegunAhead + 1);
    }
    result_.core = lanes_[0].core();
    result_.start_cycle = first_.counters_.busy_cycles.load(std::memory_order_relaxed);
    check();
  }
  ~Execution() {
    for (Lane &lane : lanes_) lane.cancel();
    if (!crew_) return;
    failed_.store(0);  // what is still at work, because of an exception here, is in vain
    crew_.reset();
    lanes_[0].stopped();  // who has rested goes on when the machine does
  }

  uint64_t now() const { return replay_.now(); }
  uint64_t next() const {
    uint64_t next = replay_.next();
    for (unsigned e = 0; e < engines(); ++e)
      if (lane(e).parked(e % kEngines)) next = std::min(next, lane(e).engine(e % kEngines).step);
    return next;
  }
  void advance_to(uint64_t cycle) { replay_.advance_to(cycle); }

  /// One round of the replay of docs/reference/hardware.md section 8.3: a command takes effect when it begins.
  Run::State turn() {
    if (result_.error) return Run::State::Ended;
    if (standing_ && lanes_[0].stands()) return Run::State::Stands;
    standing_ = false;
    if (lanes_[0].stopped()) return end(lanes_[0].core(), lanes_[0].stop_error());
    if (failed_.load() != kNever) return end(lanes_[0].core(), {});
    for (bool changed = true; changed;) {
      if (go_on()) return Run::State::Ended;
      changed = retire();
      for (unsigned e = 0; e < engines(); ++e) {
        if (replay_.busy(e) || lane(e).finished(e % kEngines)) continue;
        if (lane(e).stands()) {
          if (crew_) crew_->reduce(0);
          if (failed_.load() != kNever) return end(lanes_[0].core(), {});
          standing_ = true;
          return Run::State::Stands;
        }
        bool begun = false;
        if (Error error = begin(e, begun)) return end(lane(e).core(), error);
        changed |= begun;
      }
    }
    return replay_.any_busy() ? Run::State::Waits : deadlock();
  }

  bool stands() const { return standing_ && lanes_[0].stands(); }

  void account() {
    for (unsigned e = 0; e < engines(); ++e) {
      if (!replay_.busy(e)) continue;
      at(e).cycles += replay_.now() - at(e).since;
      at(e).since = replay_.now();
    }
    for (Lane &lane : lanes_) lane.account(replay_.now());
  }

  void visit_state(Archive &a) {
    for (Lane &lane : lanes_) a(lane);
    a(replay_, semaphores_, profile_, result_, profiles_, standing_, failed_at_);
  }
  bool races() const { return races_.has_value(); }

  JobResult finish(uint64_t end_ns) {
    result_.cycles = failed_at_.value_or(replay_.now());
    if (failure_.error)
      rewind();
    else
      account();
    if (profiles_ && stop_.load() <= Stop::Aborted) {
      const Error late = profile_.write(lanes_[0].memory(), result_.cycles, end_ns);
      if (!result_.error) result_.error = late;
    }
    for (Lane &lane : lanes_) lane.ended();
    return result_;
  }

 private:
  /// A command that takes effect beside others, and how it fails.
  struct Failure {
    uint64_t sequence = 0;  ///< of its beginning
    uint64_t start = 0;     ///< when it began
    uint8_t core = 0;
    Error error;
    std::array<uint32_t, kEngines * NPU_MAX_CORES> retired;  ///< by then, an engine
    std::array<uint64_t, kEngines * NPU_MAX_CORES> cycles;   ///< at work by then, an engine
  };
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  unsigned engines() const { return static_cast<unsigned>(lanes_.size()) * kEngines; }
  Lane &lane(unsigned e) { return lanes_[e / kEngines]; }
  const Lane &lane(unsigned e) const { return lanes_[e / kEngines]; }
  Lane::Engine &at(unsigned e) { return lane(e).engine(e % kEngines); }

  /// What can be wrong before the first command.
  void check() {
    result_.error = profile_.check();
    profiles_ = !result_.error;
    for (const Lane &l : lanes_) {
      if (result_.error) return;
      result_.core = l.core();
      result_.error = l.check_streams();
    }
    if (!result_.error) result_.core = lanes_[0].core();
  }

  /// With an error or without, unless a command that began before has failed since.
  Run::State end(uint8_t core, const Error &error) {
    result_.core = core;
    result_.error = error;
    if (!crew_) return Run::State::Ended;
    crew_->reduce(0);
    const bool stopped = lanes_[0].stopped();  // who has rested goes on when the machine does
    if (failure_.error) {
      result_.core = failure_.core;
      result_.error = failure_.error;
      failed_at_ = failure_.start;
    } else if (stopped) {
      result_.core = lanes_[0].core();
      result_.error = lanes_[0].stop_error();
    }
    return Run::State::Ended;
  }

  /// A command of a crew that has begun.
  struct Begun {
    Failure place;
    unsigned engine = 0;
    uint32_t index = 0;
    Command command;
    Operands operands;
  };
  Begun &slot(unsigned lane, uint64_t mark) { return begun_[lane][mark % begun_[lane].size()]; }

  /// A command takes effect beside those of other cores: behind what they have done at the last SEM_WAIT of its core.
  void hand_out(unsigned number, const Command &command, const Operands &operands, uint64_t alone) {
    const unsigned place = number / kEngines;
    Lane::Engine &x = at(number);
    if (command.head().opcode == NPU_OP_SEM_WAIT) after_[place] = done_;
    crew_->reduce(kBegunAhead);
    x.mark = crew_->next_mark(place);
    Begun &begun = slot(place, x.mark);
    note_past(begun.place);
    begun.place.sequence = ++sequence_;
    begun.place.start = replay_.now();
    begun.place.core = lanes_[place].core();
    begun.engine = number % kEngines;
    begun.index = x.begun;
    begun.command = command;
    begun.operands = operands;
    crew_->add(place, after_[place], alone);
  }

  /// How far all engines are now, when a command begins.
  void note_past(Failure &place) {
    for (unsigned e = 0; e < engines(); ++e) {
      const Lane::Engine &x = at(e);
      place.retired[e] = x.retired;
      place.cycles[e] = x.cycles + (replay_.busy(e) ? replay_.now() - x.since : 0);
    }
  }
  /// Counters and profile, back to when the command began that has failed since.
  void rewind() {
    for (unsigned e = 0; e < engines(); ++e) {
      at(e).cycles = failure_.cycles[e];
      profile_.rewind(e, failure_.retired[e]);
    }
    for (Lane &lane : lanes_) lane.account(failure_.start);
  }

  /// On any thread of the crew.
  void take_effect(Lane &lane, const Begun &begun) {
    if (lane.stopped() || begun.place.sequence > failed_.load()) return;
    const Error error =
        lane.execute_late(begun.engine, begun.index, begun.command, begun.operands, begun.place.sequence, failed_);
    if (error && !Lane::killed(error)) note(begun.place, Lane::named(error, begun.engine, begun.index));
  }

  /// Of those that fail the first counts.
  void note(const Failure &place, const Error &error) {
    const std::lock_guard lock(failure_mutex_);
    if (place.sequence > failed_.load()) return;
    failure_ = place;
    failure_.error = error;
    failed_.store(place.sequence);
  }

  /// Commands in progress take the steps that are due. True when one of them has failed.
  bool go_on() {
    for (unsigned e = 0; e < engines(); ++e) {
      Lane &lane = this->lane(e);
      if (!lane.parked(e % kEngines)) continue;
      const Error error = lane.go_on(e % kEngines, replay_.now(), replay_.ended(e));
      if (!error) continue;
      end(lane.core(), Lane::killed(error) ? error : lane.named(error, e % kEngines, at(e).begun - 1));
      failed_at_ = at(e).start;
      return true;
    }
    return false;
  }

  bool retire() {
    bool any = false;
    for (unsigned e = 0; e < engines(); ++e) {
      if (!replay_.retire(e)) continue;
      Lane::Engine &x = at(e);
      if (x.signals) semaphores_.add(x.sem, x.value);
      if (x.signals && races_) races_->signalled(e, x.sem);
      lane(e).retired(e % kEngines, replay_.now());
      done_[e / kEngines] = std::max(done_[e / kEngines], x.mark);
      profile_.retire(e, replay_.now());
      any = true;
    }
    return any;
  }

  /// Nothing runs any more: the end of the job, or engines that wait for what will not come.
  Run::State deadlock() {
    for (unsigned e = 0; e < engines(); ++e)
      if (!lane(e).finished(e % kEngines))
        return end(lane(e).core(), lane(e).named(Lane::error(NPU_STATUS_DEADLOCK), e % kEngines));
    return end(lanes_[0].core(), {});
  }

  /// Begins the engine's next command if it may. Precondition: the engine is idle and has one.
  Error begin(unsigned number, bool &begun) {
    const unsigned e = number % kEngines;
    Lane &lane = this->lane(number);
    Lane::Engine &x = lane.engine(e);
    if (lane.stopped()) return lane.stop_error();
    const Command *found;
    if (Error error = lane.seek(e, found)) return error;
    const Command &command = *found;
    if (lane.waits(e, command)) return {};
    Operands operands;
    if (Error error = lane.check(e, command, operands)) return lane.named(error, e);
    if (Error error = lane.memory_error(operands)) return lane.named(error, e);
    if (waits_for_semaphore(command)) return {};
    const hw::Cost cost = hw::command_cost(command.bytes, e == NPU_ENGINE_GDMA, params_);
    const uint64_t alone = hw::uncontended(cost, params_);
    if (job_.header.budget && alone > job_.header.budget - x.budget)
      return lane.named(Lane::error(NPU_STATUS_BUDGET), e);
    x.budget += job_.header.budget ? alone : 0;
    if (races_)
      if (Error error = check_races(number, command, operands)) return lane.named(error, e);
    if (crew_)
      hand_out(number, command, operands, alone);
    else if (Error error = lane.execute(e, command, operands, replay_.now(), alone))
      return Lane::killed(error) ? error : lane.named(error, e);
    profile_.begin(number, lane.core(), x.begun, command, cost, replay_.now());
    note_signal(command, x);
    x.since = replay_.now();
    ++x.begun;
    replay_.begin(number, cost);
    begun = true;
    return {};
  }

  Error check_races(unsigned number, const Command &command, const Operands &operands) {
    std::string text;
    const Error error = races_->begin(number, command, operands, text);
    if (error) first_.board_.trace("race", text.c_str());
    return error;
  }

  bool waits_for_semaphore(const Command &command) const {
    if (command.head().opcode != NPU_OP_SEM_WAIT) return false;
    const auto c = hw::decode<npu_cmd_sem_wait>(command.bytes);
    return !semaphores_.at_least(c.sem, c.value);
  }

  /// Remembers what the semaphore gets when the command retires.
  static void note_signal(const Command &command, Lane::Engine &x) {
    x.signals = command.head().opcode == NPU_OP_SEM_SIGNAL;
    if (!x.signals) return;
    const auto c = hw::decode<npu_cmd_sem_signal>(command.bytes);
    x.sem = c.sem;
    x.value = c.value;
  }

  const Job &job_;
  const std::atomic<Stop> &stop_;
  const hw::CostParams &params_;
  const Core &first_;
  std::deque<Lane> lanes_;
  hw::Replay replay_;
  hw::Semaphores semaphores_;
  Profile profile_;
  std::optional<Races> races_;
  JobResult result_;
  bool profiles_ = false;  ///< the profile's buffer is sound
  bool standing_ = false;
  std::optional<uint64_t> failed_at_;  ///< when the command began that has failed since

  // Commands that take effect beside those of other cores:
  uint64_t sequence_ = 0;
  Crew::Marks done_{};                              ///< what has retired, a core
  std::array<Crew::Marks, NPU_MAX_CORES> after_{};  ///< what a core's further commands wait for
  std::array<std::vector<Begun>, NPU_MAX_CORES> begun_;
  std::mutex failure_mutex_;
  Failure failure_;                       ///< guarded by it
  std::atomic<uint64_t> failed_{kNever};  ///< sequence of the first that failed
  std::optional<Crew> crew_;              ///< the last: its work uses the others
};

Core::Core(unsigned index, const Config &config, Mmu &mmu, const Board &board, Backend &backend, Gate *gate)
    : index_(index),
      config_(config),
      board_(board),
      gate_(gate),
      local_(config.lmem_bytes),
      memory_(config, mmu, board, kSlots * index),
      fetches_(config, mmu, board, kSlots * index + 1),
      gdma_(memory_, local_),
      tiu_(memory_, local_, backend) {}

void Core::prepare(const Job &job, unsigned queue) {
  counters_.job_id.store(job.id, std::memory_order_relaxed);
  counters_.queue.store(queue, std::memory_order_relaxed);
  for (auto &r : counters_.retired) r.store(0, std::memory_order_relaxed);
  local_.clear();
  memory_.set_job(job.asid, job.id, queue);
  fetches_.set_job(job.asid, job.id, queue);
}

/// Large buffers go back to the host, and the next job begins without what was wanted of this one.
void Core::leave() {
  tiu_.trim();
  hang_.disarm();
}

void Core::stand() {
  const Gate::Rest rest(gate_);
  hang_.wait();
}

/// The host ran out of memory, or the arithmetic failed: this job's misfortune, not the chip's.
JobResult Core::misfortune() const {
  JobResult result;
  result.core = static_cast<uint8_t>(index_);
  result.start_cycle = counters_.busy_cycles.load(std::memory_order_relaxed);
  result.error.status = NPU_STATUS_INTERNAL;
  return result;
}

// ---- runs ----

Run::Run(std::span<Core *const> cores, const Job &job, unsigned queue, const std::atomic<Stop> &stop, bool watched,
         uint64_t begin_ns)
    : cores_(cores.begin(), cores.end()) {
  for (Core *core : cores_) core->prepare(job, queue);
  execution_ = std::make_unique<Execution>(cores, job, stop, watched, begin_ns);
}

Run::~Run() {
  execution_.reset();  // commands in progress use what the cores give back
  for (Core *core : cores_) core->leave();
}

uint64_t Run::now() const { return execution_->now(); }
uint64_t Run::next() const { return execution_->next(); }
void Run::advance_to(uint64_t cycle) { execution_->advance_to(cycle); }
void Run::visit_state(Archive &a) {
  if (execution_->races()) return a.refuse();
  execution_->visit_state(a);
}
void Run::account() { execution_->account(); }
Run::State Run::turn() { return execution_->turn(); }
bool Run::stands() const { return execution_->stands(); }
JobResult Run::finish(uint64_t end_ns) { return execution_->finish(end_ns); }

namespace {

/// In host time: a run that stands still holds up its thread.
JobResult complete(Run &run, Core &first) {
  for (;;) switch (run.turn()) {
      case Run::State::Waits:
        run.advance_to(run.next());
        break;
      case Run::State::Stands:
        first.stand();
        break;
      case Run::State::Ended:
        return run.finish(first.time_ns());
    }
}

}  // namespace

JobResult run_job(std::span<Core *const> cores, const Job &job, unsigned queue, const std::atomic<Stop> &stop) {
  try {
    Run run(cores, job, queue, stop, false, cores[0]->time_ns());
    return complete(run, *cores[0]);
  } catch (const std::exception &) {
    for (Core *core : cores) core->leave();
    return cores[0]->misfortune();
  }
}

}  // namespace npu::model
