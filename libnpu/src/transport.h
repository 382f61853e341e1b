// SPDX-License-Identifier: MIT
// How libnpu reaches a chip. A transport is a device file: open, close, ioctl, map. Requests and structures are the
// driver's own (uapi/drm/npu_accel.h): the kernel driver is one transport, the chip model in this process another.
// Nothing above this table knows which one it has.
#ifndef NPU_TRANSPORT_H
#define NPU_TRANSPORT_H

#include <npu_accel.h>

#include <cstddef>
#include <cstdint>

extern "C" {

/// Changes with every change of the table that is not an addition at its end.
constexpr uint32_t kNpuTransportAbi = 3;

/// A device file of a transport.
struct npu_transport_file;

/// What a context has besides its id.
struct npu_transport_context {
  uint32_t id;
  uint32_t sync;           ///< timeline sync object whose point N signals with job N; goes into drm_npu_job's syncs
  const void *fence_page;  ///< struct npu_fence of uapi/hw, written by the chip, read only
  uint32_t max_in_flight;
};

/// Functions return 0 or a negative errno. All may be called by any threads at once. `why` receives a sentence when
/// opening fails, since nothing else can explain that.
struct npu_transport {
  uint32_t abi;    ///< kNpuTransportAbi
  uint32_t bytes;  ///< size of the table: later fields exist if it covers them
  const char *name;

  int (*count)(char *why, size_t why_bytes);
  int (*open)(unsigned int index, npu_transport_file **file, char *why, size_t why_bytes);
  void (*close)(npu_transport_file *file);
  /// Name and version of the driver, one line.
  int (*driver)(npu_transport_file *file, int version[3], char *name, size_t name_bytes);

  /// DRM_IOCTL_NPU_* and DRM_IOCTL_GEM_CLOSE with their structures. Contexts have functions of their own.
  int (*ioctl)(npu_transport_file *file, unsigned long request, void *args);
  int (*map)(npu_transport_file *file, uint32_t handle, uint64_t mmap_offset, uint64_t size, void **ptr);
  void (*unmap)(npu_transport_file *file, uint32_t handle, void *ptr, uint64_t size);

  /// DRM_IOCTL_NPU_CTX_CREATE, a sync object, and a mapping of the fence page.
  int (*ctx_create)(npu_transport_file *file, drm_npu_ctx_create *args, npu_transport_context *context);
  void (*ctx_destroy)(npu_transport_file *file, const npu_transport_context *context);

  // Null but in front of another transport, where each flush and invalidation of map's mapping counts (strict.h).

  /// A mapping for which no calls are needed, undone by unmap.
  int (*map_uncached)(npu_transport_file *file, uint32_t handle, uint64_t mmap_offset, uint64_t size, void **ptr);
  /// For accesses through that mapping.
  int (*sync_uncached)(npu_transport_file *file, drm_npu_bo_sync *args);

  /// Optional: descriptor of the device node, for io_uring. It belongs to the file.
  int (*node)(npu_transport_file *file);

  // As map_uncached.

  /// A copy begins to write through such a mapping; sync_uncached with the same extent ends it.
  void (*begin_uncached)(npu_transport_file *file, uint32_t handle, uint64_t offset, uint64_t size);
  /// The program gets such a mapping, or gives it back.
  void (*share_uncached)(npu_transport_file *file, uint32_t handle, bool begins);
};

/// The kernel driver.
const npu_transport *npu_drm_transport();

/// The only symbol of libnpu-sim.so.
typedef const npu_transport *(*npu_transport_entry)();
#define NPU_SIM_ENTRY "npu_sim_transport"
}

#endif  // NPU_TRANSPORT_H
