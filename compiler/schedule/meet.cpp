// SPDX-License-Identifier: MIT
#include "compiler/schedule/meet.h"

#include <map>
#include <set>

namespace npu::compiler {
namespace {

/// The exchange that a storage is; -1: none.
int exchange_of(const Lowered &core, int storage) {
  if (storage < 0 || static_cast<size_t>(storage) >= core.storages.size()) return -1;
  const Storage &s = core.storages[static_cast<size_t>(storage)];
  return s.kind == StorageKind::Exchange ? s.index : -1;
}

template <class T>
Command semaphore(int exchange, size_t from, uint32_t layer) {
  auto body = hw::make<T>();
  body.layer = layer;
  Command c{body};
  c.meeting.exchange = exchange;
  c.meeting.from = static_cast<int>(from);
  return c;
}

}  // namespace

Status meet(const std::vector<Lowered> &cores, std::vector<std::vector<Command>> commands, std::vector<Command> &out) {
  std::vector<std::map<int, size_t>> last_write(cores.size());  // of each exchange
  std::map<int, std::set<size_t>> writers;
  for (size_t core = 0; core < cores.size(); ++core)
    for (size_t i = 0; i < commands[core].size(); ++i)
      if (const int e = exchange_of(cores[core], commands[core][i].dst_storage); e >= 0) {
        last_write[core][e] = i;
        writers[e].insert(core);
      }
  for (size_t core = 0; core < cores.size(); ++core) {
    std::set<int> known;
    const auto push = [&](Command c) {
      c.core = static_cast<uint8_t>(core);
      out.push_back(std::move(c));
    };
    for (size_t i = 0; i < commands[core].size(); ++i) {
      const uint32_t layer = commands[core][i].layer();
      const int read = exchange_of(cores[core], commands[core][i].src_storage);
      const int written = exchange_of(cores[core], commands[core][i].dst_storage);
      if (read >= 0 && !writers.count(read))
        return Status::error("core " + std::to_string(core) + " reads exchange " + std::to_string(read) +
                             ", which nobody writes");
      if (read >= 0 && known.insert(read).second)
        for (size_t from : writers[read])
          if (from != core) push(semaphore<npu_cmd_sem_wait>(read, from, layer));
      push(std::move(commands[core][i]));
      if (written >= 0 && last_write[core][written] == i) push(semaphore<npu_cmd_sem_signal>(written, core, layer));
    }
  }
  return {};
}

}  // namespace npu::compiler
