// SPDX-License-Identifier: MIT
// From a model's file to the card: through its mapping, or, where that is faster, by reading ahead with io_uring.
#ifndef NPURT_UPLOAD_H
#define NPURT_UPLOAD_H

#include <cstdint>
#include <span>

#include "npu.h"
#include "runtime/bmodel/container.h"
#include "runtime/launch/error.h"

namespace npurt {

/// Writes `bytes`, which may be in the mapping of `file`, to `to` from `offset` on. Which way is faster depends on
/// disks, page caches and virtual machines: large parts of files are begun both ways, by the clock.
/// NPU_LOAD=mapping|uring decides otherwise.
Status upload(npu_bo *to, uint64_t offset, std::span<const uint8_t> bytes, const npu::bmodel::MappedFile &file);

}  // namespace npurt

#endif  // NPURT_UPLOAD_H
