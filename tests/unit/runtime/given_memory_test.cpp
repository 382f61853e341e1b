// SPDX-License-Identifier: MIT
// Models in memory of the program's: bmrt_load_bmodel_with_mem and its kin.
#include <cstring>
#include <thread>

#include "tests/unit/runtime/fixture.h"

namespace {

using test_models::affine;
using test_models::file;
using test_models::net;
using namespace test_runtime;
using Bytes = std::vector<uint8_t>;

/// The kinds of memory that a model needs, by name.
struct Kind {
  const char *name;
  memory_t mem_info_t::*member;
};
constexpr Kind kKinds[] = {{"instruction_mem", &mem_info_t::instruction_mem},
                           {"neuron_mem", &mem_info_t::neuron_mem},
                           {"coeff_mem", &mem_info_t::coeff_mem},
                           {"io_mem", &mem_info_t::io_mem}};

Floats numbers(size_t count, float first = 0.5f) {
  Floats out;
  for (size_t i = 0; i < count; ++i) out.push_back(first + static_cast<float>(i));
  return out;
}

/// What `affine` computes.
Floats affine_of(const Floats &x) {
  Floats out;
  for (size_t i = 0; i < x.size(); ++i) out.push_back(2 * x[i] + static_cast<float>(i + 1));
  return out;
}

Bytes as_bytes(const Floats &values) {
  Bytes out(values.size() * sizeof(float));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

class GivenMemoryTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    model = file({net("weights", {affine(16)})});
    needs(model, info);
  }
  void TearDown() override {
    release();
    RuntimeTest::TearDown();
  }
  void release() {
    for (const bm_device_mem_t &m : mine) bm_free_device(handle, m);
    mine.clear();
  }

  static void needs(const Bytes &bytes, mem_info_t &out) {
    ASSERT_TRUE(bmrt_get_bmodel_data_info(bytes.data(), bytes.size(), &out)) << bmrt_last_error();
  }
  bm_device_mem_t allocate(uint64_t bytes) {
    bm_device_mem_t mem{};
    EXPECT_EQ(bm_malloc_device_byte(handle, &mem, static_cast<unsigned int>(bytes)), BM_SUCCESS) << npu_last_error();
    mine.push_back(mem);
    return mem;
  }
  /// Exactly what is needed of each kind.
  void give_all(mem_info_t &to) {
    for (const Kind &kind : kKinds)
      if ((to.*kind.member).size)
        (to.*kind.member).addr = static_cast<int64_t>(bm_mem_get_device_addr(allocate((to.*kind.member).size)));
  }
  bool load_into(mem_info_t &memory, const Bytes &bytes, void *runtime = nullptr) {
    return bmrt_load_bmodel_data_with_mem(runtime ? runtime : p_bmrt, bytes.data(), bytes.size(), &memory);
  }
  Bytes contents(const memory_t &mem) {
    Bytes out(mem.size);
    const auto from =
        bm_mem_from_device(static_cast<unsigned long long>(mem.addr), static_cast<unsigned int>(mem.size));
    EXPECT_EQ(bm_memcpy_d2s(handle, out.data(), from), BM_SUCCESS) << npu_last_error();
    return out;
  }
  void overwrite(const memory_t &mem, Bytes bytes) {
    const auto to =
        bm_mem_from_device(static_cast<unsigned long long>(mem.addr), static_cast<unsigned int>(bytes.size()));
    EXPECT_EQ(bm_memcpy_s2d(handle, to, bytes.data()), BM_SUCCESS) << npu_last_error();
  }
  /// A launch of a network with one input and one output of as many elements.
  Floats result_of(const char *name, const Floats &values, void *runtime = nullptr) {
    const DeviceFloats x(handle, values), y(handle, Floats(values.size()));
    const bm_tensor_t in = tensor(x.mem(), {static_cast<int>(values.size())});
    bm_tensor_t out = tensor(y.mem(), {static_cast<int>(values.size())});
    EXPECT_TRUE(bmrt_launch_tensor_ex(runtime ? runtime : p_bmrt, name, &in, 1, &out, 1, true, false))
        << bmrt_last_error();
    EXPECT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
    return y.read();
  }
  void expect_affine(const char *name = "weights", size_t count = 16, void *runtime = nullptr) {
    EXPECT_EQ(result_of(name, numbers(count), runtime), affine_of(numbers(count)));
  }
  void refused(mem_info_t memory, const std::string &message) {
    EXPECT_FALSE(load_into(memory, model));
    EXPECT_TRUE(contains(bmrt_last_error(), message)) << bmrt_last_error();
    EXPECT_EQ(bmrt_get_network_number(p_bmrt), 0);
  }

