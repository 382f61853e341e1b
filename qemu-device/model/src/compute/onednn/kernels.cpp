// SPDX-License-Identifier: MIT
// The best form of the vector loops for the host's CPU, no better than what oneDNN is held to (ONEDNN_MAX_CPU_ISA).
#include "qemu-device/model/src/compute/onednn/kernels.h"

#include <dnnl.hpp>

#include "qemu-device/model/src/compute/onednn/byte_kernels.h"
#include "qemu-device/model/src/compute/onednn/number_kernels.h"

namespace npu::model {
namespace {

/// The tables of one kind of CPU.
struct Tables {
  const Kernels *kernels;
  const NumberKernels *numbers;
  const ByteKernels *bytes;
};

Tables choose() {
#if defined(__x86_64__)
  const auto has = [](dnnl::cpu_isa isa) {
    const auto wanted = static_cast<unsigned>(isa);
    return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
  };
  if (has(dnnl::cpu_isa::avx512_core_vnni)) return {&kKernelsAvx512, &kNumberKernelsAvx512, &kByteKernelsVnni};
  if (has(dnnl::cpu_isa::avx512_core)) return {&kKernelsAvx512, &kNumberKernelsAvx512, &kByteKernelsAvx512};
  if (has(dnnl::cpu_isa::avx2)) return {&kKernelsAvx2, &kNumberKernelsAvx2, &kByteKernelsAvx2};
#endif
  return {&kKernelsBaseline, &kNumberKernelsBaseline, &kByteKernelsBaseline};
}

const Tables &tables() {
  static const Tables chosen = choose();
  return chosen;
}

}  // namespace

const Kernels &kernels() { return *tables().kernels; }
const NumberKernels &number_kernels() { return *tables().numbers; }
const ByteKernels &byte_kernels() { return *tables().bytes; }

}  // namespace npu::model
