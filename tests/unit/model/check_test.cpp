// SPDX-License-Identifier: MIT
// Checks of commands (docs/hardware.md sections 5.2 and 6.1): every rule with the byte it blames, exact bounds, the
// order of the checks.
#include <cmath>
#include <limits>

#include "tests/unit/model/machine.h"

namespace npu::test {
namespace {

constexpr uint32_t kLmem = 64 * 1024;
constexpr uint8_t kLocal = NPU_REGION_LOCAL;

// ---- legal commands to start from ----

npu_cmd_conv conv() {
  return with<npu_cmd_conv>([](npu_cmd_conv &c) {
    c.n = 1;
    c.ih = c.iw = 4;
    c.ic = 4;
    c.oc = 6;
    c.oh = c.ow = 2;
    c.kh = c.kw = 3;
    c.sh = c.sw = c.dh = c.dw = 1;
    c.groups = 2;
    c.wgt_region = kLocal;
    c.out_addr = 4096;
  });
}

npu_cmd_matmul matmul() {
  return with<npu_cmd_matmul>([](npu_cmd_matmul &c) {
    c.batch = 2;
    c.m = 3;
    c.k = 4;
    c.n = 5;
    c.a_batch_stride = 12;
    c.b_batch_stride = 20;
    c.wgt_region = kLocal;
    c.out_addr = 4096;
  });
}

npu_cmd_pool pool() {
  return with<npu_cmd_pool>([](npu_cmd_pool &c) {
    c.subop = NPU_POOL_AVG;
    c.n = 1;
    c.ih = c.iw = 4;
    c.c = 3;
    c.oh = c.ow = 2;
    c.kh = c.kw = c.sh = c.sw = 2;
    c.dh = c.dw = 1;
    c.out_addr = 4096;
  });
}

npu_cmd_eltwise eltwise() {
  return with<npu_cmd_eltwise>([](npu_cmd_eltwise &c) {
    c.out_addr = 4096;
    c.b_addr = 2048;
    std::fill_n(c.dims, 5, 1u);
    c.dims[4] = 8;
    c.a_stride[4] = c.b_stride[4] = 1;
  });
}

npu_cmd_unary unary() {
  return with<npu_cmd_unary>([](npu_cmd_unary &c) {
    c.subop = NPU_ACT_RELU;
    c.count = 8;
    c.out_addr = 4096;
  });
}

npu_cmd_softmax softmax() {
  return with<npu_cmd_softmax>([](npu_cmd_softmax &c) {
    c.rows = 2;
    c.cols = 4;
    c.out_addr = 4096;
  });
}

/// From region 0 to local memory.
npu_cmd_copy copy() {
  return with<npu_cmd_copy>([](npu_cmd_copy &c) {
    c.dst_region = kLocal;
    std::fill_n(c.dims, 6, 1u);
    c.dims[5] = 16;
    c.src_stride[5] = c.dst_stride[5] = 1;
  });
}

npu_cmd_fill fill() {
  return with<npu_cmd_fill>([](npu_cmd_fill &c) {
    c.dst_region = kLocal;
    std::fill_n(c.dims, 6, 1u);
    c.dims[5] = 16;
    c.dst_stride[5] = 1;
  });
}

/// A machine with a job frame: region 0 readable and writable, 1 read only, 2 write only, 3 neither, 64 KiB each but
/// region 3.
class Checks : public testing::Test {
 protected:
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
    EXPECT_EQ(done.phase & ~NPU_CQE_PHASE, 0u);
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
    EXPECT_EQ(done.phase & ~NPU_CQE_PHASE, write ? NPU_CQE_ACCESS_WRITE : NPU_CQE_ACCESS_READ);
  }

