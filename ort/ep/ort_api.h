// SPDX-License-Identifier: MIT
// ONNX Runtime's interface as the plug-in sees it. Inside, errors are npu::Status, or exceptions of the C++ wrappers;
// guarded() makes both what ONNX Runtime expects, and nothing throws across its functions.
#ifndef NPU_ORT_API_H
#define NPU_ORT_API_H

#define ORT_API_MANUAL_INIT
#include <onnxruntime_cxx_api.h>
#undef ORT_API_MANUAL_INIT

#include <new>
#include <string>

#include "common/status.h"

namespace npu::ort {

/// The version of the plug-in interface that this is written for: later versions of ONNX Runtime support it, whatever
/// the headers are that it is compiled with.
inline constexpr uint32_t kAbi = 23;
/// The first version that gives the node which a body belongs to.
inline constexpr uint32_t kAbiParents = 24;
/// The first version in which a provider adds events to the trace, which is used where there is one.
inline constexpr uint32_t kAbiProfiler = 25;
/// Before this version the parts of two graphs of a model may get the same name, and then the session is not made.
inline constexpr uint32_t kAbiUniqueNames = 26;
/// Before this version a part does not get the tensors that only the bodies of its nodes read.
inline constexpr uint32_t kAbiCaptures = 28;

inline constexpr const char *kProviderName = "QNPUExecutionProvider";
inline constexpr const char *kVendor = "QNPU";
/// What ONNX Runtime puts in front of the provider's own options.
inline constexpr const char *kOptionPrefix = "ep.qnpuexecutionprovider.";

inline const OrtEpApi &ep_api() { return *Ort::GetApi().GetEpApi(); }

/// A status of ours for one of ONNX Runtime's, which is released.
inline Status take(OrtStatus *status) {
  if (!status) return {};
  const Ort::Status owned{status};
  return Status::error(owned.GetErrorMessage());
}

inline OrtStatus *to_ort(const Status &status, OrtErrorCode code = ORT_EP_FAIL) {
  return status.ok() ? nullptr : Ort::GetApi().CreateStatus(code, ("QNPU: " + status.message()).c_str());
}

template <class F>
OrtStatus *guarded(F f) noexcept {
  try {
    return to_ort(f());
  } catch (const Ort::Exception &e) {
    return Ort::GetApi().CreateStatus(e.GetOrtErrorCode(), e.what());
  } catch (const std::bad_alloc &) {
    return Ort::GetApi().CreateStatus(ORT_EP_FAIL, "QNPU: not enough memory");
  } catch (const std::exception &e) {
    return Ort::GetApi().CreateStatus(ORT_EP_FAIL, e.what());
  }
}

}  // namespace npu::ort

#endif  // NPU_ORT_API_H
