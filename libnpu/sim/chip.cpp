// SPDX-License-Identifier: MIT
#include "libnpu/sim/chip.h"

#include <npu_regs.h>
#include <sched.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace npu::sim {

Status Chip::create(const Options &options, std::function<void()> on_interrupt, std::unique_ptr<Chip> &out) {
  std::unique_ptr<Chip> chip(new Chip);
  chip->ddr_ = Memory::create("npu-ddr", options.ddr_bytes);
  if (!chip->ddr_) {
    return Status::error(-ENOMEM,
                         "the system has no room for a card with " + std::to_string(options.ddr_bytes >> 20) + " MiB");
  }
  chip->board_.dma_read = dma_read;
  chip->board_.dma_write = dma_write;
  chip->board_.interrupt = interrupt;
  if (options.check_races) chip->board_.trace = trace;

  npu_model_config config{};
  config.abi = NPU_MODEL_ABI;
  config.cores = options.cores;
  config.queues = options.queues;
  config.lmem_bytes = options.lmem_bytes;
  config.ddr_bytes = options.ddr_bytes;
  config.ddr = chip->ddr_->data();
  config.backend = options.backend.c_str();
  config.board = &chip->board_;
  config.opaque = chip.get();
  char text[256] = "";
  int error = -EINVAL;
  chip->model_ = npu_model_create(&config, &error, text, sizeof(text));
  if (!chip->model_) return Status::error(error, text);
  npu_model_check_races(chip->model_, options.check_races);
  chip->start_threads(std::move(on_interrupt));
  chip->write32(NPU_REG_CTRL, NPU_CTRL_ENABLE);
  out = std::move(chip);
  return {};
}

Chip::~Chip() {
  stop();
  if (model_) npu_model_destroy(model_);
}

void Chip::start_threads(std::function<void()> on_interrupt) {
  std::lock_guard stop(stop_mutex_);
  for (unsigned i = 0; i < npu_model_thread_count(model_); i++)
    threads_.emplace_back([this, i] { npu_model_thread_main(model_, i); });
  threads_.emplace_back([this, handler = std::move(on_interrupt)] {
    std::unique_lock lock(irq_mutex_);
    while (!irq_stop_) {
      if (!std::exchange(irq_pending_, false)) {
        irq_wake_.wait(lock);
        continue;
      }
      lock.unlock();
      handler();
      lock.lock();
    }
  });
}

void Chip::stop() {
  std::lock_guard stop(stop_mutex_);
  if (threads_.empty()) return;
  stopped_ = true;
  npu_model_stop(model_);
  {
    std::lock_guard lock(irq_mutex_);
    irq_stop_ = true;
    irq_wake_.notify_all();
  }
  for (std::thread &thread : threads_) thread.join();
  threads_.clear();
}

void Chip::invalidate(uint32_t asid, uint64_t va, uint64_t bytes) {
  write64(NPU_REG_INV_ADDR, va);
  write64(NPU_REG_INV_BYTES, bytes);
  write32(NPU_REG_INV_ASID, asid);
  const uint32_t ticket = read32(NPU_REG_INV_ISSUED);
  while (static_cast<int32_t>(read32(NPU_REG_INV_DONE) - ticket) < 0 && !stopped_) sched_yield();
}

int Chip::dma_read(void *opaque, uint64_t address, void *to, size_t bytes) {
  return static_cast<Chip *>(opaque)->bus_.read(address, to, bytes);
}

int Chip::dma_write(void *opaque, uint64_t address, const void *from, size_t bytes) {
  return static_cast<Chip *>(opaque)->bus_.write(address, from, bytes);
}

void Chip::interrupt(void *opaque, unsigned int) {
  auto *chip = static_cast<Chip *>(opaque);
  std::lock_guard lock(chip->irq_mutex_);
  chip->irq_pending_ = true;
  chip->irq_wake_.notify_one();
}

/// For who asked for a check: what it found.
void Chip::trace(void *, const char *kind, const char *text) {
  if (std::strcmp(kind, "race") == 0) std::fprintf(stderr, "npu: race: %s\n", text);
}

}  // namespace npu::sim