  Machine m_{{.lmem = kLmem}};
  const Area area_ = m_.allocate(kRegion);
};

// ---- opcodes and reserved bits ----

TEST_F(Checks, LegalCommandsRun) {
  ok(kTiu, conv());
  ok(kTiu, matmul());
  ok(kTiu, pool());
  ok(kTiu, eltwise());
  ok(kTiu, unary());
  ok(kTiu, softmax());
  ok(kGdma, copy());
  ok(kGdma, fill());
  ok(kTiu, nop());
  ok(kGdma, nop());
}

TEST_F(Checks, OpcodesBelongToTheirEngine) {
  const Cmd post = with<npu_cmd_sem_signal>([](npu_cmd_sem_signal &c) { c.value = 1; });
  const Cmd commands[] = {conv(), matmul(), pool(), eltwise(), unary(), softmax(), copy(), fill(), nop(), post};
  for (unsigned engine : {kTiu, kGdma})
    for (unsigned opcode = 0; opcode < 256; ++opcode) {
      if (opcode == NPU_OP_SEM_WAIT) continue;  // is known to both, and waits
      Cmd c;
      bool legal = false;
      for (const Cmd &known : commands)
        if (known.bytes[0] == opcode) {
          c = known;
          legal = opcode <= NPU_OP_SEM_SIGNAL || (opcode >= NPU_OP_COPY) == (engine == kGdma);
        }
      c.bytes[0] = static_cast<uint8_t>(opcode);
      if (legal)
        ok(engine, c);
      else
        fails(engine, c, NPU_STATUS_BAD_OPCODE, 0);
    }
}

TEST_F(Checks, SubOperations) {
  const auto last = [&](unsigned engine, const Cmd &c, unsigned legal) {
    for (unsigned subop = 0; subop < 256; ++subop) {
      Cmd x = c;
      x.bytes[1] = static_cast<uint8_t>(subop);
      if (subop <= legal)
        EXPECT_NE(run(engine, x).status, NPU_STATUS_BAD_OPCODE) << subop;
      else
        fails(engine, x, NPU_STATUS_BAD_OPCODE, 0);
    }
  };
  last(kTiu, conv(), 0);
  last(kTiu, matmul(), 0);
  last(kTiu, pool(), 1);
  last(kTiu, eltwise(), NPU_ELTWISE_MIN);
  last(kTiu, unary(), NPU_ACT_TANH);
  last(kTiu, softmax(), 1);
  last(kGdma, copy(), 0);
  last(kGdma, fill(), 0);
  last(kTiu, nop(), 0);
  last(kGdma, nop(), 0);
}

/// The bytes that a command's fields cover, from the tables of the document.
bool covered(uint8_t opcode, unsigned byte) {
  if (byte < 12) return true;
  for (const auto &f : hw::find_command(opcode)->fields)
    if (byte >= f.offset && byte < f.offset + hw::field_bytes(f.type) * f.count) return true;
  return false;
}

TEST_F(Checks, ReservedBytes) {
  unsigned reserved = 0;
  for (const auto &[engine, c] : std::initializer_list<std::pair<unsigned, Cmd>>{{kTiu, conv()},
                                                                                 {kTiu, matmul()},
                                                                                 {kTiu, pool()},
                                                                                 {kTiu, eltwise()},
                                                                                 {kTiu, unary()},
                                                                                 {kTiu, softmax()},
                                                                                 {kGdma, copy()},
                                                                                 {kGdma, fill()},
                                                                                 {kTiu, nop()},
                                                                                 {kGdma, nop()}})
    for (unsigned byte = 12; byte < NPU_CMD_BYTES; ++byte) {
      if (covered(c.bytes[0], byte)) continue;
      Cmd x = c;
      x.bytes[byte] = 0x80;
      x.bytes[NPU_CMD_BYTES - 1] |= 1;  // the first one is named
      fails(engine, x, NPU_STATUS_RESERVED_BITS, byte);
      ++reserved;
    }
  EXPECT_GT(reserved, 400u);
}

TEST_F(Checks, Flags) {
  const auto allowed = [&](unsigned engine, const Cmd &c, uint16_t mask) {
    for (unsigned bit = 0; bit < 16; ++bit) {
      Cmd x = c;
      x.bytes[2 + bit / 8] = static_cast<uint8_t>(1u << bit % 8);
      if (mask >> bit & 1)
        EXPECT_NE(run(engine, x).status, NPU_STATUS_RESERVED_BITS) << bit;
      else
        fails(engine, x, NPU_STATUS_RESERVED_BITS, 2 + bit / 8);
    }
  };
  allowed(kTiu, conv(), 0x7);
  allowed(kTiu, matmul(), 0x17);
  allowed(kTiu, pool(), 1);
  allowed(kTiu, eltwise(), 1);
  allowed(kTiu, unary(), 0);
  allowed(kTiu, softmax(), 0);
  allowed(kGdma, copy(), 0);
  allowed(kGdma, fill(), 0);
  allowed(kTiu, nop(), 0);
}

// ---- fields ----

#define BAD(cmd, offset, statement) bad_field(cmd, offset, [&](auto &c) { statement; })

TEST_F(Checks, ConvFields) {
  BAD(conv(), 24, c.psum_addr = 64);
  BAD(conv(), 28, c.in_dtype = NPU_DTYPE_U8);
  BAD(conv(), 29, c.wgt_dtype = NPU_DTYPE_S8);
  BAD(conv(), 30, c.out_dtype = 99);
  BAD(conv(), 31, c.act = NPU_ACT_EXP);
  BAD(conv(), 31, c.act = 255);
  BAD(conv(), 40, c.param_offset = 4);
  BAD(conv(), 49, c.param_region = 1);
  BAD(conv(), 52, c.n = 0);
  BAD(conv(), 56, c.ih = 0);
  BAD(conv(), 60, c.iw = 0);
  BAD(conv(), 64, c.ic = 0);
  BAD(conv(), 68, c.oc = 0);
  BAD(conv(), 72, c.oh = 0);
  BAD(conv(), 76, c.ow = 0);
  BAD(conv(), 80, c.kh = 0);
  BAD(conv(), 82, c.kw = 0);
  BAD(conv(), 84, c.sh = 0);
  BAD(conv(), 86, c.sw = 0);
  BAD(conv(), 88, c.dh = 0);
  BAD(conv(), 90, c.dw = 0);
  BAD(conv(), 92, c.groups = 0);
  BAD(conv(), 92, c.groups = 3);  // divides oc only
  BAD(conv(), 92, c.groups = 4);  // divides ic only
  BAD(conv(), 112, c.in_zp = 1);
  BAD(conv(), 116, c.out_zp = -1);
  BAD(conv(), 2, c.flags = NPU_CONV_PSUM_OUT | NPU_CONV_BIAS);
  BAD(conv(), 31, (c.flags = NPU_CONV_PSUM_OUT, c.act = NPU_ACT_RELU));
  npu_cmd_conv c = conv();
  c.flags = NPU_CONV_PSUM_IN | NPU_CONV_BIAS;
  c.psum_addr = c.out_addr;
  c.param_region = kLocal;
  ok(kTiu, c);
  c.pad_t = c.pad_l = 100;  // windows that see nothing are zero
  ok(kTiu, c);
  c.pad_t = c.pad_l = -100;
  ok(kTiu, c);
}

TEST_F(Checks, MatmulFields) {
  BAD(matmul(), 24, c.psum_addr = 64);
  BAD(matmul(), 28, c.in_dtype = NPU_DTYPE_F16);
  BAD(matmul(), 29, c.wgt_dtype = NPU_DTYPE_S8);
  BAD(matmul(), 30, c.out_dtype = NPU_DTYPE_BF16);
  BAD(matmul(), 31, c.act = NPU_ACT_EXP);
  BAD(matmul(), 40, c.param_offset = 1ull << 60);
  BAD(matmul(), 49, c.param_region = kLocal);
  BAD(matmul(), 52, c.batch = 0);
  BAD(matmul(), 56, c.m = 0);
  BAD(matmul(), 60, c.k = 0);
  BAD(matmul(), 64, c.n = 0);
  BAD(matmul(), 112, c.in_zp = 1);
  BAD(matmul(), 116, c.out_zp = 1);
  BAD(matmul(), 2, c.flags = NPU_CONV_PSUM_OUT | NPU_CONV_BIAS);
  BAD(matmul(), 31, (c.flags = NPU_CONV_PSUM_OUT, c.act = NPU_ACT_TANH));
  npu_cmd_matmul c = matmul();
  c.flags = NPU_CONV_TRANS_B | NPU_CONV_PSUM_IN;
  c.a_batch_stride = c.b_batch_stride = 0;
  ok(kTiu, c);
}

TEST_F(Checks, PoolFields) {
  BAD(pool(), 28, c.dtype = NPU_DTYPE_U8);
  BAD(pool(), 52, c.n = 0);
  BAD(pool(), 56, c.ih = 0);
  BAD(pool(), 60, c.iw = 0);
  BAD(pool(), 64, c.c = 0);
  BAD(pool(), 72, c.oh = 0);
  BAD(pool(), 76, c.ow = 0);
  BAD(pool(), 80, c.kh = 0);
  BAD(pool(), 82, c.kw = 0);
  BAD(pool(), 84, c.sh = 0);
  BAD(pool(), 86, c.sw = 0);
  BAD(pool(), 88, c.dh = 0);
  BAD(pool(), 90, c.dw = 0);
  BAD(pool(), 104, c.pad_b = 1);
  BAD(pool(), 108, c.pad_r = 1);
  npu_cmd_pool c = pool();
  c.flags = NPU_POOLF_COUNT_PAD;
  c.pad_b = c.pad_r = 1;
  ok(kTiu, c);
}

/// Does any window along an axis miss the image? By looking at each.
bool misses(int64_t in, int64_t out, int64_t k, int64_t s, int64_t d, int64_t pad) {
  for (int64_t o = 0; o < out; ++o) {
    bool hit = false;
    for (int64_t i = 0; i < k; ++i) {
      const int64_t cell = o * s - pad + i * d;
      hit |= cell >= 0 && cell < in;
    }
    if (!hit) return true;
  }
  return false;
}

TEST_F(Checks, PoolWindowsWithoutACell) {
  unsigned bad = 0, good = 0;
  for (unsigned n = 0; n < 3000; ++n) {
    const auto pick = [&, x = n * 2654435761u]() mutable { return (x = x * 1664525u + 1013904223u) >> 8; };
    auto next = pick;
    npu_cmd_pool c = pool();
    c.c = 1;
    const uint32_t in = 1 + next() % 9, out = 1 + next() % 6, k = 1 + next() % 5, s = 1 + next() % 5,
                   d = 1 + next() % 14;
    const int32_t pad = static_cast<int32_t>(next() % 40) - 8;
    const bool rows = next() % 2;
    (rows ? c.ih : c.iw) = in;
    (rows ? c.oh : c.ow) = out;
    (rows ? c.kh : c.kw) = static_cast<uint16_t>(k);
    (rows ? c.sh : c.sw) = static_cast<uint16_t>(s);
    (rows ? c.dh : c.dw) = static_cast<uint16_t>(d);
    (rows ? c.pad_t : c.pad_l) = pad;
    const npu_cqe done = run(kTiu, c);
    if (misses(in, out, k, s, d, pad)) {
      ++bad;
      ASSERT_STATUS(done, NPU_STATUS_BAD_FIELD) << n;
      const auto pads = rows ? offsetof(npu_cmd_pool, pad_t) : offsetof(npu_cmd_pool, pad_l);
      const auto sizes = rows ? offsetof(npu_cmd_pool, oh) : offsetof(npu_cmd_pool, ow);
      ASSERT_TRUE(done.offset == pads || done.offset == sizes);
    } else {
      ++good;
      ASSERT_STATUS(done, NPU_STATUS_OK) << n;
    }
  }
  EXPECT_GT(bad, 500u);
  EXPECT_GT(good, 300u);
}

TEST_F(Checks, PoolWindowsOfExtremeSizesAreCheckedQuickly) {
  npu_cmd_pool c = pool();
  c.oh = c.ow = 0xffffffff;
  c.kh = c.kw = c.dh = c.dw = 0xffff;
  c.sh = c.sw = 1;
  c.pad_t = c.pad_l = std::numeric_limits<int32_t>::max();
  fails(kTiu, c, NPU_STATUS_BAD_FIELD, offsetof(npu_cmd_pool, oh));
  c.oh = c.ow = 1u << 31;
  fails(kTiu, c, NPU_STATUS_BAD_FIELD, offsetof(npu_cmd_pool, pad_t));
  c.ih = c.iw = 0xffff;  // now every window meets it, and only local memory is too small
  EXPECT_STATUS(run(kTiu, c), NPU_STATUS_LMEM_BOUNDS);
}

TEST_F(Checks, EltwiseFields) {
  BAD(eltwise(), 28, c.dtype = NPU_DTYPE_S32);
  BAD(eltwise(), 31, c.act = NPU_ACT_EXP);
  for (unsigned i = 0; i < 5; ++i) {
    BAD(eltwise(), 32 + 4 * i, c.dims[i] = 0);
    BAD(eltwise(), 72 + 4 * i,
        (c.flags = NPU_ELTWISEF_B_IMM, c.b_addr = 0, std::fill_n(c.b_stride, 5, 0u), c.b_stride[i] = 1));
  }
  BAD(eltwise(), 92, c.imm = 1);
  BAD(eltwise(), 20, c.flags = NPU_ELTWISEF_B_IMM);
  npu_cmd_eltwise c = eltwise();
  c.flags = NPU_ELTWISEF_B_IMM;
  c.b_addr = 0;
  c.b_stride[4] = 0;
  c.imm = 3;
  ok(kTiu, c);
}

TEST_F(Checks, UnaryAndSoftmaxFields) {
  BAD(unary(), 24, c.count = 0);
  BAD(unary(), 28, c.in_dtype = NPU_DTYPE_F16);
  BAD(unary(), 30, c.out_dtype = NPU_DTYPE_F16);
  BAD(softmax(), 24, c.rows = 0);
  BAD(softmax(), 28, c.dtype = NPU_DTYPE_F16);
  BAD(softmax(), 32, c.cols = 0);
}

TEST_F(Checks, ActivationParameters) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto each = [&](auto command, auto set) {
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
    for (uint8_t act : {NPU_ACT_NONE, NPU_ACT_RELU, NPU_ACT_SIGMOID, NPU_ACT_TANH}) {
      good(act, 0, 0);
      bad(act, 1, 0, 104);
      bad(act, 0, -1, 108);
      bad(act, nan, 0, 104);
    }
    good(NPU_ACT_LEAKY_RELU, 0.1f, 0);
    bad(NPU_ACT_LEAKY_RELU, 0.1f, 1, 108);
    good(NPU_ACT_CLIP, 0, 6);
    good(NPU_ACT_CLIP, 2, 2);
    good(NPU_ACT_CLIP, -INFINITY, INFINITY);
    bad(NPU_ACT_CLIP, 6, 0, 104);
    bad(NPU_ACT_CLIP, nan, 0, 104);
    bad(NPU_ACT_CLIP, 0, nan, 108);
  };
  each(conv(), [](npu_cmd_conv &c, uint8_t act) { c.act = act; });
  each(matmul(), [](npu_cmd_matmul &c, uint8_t act) { c.act = act; });
  each(eltwise(), [](npu_cmd_eltwise &c, uint8_t act) { c.act = act; });
  each(unary(), [](npu_cmd_unary &c, uint8_t act) { c.subop = act; });
}

