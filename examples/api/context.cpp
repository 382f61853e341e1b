// SPDX-License-Identifier: MIT
// The C++ interface: Context, Network, Tensor. usage: context MODEL PICTURES INDEX
#include "bmruntime_cpp.h"
#include "sample.h"

using bmruntime::Context;
using bmruntime::Network;

int main(int argc, char **argv) {
  CHECK(argc == 4);
  float pixels[PIXELS], probabilities[CLASSES];
  read_picture(argv[2], atol(argv[3]), pixels);

  Context ctx;  // device 0
  CHECK(ctx.load_bmodel(argv[1]) == BM_SUCCESS);
  std::vector<const char *> net_names;
  ctx.get_network_names(&net_names);
  CHECK(!net_names.empty());
  for (const char *name : net_names) fprintf(stderr, "network: %s\n", name);

  // A stage of the network: its tensors have the stage's shapes and memory of their own.
  Network net(ctx, net_names[0], 0);
  CHECK(net.info() && net.Inputs().size() == 1 && net.Outputs().size() == 1);
  auto &inputs = net.Inputs();
  CHECK(inputs[0]->ByteSize() == sizeof pixels);
  CHECK(inputs[0]->CopyFrom(pixels) == BM_SUCCESS);
  CHECK(net.Forward() == BM_SUCCESS);
  auto &outputs = net.Outputs();
  CHECK(outputs[0]->CopyTo(probabilities) == BM_SUCCESS);
  printf("%d\n", best_class(probabilities));
}
