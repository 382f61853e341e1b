// SPDX-License-Identifier: MIT
// A chip that checks commands (docs/reference/hardware.md sections 5.2 and 6.1), and what is tried on each of them.
#ifndef NPU_TEST_MODEL_CHECKS_H
#define NPU_TEST_MODEL_CHECKS_H

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/unit/model/machine.h"

namespace npu::test {

inline constexpr uint32_t kLmem = 64 * 1024;
inline constexpr uint8_t kLocal = NPU_REGION_LOCAL;

/// A machine with a job frame: region 0 readable and writable, 1 read only, 2 write only, 3 neither, 64 KiB each but
/// region 3.
class Checks : public testing::Test {
 public:
  static constexpr uint64_t kRegion = 64 * 1024;

  npu_cqe run(unsigned engine, const Cmd &c, uint64_t budget = 0) {
    JobSpec j;
    j.regions = {area_.region(), area_.region(NPU_ACCESS_READ), area_.region(NPU_ACCESS_WRITE), area_.region(0)};
    j.stream[engine] = {nop(), c};
    j.budget = budget;
    const npu_cqe done = m_.run(j);
    if (done.status != NPU_STATUS_OK) {
      EXPECT_EQ(done.engine, engine);
      EXPECT_EQ(done.command, 1u);
    }
    return done;
  }

  void ok(unsigned engine, const Cmd &c) { EXPECT_STATUS(run(engine, c), NPU_STATUS_OK); }

  void fails(unsigned engine, const Cmd &c, uint16_t status, uint64_t offset) {
    const npu_cqe done = run(engine, c);
    EXPECT_STATUS(done, status);
    EXPECT_EQ(done.offset, offset);
    EXPECT_EQ(done.region, NPU_REGION_NONE);
    EXPECT_EQ(done.bytes, 0u);
    EXPECT_EQ(done.phase & ~(NPU_CQE_PHASE | NPU_CQE_CORES), 0u);
  }

  /// Edits a legal command into one with an illegal field at `offset`.
  template <class T, class F>
  void bad_field(T c, uint64_t offset, F edit) {
    edit(c);
    SCOPED_TRACE("opcode " + std::to_string(c.opcode) + " field " + std::to_string(offset));
    fails(c.opcode >= NPU_OP_COPY ? kGdma : kTiu, c, NPU_STATUS_BAD_FIELD, offset);
  }

  /// A failing access: where and how many bytes.
  void access(unsigned engine, const Cmd &c, uint16_t status, uint32_t region, uint64_t offset, uint32_t bytes,
              bool write) {
    const npu_cqe done = run(engine, c);
    EXPECT_STATUS(done, status);
    EXPECT_EQ(done.region, region);
    EXPECT_EQ(done.offset, offset);
    EXPECT_EQ(done.bytes, bytes);
    EXPECT_EQ(done.phase & ~(NPU_CQE_PHASE | NPU_CQE_CORES), write ? NPU_CQE_ACCESS_WRITE : NPU_CQE_ACCESS_READ);
  }

  /// What is encoded beside the fields: the command belongs to these engines, has sub-operations up to `last_subop` and
  /// these flags. Each other byte that no field covers is reserved: `reserved` of them.
  void encoding(std::initializer_list<unsigned> engines, const Cmd &c, unsigned last_subop, uint16_t flags,
                unsigned reserved) {
    for (const unsigned engine : {kTiu, kGdma})
      if (std::find(engines.begin(), engines.end(), engine) == engines.end())
        fails(engine, c, NPU_STATUS_BAD_OPCODE, 0);
    for (const unsigned engine : engines) {
      ok(engine, c);
      sub_operations(engine, c, last_subop);
      flag_bits(engine, c, flags);
      EXPECT_EQ(reserved_bytes(engine, c), reserved);
    }
  }

