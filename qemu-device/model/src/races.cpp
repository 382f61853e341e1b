// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/races.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "npu_isa.hpp"

namespace npu::model {

namespace {

using hw::arith::i128;

constexpr uint64_t kMaxRuns = 1 << 20;  // of the operand with fewer runs, of two that are compared

/// Does [first, last) hold a byte of the dimensions from `level` on, relative to their lowest byte?
bool touches(const Footprint &f, unsigned level, i128 first, i128 last) {
  if (last <= 0 || first >= f.span(level)) return false;
  if (level == f.count) return true;
  const i128 step = f.stride[level], inner = f.span(level + 1);
  i128 i = first < inner ? 0 : (first - inner) / step + 1;
  for (; i < f.dims[level] && i * step < last; ++i)
    if (i * step >= first || touches(f, level + 1, first - i * step, last - i * step)) return true;
  return false;
}

/// Does a run of the dimensions of `a` from `level` on, whose lowest byte is at `at`, touch `b`?
bool any_run(const Footprint &a, unsigned level, i128 at, const Footprint &b) {
  const i128 low = at - b.low;
  if (low >= b.span() || low + a.span(level) <= 0) return false;
  if (level == a.count) return touches(b, 0, low, low + a.size);
  for (uint64_t i = 0; i < a.dims[level]; ++i)
    if (any_run(a, level + 1, at + i128{a.stride[level]} * i, b)) return true;
  return false;
}

Error race_at(const Operand &o) {
  Error e;
  e.status = NPU_STATUS_INTERNAL;
  e.region = o.region;
  e.offset = o.offset;
  e.bytes = saturate32(o.bytes);
  e.access = o.write ? NPU_ACCESS_WRITE : NPU_ACCESS_READ;
  return e;
}

}  // namespace

// ---- footprints ----

void Footprint::add(uint64_t n, int64_t distance) {
  if (n == 1 || distance == 0) return;
  dims[count] = n;
  stride[count++] = static_cast<uint64_t>(std::abs(distance));
}

void Footprint::normalise() {
  for (unsigned i = 1; i < count; ++i)
    for (unsigned j = i; j > 0 && stride[j - 1] < stride[j]; --j) {
      std::swap(dims[j - 1], dims[j]);
      std::swap(stride[j - 1], stride[j]);
    }
  while (count > 0 && stride[count - 1] <= size) {
    --count;
    size += stride[count] * (dims[count] - 1);
  }
}

uint64_t Footprint::span(unsigned level) const {
  uint64_t bytes = size;
  for (unsigned i = level; i < count; ++i) bytes += (dims[i] - 1) * stride[i];
  return bytes;
}

uint64_t Footprint::runs() const {
  uint64_t n = 1;
  for (unsigned i = 0; i < count; ++i) n = hw::arith::mul(n, dims[i]);
  return n;
}

bool Footprint::meets(const Footprint &other) const {
  const bool fewer = runs() <= other.runs();
  const Footprint &a = fewer ? *this : other, &b = fewer ? other : *this;
  return a.runs() <= kMaxRuns && any_run(a, 0, a.low, b);
}

// ---- order ----

void Races::join(Clock &clock, const Clock &other) {
  for (size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

/// What the program demands before this command: its predecessor, its `wait`, the semaphore that it waited for.
void Races::order(unsigned engine, const Command &command) {
  Engine &e = engine_[engine];
  e.known[engine] = e.first + static_cast<uint32_t>(e.history.size());
  const unsigned other = engine ^ 1;
  const uint32_t wait = command.head().wait;
  if (wait > e.known[other]) {
    const Engine &o = engine_[other];
    if (wait > o.first) join(e.known, o.history[wait - 1 - o.first].known);
    e.known[other] = std::max(e.known[other], wait);
  }
  if (command.head().opcode == NPU_OP_SEM_WAIT)
    join(e.known, semaphore_[hw::decode<npu_cmd_sem_wait>(command.bytes).sem]);
}

void Races::signalled(unsigned engine, uint32_t sem) { join(semaphore_[sem], engine_[engine].history.back().known); }

// ---- accesses ----

Races::Access Races::access_of(unsigned engine, const hw::OperandShape &shape, const Operand &o) const {
  Access a;
  a.used = o.used;
  if (!o.used) return a;
  a.write = o.write;
  a.space = o.local() ? engine / 2 : kMemory;
  a.bytes.size = shape.size;
  for (unsigned i = 0; i < shape.steps; ++i) a.bytes.add(shape.step[i].count, shape.step[i].stride * shape.size);
  a.bytes.normalise();
  a.bytes.low = o.offset + (o.local() ? 0 : job_.regions[o.region].va);
  return a;
}

std::string Races::describe(unsigned engine, uint32_t index, const Access &a) const {
  char text[160];
  std::snprintf(text, sizeof text, "%s command %u of the job's core %u %s %llu bytes at 0x%llx of %s",
                engine % 2 == NPU_ENGINE_TIU ? "TIU" : "GDMA", index, engine / 2, a.write ? "writes" : "reads",
                static_cast<unsigned long long>(a.bytes.span()), static_cast<unsigned long long>(a.bytes.low),
                a.space == kMemory ? "memory" : "local memory");
  return text;
}

Error Races::begin(unsigned engine, const Command &command, const Operands &operands, std::string &text) {
  order(engine, command);
  Engine &e = engine_[engine];
  Begun begun;
  const hw::OperandList shapes = hw::operands_of(command.bytes);
  for (unsigned p = 0; p < Operands::kCount; ++p) begun.accesses[p] = access_of(engine, shapes[p], operands.at[p]);
  const uint32_t index = e.known[engine];
  for (unsigned other = 0; other < engines_; ++other) {
    if (other == engine) continue;
    const Engine &o = engine_[other];
    for (size_t i = std::max(e.known[other], o.first) - o.first; i < o.history.size(); ++i)
      for (unsigned p = 0; p < Operands::kCount; ++p)
        for (const Access &theirs : o.history[i].accesses) {
          const Access &ours = begun.accesses[p];
          if (!ours.used || !theirs.used || ours.space != theirs.space || !(ours.write || theirs.write)) continue;
          if (!ours.bytes.meets(theirs.bytes)) continue;
          text = describe(engine, index, ours) + "; nothing orders it behind " +
                 describe(other, o.first + static_cast<uint32_t>(i), theirs);
          return race_at(operands.at[p]);
        }
  }
  begun.known = e.known;
  begun.known[engine] = index + 1;
  e.history.push_back(begun);
  if (e.history.size() > kWindow) {
    e.history.pop_front();
    ++e.first;
  }
  return {};
}

}  // namespace npu::model
