// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/queue.h"

#include <cstddef>

namespace npu::model {

namespace {

constexpr uint64_t kQueueAlign = 64;
constexpr uint32_t kMaxPriority = 3;

bool legal_ring(uint64_t base, uint64_t log2, uint64_t entry) {
  if (log2 < 1 || log2 > kMaxRingLog2 || base % kQueueAlign) return false;
  return base <= UINT64_MAX - (entry << log2);
}

/// Whoever polls memory and sees what is written after this sees all that was written before.
void publish() {
#ifndef __SANITIZE_THREAD__  // which knows no fences
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

}  // namespace

bool QueueConfig::legal(const Config &c) const {
  return legal_ring(sq_base, sq_log2, sizeof(npu_sqe)) && legal_ring(cq_base, cq_log2, sizeof(npu_cqe)) &&
         fence_addr % kQueueAlign == 0 && asid < c.asids && priority <= kMaxPriority && core_mask != 0 &&
         core_mask >> c.cores == 0 && vector < c.vectors;
}

uint32_t Queue::status() const {
  return (enabled ? NPU_QUEUE_STATUS_ENABLED : 0) | (begun() ? NPU_QUEUE_STATUS_RUNNING : 0) |
         (error ? NPU_QUEUE_STATUS_ERROR : 0);
}

bool Queue::can_step() const {
  if (!enabled || disabling) return false;
  if (phase == Phase::Done) return !cq_full();
  return phase == Phase::Telling || (phase == Phase::Idle && !error && sq_head != sq_tail);
}

bool Queue::has_work() const {
  if (!enabled || disabling) return false;
  return can_step() || (phase != Phase::Idle && phase != Phase::Done);
}

void Queue::start() {
  enabled = true;
  disabling = error = false;
  phase = Phase::Idle;
  sq_head = sq_tail = cq_head = cq_tail = 0;
  pass = 1;
  errors = 0;
}

void Queue::power_on() {
  start();
  halt();
  config = {};
  control = listed = false;
}

void Queue::halt() {
  enabled = disabling = error = false;
  phase = Phase::Idle;
}

void Queue::advance() {
  cq_tail = (cq_tail + 1) & (cq_size() - 1);
  if (cq_tail == 0) pass ^= 1;
}

void Queue::request_stop(Stop reason) {
  Stop before = stop.load();
  while (before < reason && !stop.compare_exchange_weak(before, reason)) {
  }
}

Queue::Fetched Queue::fetch(const Board &board) {
  npu_sqe entry;
  if (!board.read(config.sq_base + uint64_t{sq_head} * sizeof entry, &entry, sizeof entry)) return Fetched::RingError;
  job = {};
  job.id = entry.job_id;
  result = {};
  cores = 0;
  interrupt = true;  // whose descriptor cannot be trusted shall know
  result.error = check_entry(entry);
  if (result.error) return Fetched::Bad;
  uint8_t descriptor[kMaxDescriptorBytes];
  if (!board.read(entry.desc_addr, descriptor, entry.desc_bytes)) {
    result.error.status = NPU_STATUS_DMA_ERROR;
    result.error.bytes = entry.desc_bytes;
    result.error.access = NPU_ACCESS_READ;
    result.error.fault_addr = entry.desc_addr;
    return Fetched::Bad;
  }
  result.error = parse_descriptor(entry, {descriptor, entry.desc_bytes}, static_cast<uint32_t>(config.core_mask),
                                  static_cast<uint32_t>(config.asid), job);
  if (result.error) return Fetched::Bad;
  interrupt = job.interrupts();
  return Fetched::Job;
}

npu_cqe Queue::completion() const {
  const Error &e = result.error;
  npu_cqe c{};
  c.job_id = job.id;
  c.offset = e.offset;
  c.fault_addr = e.fault_addr;
  c.start_cycle = result.start_cycle;
  c.end_cycle = result.start_cycle + result.cycles;
  c.bytes = e.bytes;
  c.command = e.command;
  c.region = e.region;
  c.status = e.status;
  c.engine = e.engine;
  c.core = result.core;
  c.sq_head = sq_head;
  c.phase = pass | (e.access & NPU_ACCESS_READ ? NPU_CQE_ACCESS_READ : 0) |
            (e.access & NPU_ACCESS_WRITE ? NPU_CQE_ACCESS_WRITE : 0) | cores * (NPU_CQE_CORES & -NPU_CQE_CORES);
  return c;
}

bool Queue::tell(const Board &board, unsigned part) {
  if (part == 0) return write_entry(board);
  if (part == 1) return write_fence(board);
  if (interrupt) board.interrupt(static_cast<unsigned>(config.vector));
  return true;
}

bool Queue::write_entry(const Board &board) const {
  npu_cqe c = completion();
  board.faults().corrupt(c);
  const uint64_t at = config.cq_base + uint64_t{cq_tail} * sizeof c;
  constexpr size_t kPhase = offsetof(npu_cqe, phase);
  publish();
  if (!board.write(at, &c, kPhase)) return false;
  publish();
  return board.write(at + kPhase, &c.phase, sizeof c.phase);
}

bool Queue::write_fence(const Board &board) const {
  if (!config.fence_addr) return true;
  constexpr size_t kSeqno = sizeof(npu_fence::seqno);
  npu_fence fence{};
  fence.seqno = job.id;
  fence.cycles = result.cycles;
  fence.errors = errors;
  fence.status = result.error.status;
  const uint8_t *rest = reinterpret_cast<const uint8_t *>(&fence) + kSeqno;
  if (!board.write(config.fence_addr + kSeqno, rest, sizeof fence - kSeqno)) return false;
  publish();
  return board.write(config.fence_addr, &fence.seqno, kSeqno);
}

}  // namespace npu::model
