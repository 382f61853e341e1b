// SPDX-License-Identifier: MIT
// A program that takes the headers as some do: inside an extern "C" of its own, beside headers that define DECL_EXPORT
// again, with declarations of its own that are weak. It compiles without a warning and links.
#include <cstdio>

extern "C" {
#include "bmlib_runtime.h"
#include "bmruntime_interface.h"
#include "bmruntime_legacy.h"
}

#define DECL_EXPORT
#define DECL_IMPORT

#include "bmruntime_cpp.h"

namespace engine {

extern "C" {
bm_status_t bm_get_vpu_instant_usage(bm_handle_t handle, int *vpu_usage) __attribute__((weak));
}

DECL_EXPORT int usage(bm_handle_t handle) {
  int percent[5] = {};
  return bm_get_vpu_instant_usage && bm_get_vpu_instant_usage(handle, percent) == BM_SUCCESS ? percent[0] : -1;
}

}  // namespace engine

int main() {
  bm_handle_t handle;
  bm_device_mem_t mem;
  void *pointer = NULL;
  if (bm_dev_request(&handle, 0) != BM_SUCCESS) return 1;
  void *runtimes[] = {create_bmruntime(&handle, "QNPU1"), create_bmruntime(NULL, "QNPU1", 0),
                      create_bmruntime_per_device(&handle, "QNPU1", 0)};
  if (bmrt_malloc_device_byte(runtimes[0], &mem, 64) != BM_SUCCESS) return 1;
  if (bm_mem_mmap_device_mem(handle, &mem, reinterpret_cast<uint64_t *>(&pointer)) != BM_SUCCESS) return 1;
  std::printf("%p %d\n", pointer, engine::usage(handle));
  bm_mem_unmap_device_mem(handle, pointer, 64);
  bmrt_free_device(runtimes[0], mem);
  for (void *runtime : runtimes) destroy_bmruntime(runtime);
  bm_dev_free(handle);
  return 0;
}
