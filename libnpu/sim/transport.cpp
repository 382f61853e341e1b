// SPDX-License-Identifier: MIT
// The table of libnpu-sim.so.
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>

#include "libnpu/sim/file.h"

namespace npu::sim {
namespace {

// Files that are open, for the end of the process: the model's threads must not run while destructors of static objects
// do. Both live for ever.
std::mutex &files_mutex() {
  static auto *mutex = new std::mutex;
  return *mutex;
}

std::set<File *> &files() {
  static auto *set = new std::set<File *>;
  return *set;
}

void at_exit() {
  std::lock_guard lock(files_mutex());
  // In a child process the threads of the parent's files do not exist.
  for (File *file : files()) {
    if (file->pid() != getpid()) continue;
    file->die();
  }
}

int count(char *, size_t) {
  Options options;
  // What is wrong with the options is told by who opens a card.
  return parse_options(getenv("NPU_SIM"), options).ok() ? static_cast<int>(options.cards) : 1;
}

Status open_file(unsigned int index, std::unique_ptr<File> &file) {
  Options options;
  NPU_TRY(parse_options(getenv("NPU_SIM"), options));
  if (index >= options.cards)
    return Status::error(-ENODEV,
                         "there are " + std::to_string(options.cards) + " simulated cards; NPU_SIM=cards= makes more");
  return File::open(options, index, file);
}

int open(unsigned int index, npu_transport_file **out, char *why, size_t why_bytes) {
  std::unique_ptr<File> made;
  const Status opened = open_file(index, made);
  if (!opened.ok()) {
    snprintf(why, why_bytes, "%s", opened.message().c_str());
    return opened.code();
  }
  File *const file = made.get();
  {
    std::lock_guard lock(files_mutex());
    // After the model's own libraries were loaded, so that this runs before their destructors.
    static const int registered = atexit(at_exit);
    (void)registered;
    files().insert(file);
  }
  *out = new npu_transport_file{std::move(made)};
  return 0;
}

void close(npu_transport_file *f) {
  {
    std::lock_guard lock(files_mutex());
    files().erase(f->file.get());
  }
  delete f;
}

int driver(npu_transport_file *, int version[3], char *name, size_t name_bytes) {
  version[0] = 1;
  version[1] = 0;
  version[2] = 0;
  snprintf(name, name_bytes, "sim");
  return 0;
}

int ioctl(npu_transport_file *f, unsigned long request, void *args) {
  File &file = *f->file;
  switch (request) {
    case DRM_IOCTL_NPU_DEV_QUERY:
      return file.dev_query(*static_cast<drm_npu_dev_query *>(args));
    case DRM_IOCTL_NPU_BO_CREATE:
      return file.bo_create(*static_cast<drm_npu_bo_create *>(args));
    case DRM_IOCTL_NPU_BO_INFO:
      return file.bo_info(*static_cast<drm_npu_bo_info *>(args));
    case DRM_IOCTL_NPU_BO_SYNC:
      return file.bo_sync(*static_cast<drm_npu_bo_sync *>(args));
    case DRM_IOCTL_NPU_BO_SEAL:
      return file.bo_seal(*static_cast<drm_npu_bo_seal *>(args));
    case DRM_IOCTL_NPU_BO_WAIT:
      return file.bo_wait(*static_cast<drm_npu_bo_wait *>(args));
    case DRM_IOCTL_GEM_CLOSE:
      return file.bo_close(static_cast<const drm_gem_close *>(args)->handle);
    case DRM_IOCTL_NPU_CTX_QUERY:
      return file.ctx_query(*static_cast<drm_npu_ctx_query *>(args));
    case DRM_IOCTL_NPU_SUBMIT:
      return file.submit(*static_cast<drm_npu_submit *>(args));
    case DRM_IOCTL_NPU_WAIT:
      return file.wait(*static_cast<drm_npu_wait *>(args));
    default:
      return -ENOTTY;
  }
}

int map(npu_transport_file *f, uint32_t handle, uint64_t, uint64_t size, void **ptr) {
  return f->file->bo_map(handle, size, ptr);
}
void unmap(npu_transport_file *f, uint32_t handle, void *ptr, uint64_t size) { f->file->bo_unmap(handle, ptr, size); }
int ctx_create(npu_transport_file *f, drm_npu_ctx_create *args, npu_transport_context *context) {
  return f->file->ctx_create(*args, *context);
}
void ctx_destroy(npu_transport_file *f, const npu_transport_context *context) { f->file->ctx_destroy(context->id); }

const npu_transport kTable = {
    kNpuTransportAbi, sizeof(npu_transport), "sim",   count,   open,    close,   driver,  ioctl, map, unmap,
    ctx_create,       ctx_destroy,           nullptr, nullptr, nullptr, nullptr, nullptr,
};

}  // namespace
}  // namespace npu::sim

extern "C" __attribute__((visibility("default"))) const npu_transport *npu_sim_transport() { return &npu::sim::kTable; }
