// SPDX-License-Identifier: MIT
#include "compiler/lowering/chip_types.h"

#include "npu_isa.h"

namespace npu::compiler {
namespace {

constexpr uint8_t kNone = 0xff;

}  // namespace

uint8_t chip_type(graph::Dtype type) {
  using graph::Dtype;
  switch (type) {
    case Dtype::F32:
      return NPU_DTYPE_F32;
    case Dtype::F16:
      return NPU_DTYPE_F16;
    case Dtype::BF16:
      return NPU_DTYPE_BF16;
    case Dtype::I8:
      return NPU_DTYPE_S8;
    case Dtype::U8:
    case Dtype::Bool:
      return NPU_DTYPE_U8;
    case Dtype::I16:
      return NPU_DTYPE_S16;
    case Dtype::U16:
      return NPU_DTYPE_U16;
    case Dtype::I32:
      return NPU_DTYPE_S32;
    case Dtype::U32:
      return NPU_DTYPE_U32;
    case Dtype::I64:
    case Dtype::U64:
    case Dtype::F64:
      return NPU_DTYPE_S64;
    case Dtype::Undefined:
    case Dtype::String:
      break;
  }
  return kNone;
}

bool has_chip_type(graph::Dtype type) { return chip_type(type) != kNone; }

}  // namespace npu::compiler
