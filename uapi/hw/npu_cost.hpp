// SPDX-License-Identifier: MIT
// Modelled time: docs/hardware.md section 8 as code, linked by the chip model and by the compiler alike.
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
constexpr uint64_t fused(uint8_t act, uint64_t elements, const CostParams &p) {
  return is_slow(act) ? mul(4, ceil_div(elements, p.ew_lanes)) : 0;
}

/// Adds an operand that is either in local memory or streamed.
constexpr void operand(uint8_t region, uint64_t bytes, uint64_t &local, uint64_t &flow) {
  if (region == NPU_REGION_LOCAL)
    local = add(local, bytes);
  else
    flow = add(flow, round64(bytes));
}

inline Cost cost(const npu_cmd_conv &c, const CostParams &p) {
  const uint64_t pixels = mul(c.n, c.oh, c.ow), window = mul(c.kh, c.kw, c.ic / c.groups), out = mul(pixels, c.oc);
  uint64_t local = add(mul(c.n, c.ih, c.iw, c.ic, dtype_bytes(c.in_dtype)), mul(out, dtype_bytes(c.out_dtype))),
           flow = 0;
  if (c.flags & NPU_CONV_PSUM_IN) local = add(local, mul(out, 4));
  operand(c.wgt_region, mul(c.oc, window, dtype_bytes(c.wgt_dtype)), local, flow);
  if (c.flags & NPU_CONV_BIAS) operand(c.param_region, mul(c.oc, 4), local, flow);
  const uint64_t mac = ceil_div(mul(pixels, ceil_div(window, p.mac_ic), ceil_div(c.oc, p.mac_oc)), p.mac_pixels);
  const uint64_t busy = add(std::max(mac, ceil_div(local, p.lmem_bw)), fused(c.act, out, p));
  return {add(p.tiu_fixed, busy), flow, mul(out, window), false};
}

inline Cost cost(const npu_cmd_matmul &c, const CostParams &p) {
  const uint64_t rows = mul(c.batch, c.m), out = mul(rows, c.n);
  uint64_t local =
      add(mul(c.a_batch_stride ? c.batch : 1, c.m, c.k, dtype_bytes(c.in_dtype)), mul(out, dtype_bytes(c.out_dtype)));
  uint64_t flow = 0;
  if (c.flags & NPU_CONV_PSUM_IN) local = add(local, mul(out, 4));
  operand(c.wgt_region, mul(c.b_batch_stride ? c.batch : 1, c.k, c.n, dtype_bytes(c.wgt_dtype)), local, flow);
  if (c.flags & NPU_CONV_BIAS) operand(c.param_region, mul(c.n, 4), local, flow);
  const uint64_t mac = ceil_div(mul(rows, ceil_div(c.k, p.mac_ic), ceil_div(c.n, p.mac_oc)), p.mac_pixels);
  const uint64_t busy = add(std::max(mac, ceil_div(local, p.lmem_bw)), fused(c.act, out, p));
  return {add(p.tiu_fixed, busy), flow, mul(out, c.k), false};
}

inline Cost simple(uint64_t passes, uint64_t elements, uint64_t local, uint64_t extra, const CostParams &p) {
  const uint64_t busy = std::max(mul(passes, ceil_div(elements, p.ew_lanes)), ceil_div(local, p.lmem_bw));
  return {add(p.tiu_fixed, add(busy, extra)), 0, 0, false};
}

inline Cost cost(const npu_cmd_pool &c, const CostParams &p) {
  const uint64_t out = mul(c.n, c.oh, c.ow, c.c), size = dtype_bytes(c.dtype);
  return simple(mul(c.kh, c.kw), out, add(mul(c.n, c.ih, c.iw, c.c, size), mul(out, size)), 0, p);
}

inline Cost cost(const npu_cmd_eltwise &c, const CostParams &p) {
  uint64_t out = 1, a = 1, b = c.flags & NPU_ELTWISEF_B_IMM ? 0 : 1;
  for (int i = 0; i < 5; ++i) {
    out = mul(out, c.dims[i]);
    if (c.a_stride[i]) a = mul(a, c.dims[i]);
    if (c.b_stride[i]) b = mul(b, c.dims[i]);
  }
  const uint64_t local = mul(add(out, add(a, b)), dtype_bytes(c.dtype));
  return simple(c.subop == NPU_ELTWISE_DIV ? 4 : 1, out, local, fused(c.act, out, p), p);
}

inline Cost cost(const npu_cmd_unary &c, const CostParams &p) {
  const uint64_t local = mul(c.count, dtype_bytes(c.in_dtype) + dtype_bytes(c.out_dtype));
  return simple(is_slow(c.subop) ? 4 : 1, c.count, local, 0, p);
}

inline Cost cost(const npu_cmd_softmax &c, const CostParams &p) {
  const uint64_t n = mul(c.rows, c.cols);
  return simple(8, n, mul(n, 2 * dtype_bytes(c.dtype)), 0, p);
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

inline Cost cost(const npu_cmd_fill &c, const CostParams &p) {
  const bool dst = c.dst_region != NPU_REGION_LOCAL;
  const uint32_t size = dtype_bytes(c.dst_dtype);
  return transfer(dst ? side_bytes(c.dims, c.dst_stride, size) : 0, local_bytes(c.dims, size), dst, p);
}

}  // namespace cost_detail

/// Cost of a command whose fields are legal (docs/hardware.md section 6.1); an opcode that is not executed costs
/// nothing. `gdma` tells the engine, for commands of both.
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
    const u128 rate = flow_rate();
    u128 step = std::numeric_limits<uint64_t>::max() - now_;
    for (const Engine &e : engines_) {
      if (!e.active) continue;
      if (e.fixed_end > now_) step = std::min<u128>(step, e.fixed_end - now_);
      if (flowing(e)) step = std::min<u128>(step, (e.flow + rate - 1) / rate);
    }
    return now_ + static_cast<uint64_t>(step);
  }

  /// Moves the clock to `time`, at most next().
  void advance_to(uint64_t time) {
    using namespace cost_detail;
    const u128 rate = flow_rate();
    for (Engine &e : engines_)
      if (flowing(e)) e.flow -= std::min<u128>(e.flow, rate * (time - now_));
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
  static constexpr uint64_t kUnits = 720720;  // least common multiple of 1 to 16
  struct Engine {
    bool active = false, flow_after = false;
    uint64_t fixed_end = 0;
    cost_detail::u128 flow = 0;
  };
  /// Units a cycle that each of the active flows gets.
  cost_detail::u128 flow_rate() const {
    unsigned flows = 0;
    for (const Engine &e : engines_) flows += flowing(e);
    return flows ? cost_detail::u128{p_.ddr_bw} * kUnits / flows : 0;
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
