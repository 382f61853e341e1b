// SPDX-License-Identifier: MIT
// The C++ interface: contexts, networks, tensors, and what they say when something is wrong.
#include "bmruntime_cpp.h"
#include "tests/unit/runtime/fixture.h"

namespace {

using bmruntime::Context;
using bmruntime::Network;
using bmruntime::Tensor;
using test_models::file;
using test_models::net;
using test_models::plus;
using test_models::sample;
using namespace test_runtime;

class CppTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(bm_dev_request(&handle, 0), BM_SUCCESS) << npu_last_error();
    context = std::make_unique<Context>(handle);
    load(sample());
    load(file({net("stages", {plus({1, 4}, 1), plus({2, 4}, 2)})}));
  }
  void TearDown() override {
    context.reset();
    bm_dev_free(handle);
  }
  void load(const std::vector<uint8_t> &bytes) {
    ASSERT_EQ(context->load_bmodel(bytes.data(), bytes.size()), BM_SUCCESS) << bmrt_last_error();
  }
  bm_handle_t handle = nullptr;
  std::unique_ptr<Context> context;
};

TEST_F(CppTest, AContextHoldsModels) {
  EXPECT_EQ(context->handle(), handle);
  EXPECT_EQ(context->get_network_number(), 5);
  std::vector<const char *> names{"cleared first"};
  context->get_network_names(&names);
  ASSERT_EQ(names.size(), 5u);
  EXPECT_STREQ(names[0], "plus");
  EXPECT_STREQ(names[4], "stages");
  EXPECT_EQ(context->get_network_info("stages")->stage_num, 2);
  EXPECT_FALSE(context->get_network_info("nothing"));
  EXPECT_TRUE(contains(bmrt_last_error(), "no network named 'nothing'")) << bmrt_last_error();
  const auto again = sample();
  EXPECT_NE(context->load_bmodel(again.data(), again.size()), BM_SUCCESS) << "names are taken";
  EXPECT_NE(context->load_bmodel("/nonexistent"), BM_SUCCESS);
}

TEST_F(CppTest, AContextOpensItsOwnDevice) {
  Context own;
  ASSERT_TRUE(own.handle());
  const auto bytes = sample();
  EXPECT_EQ(own.load_bmodel(bytes.data(), bytes.size()), BM_SUCCESS) << bmrt_last_error();
}

TEST_F(CppTest, AContextWithoutADeviceSaysSo) {
  Context none(99);
  EXPECT_FALSE(none.handle());
  EXPECT_TRUE(contains(bmrt_last_error(), "Context")) << bmrt_last_error();
  const auto bytes = sample();
  EXPECT_NE(none.load_bmodel(bytes.data(), bytes.size()), BM_SUCCESS);
  EXPECT_EQ(none.get_network_number(), 0);
  EXPECT_FALSE(none.get_network_info("plus"));
  Network broken(none, "plus");
  EXPECT_FALSE(broken.info());
  EXPECT_NE(broken.Forward(), BM_SUCCESS);
}

TEST_F(CppTest, ANetworkRunsWithItsOwnMemory) {
  Network network(*context, "plus");
  ASSERT_EQ(network.Inputs().size(), 1u);
  ASSERT_EQ(network.Outputs().size(), 1u);
  EXPECT_STREQ(network.info()->name, "plus");
  Tensor *const x = network.Input("x"), *const y = network.Output("y");
  ASSERT_TRUE(x && y);
  EXPECT_FALSE(network.Input("y"));
  EXPECT_EQ(x, network.Inputs()[0]);
  EXPECT_EQ(x->num_elements(), 8u);
  EXPECT_EQ(x->ByteSize(), 32u);
  const Floats values{1, 2, 3, 4, 5, 6, 7, 8};
  Floats result(8);
  ASSERT_EQ(x->CopyFrom(values.data()), BM_SUCCESS);
  ASSERT_EQ(network.Forward(), BM_SUCCESS) << bmrt_last_error();
  ASSERT_EQ(y->CopyTo(result.data()), BM_SUCCESS);
  EXPECT_EQ(result, (Floats{4, 5, 6, 7, 8, 9, 10, 11}));
}

TEST_F(CppTest, ReshapingChoosesTheStage) {
  Network network(*context, "stages");
  Tensor &x = *network.Inputs()[0], &y = *network.Outputs()[0];
  EXPECT_EQ(network.Forward(), BM_ERR_PARAM) << "which stage is meant is not known yet";
  EXPECT_TRUE(contains(bmrt_last_error(), "call Reshape first")) << bmrt_last_error();
  const Floats values{1, 2, 3, 4, 5, 6, 7, 8};
  Floats result(8);
  ASSERT_EQ(x.Reshape(shape({2, 4})), BM_SUCCESS);
  ASSERT_EQ(x.CopyFrom(values.data()), BM_SUCCESS);
  ASSERT_EQ(network.Forward(), BM_SUCCESS) << bmrt_last_error();
  EXPECT_EQ(y.num_elements(), 8u);
  ASSERT_EQ(y.CopyTo(result.data()), BM_SUCCESS);
  EXPECT_EQ(result, (Floats{3, 4, 5, 6, 7, 8, 9, 10}));
  ASSERT_EQ(x.Reshape(shape({1, 4})), BM_SUCCESS);
  ASSERT_EQ(network.Forward(), BM_SUCCESS) << bmrt_last_error();
  EXPECT_EQ(y.num_elements(), 4u);
  ASSERT_EQ(x.Reshape(shape({4, 2})), BM_SUCCESS);
  EXPECT_EQ(network.Forward(), BM_ERR_FAILURE);
  EXPECT_TRUE(contains(bmrt_last_error(), "expected [1,4] or [2,4]")) << bmrt_last_error();
  EXPECT_EQ(x.Reshape(shape({3, 4})), BM_ERR_PARAM) << "larger than every stage";
  EXPECT_EQ(y.Reshape(shape({1, 4})), BM_ERR_PARAM) << "an output";
}

