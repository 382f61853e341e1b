// SPDX-License-Identifier: MIT
// The C interface beyond loading and launching: questions, other ways to load, activation memory, copies, launches as
// data. Every failure has a reason, for the thread and for the callback.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "bmruntime_log.h"
#include "npu_bm_internal.h"
#include "tests/unit/runtime/fixture.h"

namespace {

using test_models::file;
using test_models::net;
using test_models::plus;
using test_models::sample;
using namespace test_runtime;

const Floats kX{1, 2, 3, 4, 5, 6, 7, 8}, kY{4, 5, 6, 7, 8, 9, 10, 11};

class SurfaceTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_TRUE(load(sample())) << bmrt_last_error();
  }
};

/// A file that is gone at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::vector<uint8_t> &bytes) {
    close(mkstemp(path));
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  ~TemporaryFile() { unlink(path); }
  char path[32] = "/tmp/surface-XXXXXX";
};

TEST_F(SurfaceTest, NetworksAreFoundByNameAndNumber) {
  EXPECT_EQ(bmrt_get_network_index(p_bmrt, "affine"), 1);
  EXPECT_STREQ(bmrt_get_network_name(p_bmrt, 1), "affine");
  EXPECT_EQ(bmrt_get_network_index(p_bmrt, "nothing"), -1);
  EXPECT_TRUE(contains(bmrt_last_error(), "bmrt_get_network_index: no network named 'nothing'")) << bmrt_last_error();
  for (const int index : {-1, 4}) EXPECT_FALSE(bmrt_get_network_name(p_bmrt, index));
  EXPECT_STREQ(bmrt_last_error(), "bmrt_get_network_name: network number 4 of 4");
}

TEST_F(SurfaceTest, StagesAreFoundByShape) {
  ASSERT_TRUE(load(file({net("stages", {plus({1, 4}, 1), plus({2, 4}, 2)})}))) << bmrt_last_error();
  EXPECT_EQ(bmrt_get_stage_size(p_bmrt, "stages"), 2);
  EXPECT_EQ(bmrt_get_stage_size(p_bmrt, "nothing"), -1);
  bm_tensor_t in = tensor(bm_mem_null(), {2, 4});
  EXPECT_EQ(bmrt_get_stage_index(p_bmrt, "stages", &in), 1);
  in.shape = shape({1, 4});
  EXPECT_EQ(bmrt_get_stage_index(p_bmrt, "stages", &in), 0);
  in.shape = shape({3, 4});
  EXPECT_EQ(bmrt_get_stage_index(p_bmrt, "stages", &in), -1);
  EXPECT_TRUE(contains(bmrt_last_error(), "[3,4]; expected [1,4] or [2,4]")) << bmrt_last_error();
  EXPECT_EQ(bmrt_get_stage_index(p_bmrt, "stages", nullptr), -1);
}

TEST_F(SurfaceTest, FlagsAreKept) {
  EXPECT_EQ(bmrt_get_flags(p_bmrt), 0u);
  bmrt_set_flags(p_bmrt, BM_RUNTIME_SHARE_MEM | BM_RUNTIME_CHECK_MEM);
  EXPECT_EQ(bmrt_get_flags(p_bmrt), 3u);
}

TEST_F(SurfaceTest, TheFlagCheckMemComparesCoefficients) {
  std::vector<uint8_t> bytes = file({net("weights", {test_models::affine(8)})});
  const Floats w{1, 2, 3, 4, 5, 6, 7, 8};
  const auto *pattern = reinterpret_cast<const uint8_t *>(w.data());
  const auto at = std::search(bytes.begin(), bytes.end(), pattern, pattern + 32);
  ASSERT_NE(at, bytes.end());
  *at ^= 1;
  bmrt_set_flags(p_bmrt, BM_RUNTIME_CHECK_MEM);
  EXPECT_FALSE(load(bytes));
  EXPECT_TRUE(contains(bmrt_last_error(), "weights")) << bmrt_last_error();
  bmrt_set_flags(p_bmrt, 0);
  EXPECT_TRUE(load(bytes)) << bmrt_last_error();
}

TEST_F(SurfaceTest, ADestroyedRuntimeIsRefused) {
  void *const gone = bmrt_create(handle);
  bmrt_destroy(gone);
  EXPECT_EQ(bmrt_get_network_number(gone), 0);
  EXPECT_STREQ(bmrt_last_error(),
               "bmrt_get_network_number: this pointer is not a runtime's, or the runtime was destroyed");
  const auto bytes = sample();
  EXPECT_FALSE(bmrt_load_bmodel_data(gone, bytes.data(), bytes.size()));
  EXPECT_FALSE(bmrt_get_bm_handle(gone));
  bmrt_destroy(gone);
  EXPECT_STREQ(bmrt_last_error(), "bmrt_destroy: this pointer is not a runtime's, or the runtime was destroyed");
  int nothing = 0;
  EXPECT_FALSE(bmrt_get_network_info(&nothing, "plus"));
  bmrt_destroy(nullptr);
}

