// SPDX-License-Identifier: MIT
// Modelled time: docs/reference/hardware.md section 8 as code, linked by the chip model and by the compiler alike.
#ifndef NPU_HW_COST_HPP
#define NPU_HW_COST_HPP

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "npu_arith.hpp"
#include "npu_hw_params.h"
#include "npu_isa.hpp"

namespace npu::hw {

/// Cost model parameters; defaults are those of the chip. Read from the registers of the same names.
struct CostParams {
  uint32_t mac_ic = NPU_COST_MAC_IC, mac_oc = NPU_COST_MAC_OC, mac_pixels = NPU_COST_MAC_PIXELS;
  uint32_t lmem_bw = NPU_COST_LMEM_BW, ew_lanes = NPU_COST_EW_LANES;
  uint32_t tiu_fixed = NPU_COST_TIU_FIXED, gdma_fixed = NPU_COST_GDMA_FIXED;
  uint32_t ddr_latency = NPU_COST_DDR_LATENCY, ddr_bw = NPU_COST_DDR_BW;
  uint32_t rate_16 = NPU_COST_RATE_16, rate_8 = NPU_COST_RATE_8;

  /// How many elements of a type take the place of one of 32 bits in the array and in the lanes.
  constexpr uint32_t rate(uint8_t dtype) const {
    switch (arith::dtype_bytes(dtype)) {
      case 1:
        return rate_8;
      case 2:
        return rate_16;
      default:
        return 1;
    }
  }
};

/// Cost of one command, all saturated at 2^62.
struct Cost {
  uint64_t cycles = 0;      ///< compute cycles (TIU) or the fixed part (GDMA)
  uint64_t flow_bytes = 0;  ///< memory flow as the model counts it, 0: none
  uint64_t macs = 0;
  bool flow_after = false;  ///< the flow starts after `cycles` (GDMA), not with them (TIU)
};

namespace cost_detail {

using namespace arith;

/// Does a function take four passes? One is enough for those that compare, scale by a constant, negate or round.
constexpr bool is_slow(uint8_t act) {
  switch (act) {
    case NPU_ACT_NONE:
    case NPU_ACT_RELU:
    case NPU_ACT_CLIP:
    case NPU_ACT_LEAKY_RELU:
    case NPU_ACT_ABS:
    case NPU_ACT_NEG:
    case NPU_ACT_FLOOR:
    case NPU_ACT_CEIL:
    case NPU_ACT_ROUND:
    case NPU_ACT_SIGN:
      return false;
    default:
      return true;
  }
}
constexpr uint64_t passes(uint8_t act) { return is_slow(act) ? 4 : 1; }

/// Adds an operand that is either in local memory or streamed.
constexpr void operand(uint8_t region, uint64_t bytes, uint64_t &local, uint64_t &flow) {
  if (region == NPU_REGION_LOCAL)
    local = add(local, bytes);
  else
    flow = add(flow, round64(bytes));
}

/// What a TIU command takes besides its fixed cycles: arithmetic beside the traffic of local memory.
inline Cost tiu(uint64_t arithmetic, uint64_t local, uint64_t flow, uint64_t extra, uint64_t macs,
                const CostParams &p) {
  const uint64_t busy = std::max(arithmetic, ceil_div(local, p.lmem_bw));
  return {add(p.tiu_fixed, add(busy, extra)), flow, macs, false};
}

/// Cycles of the lanes for so many passes over elements whose widest type has this rate.
inline uint64_t lanes(uint64_t count, uint64_t elements, uint32_t rate, const CostParams &p) {
  return mul(count, ceil_div(elements, mul(p.ew_lanes, rate)));
}
/// The activation of a product or of ELTWISE: in 32 bits.
inline uint64_t fused(uint8_t act, uint64_t elements, const CostParams &p) {
  return is_slow(act) ? lanes(4, elements, 1, p) : 0;
}
/// Vectors of parameters that a product reads.
inline uint64_t vectors(uint16_t flags) {
  return uint64_t{(flags & NPU_CONV_BIAS) != 0} + uint64_t{(flags & NPU_CONV_REQUANT) != 0};
}

inline Cost cost(const npu_cmd_conv &c, const CostParams &p) {
  const uint64_t pixels = mul(c.n, c.oh, c.ow), window = mul(c.kh, c.kw, c.ic / c.groups), out = mul(pixels, c.oc);
  uint64_t local = add(mul(c.n, c.ih, c.iw, c.ic, dtype_bytes(c.in_dtype)), mul(out, dtype_bytes(c.out_dtype))),
           flow = 0;
  if (c.flags & NPU_CONV_PSUM_IN) local = add(local, mul(out, 4));
  operand(c.wgt_region, mul(c.oc, window, dtype_bytes(c.wgt_dtype)), local, flow);
  if (const uint64_t n = vectors(c.flags)) operand(c.param_region, mul(n, c.oc, 4), local, flow);
  const uint64_t array = mul(pixels, ceil_div(window, p.mac_ic), ceil_div(c.oc, p.mac_oc));
  return tiu(ceil_div(array, mul(p.mac_pixels, p.rate(c.in_dtype))), local, flow, fused(c.act, out, p),
             mul(out, window), p);
}

inline Cost cost(const npu_cmd_matmul &c, const CostParams &p) {
  const uint64_t rows = mul(c.batch, c.m), out = mul(rows, c.n);
  uint64_t local =
      add(mul(c.a_batch_stride ? c.batch : 1, c.m, c.k, dtype_bytes(c.in_dtype)), mul(out, dtype_bytes(c.out_dtype)));
  uint64_t flow = 0;
  if (c.flags & NPU_CONV_PSUM_IN) local = add(local, mul(out, 4));
  operand(c.wgt_region, mul(c.b_batch_stride ? c.batch : 1, c.k, c.n, dtype_bytes(c.wgt_dtype)), local, flow);
  if (const uint64_t n = vectors(c.flags)) operand(c.param_region, mul(n, c.n, 4), local, flow);
  const uint64_t array = mul(rows, ceil_div(c.k, p.mac_ic), ceil_div(c.n, p.mac_oc));
  return tiu(ceil_div(array, mul(p.mac_pixels, p.rate(c.in_dtype))), local, flow, fused(c.act, out, p), mul(out, c.k),
             p);
}

/// A vector of parameters beside them: `bytes` in a region or in local memory.
struct Vector {
  uint8_t region = NPU_REGION_LOCAL;
  uint64_t bytes = 0;
};

/// A command with one operand and one result in local memory.
inline Cost simple(uint64_t count, uint64_t in, uint8_t in_dtype, uint64_t out, uint8_t out_dtype, uint64_t work,
                   const CostParams &p, const Vector &vector = {}) {
  uint64_t local = add(mul(in, dtype_bytes(in_dtype)), mul(out, dtype_bytes(out_dtype))), flow = 0;
  operand(vector.region, vector.bytes, local, flow);
  return tiu(lanes(count, work, std::min(p.rate(in_dtype), p.rate(out_dtype)), p), local, flow, 0, 0, p);
}

inline Cost cost(const npu_cmd_pool &c, const CostParams &p) {
  const uint64_t out = mul(c.n, c.oh, c.ow, c.c);
  return simple(mul(c.kh, c.kw), mul(c.n, c.ih, c.iw, c.c), c.in_dtype, out, c.out_dtype, out, p);
}

/// Distinct elements of a broadcast operand.
inline uint64_t distinct(const uint32_t (&dims)[5], const uint32_t (&stride)[5]) {
  uint64_t n = 1;
  for (int i = 0; i < 5; ++i)
    if (stride[i]) n = mul(n, dims[i]);
  return n;
}

inline Cost cost(const npu_cmd_eltwise &c, const CostParams &p) {
  const uint64_t out = mul(c.dims[0], c.dims[1], c.dims[2], c.dims[3], c.dims[4]);
  uint64_t local = add(mul(out, dtype_bytes(c.out_dtype)), mul(distinct(c.dims, c.a_stride), dtype_bytes(c.a_dtype)));
  uint32_t rate = std::min(p.rate(c.a_dtype), p.rate(c.out_dtype));
  if (!(c.flags & NPU_ELTWISEF_B_IMM)) {
    local = add(local, mul(distinct(c.dims, c.b_stride), dtype_bytes(c.b_dtype)));
    rate = std::min(rate, p.rate(c.b_dtype));
  }
  const uint64_t count = c.subop == NPU_ELTWISE_DIV || c.subop == NPU_ELTWISE_POW ? 4 : 1;
  return tiu(lanes(count, out, rate, p), local, 0, fused(c.act, out, p), 0, p);
}

inline Cost cost(const npu_cmd_unary &c, const CostParams &p) {
  return simple(passes(c.subop), c.count, c.in_dtype, c.count, c.out_dtype, c.count, p);
}

inline Cost cost(const npu_cmd_softmax &c, const CostParams &p) {
  const uint64_t n = mul(c.rows, c.cols);
  return simple(8, n, c.in_dtype, n, c.out_dtype, n, p);
}

inline Cost cost(const npu_cmd_reduce &c, const CostParams &p) {
  const uint64_t in = mul(c.outer, c.n, c.inner);
  return simple(1, in, c.in_dtype, mul(c.outer, c.inner), c.out_dtype, in, p);
}

inline Cost cost(const npu_cmd_norm &c, const CostParams &p) {
  const uint64_t n = mul(c.rows, c.cols),
                 vectors = uint64_t{(c.flags & NPU_NORMF_SCALE) != 0} + uint64_t{(c.flags & NPU_NORMF_BIAS) != 0};
  return simple(4, n, c.in_dtype, n, c.out_dtype, n, p, {c.param_region, mul(vectors, c.cols, 4)});
}

inline Cost cost(const npu_cmd_lut &c, const CostParams &p) {
  return simple(1, c.count, c.in_dtype, c.count, c.out_dtype, c.count, p,
                {c.param_region, 256 * dtype_bytes(c.out_dtype)});
}

inline Cost cost(const npu_cmd_requant &c, const CostParams &p) {
  const uint64_t n = mul(c.rows, c.cols), vectors = uint64_t{(c.flags & NPU_REQUANTF_IN_SCALES) != 0} +
                                                    uint64_t{(c.flags & NPU_REQUANTF_OUT_SCALES) != 0};
  return simple(passes(c.act), n, c.in_dtype, n, c.out_dtype, n, p, {c.param_region, mul(vectors, c.cols, 4)});
}

inline Cost cost(const npu_cmd_select &c, const CostParams &p) {
  const uint64_t out = mul(c.dims[0], c.dims[1], c.dims[2], c.dims[3], c.dims[4]);
  const uint64_t values = add(out, add(distinct(c.dims, c.a_stride), distinct(c.dims, c.b_stride)));
  const uint64_t local = add(mul(values, dtype_bytes(c.dtype)), distinct(c.dims, c.c_stride));
  return tiu(lanes(1, out, p.rate(c.dtype), p), local, 0, 0, 0, p);
}

/// Bytes of one memory side of a strided transfer: rows, each rounded up to 64 bytes.
inline uint64_t side_bytes(const uint32_t (&dims)[6], const int32_t (&stride)[6], uint32_t size) {
  uint64_t run = 1, total = 1;
  bool dense = true;
  for (int i = 5; i >= 0; --i) {
    total = mul(total, dims[i]);
    if (dims[i] == 1) continue;
    dense = dense && stride[i] > 0 && static_cast<uint64_t>(stride[i]) == run;
    if (dense) run = mul(run, dims[i]);
  }
  return mul(total / run, round64(mul(run, size)));
}

inline uint64_t local_bytes(const uint32_t (&dims)[6], uint32_t size) {
  uint64_t n = size;
  for (uint32_t d : dims) n = mul(n, d);
  return n;
}

inline Cost transfer(uint64_t flow, uint64_t local, bool memory, const CostParams &p) {
  if (memory) return {add(p.gdma_fixed, p.ddr_latency), flow, 0, true};
  return {add(p.gdma_fixed, ceil_div(local, p.lmem_bw)), 0, 0, true};
}

inline Cost cost(const npu_cmd_copy &c, const CostParams &p) {
  const bool src = c.src_region != NPU_REGION_LOCAL, dst = c.dst_region != NPU_REGION_LOCAL;
  const uint32_t ssize = dtype_bytes(c.src_dtype), dsize = dtype_bytes(c.dst_dtype);
  const uint64_t flow =
      add(src ? side_bytes(c.dims, c.src_stride, ssize) : 0, dst ? side_bytes(c.dims, c.dst_stride, dsize) : 0);
  return transfer(flow, add(local_bytes(c.dims, ssize), local_bytes(c.dims, dsize)), src || dst, p);
}

/// GATHER and SCATTER: rows of both sides, each rounded up to 64 bytes, and the indices.
template <class Cmd>
Cost indexed(const Cmd &c, const CostParams &p) {
  const bool src = c.src_region != NPU_REGION_LOCAL, dst = c.dst_region != NPU_REGION_LOCAL;
  const uint64_t rows = mul(c.outer, c.count), row = mul(c.cols, dtype_bytes(c.dtype));
  const uint64_t index = mul(c.count, dtype_bytes(c.idx_dtype)), side = mul(rows, round64(row));
  const bool indices = c.idx_region != NPU_REGION_LOCAL;
  const uint64_t flow = add(add(src ? side : 0, dst ? side : 0), indices ? round64(index) : 0);
  return transfer(flow, add(mul(2, rows, row), index), src || dst || indices, p);
}
inline Cost cost(const npu_cmd_gather &c, const CostParams &p) { return indexed(c, p); }
inline Cost cost(const npu_cmd_scatter &c, const CostParams &p) { return indexed(c, p); }

inline Cost cost(const npu_cmd_fill &c, const CostParams &p) {
  const bool dst = c.dst_region != NPU_REGION_LOCAL;
  const uint32_t size = dtype_bytes(c.dst_dtype);
  return transfer(dst ? side_bytes(c.dims, c.dst_stride, size) : 0, local_bytes(c.dims, size), dst, p);
}

}  // namespace cost_detail

/// Cost of a command whose fields are legal (docs/reference/hardware.md section 6.1); an opcode that is not executed
/// costs nothing. `gdma` tells the engine, for commands of both.
inline Cost command_cost(const uint8_t (&bytes)[NPU_CMD_BYTES], bool gdma, const CostParams &p) {
  Cost cost;
  if (visit(bytes, [&](const auto &c) { cost = cost_detail::cost(c, p); })) return cost;
  const Command *known = find_command(bytes[0]);
  if (known && known->engine == EngineKind::Any) return {gdma ? p.gdma_fixed : p.tiu_fixed, 0, 0, gdma};
  return {};
}

/// Cycles of a command alone, its flow at the full bandwidth: what a budget counts.
inline uint64_t uncontended(const Cost &c, const CostParams &p) {
  using namespace cost_detail;
  const uint64_t flow = ceil_div(c.flow_bytes, p.ddr_bw);
  return c.flow_after ? add(c.cycles, flow) : std::max(c.cycles, flow);
}

/// The replay of section 8.3, driven from outside: the owner offers each engine its next command and learns when
/// commands retire. Engines are numbered core * 2 + engine. Time is in cycles from job start.
class Replay {
 public:
  explicit Replay(const CostParams &params, unsigned cores) : p_(params), engines_(cores * 2) {}