TEST_F(Checks, CopyAndFillFields) {
  for (const unsigned t : {NPU_DTYPE_S4, NPU_DTYPE_U4, 12u, 255u}) {
    const auto type = static_cast<uint8_t>(t);
    BAD(copy(), 34, c.src_dtype = c.dst_dtype = type);
    BAD(fill(), 35, c.dst_dtype = type);
  }
  BAD(copy(), 35, c.dst_dtype = NPU_DTYPE_S4);
  BAD(copy(), 35, c.dst_dtype = NPU_DTYPE_S32);  // a cast, though of equal size
  for (unsigned i = 0; i < 6; ++i) {
    BAD(copy(), 40 + 4 * i, c.dims[i] = 0);
    BAD(fill(), 40 + 4 * i, c.dims[i] = 0);
  }
  BAD(copy(), 40, (c.dims[4] = 1u << 16, c.dims[5] = 1u << 16));
  BAD(copy(), 40, std::fill_n(c.dims, 6, 0xffffffffu));
  BAD(fill(), 40, (c.dims[0] = 2, c.dims[5] = 1u << 31));
  BAD(fill(), 16, c.value = 1ull << 32);
  BAD(fill(), 16, (c.dst_dtype = NPU_DTYPE_U8, c.value = 0x100));
  BAD(fill(), 16, (c.dst_dtype = NPU_DTYPE_BF16, c.value = 0x10000));
  npu_cmd_fill f = fill();
  f.dst_dtype = NPU_DTYPE_B64;
  f.value = ~0ull;
  ok(kGdma, f);
  for (uint8_t type : {NPU_DTYPE_F32, NPU_DTYPE_F16, NPU_DTYPE_S8, NPU_DTYPE_U8, NPU_DTYPE_S16, NPU_DTYPE_U16,
                       NPU_DTYPE_S32, NPU_DTYPE_U32, NPU_DTYPE_BF16, NPU_DTYPE_B64}) {
    npu_cmd_copy c = copy();
    c.src_dtype = c.dst_dtype = type;
    ok(kGdma, c);
  }
}

