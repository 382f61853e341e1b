// SPDX-License-Identifier: MIT
// Store modes: tensors whose batches share words, in launches, in files, and in any mixture of both.
#include <stdlib.h>

#include <cstring>
#include <thread>

#include "bmruntime_cpp.h"
#include "tests/unit/runtime/fixture.h"

namespace {

using npu::bmodel::StageDesc;
using test_models::file;
using test_models::flow;
using test_models::mirror;
using test_models::net;
using test_models::on_cpu;
using test_models::on_npu;
using test_models::stored_at;
using namespace test_runtime;
using Bytes = std::vector<uint8_t>;

constexpr uint8_t kFilling = 0xEE;

/// A kind of tensor, [batch, inner].
struct Kind {
  bm_data_type_t dtype = BM_INT8;
  int batch = 1, inner = 1;

  size_t element() const { return dtype == BM_INT8 || dtype == BM_UINT8 ? 1 : 2; }
  bm_store_mode_t shared() const { return element() == 1 ? BM_STORE_4N : BM_STORE_2N; }
  size_t lanes(bm_store_mode_t mode) const { return mode == BM_STORE_1N ? 1 : 4 / element(); }
  size_t bytes(bm_store_mode_t mode) const {
    const size_t n = lanes(mode), b = static_cast<size_t>(batch);
    return (b + n - 1) / n * n * static_cast<size_t>(inner) * element();
  }
  std::vector<uint64_t> dims() const { return {static_cast<uint64_t>(batch), static_cast<uint64_t>(inner)}; }
  std::string name() const {
    return "type " + std::to_string(dtype) + " [" + std::to_string(batch) + "," + std::to_string(inner) + "]";
  }
};

/// Row-major bytes that tell every element from its neighbours.
Bytes values(const Kind &k, unsigned seed = 1) {
  Bytes out(k.bytes(BM_STORE_1N));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<uint8_t>((i + seed) * 37 + (i >> 8) * 11);
  return out;
}

/// Row-major bytes in another mode, filled up.
Bytes pack(const Kind &k, bm_store_mode_t mode, const Bytes &plain, uint8_t filling = kFilling) {
  Bytes out(k.bytes(mode), filling);
  for (size_t b = 0; b < static_cast<size_t>(k.batch); ++b)
    for (size_t i = 0; i < static_cast<size_t>(k.inner); ++i)
      std::memcpy(&out[stored_at(k.lanes(mode), static_cast<uint64_t>(k.inner), b, i) * k.element()],
                  &plain[(b * static_cast<size_t>(k.inner) + i) * k.element()], k.element());
  return out;
}

/// The row-major bytes of what is stored in a mode.
Bytes unpack(const Kind &k, bm_store_mode_t mode, const Bytes &packed) {
  Bytes out(k.bytes(BM_STORE_1N));
  for (size_t b = 0; b < static_cast<size_t>(k.batch); ++b)
    for (size_t i = 0; i < static_cast<size_t>(k.inner); ++i)
      std::memcpy(&out[(b * static_cast<size_t>(k.inner) + i) * k.element()],
                  &packed[stored_at(k.lanes(mode), static_cast<uint64_t>(k.inner), b, i) * k.element()], k.element());
  return out;
}

/// What `mirror` computes, of row-major bytes.
Bytes mirrored(const Kind &k, const Bytes &plain) {
  Bytes out(plain.size());
  const auto inner = static_cast<size_t>(k.inner);
  for (size_t b = 0; b < static_cast<size_t>(k.batch); ++b)
    for (size_t i = 0; i < inner; ++i)
      std::memcpy(&out[(b * inner + i) * k.element()], &plain[(b * inner + inner - 1 - i) * k.element()], k.element());
  return out;
}

/// Device memory with bytes.
class Memory {
 public:
  Memory(bm_handle_t handle, Bytes bytes) : handle_(handle) {
    EXPECT_EQ(bm_malloc_device_byte(handle, &mem, static_cast<unsigned int>(bytes.size())), BM_SUCCESS);
    write(std::move(bytes));
  }
  ~Memory() { bm_free_device(handle_, mem); }
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  void write(Bytes bytes) {
    EXPECT_EQ(bm_memcpy_s2d_partial(handle_, mem, bytes.data(), static_cast<unsigned int>(bytes.size())), BM_SUCCESS);
  }
  Bytes read() const {
    Bytes out(bm_mem_get_device_size(mem));
    EXPECT_EQ(bm_memcpy_d2s(handle_, out.data(), mem), BM_SUCCESS) << npu_last_error();
    return out;
  }
  bm_device_mem_t mem;

