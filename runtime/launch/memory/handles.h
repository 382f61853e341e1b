// SPDX-License-Identifier: MIT
// Owners of libnpu objects.
#ifndef NPURT_HANDLES_H
#define NPURT_HANDLES_H

#include <memory>

#include "npu.h"

namespace npurt {

struct BoUnref {
  void operator()(npu_bo *bo) const { npu_bo_unref(bo); }
};
using Bo = std::unique_ptr<npu_bo, BoUnref>;
using SharedBo = std::shared_ptr<npu_bo>;  ///< made with BoUnref

}  // namespace npurt

#endif  // NPURT_HANDLES_H