// ---- local memory ----

TEST_F(Checks, LocalBoundsToTheByte) {
  npu_cmd_unary u = unary();
  u.out_addr = kLmem - 32;
  ok(kTiu, u);
  u.out_addr = kLmem - 28;
  access(kTiu, u, NPU_STATUS_LMEM_BOUNDS, kLocal, kLmem - 28, 32, true);
  u.out_addr = 0xfffffffc;
  access(kTiu, u, NPU_STATUS_LMEM_BOUNDS, kLocal, 0xfffffffc, 32, true);
  u = unary();
  u.in_addr = kLmem - 4;
  access(kTiu, u, NPU_STATUS_LMEM_BOUNDS, kLocal, kLmem - 4, 32, false);
  u.in_addr = 0;
  u.count = 0xffffffff;
  access(kTiu, u, NPU_STATUS_LMEM_BOUNDS, kLocal, 0, 0xffffffff, false);  // saturated
  npu_cmd_fill f = fill();
  f.dst_offset = kLmem - 64;
  ok(kGdma, f);
  f.dst_offset = kLmem - 60;
  access(kGdma, f, NPU_STATUS_LMEM_BOUNDS, kLocal, kLmem - 60, 64, true);
  f.dst_offset = ~0ull - 3;
  access(kGdma, f, NPU_STATUS_LMEM_BOUNDS, kLocal, ~0ull - 3, 64, true);
}