TEST_F(SurfaceTest, NoFunctionTakesNoRuntime) {
  const int one = 1;
  EXPECT_FALSE(bmrt_pre_alloc_mem(nullptr, "plus"));
  EXPECT_STREQ(bmrt_last_error(), "bmrt_pre_alloc_mem: null pointer instead of a runtime");
  EXPECT_EQ(bmrt_get_network_number(nullptr), 0);
  EXPECT_STREQ(bmrt_last_error(), "bmrt_get_network_number: null pointer instead of a runtime");
  bmrt_show_neuron_network(nullptr);
  EXPECT_STREQ(bmrt_last_error(), "bmrt_show_neuron_network: null pointer instead of a runtime");
  bmrt_trace(nullptr);
  EXPECT_STREQ(bmrt_last_error(), "bmrt_trace: null pointer instead of a runtime");
  bmrt_print_network_info(nullptr);
  EXPECT_TRUE(contains(bmrt_last_error(), "bmrt_print_network_info: ")) << bmrt_last_error();
  EXPECT_FALSE(bmrt_get_bm_handle(nullptr));
  EXPECT_FALSE(bmrt_pre_alloc_neuron_multi_cores(nullptr, "plus", 0, &one, 1));
  EXPECT_FALSE(get_bmodel_api_info_c(nullptr, "plus", nullptr, 1, nullptr, 1, true, false));
  bmrt_free_api_info(nullptr);
  bmrt_destroy(nullptr);
}

void remember(void *arg, const char *text) { static_cast<std::vector<std::string> *>(arg)->push_back(text); }

TEST_F(SurfaceTest, TheCallbackGetsEveryFailure) {
  std::vector<std::string> texts;
  bmrt_set_error_callback(remember, &texts);
  EXPECT_EQ(bmrt_get_network_number(p_bmrt), 4);
  bmrt_get_network_info(p_bmrt, "nothing");
  EXPECT_FALSE(bmrt_load_bmodel(p_bmrt, "/nonexistent"));
  bmrt_set_error_callback(nullptr, nullptr);
  EXPECT_FALSE(bmrt_load_bmodel(p_bmrt, "/nonexistent/again"));
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_TRUE(contains(texts[0], "bmrt_get_network_info: no network named 'nothing'")) << texts[0];
  EXPECT_TRUE(contains(texts[1], "bmrt_load_bmodel: /nonexistent: cannot open")) << texts[1];
}

TEST_F(SurfaceTest, FailuresAreOnStandardErrorUnlessTheEnvironmentIsAgainstIt) {
  struct {
    const char *level;
    bool printed;
  } const cases[] = {{nullptr, true}, {"", true}, {"3", false}, {"2", true}, {"-1", true}};
  for (const auto &c : cases) {
    if (c.level) setenv("BMRT_LOG_VERSION", c.level, 1);
    testing::internal::CaptureStderr();
    EXPECT_FALSE(bmrt_load_bmodel(p_bmrt, "/nonexistent"));
    EXPECT_EQ(contains(testing::internal::GetCapturedStderr(), "[BMRT][error] bmrt_load_bmodel: /nonexistent"),
              c.printed)
        << (c.level ? c.level : "unset");
  }
  unsetenv("BMRT_LOG_VERSION");
}

/// What a failure prints.
std::string printed(void *p_bmrt) {
  testing::internal::CaptureStderr();
  EXPECT_FALSE(bmrt_load_bmodel(p_bmrt, "/nonexistent"));
  return testing::internal::GetCapturedStderr();
}

void ignore(void *, const char *) {}

std::string logged;
void keep_log(const char *tag, int, const char *format, va_list arguments) {
  char text[256];
  vsnprintf(text, sizeof text, format, arguments);
  logged = std::string(tag) + ": " + text;
}

TEST_F(SurfaceTest, FailuresAreNotPrintedWhereTheProgramGetsThemOrWantsNone) {
  EXPECT_EQ(bmrt_get_current_log_level(), BMRT_LogLevel::WRONG);
  bmrt_set_current_log_level(BMRT_LogLevel::FATAL);
  EXPECT_EQ(bmrt_get_current_log_level(), BMRT_LogLevel::FATAL);
  EXPECT_EQ(printed(p_bmrt), "");
  bmrt_set_current_log_level(BMRT_LogLevel::INFO);
  EXPECT_NE(printed(p_bmrt), "");
  bmrt_set_error_callback(ignore, nullptr);
  EXPECT_EQ(printed(p_bmrt), "");
  bmrt_set_error_callback(nullptr, nullptr);
  bmlib_log_set_level(BMLIB_LOG_QUIET);
  EXPECT_EQ(printed(p_bmrt), "");
  bmlib_log_set_level(BMLIB_LOG_ERROR);
  bmlib_log_set_callback(keep_log);
  EXPECT_EQ(printed(p_bmrt), "");
  bmlib_log_set_callback(nullptr);
  EXPECT_TRUE(contains(logged, "BMRT: bmrt_load_bmodel: /nonexistent: cannot open")) << logged;
}

