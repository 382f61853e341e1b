// SPDX-License-Identifier: MIT
// libFuzzer target: whatever bytes come, a .bmodel is refused with a reason or can be read completely.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "container.h"

namespace {

using npu::bmodel::Container;
using npu::bmodel::Program;
namespace fb = npu::bmodel::fb;

volatile uint8_t sink;

/// Touches every byte, so that a view beyond the file is seen.
void read(std::span<const uint8_t> bytes) {
  for (const uint8_t b : bytes) sink = b;
}

void read_stages(const Container &c, const fb::Net &net) {
  if (!net.parameter()) return;
  for (const fb::NetParameter *stage : *net.parameter()) {
    Program p;
    if (!npu::bmodel::read_program(c, net, *stage, p).empty()) continue;
    read(p.tiu);
    read(p.gdma);
    for (const auto name : p.layers) read({reinterpret_cast<const uint8_t *>(name.data()), name.size()});
    if (stage->coeff_mem()) read(c.binary(stage->coeff_mem()->binary_coeff()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // Half of the inputs begin at an odd address, as files in memory may.
  const size_t shift = size % 2;
  const std::unique_ptr<uint8_t[]> copy(new uint8_t[size + shift]);
  if (size) std::memcpy(copy.get() + shift, data, size);
  std::string why;
  const auto c = Container::from_memory(copy.get() + shift, size, why);
  if ((c == nullptr) == why.empty()) std::abort();
  if (!c) return 0;
  read({reinterpret_cast<const uint8_t *>(why.data()), why.size()});
  (void)c->verify_hashes();
  (void)npu::bmodel::check_chip(*c);
  for (const fb::Net *net : *c->model().net()) read_stages(*c, *net);
  return 0;
}