  uint64_t now() const { return now_; }
  bool busy(unsigned engine) const { return engines_[engine].active; }
  bool any_busy() const {
    return std::any_of(engines_.begin(), engines_.end(), [](const Engine &e) { return e.active; });
  }

  /// The engine begins a command now. Precondition: !busy(engine).
  void begin(unsigned engine, const Cost &c) {
    Engine &e = engines_[engine];
    e.active = true;
    e.fixed_end = now_ + c.cycles;
    e.flow = static_cast<cost_detail::u128>(c.flow_bytes) * kUnits;
    e.flow_after = c.flow_after;
  }

  /// Has the engine a command that ends at now()?
  bool ended(unsigned engine) const {
    const Engine &e = engines_[engine];
    return e.active && e.fixed_end <= now_ && e.flow == 0;
  }
  /// True once for each command of the engine that ends at now().
  bool retire(unsigned engine) {
    if (!ended(engine)) return false;
    engines_[engine].active = false;
    return true;
  }

  /// The next end of a fixed part or flow. Precondition: any_busy() and nothing left to retire.
  uint64_t next() const {
    using namespace cost_detail;
    u128 step = std::numeric_limits<uint64_t>::max() - now_;
    for (unsigned i = 0; i < engines_.size(); ++i) {
      const Engine &e = engines_[i];
      if (!e.active) continue;
      if (e.fixed_end > now_) step = std::min<u128>(step, e.fixed_end - now_);
      if (flowing(e)) step = std::min<u128>(step, ceil_div(e.flow, flow_rate(i)));
    }
    return now_ + static_cast<uint64_t>(step);
  }

