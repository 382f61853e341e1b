// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/crew.h"

#include <chrono>
#include <thread>
#include <utility>

namespace npu::model {

namespace {

/// To wake a thread takes as long as the chip's arithmetic for so many cycles, about.
constexpr uint64_t kWorthWaking = 4096;
/// Who has nothing to do looks around for so long before it sleeps.
constexpr std::chrono::microseconds kAlert{30};

}  // namespace

// ---- helpers ----

void Helper::expect_thread() {
  const std::lock_guard lock(mutex_);
  expected_ = true;
}

void Helper::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return crew_ || leaving_; });
    if (!crew_) return;
    Crew &crew = *crew_;
    lock.unlock();
    crew.work(lane_);
    lock.lock();
    crew_ = nullptr;
    changed_.notify_all();
  }
}

void Helper::leave() {
  const std::lock_guard lock(mutex_);
  leaving_ = true;
  changed_.notify_all();
}

bool Helper::join(Crew &crew, unsigned lane) {
  const std::lock_guard lock(mutex_);
  if (!expected_ || leaving_) return false;
  crew_ = &crew;
  lane_ = lane;
  changed_.notify_all();
  return true;
}

void Helper::wait_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !crew_; });
}

// ---- crews ----

Crew::Crew(std::vector<Helper *> helpers, Gate *gate, Work work, std::function<void()> leave)
    : gate_(gate), work_(std::move(work)), leave_(std::move(leave)) {
  for (Helper *helper : helpers) {
    Lane &lane = lanes_.emplace_back();
    lane.number = static_cast<unsigned>(lanes_.size() - 1);
    lane.helper = lane.number ? helper : nullptr;
  }
}

Crew::~Crew() {
  {
    const Lock lock(mutex_);
    over_ = true;
    for (Lane &lane : lanes_) {
      lane.pieces.clear();
      lane.wake.notify_all();
    }
    changed();
  }
  const Gate::Rest rest(gate_);
  for (Lane &lane : lanes_)
    if (lane.helped) lane.helper->wait_idle();
}

void Crew::add(unsigned number, const Marks &after, uint64_t cycles) {
  const Lock lock(mutex_);
  Lane &lane = lanes_[number];
  lane.pieces.push_back({after, cycles});
  lane.cycles += cycles;
  ++lane.added;
  ++left_;
  changed();
  rouse(lane);
}

/// Waits for `check` without sleeping, for a while.
template <class Check>
bool Crew::soon(Lock &lock, Check check) {
  if (check()) return true;
  const auto end = std::chrono::steady_clock::now() + kAlert;
  while (std::chrono::steady_clock::now() < end) {
    const uint64_t seen = changes_.load(std::memory_order_relaxed);
    lock.unlock();
    while (changes_.load(std::memory_order_relaxed) == seen && std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
    lock.lock();
    if (check()) return true;
  }
  return false;
}

/// Has the lane something that may begin?
bool Crew::ready(const Lane &lane) const {
  if (lane.running || lane.pieces.empty()) return false;
  const Marks &after = lane.pieces.front().after;
  for (size_t i = 0; i < lanes_.size(); ++i)
    if (lanes_[i].done < after[i]) return false;
  return true;
}

/// A lane that is ready and that no helper looks after.
Crew::Lane *Crew::find() {
  for (Lane &lane : lanes_)
    if (!lane.awake && ready(lane)) return &lane;
  return nullptr;
}

/// Does the lane's next piece, without the lock.
void Crew::run(Lane &lane, Lock &lock) {
  lane.cycles -= lane.pieces.front().cycles;
  lane.pieces.pop_front();
  lane.running = true;
  const uint64_t mark = lane.done + 1;
  lock.unlock();
  work_(lane.number, mark);
  lock.lock();
  lane.running = false;
  ++lane.done;
  --left_;
  changed();
  for (Lane &other : lanes_) rouse(other);
}

/// Wakes the lane's helper where there is enough to do for it, and who waits in reduce() where he may go on.
void Crew::rouse(Lane &lane) {
  if (!lane.awake && lane.helper && lane.cycles >= kWorthWaking && ready(lane)) {
    if (!lane.helped) lane.helped = lane.helper->join(*this, lane.number);
    lane.awake = lane.helped;
    lane.wake.notify_one();
  }
  if (waiting_ && may_go_on()) wake_.notify_one();
}

/// The helper of a lane.
void Crew::work(unsigned number) {
  Lock lock(mutex_);
  Lane &lane = lanes_[number];
  while (!over_) {
    if (soon(lock, [&] { return over_ || ready(lane); })) {
      if (over_) break;
      const Gate::Work working(gate_);
      run(lane, lock);
      continue;
    }
    lane.awake = false;
    lane.wake.wait(lock, [&] { return over_ || lane.awake; });
  }
  lock.unlock();
  leave_();
}

void Crew::reduce(uint64_t left) {
  Lock lock(mutex_);
  enough_ = left;
  while (left_ > left) {
    if (Lane *lane = find()) {
      run(*lane, lock);
      continue;
    }
    const Gate::Rest rest(gate_);
    if (soon(lock, [&] { return may_go_on(); })) continue;
    waiting_ = true;
    wake_.wait(lock, [&] { return may_go_on(); });
    waiting_ = false;
  }
}

}  // namespace npu::model
