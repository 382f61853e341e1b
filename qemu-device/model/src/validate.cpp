// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/validate.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <span>

#include "npu_arith.hpp"
#include "npu_isa.hpp"

namespace npu::model {

namespace {

using hw::arith::dtype_bytes;
using hw::arith::i128;
using hw::arith::mul;

Error error_at(uint16_t status, unsigned byte) {
  Error e;
  e.status = status;
  e.offset = byte;
  return e;
}
Error bad_field(unsigned byte) { return error_at(NPU_STATUS_BAD_FIELD, byte); }

// ---- opcode, reserved bytes ----

/// A command's description with the bytes that must be zero as words.
struct Known {
  const hw::Command *command = nullptr;
  uint64_t reserved[NPU_CMD_BYTES / 8] = {};
};

std::array<Known, 256> make_known() {
  std::array<Known, 256> table;
  for (const hw::Command &c : hw::kCommands) {
    if (c.reserved) continue;
    Known &k = table[c.opcode];
    k.command = &c;
    uint8_t mask[NPU_CMD_BYTES];
    for (unsigned i = 0; i < NPU_CMD_BYTES; ++i) mask[i] = c.used_bytes[i / 64] >> (i % 64) & 1 ? 0 : 0xff;
    std::memcpy(k.reserved, mask, sizeof mask);
  }
  return table;
}

const Known &known(uint8_t opcode) {
  static const std::array<Known, 256> table = make_known();
  return table[opcode];
}

bool belongs(hw::EngineKind kind, unsigned engine) {
  return kind == hw::EngineKind::Any || (kind == hw::EngineKind::Tiu) == (engine == NPU_ENGINE_TIU);
}

Error check_encoding(const Command &c, unsigned engine) {
  const npu_cmd &head = c.head();
  const Known &k = known(head.opcode);
  if (!k.command || !belongs(k.command->engine, engine) || head.subop > k.command->last_subop)
    return error_at(NPU_STATUS_BAD_OPCODE, 0);
  if (const uint16_t bad = head.flags & ~k.command->flags_allowed)
    return error_at(NPU_STATUS_RESERVED_BITS, offsetof(npu_cmd, flags) + (bad & 0xff ? 0 : 1));
  uint64_t words[NPU_CMD_BYTES / 8], any = 0;
  std::memcpy(words, c.bytes, sizeof words);
  for (unsigned i = 0; i < std::size(words); ++i) any |= words[i] & k.reserved[i];
  if (any)
    return error_at(NPU_STATUS_RESERVED_BITS, static_cast<unsigned>(hw::find_reserved_byte(*k.command, c.bytes)));
  return {};
}

// ---- fields ----

uint64_t field(const Command &c, unsigned offset, unsigned bytes) {
  uint64_t v = 0;
  std::memcpy(&v, c.bytes + offset, bytes);
  return v;
}

bool obeys(const hw::Field &f, const Command &c, uint64_t v) {
  const uint16_t flags = c.head().flags;
  switch (f.legal) {
    case hw::Legal::Any:
      return true;
    case hw::Legal::NotZero:
      return v != 0;
    case hw::Legal::ZeroWithout:
      return v == 0 || (flags & f.ref);
    case hw::Legal::ZeroWith:
      return v == 0 || !(flags & f.ref);
    case hw::Legal::ZeroOrAtLeast:
      return v == 0 || v >= field(c, f.ref, 4);
    case hw::Legal::OneOf:
      return v < 16 && (f.ref >> v & 1);
    case hw::Legal::FusedAct:
      return v <= NPU_ACT_TANH;
    case hw::Legal::WholeBytes:
      return dtype_bytes(static_cast<uint8_t>(v)) != 0;
    case hw::Legal::Semaphore:
      return v < NPU_MAX_SEMAPHORES;
  }
  return false;
}

/// What each field may hold by itself.
Error check_fields(const Command &c) {
  for (const hw::Field &f : known(c.head().opcode).command->fields) {
    if (f.legal == hw::Legal::Any) continue;
    const unsigned bytes = hw::field_bytes(f.type);
    for (unsigned at = f.offset; at < f.offset + f.count * bytes; at += bytes)
      if (!obeys(f, c, field(c, at, bytes))) return bad_field(at);
  }
  return {};
}

// ---- numbers ----

struct ZeroPoints {
  int32_t low, high;
};

/// The zero points that numbers of a type may have.
ZeroPoints zero_points(uint8_t dtype) {
  switch (dtype) {
    case NPU_DTYPE_S8:
      return {INT8_MIN, INT8_MAX};
    case NPU_DTYPE_U8:
      return {0, UINT8_MAX};
    case NPU_DTYPE_S16:
      return {INT16_MIN, INT16_MAX};
    case NPU_DTYPE_U16:
      return {0, UINT16_MAX};
    default:
      return {0, 0};
  }
}

bool is_float(uint64_t dtype) { return dtype == NPU_DTYPE_F32 || dtype == NPU_DTYPE_F16 || dtype == NPU_DTYPE_BF16; }

/// Integers have a scale above 0, floating-point numbers +0 in its place.
bool is_scale(uint64_t dtype, uint64_t bits) {
  if (is_float(dtype)) return bits == 0;
  const float scale = std::bit_cast<float>(static_cast<uint32_t>(bits));
  return std::isfinite(scale) && scale > 0;
}

/// The scales and zero points of what a command reads and writes.
Error check_numbers(const Command &c) {
  for (const hw::Number &n : known(c.head().opcode).command->numbers) {
    const uint64_t dtype = field(c, n.dtype, 1);
    if (n.scale && !is_scale(dtype, field(c, n.scale, 4))) return bad_field(n.scale);
    const ZeroPoints may = zero_points(static_cast<uint8_t>(dtype));
    const auto zero = static_cast<int32_t>(field(c, n.zero, 4));
    if (zero < may.low || zero > may.high) return bad_field(n.zero);
  }
  return {};
}

// ---- relations between fields ----

constexpr uint64_t kMaxImage = uint64_t{1} << 30;  // rows and columns that input dilation may make

/// How many parameters an activation uses.
unsigned parameters(uint8_t act) {
  switch (act) {
    case NPU_ACT_CLIP:
    case NPU_ACT_HARD_SIGMOID:
      return 2;
    case NPU_ACT_LEAKY_RELU:
    case NPU_ACT_ELU:
    case NPU_ACT_GELU:
      return 1;
    default:
      return 0;
  }
}

/// Parameters of an activation; in every command that has one they lie at the same place.
Error check_act(const Command &c, uint8_t act) {
  constexpr unsigned a = offsetof(npu_cmd_conv, act_a), b = offsetof(npu_cmd_conv, act_b);
  static_assert(a == offsetof(npu_cmd_matmul, act_a) && a == offsetof(npu_cmd_eltwise, act_a) &&
                a == offsetof(npu_cmd_unary, act_a) && a == offsetof(npu_cmd_requant, act_a));
  float low, high;
  std::memcpy(&low, c.bytes + a, sizeof low);
  std::memcpy(&high, c.bytes + b, sizeof high);
  if (act == NPU_ACT_CLIP) {
    if (std::isnan(high)) return bad_field(b);
    return low <= high ? Error{} : bad_field(a);
  }
  if (act == NPU_ACT_GELU && field(c, a, 4) && low != 1.0f) return bad_field(a);
  if (parameters(act) < 1 && field(c, a, 4)) return bad_field(a);
  return parameters(act) < 2 && field(c, b, 4) ? bad_field(b) : Error{};
}

/// What CONV and MATMUL ask of types, flags and activation.
template <class Cmd>
Error check_product(const Cmd &c, const Command &bytes) {
  const bool integers = !is_float(c.in_dtype);
  const bool multiplied = c.flags & NPU_CONV_REQUANT, raw = c.flags & NPU_CONV_PSUM_OUT;
  if (is_float(c.wgt_dtype) == integers) return bad_field(offsetof(Cmd, wgt_dtype));
  if (raw && c.flags & (NPU_CONV_BIAS | NPU_CONV_REQUANT)) return bad_field(offsetof(Cmd, flags));
  if (!integers && multiplied) return bad_field(offsetof(Cmd, flags));
  const bool fits = raw || (integers && !multiplied) ? c.out_dtype == (integers ? NPU_DTYPE_S32 : NPU_DTYPE_F32)
                    : integers                       ? c.out_dtype != NPU_DTYPE_S32
                                                     : is_float(c.out_dtype);
  if (!fits) return bad_field(offsetof(Cmd, out_dtype));
  const uint8_t last = raw || c.out_dtype == NPU_DTYPE_S32 ? NPU_ACT_NONE
                       : is_float(c.out_dtype)             ? NPU_ACT_TANH
                                                           : NPU_ACT_LEAKY_RELU;
  if (c.act > last) return bad_field(offsetof(Cmd, act));
  return check_act(bytes, c.act);
}

/// One axis of a pooling window.
struct Axis {
  int64_t in, out, kernel, stride, dilation, pad;
};

enum class Window { Full, EmptyFirst, EmptyLast };

/// Does every window along the axis have a cell inside the image? Windows start ever later, so the first and the last
/// decide, but for gaps of a dilation wider than the image; those repeat with a period of at most `dilation` windows.
Window find_empty_window(const Axis &x) {
  if ((x.out - 1) * x.stride - x.pad >= x.in) return Window::EmptyLast;
  if (x.pad > (x.kernel - 1) * x.dilation) return Window::EmptyFirst;
  if (x.dilation <= x.in) return Window::Full;
  const int64_t above = x.pad > 0 ? std::min((x.pad + x.stride - 1) / x.stride, x.out) : 0;
  for (int64_t o = 0; o < std::min(above, x.dilation); ++o) {
    const int64_t before = x.pad - o * x.stride;  // cells of the window's start before the image
    if ((x.dilation - before % x.dilation) % x.dilation >= x.in) return Window::EmptyFirst;
  }
  return Window::Full;
}

Error check_windows(const npu_cmd_pool &p) {
  switch (find_empty_window({p.ih, p.oh, p.kh, p.sh, p.dh, p.pad_t})) {
    case Window::EmptyFirst:
      return bad_field(offsetof(npu_cmd_pool, pad_t));
    case Window::EmptyLast:
      return bad_field(offsetof(npu_cmd_pool, oh));
    case Window::Full:
      break;
  }
  switch (find_empty_window({p.iw, p.ow, p.kw, p.sw, p.dw, p.pad_l})) {
    case Window::EmptyFirst:
      return bad_field(offsetof(npu_cmd_pool, pad_l));
    case Window::EmptyLast:
      return bad_field(offsetof(npu_cmd_pool, ow));
    case Window::Full:
      break;
  }
  return {};
}

Error check_dims(const uint32_t (&dims)[6]) {
  uint64_t n = 1;
  for (uint32_t d : dims) n = mul(n, d);
  return n >> 32 ? bad_field(offsetof(npu_cmd_copy, dims)) : Error{};
}

/// Most commands have none.
template <class Cmd>
Error check_relations(const Cmd &, const Command &) {
  return {};
}

Error check_relations(const npu_cmd_conv &c, const Command &bytes) {
  if (c.ic % c.groups || c.oc % c.groups) return bad_field(offsetof(npu_cmd_conv, groups));
  if (c.idh > 1 && mul(c.ih - 1, c.idh) > kMaxImage) return bad_field(offsetof(npu_cmd_conv, idh));
  if (c.idw > 1 && mul(c.iw - 1, c.idw) > kMaxImage) return bad_field(offsetof(npu_cmd_conv, idw));
  return check_product(c, bytes);
}

Error check_relations(const npu_cmd_matmul &c, const Command &bytes) { return check_product(c, bytes); }

Error check_relations(const npu_cmd_pool &c, const Command &) { return check_windows(c); }

Error check_relations(const npu_cmd_eltwise &c, const Command &bytes) {
  if (c.flags & NPU_ELTWISEF_B_IMM && c.b_dtype != NPU_DTYPE_F32) return bad_field(offsetof(npu_cmd_eltwise, b_dtype));
  if (c.subop >= NPU_ELTWISE_CMP_EQ) {
    if (c.out_dtype != NPU_DTYPE_U8) return bad_field(offsetof(npu_cmd_eltwise, out_dtype));
    if (c.act != NPU_ACT_NONE) return bad_field(offsetof(npu_cmd_eltwise, act));
    if (c.out_scale != 1.0f) return bad_field(offsetof(npu_cmd_eltwise, out_scale));
    if (c.out_zp != 0) return bad_field(offsetof(npu_cmd_eltwise, out_zp));
  }
  return check_act(bytes, c.act);
}

Error check_relations(const npu_cmd_reduce &c, const Command &) {
  const bool places = c.subop == NPU_REDUCE_ARGMAX || c.subop == NPU_REDUCE_ARGMIN;
  if (!places && c.flags & NPU_REDUCEF_LAST) return bad_field(offsetof(npu_cmd_reduce, flags));
  if (places != (c.out_dtype == NPU_DTYPE_S32)) return bad_field(offsetof(npu_cmd_reduce, out_dtype));
  return places && c.out_scale != 1.0f ? bad_field(offsetof(npu_cmd_reduce, out_scale)) : Error{};
}

Error check_relations(const npu_cmd_norm &c, const Command &) {
  return std::isfinite(c.epsilon) && c.epsilon >= 0 ? Error{} : bad_field(offsetof(npu_cmd_norm, epsilon));
}

Error check_relations(const npu_cmd_requant &c, const Command &bytes) {
  if (c.flags & NPU_REQUANTF_IN_SCALES && c.in_scale != 1.0f) return bad_field(offsetof(npu_cmd_requant, in_scale));
  if (c.flags & NPU_REQUANTF_OUT_SCALES && c.out_scale != 1.0f) return bad_field(offsetof(npu_cmd_requant, out_scale));
  return check_act(bytes, c.act);
}

Error check_relations(const npu_cmd_scatter &c, const Command &) {
  return c.subop != NPU_SCATTER_SET && c.dtype != NPU_DTYPE_F32 ? bad_field(offsetof(npu_cmd_scatter, dtype)) : Error{};
}

Error check_relations(const npu_cmd_unary &c, const Command &bytes) { return check_act(bytes, c.subop); }

Error check_relations(const npu_cmd_copy &c, const Command &) { return check_dims(c.dims); }

Error check_relations(const npu_cmd_fill &c, const Command &) {
  const uint32_t size = dtype_bytes(c.dst_dtype);
  if (size < 8 && c.value >> (size * 8)) return bad_field(offsetof(npu_cmd_fill, value));
  return check_dims(c.dims);
}

// ---- operands ----

/// Places operands and checks them: first all local ones, then those in regions.
class Placer {
 public:
  Placer(const Job &job, uint32_t lmem_bytes, Operands &operands) : job_(job), lmem_(lmem_bytes), ops_(operands) {}