  /// Moves the clock to `time`, at most next().
  void advance_to(uint64_t time) {
    using namespace cost_detail;
    for (unsigned core = 0; core < engines_.size(); core += 2) {
      const u128 moved = u128{flow_rate(core)} * (time - now_);
      for (unsigned i = core; i < core + 2; ++i)
        if (flowing(engines_[i])) engines_[i].flow -= std::min<u128>(engines_[i].flow, moved);
    }
    now_ = time;
  }

  /// Moves the clock to the next end of a fixed part or flow, on the same conditions as next().
  void advance() { advance_to(next()); }

  /// Gives all that changes to a(...), which may store or restore it.
  template <class A>
  void visit_state(A &a) {
    for (Engine &e : engines_) a(e.active, e.flow_after, e.fixed_end, e.flow);
    a(now_);
  }

 private:
  static constexpr uint64_t kUnits = 2;  // so that half a cycle's bytes is a whole number
  struct Engine {
    bool active = false, flow_after = false;
    uint64_t fixed_end = 0;
    cost_detail::u128 flow = 0;
  };
  static cost_detail::u128 ceil_div(cost_detail::u128 a, cost_detail::u128 b) { return (a + b - 1) / b; }
  /// Units a cycle that each active flow of the engine's core gets.
  uint64_t flow_rate(unsigned engine) const {
    const bool shared = flowing(engines_[engine]) && flowing(engines_[engine ^ 1]);
    return uint64_t{p_.ddr_bw} * kUnits / (shared ? 2 : 1);
  }
  bool flowing(const Engine &e) const { return e.active && e.flow != 0 && (!e.flow_after || e.fixed_end <= now_); }