TEST_F(Checks, TensorsLargerThanAnythingAreLocalBounds) {
  npu_cmd_conv c = conv();
  c.n = c.ih = c.iw = c.ic = c.oc = c.oh = c.ow = 0x80000000u;
  c.kh = c.kw = 0xffff;
  access(kTiu, c, NPU_STATUS_LMEM_BOUNDS, kLocal, 0, 0xffffffff, false);
  npu_cmd_matmul mm = matmul();
  mm.batch = mm.m = mm.k = mm.n = mm.a_batch_stride = mm.b_batch_stride = 0xffffffffu;
  access(kTiu, mm, NPU_STATUS_LMEM_BOUNDS, kLocal, 0, 0xffffffff, false);
  npu_cmd_eltwise e = eltwise();
  std::fill_n(e.dims, 5, 0xffffffffu);
  std::fill_n(e.a_stride, 5, 0xffffffffu);
  access(kTiu, e, NPU_STATUS_LMEM_BOUNDS, kLocal, 0, 0xffffffff, false);
  npu_cmd_softmax s = softmax();
  s.rows = s.cols = 0x10000;
  access(kTiu, s, NPU_STATUS_LMEM_BOUNDS, kLocal, 0, 0xffffffff, false);
  npu_cmd_pool p = pool();
  p.n = p.c = 0x80000000u;
  access(kTiu, p, NPU_STATUS_LMEM_BOUNDS, kLocal, 0, 0xffffffff, false);
}