  Bytes model;
  mem_info_t info{};                  // what `model` needs, and after give_all where it is
  std::vector<bm_device_mem_t> mine;  // freed at the end
};

// ---- it is used

TEST_F(GivenMemoryTest, EverythingIsWhereTheProgramWantsIt) {
  give_all(info);
  bmrt_set_max_launches(p_bmrt, 1);
  const uint64_t before = held();
  ASSERT_TRUE(load_into(info, model)) << bmrt_last_error();
  EXPECT_EQ(held(), before) << "the runtime has allocated nothing";
  EXPECT_EQ(contents(info.coeff_mem), as_bytes(numbers(16, 1)));
  const npu::bmodel::StageDesc stage = affine(16);
  Bytes commands = stage.tiu;
  commands.insert(commands.end(), stage.gdma.begin(), stage.gdma.end());
  Bytes code = contents(info.instruction_mem);
  ASSERT_GE(code.size(), commands.size());
  code.resize(commands.size());
  EXPECT_EQ(code, commands);
  const bm_stage_info_t &io = bmrt_get_network_info(p_bmrt, "weights")->stages[0];
  const auto first = static_cast<unsigned long long>(info.io_mem.addr);
  EXPECT_EQ(bm_mem_get_device_addr(io.input_mems[0]), first);
  EXPECT_EQ(bm_mem_get_device_addr(io.output_mems[0]), first + 4096);
  Floats x = numbers(16);
  ASSERT_EQ(bm_memcpy_s2d(handle, io.input_mems[0], x.data()), BM_SUCCESS);
  for (int i = 0; i < 5; ++i) {
    bm_tensor_t out = tensor(io.output_mems[0], {16});
    ASSERT_TRUE(launch("weights", tensor(io.input_mems[0], {16}), out)) << bmrt_last_error();
  }
  ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(held(), before) << "nor for the launches";
  EXPECT_EQ(read(handle, io.output_mems[0]), affine_of(x));
  Bytes activations = contents(info.neuron_mem);
  EXPECT_EQ(std::memcmp(activations.data(), affine_of(x).data(), 64), 0);
  EXPECT_EQ(std::memcmp(&activations[4096], x.data(), 64), 0);
  testing::internal::CaptureStdout();
  bmrt_trace(p_bmrt);
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_TRUE(contains(text, "coefficients 64 bytes, code 1024 bytes, input and output memory 8192 bytes")) << text;
}

TEST_F(GivenMemoryTest, EachKindMayBeGivenAlone) {
  for (const Kind &kind : kKinds) {
    SCOPED_TRACE(kind.name);
    void *const runtime = bmrt_create(handle);
    mem_info_t some = info;
    (some.*kind.member).addr = static_cast<int64_t>(bm_mem_get_device_addr(allocate((some.*kind.member).size)));
    const Bytes empty = contents(some.*kind.member);
    ASSERT_TRUE(load_into(some, model, runtime)) << bmrt_last_error();
    expect_affine("weights", 16, runtime);
    if (kind.member != &mem_info_t::io_mem) {
      EXPECT_NE(contents(some.*kind.member), empty) << "it was not used";
    }
    bmrt_destroy(runtime);
    release();
  }
  // Nothing at all is as good.
  mem_info_t none = info;
  none.coeff_mem.addr = 0;
  none.io_mem.addr = 0x1000;
  none.io_mem.size = 0;
  EXPECT_TRUE(load_into(none, model)) << bmrt_last_error();
  expect_affine();
  const Bytes other = file({net("other", {affine(16)})});
  EXPECT_TRUE(bmrt_load_bmodel_data_with_mem(p_bmrt, other.data(), other.size(), nullptr)) << bmrt_last_error();
}