TEST_F(SurfaceTest, TensorsOfLaunchesAreSavedWhereTheEnvironmentWantsIt) {
  char folder[] = "/tmp/surface-XXXXXX", before[4096];
  ASSERT_TRUE(mkdtemp(folder) && getcwd(before, sizeof before));
  ASSERT_EQ(chdir(folder), 0);
  setenv("BMRT_SAVE_IO_TENSORS", "1", 1);
  const auto saved = [](const char *name) {
    Floats out(16);
    std::ifstream in(name, std::ios::binary);
    in.read(reinterpret_cast<char *>(out.data()), static_cast<std::streamsize>(out.size() * sizeof(float)));
    out.resize(static_cast<size_t>(in.gcount()) / sizeof(float));
    return out;
  };
  {
    const DeviceFloats a(handle, {1, 2, 3, 4}), b(handle, {10, 20, 30, 40}), c(handle, Floats(4));
    const bm_tensor_t in[] = {tensor(a.mem(), {1, 4}), tensor(b.mem(), {2, 2})};
    bm_tensor_t out = tensor(c.mem(), {1, 4});
    ASSERT_TRUE(bmrt_launch_tensor_ex(p_bmrt, "sum", in, 2, &out, 1, true, false)) << bmrt_last_error();
    EXPECT_EQ(saved("input_ref_data.dat.bmrt"), (Floats{1, 2, 3, 4, 10, 20, 30, 40}));
    EXPECT_EQ(saved("output_ref_data.dat.bmrt"), (Floats{11, 22, 33, 44}));
    ASSERT_EQ(unlink("input_ref_data.dat.bmrt"), 0);
    ASSERT_EQ(mkdir("input_ref_data.dat.bmrt", 0700), 0);
    const uint64_t card = held();
    EXPECT_FALSE(bmrt_launch_tensor(p_bmrt, "sum", in, 2, &out, 1));
    EXPECT_TRUE(contains(bmrt_last_error(), "BMRT_SAVE_IO_TENSORS: input_ref_data.dat.bmrt: Is a directory"))
        << bmrt_last_error();
    EXPECT_EQ(held(), card);
  }
  unsetenv("BMRT_SAVE_IO_TENSORS");
  rmdir("input_ref_data.dat.bmrt");
  unlink("output_ref_data.dat.bmrt");
  EXPECT_EQ(chdir(before), 0);
  EXPECT_EQ(rmdir(folder), 0);
  expect_working();
}

TEST_F(SurfaceTest, DynamicNetworksAreRefused) {
  auto stage = plus({1, 8}, 1);
  stage.is_dynamic = 1;
  EXPECT_FALSE(load(file({net("any", {stage})})));
  EXPECT_TRUE(contains(bmrt_last_error(),
                       "network 'any': compiled for any shape (dynamic), but the network is not in the file"))
      << bmrt_last_error();
}

// ---- loading

uint8_t *flip(const uint8_t *in, uint64_t bytes, uint64_t *out_bytes) {
  auto *out = static_cast<uint8_t *>(malloc(bytes));
  for (uint64_t i = 0; i < bytes; ++i) out[i] = in[i] ^ 0x5a;
  *out_bytes = bytes;
  return out;
}

uint8_t *refuse(const uint8_t *, uint64_t, uint64_t *) { return nullptr; }

TEST_F(SurfaceTest, EncryptedModelsAreDecryptedByTheCaller) {
  std::vector<uint8_t> bytes = file({net("secret", {plus({1, 8}, 3)})});
  for (uint8_t &b : bytes) b ^= 0x5a;
  const TemporaryFile encrypted(bytes);
  EXPECT_FALSE(bmrt_load_bmodel(p_bmrt, encrypted.path));
  EXPECT_FALSE(bmrt_load_bmodel_with_decrypt(p_bmrt, encrypted.path, refuse));
  EXPECT_TRUE(contains(bmrt_last_error(), "its function did not decrypt it")) << bmrt_last_error();
  ASSERT_TRUE(bmrt_load_bmodel_with_decrypt(p_bmrt, encrypted.path, flip)) << bmrt_last_error();
  EXPECT_GE(bmrt_get_network_index(p_bmrt, "secret"), 0);
  EXPECT_FALSE(bmrt_load_bmodel_with_decrypt(p_bmrt, "/nonexistent", flip));
  EXPECT_TRUE(contains(bmrt_last_error(), "/nonexistent: cannot read")) << bmrt_last_error();
  EXPECT_FALSE(bmrt_load_bmodel_with_decrypt_lib(p_bmrt, encrypted.path, "/nonexistent.so"));
  EXPECT_TRUE(contains(bmrt_last_error(), "/nonexistent.so")) << bmrt_last_error();
}

