// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/validate.h"

#include <array>
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

bool obeys(const hw::Field &f, uint16_t flags, uint64_t v) {
  switch (f.legal) {
    case hw::Legal::Any:
      return true;
    case hw::Legal::NotZero:
      return v != 0;
    case hw::Legal::Zero:
      return v == 0;
    case hw::Legal::ZeroWithout:
      return v == 0 || (flags & f.flag);
    case hw::Legal::Float32:
      return v == NPU_DTYPE_F32;
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
      if (!obeys(f, c.head().flags, field(c, at, bytes))) return bad_field(at);
  }
  return {};
}

// ---- relations between fields ----

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
                a == offsetof(npu_cmd_unary, act_a));
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

/// The demands on flags that CONV and MATMUL share.
Error check_product(const Command &c, uint8_t act) {
  const uint16_t flags = c.head().flags;
  if (flags & NPU_CONV_PSUM_OUT) {
    if (flags & NPU_CONV_BIAS) return bad_field(offsetof(npu_cmd_conv, flags));
    if (act != NPU_ACT_NONE) return bad_field(offsetof(npu_cmd_conv, act));
  }
  return check_act(c, act);
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
  return check_product(bytes, c.act);
}

Error check_relations(const npu_cmd_matmul &c, const Command &bytes) { return check_product(bytes, c.act); }

Error check_relations(const npu_cmd_pool &c, const Command &) { return check_windows(c); }

Error check_relations(const npu_cmd_eltwise &c, const Command &bytes) {
  if (c.flags & NPU_ELTWISEF_B_IMM) {
    if (c.b_addr) return bad_field(offsetof(npu_cmd_eltwise, b_addr));
    for (unsigned i = 0; i < std::size(c.b_stride); ++i)
      if (c.b_stride[i]) return bad_field(offsetof(npu_cmd_eltwise, b_stride) + i * sizeof c.b_stride[i]);
  }
  return check_act(bytes, c.act);
}

Error check_relations(const npu_cmd_unary &c, const Command &bytes) { return check_act(bytes, c.subop); }

Error check_relations(const npu_cmd_copy &c, const Command &) {
  if (c.dst_dtype != c.src_dtype) return bad_field(offsetof(npu_cmd_copy, dst_dtype));
  return check_dims(c.dims);
}

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
  Error relation;
  hw::visit(command.bytes, [&](const auto &c) { relation = check_relations(c, command); });
  if (relation) return relation;
  Placer placer(job, lmem_bytes, operands);
  placer.place(hw::operands_of(command.bytes));
  return placer.check();
}

}  // namespace npu::model
