// SPDX-License-Identifier: MIT
// A compiled network on a card, for one set of shapes.
#ifndef NPU_ORT_PROGRAM_H
#define NPU_ORT_PROGRAM_H

#include <bmruntime_interface.h>

#include <map>

#include "ort/ep/card.h"
#include "ort/ep/group.h"

namespace npu::ort {

/// How a tensor of ONNX Runtime's lies in the chip's memory. False: no such tensor can be given to it.
bool stored_type(ONNXTensorElementDataType type, bm_data_type_t &out);
/// Whether its elements have 64 bits, and 32 on the chip.
bool is_wide(ONNXTensorElementDataType type);
/// Of an element in memory of ONNX Runtime's.
size_t element_size(ONNXTensorElementDataType type);

using Shape = std::vector<int64_t>;

class Program {
 public:
  /// Loads a .bmodel and finds the ports in it.
  static Status load(std::shared_ptr<Card> card, const std::vector<uint8_t> &bmodel, const Group &group,
                     std::unique_ptr<Program> &out);
  ~Program();
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  const Shape &input_shape(size_t port) const { return inputs_[port].shape; }
  const Shape &output_shape(size_t port) const { return outputs_[port].shape; }

  /// Memory of all ports, in the order of the group's. Returns when the card has the job, or it has ended.
  Status launch(const std::vector<uint64_t> &inputs, const std::vector<uint64_t> &outputs) const;
  /// Modelled cycles of the calling thread's last launch, which has ended.
  Status last_cycles(uint64_t &cycles) const;

 private:
  struct Slot {
    size_t tensor = 0;  ///< its place in the network
    Shape shape;
    bm_tensor_t like{};  ///< without memory
  };

  Program(std::shared_ptr<Card> card, void *runtime) : card_(std::move(card)), runtime_(runtime) {}
  Status find_ports(const Group &group);

  std::shared_ptr<Card> card_;
  void *runtime_;
  std::string network_;
  std::vector<Slot> inputs_, outputs_;
};

}  // namespace npu::ort

#endif  // NPU_ORT_PROGRAM_H