  void place(const hw::OperandList &list) {
    for (unsigned i = 0; i < Operands::kCount; ++i) {
      if (!list[i].used) continue;
      const hw::OperandShape::Hull hull = list[i].hull();
      ops_.at[i] = {true,
                    list[i].write,
                    list[i].region,
                    static_cast<uint8_t>(list[i].size),
                    static_cast<uint64_t>(hull.low),
                    clamp(hull.bytes)};
      outside_[i] = hull.low < 0 || hull.low >> 64 != 0 || hull.bytes >> 64 != 0;
    }
  }

  Error check() const {
    for (unsigned i = 0; i < Operands::kCount; ++i)
      if (ops_.at[i].used && ops_.at[i].local())
        if (Error e = check_local(i)) return e;
    for (unsigned i = 0; i < Operands::kCount; ++i)
      if (ops_.at[i].used && !ops_.at[i].local())
        if (Error e = check_memory(i)) return e;
    return {};
  }

 private:
  static uint64_t clamp(i128 bytes) { return bytes >> 64 ? UINT64_MAX : static_cast<uint64_t>(bytes); }

  Error check_local(unsigned place) const {
    const Operand &o = ops_.at[place];
    Error e = describe(o);
    if (o.offset % o.align)
      e.status = NPU_STATUS_UNALIGNED;
    else if (outside_[place] || o.offset > lmem_ || o.bytes > lmem_ - o.offset)
      e.status = NPU_STATUS_LMEM_BOUNDS;
    return e;
  }

