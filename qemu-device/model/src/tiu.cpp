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

using hw::arith::dtype_bytes;
constexpr uint64_t kAccumulator = 4;  // bytes, f32 or s32

/// Elements of a product's vectors, and of the result of a slice that is a link: one pixel, or one row.
uint64_t channels_of(const npu_cmd_conv &c) { return c.oc; }
uint64_t channels_of(const npu_cmd_matmul &c) { return c.n; }

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

  /// Element `at` of the vector that begins at element `first`.
  const void *vector(uint64_t first, uint64_t at) const {
    return static_cast<const uint8_t *>(data) + (first + at) * sizeof(float);
  }

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

/// The accumulators that a slice begins with and leaves: the command's, or those of a chain.
template <class Cmd>
bool Tiu::find_sums(const Call<Cmd> &call, const Product<Cmd> &slice, const void *&psum, void *&out) {
  psum = call.psum.used ? element(call.c.psum_addr, slice.out, kAccumulator) : nullptr;
  out = element(call.c.out_addr, slice.out, dtype_bytes(call.c.out_dtype));
  if (!slice.from_link && !slice.to_link) return true;
  uint8_t *link = sums_.reserve(channels_of(slice.c) * kAccumulator);
  if (!link) return false;
  if (slice.from_link) psum = link;
  if (slice.to_link) out = link;
  return true;
}

