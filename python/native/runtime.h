// SPDX-License-Identifier: MIT
// Loaded models and their launches. Nothing here knows Python, so that launches run without its lock.
#ifndef NPU_PYTHON_RUNTIME_H
#define NPU_PYTHON_RUNTIME_H

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "python/native/tensor.h"

namespace npu::python {

class Runtime {
 public:
  /// Distributed networks run on several devices, others on the first.
  explicit Runtime(std::vector<DevicePtr> devices);
  ~Runtime();
  Runtime(const Runtime &) = delete;
  Runtime &operator=(const Runtime &) = delete;

  void load(const std::string &path);
  void load(const void *model, size_t bytes);
  std::vector<std::string> names() const;
  const bm_net_info_t &info(const std::string &network) const;
  void set_max_launches(int count);

  void *get() const { return runtime_; }
  const DevicePtr &device(int index) const { return devices_[static_cast<size_t>(index)]; }

  /// Launches that are on their way at this moment.
  int in_flight() const { return in_flight_; }
  /// For each launch: throws if there may be none any more.
  void enter();
  void leave();
  /// No launch begins from now on; waits for those that have.
  void close();

 private:
  const int pid_ = getpid();  // whose threads launch
  std::atomic<int> in_flight_{0};
  std::atomic<bool> closed_{false};
  std::vector<DevicePtr> devices_;
  void *runtime_;
};

using RuntimePtr = std::shared_ptr<Runtime>;

/// For the texts of errors: "network 'digits' input 'image'".
std::string input_name(const bm_net_info_t &net, size_t i);
std::string output_name(const bm_net_info_t &net, size_t i);

/// An input: elements in system memory, or a tensor.
struct Input {
  const void *data = nullptr;
  bm_data_type_t type = BM_FLOAT32;
  Shape shape;
  TensorPtr tensor;
};

/// An output. Where it goes: the caller's memory, the caller's tensor, or new memory of either kind.
struct Output {
  void *data = nullptr;  // of the caller's
  bm_data_type_t type = BM_FLOAT32;
  Shape shape;
  TensorPtr tensor;
  std::unique_ptr<void, decltype(&std::free)> own{nullptr, std::free};  // if it is new
};

struct Launch {
  RuntimePtr runtime;
  std::string network;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<int> cores;
  bool numbers = false;    ///< inputs and outputs in system memory are float32, whatever the network's types are
  bool on_device = false;  ///< outputs that the caller has no place for become tensors
  uint64_t cycles = 0;     ///< result: modelled

  /// Whether types, numbers and devices of tensors are the network's. Throws; nothing has happened then.
  void check() const;
  /// Uploads, launches, waits, reads. Throws; outputs of the caller may be written then. `read` is asked after the
  /// wait whether the outputs are still wanted.
  void run(const std::function<bool()> &read = {});

 private:
  void check_device(const std::string &where, const TensorPtr &tensor, int device) const;
  bool to_caller(size_t i) const { return outputs[i].data || outputs[i].tensor; }
  void upload(size_t i, bm_tensor_t &tensor, std::vector<MemoryPtr> &memory) const;
  void place_outputs(const bm_tensor_t *in, std::vector<bm_tensor_t> &tensors, std::vector<MemoryPtr> &memory) const;
  void check_shape(size_t i, const bm_shape_t &shape) const;
  void wait();
  void fetch(size_t i, const bm_tensor_t &tensor, MemoryPtr memory);
};

}  // namespace npu::python

#endif  // NPU_PYTHON_RUNTIME_H
