// SPDX-License-Identifier: MIT
// A file of the best schedules that were found. A line is a record:
//
//   v1 network=4c29d1e07ab3f655 lmem=8388608 cycles=498000 use=4194304 block=1048576 ahead=all,judged,262144,8
//      op=12:room=32:result=memory layer=7:never move=12:9
//
// (one line in the file). network, lmem: what it is for; cycles: those of its program; the rest are Choices, whose
// defaults are left out. Lines with # are comments. Lines of other versions are kept, but mean nothing here. Of several
// records for the same, the best counts, so that files can be put together.
#ifndef NPU_COMPILER_RECORDS_H
#define NPU_COMPILER_RECORDS_H

#include "common/status.h"
#include "compiler/schedule/choices.h"

namespace npu::compiler {

/// Counted up when choices get another meaning, or networks that differ the same hash.
inline constexpr int kRecordVersion = 1;

/// What a schedule is for.
struct RecordKey {
  uint64_t network = 0;  ///< hash_of()
  int64_t lmem_bytes = 0;
  auto operator<=>(const RecordKey &) const = default;
};

struct Record {
  Choices choices;
  uint64_t cycles = 0;
  bool operator==(const Record &) const = default;
};

/// Of a network's structure and shapes, and of the chip's cost parameters; not of the values of weights.
uint64_t hash_of(const Lowered &lowered);

class Records {
 public:
  /// `name` is that of the file, for messages.
  Status parse(const std::string &text, const std::string &name);
  std::string text() const;

  /// Null if there is none.
  const Record *find(const RecordKey &key) const;
  /// Keeps the better one of this and what there is.
  void add(const RecordKey &key, Record &&record);
  /// Drops this record if it is there.
  void remove(const RecordKey &key, const Record &record);

 private:
  std::vector<std::string> kept_;  ///< comments, and lines of other versions
  std::map<RecordKey, Record> records_;
};

/// Anything but a file is an error. If it `will_be_written`, it need not exist, and it is an error that it cannot be.
Status read_records(const std::string &path, bool will_be_written, Records &out);
/// Adds a record to a file, which others may do at the same time, and drops one that is wrong, if there is one.
Status write_record(const std::string &path, const RecordKey &key, const Record &record, const Record *wrong);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_RECORDS_H
