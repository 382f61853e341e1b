// SPDX-License-Identifier: MIT
// The language of fuzz_chip's inputs: a first byte chooses the back end, then operations follow, each an Op and its
// operands. Bytes that run out read as zero, so that every input means something.
#ifndef NPU_FUZZ_CHIP_OPS_H
#define NPU_FUZZ_CHIP_OPS_H

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "npu_isa.hpp"

namespace npu::fuzz {

enum class Op : uint8_t {
  WriteRegister,  ///< u8 place in the list of registers, u8 block, u64
  WriteAny,       ///< u32 offset, u64, u8 size
  ReadAny,        ///< u32 offset, u8 size
  Entry,          ///< u16 word of the tables, u64: a page-table or ASID entry
  Map,            ///< u16 page, u16 target page, u8 flags: a leaf that means something
  Card,           ///< u32 offset, u8 n, n bytes: card memory
  System,         ///< u32 offset, u8 n, n bytes: system memory (rings, descriptors, fences)
  Command,        ///< u8 stream, u8 slot, u8 template, u8 n, n times {u8 field, u64 value}
  Submit,         ///< u8 queue, u8 tiu count, u8 gdma count, u8 streams, u8 flags, u8 n, n times {u8 byte, u8 value}
  Enable,         ///< u8 queue, u8 asid, u8 vector
  Disable,        ///< u8 queue
  Invalidate,     ///< u8 asid, u16 page, u16 pages
  Abort,          ///< u8 queue, u8 job
  Reset,          ///< u8: 0 device, 1 bus, else the mask of a core reset; then the driver's bring-up
  Fault,          ///< u8 fault, u16 value
  Wait,           ///< u8 queue: until it has nothing to do or has had its chance
  kCount
};

inline constexpr unsigned kQueues = 4, kStreams = 4, kSlots = 32;
/// Commands that are legal as they are: one of each that is executed, and a second COPY.
inline constexpr unsigned kTemplates =
    1 + static_cast<unsigned>(std::count_if(std::begin(hw::kCommands), std::end(hw::kCommands),
                                            [](const hw::Command &c) { return !c.reserved; }));

}  // namespace npu::fuzz

#endif  // NPU_FUZZ_CHIP_OPS_H
