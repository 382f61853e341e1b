// SPDX-License-Identifier: MIT
// Constant memory of networks, shared by content: the same coefficients or commands are on a card once in a process,
// however many runtimes, networks and stages use them.
#ifndef NPURT_SEALED_H
#define NPURT_SEALED_H

#include <cstdint>
#include <memory>
#include <span>

#include "runtime/bmodel/container.h"
#include "runtime/launch/error.h"
#include "runtime/launch/memory/handles.h"

namespace npurt {

/// A sealed buffer; the last user frees it.
using Sealed = std::shared_ptr<npu_bo>;

/// The buffer with these bytes: one that is there already, else a new one. `what` begins the message of a failure.
/// Threads that bring the same bytes at once get the same buffer.
/// `file` may have them.
Status seal(npu_device *device, const char *what, std::span<const uint8_t> bytes, Sealed &out,
            const npu::bmodel::MappedFile &file = {});

}  // namespace npurt

#endif  // NPURT_SEALED_H
