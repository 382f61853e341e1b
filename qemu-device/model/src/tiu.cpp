// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/tiu.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "npu_isa.hpp"
#include "qemu-device/model/src/slices.hpp"

namespace npu::model {

namespace {

constexpr uint64_t kChunk = uint64_t{4} << 20;  // bytes staged between two looks at the job's stop

/// A number for a streamed operand: of all cores, since one thread may run several of them.
uint64_t next_serial() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

bool aligned(const void *p) { return reinterpret_cast<uintptr_t>(p) % alignof(float) == 0; }

}  // namespace

/// An operand that comes from memory, or a part of one.
struct Tiu::Source {
  Memory &memory;
  Buffer &buffer;
  const Pace &pace;
  unsigned place;
  uint64_t va = 0;
  uint64_t bytes = 0;
  const void *data = nullptr;  ///< its bytes, once they are known
  bool copied = false;         ///< data is the buffer's: it outlives the access section
  uint64_t serial = 0;         ///< of the part
  Outcome outcome = {};

  /// Its bytes in one aligned piece: where they lie in DDR, or a copy.
  const void *load() {
    if (data) return data;
    outcome.operand = place;
    const void *p = memory.contiguous(va, bytes, false, outcome.fault);
    if (outcome.fault) return nullptr;
    return p && aligned(p) ? data = p : copy();
  }

  const void *copy() {
    outcome.operand = place;
    // Only what is mapped is worth room in the host.
    outcome.stopped = !memory.probe(va, bytes, pace, outcome.fault);
    if (outcome) return nullptr;
    uint8_t *to = buffer.reserve(bytes);
    if (!to) {
      outcome.fault = {NPU_STATUS_INTERNAL, false, va};
      return nullptr;
    }
    for (uint64_t done = 0; done < bytes;) {
      const uint64_t n = std::min(kChunk, bytes - done);
      if ((outcome.fault = memory.read(va + done, to + done, n))) return nullptr;
      done += n;
      outcome.stopped = done < bytes && !pace.look();
      if (outcome.stopped) return nullptr;
    }
    copied = true;
    return data = to;
  }