TEST_F(GivenMemoryTest, OneAllocationMayHoldAllAtAnyByte) {
  const auto block = bm_mem_get_device_addr(allocate(65536));
  for (const uint64_t shift : {uint64_t{0}, uint64_t{5}, uint64_t{130}}) {
    void *const runtime = bmrt_create(handle);
    uint64_t at = block + shift;
    for (const Kind &kind : kKinds) {
      (info.*kind.member).addr = static_cast<int64_t>(at);
      at += (info.*kind.member).size;
    }
    ASSERT_TRUE(load_into(info, model, runtime)) << bmrt_last_error();
    const Bytes code = contents(info.instruction_mem);
    for (int i = 0; i < 3; ++i) expect_affine("weights", 16, runtime);
    EXPECT_EQ(contents(info.coeff_mem), as_bytes(numbers(16, 1))) << shift;
    EXPECT_EQ(contents(info.instruction_mem), code) << shift;
    const Floats expected = affine_of(numbers(16));
    EXPECT_EQ(std::memcmp(contents(info.neuron_mem).data(), expected.data(), 64), 0) << shift;
    bmrt_destroy(runtime);
  }
}

// The program may write what is its own, and the next launch sees it.
TEST_F(GivenMemoryTest, CoefficientsMayBeChanged) {
  give_all(info);
  ASSERT_TRUE(load_into(info, model)) << bmrt_last_error();
  expect_affine();
  for (int round = 1; round <= 3; ++round) {
    overwrite(info.coeff_mem, as_bytes(Floats(16, 100.0f * static_cast<float>(round))));
    Floats expected = numbers(16);
    for (float &v : expected) v = 2 * v + 100.0f * static_cast<float>(round);
    EXPECT_EQ(result_of("weights", numbers(16)), expected);
  }
}

TEST_F(GivenMemoryTest, DamagedCommandsFailAloneAndRecover) {
  give_all(info);
  ASSERT_TRUE(load_into(info, model)) << bmrt_last_error();
  const Bytes code = contents(info.instruction_mem);
  overwrite(info.instruction_mem, Bytes(code.size(), 0xff));
  const DeviceFloats x(handle, numbers(16)), y(handle, Floats(16, -1));
  bm_tensor_t out = tensor(y.mem(), {16});
  ASSERT_TRUE(launch("weights", tensor(x.mem(), {16}), out)) << bmrt_last_error();
  EXPECT_EQ(bm_thread_sync(handle), BM_ERR_FAILURE);
  EXPECT_EQ(y.read(), Floats(16, -1));
  overwrite(info.instruction_mem, code);
  expect_affine();
}

// ---- several networks

TEST_F(GivenMemoryTest, NetworksOfAFileShareIt) {
  auto plus = net("plus", {test_models::plus({1, 8}, 3)});
  plus.addr_mode = 1;
  model = file({net("one", {affine(16)}), net("two", {affine(16), affine(8)}), plus});
  needs(model, info);
  EXPECT_EQ(info.coeff_mem.size, 128u + 32) << "equal coefficients are once in the file";
  EXPECT_EQ(info.neuron_mem.size, 8192u) << "as much as one launch of the largest";
  EXPECT_EQ(info.io_mem.size, 3u * 8192) << "that of 16 elements is common, that of addr_mode 1 is not";
  give_all(info);
  bmrt_set_max_launches(p_bmrt, 1);
  const uint64_t before = held();
  ASSERT_TRUE(load_into(info, model)) << bmrt_last_error();
  std::vector<uint64_t> places;
  for (const char *name : {"one", "two", "plus"})
    for (int s = 0; s < bmrt_get_network_info(p_bmrt, name)->stage_num; ++s)
      places.push_back(bm_mem_get_device_addr(bmrt_get_network_info(p_bmrt, name)->stages[s].input_mems[0]) -
                       static_cast<uint64_t>(info.io_mem.addr));
  EXPECT_EQ(places, (std::vector<uint64_t>{0, 0, 8192, 16384}));
  for (int i = 0; i < 3; ++i) {
    expect_affine("one");
    expect_affine("two");
    expect_affine("two", 8);
    EXPECT_EQ(result_of("plus", numbers(8)), numbers(8, 3.5f));
  }
  EXPECT_EQ(held(), before);
}

