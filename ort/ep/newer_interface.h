// SPDX-License-Identifier: MIT
// Functions of newer versions of ONNX Runtime's interface: from version 24 whether a tensor has a shape, from 25 events
// of providers in the trace. The structures of the interface only grow at their end, so that this stands behind what
// headers of version 23 declare.
#ifndef NPU_ORT_NEWER_INTERFACE_H
#define NPU_ORT_NEWER_INTERFACE_H

#include "ort/ep/ort_api.h"

#if ORT_API_VERSION < 24

namespace npu::ort {

struct Api24 : OrtApi {
  bool (*TensorTypeAndShape_HasShape)(const OrtTensorTypeAndShapeInfo *) = nullptr;
};
static_assert(sizeof(OrtApi) == 390 * sizeof(void *), "these are headers of version 23");

}  // namespace npu::ort

#else

namespace npu::ort {
using Api24 = OrtApi;
}  // namespace npu::ort

#endif

namespace npu::ort {
/// Null where ONNX Runtime is older. Set when the library is registered.
inline const Api24 *api24 = nullptr;
}  // namespace npu::ort

#if ORT_API_VERSION < 25

struct OrtProfilingEvent;
struct OrtProfilingEventsContainer;

enum OrtProfilingEventCategory { OrtProfilingEventCategory_KERNEL = 2, OrtProfilingEventCategory_API = 3 };

struct OrtEpProfilerImpl {
  uint32_t ort_version_supported;
  void (*Release)(OrtEpProfilerImpl *);
  /// So many nanoseconds after the beginning of the trace.
  OrtStatus *(*StartProfiling)(OrtEpProfilerImpl *, int64_t since_start_ns);
  OrtStatus *(*StartEvent)(OrtEpProfilerImpl *, uint64_t id);
  OrtStatus *(*StopEvent)(OrtEpProfilerImpl *, uint64_t id, const OrtProfilingEvent *);
  OrtStatus *(*EndProfiling)(OrtEpProfilerImpl *, OrtProfilingEventsContainer *);
};

namespace npu::ort {

struct Ep25 : OrtEp {
  void *unused[3] = {};  // of version 24 and 25: kernels, concurrent runs, Sync
  OrtStatus *(*CreateProfiler)(OrtEp *, OrtEpProfilerImpl **) = nullptr;
};
static_assert(sizeof(OrtEp) == 13 * sizeof(void *), "these are headers of version 23");

struct EpApi25 : OrtEpApi {
  void *unused[49];
  OrtStatus *(*CreateProfilingEvent)(OrtProfilingEventCategory, int32_t process, int32_t thread, const char *name,
                                     int64_t begin_us, int64_t length_us, const char *const *keys,
                                     const char *const *values, size_t count, OrtProfilingEvent **);
  void (*ReleaseProfilingEvent)(OrtProfilingEvent *);
  void *unused_getters[5];
  OrtStatus *(*ProfilingEventsContainer_AddEvents)(OrtProfilingEventsContainer *, const OrtProfilingEvent *const *,
                                                   size_t count);
};
static_assert(sizeof(OrtEpApi) == 16 * sizeof(void *), "these are headers of version 23");

}  // namespace npu::ort

#else

namespace npu::ort {
using Ep25 = OrtEp;
using EpApi25 = OrtEpApi;
}  // namespace npu::ort

#endif

#endif  // NPU_ORT_NEWER_INTERFACE_H
