// SPDX-License-Identifier: MIT
#include "compiler/kernels/command.h"

#include <cstring>

namespace npu::compiler {
namespace {

/// The alternative of the body that has an opcode.
template <size_t i = 0>
std::optional<CommandBody> decode_as(const CommandBytes &bytes) {
  if constexpr (i == std::variant_size_v<CommandBody>) {
    return std::nullopt;
  } else {
    using T = std::variant_alternative_t<i, CommandBody>;
    static_assert(sizeof(T) <= NPU_CMD_BYTES);
    return bytes[0] == hw::make<T>().opcode ? hw::decode<T>(bytes.data()) : decode_as<i + 1>(bytes);
  }
}

}  // namespace

hw::Cost cost_of(const Command &command) { return cost_of(command, {}); }

hw::Cost cost_of(const Command &command, const hw::CostParams &params) {
  return std::visit(
      [&](const auto &c) {
        if constexpr (kIsSemaphore<std::decay_t<decltype(c)>>)
          return hw::Cost{params.gdma_fixed, 0, 0, true};
        else
          return hw::cost_detail::cost(c, params);
      },
      command.body);
}

uint64_t duration_of(const Command &command) { return hw::uncontended(cost_of(command), {}); }

uint64_t mac_rate(const Command &command) {
  return std::visit(
      [](const auto &c) -> uint64_t {
        using T = std::decay_t<decltype(c)>;
        if constexpr (std::is_same_v<T, npu_cmd_conv> || std::is_same_v<T, npu_cmd_matmul>)
          return hw::CostParams{}.rate(c.in_dtype);
        return 1;
      },
      command.body);
}

CommandBytes encode(const Command &command) {
  CommandBytes bytes{};
  std::visit([&](const auto &c) { std::memcpy(bytes.data(), &c, sizeof c); }, command.body);
  return bytes;
}

std::optional<CommandBody> decode(const CommandBytes &bytes) { return decode_as(bytes); }

}  // namespace npu::compiler