TEST_F(GivenMemoryTest, LaunchesTakeTurnsWithTheActivationMemory) {
  model = file({net("one", {affine(16)}), net("two", {affine(16)}), net("three", {affine(8)})});
  needs(model, info);
  give_all(info);
  for (const int limit : {1, 3}) {
    void *const runtime = bmrt_create(handle);
    bmrt_set_max_launches(runtime, limit);
    ASSERT_TRUE(load_into(info, model, runtime)) << bmrt_last_error();
    const uint64_t before = held();
    std::vector<std::thread> threads;
    for (int t = 0; t < 6; ++t)
      threads.emplace_back([t, runtime] {
        const char *const names[] = {"one", "two", "three"};
        const size_t count = t % 3 == 2 ? 8 : 16;
        for (int i = 0; i < 25; ++i) {
          Floats x = numbers(count, static_cast<float>(100 * t + i)), y(count);
          void *in = x.data(), *out = y.data();
          const bm_shape_t dims = shape({static_cast<int>(count)});
          bm_shape_t got;
          EXPECT_TRUE(bmrt_launch_data(runtime, names[t % 3], &in, &dims, 1, &out, &got, 1, true)) << bmrt_last_error();
          EXPECT_EQ(y, affine_of(x));
        }
      });
    for (std::thread &t : threads) t.join();
    if (limit == 1) {
      EXPECT_EQ(held(), before) << "with one launch at a time there is no need for more";
    }
    bmrt_destroy(runtime);
  }
}

// Of several jobs each, with the CPU between them: what passes between the sub-networks lies in the given memory.
TEST_F(GivenMemoryTest, LaunchesOfSeveralJobsTakeTurns) {
  model = file({net("one", {test_models::there_and_back()}), net("two", {test_models::there_and_back()})});
  needs(model, info);
  give_all(info);
  bmrt_set_max_launches(p_bmrt, 1);
  ASSERT_TRUE(load_into(info, model)) << bmrt_last_error();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([this, t] {
      for (int i = 0; i < 50; ++i) {
        const auto first = static_cast<float>(1000 * t + i);
        Floats x = numbers(8, first), y(8);
        void *in = x.data(), *out = y.data();
        const bm_shape_t dims = shape({1, 8});
        bm_shape_t got;
        EXPECT_TRUE(bmrt_launch_data(p_bmrt, t % 2 ? "one" : "two", &in, &dims, 1, &out, &got, 1, true))
            << bmrt_last_error();
        EXPECT_EQ(y, numbers(8, first + 3));
      }
    });
  for (std::thread &t : threads) t.join();
}

TEST_F(GivenMemoryTest, LaunchesInFlightTakeTurnsToo) {
  model = file({net("one", {affine(16)}), net("two", {affine(16)})});
  needs(model, info);
  give_all(info);
  bmrt_set_max_launches(p_bmrt, 1);
  ASSERT_TRUE(load_into(info, model)) << bmrt_last_error();
  const DeviceFloats x(handle, numbers(16)), y(handle, Floats(16)), z(handle, Floats(16));
  bm_tensor_t a = tensor(y.mem(), {16}), b = tensor(z.mem(), {16});
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(launch("one", tensor(x.mem(), {16}), a)) << bmrt_last_error();
    ASSERT_TRUE(launch("two", tensor(y.mem(), {16}), b)) << bmrt_last_error();
  }
  ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(y.read(), affine_of(numbers(16)));
  EXPECT_EQ(z.read(), affine_of(affine_of(numbers(16))));
}

