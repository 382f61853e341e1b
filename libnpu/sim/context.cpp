// SPDX-License-Identifier: MIT
// Contexts of the user-space driver: creating, destroying, asking, waiting.
#include <linux/capability.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "libnpu/sim/deadline.h"
#include "libnpu/sim/file.h"

namespace npu::sim {
namespace {

bool may_raise_priority() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  return syscall(SYS_capget, &header, data) == 0 && data[0].effective & 1u << CAP_SYS_NICE;
}

}  // namespace

std::shared_ptr<Context> File::find_context(uint32_t id) const {
  const auto it = contexts_.find(id);
  return it == contexts_.end() ? nullptr : it->second;
}

int File::init_context(Context &context, const drm_npu_ctx_create &args) {
  const uint32_t all = (1u << chip_->read32(NPU_REG_CORES)) - 1;
  if (args.core_mask & ~all) return -EINVAL;
  const auto free = std::find(queue_taken_.begin(), queue_taken_.end(), false);
  if (free == queue_taken_.end()) return -ENOSPC;
  context.memory = Memory::create("npu-queue", page_align(sizeof(Ring)));
  if (!context.memory) return -ENOMEM;
  context.fence_page = context.memory->map(0, kPage, false);
  if (!context.fence_page) return -ENOMEM;
  context.bus = chip_->bus().attach(context.memory->data(), context.memory->bytes());
  if (!context.bus) return -ENOMEM;

  context.queue = static_cast<uint32_t>(free - queue_taken_.begin());
  context.core_mask = args.core_mask ? args.core_mask : all;
  const auto reg = [&](uint32_t r) { return NPU_QUEUE_REG(context.queue, r); };
  chip_->write64(reg(NPU_QUEUE_SQ_BASE), context.bus + offsetof(Ring, sq));
  chip_->write64(reg(NPU_QUEUE_CQ_BASE), context.bus + offsetof(Ring, cq));
  chip_->write64(reg(NPU_QUEUE_FENCE_ADDR), context.bus + offsetof(Ring, fence));
  chip_->write32(reg(NPU_QUEUE_SQ_LOG2), kRingLog2);
  chip_->write32(reg(NPU_QUEUE_CQ_LOG2), kRingLog2);
  chip_->write32(reg(NPU_QUEUE_ASID), asid_);
  chip_->write32(reg(NPU_QUEUE_PRIORITY), args.priority);
  chip_->write32(reg(NPU_QUEUE_CORE_MASK), context.core_mask);
  chip_->write32(reg(NPU_QUEUE_VECTOR), 1 + context.queue % (chip_->read32(NPU_REG_VECTORS) - 1));
  chip_->write32(reg(NPU_QUEUE_CTRL), NPU_QUEUE_CTRL_ENABLE);
  if (chip_->read32(reg(NPU_QUEUE_STATUS)) & NPU_QUEUE_STATUS_ERROR) {
    chip_->write32(reg(NPU_QUEUE_CTRL), 0);
    return -EIO;
  }
  *free = true;
  return 0;
}

void File::release_context(Context &context) {
  if (context.bus) chip_->bus().detach(context.bus);
  if (context.fence_page) munmap(const_cast<void *>(context.fence_page), kPage);
  context.memory.reset();
}

int File::ctx_create(drm_npu_ctx_create &args, npu_transport_context &out) {
  if (args.flags || args.priority > DRM_NPU_PRIORITY_REALTIME) return -EINVAL;
  if (args.priority > DRM_NPU_PRIORITY_NORMAL && !may_raise_priority()) return -EACCES;
  Lock lock(mutex_);
  if (dead_) return -ENODEV;
  auto context = std::make_shared<Context>();
  if (int err = init_context(*context, args)) {
    release_context(*context);
    return err;
  }
  while (contexts_.count(next_context_) || !next_context_) next_context_++;
  context->id = args.ctx_id = next_context_++;
  args.fence_offset = 0;
  out = {args.ctx_id, args.ctx_id, context->fence_page, kMaxInFlight};
  contexts_[args.ctx_id] = std::move(context);
  return 0;
}

int File::ctx_destroy(uint32_t id) {
  Lock lock(mutex_);
  const auto context = find_context(id);
  if (!context || context->closing) return -ENOENT;
  context->closing = true;
  changed_.notify_all();
  const auto reg = [&](uint32_t r) { return NPU_QUEUE_REG(context->queue, r); };
  if (!dead_) chip_->write32(reg(NPU_QUEUE_CTRL), 0);
  // The chip may need a bounded while to stop a long command; others go on meanwhile.
  while (!dead_ && chip_->read32(reg(NPU_QUEUE_STATUS))) {
    lock.unlock();
    sched_yield();
    lock.lock();
  }
  if (!dead_) take_completions(*context);
  while (!context->running.empty() || !context->pending.empty()) {
    auto &queue = context->running.empty() ? context->pending : context->running;
    const auto job = queue.front();
    queue.pop_front();
    Result cancelled;
    cancelled.error = -ECANCELED;
    finish(*context, job, cancelled);
  }
  contexts_.erase(id);
  queue_taken_[context->queue] = false;
  release_context(*context);
  progress();
  return 0;
}

int File::ctx_query(drm_npu_ctx_query &args) {
  if (args.pad) return -EINVAL;
  Lock lock(mutex_);
  const auto context = find_context(args.ctx_id);
  if (!context) return -ENOENT;
  progress();
  args.submitted = context->submitted;
  args.completed = context->completed;
  args.errors = context->errors;
  args.victims = context->victims;
  args.fault = context->fault;
  return 0;
}

int File::wait(drm_npu_wait &args) {
  if (args.pad) return -EINVAL;
  Lock lock(mutex_);
  const auto context = find_context(args.ctx_id);
  if (!context) return -ENOENT;
  if (!args.seqno || args.seqno > context->submitted) return -EINVAL;
  for (;;) {
    progress();
    if (context->completed >= args.seqno) break;
    if (!wait_until(changed_, lock, args.timeout_ns)) return -ETIME;
  }
  args.cycles = 0;
  args.error = 0;
  args.known = 0;
  args.fault = {};
  if (const Result *result = context->result(args.seqno)) {
    args.cycles = result->cycles;
    args.error = result->error;
    args.known = 1;
    args.fault = result->fault;
  }
  return 0;
}

}  // namespace npu::sim
