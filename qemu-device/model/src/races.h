// SPDX-License-Identifier: MIT
// The race detector: commands of two engines of a job that access the same bytes, at least one of them writing, with
// neither a `wait` nor a semaphore that orders them. docs/reference/hardware.md section 5.6.
//
// A vector clock an engine says how many commands of each other engine have retired before its next one by an order
// that the program itself demands; the modelled time plays no part, so a race is found however it would have ended.
#ifndef NPU_MODEL_RACES_H
#define NPU_MODEL_RACES_H

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "qemu-device/model/src/job.h"
#include "qemu-device/model/src/validate.h"

namespace npu::model {

/// The bytes of an operand: runs of `size` bytes, `stride` apart, from the lowest on. Outermost dimension first,
/// strides descend.
struct Footprint {
  static constexpr unsigned kDims = 6;
  uint64_t low = 0;
  uint64_t size = 0;
  unsigned count = 0;
  uint64_t dims[kDims] = {};
  uint64_t stride[kDims] = {};

  void add(uint64_t n, int64_t distance);
  /// Sorts and joins dimensions; the other functions need it.
  void normalise();
  uint64_t span(unsigned level = 0) const;
  uint64_t runs() const;
  /// Does it share a byte with the other? Where both have more runs than can be looked at, no.
  bool meets(const Footprint &other) const;
};

class Races {
 public:
  /// Engines are numbered place * 2 + engine.
  Races(const Job &job, unsigned engines) : job_(job), engines_(engines), engine_(engines), semaphore_() {}

  /// The engine begins a checked command whose waits are over. The error, if there is one, names the operand; `text`
  /// says both commands.
  Error begin(unsigned engine, const Command &command, const Operands &operands, std::string &text);
  /// The command that the engine has begun last, a SEM_SIGNAL, has retired.
  void signalled(unsigned engine, uint32_t sem);

 private:
  static constexpr size_t kWindow = 4096;  // commands of an engine that are looked back at
  using Clock = std::array<uint32_t, NPU_MAX_CORES * 2>;

  struct Access {
    bool used = false;
    bool write = false;
    unsigned space = 0;  ///< place of the core whose local memory it is; kMemory: an address of the job's address space
    Footprint bytes;
  };
  struct Begun {
    Clock known{};  ///< when it began, with its own index: what whoever is ordered behind its end knows
    std::array<Access, Operands::kCount> accesses;
  };
  struct Engine {
    Clock known{};
    std::deque<Begun> history;
    uint32_t first = 0;  ///< index of history[0]
  };
  static constexpr unsigned kMemory = ~0u;

  static void join(Clock &clock, const Clock &other);
  Access access_of(unsigned engine, const hw::OperandShape &shape, const Operand &operand) const;
  void order(unsigned engine, const Command &command);
  std::string describe(unsigned engine, uint32_t index, const Access &access) const;

  const Job &job_;
  const unsigned engines_;
  std::vector<Engine> engine_;
  std::array<Clock, NPU_MAX_SEMAPHORES> semaphore_;
};

}  // namespace npu::model

#endif  // NPU_MODEL_RACES_H