TEST_F(GivenMemoryTest, RuntimesMayHaveTheSameActivationMemory) {
  const auto block = bm_mem_get_device_addr(allocate(32768));
  mem_info_t first = info, second = info;
  first.neuron_mem.addr = second.neuron_mem.addr = static_cast<int64_t>(block);
  void *const other = bmrt_create(handle);
  bmrt_set_max_launches(p_bmrt, 1);
  bmrt_set_max_launches(other, 1);
  ASSERT_TRUE(load_into(first, model)) << bmrt_last_error();
  ASSERT_TRUE(load_into(second, model, other)) << bmrt_last_error();
  std::thread beside([&] {
    for (int i = 0; i < 20; ++i) expect_affine("weights", 16, other);
  });
  for (int i = 0; i < 20; ++i) expect_affine();
  beside.join();
  bmrt_destroy(other);
  for (int i = 0; i < 3; ++i) expect_affine();
  mem_info_t third = info;
  third.neuron_mem.addr = static_cast<int64_t>(block + 4096);
  const Bytes again = file({net("again", {affine(16)})});
  EXPECT_FALSE(load_into(third, again));
  EXPECT_TRUE(contains(bmrt_last_error(), "neuron_mem: it overlaps other memory that was given for activations"))
      << bmrt_last_error();
  third.neuron_mem.addr = static_cast<int64_t>(block + 8192);
  EXPECT_TRUE(load_into(third, again)) << bmrt_last_error();
}

TEST_F(GivenMemoryTest, SubNetworksAndCoresUseItToo) {
  model = file({net("back", {test_models::there_and_back()}), net("relay", {test_models::relay()}),
                net("choose", {test_models::choose()})});
  needs(model, info);
  give_all(info);
  bmrt_set_max_launches(p_bmrt, 1);
  const uint64_t before = held();
  ASSERT_TRUE(load_into(info, model)) << bmrt_last_error();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(result_of("back", numbers(8, 1)), numbers(8, 4));
    Floats doubled = numbers(8, 2);
    for (float &v : doubled) v *= 2;
    EXPECT_EQ(result_of("relay", numbers(8, 1)), doubled);
  }
  EXPECT_EQ(held(), before);
}

// ---- lifetimes

TEST_F(GivenMemoryTest, ItStaysTheCallers) {
  const uint64_t start = held();
  give_all(info);
  const uint64_t with_memory = held();
  void *const runtime = bmrt_create(handle);
  ASSERT_TRUE(load_into(info, model, runtime)) << bmrt_last_error();
  expect_affine("weights", 16, runtime);
  bmrt_destroy(runtime);
  EXPECT_EQ(held(), with_memory);
  EXPECT_EQ(contents(info.coeff_mem), as_bytes(numbers(16, 1)));
  overwrite(info.coeff_mem, Bytes(64, 1));
  release();
  EXPECT_EQ(held(), start);
}

TEST_F(GivenMemoryTest, FreeingItEarlyDoesNoHarm) {
  const uint64_t start = held();
  give_all(info);
  void *const runtime = bmrt_create(handle);
  bmrt_set_max_launches(runtime, 1);
  ASSERT_TRUE(load_into(info, model, runtime)) << bmrt_last_error();
  const DeviceFloats x(handle, numbers(16)), y(handle, Floats(16));
  const bm_tensor_t in = tensor(x.mem(), {16});
  bm_tensor_t out = tensor(y.mem(), {16});
  ASSERT_TRUE(bmrt_launch_tensor_ex(runtime, "weights", &in, 1, &out, 1, true, false)) << bmrt_last_error();
  release();
  std::vector<bm_device_mem_t> others;  // that would get the same places
  for (int i = 0; i < 8; ++i) {
    bm_device_mem_t mem;
    ASSERT_EQ(bm_malloc_device_byte(handle, &mem, 8192), BM_SUCCESS);
    Bytes dirt(8192, 0xff);
    ASSERT_EQ(bm_memcpy_s2d(handle, mem, dirt.data()), BM_SUCCESS);
    others.push_back(mem);
  }
  ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(y.read(), affine_of(numbers(16)));
  for (int i = 0; i < 3; ++i) expect_affine("weights", 16, runtime);
  for (const bm_device_mem_t &mem : others) bm_free_device(handle, mem);
  bmrt_destroy(runtime);
  EXPECT_EQ(held(), start + 2 * 4096) << "x and y";
}