  Error check_memory(unsigned place) const {
    const Operand &o = ops_.at[place];
    Error e = check_region(job_, o.region, o.offset, o.bytes, o.write ? NPU_ACCESS_WRITE : NPU_ACCESS_READ);
    if (!e && outside_[place]) {
      e = describe(o);
      e.status = NPU_STATUS_REGION_BOUNDS;
    }
    return e;
  }

  static Error describe(const Operand &o) {
    Error e;
    e.region = o.region;
    e.offset = o.offset;
    e.bytes = saturate32(o.bytes);
    e.access = o.write ? NPU_ACCESS_WRITE : NPU_ACCESS_READ;
    return e;
  }

  const Job &job_;
  const uint64_t lmem_;
  Operands &ops_;
  bool outside_[Operands::kCount] = {};  // of what 64 bits hold
};

}  // namespace

Error check_command(const Command &command, unsigned engine, const Job &job, uint32_t lmem_bytes, Operands &operands) {
  operands = {};
  if (Error e = check_encoding(command, engine)) return e;
  if (Error e = check_fields(command)) return e;
  if (Error e = check_numbers(command)) return e;
  Error relation;
  hw::visit(command.bytes, [&](const auto &c) { relation = check_relations(c, command); });
  if (relation) return relation;
  Placer placer(job, lmem_bytes, operands);
  placer.place(hw::operands_of(command.bytes));
  return placer.check();
}

}  // namespace npu::model
