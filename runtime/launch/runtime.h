// SPDX-License-Identifier: MIT
// What bmrt_create returns: a device handle and the networks loaded on it.
#ifndef NPURT_RUNTIME_H
#define NPURT_RUNTIME_H

#include <map>
#include <memory>
#include <shared_mutex>
#include <span>
#include <string>
#include <vector>

#include "network.h"
#include "npu_bm_internal.h"

namespace npurt {

/// A launch: jobs [main_seqno, seqno] of a context.
struct Launched {
  npu_context *context = nullptr;
  uint64_t seqno = 0;
  uint64_t main_seqno = 0;  ///< the network's own job; later ones bring staged outputs home
  const Network *network = nullptr;
  const Stage *stage = nullptr;
};

struct LaunchOptions {
  bool user_mem = false;
  bool user_stmode = false;
  std::span<const int> cores;  ///< empty: any
};

class Runtime {
 public:
  static Reason create(bm_handle_t handle, std::unique_ptr<Runtime> &out);
  ~Runtime();
  Runtime(const Runtime &) = delete;
  Runtime &operator=(const Runtime &) = delete;

  bm_handle_t handle() const { return handle_; }
  /// All networks of a container or none.
  Reason load(const npu::bmodel::Container &container);
  /// nullptr with the reason: no such network.
  const Network *find(const char *name, Reason &why) const;
  std::vector<const Network *> networks() const;
  void set_max_launches(int count);

  /// bmrt_launch_tensor and its kin. With `waiter` the caller waits for the launch himself; else bm_thread_sync() does.
  Reason launch(const char *name, std::span<const bm_tensor_t> inputs, std::span<bm_tensor_t> outputs,
                const LaunchOptions &options, Launched *waiter = nullptr);
  /// bmrt_launch_data.
  Reason launch_data(const char *name, std::span<void *const> input_datas, std::span<const bm_shape_t> input_shapes,
                     std::span<void *> output_datas, std::span<bm_shape_t> output_shapes, bool user_mem);
  /// Modelled cycles of the calling thread's last launch.
  Reason last_cycles(uint64_t *cycles) const;

 private:
  Runtime(bm_handle_t handle, npu_device *device, uint32_t cores);
  Reason submit(const Network &net, const Stage &stage, std::span<const bm_tensor_t> inputs,
                std::span<const bm_tensor_t> outputs, uint32_t core_mask, Launched &launched);
  Reason check_names(const std::vector<std::string> &names, const std::string &file) const;
  /// The calling thread's last launch on this runtime.
  Launched &last_launch() const;

  const uint64_t id_;  // never used again, unlike the runtime's address
  const bm_handle_t handle_;
  npu_device *const device_;
  const uint32_t cores_;
  int max_launches_ = 16;                           // guarded by mutex_
  mutable std::shared_mutex mutex_;                 // guards the list and the map; networks themselves are constant
  std::vector<std::unique_ptr<Network>> networks_;  // in the order of loading
  std::map<std::string, Network *, std::less<>> by_name_;
};

}  // namespace npurt

#endif  // NPURT_RUNTIME_H
