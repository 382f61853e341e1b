// SPDX-License-Identifier: MIT
// What bmrt_create returns: a device handle and the networks loaded on it.
#ifndef NPURT_RUNTIME_H
#define NPURT_RUNTIME_H

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <shared_mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/launch/exec/submit.h"
#include "runtime/launch/model/network.h"

namespace npurt {

struct LaunchOptions {
  bool user_mem = false;
  bool user_stmode = false;
  std::span<const int> cores;  ///< empty: any
};

/// What data in system memory consists of.
enum class DataForm : uint8_t { Elements, Float32 };  ///< of the tensor's own type; numbers that they stand for

class Runtime {
 public:
  static constexpr int kMaxDevices = 32;
  static constexpr int kAllStages = -1;

  static Status create(std::span<const bm_handle_t> handles, std::unique_ptr<Runtime> &out);
  using Calls = std::atomic<int>;

  /// A call on a runtime: while there is one, destroy() waits. A call may make others.
  class Use {
   public:
    /// A program's pointer: false if it is not that of a runtime of this process that has not been destroyed.
    explicit Use(const void *runtime);
    ~Use();
    Use(const Use &) = delete;
    Use &operator=(const Use &) = delete;
    explicit operator bool() const { return calls_ != nullptr; }

   private:
    std::shared_ptr<Calls> calls_;
  };
  /// Waits for calls that other threads make on it, so not to be called by one. False: as for Use.
  static bool destroy(void *runtime);
  /// This process is the child of one that had runtimes.
  static bool forked();
  ~Runtime();
  Runtime(const Runtime &) = delete;
  Runtime &operator=(const Runtime &) = delete;

  /// Of the first device, on which networks run.
  bm_handle_t handle() const { return cards_[0].handle; }
  /// In the order of bmrt_create_ex.
  std::span<const Card> cards() const { return cards_; }
  /// The first device's handle is the runtime's own: it goes with it.
  void own_handle() { owns_handle_ = true; }
  std::atomic<uint32_t> flags{0};  ///< bm_runtime_flag_t
  /// All networks of a container or none. `memory` (may be null): what the program gives for them.
  Status load(const npu::bmodel::Container &container, const mem_info_t *memory = nullptr);
  /// Activation memory of the program's for all networks that are loaded.
  Status use_scratch(const mem_info_t &memory) const;
  Status find(const char *name, const Network *&net) const;
  std::vector<const Network *> networks() const;
  void set_max_launches(int count);
  /// Activation memory for one launch of a stage, or of all.
  Status reserve(const char *name, int stage, std::span<const int> cores) const;

  /// bmrt_launch_tensor and its kin. With `waiter` the caller waits for the launch himself; else bm_thread_sync() does.
  Status launch(const char *name, std::span<const bm_tensor_t> inputs, std::span<bm_tensor_t> outputs,
                const LaunchOptions &options, Launched *waiter = nullptr);
  /// bmrt_launch_data and bmrt_launch_data_float32.
  Status launch_data(const char *name, std::span<void *const> input_datas, std::span<const bm_shape_t> input_shapes,
                     std::span<void *> output_datas, std::span<bm_shape_t> output_shapes, bool user_mem,
                     std::span<const int> cores, DataForm form = DataForm::Elements);
  /// get_bmodel_api_info_c.
  Status describe_launch(const char *name, std::span<const bm_tensor_t> inputs, std::span<bm_tensor_t> outputs,
                         const LaunchOptions &options, api_info_c *&info);
  /// Modelled cycles of the calling thread's last launch.
  Status last_cycles(uint64_t *cycles) const;

 private:
  Runtime();
  Status prepare(const char *name, std::span<const bm_tensor_t> inputs, std::span<const bm_tensor_t> outputs,
                 const LaunchOptions &options, Prepared &out) const;
  Status record(const Launched &launched, size_t first) const;
  Status check_names(const std::vector<std::string> &names, const std::string &file) const;
  /// The calling thread's last launch on this runtime.
  Launched &last_launch() const;

  const uint64_t id_;                               // never used again, unlike the runtime's address
  std::vector<Card> cards_;                         // constant once the runtime is made
  bool owns_handle_ = false;                        // likewise
  int max_launches_ = 16;                           // guarded by mutex_
  mutable std::shared_mutex mutex_;                 // guards the list and the map; networks themselves are constant
  std::vector<std::unique_ptr<Network>> networks_;  // in the order of loading
  std::map<std::string, Network *, std::less<>> by_name_;
};

}  // namespace npurt

#endif  // NPURT_RUNTIME_H
