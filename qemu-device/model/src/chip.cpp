// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/chip.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <new>
#include <span>
#include <thread>

namespace npu::model {

Chip::Chip(const Config &config, const Board &board, std::unique_ptr<Backend> backend)
    : config_(config),
      board_(board),
      backend_(std::move(backend)),
      events_(board_),
      mmu_(config_, board_, Core::kSlots * config.cores, [this](Mmu::Moved moved) { mmu_moved(moved); }),
      sensors_(config.cores, config.clock_khz),
      arbiter_(config.queues, config.asids),
      running_(config.cores),
      busy_(config.cores),
      cycles_(board.has_clock() ? board.now() : 0, config.clock_khz),
      dice_(config.seed) {
  for (unsigned i = 0; i < config.cores; ++i)
    cores_.push_back(std::make_unique<Core>(i, config_, mmu_, board_, *backend_, &gate_));
  if (!board_.has_clock())
    for (auto &core : cores_) core->helper().expect_thread();
  for (unsigned i = 0; i < config.queues; ++i) queues_.push_back(std::make_unique<Queue>(i));
}

// ---- threads ----

void Chip::thread_main(unsigned index) {
  if (index < config_.cores)
    worker(index);
  else if (index == config_.cores)
    front_end();
  else if (index < thread_count())
    cores_[index - config_.cores]->helper().serve();
}

void Chip::stop() {
  Guard guard(*this);
  stopping_ = true;
  for (Queue *q : running_)
    if (q) q->request_stop(Stop::Drop);
  release_all(Obeys::Nothing);
  gate_.wake();
  for (unsigned t = 0; t <= config_.cores; ++t) wake(t);
  for (auto &core : cores_) core->helper().leave();
  flights_.clear();
}

void Chip::pause(bool on) {
  if (board_.has_clock()) return;
  {
    Guard guard(*this);
    paused_ = on;
    gate_.close(on);
    for (unsigned t = 0; t <= config_.cores; ++t) wake(t);
  }
  // Threads at work come to rest by themselves within a step; looking now and then keeps them free of this.
  const auto at_rest = [this] {
    Lock lock(mutex_);
    return !paused_ || stopping_ || gate_.rest(active_);
  };
  while (on && !at_rest()) std::this_thread::sleep_for(std::chrono::microseconds(100));
}

/// A core's thread: jobs for the core, and between two jobs at most one step of a queue, so that neither starves the
/// other.
void Chip::worker(unsigned core) {
  Lock lock(mutex_);
  bool served = false;
  while (!stopping_) {
    if (paused_) {
      sleep(core, lock);
      continue;
    }
    if (!served && serve_one(core, lock)) {
      served = true;
      continue;
    }
    served = false;
    if (start_job(core, lock)) continue;
    if (list_.empty()) sleep(core, lock);
  }
}

void Chip::front_end() {
  const unsigned self = config_.cores;
  Lock lock(mutex_);
  while (!stopping_) {
    if (forget_)
      forget(lock);
    else if (paused_ || !serve_one(self, lock))
      sleep(self, lock);
  }
}

/// Waits until wake() names the thread. What is still to be delivered comes first; then the caller looks again.
void Chip::sleep(unsigned thread, Lock &lock) {
  if (deferred_.wake || deferred_.events || !deferred_.news.empty()) {
    const Deferred deferred = std::exchange(deferred_, {});
    lock.unlock();
    deliver(deferred);
    lock.lock();
    return;
  }
  idle_ |= 1u << thread;
  wake_[thread].wait(lock, [&] { return stopping_ || !(idle_ >> thread & 1); });
}

void Chip::wake(unsigned thread) {
  idle_ &= ~(1u << thread);
  deferred_.wake |= 1u << thread;
}

/// Cores that have a job or are kept for one.
uint32_t Chip::taken() const {
  uint32_t mask = arbiter_.reserved();
  for (unsigned c = 0; c < config_.cores; ++c) mask |= running_[c] ? 1u << c : 0;
  return mask;
}

/// Every job that waits for cores which sleep wakes as many as it lacks.
void Chip::wake_for_ready() {
  if (!enabled_) return;
  const uint32_t cores = ((1u << config_.cores) - 1) & ~taken();
  arbiter_.for_each([&](uint32_t mask, unsigned lacks) {
    for (; lacks; --lacks)
      if (const uint32_t asleep = idle_ & mask & cores) wake(static_cast<unsigned>(std::countr_zero(asleep)));
  });
}

void Chip::deliver(const Deferred &deferred) {
  for (uint32_t bits = deferred.wake; bits; bits &= bits - 1) wake_[std::countr_zero(bits)].notify_one();
  for (uint32_t bits = deferred.events; bits; bits &= bits - 1) events_.raise(bits & -bits);
  for (const auto &[kind, text] : deferred.news) board_.trace(kind, text.c_str());
}

void Chip::news(const char *kind, const char *format, ...) {
  if (!board_.tracing()) return;
  char text[256];
  va_list args;
  va_start(args, format);
  const int length = std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (board_.has_clock() && length >= 0 && static_cast<size_t>(length) < sizeof text)
    std::snprintf(text + length, sizeof text - static_cast<size_t>(length), " in cycle %llu at %llu ns",
                  static_cast<unsigned long long>(cycle_), static_cast<unsigned long long>(cycles_.ns_of(cycle_)));
  try {
    deferred_.news.emplace_back(kind, text);
  } catch (const std::bad_alloc &) {
    // A trace that the host has no memory for is lost; nothing else is.
  }
}

void Chip::mmu_moved(Mmu::Moved moved) {
  if (moved.done) events_.raise(NPU_EVENT_STATUS_INVALIDATED);
  if (!moved.forget) return;
  Guard guard(*this);
  forget_ = true;
  wake(config_.cores);
}

/// Lets the back end drop copies whose identity is gone.
void Chip::forget(Lock &lock) {
  forget_ = false;
  lock.unlock();
  try {
    for (uint32_t identity : mmu_.take_forgotten()) backend_->forget(identity);
  } catch (const std::bad_alloc &) {
    backend_->forget(kEveryIdentity);
  }
  lock.lock();
}

// ---- jobs ----

/// Takes one step of the queue that has waited longest.
bool Chip::serve_one(unsigned thread, Lock &lock) {
  Queue *const next = list_.pop(cycle_);
  if (!next) return false;
  Queue &q = *next;
  q.listed = false;
  wake_for_ready();  // this thread may be away for a while
  step(q, thread, lock);
  return true;
}

/// Puts a queue that can take a step where a thread finds it, preferably one whose core may run the job.
void Chip::list(Queue &q) {
  if (resetting_) return;
  note_work(q);
  if (q.listed || !q.can_step()) return;
  q.listed = true;
  q.due = cycle_ + dice_.delay();
  list_.push(q);
  const uint32_t asleep = idle_ & static_cast<uint32_t>(q.config.core_mask);
  if (asleep)
    wake(static_cast<unsigned>(std::countr_zero(asleep)));
  else if (idle_ >> config_.cores & 1)
    wake(config_.cores);
}

/// Lets the arbiter know if the queue has anything to do.
void Chip::note_work(const Queue &q) { arbiter_.set_work(q.index, static_cast<uint32_t>(q.config.asid), q.has_work()); }

/// Off; the configuration stays.
void Chip::halt(Queue &q) {
  q.halt();
  note_work(q);
}

/// One completion and one fetch at most.
void Chip::step(Queue &q, unsigned thread, Lock &lock) {
  const bool ended = q.phase == Queue::Phase::Done || q.phase == Queue::Phase::Telling;
  if (ended && q.can_step() && !complete(q, lock)) return;
  if (q.phase == Queue::Phase::Idle && q.can_step() && !fetch(q, thread, lock)) return;
  list(q);
}

/// True when a disable has waited for the calling thread to give the queue back.
bool Chip::owned_no_more(Queue &q) {
  if (!q.disabling) return false;
  halt(q);
  return true;
}

/// All parts of a completion, or the next one where the dice decide when each is due. True when the last one is out.
bool Chip::complete(Queue &q, Lock &lock) {
  if (q.phase == Queue::Phase::Done) q.told = 0;
  q.phase = Queue::Phase::Completing;
  bool written = false;
  if (!unlocked(lock, [&] {
        do {
          written = q.tell(board_, q.told++);
        } while (written && q.told < Queue::kParts && !dice_.on());
      }))
    return false;
  if (written && q.told < Queue::kParts && !q.disabling) {
    q.phase = Queue::Phase::Telling;
    list(q);
    return false;
  }
  q.phase = Queue::Phase::Idle;
  if (written) q.advance();
  if (owned_no_more(q)) return false;
  if (!written) fail(q);
  return written;
}

bool Chip::fetch(Queue &q, unsigned thread, Lock &lock) {
  q.phase = Queue::Phase::Fetching;
  q.abort_id = 0;
  Queue::Fetched fetched = Queue::Fetched::RingError;
  if (!unlocked(lock, [&] { fetched = q.fetch(board_); })) return false;
  q.phase = Queue::Phase::Idle;
  if (owned_no_more(q)) return false;
  if (fetched == Queue::Fetched::RingError) {
    fail(q);
    return false;
  }
  q.sq_head = (q.sq_head + 1) & (q.sq_size() - 1);
  if (fetched == Queue::Fetched::Bad) {
    finish(q, q.result);
  } else if (q.abort_id == q.job.id) {
    finish(q, {.error = {.status = NPU_STATUS_ABORTED}});
  } else {
    q.phase = Queue::Phase::Ready;
    q.stop = Stop::None;
    arbiter_.add({q.index, q.job.asid, q.job.core_mask, q.job.cores(), static_cast<uint32_t>(q.config.priority)});
    // The calling thread arbitrates next: nobody else need wake for a job that it may take itself.
    if (q.job.cores() > 1 || !((q.job.core_mask & ~taken()) >> thread & 1)) wake_for_ready();
  }
  return true;
}

void Chip::finish(Queue &q, const JobResult &result) {
  q.result = result;
  q.errors += result.error ? 1 : 0;
  if (result.error.status == NPU_STATUS_ECC) {
    ++ecc_uncorrected_;
    deferred_.events |= NPU_EVENT_STATUS_ECC;
  }
  q.phase = Queue::Phase::Done;
  news("job_done", "queue %u job %llu status %u cycles %llu", q.index, static_cast<unsigned long long>(q.job.id),
       result.error.status, static_cast<unsigned long long>(result.cycles));
}

/// Runs the job that the arbiter has for the core, alone or as the last of several, or keeps the core for one. False
/// when no job wants the core.
bool Chip::start_job(unsigned core, Lock &lock) {
  if (!enabled_ || resetting_ || running_[core] || board_.faults().get(NPU_MODEL_FAULT_FATAL)) return false;
  const uint32_t reserved = arbiter_.reserved();
  const auto grant = arbiter_.pick(core, cycle_);
  if (!grant) {
    if (arbiter_.reserved() == reserved) return false;
    wake_for_ready();  // others that sleep may make up the number
    return true;
  }
  Queue &q = *queues_[grant->queue];
  q.phase = Queue::Phase::Running;
  q.cores = grant->cores;
  std::array<Core *, NPU_MAX_CORES> chosen;
  size_t count = 0;
  for (unsigned c = 0; c < config_.cores; ++c) {
    if (!(grant->cores >> c & 1)) continue;
    running_[c] = &q;
    busy_[c].since_ns = instant_ns();
    chosen[count++] = cores_[c].get();
  }
  const std::span<Core *const> cores(chosen.data(), count);
  if (Obeys obeys; board_.faults().take_hang(obeys))
    cores[0]->hang().arm(obeys, board_.faults().get(NPU_MODEL_FAULT_HANG_AFTER));
  news("job_start", "queue %u job %llu cores 0x%x", q.index, static_cast<unsigned long long>(q.job.id), grant->cores);
  wake_for_ready();
  if (board_.has_clock()) {
    take_off(q, cores);
    return true;
  }
  JobResult result;
  const uint64_t begun = cycle_;
  if (!unlocked(lock, [&] { result = run_job(cores, q.job, q.index, q.stop); })) return true;
  const uint64_t end = begun + std::min(result.cycles, Arbiter::kMostCycles);
  cycle_ = std::max(cycle_, end);
  ended(q, result, end);
  if (q.phase == Queue::Phase::Done) step(q, core, lock);
  return true;
}

/// A job has left its cores.
void Chip::ended(Queue &q, const JobResult &result, uint64_t cycle) {
  uint32_t left = 0;
  for (unsigned c = 0; c < config_.cores; ++c) {
    if (running_[c] != &q) continue;
    busy_[c].before_ns = busy_until(c, instant_ns());
    running_[c] = nullptr;
    left |= 1u << c;
  }
  arbiter_.release(left, result.cycles, cycle);
  if (std::popcount(left) > 1) wake_for_ready();
  if (!owned_no_more(q) && !stopping_) finish(q, result);
}

// ---- the device ----

bool Chip::enabled() const {
  Lock lock(mutex_);
  return enabled_;
}

void Chip::enable(bool on) {
  Guard guard(*this);
  if (resetting_) return;
  enabled_ = on;
  wake_for_ready();
}

void Chip::reset() {
  Guard guard(*this);
  if (resetting_) return;
  resetting_ = true;
  enabled_ = false;
  for (Queue *q : running_)
    if (q) q->request_stop(Stop::Drop);
  release_all(Obeys::DeviceReset);
  gate_.wake();
  arbiter_.clear();
  list_.clear();
  if (active_ == 0 && flights_.empty()) finish_reset();
}

/// No thread is at work any more: everything as after power-on.
void Chip::finish_reset() {
  for (auto &q : queues_) q->power_on();
  std::fill(running_.begin(), running_.end(), nullptr);
  std::fill(busy_.begin(), busy_.end(), Busy{});
  for (auto &core : cores_) core->reset();
  asked_.clear();
  if (mmu_.reset()) {
    forget_ = true;
    wake(config_.cores);
  }
  events_.reset();
  sensors_.reset();
  ecc_corrected_ = ecc_uncorrected_ = 0;
  board_.faults().set(NPU_MODEL_FAULT_FATAL, 0);
  news("reset", "done");
  ++resets_;
  resetting_ = false;
}

void Chip::core_reset(uint32_t mask) {
  Guard guard(*this);
  for (unsigned c = 0; c < config_.cores; ++c)
    if (mask >> c & 1 && running_[c]) stop_job(*running_[c], Stop::CoreReset, Obeys::CoreReset);
}

/// Asks the running job of a queue to end, also where it stands still.
void Chip::stop_job(Queue &q, Stop reason, Obeys means) {
  q.request_stop(reason);
  gate_.wake();
  for (unsigned c = 0; c < config_.cores; ++c)
    if (running_[c] == &q) cores_[c]->hang().release(means);
}

void Chip::release_all(Obeys means) {
  for (auto &core : cores_) core->hang().release(means);
}

uint32_t Chip::status() const {
  if (resetting_) return 0;
  return NPU_STATUS_READY | (board_.faults().get(NPU_MODEL_FAULT_FATAL) ? NPU_STATUS_FATAL : 0);
}

uint32_t Chip::core_busy() const {
  Lock lock(mutex_);
  uint32_t mask = 0;
  for (unsigned c = 0; c < config_.cores; ++c) mask |= running_[c] ? 1u << c : 0;
  return mask;
}

/// The instant of what happens now, on the clock of TIME_NS.
uint64_t Chip::instant_ns() const { return board_.has_clock() ? cycles_.ns_of(cycle_) : board_.time_ns(); }

uint64_t Chip::busy_until(unsigned core, uint64_t ns) const {
  const Busy &busy = busy_[core];
  return busy.before_ns + (running_[core] && ns > busy.since_ns ? ns - busy.since_ns : 0);
}

uint64_t Chip::busy_ns(unsigned core) const {
  Lock lock(mutex_);
  return busy_until(core, instant_ns());
}

uint64_t Chip::progress() const {
  uint64_t sum = 0;
  for (const auto &c : cores_) sum += c->counters().progress.load(std::memory_order_relaxed);
  return sum;
}

Sensors &Chip::sensors() {
  uint64_t busy = 0;
  for (const auto &c : cores_) busy += c->counters().busy_cycles.load(std::memory_order_relaxed);
  sensors_.sample(busy, static_cast<double>(board_.time_ns()) / 1e9);
  throttle_event();
  return sensors_;
}

void Chip::throttle_event() {
  if (sensors_.take_throttle_change()) events_.raise(NPU_EVENT_STATUS_THERMAL);
}

// ---- faults ----

void Chip::set_fault(unsigned fault, uint64_t value) {
  Faults &faults = board_.faults();
  switch (fault) {
    case NPU_MODEL_FAULT_ECC_CORRECTED:  // happens now, nothing stays
      ecc_corrected_ += static_cast<uint32_t>(value);
      if (value) events_.raise(NPU_EVENT_STATUS_ECC);
      return;
    case NPU_MODEL_FAULT_TEMPERATURE:
      faults.set(fault, value);
      sensors_.force(static_cast<int32_t>(value));
      return throttle_event();
    case NPU_MODEL_FAULT_FATAL:
      faults.set(fault, value);
      if (value) return events_.raise(NPU_EVENT_STATUS_FATAL);
      break;
    default:
      faults.set(fault, value);
  }
  Guard guard(*this);
  for (auto &core : cores_)
    if (value == 0 && fault <= NPU_MODEL_FAULT_STUCK_DEVICE) core->hang().forgive(static_cast<Obeys>(fault));
  wake_for_ready();
}

// ---- queues ----

uint64_t Chip::queue_config(unsigned queue, uint64_t QueueConfig::*field) const {
  Lock lock(mutex_);
  return queues_[queue]->config.*field;
}

void Chip::set_queue_config(unsigned queue, uint64_t QueueConfig::*field, uint64_t value) {
  Lock lock(mutex_);
  Queue &q = *queues_[queue];
  if (q.status() == 0) q.config.*field = value;
}

bool Chip::queue_control(unsigned queue) const {
  Lock lock(mutex_);
  return queues_[queue]->control;
}

void Chip::set_queue_control(unsigned queue, bool on) {
  Guard guard(*this);
  Queue &q = *queues_[queue];
  if (resetting_ || on == q.control || (on && q.status() != 0)) return;
  q.control = on;
  if (on)
    enable_queue(q);
  else
    disable_queue(q);
}

void Chip::enable_queue(Queue &q) {
  if (!q.config.legal(config_)) return fail(q);
  q.start();
  news("queue_enable", "queue %u asid %u priority %u cores 0x%x", q.index, static_cast<unsigned>(q.config.asid),
       static_cast<unsigned>(q.config.priority), static_cast<unsigned>(q.config.core_mask));
}

void Chip::disable_queue(Queue &q) {
  news("queue_disable", "queue %u", q.index);
  switch (q.phase) {
    case Queue::Phase::Ready:
      withdraw(q);
      [[fallthrough]];
    case Queue::Phase::Idle:
    case Queue::Phase::Done:
    case Queue::Phase::Telling:
      return halt(q);
    case Queue::Phase::Running:
      stop_job(q, Stop::Drop, Obeys::Abort);
      [[fallthrough]];
    case Queue::Phase::Fetching:
    case Queue::Phase::Completing:
      q.disabling = true;
  }
}

/// Takes a job back from the arbiter; others may have the cores that were kept for it.
void Chip::withdraw(Queue &q) {
  arbiter_.remove(q.index, cycle_);
  wake_for_ready();
}

/// Stops a queue for good: nothing more is fetched or started until it is disabled.
void Chip::fail(Queue &q) {
  q.error = true;
  if (q.phase == Queue::Phase::Ready) withdraw(q);
  note_work(q);
  deferred_.events |= NPU_EVENT_STATUS_QUEUE_ERROR;
  news("queue_error", "queue %u", q.index);
}

uint32_t Chip::queue_status(unsigned queue) const {
  Lock lock(mutex_);
  return queues_[queue]->status();
}

uint32_t Chip::sq_head(unsigned queue) const {
  Lock lock(mutex_);
  return queues_[queue]->sq_head;
}

uint32_t Chip::cq_tail(unsigned queue) const {
  Lock lock(mutex_);
  return queues_[queue]->cq_tail;
}

void Chip::abort_job(unsigned queue, uint64_t id) {
  Guard guard(*this);
  Queue &q = *queues_[queue];
  if (q.phase == Queue::Phase::Fetching) {
    q.abort_id = id;
  } else if (q.phase == Queue::Phase::Running && q.job.id == id) {
    stop_job(q, Stop::Aborted, Obeys::Abort);
  } else if (q.phase == Queue::Phase::Ready && q.job.id == id && !q.error) {
    withdraw(q);
    finish(q, {.error = {.status = NPU_STATUS_ABORTED}});
    list(q);
  }
}

void Chip::invalidate(uint32_t asid) {
  const uint64_t addr = mmu_.inv_addr.load(), bytes = mmu_.inv_bytes.load();
  if (!dice_.on()) return mmu_.invalidate(asid, addr, bytes);
  const Guard guard(*this);
  const uint64_t before = asked_.empty() ? 0 : asked_.back().due;
  asked_.push_back({std::max(before, cycle_ + dice_.delay()), asid, addr, bytes});
}

uint32_t Chip::invalidations() const {
  const Lock lock(mutex_);
  return mmu_.issued() + static_cast<uint32_t>(asked_.size());
}

void Chip::submit(unsigned queue, uint32_t tail) {
  Guard guard(*this);
  Queue &q = *queues_[queue];
  if (!q.enabled || q.disabling || q.error) return;
  if (tail >= q.sq_size()) return fail(q);
  q.sq_tail = tail;
  list(q);
}

void Chip::consumed(unsigned queue, uint32_t head) {
  Guard guard(*this);
  Queue &q = *queues_[queue];
  if (!q.enabled || q.disabling || q.error) return;
  if (head >= q.cq_size()) return fail(q);
  q.cq_head = head;
  list(q);
}

}  // namespace npu::model
