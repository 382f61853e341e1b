// SPDX-License-Identifier: MIT
#include "ort/ep/profile.h"

#include <unistd.h>

#include <utility>

namespace npu::ort {
namespace {

const EpApi25 &api25() { return static_cast<const EpApi25 &>(ep_api()); }

int64_t microseconds(Profile::Clock::duration d) {
  return std::chrono::duration_cast<std::chrono::microseconds>(d).count();
}

}  // namespace

class Profiler : public OrtEpProfilerImpl {
 public:
  explicit Profiler(std::shared_ptr<Profile> profile) : OrtEpProfilerImpl{}, profile_(std::move(profile)) {
    ort_version_supported = kAbiProfiler;
    Release = [](OrtEpProfilerImpl *p) noexcept { delete self(p); };
    StartProfiling = [](OrtEpProfilerImpl *p, int64_t since_start_ns) noexcept {
      return guarded([&] { return self(p)->start(since_start_ns), Status(); });
    };
    StartEvent = [](OrtEpProfilerImpl *, uint64_t) noexcept -> OrtStatus * { return nullptr; };
    StopEvent = [](OrtEpProfilerImpl *, uint64_t, const OrtProfilingEvent *) noexcept -> OrtStatus * {
      return nullptr;
    };
    EndProfiling = [](OrtEpProfilerImpl *p, OrtProfilingEventsContainer *out) noexcept {
      return guarded([&] { return self(p)->end(out); });
    };
  }
  ~Profiler() {
    const std::lock_guard lock(profile_->mutex_);
    profile_->profilers_.erase(this);
  }

  void add(const Profile::Event &event) { events_.push_back(event); }

 private:
  static Profiler *self(OrtEpProfilerImpl *p) { return static_cast<Profiler *>(p); }

  void start(int64_t since_start_ns) {
    const std::lock_guard lock(profile_->mutex_);
    zero_ = Profile::Clock::now() - std::chrono::nanoseconds(since_start_ns);
    profile_->profilers_.insert(this);
  }

  Status end(OrtProfilingEventsContainer *out) {
    std::vector<Profile::Event> events;
    {
      const std::lock_guard lock(profile_->mutex_);
      profile_->profilers_.erase(this);
      events.swap(events_);
    }
    for (const Profile::Event &e : events) NPU_TRY(hand_over(e, out));
    return {};
  }

  Status hand_over(const Profile::Event &e, OrtProfilingEventsContainer *out) const {
    const char *const keys[] = {"provider", "cycles"}, *const values[] = {kProviderName, e.cycles.c_str()};
    OrtProfilingEvent *event = nullptr;
    NPU_TRY(
        take(api25().CreateProfilingEvent(e.category, getpid(), e.thread, e.name.c_str(), microseconds(e.begin - zero_),
                                          e.length_us, keys, values, e.cycles.empty() ? 1 : 2, &event)));
    OrtStatus *const status = api25().ProfilingEventsContainer_AddEvents(out, &event, 1);
    api25().ReleaseProfilingEvent(event);
    return take(status);
  }

  const std::shared_ptr<Profile> profile_;
  Profile::Clock::time_point zero_;  ///< the beginning of ONNX Runtime's trace
  std::vector<Profile::Event> events_;
};

bool Profile::active() const {
  const std::lock_guard lock(mutex_);
  return !profilers_.empty();
}

void Profile::add(const Event &event) {
  const std::lock_guard lock(mutex_);
  for (Profiler *p : profilers_) p->add(event);
}

void Profile::add_host(const std::string &name, Clock::time_point begin) {
  add({OrtProfilingEventCategory_API, name, gettid(), begin, microseconds(Clock::now() - begin), ""});
}

void Profile::add_chip(const std::string &name, Clock::time_point begin, uint64_t cycles, uint32_t clock_khz) {
  const auto length = static_cast<int64_t>(clock_khz ? cycles * 1000 / clock_khz : 0);
  add({OrtProfilingEventCategory_KERNEL, name, gettid(), begin, length, std::to_string(cycles)});
}

OrtEpProfilerImpl *make_profiler(std::shared_ptr<Profile> profile) { return new Profiler(std::move(profile)); }

}  // namespace npu::ort
