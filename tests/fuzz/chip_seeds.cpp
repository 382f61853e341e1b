// SPDX-License-Identifier: MIT
// Writes the seeds of fuzz_chip into a directory: drivers that do one thing right, so that the fuzzer has what to
// spoil.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "npu_isa.h"
#include "tests/fuzz/chip_ops.h"

namespace {

using npu::fuzz::Op;

class Seed {
 public:
  explicit Seed(uint8_t backend) : bytes_{static_cast<char>(backend)} {}

  template <class... T>
  Seed &op(Op op, T... operands) {
    put(op);
    (put(operands), ...);
    return *this;
  }
  /// A template in a slot of a stream (0, 2: TIU; 1, 3: GDMA).
  Seed &command(uint8_t stream, uint8_t slot, uint8_t what) { return op(Op::Command, stream, slot, what, uint8_t{0}); }
  Seed &submit(uint8_t tiu, uint8_t gdma, uint8_t streams = 0, uint8_t flags = NPU_JOB_IRQ) {
    return op(Op::Submit, uint8_t{0}, tiu, gdma, streams, flags, uint8_t{0});
  }
  Seed &wait() { return op(Op::Wait, uint8_t{0}); }
  const std::vector<char> &bytes() const { return bytes_; }

 private:
  template <class T>
  void put(T v) {
    char raw[sizeof v];
    std::memcpy(raw, &v, sizeof v);
    bytes_.insert(bytes_.end(), raw, raw + sizeof v);
  }
  std::vector<char> bytes_;
};

std::vector<std::pair<std::string, Seed>> seeds() {
  std::vector<std::pair<std::string, Seed>> out;
  for (uint8_t backend = 0; backend < 2; ++backend) {
    const std::string suffix = backend ? "-fast" : "-reference";
    for (uint8_t t = 0; t < npu::fuzz::kTemplates; ++t) {
      const bool gdma = t >= 9;  // chip_ops.h: the last three templates
      Seed s(backend);
      s.command(gdma, 0, t).submit(!gdma, gdma).wait();
      out.emplace_back("command-" + std::to_string(t) + suffix, s);
    }
    Seed all(backend);
    for (uint8_t t = 0; t < 9; ++t) all.command(0, t, t);
    for (uint8_t t = 9; t < 12; ++t) all.command(1, static_cast<uint8_t>(t - 9), t);
    all.submit(9, 3, 0, NPU_JOB_IRQ | NPU_JOB_PROFILE).wait();
    out.emplace_back("all" + suffix, all);
    Seed gang(backend);
    gang.command(0, 0, 7).command(1, 0, 9).command(2, 0, 4).command(3, 0, 10).submit(1, 1, 1).submit(1, 1, 0).wait();
    out.emplace_back("gang" + suffix, gang);
    Seed remap(backend);
    remap.command(1, 0, 9).command(1, 1, 10).submit(0, 2);
    remap.op(Op::Map, uint16_t{8}, uint16_t{9}, uint8_t{NPU_PTE_WRITE});
    remap.op(Op::Invalidate, uint8_t{0}, uint16_t{8}, uint16_t{1}).submit(0, 2).wait();
    out.emplace_back("remap" + suffix, remap);
    Seed stop(backend);
    stop.command(0, 0, 3).submit(32, 32).op(Op::Abort, uint8_t{0}, uint8_t{0}).submit(1, 0);
    stop.op(Op::Disable, uint8_t{0}).op(Op::Enable, uint8_t{0}, uint8_t{1}, uint8_t{1}).submit(1, 0).wait();
    stop.op(Op::Reset, uint8_t{0}).submit(1, 0).op(Op::Reset, uint8_t{3}).submit(1, 0).wait();
    out.emplace_back("stop" + suffix, stop);
    Seed hang(backend);
    hang.op(Op::Fault, uint8_t{0}, uint16_t{1}).command(0, 0, 0).submit(1, 0).op(Op::Abort, uint8_t{0}, uint8_t{0});
    hang.submit(1, 0).wait();
    out.emplace_back("hang" + suffix, hang);
  }
  return out;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: chip_seeds DIR\n");
    return 2;
  }
  std::filesystem::create_directories(argv[1]);
  for (const auto &[name, seed] : seeds()) {
    std::ofstream out(std::filesystem::path(argv[1]) / name, std::ios::binary);
    out.write(seed.bytes().data(), static_cast<std::streamsize>(seed.bytes().size()));
    if (!out.flush()) {
      std::fprintf(stderr, "chip_seeds: %s/%s: cannot write\n", argv[1], name.c_str());
      return 1;
    }
  }
  return 0;
}
