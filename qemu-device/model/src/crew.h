// SPDX-License-Identifier: MIT
// What the cores of a job compute at the same time in host time: a lane of work a core, done in order, and marks where
// a lane waits for others. The thread that runs the job hands it out, and does its part of it while it waits; helpers,
// a thread a core but the first, do the rest.
#ifndef NPU_MODEL_CREW_H
#define NPU_MODEL_CREW_H

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include "npu_regs.h"
#include "qemu-device/model/src/pace.h"

namespace npu::model {

class Crew;

/// A thread that works for one crew after another.
class Helper {
 public:
  /// Some thread will call serve(), if it has not: it gets work from now on.
  void expect_thread();
  /// Returns after leave(), once it works for nobody.
  void serve();
  void leave();

 private:
  friend class Crew;

  /// False: no thread is expected.
  bool join(Crew &crew, unsigned lane);
  /// Until it works for nobody.
  void wait_idle();

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool expected_ = false;
  bool leaving_ = false;
  Crew *crew_ = nullptr;
  unsigned lane_ = 0;
};

class Crew {
 public:
  /// How much of each lane's work has to be done.
  using Marks = std::array<uint64_t, NPU_MAX_CORES>;
  /// Does a lane's piece of that mark. Throws nothing.
  using Work = std::function<void(unsigned lane, uint64_t mark)>;

  /// A lane for each helper; the first has none and may be null. Helpers and gate outlive the crew. `leave` is called
  /// on each thread that has helped, before the crew's end. Throws nothing.
  Crew(
      std::vector<Helper *> helpers, Gate *gate, Work work, std::function<void()> leave = [] {});
  /// What has not begun is dropped; what has, ends.
  ~Crew();
  Crew(const Crew &) = delete;
  Crew &operator=(const Crew &) = delete;

  /// The mark that the lane's next piece gets: they are numbered from 1 on.
  uint64_t next_mark(unsigned lane) const { return lanes_[lane].added + 1; }
  /// One more piece for a lane, to begin behind those that it has, and when `after` is done, which has been added
  /// before. `cycles`: how long it takes, about. Only one thread calls this, next_mark() and reduce().
  void add(unsigned lane, const Marks &after, uint64_t cycles);
  /// Returns when `left` pieces or less are not done. The caller works meanwhile.
  void reduce(uint64_t left);

 private:
  friend class Helper;
  using Lock = std::unique_lock<std::mutex>;

  struct Piece {
    Marks after;
    uint64_t cycles;
  };
  struct Lane {
    unsigned number = 0;
    Helper *helper = nullptr;
    std::deque<Piece> pieces;  ///< not begun
    uint64_t added = 0, done = 0;
    uint64_t cycles = 0;   ///< of `pieces`
    bool running = false;  ///< somebody works here
    bool helped = false;   ///< the helper works for this crew,
    bool awake = false;    ///< and looks for more before it sleeps
    std::condition_variable wake;
  };

  template <class Check>
  bool soon(Lock &lock, Check check);
  bool ready(const Lane &lane) const;
  Lane *find();
  void run(Lane &lane, Lock &lock);
  void rouse(Lane &lane);
  void work(unsigned lane);
  void changed() { changes_.fetch_add(1, std::memory_order_relaxed); }
  bool may_go_on() { return left_ <= enough_ || find(); }

  Gate *const gate_;
  const Work work_;
  const std::function<void()> leave_;
  std::atomic<uint64_t> changes_{0};  ///< of what is below
  std::mutex mutex_;                  // guards it
  std::deque<Lane> lanes_;
  uint64_t left_ = 0;
  bool over_ = false;
  bool waiting_ = false;  ///< reduce() does, for wake_
  uint64_t enough_ = 0;   ///< for it
  std::condition_variable wake_;
};

}  // namespace npu::model

#endif  // NPU_MODEL_CREW_H
