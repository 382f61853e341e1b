// SPDX-License-Identifier: MIT
// Runs a compiled part of a graph.
#ifndef NPU_ORT_KERNEL_H
#define NPU_ORT_KERNEL_H

#include <atomic>
#include <map>
#include <mutex>

#include "ort/ep/cpu_part.h"
#include "ort/ep/options.h"
#include "ort/ep/profile.h"
#include "ort/ep/program.h"

namespace npu::ort {

class Stream;
struct Operand;

struct CompiledGroup {
  std::vector<uint8_t> bmodel;
  bool on_chip = false;  ///< the chip has something to do
  bool refused = false;  ///< there is no program for these shapes, and no later call makes one
};

/// A .bmodel of the group for these shapes of its inputs, from the cache where the options have one.
Status compile_group(const Group &group, const std::vector<uint8_t> &network, const std::vector<Shape> &shapes,
                     const Options &options, CompiledGroup &out);

class Kernel : public OrtNodeComputeInfo {
 public:
  Kernel(std::shared_ptr<Card> card, std::shared_ptr<const Group> group, std::shared_ptr<const Options> options,
         std::shared_ptr<Profile> profile, const OrtLogger *logger);

  /// Loads what is compiled; a network whose shapes are not known yet is compiled when it runs.
  Status prepare();
  Status run(Ort::KernelContext context);

 private:
  using Shapes = std::vector<Shape>;
  struct Variant {
    std::mutex mutex;                        // held while it is compiled
    std::shared_ptr<const Program> program;  // null: not yet, or it failed; guarded by `mutex`
    Status refused;                          // the compiler's error for these shapes; guarded by `mutex`
    uint64_t used = 0;                       // guarded by the kernel's mutex_
  };
  static constexpr size_t kVariants = 32;  ///< are kept

  std::shared_ptr<Variant> variant_for(const Shapes &shapes);
  void forget(const Shapes &shapes, const std::shared_ptr<Variant> &variant);
  Status program_for(const Shapes &shapes, std::shared_ptr<const Program> &out, bool &refused);
  Status make_program(const Shapes &shapes, Variant &variant) const;
  Status run_on_cpu(const Ort::KernelContext &context, const std::vector<Operand> &inputs, const Status &reason);

  const std::shared_ptr<Card> card_;
  const std::shared_ptr<const Group> group_;
  const std::shared_ptr<const Options> options_;
  const std::shared_ptr<Profile> profile_;
  const OrtLogger *const logger_;
  CpuPart cpu_;
  std::atomic<bool> warned_ = false;  ///< the log has a warning that the CPU computes
  std::mutex mutex_;                  // guards what follows; never held while something is compiled or destroyed
  std::map<Shapes, std::shared_ptr<Variant>> variants_;
  uint64_t uses_ = 0;
};

}  // namespace npu::ort

#endif  // NPU_ORT_KERNEL_H