  /// Turns to another part of the operand, in a new access section.
  void turn_to(uint64_t part_va, uint64_t part_bytes) {
    const bool other = serial == 0 || va != part_va || bytes != part_bytes;
    if (!other && copied) return;
    data = nullptr;
    copied = false;
    va = part_va;
    bytes = part_bytes;
    if (other) serial = next_serial();
  }
};

/// What the slices of CONV or MATMUL have in common.
template <class Cmd>
struct Tiu::Call {
  const Cmd &c;
  const Operand &wgt, &param, &psum;
  uint32_t asid;
  uint64_t wgt_va;  ///< of weights in memory
};

const void *Tiu::fetch(void *source) { return static_cast<Source *>(source)->load(); }

/// The input of a slice. One with fewer channels gets theirs packed.
const void *Tiu::input(const npu_cmd_conv &whole, const Product<npu_cmd_conv> &slice) {
  const float *from = element(whole.in_addr, slice.in);
  if (slice.c.ic == whole.ic) return from;
  const size_t cells = size_t{slice.c.ih} * slice.c.iw, row = slice.c.ic * sizeof(float);
  uint8_t *to = gathered_.reserve(cells * row);
  if (!to) return nullptr;
  for (size_t i = 0; i < cells; ++i) std::memcpy(to + i * row, from + i * whole.ic, row);
  return to;
}

const void *Tiu::input(const npu_cmd_matmul &whole, const Product<npu_cmd_matmul> &slice) {
  return element(whole.in_addr, slice.in);
}

template <class Cmd>
Outcome Tiu::run_slice(const Call<Cmd> &call, const Product<Cmd> &slice, Source &weights, const Source &bias) {
  const uint64_t bytes = slice.weights * sizeof(float), offset = slice.wgt * sizeof(float);
  weights.turn_to(call.wgt_va + offset, bytes);
  Streamed streamed{fetch, &weights, bytes, false, call.asid, 0, weights.serial};
  if (call.wgt.local()) {
    weights.data = element(static_cast<uint32_t>(call.wgt.offset), slice.wgt);
    // A copy of constant memory that has not changed since has the identity of what it was copied from.
    Origins::Origin origin;
    streamed.constant = local_.origins().find(call.wgt.offset + offset, call.wgt.offset + offset + bytes, origin) &&
                        memory_.constant(origin.va, bytes, weights.pace, streamed.asid) &&
                        streamed.asid == origin.identity;
    streamed.va = origin.va;
  } else {
    streamed.va = weights.va;
    streamed.constant = memory_.constant(weights.va, bytes, weights.pace, streamed.asid);
  }
  const void *in = input(call.c, slice);
  if (!in) return {{NPU_STATUS_INTERNAL, false, 0}, Operands::kIn};
  float *out = element(call.c.out_addr, slice.out);
  const void *psum = call.psum.used ? element(call.c.psum_addr, slice.out) : nullptr;
  if (slice.chained) psum = out;
  const bool biased = slice.c.flags & NPU_CONV_BIAS;
  const void *param = biased ? static_cast<const float *>(bias.data) + slice.param : nullptr;
  if (backend_.run(slice.c, in, streamed, param, psum, out)) return {};
  if (weights.outcome) return weights.outcome;
  return {{NPU_STATUS_INTERNAL, false, weights.va}, Operands::kWeights};
}

/// CONV and MATMUL, whose weights and bias may lie in memory.
template <class Cmd>
Outcome Tiu::product(const Cmd &c, const Operands &ops, const Job &job, const Pace &pace) {
  const Operand &w = ops.at[Operands::kWeights], &b = ops.at[Operands::kParam];
  Call<Cmd> call{c, w, b, ops.at[Operands::kPsum], job.asid, 0};
  Source weights{memory_, weights_, pace, Operands::kWeights};
  if (!w.local())
    if (const Fault fault = region_address(job, w.region, w.offset, w.bytes, false, call.wgt_va))
      return {fault, Operands::kWeights};
  Source bias{memory_, bias_, pace, Operands::kParam, 0, b.bytes};
  if (b.used && b.local()) {
    bias.data = local_.at(b.offset);
  } else if (b.used) {
    if (const Fault fault = region_address(job, b.region, b.offset, b.bytes, false, bias.va))
      return {fault, Operands::kParam};
    Memory::Section section(memory_);
    if (!bias.copy()) return bias.outcome;
  }
  Outcome outcome;
  bool first = true;
  const SliceLimits limits{kStepOperations, std::min(kStepOperations, memory_.ddr_bytes() / sizeof(float))};
  for_slices(c, limits, [&](const Product<Cmd> &slice) {
    outcome.stopped = !first && !pace.step();
    first = false;
    if (outcome.stopped) return false;
    if (pace.repeats()) return true;
    Memory::Section section(memory_);
    outcome = run_slice(call, slice, weights, bias);
    return !outcome;
  });
  return outcome;
}

/// A command that reads one operand and writes one, both in local memory.
template <class Cmd>
void Tiu::run_slice(const Cmd &c, const Pointwise<Cmd> &slice) {
  backend_.run(slice.c, element(c.in_addr, slice.a), element(c.out_addr, slice.out));
}

void Tiu::run_slice(const npu_cmd_eltwise &c, const Pointwise<npu_cmd_eltwise> &slice) {
  const void *b = c.flags & NPU_ELTWISEF_B_IMM ? nullptr : element(c.b_addr, slice.b);
  backend_.run(slice.c, element(c.a_addr, slice.a), b, element(c.out_addr, slice.out));
}

/// Commands whose operands all lie in local memory.
template <class Cmd>
Outcome Tiu::execute(const Cmd &c, const Operands &, const Job &, const Pace &pace) {
  Outcome outcome;
  bool first = true;
  for_slices(c, {}, [&](const Pointwise<Cmd> &slice) {
    outcome.stopped = !first && !pace.step();
    first = false;
    if (!outcome.stopped && !pace.repeats()) run_slice(c, slice);
    return !outcome.stopped;
  });
  return outcome;
}

/// Commands of any engine, which visit leaves out, act by their order alone.
Outcome Tiu::run(const Command &command, const Operands &ops, const Job &job, const Pace &pace) {
  Outcome outcome;
  hw::visit_tiu(command.bytes, [&](const auto &c) { outcome = execute(c, ops, job, pace); });
  return outcome;
}

void Tiu::trim() {
  for (Buffer *b : {&weights_, &bias_, &gathered_}) b->trim();
  trim_thread();
}

void Tiu::trim_thread() { backend_.trim(); }

}  // namespace npu::model
