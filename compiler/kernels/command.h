// SPDX-License-Identifier: MIT
// A command of the chip while the compiler works on it: a typed struct of npu_isa.h, encoded once, when the schedule is
// done.
#ifndef NPU_COMPILER_COMMAND_H
#define NPU_COMPILER_COMMAND_H

#include <array>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <variant>

#include "npu_cost.hpp"
#include "npu_isa.hpp"

namespace npu::compiler {

/// Every command that the compiler emits.
using CommandBody =
    std::variant<npu_cmd_conv, npu_cmd_matmul, npu_cmd_pool, npu_cmd_eltwise, npu_cmd_unary, npu_cmd_softmax,
                 npu_cmd_requant, npu_cmd_lut, npu_cmd_copy, npu_cmd_fill, npu_cmd_sem_signal, npu_cmd_sem_wait>;
using CommandBytes = std::array<uint8_t, NPU_CMD_BYTES>;

/// Semaphores order what the GDMA engines of several cores do in memory; the TIU has no business with them.
template <class T>
inline constexpr bool kIsSemaphore = std::is_same_v<T, npu_cmd_sem_signal> || std::is_same_v<T, npu_cmd_sem_wait>;
template <class T>
inline constexpr bool kIsGdma = std::is_same_v<T, npu_cmd_copy> || std::is_same_v<T, npu_cmd_fill> || kIsSemaphore<T>;

/// Of a SEM_SIGNAL or SEM_WAIT: which data it is about.
struct Meeting {
  int exchange = -1, from = 0;  ///< what core `from` has written of that exchange
  uint8_t region = 0;           ///< where the exchange is in memory: bytes [low, high)
  int64_t low = 0, high = 0;
};

struct Command {
  CommandBody body;
  int src_storage = -1, dst_storage = -1;  ///< storages in memory that its region operands mean; -1: none
  bool ahead = false;                      ///< brings weights that a later command needs
  uint8_t core = 0;
  Meeting meeting = {};
  uint32_t place = kNoPlace;  ///< in the sequential program of its core, where it is from there

  static constexpr uint32_t kNoPlace = UINT32_MAX;

  bool gdma() const {
    return std::visit([](const auto &c) { return kIsGdma<std::decay_t<decltype(c)>>; }, body);
  }
  bool is_signal() const { return std::holds_alternative<npu_cmd_sem_signal>(body); }
  bool is_wait() const { return std::holds_alternative<npu_cmd_sem_wait>(body); }
  uint32_t layer() const {
    return std::visit([](const auto &c) { return c.layer; }, body);
  }
  uint32_t wait() const {
    return std::visit([](const auto &c) { return c.wait; }, body);
  }
  void set_wait(uint32_t wait) {
    std::visit([&](auto &c) { c.wait = wait; }, body);
  }
};

/// Cycles and traffic, as the chip counts them.
hw::Cost cost_of(const Command &command);
/// The same of a chip with other parameters.
hw::Cost cost_of(const Command &command, const hw::CostParams &params);
/// Cycles of a command that shares no memory bandwidth.
uint64_t duration_of(const Command &command);

/// How many multiply-accumulates of a command take the place of one of 32 bits.
uint64_t mac_rate(const Command &command);

CommandBytes encode(const Command &command);
/// nullopt for a command that the compiler does not emit.
std::optional<CommandBody> decode(const CommandBytes &bytes);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_COMMAND_H