TEST_F(Checks, EachLocalOperandIsChecked) {
  const auto at = [&](auto c, uint32_t offset, uint32_t bytes, bool write, auto move) {
    move(c, kLmem - bytes);
    ok(kTiu, c);
    move(c, kLmem - bytes + 4);
    access(kTiu, c, NPU_STATUS_LMEM_BOUNDS, kLocal, kLmem - bytes + 4, bytes, write);
    move(c, 2);
    access(kTiu, c, NPU_STATUS_UNALIGNED, kLocal, 2, bytes, write);
    static_cast<void>(offset);
  };
  npu_cmd_conv c = conv();
  c.flags = NPU_CONV_PSUM_IN | NPU_CONV_BIAS;
  c.param_region = kLocal;
  at(c, 16, 4 * 4 * 4 * 4, false, [](auto &x, uint32_t v) { x.in_addr = v; });
  at(c, 20, 2 * 2 * 6 * 4, true, [](auto &x, uint32_t v) { x.out_addr = v; });
  at(c, 24, 2 * 2 * 6 * 4, false, [](auto &x, uint32_t v) { x.psum_addr = v; });
  at(c, 32, 6 * 9 * 2 * 4, false, [](auto &x, uint32_t v) { x.wgt_offset = v; });
  at(c, 40, 6 * 4, false, [](auto &x, uint32_t v) { x.param_offset = v; });
  npu_cmd_matmul m = matmul();
  m.flags = NPU_CONV_PSUM_IN | NPU_CONV_BIAS;
  m.param_region = kLocal;
  at(m, 16, 2 * 12 * 4, false, [](auto &x, uint32_t v) { x.in_addr = v; });
  at(m, 20, 2 * 15 * 4, true, [](auto &x, uint32_t v) { x.out_addr = v; });
  at(m, 24, 2 * 15 * 4, false, [](auto &x, uint32_t v) { x.psum_addr = v; });
  at(m, 32, 2 * 20 * 4, false, [](auto &x, uint32_t v) { x.wgt_offset = v; });
  at(m, 40, 5 * 4, false, [](auto &x, uint32_t v) { x.param_offset = v; });
  m.a_batch_stride = 1;
  m.b_batch_stride = 100;
  at(m, 16, 13 * 4, false, [](auto &x, uint32_t v) { x.in_addr = v; });
  at(m, 32, 120 * 4, false, [](auto &x, uint32_t v) { x.wgt_offset = v; });
  npu_cmd_eltwise e = eltwise();
  e.dims[3] = 3;
  e.a_stride[3] = 10;
  e.b_stride[4] = 0;
  at(e, 16, (20 + 8) * 4, false, [](auto &x, uint32_t v) { x.a_addr = v; });
  at(e, 20, 4, false, [](auto &x, uint32_t v) { x.b_addr = v; });
  at(e, 24, 24 * 4, true, [](auto &x, uint32_t v) { x.out_addr = v; });
  at(pool(), 16, 48 * 4, false, [](auto &x, uint32_t v) { x.in_addr = v; });
  at(pool(), 20, 12 * 4, true, [](auto &x, uint32_t v) { x.out_addr = v; });
  at(softmax(), 16, 32, false, [](auto &x, uint32_t v) { x.in_addr = v; });
  at(softmax(), 20, 32, true, [](auto &x, uint32_t v) { x.out_addr = v; });
}

TEST_F(Checks, LocalAlignmentIsTheElementSize) {
  for (uint8_t type : {NPU_DTYPE_U8, NPU_DTYPE_S16, NPU_DTYPE_F32, NPU_DTYPE_B64}) {
    const uint32_t size = type == NPU_DTYPE_U8 ? 1 : type == NPU_DTYPE_S16 ? 2 : type == NPU_DTYPE_F32 ? 4 : 8;
    npu_cmd_copy c = copy();
    c.src_dtype = c.dst_dtype = type;
    c.src_offset = 3;  // memory has no alignment
    for (uint32_t at = 0; at < 9; ++at) {
      c.dst_offset = at;
      if (at % size == 0)
        ok(kGdma, c);
      else
        access(kGdma, c, NPU_STATUS_UNALIGNED, kLocal, at, 16 * size, true);
    }
  }
}

