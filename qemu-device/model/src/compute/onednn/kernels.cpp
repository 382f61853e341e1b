// SPDX-License-Identifier: MIT
// The best form of the vector loops for the host's CPU.
#include "qemu-device/model/src/compute/onednn/kernels.h"

namespace npu::model {
namespace {

const Kernels &choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    return kKernelsAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kKernelsAvx2;
#endif
  return kKernelsBaseline;
}

}  // namespace

const Kernels &kernels() {
  static const Kernels &chosen = choose();
  return chosen;
}

}  // namespace npu::model