  /// Every activation with parameters that it has and has not; set(command, activation). `alone`: also those that
  /// cannot be fused.
  template <class T, class F>
  void activation_parameters(const T &command, F set, bool alone = false) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const auto bad = [&](uint8_t act, float a, float b, uint64_t offset) {
      auto x = command;
      set(x, act);
      x.act_a = a;
      x.act_b = b;
      fails(kTiu, x, NPU_STATUS_BAD_FIELD, offset);
    };
    const auto good = [&](uint8_t act, float a, float b) {
      auto x = command;
      set(x, act);
      x.act_a = a;
      x.act_b = b;
      ok(kTiu, x);
    };
    const auto none = [&](uint8_t act) {
      good(act, 0, 0);
      bad(act, 1, 0, 104);
      bad(act, 0, -1, 108);
      bad(act, nan, 0, 104);
      bad(act, -0.0f, 0, 104);
    };
    for (uint8_t act : {NPU_ACT_NONE, NPU_ACT_RELU, NPU_ACT_SIGMOID, NPU_ACT_TANH}) none(act);
    good(NPU_ACT_LEAKY_RELU, 0.1f, 0);
    bad(NPU_ACT_LEAKY_RELU, 0.1f, 1, 108);
    good(NPU_ACT_CLIP, 0, 6);
    good(NPU_ACT_CLIP, 2, 2);
    good(NPU_ACT_CLIP, -INFINITY, INFINITY);
    bad(NPU_ACT_CLIP, 6, 0, 104);
    bad(NPU_ACT_CLIP, nan, 0, 104);
    bad(NPU_ACT_CLIP, 0, nan, 108);
    if (!alone) return;
    for (uint8_t act : {NPU_ACT_EXP, NPU_ACT_LOG, NPU_ACT_SQRT, NPU_ACT_RSQRT, NPU_ACT_RECIPROCAL, NPU_ACT_ABS,
                        NPU_ACT_NEG, NPU_ACT_ERF, NPU_ACT_HARD_SWISH, NPU_ACT_SOFTPLUS, NPU_ACT_FLOOR, NPU_ACT_CEIL,
                        NPU_ACT_ROUND, NPU_ACT_SIGN, NPU_ACT_SIN, NPU_ACT_COS})
      none(act);
    good(NPU_ACT_GELU, 0, 0);
    good(NPU_ACT_GELU, 1, 0);
    for (const float a : {-1.0f, -0.0f, 0.5f, 2.0f, nan}) bad(NPU_ACT_GELU, a, 0, 104);
    bad(NPU_ACT_GELU, 1, 1, 108);
    good(NPU_ACT_ELU, 0, 0);
    good(NPU_ACT_ELU, -1.5f, 0);
    bad(NPU_ACT_ELU, 1, -0.0f, 108);
    good(NPU_ACT_HARD_SIGMOID, 0.2f, 0.5f);
    good(NPU_ACT_HARD_SIGMOID, 0, -1);
  }

  /// An operand of `bytes` bytes in local memory, of elements of `size`: move(command, address).
  template <class T, class F>
  void local_operand(T c, uint32_t bytes, bool write, F move, uint32_t size = 4) {
    const unsigned engine = c.opcode >= NPU_OP_COPY ? kGdma : kTiu;
    const uint32_t last = (kLmem - bytes) / size * size;
    move(c, last);
    ok(engine, c);
    move(c, last + size);
    access(engine, c, NPU_STATUS_LMEM_BOUNDS, kLocal, last + size, bytes, write);
    if (size == 1) return;
    move(c, size / 2);
    access(engine, c, NPU_STATUS_UNALIGNED, kLocal, size / 2, bytes, write);
  }

  /// An operand of `bytes` bytes in a region, at any byte: move(command, region, offset).
  template <class T, class F>
  void region_operand(T c, uint32_t bytes, bool write, F move) {
    const unsigned engine = c.opcode >= NPU_OP_COPY ? kGdma : kTiu;
    for (const uint8_t region : {uint8_t{0}, uint8_t(write ? 2 : 1)})
      for (const uint64_t offset : {uint64_t{0}, uint64_t{1}, kRegion - bytes}) {
        move(c, region, offset);
        ok(engine, c);
      }
    move(c, 0, kRegion - bytes + 1);
    access(engine, c, NPU_STATUS_REGION_BOUNDS, 0, kRegion - bytes + 1, bytes, write);
    for (const uint8_t region : {uint8_t(write ? 1 : 2), uint8_t{3}, uint8_t{77}}) {
      move(c, region, 5);
      access(engine, c, NPU_STATUS_REGION_ACCESS, region, 5, bytes, write);
    }
  }