 private:
  bm_handle_t handle_;
};

StageDesc mirror_of(const Kind &k, bm_store_mode_t x, bm_store_mode_t y) { return mirror(k.dims(), k.dtype, x, y); }

class StoreModeTest : public RuntimeTest {
 protected:
  bm_tensor_t tensor_of(const Kind &k, const bm_device_mem_t &mem, bm_store_mode_t mode) {
    bm_tensor_t t = tensor(mem, {k.batch, k.inner}, k.dtype);
    t.st_mode = mode;
    return t;
  }
  bool launch_modes(const char *net, const bm_tensor_t &in, bm_tensor_t &out, bool user_mem = true) {
    return bmrt_launch_tensor_ex(p_bmrt, net, &in, 1, &out, 1, user_mem, true);
  }
  void sync() { ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error(); }
  /// A network of the kind: 'mirror', its tensors in these modes.
  void load_mirror(const Kind &k, bm_store_mode_t x = BM_STORE_1N, bm_store_mode_t y = BM_STORE_1N,
                   const char *name = "mirror") {
    ASSERT_TRUE(load(file({net(name, {mirror_of(k, x, y)})}))) << bmrt_last_error();
  }
  /// Launches all pairs of modes that a caller may have. With `alone`, nobody writes what fills an output up: neither
  /// `mirror` nor what changes its store mode.
  void launch_all(const Kind &k, const char *net, const std::string &about, bool alone = true) {
    const Bytes plain = values(k), expected = mirrored(k, plain);
    for (const bm_store_mode_t in_mode : {BM_STORE_1N, k.shared()})
      for (const bm_store_mode_t out_mode : {BM_STORE_1N, k.shared()}) {
        SCOPED_TRACE(about + ", launched as " + std::to_string(in_mode) + " -> " + std::to_string(out_mode));
        const Memory x(handle, pack(k, in_mode, plain)), y(handle, Bytes(k.bytes(out_mode), 0xCC));
        bm_tensor_t out = tensor_of(k, y.mem, out_mode);
        ASSERT_TRUE(launch_modes(net, tensor_of(k, x.mem, in_mode), out)) << bmrt_last_error();
        sync();
        EXPECT_EQ(unpack(k, out_mode, y.read()), expected);
        if (alone) {
          EXPECT_EQ(y.read(), pack(k, out_mode, expected, 0xCC)) << "what fills it up";
        }
        EXPECT_EQ(x.read(), pack(k, in_mode, plain));
        EXPECT_EQ(out.st_mode, out_mode);
      }
  }
};

// ---- layouts

TEST_F(StoreModeTest, WordsAreLaidOutAsDocumented) {
  const Kind bytes{BM_UINT8, 3, 2}, halves{BM_UINT16, 3, 2};
  EXPECT_EQ(pack(bytes, BM_STORE_4N, {10, 11, 20, 21, 30, 31}), (Bytes{10, 20, 30, 0xEE, 11, 21, 31, 0xEE}));
  EXPECT_EQ(pack(halves, BM_STORE_2N, {1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0}),
            (Bytes{1, 0, 3, 0, 2, 0, 4, 0, 5, 0, 0xEE, 0xEE, 6, 0, 0xEE, 0xEE}));
}

TEST_F(StoreModeTest, EveryMixtureOfModesComputes) {
  int number = 0;
  for (const bm_data_type_t dtype : {BM_INT8, BM_UINT16, BM_UINT8, BM_INT16, BM_FLOAT16, BM_BFLOAT16})
    for (const int batch : {1, 3, 4, 5, 8})
      for (const int inner : {1, 15, 64}) {
        if (number > 30 && (batch != 5 || inner != 15)) continue;  // the layout depends on the size of the type only
        const Kind k{dtype, batch, inner};
        for (const bm_store_mode_t x : {BM_STORE_1N, k.shared()})
          for (const bm_store_mode_t y : {BM_STORE_1N, k.shared()}) {
            const std::string name = "mirror" + std::to_string(number++);
            load_mirror(k, x, y, name.c_str());
            launch_all(k, name.c_str(), k.name() + " compiled as " + std::to_string(x) + " -> " + std::to_string(y));
          }
        if (HasFailure()) return;
      }
}

TEST_F(StoreModeTest, LargeTensorsOfManyDimsComputeToo) {
  const Kind k{BM_INT8, 6, 3 * 50 * 70};
  ASSERT_TRUE(load(file({net("large", {mirror({6, 3, 50, 70}, k.dtype, BM_STORE_4N, BM_STORE_1N)})})));
  const Bytes plain = values(k);
  const Memory x(handle, plain), y(handle, Bytes(k.bytes(BM_STORE_4N), 7));
  bm_tensor_t in = tensor(x.mem, {6, 3, 50, 70}, k.dtype), out = in;
  out.device_mem = y.mem;
  out.st_mode = BM_STORE_4N;
  ASSERT_TRUE(launch_modes("large", in, out)) << bmrt_last_error();
  sync();
  EXPECT_EQ(y.read(), pack(k, BM_STORE_4N, mirrored(k, plain), 7));
}

// ---- memory

TEST_F(StoreModeTest, OutputsOfTheRuntimeHaveRoomForTheFilling) {
  const Kind k{BM_UINT8, 5, 3};
  load_mirror(k);
  const Bytes plain = values(k);
  const Memory x(handle, pack(k, BM_STORE_4N, plain));
  const bm_tensor_t in = tensor_of(k, x.mem, BM_STORE_4N);
  bm_tensor_t out{};
  out.st_mode = BM_STORE_4N;
  ASSERT_TRUE(launch_modes("mirror", in, out, false)) << bmrt_last_error();
  sync();
  EXPECT_EQ(out.st_mode, BM_STORE_4N);
  EXPECT_EQ(bm_mem_get_device_size(out.device_mem), 24u);
  EXPECT_EQ(bmrt_tensor_bytesize(&out), 15u) << "elements times element size, as ever";
  Bytes got(24);
  ASSERT_EQ(bm_memcpy_d2s(handle, got.data(), out.device_mem), BM_SUCCESS);
  EXPECT_EQ(got, pack(k, BM_STORE_4N, mirrored(k, plain), 0)) << "new memory is zero";
  bm_free_device(handle, out.device_mem);
  // Without user_stmode the wish is not looked at.
  ASSERT_TRUE(bmrt_launch_tensor_ex(p_bmrt, "mirror", &in, 1, &out, 1, false, false)) << bmrt_last_error();
  sync();
  EXPECT_EQ(out.st_mode, BM_STORE_1N);
  EXPECT_EQ(bm_mem_get_device_size(out.device_mem), 15u);
  bm_free_device(handle, out.device_mem);
}

TEST_F(StoreModeTest, NetworksTellTheirFilledUpSizes) {
  const Kind k{BM_INT16, 3, 5};
  load_mirror(k, BM_STORE_2N, BM_STORE_1N);
  const bm_net_info_t *info = bmrt_get_network_info(p_bmrt, "mirror");
  EXPECT_EQ(info->max_input_bytes[0], 40u);
  EXPECT_EQ(info->max_output_bytes[0], 30u);
  EXPECT_EQ(bm_mem_get_device_size(info->stages[0].input_mems[0]), 40u);
  testing::internal::CaptureStdout();
  bmrt_trace(p_bmrt);
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_TRUE(contains(text, "input 0 'x' is stored as BM_STORE_2N")) << text;
  EXPECT_FALSE(contains(text, "output 0 'y' is stored as")) << text;
}

TEST_F(StoreModeTest, MemoryThatIsTooSmallIsRefused) {
  const Kind k{BM_UINT8, 5, 3};
  load_mirror(k);
  const Memory small(handle, Bytes(23)), large(handle, Bytes(24));
  bm_tensor_t out = tensor_of(k, large.mem, BM_STORE_4N);
  EXPECT_FALSE(launch_modes("mirror", tensor_of(k, small.mem, BM_STORE_4N), out));
  EXPECT_TRUE(contains(bmrt_last_error(), "input 0 ('x'): its device memory has 23 bytes, the tensor needs 24"))
      << bmrt_last_error();
  out.device_mem = small.mem;
  EXPECT_FALSE(launch_modes("mirror", tensor_of(k, large.mem, BM_STORE_4N), out));
  EXPECT_TRUE(contains(bmrt_last_error(), "output 0 ('y'): its device memory has 23 bytes, the tensor needs 24"))
      << bmrt_last_error();
  EXPECT_EQ(bm_thread_sync(handle), BM_SUCCESS) << "a refused launch is not a failed job";
  EXPECT_EQ(large.read(), Bytes(24));
  // Row-major, the same memory is large enough.
  out.st_mode = BM_STORE_1N;
  EXPECT_TRUE(launch_modes("mirror", tensor_of(k, large.mem, BM_STORE_4N), out)) << bmrt_last_error();
  sync();
}

TEST_F(StoreModeTest, AnInputMayBeTheOutput) {
  const Kind k{BM_UINT8, 4, 9};
  load_mirror(k);
  load_mirror(k, BM_STORE_4N, BM_STORE_4N, "mirror4");
  const Bytes plain = values(k);
  for (const char *name : {"mirror", "mirror4"})
    for (const bm_store_mode_t in_mode : {BM_STORE_1N, BM_STORE_4N})
      for (const bm_store_mode_t out_mode : {BM_STORE_1N, BM_STORE_4N}) {
        // A program that reads and writes the same memory without saying so may not share it.
        const bm_store_mode_t own = std::strcmp(name, "mirror") == 0 ? BM_STORE_1N : BM_STORE_4N;
        if (in_mode == own && out_mode == own) continue;
        const Memory xy(handle, pack(k, in_mode, plain));
        bm_tensor_t out = tensor_of(k, xy.mem, out_mode);
        ASSERT_TRUE(launch_modes(name, tensor_of(k, xy.mem, in_mode), out)) << bmrt_last_error();
        sync();
        EXPECT_EQ(xy.read(), pack(k, out_mode, mirrored(k, plain))) << name << " " << in_mode << " -> " << out_mode;
      }
}

TEST_F(StoreModeTest, NothingStaysOnTheCard) {
  const Kind k{BM_INT8, 5, 4096};
  const uint64_t before = held();
  {
    void *const runtime = bmrt_create(handle);
    const auto bytes = file({net("mirror", {mirror_of(k, BM_STORE_1N, BM_STORE_1N)})});
    ASSERT_TRUE(bmrt_load_bmodel_data(runtime, bytes.data(), bytes.size())) << bmrt_last_error();
    const Memory x(handle, pack(k, BM_STORE_4N, values(k)));
    const bm_tensor_t in = tensor_of(k, x.mem, BM_STORE_4N);
    uint64_t after_first = 0;
    for (int i = 0; i < 20; ++i) {
      bm_tensor_t out{};
      out.st_mode = BM_STORE_4N;
      ASSERT_TRUE(bmrt_launch_tensor_ex(runtime, "mirror", &in, 1, &out, 1, false, true)) << bmrt_last_error();
      sync();
      bm_free_device(handle, out.device_mem);
      if (i == 0) after_first = held();
      EXPECT_EQ(held(), after_first) << "launch " << i;
    }
    bmrt_destroy(runtime);
  }
  EXPECT_EQ(held(), before);
}

// ---- ways to launch

TEST_F(StoreModeTest, LaunchesChainWithoutASync) {
  const Kind k{BM_INT8, 7, 33};
  load_mirror(k);
  bmrt_set_max_launches(p_bmrt, 3);
  const Bytes plain = values(k);
  const Memory a(handle, pack(k, BM_STORE_4N, plain)), b(handle, Bytes(k.bytes(BM_STORE_1N)));
  bm_tensor_t ta = tensor_of(k, a.mem, BM_STORE_4N), tb = tensor_of(k, b.mem, BM_STORE_1N);
  for (int i = 0; i < 25; ++i) {
    ASSERT_TRUE(launch_modes("mirror", ta, tb)) << bmrt_last_error();
    ASSERT_TRUE(launch_modes("mirror", tb, ta)) << bmrt_last_error();
  }
  ASSERT_TRUE(launch_modes("mirror", ta, tb)) << bmrt_last_error();
  sync();
  EXPECT_EQ(b.read(), mirrored(k, plain));
  EXPECT_EQ(a.read(), pack(k, BM_STORE_4N, plain));
}

TEST_F(StoreModeTest, OnChosenCores) {
  const Kind k{BM_UINT8, 3, 11};
  load_mirror(k);
  const Bytes plain = values(k);
  const Memory x(handle, pack(k, BM_STORE_4N, plain)), y(handle, Bytes(k.bytes(BM_STORE_4N), kFilling));
  const bm_tensor_t in = tensor_of(k, x.mem, BM_STORE_4N);
  bm_tensor_t out = tensor_of(k, y.mem, BM_STORE_4N);
  const int core = 1;
  ASSERT_TRUE(bmrt_launch_tensor_multi_cores(p_bmrt, "mirror", &in, 1, &out, 1, true, true, &core, 1))
      << bmrt_last_error();
  sync();
  EXPECT_EQ(y.read(), pack(k, BM_STORE_4N, mirrored(k, plain)));
  uint64_t cycles = 0, alone = 0;
  ASSERT_TRUE(bmrt_last_launch_cycles(p_bmrt, &cycles)) << bmrt_last_error();
  const Memory row(handle, plain);
  out.st_mode = BM_STORE_1N;
  ASSERT_TRUE(launch_modes("mirror", tensor_of(k, row.mem, BM_STORE_1N), out));
  sync();
  ASSERT_TRUE(bmrt_last_launch_cycles(p_bmrt, &alone)) << bmrt_last_error();
  EXPECT_EQ(cycles, alone) << "the network's cycles";
}

TEST_F(StoreModeTest, DataInSystemMemoryAreRowMajor) {
  const Kind k{BM_UINT16, 3, 7};
  load_mirror(k, BM_STORE_2N, BM_STORE_2N);
  Bytes plain = values(k), result(plain.size());
  void *in = plain.data(), *out = result.data();
  const bm_shape_t dims = shape({3, 7});
  bm_shape_t got;
  ASSERT_TRUE(bmrt_launch_data(p_bmrt, "mirror", &in, &dims, 1, &out, &got, 1, true)) << bmrt_last_error();
  EXPECT_EQ(result, mirrored(k, plain));
  ASSERT_TRUE(bmrt_launch_data(p_bmrt, "mirror", &in, &dims, 1, &out, &got, 1, false)) << bmrt_last_error();
  EXPECT_EQ(Bytes(static_cast<uint8_t *>(out), static_cast<uint8_t *>(out) + plain.size()), mirrored(k, plain));
  free(out);
}

TEST_F(StoreModeTest, ARecordTakesTheNetworksOwnModes) {
  const Kind k{BM_UINT8, 3, 7};
  load_mirror(k, BM_STORE_4N, BM_STORE_1N);
  const Bytes plain = values(k);
  const Memory x(handle, pack(k, BM_STORE_4N, plain)), y(handle, Bytes(k.bytes(BM_STORE_4N)));
  bm_tensor_t in = tensor_of(k, x.mem, BM_STORE_4N), out = tensor_of(k, y.mem, BM_STORE_4N);
  EXPECT_FALSE(get_bmodel_api_info_c(p_bmrt, "mirror", &in, 1, &out, 1, true, true));
  EXPECT_TRUE(contains(bmrt_last_error(),
                       "network 'mirror' output 0 ('y'): store mode BM_STORE_4N, a record takes the "
                       "network's own, BM_STORE_1N"))
      << bmrt_last_error();
  in.st_mode = BM_STORE_1N;
  EXPECT_FALSE(get_bmodel_api_info_c(p_bmrt, "mirror", &in, 1, &out, 1, true, false));
  EXPECT_TRUE(contains(bmrt_last_error(), "input 0 ('x'): store mode BM_STORE_1N")) << bmrt_last_error();
  in.st_mode = BM_STORE_4N;
  api_info_c *record = get_bmodel_api_info_c(p_bmrt, "mirror", &in, 1, &out, 1, true, false);
  ASSERT_TRUE(record) << bmrt_last_error();
  ASSERT_EQ(bm_send_api(handle, static_cast<int>(record->api_id[0]), record->api_data[0],
                        static_cast<unsigned int>(record->api_data_subsize[0])),
            BM_SUCCESS)
      << npu_last_error();
  sync();
  Bytes expected = mirrored(k, plain);
  expected.resize(k.bytes(BM_STORE_4N));
  EXPECT_EQ(y.read(), expected);
  bmrt_free_api_info(record);
}

TEST_F(StoreModeTest, NetworksOfTheCppInterfaceMakeRoom) {
  const Kind k{BM_INT8, 3, 6};
  const auto bytes = file({net("mirror", {mirror_of(k, BM_STORE_1N, BM_STORE_1N)})});
  const bmruntime::Context context(handle);
  ASSERT_EQ(const_cast<bmruntime::Context &>(context).load_bmodel(bytes.data(), bytes.size()), BM_SUCCESS);
  for (const int stage : {0, -1}) {
    bmruntime::Network network(context, "mirror", stage);
    bmruntime::Tensor &x = *network.Inputs()[0], &y = *network.Outputs()[0];
    x.set_store_mode(BM_STORE_4N);
    y.set_store_mode(BM_STORE_4N);
    if (stage == -1) {
      EXPECT_EQ(x.Reshape(shape({3, 6})), BM_SUCCESS) << bmrt_last_error();
    }
    EXPECT_EQ(x.ByteSize(), 18u);
    const Bytes plain = values(k), packed = pack(k, BM_STORE_4N, plain);
    ASSERT_EQ(x.CopyFrom(packed.data(), packed.size()), BM_SUCCESS) << bmrt_last_error();
    EXPECT_EQ(x.CopyFrom(packed.data(), packed.size(), 1), BM_ERR_PARAM);
    ASSERT_EQ(network.Forward(), BM_SUCCESS) << bmrt_last_error();
    Bytes got(packed.size());
    ASSERT_EQ(y.CopyTo(got.data(), got.size()), BM_SUCCESS) << bmrt_last_error();
    EXPECT_EQ(got, pack(k, BM_STORE_4N, mirrored(k, plain), 0));
    x.set_store_mode(BM_STORE_2N);
    EXPECT_EQ(network.Forward(), BM_ERR_FAILURE);
    EXPECT_TRUE(contains(bmrt_last_error(), "input 0 ('x'): store mode BM_STORE_2N")) << bmrt_last_error();
  }
}

TEST_F(StoreModeTest, ThreadsDoNotDisturbEachOther) {
  const Kind k{BM_UINT8, 5, 40};
  load_mirror(k);
  bmrt_set_max_launches(p_bmrt, 2);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([this, k, t] {
      const bm_store_mode_t in_mode = t & 1 ? BM_STORE_4N : BM_STORE_1N, out_mode = t & 2 ? BM_STORE_4N : BM_STORE_1N;
      for (unsigned i = 0; i < 20; ++i) {
        const Bytes plain = values(k, 100 * t + i);
        const Memory x(handle, pack(k, in_mode, plain)), y(handle, Bytes(k.bytes(out_mode), kFilling));
        bm_tensor_t out = tensor_of(k, y.mem, out_mode);
        EXPECT_TRUE(launch_modes("mirror", tensor_of(k, x.mem, in_mode), out)) << bmrt_last_error();
        EXPECT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
        EXPECT_EQ(y.read(), pack(k, out_mode, mirrored(k, plain))) << "thread " << t << " launch " << i;
      }
    });
  for (std::thread &t : threads) t.join();
}

TEST_F(StoreModeTest, AFailedLaunchLeavesItsOutputAlone) {
  const Kind k{BM_UINT8, 2, 8};
  StageDesc bad = mirror_of(k, BM_STORE_1N, BM_STORE_1N);
  bad.gdma.resize(bad.gdma.size() / 2);  // of two commands the first, which now reads beyond its input
  test_models::Stage beyond;
  beyond.desc = bad;
  beyond.move(beyond.in(0), 1, 1, beyond.out(0), 0, 1, 16, 1);
  ASSERT_TRUE(load(file({net("bad", {beyond.desc})}))) << bmrt_last_error();
  load_mirror(k);
  const Bytes plain = values(k);
  const Memory x(handle, pack(k, BM_STORE_4N, plain)), y(handle, Bytes(32, 9)), z(handle, Bytes(32, kFilling));
  const bm_tensor_t in = tensor_of(k, x.mem, BM_STORE_4N);
  bm_tensor_t out = tensor_of(k, y.mem, BM_STORE_4N), good = tensor_of(k, z.mem, BM_STORE_4N);
  ASSERT_TRUE(launch_modes("bad", in, out)) << bmrt_last_error();
  ASSERT_TRUE(launch_modes("mirror", in, good)) << bmrt_last_error();
  EXPECT_EQ(bm_thread_sync(handle), BM_ERR_FAILURE);
  EXPECT_TRUE(contains(npu_last_error(), "beyond the region")) << npu_last_error();
  EXPECT_EQ(y.read(), Bytes(32, 9));
  EXPECT_EQ(z.read(), pack(k, BM_STORE_4N, mirrored(k, plain)));
}

// ---- networks of several parts

TEST_F(StoreModeTest, DynamicBatchesAreFilledUp) {
  for (const bool compiled : {false, true}) {
    const Kind most{BM_UINT8, 8, 6};
    const bm_store_mode_t mode = compiled ? BM_STORE_4N : BM_STORE_1N;
    StageDesc stage = mirror_of(most, mode, mode);
    stage.is_dynamic = stage.n_dynamic = 1;
    const std::string name = compiled ? "any4" : "any1";
    ASSERT_TRUE(load(file({net(name, {stage})}))) << bmrt_last_error();
    for (int batch = 1; batch <= 8; ++batch)
      launch_all({BM_UINT8, batch, 6}, name.c_str(), name + " " + std::to_string(batch), !compiled);
  }
}

TEST_F(StoreModeTest, SubNetworksMayShareWordsBetweenThem) {
  const Kind k{BM_UINT8, 5, 6};
  const auto in = test_models::tensor("x", k.dims(), k.dtype, BM_STORE_1N);
  const auto out = test_models::tensor("y", k.dims(), k.dtype, BM_STORE_4N);
  ASSERT_TRUE(load(file({net("parts", {flow({in}, {out},
                                            {on_npu(0, mirror_of(k, BM_STORE_1N, BM_STORE_4N), {"x"}, {"h"}, {1}),
                                             on_npu(1, mirror_of(k, BM_STORE_4N, BM_STORE_4N), {"h"}, {"i"}, {2}),
                                             on_npu(2, mirror_of(k, BM_STORE_4N, BM_STORE_4N), {"i"}, {"y"}, {})})})})))
      << bmrt_last_error();
  launch_all(k, "parts", "three mirrors");
}

TEST_F(StoreModeTest, TheCpuHasItsTurnOnRowMajorTensors) {
  const Kind k{BM_UINT8, 5, 6};
  const auto x = test_models::tensor("x", k.dims(), k.dtype, BM_STORE_4N),
             h = test_models::tensor("h", k.dims(), k.dtype);
  const auto y = test_models::tensor("y", k.dims(), k.dtype);
  ASSERT_TRUE(load(file({net("parts", {flow({x}, {y},
                                            {on_npu(0, mirror_of(k, BM_STORE_4N, BM_STORE_1N), {"x"}, {"h"}, {1}),
                                             on_cpu(1, NPU_CPU_COPY, {h}, {y}, {})})})})))
      << bmrt_last_error();
  launch_all(k, "parts", "a mirror and a copy");
  EXPECT_FALSE(load(file({net("odd", {flow({x}, {y}, {on_cpu(1, NPU_CPU_COPY, {x}, {y}, {})})})})));
  EXPECT_TRUE(
      contains(bmrt_last_error(), "sub-network 1: 'x' has the store mode BM_STORE_4N, the CPU takes BM_STORE_1N only"))
      << bmrt_last_error();
  const auto refused = [this](std::vector<npu::bmodel::TensorDesc> in, std::vector<npu::bmodel::TensorDesc> out,
                              std::vector<npu::bmodel::SubNetDesc> subs, const char *message) {
    EXPECT_FALSE(load(file({net("odd", {flow(in, out, subs)})})));
    EXPECT_TRUE(contains(bmrt_last_error(), message)) << bmrt_last_error();
  };
  refused({x}, {y},
          {on_npu(0, mirror_of(k, BM_STORE_1N, BM_STORE_1N), {"x"}, {"h"}, {1}), on_cpu(1, NPU_CPU_COPY, {h}, {y}, {})},
          "sub-network 0: tensor 'x' has another store mode than elsewhere");
  refused({h}, {x},
          {on_npu(0, mirror_of(k, BM_STORE_1N, BM_STORE_1N), {"h"}, {"y"}, {1}),
           test_models::merge(1, {y}, {x}, {{0}}, {})},
          "sub-network 1: its output 'x' has another store mode than 'y'");
  const auto z = test_models::tensor("z", {6, 5}, k.dtype, BM_STORE_4N);
  refused({h}, {z},
          {on_npu(0, mirror_of(k, BM_STORE_1N, BM_STORE_4N), {"h"}, {"x"}, {1}),
           test_models::merge(1, {x}, {z}, {{0}}, {})},
          "sub-network 1: its output 'z' has another shape than 'x'");
}

class TwoCardsStoreModes : public TwoCards {};

TEST_F(TwoCardsStoreModes, StepsShareWordsAcrossThem) {
  const Kind k{BM_INT8, 6, 5};
  auto first = net("first", {mirror_of(k, BM_STORE_1N, BM_STORE_4N)}),
       second = net("second", {mirror_of(k, BM_STORE_4N, BM_STORE_1N)});
  first.part_of = second.part_of = "both";
  second.step = second.device = 1;
  first.stages[0].outputs[0].name = second.stages[0].inputs[0].name = "h";
  first.stages[0].outputs[0].hidden = second.stages[0].inputs[0].hidden = 1;
  const auto bytes = file({first, second});
  ASSERT_TRUE(bmrt_load_bmodel_data(p_bmrt, bytes.data(), bytes.size())) << bmrt_last_error();
  const Bytes plain = values(k);
  const Memory x(handles[0], pack(k, BM_STORE_4N, plain)), y(handles[1], Bytes(k.bytes(BM_STORE_4N), kFilling));
  bm_tensor_t in = tensor(x.mem, {6, 5}, k.dtype), out = tensor(y.mem, {6, 5}, k.dtype);
  in.st_mode = out.st_mode = BM_STORE_4N;
  ASSERT_TRUE(bmrt_launch_tensor_ex(p_bmrt, "both", &in, 1, &out, 1, true, true)) << bmrt_last_error();
  EXPECT_EQ(y.read(), pack(k, BM_STORE_4N, plain)) << "mirrored twice; the launch has finished";
}

// ---- what is refused

TEST_F(StoreModeTest, ModesThatATypeCannotHaveAreRefused) {
  const Kind small{BM_INT8, 2, 2}, wide{BM_FLOAT16, 2, 2};
  load_mirror(small, BM_STORE_1N, BM_STORE_1N, "small");
  load_mirror(wide, BM_STORE_1N, BM_STORE_1N, "wide");
  ASSERT_TRUE(load(test_models::sample())) << bmrt_last_error();
  const Memory x(handle, Bytes(64)), y(handle, Bytes(64));
  struct {
    const char *net;
    bm_data_type_t dtype;
    std::vector<int> dims;
    int mode;
    const char *message;
  } const cases[] = {
      {"small", BM_INT8, {2, 2}, 1, "store mode BM_STORE_2N, tensors of type int8 may have BM_STORE_1N or BM_STORE_4N"},
      {"small", BM_INT8, {2, 2}, 3, "store mode 3, tensors of type int8 may have BM_STORE_1N or BM_STORE_4N"},
      {"wide",
       BM_FLOAT16,
       {2, 2},
       2,
       "store mode BM_STORE_4N, tensors of type float16 may have BM_STORE_1N or BM_STORE_2N"},
      {"plus", BM_FLOAT32, {1, 8}, 2, "store mode BM_STORE_4N, tensors of type float32 may have BM_STORE_1N"},
  };
  for (const auto &c : cases) {
    bm_tensor_t in = tensor(x.mem, c.dims, c.dtype), out = tensor(y.mem, c.dims, c.dtype);
    in.st_mode = static_cast<bm_store_mode_t>(c.mode);
    EXPECT_FALSE(launch_modes(c.net, in, out));
    EXPECT_EQ(bmrt_last_error(),
              std::string("bmrt_launch_tensor_ex: network '") + c.net + "' input 0 ('x'): " + c.message);
    std::swap(in.st_mode, out.st_mode);
    EXPECT_FALSE(launch_modes(c.net, in, out));
    EXPECT_TRUE(contains(bmrt_last_error(), std::string("output 0 ('y'): ") + c.message)) << bmrt_last_error();
  }
}

TEST_F(StoreModeTest, OtherBatchesOfOneStageAreRowMajorOnly) {
  const Kind k{BM_UINT8, 4, 6};
  load_mirror(k);
  const Memory x(handle, Bytes(96)), y(handle, Bytes(96));
  bm_tensor_t in = tensor(x.mem, {8, 3}, k.dtype), out = tensor(y.mem, {4, 6}, k.dtype);
  EXPECT_TRUE(launch_modes("mirror", in, out)) << bmrt_last_error();
  sync();
  in.st_mode = BM_STORE_4N;
  EXPECT_FALSE(launch_modes("mirror", in, out));
  EXPECT_TRUE(contains(bmrt_last_error(), "input 0 ('x'): a batch of 8 in BM_STORE_4N, expected 4"))
      << bmrt_last_error();
  in.shape = shape({4, 2, 3});
  EXPECT_TRUE(launch_modes("mirror", in, out)) << bmrt_last_error();
  sync();
}

TEST_F(StoreModeTest, FilesWithWrongModesAreRefused) {
  struct {
    uint32_t dtype;
    int32_t mode;
    const char *message;
  } const cases[] = {
      {BM_INT8, 1, "input 'x' has store mode BM_STORE_2N, tensors of type int8 may have BM_STORE_1N or BM_STORE_4N"},
      {BM_UINT16, 2,
       "input 'x' has store mode BM_STORE_4N, tensors of type uint16 may have BM_STORE_1N or BM_STORE_2N"},
      {BM_INT8, -7, "input 'x' has store mode -7, tensors of type int8 may have BM_STORE_1N or BM_STORE_4N"},
  };
  for (const auto &c : cases) {
    StageDesc stage = mirror({4, 4}, c.dtype, 0, 0);
    stage.inputs[0].store_mode = c.mode;
    EXPECT_FALSE(load(file({net("odd", {stage})})));
    EXPECT_TRUE(contains(bmrt_last_error(), c.message)) << bmrt_last_error();
  }
  StageDesc stage = mirror({5, 4}, BM_UINT8, 2, 0);
  stage.inputs[0].store_mode = 0;  // the region has the filled-up size
  EXPECT_FALSE(load(file({net("odd", {stage})})));
  EXPECT_TRUE(contains(bmrt_last_error(), "region 0: 32 bytes, what it stands for has 20")) << bmrt_last_error();
}

}  // namespace