TEST_F(GivenMemoryTest, ItMayBeGivenAgainAfterwards) {
  give_all(info);
  for (int i = 0; i < 3; ++i) {
    void *const runtime = bmrt_create(handle);
    ASSERT_TRUE(load_into(info, model, runtime)) << bmrt_last_error();
    expect_affine("weights", 16, runtime);
    bmrt_destroy(runtime);
  }
}

// ---- what is refused

TEST_F(GivenMemoryTest, WhatAModelNeedsIsExact) {
  give_all(info);
  for (const Kind &kind : kKinds) {
    mem_info_t small = info;
    const uint64_t need = (small.*kind.member).size--;
    refused(small, std::string("(memory): ") + kind.name + ": it has " + std::to_string(need - 1) +
                       " bytes, the model needs " + std::to_string(need));
  }
  ASSERT_TRUE(load_into(info, model)) << bmrt_last_error();
  expect_affine();
}

TEST_F(GivenMemoryTest, WrongMemoryIsRefused) {
  give_all(info);
  const uint64_t before = held();
  for (const Kind &kind : kKinds) {
    const std::string name = std::string("(memory): ") + kind.name + ": ";
    mem_info_t wrong = info;
    (wrong.*kind.member).addr = 0x7000;
    refused(wrong, name + "device address 0x7000");
    wrong = info;
    (wrong.*kind.member).type = 1;
    refused(wrong, name + "memory of type 1, expected 0 (device)");
    wrong = info;
    (wrong.*kind.member).size = 1 << 20;
    refused(wrong, name + "its memory ends ");
    wrong = info;
    for (const Kind &other : kKinds)
      if (other.member != kind.member) (wrong.*other.member).addr = -1;
    for (const Kind &other : kKinds) {
      if (other.member == kind.member) continue;
      const auto both = bm_mem_get_device_addr(allocate(16384));
      mem_info_t twice = wrong;
      (twice.*kind.member).addr = (twice.*other.member).addr = static_cast<int64_t>(both);
      refused(twice, " overlap");
      bm_free_device(handle, mine.back());
      mine.pop_back();
    }
  }
  EXPECT_EQ(held(), before);
  bm_free_device(handle, mine.back());  // the last one, io_mem
  mine.pop_back();
  refused(info, "io_mem: device address");
}

TEST_F(GivenMemoryTest, KindsMayTouchButNotOverlap) {
  give_all(info);
  // io_mem, and activation memory around its beginning or end: a byte too many on either side, then none.
  const auto both = static_cast<int64_t>(bm_mem_get_device_addr(allocate(1 << 16)));
  const auto io = static_cast<int64_t>(info.io_mem.size), activations = static_cast<int64_t>(info.neuron_mem.size);
  info.io_mem.addr = both + 16384;
  for (const int64_t address : {info.io_mem.addr - activations + 1, info.io_mem.addr + io - 1}) {
    info.neuron_mem.addr = address;
    refused(info, "io_mem and neuron_mem overlap");
  }
  info.neuron_mem.addr = info.io_mem.addr - activations;
  ASSERT_TRUE(load_into(info, model)) << bmrt_last_error();
  expect_affine();
  void *const other = bmrt_create(handle);
  info.neuron_mem.addr = info.io_mem.addr + io;
  EXPECT_TRUE(load_into(info, model, other)) << bmrt_last_error();
  bmrt_destroy(other);
}

TEST_F(GivenMemoryTest, ALoadThatFailsLeavesTheMemoryToTheCaller) {
  give_all(info);
  ASSERT_TRUE(load(model)) << bmrt_last_error();
  const uint64_t before = held();
  EXPECT_FALSE(load_into(info, model));
  EXPECT_TRUE(contains(bmrt_last_error(), "a network named 'weights' is loaded already")) << bmrt_last_error();
  EXPECT_EQ(held(), before);
  Bytes broken = model;
  broken.resize(broken.size() - 200);
  EXPECT_FALSE(load_into(info, broken));
  overwrite(info.coeff_mem, Bytes(64, 3));
  EXPECT_EQ(contents(info.coeff_mem), Bytes(64, 3));
  expect_affine();
}

// ---- activation memory for what is loaded already

