// SPDX-License-Identifier: MIT
// Chrome's trace format: an array of events, which readers also take without its end.
#ifndef NPURT_TRACE_FILE_H
#define NPURT_TRACE_FILE_H

#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "runtime/launch/error.h"

namespace npurt {

/// One row of the timeline.
struct Track {
  int64_t process, thread;
};

/// Times in microseconds. Thread-safe.
class TraceFile {
 public:
  static Status create(const std::string &path, std::unique_ptr<TraceFile> &out);
  ~TraceFile();

  /// Names of a track and of the group that it is in; what is named already is left alone.
  void name(Track track, const std::string &process, const std::string &thread);
  /// `category`: by which readers show and hide slices. `args`: members of a JSON object, or "".
  void slice(Track track, const char *category, const std::string &name, double begin, double end,
             const std::string &args);
  /// The value of a counter of a process from a time on; `unit` names it.
  void counter(int64_t process, const std::string &name, const char *unit, double at, double value);
  /// An arrow from a slice to another; id is the arrow's.
  void arrow(uint64_t id, Track from, double at, Track to, double arrival);

 private:
  explicit TraceFile(FILE *file) : file_(file) {}
  void event(const std::string &text);

  std::mutex mutex_;
  FILE *const file_;
  bool empty_ = true;                            // guarded by mutex_, like what follows
  std::set<std::pair<int64_t, int64_t>> named_;  // tracks; thread -1: the group
};

/// With quotes.
std::string json_string(const std::string &text);

}  // namespace npurt

#endif  // NPURT_TRACE_FILE_H