  /// Bytes at an address of local memory.
  struct Placed {
    uint32_t at;
    std::vector<uint8_t> bytes;
  };
  /// Runs a command of any engine with bytes in local memory and returns what then lies at another place. Region 0 is
  /// memory, whose upper half is free.
  std::vector<uint8_t> bytes_on_chip(Cmd c, const std::vector<Placed> &in, uint32_t out_addr, uint32_t out_bytes) {
    const bool gdma = c.bytes[0] >= NPU_OP_COPY;
    JobSpec j;
    j.regions = {area_.region()};
    uint64_t at = 0;
    for (const Placed &p : in) {
      m_.put(area_, at, p.bytes.data(), p.bytes.size());
      j.gdma(copy_bytes(static_cast<uint32_t>(p.bytes.size()), 0, at, kLocal, p.at));
      at += p.bytes.size();
    }
    EXPECT_LE(at, kRegion / 2);
    c.bytes[4] = static_cast<uint8_t>(gdma ? 0 : in.size());
    j.stream[gdma ? kGdma : kTiu].push_back(c);
    npu_cmd_copy save = copy_bytes(out_bytes, kLocal, out_addr, 0, kRegion / 2);
    save.wait = !gdma;
    EXPECT_STATUS(m_.run(j.gdma(save)), NPU_STATUS_OK);
    std::vector<uint8_t> out(out_bytes);
    m_.get(area_, kRegion / 2, out.data(), out.size());
    return out;
  }
  /// The same with one tensor of f32.
  std::vector<float> on_chip(const Cmd &c, const std::vector<float> &in, uint32_t in_addr, uint32_t out_addr,
                             uint32_t outputs) {
    std::vector<uint8_t> bytes(in.size() * sizeof(float));
    std::memcpy(bytes.data(), in.data(), bytes.size());
    bytes = bytes_on_chip(c, {{in_addr, bytes}}, out_addr, outputs * sizeof(float));
    std::vector<float> out(outputs);
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
  static npu_cmd_copy copy_bytes(uint32_t count, uint8_t from, uint64_t src, uint8_t to, uint64_t dst) {
    return with<npu_cmd_copy>([&](npu_cmd_copy &x) {
      x.src_dtype = x.dst_dtype = NPU_DTYPE_U8;
      x.src_region = from;
      x.src_offset = src;
      x.dst_region = to;
      x.dst_offset = dst;
      std::fill_n(x.dims, 6, 1u);
      x.dims[5] = count;
      x.src_stride[5] = x.dst_stride[5] = 1;
    });
  }

  Machine m_{{.lmem = kLmem}};
  const Area area_ = m_.allocate(kRegion);

 private:
  void sub_operations(unsigned engine, const Cmd &c, unsigned last) {
    for (unsigned subop = 0; subop < 256; ++subop) {
      Cmd x = c;
      x.bytes[1] = static_cast<uint8_t>(subop);
      if (subop <= last)
        EXPECT_NE(run(engine, x).status, NPU_STATUS_BAD_OPCODE) << subop;
      else
        fails(engine, x, NPU_STATUS_BAD_OPCODE, 0);
    }
  }
  void flag_bits(unsigned engine, const Cmd &c, uint16_t mask) {
    for (unsigned bit = 0; bit < 16; ++bit) {
      Cmd x = c;
      x.bytes[2 + bit / 8] = static_cast<uint8_t>(1u << bit % 8);
      if (mask >> bit & 1)
        EXPECT_NE(run(engine, x).status, NPU_STATUS_RESERVED_BITS) << bit;
      else
        fails(engine, x, NPU_STATUS_RESERVED_BITS, 2 + bit / 8);
    }
  }
  unsigned reserved_bytes(unsigned engine, const Cmd &c) {
    unsigned reserved = 0;
    const unsigned last = NPU_CMD_BYTES - 1;
    for (unsigned byte = 12; byte < NPU_CMD_BYTES; ++byte) {
      if (covered(c.bytes[0], byte)) continue;
      Cmd x = c;
      x.bytes[byte] = 0x80;
      if (!covered(c.bytes[0], last)) x.bytes[last] |= 1;  // the first one is named
      fails(engine, x, NPU_STATUS_RESERVED_BITS, byte);
      ++reserved;
    }
    return reserved;
  }
  /// Does a field cover the byte, by the tables of the document?
  static bool covered(uint8_t opcode, unsigned byte) {
    if (byte < 12) return true;
    for (const auto &f : hw::find_command(opcode)->fields)
      if (byte >= f.offset && byte < f.offset + hw::field_bytes(f.type) * f.count) return true;
    return false;
  }
};

#define BAD(cmd, offset, statement) bad_field(cmd, offset, [&](auto &c) { statement; })

}  // namespace npu::test

#endif  // NPU_TEST_MODEL_CHECKS_H