TEST_F(GivenMemoryTest, MoreActivationMemoryMayBeGivenLater) {
  ASSERT_TRUE(load(model)) << bmrt_last_error();
  give_all(info);
  ASSERT_TRUE(bmrt_pre_alloc_mem_multi_thread(p_bmrt, 7, &info)) << bmrt_last_error();
  ASSERT_TRUE(bmrt_pre_alloc_mem_multi_thread(p_bmrt, 8, &info)) << "the same again is the same";
  const uint64_t before = held();
  for (int i = 0; i < 3; ++i) expect_affine();
  EXPECT_EQ(held(), before);
  const Floats expected = affine_of(numbers(16));
  EXPECT_EQ(std::memcmp(contents(info.neuron_mem).data(), expected.data(), 64), 0);
  ASSERT_TRUE(bmrt_free_pre_alloc_mem(p_bmrt, "weights"));
  expect_affine();
  EXPECT_EQ(held(), before) << "memory of the program's stays in use";
  mem_info_t small = info;
  small.neuron_mem.addr = static_cast<int64_t>(bm_mem_get_device_addr(allocate(8191)));
  small.neuron_mem.size = 8191;
  EXPECT_FALSE(bmrt_pre_alloc_mem_multi_thread(p_bmrt, 1, &small));
  EXPECT_TRUE(contains(bmrt_last_error(), "neuron_mem: it has 8191 bytes, the model needs 8192")) << bmrt_last_error();
  small.neuron_mem.addr = -1;
  EXPECT_TRUE(bmrt_pre_alloc_mem_multi_thread(p_bmrt, 1, &small)) << bmrt_last_error();
}

// ---- several cards

class TwoCardsGivenMemory : public TwoCards {};

TEST_F(TwoCardsGivenMemory, MemoryOfTheOtherCardIsRefused) {
  const Bytes model = file({net("weights", {affine(16)})});
  mem_info_t info;
  ASSERT_TRUE(bmrt_get_bmodel_data_info(model.data(), model.size(), &info)) << bmrt_last_error();
  bm_device_mem_t far;
  ASSERT_EQ(bm_malloc_device_byte(handles[1], &far, 64 << 10), BM_SUCCESS) << npu_last_error();
  info.coeff_mem.addr = static_cast<int64_t>(bm_mem_get_device_addr(far));
  EXPECT_FALSE(bmrt_load_bmodel_data_with_mem(p_bmrt, model.data(), model.size(), &info));
  EXPECT_TRUE(contains(bmrt_last_error(), "coeff_mem: device address")) << bmrt_last_error();
  EXPECT_TRUE(contains(bmrt_last_error(), "belongs to a buffer of device 1, expected one of device 0"))
      << bmrt_last_error();
  bm_free_device(handles[1], far);
}

TEST_F(TwoCardsGivenMemory, DistributedNetworksTakeNone) {
  auto first = net("first", {test_models::plus({1, 8}, 1)}), second = net("second", {test_models::plus({1, 8}, 2)});
  first.part_of = second.part_of = "both";
  second.step = second.device = 1;
  first.stages[0].outputs[0].name = second.stages[0].inputs[0].name = "h";
  first.stages[0].outputs[0].hidden = second.stages[0].inputs[0].hidden = 1;
  const Bytes model = file({first, second});
  mem_info_t info;
  ASSERT_TRUE(bmrt_get_bmodel_data_info(model.data(), model.size(), &info)) << bmrt_last_error();
  EXPECT_TRUE(bmrt_load_bmodel_data_with_mem(p_bmrt, model.data(), model.size(), &info)) << "none is given";
  bm_device_mem_t mem;
  ASSERT_EQ(bm_malloc_device_byte(handles[0], &mem, static_cast<unsigned int>(info.io_mem.size)), BM_SUCCESS);
  info.io_mem.addr = static_cast<int64_t>(bm_mem_get_device_addr(mem));
  void *const other = bmrt_create_ex(handles, 2);
  EXPECT_FALSE(bmrt_load_bmodel_data_with_mem(other, model.data(), model.size(), &info));
  EXPECT_TRUE(contains(bmrt_last_error(), "io_mem: the network 'both' is for several devices")) << bmrt_last_error();
  bmrt_destroy(other);
  bm_free_device(handles[0], mem);
}

}  // namespace
