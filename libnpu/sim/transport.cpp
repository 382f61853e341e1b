// SPDX-License-Identifier: MIT
// The table of libnpu-sim.so.
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>

#include "file.h"

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
  std::string why;
  // What is wrong with the options is told by who opens a card.
  return parse_options(getenv("NPU_SIM"), options, why) ? static_cast<int>(options.cards) : 1;
}

int open(unsigned int index, npu_transport_file **out, char *why, size_t why_bytes) {
  Options options;
  std::string text;
  int error = -EINVAL;
  File *file = nullptr;
  if (parse_options(getenv("NPU_SIM"), options, text)) {
    if (index >= options.cards) {
      snprintf(why, why_bytes, "there are %u simulated cards; NPU_SIM=cards= makes more", options.cards);
      return -ENODEV;
    }
    file = File::open(options, &error, text);
  }
  if (!file) {
    snprintf(why, why_bytes, "%s", text.c_str());
    return error;
  }
  {
    std::lock_guard lock(files_mutex());
    // After the model's own libraries were loaded, so that this runs before their destructors.
    static const int registered = atexit(at_exit);
    (void)registered;
    files().insert(file);
  }
  *out = new npu_transport_file{std::unique_ptr<File>(file)};
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

int dev_query(npu_transport_file *f, drm_npu_dev_query *args) { return f->file->dev_query(*args); }
int bo_create(npu_transport_file *f, drm_npu_bo_create *args) { return f->file->bo_create(*args); }
int bo_close(npu_transport_file *f, uint32_t handle) { return f->file->bo_close(handle); }
int bo_info(npu_transport_file *f, drm_npu_bo_info *args) { return f->file->bo_info(*args); }
int bo_map(npu_transport_file *f, uint32_t handle, uint64_t, uint64_t size, void **ptr) {
  return f->file->bo_map(handle, size, ptr);
}
void bo_unmap(npu_transport_file *f, uint32_t handle, void *ptr, uint64_t size) {
  f->file->bo_unmap(handle, ptr, size);
}
int bo_sync(npu_transport_file *f, drm_npu_bo_sync *args) { return f->file->bo_sync(*args); }
int bo_seal(npu_transport_file *f, drm_npu_bo_seal *args) { return f->file->bo_seal(*args); }
int bo_wait(npu_transport_file *f, drm_npu_bo_wait *args) { return f->file->bo_wait(*args); }
int ctx_create(npu_transport_file *f, drm_npu_ctx_create *args, npu_transport_context *context) {
  return f->file->ctx_create(*args, *context);
}
void ctx_destroy(npu_transport_file *f, const npu_transport_context *context) { f->file->ctx_destroy(context->id); }
int ctx_query(npu_transport_file *f, drm_npu_ctx_query *args) { return f->file->ctx_query(*args); }
int submit(npu_transport_file *f, drm_npu_submit *args) { return f->file->submit(*args); }
int wait(npu_transport_file *f, drm_npu_wait *args) { return f->file->wait(*args); }

const npu_transport kTable = {
    kNpuTransportAbi,
    sizeof(npu_transport),
    "sim",
    count,
    open,
    close,
    driver,
    dev_query,
    bo_create,
    bo_close,
    bo_info,
    bo_map,
    bo_unmap,
    bo_sync,
    bo_seal,
    bo_wait,
    ctx_create,
    ctx_destroy,
    ctx_query,
    submit,
    wait,
    nullptr,
    nullptr,
    nullptr,
};

}  // namespace
}  // namespace npu::sim

extern "C" __attribute__((visibility("default"))) const npu_transport *npu_sim_transport() { return &npu::sim::kTable; }