  CostParams p_;
  std::vector<Engine> engines_;
  uint64_t now_ = 0;
};

/// The semaphores of a job.
class Semaphores {
 public:
  bool at_least(uint32_t sem, uint32_t value) const { return count_[sem] >= value; }
  void add(uint32_t sem, uint32_t value) {
    const uint64_t sum = uint64_t{count_[sem]} + value;
    count_[sem] = static_cast<uint32_t>(std::min<uint64_t>(sum, std::numeric_limits<uint32_t>::max()));
  }
  template <class A>
  void visit_state(A &a) {
    a(count_);
  }

 private:
  std::array<uint32_t, NPU_MAX_SEMAPHORES> count_{};
};

/// A command of a stream as `simulate` sees it.
struct TimedCommand {
  Cost cost;
  uint32_t wait = 0;
  uint8_t opcode = NPU_OP_NOP;  ///< matters for SEM_SIGNAL and SEM_WAIT only
  uint32_t sem = 0, value = 0;  ///< theirs; sem below NPU_MAX_SEMAPHORES
};

/// The two streams of one core.
struct TimedCore {
  std::vector<TimedCommand> stream[2];  ///< NPU_ENGINE_TIU, NPU_ENGINE_GDMA
};

struct Span {
  uint64_t start = 0, end = 0;
};

struct Timeline {
  uint64_t cycles = 0;
  bool deadlock = false;
  std::vector<std::vector<Span>> spans;  ///< [core * 2 + engine][command]
};

/// Predicts the modelled time of a job exactly.
inline Timeline simulate(const std::vector<TimedCore> &cores, const CostParams &params) {
  const unsigned engines = static_cast<unsigned>(cores.size()) * 2;
  Replay replay(params, static_cast<unsigned>(cores.size()));
  Timeline t;
  t.spans.resize(engines);
  std::vector<uint32_t> begun(engines), retired(engines);
  Semaphores semaphores;
  auto stream = [&](unsigned e) -> const std::vector<TimedCommand> & { return cores[e / 2].stream[e % 2]; };
  for (unsigned e = 0; e < engines; ++e) t.spans[e].resize(stream(e).size());
  for (;;) {
    for (bool changed = true; changed;) {
      changed = false;
      for (unsigned e = 0; e < engines; ++e)
        if (replay.retire(e)) {
          const TimedCommand &c = stream(e)[retired[e]];
          if (c.opcode == NPU_OP_SEM_SIGNAL) semaphores.add(c.sem, c.value);
          t.spans[e][retired[e]++].end = replay.now();
          t.cycles = replay.now();
          changed = true;
        }
      for (unsigned e = 0; e < engines; ++e) {
        if (replay.busy(e) || begun[e] == stream(e).size()) continue;
        const TimedCommand &c = stream(e)[begun[e]];
        if (retired[e ^ 1] < c.wait) continue;
        if (c.opcode == NPU_OP_SEM_WAIT && !semaphores.at_least(c.sem, c.value)) continue;
        t.spans[e][begun[e]++].start = replay.now();
        replay.begin(e, c.cost);
        changed = true;
      }
    }
    if (!replay.any_busy()) break;
    replay.advance();
  }
  for (unsigned e = 0; e < engines; ++e) t.deadlock |= retired[e] != stream(e).size();
  return t;
}

}  // namespace npu::hw

#endif  // NPU_HW_COST_HPP
