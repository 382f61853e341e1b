// SPDX-License-Identifier: MIT
// Faults in words. The chip's numbers and names come from uapi/hw.
#include <npu_regs.h>

#include <cstdarg>
#include <cstdio>
#include <string>

#include "libnpu/src/chip_view.h"

namespace npu {
namespace {

std::string format(const char *format, ...) __attribute__((format(printf, 1, 2)));

std::string format(const char *format, ...) {
  char text[160];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  return text;
}

std::string where(const drm_npu_fault &f) {
  const char *engine = f.engine == NPU_ENGINE_TIU ? "TIU" : f.engine == NPU_ENGINE_GDMA ? "GDMA" : nullptr;
  if (!engine) return "job";
  return f.command == NPU_COMMAND_NONE ? format("%s stream", engine) : format("%s command %u", engine, f.command);
}

std::string memory(const drm_npu_fault &f) {
  if (f.region == NPU_REGION_LOCAL) return ", local memory";
  return f.region == NPU_REGION_NONE ? "" : format(", region %u", f.region);
}

std::string range(const drm_npu_fault &f) {
  return format(", offset %#llx size %#x", static_cast<unsigned long long>(f.offset), f.bytes);
}

std::string address(const drm_npu_fault &f) {
  const char *kind = f.access & DRM_NPU_REGION_WRITE  ? "write to"
                     : f.access & DRM_NPU_REGION_READ ? "read from"
                                                      : "access to";
  return format(", %s device address %#llx", kind, static_cast<unsigned long long>(f.fault_addr));
}

std::string byte(const drm_npu_fault &f) { return format(", byte %llu", static_cast<unsigned long long>(f.offset)); }

/// The cause of an abort, and the next step.
std::string cause(const drm_npu_fault &f) {
  static const char kDump[] = "; npu-dump, or npu-dump --commands, shows what it was doing";
  switch (f.cause) {
    case DRM_NPU_CAUSE_STALL:
      return std::string(" by the driver, which saw no progress") + kDump;
    case DRM_NPU_CAUSE_LIMIT:
      return std::string(" by the driver: it ran for longer than the limit (module parameter job_limit_ms)") + kDump;

    case DRM_NPU_CAUSE_RESET:
      return " by a reset of the device that was asked for (npu-smi --reset, or the bus's reset in sysfs): launch "
             "again";
    case DRM_NPU_CAUSE_RECOVERY:
      return " by the driver, while it recovered the device from another failure (see the kernel's log): launch again";
    case DRM_NPU_CAUSE_BUS:
      return " by a failure of the device's bus (see the kernel's log): launch again";
    case DRM_NPU_CAUSE_SLEEP:
      return ": the system went to sleep before the job ended: launch again";
    case DRM_NPU_CAUSE_DESTROYED:
      return ": its context was destroyed";
    case DRM_NPU_CAUSE_LOST:
      return ": the device is gone";
    default:
      return "";
  }
}

std::string reason(const drm_npu_fault &f) {
  const bool of_command = f.command != NPU_COMMAND_NONE;
  switch (f.status) {
    case NPU_STATUS_OK:
      return "no fault";
    case NPU_STATUS_BAD_DESCRIPTOR:
      return byte(f) + " of the descriptor: malformed";
    case NPU_STATUS_BAD_OPCODE:
      return ": opcode or sub-operation unknown to this engine";
    case NPU_STATUS_RESERVED_BITS:
      return byte(f) + ": a reserved bit is not zero";
    case NPU_STATUS_BAD_FIELD:
      return byte(f) + ": illegal value of a field";
    case NPU_STATUS_REGION_BOUNDS:
      return memory(f) + range(f) + " beyond the region";
    case NPU_STATUS_REGION_ACCESS:
      return memory(f) + ": no such region, or the access is not allowed";
    case NPU_STATUS_LMEM_BOUNDS:
      return memory(f) + range(f) + " beyond local memory";
    case NPU_STATUS_PAGE_FAULT:
      return memory(f) + address(f) + ": not mapped";
    case NPU_STATUS_PAGE_ACCESS:
      return memory(f) + address(f) + ": the page is read-only or sealed";
    case NPU_STATUS_DMA_ERROR:
      return memory(f) + address(f) + ": bus error";
    case NPU_STATUS_DEADLOCK:
      return ": deadlock, all engines of the job wait for each other";
    case NPU_STATUS_BUDGET:
      return ": more modelled cycles than the job's budget";
    case NPU_STATUS_ABORTED:
      return ": aborted" + cause(f);
    case NPU_STATUS_CORE_RESET:
      return format(": core %u was reset", f.core) + cause(f);
    case NPU_STATUS_ECC:
      return memory(f) + ": uncorrectable memory error";
    case NPU_STATUS_UNALIGNED:
      return memory(f) + range(f) + (of_command ? ": not aligned to the element" : ": not aligned");
    case NPU_STATUS_INDEX_BOUNDS:
      return memory(f) + format(", index %llu is out of range", static_cast<unsigned long long>(f.offset));
    case NPU_STATUS_INTERNAL:
      return ": the chip contradicts itself";
    default:
      return format(": unknown status %u", f.status);
  }
}

}  // namespace

int fault_text(const drm_npu_fault &fault, char *text, size_t bytes) {
  if (fault.status == NPU_STATUS_OK) return snprintf(text, bytes, "no fault");
  return snprintf(text, bytes, "%s%s", where(fault).c_str(), reason(fault).c_str());
}

}  // namespace npu
