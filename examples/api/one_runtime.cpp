// SPDX-License-Identifier: MIT
// Several threads, one runtime: each has a Network of its own of the same context, with tensors of its own; the
// coefficients are there once. usage: one_runtime MODEL PICTURES INDEX
#include <thread>

#include "bmruntime_cpp.h"
#include "sample.h"

using bmruntime::Context;
using bmruntime::Network;

int main(int argc, char **argv) {
  CHECK(argc == 4);
  float pixels[PIXELS];
  read_picture(argv[2], atol(argv[3]), pixels);
  Context ctx;
  CHECK(ctx.load_bmodel(argv[1]) == BM_SUCCESS);
  std::vector<const char *> net_names;
  ctx.get_network_names(&net_names);

  constexpr int kThreads = 4, kLaunches = 50;
  int answers[kThreads];
  std::vector<std::thread> threads;
  for (int &answer : answers)
    threads.emplace_back([&ctx, &pixels, &answer, name = net_names[0]] {
      Network net(ctx, name, 0);
      float probabilities[CLASSES];
      CHECK(net.info() && net.Inputs()[0]->CopyFrom(pixels) == BM_SUCCESS);
      for (int i = 0; i < kLaunches; ++i) CHECK(net.Forward(false) == BM_SUCCESS);
      CHECK(bm_thread_sync(ctx.handle()) == BM_SUCCESS);
      CHECK(net.Outputs()[0]->CopyTo(probabilities) == BM_SUCCESS);
      answer = best_class(probabilities);
    });
  for (std::thread &t : threads) t.join();
  for (const int answer : answers) CHECK(answer == answers[0]);
  printf("%d\n", answers[0]);
}