template <class Cmd>
Outcome Tiu::run_slice(const Call<Cmd> &call, const Product<Cmd> &slice, Source &weights, const Source &vectors) {
  const uint64_t size = dtype_bytes(call.c.wgt_dtype);
  const uint64_t bytes = slice.weights * size, offset = slice.wgt * size;
  weights.turn_to(call.wgt_va + offset, bytes);
  Streamed streamed{fetch, &weights, bytes, false, call.asid, 0, weights.serial};
  if (call.wgt.local()) {
    weights.data = element(static_cast<uint32_t>(call.wgt.offset), slice.wgt, size);
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
  const void *in = element(call.c.in_addr, slice.in, dtype_bytes(call.c.in_dtype)), *psum;
  void *out;
  if (!find_sums(call, slice, psum, out)) return {{NPU_STATUS_INTERNAL, false, 0}, Operands::kOut};
  // The vectors of the whole command follow each other.
  const uint64_t channels = channels_of(call.c);
  ProductParams params;
  if (slice.c.flags & NPU_CONV_BIAS) params.bias = vectors.vector(0, slice.param);
  if (slice.c.flags & NPU_CONV_REQUANT)
    params.multiplier = vectors.vector(call.c.flags & NPU_CONV_BIAS ? channels : 0, slice.param);
  if (backend_.run(slice.c, in, streamed, params, psum, out)) return {};
  if (weights.outcome) return weights.outcome;
  return {{NPU_STATUS_INTERNAL, false, weights.va}, Operands::kWeights};
}

/// Has the vectors of a command at hand, where it has some: in local memory, or a copy.
Outcome Tiu::load_vectors(const Operand &o, const Job &job, Source &vectors) {
  if (!o.used) return {};
  if (o.local()) {
    vectors.data = local_.at(o.offset);
    return {};
  }
  if (const Fault fault = region_address(job, o.region, o.offset, o.bytes, false, vectors.va))
    return {fault, Operands::kParam};
  Memory::Section section(memory_);
  return vectors.copy() ? Outcome{} : vectors.outcome;
}

/// CONV and MATMUL, whose weights and vectors may lie in memory.
template <class Cmd>
Outcome Tiu::product(const Cmd &c, const Operands &ops, const Job &job, const Pace &pace) {
  const Operand &w = ops.at[Operands::kWeights], &b = ops.at[Operands::kParam];
  Call<Cmd> call{c, w, b, ops.at[Operands::kPsum], job.asid, 0};
  Source weights{memory_, weights_, pace, Operands::kWeights};
  if (!w.local())
    if (const Fault fault = region_address(job, w.region, w.offset, w.bytes, false, call.wgt_va))
      return {fault, Operands::kWeights};
  Source vectors{memory_, vectors_, pace, Operands::kParam, 0, b.bytes};
  if (Outcome o = load_vectors(b, job, vectors)) return o;
  Outcome outcome;
  bool first = true;
  const SliceLimits limits{kStepOperations, std::min(kStepOperations, memory_.ddr_bytes() / sizeof(float))};
  for_slices(c, limits, [&](const Product<Cmd> &slice) {
    outcome.stopped = !first && !pace.step();
    first = false;
    if (outcome.stopped) return false;
    if (pace.repeats()) return true;
    Memory::Section section(memory_);
    outcome = run_slice(call, slice, weights, vectors);
    return !outcome;
  });
  return outcome;
}

/// A command that reads one operand and writes one, both in local memory.
template <class Cmd>
void Tiu::run_slice(const Cmd &c, const Pointwise<Cmd> &slice, const Source &) {
  backend_.run(slice.c, element(c.in_addr, slice.a, dtype_bytes(c.in_dtype)),
               element(c.out_addr, slice.out, dtype_bytes(c.out_dtype)));
}

void Tiu::run_slice(const npu_cmd_eltwise &c, const Pointwise<npu_cmd_eltwise> &slice, const Source &) {
  const bool imm = c.flags & NPU_ELTWISEF_B_IMM;
  backend_.run(slice.c, element(c.a_addr, slice.a, dtype_bytes(c.a_dtype)),
               imm ? nullptr : element(c.b_addr, slice.b, dtype_bytes(c.b_dtype)),
               element(c.out_addr, slice.out, dtype_bytes(c.out_dtype)));
}

void Tiu::run_slice(const npu_cmd_select &c, const Pointwise<npu_cmd_select> &slice, const Source &) {
  const uint64_t size = dtype_bytes(c.dtype);
  backend_.run(slice.c, element(c.a_addr, slice.a, size), element(c.b_addr, slice.b, size),
               element(c.c_addr, slice.c_at, 1), element(c.out_addr, slice.out, size));
}

void Tiu::run_slice(const npu_cmd_norm &c, const Pointwise<npu_cmd_norm> &slice, const Source &vectors) {
  const bool scaled = c.flags & NPU_NORMF_SCALE;
  backend_.run(slice.c, element(c.in_addr, slice.a, dtype_bytes(c.in_dtype)), scaled ? vectors.vector(0, 0) : nullptr,
               c.flags & NPU_NORMF_BIAS ? vectors.vector(scaled ? c.cols : 0, 0) : nullptr,
               element(c.out_addr, slice.out, dtype_bytes(c.out_dtype)));
}

void Tiu::run_slice(const npu_cmd_lut &c, const Pointwise<npu_cmd_lut> &slice, const Source &table) {
  backend_.run(slice.c, element(c.in_addr, slice.a, 1), table.data,
               element(c.out_addr, slice.out, dtype_bytes(c.out_dtype)));
}

void Tiu::run_slice(const npu_cmd_requant &c, const Pointwise<npu_cmd_requant> &slice, const Source &vectors) {
  const bool in_scales = c.flags & NPU_REQUANTF_IN_SCALES;
  backend_.run(slice.c, element(c.in_addr, slice.a, dtype_bytes(c.in_dtype)),
               in_scales ? vectors.vector(0, slice.param) : nullptr,
               c.flags & NPU_REQUANTF_OUT_SCALES ? vectors.vector(in_scales ? c.cols : 0, slice.param) : nullptr,
               element(c.out_addr, slice.out, dtype_bytes(c.out_dtype)));
}

/// Commands whose tensors all lie in local memory.
template <class Cmd>
Outcome Tiu::execute(const Cmd &c, const Operands &ops, const Job &job, const Pace &pace) {
  const Operand &param = ops.at[Operands::kParam];
  Source vectors{memory_, vectors_, pace, Operands::kParam, 0, param.bytes};
  if (Outcome o = load_vectors(param, job, vectors)) return o;
  Outcome outcome;
  bool first = true;
  for_slices(c, {}, [&](const Pointwise<Cmd> &slice) {
    outcome.stopped = !first && !pace.step();
    first = false;
    if (!outcome.stopped && !pace.repeats()) run_slice(c, slice, vectors);
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
  for (Buffer *b : {&weights_, &vectors_, &sums_}) b->trim();
  trim_thread();
}

void Tiu::trim_thread() { backend_.trim(); }

}  // namespace npu::model