TEST_F(SurfaceTest, ModelsComeFromMemoryOfAnyKind) {
  std::vector<uint8_t> one = file({net("one", {plus({1, 8}, 1)})}), two = file({net("two", {plus({1, 8}, 2)})});
  mem_info_t info;
  ASSERT_TRUE(bmrt_get_bmodel_data_info(one.data(), one.size(), &info)) << bmrt_last_error();
  EXPECT_TRUE(bmrt_load_bmodel_data_with_mem(p_bmrt, one.data(), one.size(), &info)) << bmrt_last_error();
  EXPECT_TRUE(bmrt_load_bmodel_in_device(p_bmrt, two.data(), 0x1000, two.size())) << bmrt_last_error();
  EXPECT_EQ(bmrt_get_network_number(p_bmrt), 6);
  const TemporaryFile three(file({net("three", {plus({1, 8}, 3)})}));
  EXPECT_TRUE(bmrt_load_bmodel_with_mem(p_bmrt, three.path, &info)) << bmrt_last_error();
  EXPECT_FALSE(bmrt_update_bmodel_weight_with_decrypt(p_bmrt, three.path, three.path, "0", "0", nullptr, 0, nullptr));
  EXPECT_TRUE(contains(bmrt_last_error(), "not supported: coefficients are sealed")) << bmrt_last_error();
  EXPECT_FALSE(bmrt_empty_bmodel_weight_with_decrypt(p_bmrt, three.path, "0", "0", nullptr, 0, nullptr));
}

TEST_F(SurfaceTest, AModelSaysWhatItNeeds) {
  const auto bytes = file({net("weights", {test_models::affine(16)})});
  mem_info_t info;
  ASSERT_TRUE(bmrt_get_bmodel_data_info(bytes.data(), bytes.size(), &info)) << bmrt_last_error();
  EXPECT_EQ(info.coeff_mem.size, 64u);
  EXPECT_EQ(info.neuron_mem.size, 8192u);
  EXPECT_EQ(info.io_mem.size, 8192u);
  EXPECT_GT(info.instruction_mem.size, 7u * 128);
  EXPECT_EQ(info.coeff_mem.addr, -1);
  EXPECT_EQ(info.reserved[3].addr, -1);
  const TemporaryFile on_disk(bytes);
  mem_info_t again;
  ASSERT_TRUE(bmrt_get_bmodel_info(on_disk.path, &again)) << bmrt_last_error();
  EXPECT_EQ(again.instruction_mem.size, info.instruction_mem.size);
  EXPECT_FALSE(bmrt_get_bmodel_info("/nonexistent", &again));
  EXPECT_FALSE(bmrt_get_bmodel_data_info(bytes.data(), bytes.size(), nullptr));
}

/// The header and the flatbuffer, and nothing behind them that could be read.
std::vector<uint8_t> head(const std::vector<uint8_t> &bytes) {
  uint32_t flat;
  std::memcpy(&flat, bytes.data() + 8, sizeof flat);
  return {bytes.begin(), bytes.begin() + 64 + flat};
}

TEST_F(SurfaceTest, TheHeadOfAModelSaysWhatIsEnoughForIt) {
  for (const auto &bytes :
       {sample(), file({net("relay", {test_models::relay()})}), file({net("flow", {test_models::choose()})}),
        file({net("stages", {plus({1, 4}, 1), plus({2, 4}, 2)})})}) {
    mem_info_t whole, from_head;
    ASSERT_TRUE(bmrt_get_bmodel_data_info(bytes.data(), bytes.size(), &whole)) << bmrt_last_error();
    ASSERT_TRUE(bmrt_get_bmodel_info_from_data(head(bytes).data(), &from_head, bytes.size())) << bmrt_last_error();
    EXPECT_GE(from_head.instruction_mem.size, whole.instruction_mem.size);
    EXPECT_EQ(from_head.coeff_mem.size, whole.coeff_mem.size);
    EXPECT_EQ(from_head.io_mem.size, whole.io_mem.size);
    EXPECT_GE(from_head.neuron_mem.size, whole.neuron_mem.size);
    EXPECT_EQ(from_head.coeff_mem.addr, -1);
  }
  mem_info_t info;
  const auto bytes = sample();
  EXPECT_FALSE(bmrt_get_bmodel_info_from_data(head(bytes).data(), &info, bytes.size() - 1));
  EXPECT_TRUE(contains(bmrt_last_error(), "truncated: the header announces")) << bmrt_last_error();
  EXPECT_FALSE(bmrt_get_bmodel_info_from_data(bytes.data(), &info, 63));
  EXPECT_FALSE(bmrt_get_bmodel_info_from_data(bytes.data(), &info, 0));
  EXPECT_FALSE(bmrt_get_bmodel_info_from_data(nullptr, &info, bytes.size()));
  EXPECT_FALSE(bmrt_get_bmodel_info_from_data(bytes.data(), nullptr, bytes.size()));
}

// ---- launching

