// SPDX-License-Identifier: MIT
// Runs a compiled part of a graph.
#ifndef NPU_ORT_KERNEL_H
#define NPU_ORT_KERNEL_H

#include <list>
#include <mutex>

#include "ort/ep/options.h"
#include "ort/ep/profile.h"
#include "ort/ep/program.h"

namespace npu::ort {

class Stream;

/// A .bmodel of the group for these shapes of its inputs, from the cache where the options have one.
Status compile_group(const Group &group, const std::vector<uint8_t> &network, const std::vector<Shape> &shapes,
                     const Options &options, std::vector<uint8_t> &bmodel, bool &on_chip);

class Kernel : public OrtNodeComputeInfo {
 public:
  Kernel(std::shared_ptr<Card> card, std::shared_ptr<const Group> group, std::shared_ptr<const Options> options,
         std::shared_ptr<Profile> profile);

  /// Loads what is compiled; a network whose shapes are not known yet is compiled when it runs.
  Status prepare();
  Status run(Ort::KernelContext context);

 private:
  struct Variant {
    std::vector<Shape> shapes;
    std::shared_ptr<const Program> program;
  };
  static constexpr size_t kVariants = 32;  ///< are kept

  Status program_for(const std::vector<Shape> &shapes, std::shared_ptr<const Program> &out);
  Status make_program(const std::vector<Shape> &shapes, std::shared_ptr<const Program> &out) const;

  const std::shared_ptr<Card> card_;
  const std::shared_ptr<const Group> group_;
  const std::shared_ptr<const Options> options_;
  const std::shared_ptr<Profile> profile_;
  std::mutex mutex_;
  std::list<Variant> variants_;  ///< the one that was used last in front
};

}  // namespace npu::ort

#endif  // NPU_ORT_KERNEL_H
