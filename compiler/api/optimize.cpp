// SPDX-License-Identifier: MIT
#include "compiler/api/optimize.h"

#include <chrono>

#include "compiler/schedule/records.h"
#include "compiler/schedule/search.h"

namespace npu::compiler {
namespace {

/// Makes the program of a record; false if there is none, or if it has become another one than it was.
bool make_recorded(const Lowered &lowered, const std::vector<graph::Source> &sources, const Record *record,
                   Program &out) {
  return record && make_program(lowered, sources, record->choices, nullptr, out).ok() && out.cycles() == record->cycles;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Status choose_program(const Lowered &lowered, const std::vector<graph::Source> &sources, const Options &options,
                      Program &out, SearchReport &report) {
  const auto start = std::chrono::steady_clock::now();
  const RecordKey key{hash_of(lowered), options.lmem_bytes};
  Records records;
  if (!options.schedule_file.empty()) NPU_TRY(read_records(options.schedule_file, !!options.optimize, records));
  Program recorded;
  const Record *const record = records.find(key);
  const bool known = make_recorded(lowered, sources, record, recorded);
  ++report.programs;
  report.recorded += known;
  if (known && !options.optimize) {
    out = std::move(recorded);
    return {};
  }
  NPU_TRY(make_program(LoweredCores{{lowered}, {}}, sources, options.lmem_bytes, kMinLmemBytes, out));
  if (!options.optimize) return {};
  const uint64_t plain = out.cycles();
  if (known && better(recorded, out)) out = std::move(recorded);
  const uint64_t before = out.cycles();
  SearchState state;
  NPU_TRY(search(lowered, sources, options.lmem_bytes, kMinLmemBytes, options.optimize, out, state));
  report.tried += state.tried;
  report.plain_cycles += plain;
  report.cycles += out.cycles();
  report.seconds += seconds_since(start);
  if (options.schedule_file.empty() || (known && out.cycles() == before)) return {};
  return write_record(options.schedule_file, key, {out.choices, out.cycles()}, known ? nullptr : record);
}

}  // namespace npu::compiler
