// SPDX-License-Identifier: MIT
#include <cstring>

#include "uapi/hw/asm/assembler.h"

namespace npu::assembly {
namespace {

// Where the commands begin in a file with that many cores.
size_t commands_at(size_t cores) {
  const size_t descriptor = sizeof(npu_job) + cores * sizeof(npu_stream);
  return (descriptor + NPU_CMD_BYTES - 1) / NPU_CMD_BYTES * NPU_CMD_BYTES;
}

std::string beyond(size_t core, const char *engine) {
  return "the " + std::string(engine) + " stream of core " + std::to_string(core) +
         " does not lie inside the file; expected an offset and size in whole commands";
}

// The commands of one stream; false where they are not all in the file.
bool load(const std::vector<uint8_t> &file, size_t first, uint64_t offset, uint64_t count,
          std::vector<CommandBytes> &commands) {
  const uint64_t room = file.size() - first;
  if (offset % NPU_CMD_BYTES || offset > room || count > (room - offset) / NPU_CMD_BYTES) return false;
  commands.resize(count);
  if (count) std::memcpy(commands.data(), file.data() + first + offset, count * NPU_CMD_BYTES);
  return true;
}

}  // namespace

std::vector<uint8_t> to_file(const Program &program) {
  npu_job job{};
  job.magic = NPU_JOB_MAGIC;
  job.version = NPU_JOB_VERSION;
  job.stream_count = static_cast<uint32_t>(program.cores.size());
  const size_t first = commands_at(program.cores.size());
  std::vector<uint8_t> file(first);
  const auto append = [&](const std::vector<CommandBytes> &commands, uint64_t &offset, uint32_t &count) {
    offset = commands.empty() ? 0 : file.size() - first;
    count = static_cast<uint32_t>(commands.size());
    for (const CommandBytes &c : commands) file.insert(file.end(), c.begin(), c.end());
  };
  std::vector<npu_stream> streams(program.cores.size());
  for (size_t i = 0; i < streams.size(); ++i) {
    append(program.cores[i].tiu, streams[i].tiu_offset, streams[i].tiu_count);
    append(program.cores[i].gdma, streams[i].gdma_offset, streams[i].gdma_count);
  }
  std::memcpy(file.data(), &job, sizeof job);
  if (!streams.empty()) std::memcpy(file.data() + sizeof job, streams.data(), streams.size() * sizeof(npu_stream));
  return file;
}

std::optional<std::string> from_file(const std::vector<uint8_t> &file, Program &program) {
  program = {};
  npu_job job;
  if (file.size() < sizeof job) return "too short for a program: " + std::to_string(file.size()) + " bytes";
  std::memcpy(&job, file.data(), sizeof job);
  if (job.magic != NPU_JOB_MAGIC) return "no program: its first four bytes are not QJOB";
  if (job.version != NPU_JOB_VERSION)
    return "version " + std::to_string(job.version) + "; expected " + std::to_string(NPU_JOB_VERSION);
  if (job.stream_count > NPU_MAX_CORES)
    return std::to_string(job.stream_count) + " cores; expected at most " + std::to_string(NPU_MAX_CORES);
  const size_t first = commands_at(job.stream_count);
  if (file.size() < first) return "truncated: its list of streams is not complete";
  Program loaded;
  loaded.cores.resize(job.stream_count);
  for (size_t i = 0; i < job.stream_count; ++i) {
    npu_stream s;
    std::memcpy(&s, file.data() + sizeof job + i * sizeof s, sizeof s);
    if (!load(file, first, s.tiu_offset, s.tiu_count, loaded.cores[i].tiu)) return beyond(i, "tiu");
    if (!load(file, first, s.gdma_offset, s.gdma_count, loaded.cores[i].gdma)) return beyond(i, "gdma");
  }
  program = std::move(loaded);
  return std::nullopt;
}

}  // namespace npu::assembly