TEST_F(CppTest, AFixedStageCannotBeReshaped) {
  Network network(*context, "stages", 1);
  EXPECT_TRUE(bmruntime::IsSameShape(network.Inputs()[0]->tensor()->shape, shape({2, 4})));
  EXPECT_EQ(network.Inputs()[0]->Reshape(shape({1, 4})), BM_ERR_PARAM);
  EXPECT_EQ(network.Forward(), BM_SUCCESS) << bmrt_last_error();
  for (const int stage : {-2, 2}) {
    Network wrong(*context, "stages", stage);
    EXPECT_TRUE(contains(bmrt_last_error(), "has stages 0 to 1")) << bmrt_last_error();
    EXPECT_FALSE(wrong.info());
    EXPECT_TRUE(wrong.Inputs().empty());
    EXPECT_EQ(wrong.Forward(), BM_ERR_PARAM);
  }
}

TEST_F(CppTest, TensorsTakeMemoryOfTheCaller) {
  const DeviceFloats x(handle, {1, 2, 3, 4, 5, 6, 7, 8}), y(handle, Floats(8)), small(handle, Floats(4));
  Network network(*context, "plus");
  EXPECT_EQ(network.Inputs()[0]->set_device_mem(small.mem()), BM_ERR_PARAM);
  ASSERT_EQ(network.Inputs()[0]->set_device_mem(x.mem()), BM_SUCCESS);
  ASSERT_EQ(network.Outputs()[0]->set_device_mem(y.mem()), BM_SUCCESS);
  ASSERT_EQ(network.Forward(false), BM_SUCCESS) << bmrt_last_error();
  ASSERT_EQ(bm_thread_sync(context->handle()), BM_SUCCESS);
  EXPECT_EQ(y.read(), (Floats{4, 5, 6, 7, 8, 9, 10, 11}));
}

TEST_F(CppTest, CopiesStayInsideTheTensor) {
  Network network(*context, "plus");
  Tensor &x = *network.Inputs()[0];
  const Floats values{1, 2, 3, 4, 5, 6, 7, 8};
  Floats result(2);
  ASSERT_EQ(x.CopyFrom(values.data()), BM_SUCCESS);
  ASSERT_EQ(x.CopyFrom(values.data(), 8, 16), BM_SUCCESS);
  ASSERT_EQ(x.CopyTo(result.data(), 8, 20), BM_SUCCESS);
  EXPECT_EQ(result, (Floats{2, 7}));
  EXPECT_EQ(x.CopyTo(result.data(), 8, 28), BM_ERR_PARAM);
  EXPECT_EQ(x.CopyTo(result.data(), 8, ~uint64_t{0} - 3), BM_ERR_PARAM);
  EXPECT_EQ(x.CopyFrom(values.data(), 36), BM_ERR_PARAM);
  EXPECT_EQ(x.CopyFrom(nullptr), BM_ERR_PARAM);
  EXPECT_TRUE(contains(bmrt_last_error(), "Tensor::CopyFrom: null pointer")) << bmrt_last_error();
}

TEST_F(CppTest, StoreModesAreChecked) {
  Network network(*context, "plus");
  network.Outputs()[0]->set_store_mode(BM_STORE_4N);
  EXPECT_EQ(network.Forward(), BM_ERR_FAILURE);
  EXPECT_TRUE(contains(bmrt_last_error(), "output 0 ('y'): store mode")) << bmrt_last_error();
  network.Outputs()[0]->set_store_mode(BM_STORE_1N);
  EXPECT_EQ(network.Forward(), BM_SUCCESS) << bmrt_last_error();
}

TEST_F(CppTest, SizesAreArithmetic) {
  Network network(*context, "plus");
  const Tensor &x = *network.Inputs()[0];
  EXPECT_EQ(bmruntime::ByteSize(BM_FLOAT16), 2u);
  EXPECT_EQ(bmruntime::ByteSize(x), 32u);
  EXPECT_EQ(bmruntime::ByteSize(*x.tensor()), 32u);
  EXPECT_EQ(bmruntime::ByteSize(x.tensor()->device_mem), 32u);
  EXPECT_EQ(bmruntime::Count(x), 8u);
  EXPECT_EQ(bmruntime::Count(*x.tensor()), 8u);
  EXPECT_EQ(bmruntime::Count(shape({})), 1u);
  EXPECT_TRUE(bmruntime::IsSameShape(shape({2, 3}), shape({2, 3})));
  EXPECT_FALSE(bmruntime::IsSameShape(shape({2, 3}), shape({3, 2})));
}

TEST_F(CppTest, NetworksGiveTheirMemoryBack) {
  npu_device *device;
  ASSERT_EQ(npu_device_open(0, &device), 0);
  const uint64_t before = held_by_process(device);
  {
    Network network(*context, "plus"), other(*context, "plus");
    ASSERT_EQ(network.Forward(false), BM_SUCCESS);
    ASSERT_EQ(other.Forward(false), BM_SUCCESS);
  }
  ASSERT_EQ(bm_thread_sync(handle), BM_SUCCESS);
  EXPECT_EQ(held_by_process(device), before);
  npu_device_close(device);
}

}  // namespace