// ---- regions ----

TEST_F(Checks, RegionBoundsToTheByte) {
  npu_cmd_copy c = copy();
  c.src_offset = kRegion - 64;
  ok(kGdma, c);
  c.src_offset = kRegion - 63;
  access(kGdma, c, NPU_STATUS_REGION_BOUNDS, 0, kRegion - 63, 64, false);
  c.src_offset = kRegion;
  access(kGdma, c, NPU_STATUS_REGION_BOUNDS, 0, kRegion, 64, false);
  c.src_offset = ~0ull;
  access(kGdma, c, NPU_STATUS_REGION_BOUNDS, 0, ~0ull, 64, false);
  // Strides widen the range to both sides.
  c.src_offset = 15 * 8;
  c.src_stride[5] = -2;
  ok(kGdma, c);
  c.src_offset = 15 * 8 - 1;
  access(kGdma, c, NPU_STATUS_REGION_BOUNDS, 0, ~0ull, 15 * 8 + 4, false);
  c.src_offset = 0;
  access(kGdma, c, NPU_STATUS_REGION_BOUNDS, 0, 0ull - 15 * 8, 15 * 8 + 4, false);
  c.src_stride[5] = 100;
  c.src_offset = kRegion - (15 * 400 + 4);
  ok(kGdma, c);
  c.src_offset += 1;
  access(kGdma, c, NPU_STATUS_REGION_BOUNDS, 0, kRegion - (15 * 400 + 4) + 1, 15 * 400 + 4, false);
  // Below the start of local memory.
  npu_cmd_copy d = copy();
  d.dst_stride[5] = -1;
  d.dst_offset = 60;
  ok(kGdma, d);
  d.dst_offset = 56;
  access(kGdma, d, NPU_STATUS_LMEM_BOUNDS, kLocal, ~3ull, 64, true);
}

TEST_F(Checks, RangesThatWrap64BitsAreBounds) {
  npu_cmd_copy c = copy();
  c.src_dtype = c.dst_dtype = NPU_DTYPE_B64;
  std::fill_n(c.dst_stride, 6, 0);
  // 2^31 * (2^31 - 1) elements of 8 bytes: 2^65, from an offset that brings the end back into the region.
  c.dims[4] = 2;
  c.dims[5] = 0x7fffffff;
  c.src_stride[5] = std::numeric_limits<int32_t>::max();
  c.src_stride[4] = 0;
  access(kGdma, c, NPU_STATUS_REGION_BOUNDS, 0, 0, 0xffffffff, false);
  c.src_offset = 0ull - 0x7ffffffeull * 0x7fffffff * 8;
  access(kGdma, c, NPU_STATUS_REGION_BOUNDS, 0, c.src_offset, 0xffffffff, false);
  c.src_stride[5] = std::numeric_limits<int32_t>::min();
  c.src_offset = 0;
  access(kGdma, c, NPU_STATUS_REGION_BOUNDS, 0, 0ull - 0x7ffffffeull * 0x80000000 * 8, 0xffffffff, false);
  npu_cmd_fill f = fill();
  f.dst_region = 0;
  f.dst_offset = ~0ull - 15;
  access(kGdma, f, NPU_STATUS_REGION_BOUNDS, 0, ~0ull - 15, 64, true);
}

TEST_F(Checks, RangesBeyond64BitsAreBoundsOfTheLargestRegionToo) {
  npu_region all{};
  all.bytes = ~0ull;
  all.access = NPU_ACCESS_READ;
  const auto reach = [&](int32_t stride, uint32_t last) {
    npu_cmd_copy c = copy();
    c.src_dtype = c.dst_dtype = NPU_DTYPE_B64;
    c.dims[5] = last + 1;
    c.src_stride[5] = stride;
    c.dst_stride[5] = 0;
    JobSpec j;
    j.regions = {all};
    j.gdma(c);
    return m_.run(j);
  };
  // 2^30 steps of 2^31 elements of 8 bytes are 2^64: the lowest byte's offset is 0 again, modulo 2^64.
  for (int32_t stride : {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()}) {
    const npu_cqe c = reach(stride, stride < 0 ? 1u << 30 : (1u << 30) + 1);
    EXPECT_STATUS(c, NPU_STATUS_REGION_BOUNDS);
    EXPECT_EQ(c.offset, 0u);
    EXPECT_EQ(c.bytes, 0xffffffffu);
  }
}

TEST_F(Checks, RegionsAllowWhatTheyAllow) {
  npu_cmd_copy c = copy();
  c.src_region = 1;
  ok(kGdma, c);
  for (uint8_t region : {2, 3, 5, 63, 64, 254}) {  // region 4 is the stream's, readable
    c.src_region = region;
    access(kGdma, c, NPU_STATUS_REGION_ACCESS, region, 0, 64, false);
  }
  npu_cmd_fill f = fill();
  f.dst_region = 2;
  ok(kGdma, f);
  for (uint8_t region : {1, 3, 4, 5, 254}) {
    f.dst_region = region;
    access(kGdma, f, NPU_STATUS_REGION_ACCESS, region, 0, 64, true);
  }
}

