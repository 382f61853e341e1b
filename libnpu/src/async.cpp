// SPDX-License-Identifier: MIT
// The calls of npu.h's asynchronous side.
#include "libnpu/src/async.h"

#include <cerrno>
#include <new>

#include "libnpu/src/internal.h"

struct npu_async {
  std::shared_ptr<npu::AsyncQueue> queue;
};

namespace {

constexpr char kParents[] = "the npu_async belongs to the process that this one was forked from";

/// What is about memory must not pass as an exception.
template <typename Call>
int without_exceptions(const char *caller, Call call) {
  try {
    return call();
  } catch (const std::bad_alloc &) {
    return npu::fail(-ENOMEM, "%s: not enough memory", caller);
  }
}

int create(npu_device *device, uint32_t how, npu_async **async) {
  auto queue = std::make_shared<npu::AsyncQueue>(device);
  if (int err = queue->open(how)) return err;
  *async = new npu_async{std::move(queue)};
  return 0;
}

}  // namespace

int npu_async_create(npu_device *device, uint32_t how, npu_async **async) {
  if (async) *async = nullptr;
  if (!device || !async) return npu::fail(-EINVAL, "npu_async_create: no device or no place for the queue");
  if (how > NPU_ASYNC_THREADS) return npu::fail(-EINVAL, "npu_async_create: how is %u, expected NPU_ASYNC_", how);
  return without_exceptions("npu_async_create", [&] { return create(device, how, async); });
}

void npu_async_destroy(npu_async *async) {
  // The parent's threads and its ring are not this process'.
  if (!async || async->queue->is_of_parent()) return;
  async->queue->close();
  delete async;
}

const char *npu_async_backend(const npu_async *async) { return async->queue->backend(); }

int npu_async_submit(npu_async *async, npu_context *context, const struct npu_job_desc *jobs, unsigned int count,
                     npu_async_fn fn, void *arg) {
  if (!async || !context || !jobs || !count)
    return npu::fail(-EINVAL, "npu_async_submit: no queue, no context or no jobs");
  if (context->device != async->queue->device())
    return npu::fail(-EINVAL, "npu_async_submit: a context of another device than the queue's");
  if (async->queue->is_of_parent()) return npu::fail(-EINVAL, "npu_async_submit: %s", kParents);
  return without_exceptions("npu_async_submit", [&] { return async->queue->submit(context, jobs, count, fn, arg); });
}

int npu_async_process(npu_async *async, unsigned int max, int64_t timeout_ns) {
  if (!async) return npu::fail(-EINVAL, "npu_async_process: no queue");
  if (async->queue->is_of_parent()) return npu::fail(-EINVAL, "npu_async_process: %s", kParents);
  // A callback may destroy the queue.
  const std::shared_ptr<npu::AsyncQueue> queue = async->queue;
  return without_exceptions("npu_async_process", [&] { return queue->process(max, timeout_ns); });
}

uint64_t npu_async_unfinished(const npu_async *async) { return async->queue->unfinished(); }

int npu_async_fd(const npu_async *async) { return async->queue->event(); }
