// SPDX-License-Identifier: MIT
// Opening, closing and asking the user-space driver.
#include "libnpu/sim/file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "libnpu/sim/deadline.h"

namespace npu::sim {
namespace {

// Device addresses of buffers. Each card has a window of its own, so that an address of one card means nothing on
// another. 0 stays invalid, and 2 MiB above it catch small offsets from a null address.
constexpr uint64_t kVaWindow = 1ull << 40;
constexpr uint64_t kVaWindows = (1ull << NPU_VA_BITS) / kVaWindow;
constexpr uint64_t kVaStart = kBlock;
constexpr uint64_t kMinTableBytes = 1 << 20;

/// Copies an answer as the query ioctl does: at most what the caller has room for, the rest of his room zero.
template <typename Answer>
int answer(drm_npu_dev_query &args, const Answer &value) {
  if (args.pointer) {
    auto *to = reinterpret_cast<uint8_t *>(static_cast<uintptr_t>(args.pointer));
    const size_t copied = std::min<size_t>(args.size, sizeof(value));
    memcpy(to, &value, copied);
    memset(to + copied, 0, args.size - copied);
  }
  args.size = sizeof(value);
  return 0;
}

}  // namespace

Status File::open(const Options &options, unsigned int index, std::unique_ptr<File> &out) {
  std::unique_ptr<File> file(new File);
  file->va_start_ = index % kVaWindows * kVaWindow + kVaStart;
  file->va_end_ = (index % kVaWindows + 1) * kVaWindow;
  NPU_TRY(Chip::create(
      options, [f = file.get()] { f->on_interrupt(); }, file->chip_));
  Lock lock(file->mutex_);
  const Status status = file->init();
  lock.unlock();
  if (status.ok()) out = std::move(file);
  return status;
}

Status File::init() {
  // The card's memory: page tables at its end, buffers in the rest.
  const uint64_t ddr = chip_->read64(NPU_REG_DDR_BYTES);
  const uint64_t tables = std::max(kMinTableBytes, page_align(ddr / 64));
  const uint32_t asids = chip_->read32(NPU_REG_ASIDS);
  card_total_ = ddr - tables;
  ddr_space_ = std::make_unique<Ranges>(0, card_total_);
  table_space_ = std::make_unique<Ranges>(card_total_, tables);
  va_space_ = std::make_unique<Ranges>(va_start_, va_end_ - va_start_);
  queue_taken_.assign(chip_->read32(NPU_REG_QUEUES), false);
  space_ = std::make_unique<AddressSpace>(chip_->ddr(), *table_space_);

  const auto asid_table = table_space_->take(page_align(asids * sizeof(npu_asid_entry)), kPage);
  if (!asid_table || !space_->init()) return Status::error(-ENOMEM, "the card's memory is too small for page tables");
  asid_table_ = *asid_table;
  npu_asid_entry entry{};
  entry.root = space_->root() | NPU_ASID_VALID;
  memcpy(chip_->ddr().data() + asid_table_ + asid_ * sizeof(entry), &entry, sizeof(entry));
  chip_->write64(NPU_REG_ASID_TABLE, asid_table_);
  chip_->invalidate(asid_, 0, 0);
  return {};
}

File::~File() {
  std::vector<uint32_t> ids;
  {
    Lock lock(mutex_);
    for (const auto &[id, context] : contexts_) ids.push_back(id);
  }
  for (uint32_t id : ids) ctx_destroy(id);
  Lock lock(mutex_);
  bos_.clear();
  lock.unlock();
  // Threads end before anything that their callbacks use.
  if (chip_) chip_->stop();
}

void File::die() {
  chip_->stop();
  Lock lock(mutex_);
  dead_ = true;
  for (const auto &[id, context] : contexts_) {
    while (!context->running.empty() || !context->pending.empty()) {
      auto &queue = context->running.empty() ? context->pending : context->running;
      const auto job = queue.front();
      queue.pop_front();
      Result gone;
      gone.error = -ENODEV;
      finish(*context, job, gone);
    }
  }
  changed_.notify_all();
}

void File::dev_info(drm_npu_dev_info &info) {
  info.chip_id = chip_->read32(NPU_REG_ID);
  info.hw_version = chip_->read32(NPU_REG_HW_VERSION);
  info.isa_version = chip_->read32(NPU_REG_ISA_VERSION);
  info.features = chip_->read32(NPU_REG_FEATURES);
  info.cores = chip_->read32(NPU_REG_CORES);
  info.queues = chip_->read32(NPU_REG_QUEUES);
  info.lmem_bytes = chip_->read32(NPU_REG_LMEM_BYTES);
  info.clock_khz = chip_->read32(NPU_REG_CLOCK_KHZ);
  info.ddr_bytes = chip_->read64(NPU_REG_DDR_BYTES);
  info.va_start = va_start_;
  info.va_end = va_end_;
  info.max_regions = NPU_MAX_REGIONS;
  info.max_jobs = kMaxInFlight;
  info.max_in_flight = kMaxInFlight;
}

void File::memory_info(drm_npu_memory_info &info) {
  info.card_total = card_total_;
  info.card_free = ddr_space_->free_bytes();
  info.card_largest = ddr_space_->largest();
  info.file_card = card_used_;
  info.file_system = system_used_;
  info.file_card_max = card_total_;
  for (const auto &[handle, bo] : bos_) info.file_largest = std::max<uint64_t>(info.file_largest, bo->size);
}

void File::status_info(drm_npu_status_info &info) {
  info.files = 1;
  info.temperature_mc = static_cast<int32_t>(chip_->read32(NPU_REG_TEMP_MC));
  info.power_mw = chip_->read32(NPU_REG_POWER_MW);
  info.voltage_mv = chip_->read32(NPU_REG_VOLTAGE_MV);
  info.clock_khz = chip_->read32(NPU_REG_CUR_CLOCK_KHZ);
  info.ecc_corrected = chip_->read32(NPU_REG_ECC_CORRECTED);
  info.ecc_uncorrected = chip_->read32(NPU_REG_ECC_UNCORRECTED);
  info.core_busy = chip_->read32(NPU_REG_CORE_BUSY);
  info.fan_rpm = chip_->read32(NPU_REG_FAN_RPM);
  info.card_ns = chip_->read64(NPU_REG_TIME_NS);
  const uint32_t cores = std::min<uint32_t>(chip_->read32(NPU_REG_CORES), DRM_NPU_MAX_CORES);
  for (uint32_t i = 0; i < cores; i++) {
    info.busy_cycles[i] = chip_->read64(NPU_CORE_REG(i, NPU_CORE_BUSY_CYCLES));
    info.jobs[i] = chip_->read64(NPU_CORE_REG(i, NPU_CORE_JOBS));
    info.busy_ns[i] = chip_->read64(NPU_BUSY_REG(i, NPU_BUSY_NS));
  }
}

void File::time_info(drm_npu_time_info &info) {
  const auto before = static_cast<uint64_t>(monotonic_ns());
  info.card_ns = chip_->read64(NPU_REG_TIME_NS);
  info.window_ns = static_cast<uint64_t>(monotonic_ns()) - before;
  info.monotonic_ns = before + info.window_ns / 2;
}

int File::dev_query(drm_npu_dev_query &args) {
  Lock lock(mutex_);
  if (dead_) return -ENODEV;
  progress();
  switch (args.type) {
    case DRM_NPU_QUERY_DEV: {
      drm_npu_dev_info info{};
      dev_info(info);
      return answer(args, info);
    }
    case DRM_NPU_QUERY_MEMORY: {
      drm_npu_memory_info info{};
      memory_info(info);
      return answer(args, info);
    }
    case DRM_NPU_QUERY_STATUS: {
      drm_npu_status_info info{};
      status_info(info);
      return answer(args, info);
    }
    case DRM_NPU_QUERY_TIME: {
      drm_npu_time_info info{};
      time_info(info);
      return answer(args, info);
    }
    case DRM_NPU_QUERY_WATCH:
      return answer(args, drm_npu_watch_info{});
    default:
      return -EINVAL;
  }
}

}  // namespace npu::sim
