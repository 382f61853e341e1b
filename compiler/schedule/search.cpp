// SPDX-License-Identifier: MIT
#include "compiler/schedule/search.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "compiler/schedule/mutate.h"

namespace npu::compiler {
namespace {

constexpr size_t kBatch = 8;     ///< candidates that are made from the same parents, whatever the number of processors
constexpr size_t kParents = 12;  ///< that are kept
constexpr size_t kPatience = 100;  ///< batches without anything better after which the search begins again
constexpr size_t kCross = 6;       ///< one candidate of so many has two parents

/// Choices, and what became of them.
struct Candidate {
  Choices choices;
  uint64_t cycles = UINT64_MAX;
  int64_t lmem_bytes = INT64_MAX;
  std::vector<uint64_t> waits;

  bool made() const { return cycles != UINT64_MAX; }
  bool same_result(const Candidate &b) const { return cycles == b.cycles && lmem_bytes == b.lmem_bytes; }
  /// Of equal results the simpler choices come first.
  bool operator<(const Candidate &b) const {
    return std::tuple(cycles, lmem_bytes, choices.size()) < std::tuple(b.cycles, b.lmem_bytes, b.choices.size());
  }
};

void judge(const Program &program, Candidate &c) {
  c.cycles = program.streams.timeline.cycles;
  c.lmem_bytes = program.lmem_bytes - program.gap_bytes;
  c.waits = waits_of(program);
}

/// Runs f(worker, i) for all i below `count`, on one thread a worker. An exception comes out of here.
template <class F>
void share_out(size_t workers, size_t count, F f) {
  std::atomic<size_t> next = 0;
  std::vector<std::exception_ptr> failed(workers);
  const auto work = [&](size_t worker) {
    try {
      for (size_t i; (i = next++) < count;) f(worker, i);
    } catch (...) {
      failed[worker] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (size_t w = 1; w < workers; ++w) threads.emplace_back(work, w);
    work(0);
  }
  for (const std::exception_ptr &e : failed)
    if (e) std::rethrow_exception(e);
}

class Search {
 public:
  Search(const Lowered &lowered, const std::vector<graph::Source> &sources, int64_t lmem_bytes)
      : lowered_(lowered),
        sources_(sources),
        mutator_(lowered, lmem_bytes),
        memos_(std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kBatch)) {}

  void run(const KeepSearching &keep, const Program &start, SearchState &state) {
    first_.choices = start.choices;
    judge(start, first_);
    best_ = first_;
    parents_ = {first_};
    state = {0, first_.cycles, first_.cycles};
    for (size_t stale = 0; keep(state); ++stale) {
      std::vector<Candidate> batch = next_batch();
      make(batch);
      state.tried += batch.size();
      for (Candidate &c : batch) {
        if (c < best_) stale = 0;
        add(std::move(c));
      }
      if (parents_[0] < best_) best_ = parents_[0];
      state.cycles = best_.cycles;
      if (stale == kPatience) begin_again(stale);
    }
  }

  const Choices &best() const { return best_.choices; }

 private:
  /// Of two random parents the better one.
  const Candidate &parent() {
    const size_t n = parents_.size();
    return parents_[std::min(mutator_.below(n), mutator_.below(n))];
  }

  std::vector<Candidate> next_batch() {
    std::vector<Candidate> batch(kBatch);
    for (Candidate &c : batch) {
      const Candidate &from = parent();
      c.choices = mutator_.below(kCross) ? from.choices : mutator_.crossed(from.choices, parent().choices);
      c.choices = mutator_.mutated(c.choices, from.waits);
    }
    return batch;
  }

  /// A candidate of which no program can be made stays as it is, the worst there is.
  void make(std::vector<Candidate> &batch) {
    share_out(memos_.size(), batch.size(), [&](size_t worker, size_t i) {
      Program program;
      if (make_program(lowered_, sources_, batch[i].choices, &memos_[worker], program).ok()) judge(program, batch[i]);
    });
  }

  /// Parents have different results, so that they do not all become the same.
  void add(Candidate &&c) {
    if (!c.made()) return;
    const auto same =
        std::find_if(parents_.begin(), parents_.end(), [&](const Candidate &p) { return p.same_result(c); });
    if (same != parents_.end()) {
      if (c < *same) *same = std::move(c);
      return;
    }
    parents_.insert(std::upper_bound(parents_.begin(), parents_.end(), c), std::move(c));
    if (parents_.size() > kParents) parents_.pop_back();
  }

  /// From the start, and the next time from the best one.
  void begin_again(size_t &stale) {
    from_best_ = !from_best_;
    parents_ = {from_best_ ? best_ : first_};
    stale = 0;
  }

  const Lowered &lowered_;
  const std::vector<graph::Source> &sources_;
  Mutator mutator_;
  std::vector<PlanMemo> memos_;  ///< one a worker
  Candidate first_, best_;
  std::vector<Candidate> parents_;  ///< the best one first
  bool from_best_ = true;
};

}  // namespace

Status search(const Lowered &lowered, const std::vector<graph::Source> &sources, int64_t lmem_bytes,
              int64_t least_bytes, const KeepSearching &keep, Program &program, SearchState &state) {
  if (lowered.ops.empty()) return {};
  Search s(lowered, sources, lmem_bytes);
  s.run(keep, program, state);
  if (s.best() == program.choices) return {};
  program = {};
  NPU_TRY(make_program(lowered, sources, s.best(), nullptr, program));
  Choices smaller = s.best();
  smaller.lmem_bytes = needed_lmem(program, least_bytes);
  Program small;
  if (smaller.lmem_bytes < program.choices.lmem_bytes && make_program(lowered, sources, smaller, nullptr, small).ok() &&
      small.streams.timeline.cycles <= program.streams.timeline.cycles)
    program = std::move(small);
  return {};
}

}  // namespace npu::compiler