TEST_F(SurfaceTest, EveryKindOfLaunchComputes) {
  const DeviceFloats x(handle, kX), y(handle, Floats(8));
  const bm_tensor_t in = tensor(x.mem(), {1, 8});
  bm_tensor_t out = tensor(y.mem(), {1, 8});
  const int core = 0;
  ASSERT_TRUE(bmrt_launch_tensor_multi_thread(p_bmrt, "plus", &in, 1, &out, 1, 7, true, false, &core, 1))
      << bmrt_last_error();
  ASSERT_EQ(bm_thread_sync_from_core(handle, core), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(y.read(), kY);
  Floats values = kX, result(8);
  void *inputs[] = {values.data()}, *outputs[] = {result.data()};
  const bm_shape_t in_shape = shape({1, 8});
  bm_shape_t out_shape;
  ASSERT_TRUE(
      bmrt_launch_data_multi_cores(p_bmrt, "plus", inputs, &in_shape, 1, outputs, &out_shape, 1, true, &core, 1))
      << bmrt_last_error();
  EXPECT_EQ(result, kY);
  result.assign(8, 0);
  ASSERT_TRUE(
      bmrt_launch_data_multi_thread(p_bmrt, "plus", inputs, &in_shape, 1, outputs, &out_shape, 1, 3, true, &core, 1))
      << bmrt_last_error();
  EXPECT_EQ(result, kY);
  const int wrong = 99;
  EXPECT_FALSE(
      bmrt_launch_data_multi_cores(p_bmrt, "plus", inputs, &in_shape, 1, outputs, &out_shape, 1, true, &wrong, 1));
  EXPECT_TRUE(contains(bmrt_last_error(), "core 99 does not exist")) << bmrt_last_error();
}

TEST_F(SurfaceTest, ActivationMemoryIsAllocatedAheadAndFreed) {
  const uint64_t before = held();
  ASSERT_TRUE(bmrt_pre_alloc_mem(p_bmrt, "affine")) << bmrt_last_error();
  EXPECT_EQ(held(), before + 8192);
  ASSERT_TRUE(bmrt_pre_alloc_neuron_multi_cores(p_bmrt, "affine", 0, nullptr, 0)) << bmrt_last_error();
  EXPECT_EQ(held(), before + 8192) << "one is enough";
  ASSERT_TRUE(bmrt_free_pre_alloc_mem(p_bmrt, "affine")) << bmrt_last_error();
  EXPECT_EQ(held(), before);
  EXPECT_FALSE(bmrt_pre_alloc_neuron_multi_cores(p_bmrt, "affine", 1, nullptr, 0));
  EXPECT_TRUE(contains(bmrt_last_error(), "network 'affine' has stages 0 to 0, not 1")) << bmrt_last_error();
  const int wrong = -1;
  EXPECT_FALSE(bmrt_pre_alloc_neuron_multi_cores(p_bmrt, "affine", 0, &wrong, 1));
  EXPECT_FALSE(bmrt_pre_alloc_mem(p_bmrt, "nothing"));
  EXPECT_FALSE(bmrt_free_pre_alloc_mem(p_bmrt, "nothing"));
  EXPECT_TRUE(bmrt_pre_alloc_mem_multi_thread(p_bmrt, 1, nullptr));
  EXPECT_EQ(bmrt_get_neuron_number(p_bmrt, "affine"), 0);
  EXPECT_TRUE(contains(bmrt_last_error(), "not supported")) << bmrt_last_error();
  EXPECT_EQ(bm_mem_get_device_addr(bmrt_get_neuron_memory(p_bmrt, "affine", 0, nullptr, 0)),
            bm_mem_get_device_addr(bm_mem_null()));
}

TEST_F(SurfaceTest, ALowerLimitFreesWhatIsIdle) {
  const uint64_t before = held();
  const DeviceFloats x(handle, Floats(16)), y(handle, Floats(16));
  const uint64_t with_tensors = held();
  bm_tensor_t out = tensor(y.mem(), {16});
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(launch("affine", tensor(x.mem(), {16}), out)) << bmrt_last_error();
  ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS);
  EXPECT_GE(held(), with_tensors + 8192);
  ASSERT_TRUE(bmrt_set_max_launches(p_bmrt, 1));
  EXPECT_EQ(held(), with_tensors + 8192);
  ASSERT_TRUE(bmrt_free_pre_alloc_mem(p_bmrt, "affine"));
  EXPECT_EQ(held(), with_tensors);
  EXPECT_GT(with_tensors, before);
}

// ---- launches as data

class ApiInfoTest : public SurfaceTest {
 protected:
  bm_status_t send(const api_info_c &info) {
    return bm_send_api(handle, static_cast<int>(info.api_id[0]), info.api_data[0],
                       static_cast<unsigned int>(info.api_data_subsize[0]));
  }
  static void set_address(const api_info_c &info, uint32_t offset, const bm_device_mem_t &mem) {
    const uint64_t address = bm_mem_get_device_addr(mem);
    memcpy(info.api_data[0] + offset, &address, sizeof address);
  }
};

