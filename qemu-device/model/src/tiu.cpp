// SPDX-License-Identifier: MIT
#include "tiu.h"

#include <algorithm>

#include "npu_isa.hpp"

namespace npu::model {

namespace {

constexpr uint64_t kChunk = uint64_t{4} << 20;  // bytes staged between two looks at the job's stop

bool aligned(const void *p) { return reinterpret_cast<uintptr_t>(p) % alignof(float) == 0; }

}  // namespace

/// An operand that comes from memory. Everything happens within one access section.
struct Tiu::Source {
  Memory &memory;
  Buffer &buffer;
  const Pace &pace;
  unsigned place;
  uint64_t va;
  uint64_t bytes;
  const void *data = nullptr;
  Outcome outcome;

  /// Its bytes in one aligned piece: where they lie in DDR, or a copy.
  const void *load() {
    if (data) return data;
    outcome.operand = place;
    const void *p = memory.contiguous(va, bytes, false, outcome.fault);
    if (outcome.fault) return nullptr;
    return data = p && aligned(p) ? p : copy();
  }

  const void *copy() {
    // Only what is mapped is worth room in the host.
    bool constant;
    if ((outcome.fault = memory.probe(va, bytes, constant))) return nullptr;
    uint8_t *to = buffer.reserve(bytes);
    if (!to) {
      outcome.fault = {NPU_STATUS_INTERNAL, false, va};
      return nullptr;
    }
    for (uint64_t done = 0; done < bytes;) {
      const uint64_t n = std::min(kChunk, bytes - done);
      if ((outcome.fault = memory.read(va + done, to + done, n))) return nullptr;
      done += n;
      outcome.stopped = done < bytes && !pace.step();
      if (outcome.stopped) return nullptr;
    }
    return to;
  }
};

const void *Tiu::fetch(void *source) { return static_cast<Source *>(source)->load(); }

/// CONV and MATMUL, whose weights and bias may lie in memory.
template <class Cmd>
Outcome Tiu::product(const Cmd &c, const Operands &ops, const Job &job, const Pace &pace,
                     bool (Backend::*run)(const Cmd &, const void *, const Streamed &, const void *, const void *,
                                          void *)) {
  const Operand &w = ops.at[Operands::kWeights], &b = ops.at[Operands::kParam];
  Memory::Section section(memory_);
  Source weights{memory_, weights_, pace, Operands::kWeights, 0, w.bytes, nullptr, {}};
  Streamed streamed{fetch, &weights, w.bytes, false, job.asid, 0};
  if (w.local()) {
    weights.data = local_.at(w.offset);
  } else {
    const Fault fault = region_address(job, w.region, w.offset, w.bytes, false, weights.va);
    if (fault) return {fault, Operands::kWeights};
    streamed.va = weights.va;
    streamed.constant = memory_.constant(weights.va, w.bytes, streamed.asid);
  }
  Source bias{memory_, bias_, pace, Operands::kParam, 0, b.bytes, nullptr, {}};
  if (b.used && b.local()) {
    bias.data = local_.at(b.offset);
  } else if (b.used) {
    const Fault fault = region_address(job, b.region, b.offset, b.bytes, false, bias.va);
    if (fault) return {fault, Operands::kParam};
    if (!bias.load()) return bias.outcome;
  }
  if ((backend_.*run)(c, at(ops.at[Operands::kIn]), streamed, bias.data, at(ops.at[Operands::kPsum]),
                      at(ops.at[Operands::kOut])))
    return {};
  if (weights.outcome) return weights.outcome;
  return {{NPU_STATUS_INTERNAL, false, weights.va}, Operands::kWeights};
}

void Tiu::pointwise(const Command &command) {
  switch (command.head().opcode) {
    case NPU_OP_POOL: {
      const auto c = hw::decode<npu_cmd_pool>(command.bytes);
      return backend_.pool(c, local_.at(c.in_addr), local_.at(c.out_addr));
    }
    case NPU_OP_ELTWISE: {
      const auto c = hw::decode<npu_cmd_eltwise>(command.bytes);
      const void *b = c.flags & NPU_ELTWISEF_B_IMM ? nullptr : local_.at(c.b_addr);
      return backend_.eltwise(c, local_.at(c.a_addr), b, local_.at(c.out_addr));
    }
    case NPU_OP_UNARY: {
      const auto c = hw::decode<npu_cmd_unary>(command.bytes);
      return backend_.unary(c, local_.at(c.in_addr), local_.at(c.out_addr));
    }
    default: {
      const auto c = hw::decode<npu_cmd_softmax>(command.bytes);
      return backend_.softmax(c, local_.at(c.in_addr), local_.at(c.out_addr));
    }
  }
}

Outcome Tiu::run(const Command &command, const Operands &ops, const Job &job, const Pace &pace) {
  switch (command.head().opcode) {
    case NPU_OP_CONV:
      return product(hw::decode<npu_cmd_conv>(command.bytes), ops, job, pace, &Backend::conv);
    case NPU_OP_MATMUL:
      return product(hw::decode<npu_cmd_matmul>(command.bytes), ops, job, pace, &Backend::matmul);
    default:
      pointwise(command);
      return {};
  }
}

}  // namespace npu::model