TEST_F(Checks, StreamedOperandsAreCheckedInTheirRegions) {
  npu_cmd_conv c = conv();
  c.flags = NPU_CONV_BIAS;
  const uint32_t weights = 6 * 9 * 2 * 4, bias = 24;
  const auto set = [&](uint8_t wr, uint64_t wo, uint8_t pr, uint64_t po) {
    c.wgt_region = wr;
    c.wgt_offset = wo;
    c.param_region = pr;
    c.param_offset = po;
    return c;
  };
  ok(kTiu, set(1, kRegion - weights, 0, kRegion - bias));
  ok(kTiu, set(0, 1, 1, 3));  // any alignment
  access(kTiu, set(1, kRegion - weights + 1, 0, kRegion), NPU_STATUS_REGION_BOUNDS, 1, kRegion - weights + 1, weights,
         false);
  access(kTiu, set(0, 0, 0, kRegion - bias + 1), NPU_STATUS_REGION_BOUNDS, 0, kRegion - bias + 1, bias, false);
  access(kTiu, set(2, 0, 0, 0), NPU_STATUS_REGION_ACCESS, 2, 0, weights, false);
  access(kTiu, set(0, 0, 3, 0), NPU_STATUS_REGION_ACCESS, 3, 0, bias, false);
  npu_cmd_matmul m = matmul();
  m.wgt_region = 0;
  m.b_batch_stride = 0xffffffff;
  m.batch = 3;
  m.n = 1;
  m.m = 1;
  m.a_batch_stride = 0;
  access(kTiu, m, NPU_STATUS_REGION_BOUNDS, 0, 0, 0xffffffff, false);
}

// ---- order ----

TEST_F(Checks, AreMadeInTheirOrder) {
  // Everything is wrong; each repair uncovers the next.
  npu_cmd_copy c = copy();
  c.opcode = 0x7f;
  c.flags = 1;
  c.pad0[0] = 1;
  c.dims[5] = 0;
  c.src_region = 9;
  c.dst_offset = kLmem + 1;
  const auto expect = [&](uint16_t status) { EXPECT_STATUS(run(kGdma, c, 33), status); };
  expect(NPU_STATUS_BAD_OPCODE);
  c.opcode = NPU_OP_COPY;
  c.subop = 1;
  expect(NPU_STATUS_BAD_OPCODE);
  c.subop = 0;
  expect(NPU_STATUS_RESERVED_BITS);
  c.flags = 0;
  expect(NPU_STATUS_RESERVED_BITS);
  c.pad0[0] = 0;
  expect(NPU_STATUS_BAD_FIELD);
  c.dims[5] = 16;
  expect(NPU_STATUS_UNALIGNED);
  c.dst_offset = kLmem;
  expect(NPU_STATUS_LMEM_BOUNDS);
  c.dst_offset = 0;
  expect(NPU_STATUS_REGION_ACCESS);
  c.src_region = 0;
  c.src_offset = kRegion;
  expect(NPU_STATUS_REGION_BOUNDS);
  c.src_offset = 0;
  m_.unmap(0, area_.va);
  m_.wait_invalidated(m_.invalidate(0));
  expect(NPU_STATUS_BUDGET);
  EXPECT_STATUS(run(kGdma, c, 0), NPU_STATUS_PAGE_FAULT);
}

TEST_F(Checks, WaitComesBeforeAnyCheck) {
  JobSpec j;
  Cmd bad;
  bad.bytes[4] = 1;  // wait for the first command of the other engine, which is slower to fail
  j.tiu(bad).gdma(nop()).gdma(Cmd{});
  const npu_cqe c = m_.run(j);
  EXPECT_STATUS(c, NPU_STATUS_BAD_OPCODE);
  EXPECT_EQ(c.engine, NPU_ENGINE_TIU);
  EXPECT_EQ(c.end_cycle - c.start_cycle, 32u);
}

TEST_F(Checks, FailingCommandHasNoEffectAndTheNextJobIsFine) {
  npu_cmd_fill f = fill();
  f.dst_region = 0;
  f.value = 0x55;
  f.dims[5] = kRegion / 4 + 1;
  EXPECT_STATUS(run(kGdma, f), NPU_STATUS_REGION_BOUNDS);
  EXPECT_EQ(m_.content(area_), std::vector<uint8_t>(kRegion));
  f.dims[5] = kRegion / 4;
  ok(kGdma, f);
}

}  // namespace
}  // namespace npu::test
