// SPDX-License-Identifier: MIT
// A program as users of the C++ interface write them: it compiles without a warning from C++11 on and links with every
// function; and the layouts that programs for the vendor's runtime were compiled with.
#include <cstdio>

#include "bmruntime_cpp.h"

using namespace bmruntime;

#ifdef __LP64__
static_assert(sizeof(Context) == 24, "Context");
static_assert(sizeof(Network) == 88, "Network");
static_assert(sizeof(Tensor) == 40, "Tensor");
#endif

static bm_status_t infer(Context &context, const char *name, std::vector<float> &data) {
  Network network(context, name);
  for (Tensor *input : network.Inputs()) {
    if (!IsSameShape(input->tensor()->shape, network.info()->stages[0].input_shapes[0]))
      input->Reshape(network.info()->stages[0].input_shapes[0]);
    data.resize(input->num_elements());
    input->CopyFrom(data.data());
    input->CopyFrom(data.data(), input->ByteSize(), 0);
    input->CopyFromFloat(data.data());
    input->set_store_mode(BM_STORE_1N);
  }
  const bm_status_t status = network.Forward();
  network.Forward(false);
  bm_thread_sync(context.handle());
  for (Tensor *output : network.Outputs()) {
    data.resize(output->ByteSize());
    output->CopyTo(data.data());
    output->CopyTo(data.data(), ByteSize(*output), 0);
    output->CopyToFloat(data.data());
    output->set_device_mem(output->tensor()->device_mem);
    std::printf("%llu %llu %llu %zu %zu %zu\n", static_cast<unsigned long long>(Count(*output)),
                static_cast<unsigned long long>(Count(*output->tensor())),
                static_cast<unsigned long long>(Count(output->tensor()->shape)), ByteSize(*output->tensor()),
                ByteSize(output->tensor()->device_mem), ByteSize(output->tensor()->dtype));
  }
  return network.Input("x") && network.Output("y") ? status : BM_ERR_PARAM;
}

int main(int argc, char **argv) {
  Context context, *on_handle = new Context(context.handle());
  std::vector<const char *> names;
  std::vector<float> data;
  if (argc != 2 || context.load_bmodel(argv[1]) != BM_SUCCESS) return 1;
  on_handle->load_bmodel(data.data(), 0);
  context.get_network_names(&names);
  for (const char *name : names)
    if (context.get_network_info(name) == NULL || infer(context, name, data) != BM_SUCCESS) return 1;
  context.trace();
  delete on_handle;
  return context.get_network_number() == 0;
}