TEST_F(ApiInfoTest, RunsOnTheCoresThatTheProgramNames) {
  const DeviceFloats x(handle, kX), y(handle, Floats(8));
  const bm_tensor_t in = tensor(x.mem(), {1, 8});
  bm_tensor_t out = tensor(y.mem(), {1, 8});
  uint32_t core = 1;
  api_info_c *info = get_bmodel_api_info_c(p_bmrt, "plus", &in, 1, &out, 1, true, false, &core);
  ASSERT_TRUE(info) << bmrt_last_error();
  npu_bm_api header;
  std::memcpy(&header, info->api_data[0], sizeof header);
  EXPECT_EQ(header.core_mask, 2u);
  EXPECT_EQ(send(*info), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(y.read(), kY);
  bmrt_free_api_info(info);
  core = 99;
  EXPECT_FALSE(get_bmodel_api_info_c(p_bmrt, "plus", &in, 1, &out, 1, true, false, &core));
  EXPECT_TRUE(contains(bmrt_last_error(), "get_bmodel_api_info_c: core 99 does not exist")) << bmrt_last_error();
}

TEST_F(ApiInfoTest, ProgramsLinkedBeforeItHadCoresGetAllOfIt) {
  using Old = api_info_c *(*)(void *, const char *, const bm_tensor_t *, int, bm_tensor_t *, int, bool, bool);
  const auto old = reinterpret_cast<Old>(dlvsym(RTLD_DEFAULT, "get_bmodel_api_info_c", "NPURT_1.0"));
  ASSERT_TRUE(old) << dlerror();
  ASSERT_TRUE(dlvsym(RTLD_DEFAULT, "get_bmodel_api_info_c", "NPURT_1.2"));
  const DeviceFloats x(handle, kX), y(handle, Floats(8));
  const bm_tensor_t in = tensor(x.mem(), {1, 8});
  bm_tensor_t out = tensor(y.mem(), {1, 8});
  api_info_c *info = old(p_bmrt, "plus", &in, 1, &out, 1, true, false);
  ASSERT_TRUE(info) << bmrt_last_error();
  EXPECT_EQ(send(*info), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(y.read(), kY);
  bmrt_free_api_info(info);
}

TEST_F(ApiInfoTest, IsSentAsOftenAsTheProgramLikes) {
  const DeviceFloats x(handle, Floats(16, 1.0f)), y(handle, Floats(16));
  const bm_tensor_t in = tensor(x.mem(), {16});
  bm_tensor_t out = tensor(y.mem(), {16});
  api_info_c *info = get_bmodel_api_info_c(p_bmrt, "affine", &in, 1, &out, 1, true, false);
  ASSERT_TRUE(info) << bmrt_last_error();
  ASSERT_EQ(info->api_id_size, 1u);
  ASSERT_EQ(info->api_data_size, 1u);
  ASSERT_EQ(info->input_addr_offset_number, 1u);
  ASSERT_EQ(info->output_addr_offset_number, 1u);
  EXPECT_EQ(y.read(), Floats(16)) << "nothing is launched yet";
  for (int i = 0; i < 3; ++i) ASSERT_EQ(send(*info), BM_SUCCESS) << npu_last_error();
  ASSERT_EQ(bm_sync_api(handle), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(y.read()[0], 3.0f);
  EXPECT_EQ(y.read()[15], 18.0f);
  bmrt_free_api_info(info);
}

TEST_F(ApiInfoTest, ItsTensorsCanBeMoved) {
  const DeviceFloats x(handle, Floats(8)), other(handle, kX), y(handle, Floats(8)), result(handle, Floats(8));
  const bm_tensor_t in = tensor(x.mem(), {1, 8});
  bm_tensor_t out = tensor(y.mem(), {1, 8});
  api_info_c *info = get_bmodel_api_info_c(p_bmrt, "plus", &in, 1, &out, 1, true, false);
  ASSERT_TRUE(info) << bmrt_last_error();
  set_address(*info, info->input_addr_offset[0], other.mem());
  set_address(*info, info->output_addr_offset[0], result.mem());
  ASSERT_EQ(send(*info), BM_SUCCESS) << npu_last_error();
  ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(result.read(), kY);
  EXPECT_EQ(y.read(), Floats(8));
  bmrt_free_api_info(info);
}

TEST_F(ApiInfoTest, AllocatesOutputsOnRequest) {
  const DeviceFloats x(handle, kX);
  const bm_tensor_t in = tensor(x.mem(), {1, 8});
  bm_tensor_t out{};
  api_info_c *info = get_bmodel_api_info_c(p_bmrt, "plus", &in, 1, &out, 1, false, false);
  ASSERT_TRUE(info) << bmrt_last_error();
  ASSERT_EQ(bm_send_api_to_core(handle, static_cast<int>(info->api_id[0]), info->api_data[0],
                                static_cast<unsigned int>(info->api_data_subsize[0]), 0),
            BM_SUCCESS);
  bmrt_free_api_info(info);  // what runs goes on
  ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(read(handle, out.device_mem), kY);
  bm_free_device(handle, out.device_mem);
}

TEST_F(ApiInfoTest, DamagedRecordsAreRefused) {
  const DeviceFloats x(handle, kX), y(handle, Floats(8));
  const bm_tensor_t in = tensor(x.mem(), {1, 8});
  bm_tensor_t out = tensor(y.mem(), {1, 8});
  api_info_c *info = get_bmodel_api_info_c(p_bmrt, "plus", &in, 1, &out, 1, true, false);
  ASSERT_TRUE(info) << bmrt_last_error();
  const int id = static_cast<int>(info->api_id[0]);
  const auto bytes = static_cast<unsigned int>(info->api_data_subsize[0]);
  EXPECT_EQ(bm_send_api(handle, 5, info->api_data[0], bytes), BM_NOT_SUPPORTED);
  EXPECT_TRUE(contains(npu_last_error(), "api 5")) << npu_last_error();
  EXPECT_EQ(bm_send_api(handle, id, nullptr, bytes), BM_ERR_PARAM);
  for (const unsigned int wrong : {0u, 8u, bytes - 1, bytes + 24})
    EXPECT_EQ(bm_send_api(handle, id, info->api_data[0], wrong < bytes ? wrong : 0), BM_ERR_PARAM);
  EXPECT_EQ(bm_send_api_to_core(handle, id, info->api_data[0], bytes, 99), BM_ERR_PARAM);
  for (unsigned int at = 0; at < bytes; ++at) {  // no byte may crash anything; whatever runs ends
    info->api_data[0][at] ^= 0x80;
    bm_send_api(handle, id, info->api_data[0], bytes);
    bm_thread_sync(handle);
    info->api_data[0][at] ^= 0x80;
  }
  EXPECT_EQ(send(*info), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(bm_thread_sync(handle), BM_SUCCESS) << npu_last_error();
  bmrt_free_api_info(info);
  expect_working();
}

TEST_F(ApiInfoTest, OutputsThatWouldNeedAStageAreRefused) {
  const DeviceFloats x(handle, Floats(4)), y(handle, Floats(4));
  const bm_tensor_t in = tensor(x.mem(), {4});
  bm_tensor_t out[] = {tensor(x.mem(), {4}), tensor(y.mem(), {4})};
  EXPECT_FALSE(get_bmodel_api_info_c(p_bmrt, "keep", &in, 1, out, 2, true, false));
  EXPECT_TRUE(contains(bmrt_last_error(), "shares memory")) << bmrt_last_error();
}

// ---- copies on all devices

TEST_F(SurfaceTest, ParallelCopiesMoveBytes) {
  const DeviceFloats a(handle, Floats(8)), b(handle, Floats(8));
  bm_tensor_t tensors[] = {tensor(a.mem(), {8}), tensor(b.mem(), {4})};
  Floats in0 = kX, in1{9, 8, 7, 6}, out0(8), out1(4);
  void *sources[] = {in0.data(), in1.data()}, *targets[] = {out0.data(), out1.data()};
  int number = 2;
  ASSERT_TRUE(bmrt_memcpy_s2d_parallel(p_bmrt, tensors, sources, &number, 1)) << bmrt_last_error();
  EXPECT_EQ(a.read(), kX);
  EXPECT_EQ(b.read(), (Floats{9, 8, 7, 6, 0, 0, 0, 0}));
  ASSERT_TRUE(bmrt_memcpy_d2s_parallel(p_bmrt, targets, tensors, &number, 1)) << bmrt_last_error();
  EXPECT_EQ(out0, in0);
  EXPECT_EQ(out1, in1);
  number = 1;
  size_t to = 16, from = 4, bytes = 8;
  ASSERT_TRUE(bmrt_memcpy_d2d_byte_parallel(p_bmrt, &tensors[1], &to, &tensors[0], &from, &bytes, &number, 1))
      << bmrt_last_error();
  EXPECT_EQ(b.read(), (Floats{9, 8, 7, 6, 2, 3, 0, 0}));
  EXPECT_FALSE(bmrt_memcpy_s2d_parallel(p_bmrt, tensors, sources, &number, 2));
  EXPECT_TRUE(contains(bmrt_last_error(), "2 devices, the runtime has 1")) << bmrt_last_error();
  number = -1;
  EXPECT_FALSE(bmrt_memcpy_s2d_parallel(p_bmrt, tensors, sources, &number, 1));
}

TEST_F(SurfaceTest, StridedCopiesTransposeAndCrop) {
  const DeviceFloats a(handle, {0, 1, 2, 3, 4, 5, 6, 7}), b(handle, Floats(8, -1.0f));
  bm_tensor_t src = tensor(a.mem(), {2, 4}), dst = tensor(b.mem(), {4, 2});
  size_t zero = 0, four = 4;
  bm_shape_t box = shape({2, 4}), rows = shape({4, 1}), columns = shape({1, 2});
  int number = 1;
  ASSERT_TRUE(bmrt_memcpy_d2d_stride_ex_parallel(p_bmrt, &dst, &zero, &columns, &src, &zero, &rows, &box, &number, 1))
      << bmrt_last_error();
  EXPECT_EQ(b.read(), (Floats{0, 4, 1, 5, 2, 6, 3, 7}));
  box = shape({2, 2});
  bm_shape_t dense = shape({2, 1});
  ASSERT_TRUE(bmrt_memcpy_d2d_stride_ex_parallel(p_bmrt, &dst, &zero, &dense, &src, &four, &rows, &box, &number, 1))
      << bmrt_last_error();
  EXPECT_EQ(b.read(), (Floats{1, 2, 5, 6, 2, 6, 3, 7}));
  bm_shape_t flat = shape({8});
  EXPECT_FALSE(bmrt_memcpy_d2d_stride_ex_parallel(p_bmrt, &dst, &zero, &flat, &src, &zero, &rows, &box, &number, 1));
  EXPECT_TRUE(contains(bmrt_last_error(), "tensor 0 on device 0: shape and strides")) << bmrt_last_error();
}

TEST_F(SurfaceTest, TensorsAreAllocatedOnANumberedDevice) {
  bm_tensor_t t;
  ASSERT_TRUE(bmrt_tensor_ex(&t, p_bmrt, 0, BM_FLOAT32, shape({2, 2}))) << bmrt_last_error();
  EXPECT_EQ(bmrt_tensor_device_size(&t), 16u);
  bm_free_device(handle, t.device_mem);
  EXPECT_FALSE(bmrt_tensor_ex(&t, p_bmrt, 1, BM_FLOAT32, shape({2, 2})));
  EXPECT_TRUE(contains(bmrt_last_error(), "device number 1, the runtime has 1")) << bmrt_last_error();
}

TEST_F(SurfaceTest, RuntimesTakeSeveralHandles) {
  bm_handle_t other;
  ASSERT_EQ(bm_dev_request(&other, 0), BM_SUCCESS);
  bm_handle_t handles[] = {handle, other};
  void *const runtime = bmrt_create_ex(handles, 2);
  ASSERT_TRUE(runtime) << bmrt_last_error();
  EXPECT_EQ(bmrt_get_bm_handle(runtime), handle);
  bm_tensor_t t;
  ASSERT_TRUE(bmrt_tensor_ex(&t, runtime, 1, BM_FLOAT32, shape({4}))) << bmrt_last_error();
  bm_free_device(other, t.device_mem);
  bmrt_destroy_without_coeff(runtime);
  handles[1] = handle;
  EXPECT_FALSE(bmrt_create_ex(handles, 2));
  EXPECT_STREQ(bmrt_last_error(), "bmrt_create_ex: handle 1 is given twice");
  for (const int number : {0, -1, 33}) EXPECT_FALSE(bmrt_create_ex(handles, number));
  EXPECT_FALSE(bmrt_create_ex(nullptr, 1));
  bm_dev_free(other);
}

// ---- several cards

class TwoCardsTest : public TwoCards {};

TEST_F(TwoCardsTest, CopiesReachEveryCard) {
  bm_tensor_t tensors[3];
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(bmrt_tensor_ex(&tensors[i], p_bmrt, i == 2 ? 1 : 0, BM_FLOAT32, shape({8}))) << bmrt_last_error();
  Floats in[3] = {kX, kY, Floats(8, 3)}, out[3] = {Floats(8), Floats(8), Floats(8)};
  void *sources[] = {in[0].data(), in[1].data(), in[2].data()};
  void *targets[] = {out[0].data(), out[1].data(), out[2].data()};
  int numbers[] = {2, 1};
  ASSERT_TRUE(bmrt_memcpy_s2d_parallel(p_bmrt, tensors, sources, numbers, 2)) << bmrt_last_error();
  ASSERT_TRUE(bmrt_memcpy_d2s_parallel(p_bmrt, targets, tensors, numbers, 2)) << bmrt_last_error();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(out[i], in[i]);
    EXPECT_EQ(read(handles[i == 2], tensors[i].device_mem), in[i]);
    bm_free_device(handles[i == 2], tensors[i].device_mem);
  }
}

TEST_F(TwoCardsTest, MemoryOfTheOtherCardIsRefused) {
  const auto bytes = sample();
  ASSERT_TRUE(bmrt_load_bmodel_data(p_bmrt, bytes.data(), bytes.size())) << bmrt_last_error();
  const DeviceFloats x(handles[0], kX), y(handles[0], Floats(8)), far(handles[1], kX);
  const bm_tensor_t near_in = tensor(x.mem(), {1, 8}), far_in = tensor(far.mem(), {1, 8});
  bm_tensor_t near_out = tensor(y.mem(), {1, 8}), far_out = tensor(far.mem(), {1, 8});
  const char *const why = "belongs to a buffer of device 1, expected one of device 0";
  EXPECT_FALSE(bmrt_launch_tensor_ex(p_bmrt, "plus", &far_in, 1, &near_out, 1, true, false));
  EXPECT_TRUE(contains(bmrt_last_error(), why)) << bmrt_last_error();
  EXPECT_FALSE(bmrt_launch_tensor_ex(p_bmrt, "plus", &near_in, 1, &far_out, 1, true, false));
  EXPECT_TRUE(contains(bmrt_last_error(), why)) << bmrt_last_error();
  EXPECT_EQ(y.read(), Floats(8));
  EXPECT_EQ(far.read(), kX);
}

TEST_F(TwoCardsTest, NetworksRunOnTheFirst) {
  const auto bytes = sample();
  ASSERT_TRUE(bmrt_load_bmodel_data(p_bmrt, bytes.data(), bytes.size())) << bmrt_last_error();
  const DeviceFloats x(handles[0], kX), y(handles[0], Floats(8));
  const bm_tensor_t in = tensor(x.mem(), {1, 8});
  bm_tensor_t out = tensor(y.mem(), {1, 8});
  ASSERT_TRUE(bmrt_launch_tensor_ex(p_bmrt, "plus", &in, 1, &out, 1, true, false)) << bmrt_last_error();
  ASSERT_EQ(bm_thread_sync(handles[0]), BM_SUCCESS) << npu_last_error();
  EXPECT_EQ(y.read(), kY);
}

}  // namespace
