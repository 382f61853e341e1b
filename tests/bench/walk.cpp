// SPDX-License-Identifier: MIT
// For walk.py: prints each function of the project that a launch of one input tensor enters, as "depth file address".
// The launch is the fourth: by then pools, lists and the thread's context are there.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <vector>

#include "bmruntime_interface.h"
#include "tests/unit/runtime/models.h"

#define NOT_COUNTED __attribute__((no_instrument_function))

namespace {

struct Call {
  int depth;
  void *function;
};

Call calls[1 << 16];
size_t count = 0;
thread_local bool on = false;  // in the thread that launches
thread_local int depth = 0;

}  // namespace

// The compiler calls them at the begin and the end of each function.
extern "C" {
NOT_COUNTED void __cyg_profile_func_enter(void *function, void *) {
  if (!on) return;
  if (count < std::size(calls)) calls[count++] = {depth, function};
  ++depth;
}
NOT_COUNTED void __cyg_profile_func_exit(void *, void *) {
  if (on) --depth;
}
}

NOT_COUNTED int main() {
  bm_handle_t handle;
  if (bm_dev_request(&handle, 0) != BM_SUCCESS) return 1;
  void *const runtime = bmrt_create(handle);
  const std::vector<uint8_t> file = test_models::sample();
  if (!bmrt_load_bmodel_data(runtime, file.data(), file.size())) return 1;
  const bm_net_info_t *const info = bmrt_get_network_info(runtime, "plus");
  bm_tensor_t in, out;
  if (!bmrt_tensor(&in, runtime, info->input_dtypes[0], info->stages[0].input_shapes[0]) ||
      !bmrt_tensor(&out, runtime, info->output_dtypes[0], info->stages[0].output_shapes[0]))
    return 1;
  for (int i = 0; i < 4; ++i) {
    on = i == 3;
    const bool launched = bmrt_launch_tensor_ex(runtime, "plus", &in, 1, &out, 1, true, false);
    on = false;
    if (!launched || bm_thread_sync(handle) != BM_SUCCESS) return 1;
  }
  for (size_t i = 0; i < count; ++i) {
    Dl_info file_of;
    dladdr(calls[i].function, &file_of);
    std::printf("%d %s %#zx\n", calls[i].depth, file_of.dli_fname,
                reinterpret_cast<uintptr_t>(calls[i].function) - reinterpret_cast<uintptr_t>(file_of.dli_fbase));
  }
  bm_free_device(handle, in.device_mem);
  bm_free_device(handle, out.device_mem);
  bmrt_destroy(runtime);
  bm_dev_free(handle);
  return 0;
}
