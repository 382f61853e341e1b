// SPDX-License-Identifier: MIT
// The kernel driver: /dev/accel/accel*.
#include <dirent.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xf86drm.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "libnpu/src/transport.h"

struct npu_transport_file {
  int fd;
};

namespace npu::drm {
namespace {

constexpr char kFolder[] = "/dev/accel";
constexpr char kDriver[] = "qnpu";
constexpr size_t kPage = 4096;

/// 0 or -errno of an ioctl; the DRM core's -EINTR and -EAGAIN are taken care of.
int call(npu_transport_file *file, unsigned long request, void *args) {
  while (::ioctl(file->fd, request, args))
    if (errno != EINTR && errno != EAGAIN) return -errno;
  return 0;
}

bool is_ours(int fd) {
  drmVersionPtr version = drmGetVersion(fd);
  const bool ours = version && version->name && !strcmp(version->name, kDriver);
  drmFreeVersion(version);
  return ours;
}

/// For a node that cannot be opened: the driver that sysfs names, "" if it names none.
std::string driver_by_sysfs(const std::string &node) {
  const std::string link = "/sys/class/accel/" + node + "/device/driver";
  char target[256];
  const ssize_t length = readlink(link.c_str(), target, sizeof(target) - 1);
  if (length < 0) return "";
  target[length] = 0;
  const char *slash = strrchr(target, '/');
  return slash ? slash + 1 : target;
}

/// accel0, accel1 … by number.
std::vector<std::string> nodes() {
  std::vector<std::pair<long, std::string>> found;
  if (DIR *dir = opendir(kFolder)) {
    while (const dirent *entry = readdir(dir))
      if (!strncmp(entry->d_name, "accel", 5)) found.emplace_back(atol(entry->d_name + 5), entry->d_name);
    closedir(dir);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> names;
  for (auto &[number, name] : found) names.push_back(std::move(name));
  return names;
}

/// Calls use(fd, number) for each node of this driver until it returns true; it then owns fd. Negative: a node of ours
/// cannot be opened.
template <typename Use>
int each_device(char *why, size_t why_bytes, Use use) {
  unsigned int number = 0;
  for (const std::string &name : nodes()) {
    const std::string path = std::string(kFolder) + "/" + name;
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) {
      const int error = errno;
      const std::string driver = driver_by_sysfs(name);
      if ((error != EACCES && error != EPERM) || (!driver.empty() && driver != kDriver)) continue;
      snprintf(why, why_bytes, "%s: %s; read and write access to the node is needed", path.c_str(), strerror(error));
      return -EACCES;
    }
    if (is_ours(fd)) {
      if (use(fd, number)) return 0;
      number++;
    }
    ::close(fd);
  }
  return static_cast<int>(number);
}

int count(char *why, size_t why_bytes) {
  return each_device(why, why_bytes, [](int, unsigned int) { return false; });
}

int open_device(unsigned int index, npu_transport_file **file, char *why, size_t why_bytes) {
  int found = -1;
  const int err = each_device(why, why_bytes, [&](int fd, unsigned int number) {
    if (number == index) found = fd;
    return number == index;
  });
  if (err < 0) return err;
  if (found < 0) {
    snprintf(why, why_bytes, "it is gone");
    return -ENODEV;
  }
  *file = new npu_transport_file{found};
  return 0;
}

void close_device(npu_transport_file *file) {
  ::close(file->fd);
  delete file;
}

int driver(npu_transport_file *file, int version[3], char *name, size_t name_bytes) {
  drmVersionPtr v = drmGetVersion(file->fd);
  if (!v) return -errno;
  version[0] = v->version_major;
  version[1] = v->version_minor;
  version[2] = v->version_patchlevel;
  snprintf(name, name_bytes, "%s", v->name);
  drmFreeVersion(v);
  return 0;
}

int ioctl_device(npu_transport_file *f, unsigned long request, void *args) { return call(f, request, args); }

int map(npu_transport_file *f, uint32_t, uint64_t mmap_offset, uint64_t size, void **ptr) {
  void *mapping = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, static_cast<off_t>(mmap_offset));
  if (mapping == MAP_FAILED) return -errno;
  *ptr = mapping;
  return 0;
}

void unmap(npu_transport_file *, uint32_t, void *ptr, uint64_t size) { munmap(ptr, size); }

void ctx_destroy_id(npu_transport_file *f, uint32_t id) {
  drm_npu_ctx_destroy args{};
  args.ctx_id = id;
  call(f, DRM_IOCTL_NPU_CTX_DESTROY, &args);
}

int ctx_create(npu_transport_file *f, drm_npu_ctx_create *args, npu_transport_context *context) {
  drm_npu_dev_info info{};
  drm_npu_dev_query query{DRM_NPU_QUERY_DEV, sizeof(info), reinterpret_cast<uintptr_t>(&info)};
  if (int err = call(f, DRM_IOCTL_NPU_DEV_QUERY, &query)) return err;
  if (int err = call(f, DRM_IOCTL_NPU_CTX_CREATE, args)) return err;
  *context = {args->ctx_id, 0, nullptr, info.max_in_flight};
  void *page = mmap(nullptr, kPage, PROT_READ, MAP_SHARED, f->fd, static_cast<off_t>(args->fence_offset));
  if (page != MAP_FAILED) {
    context->fence_page = page;
    if (drmSyncobjCreate(f->fd, 0, &context->sync) == 0) return 0;
  }
  const int error = -errno;
  if (context->fence_page) munmap(page, kPage);
  ctx_destroy_id(f, args->ctx_id);
  return error;
}

void ctx_destroy(npu_transport_file *f, const npu_transport_context *context) {
  ctx_destroy_id(f, context->id);
  drmSyncobjDestroy(f->fd, context->sync);
  munmap(const_cast<void *>(context->fence_page), kPage);
}

int node(npu_transport_file *f) { return f->fd; }

const npu_transport kTable = {
    kNpuTransportAbi,
    sizeof(npu_transport),
    "drm",
    count,
    open_device,
    close_device,
    driver,
    ioctl_device,
    map,
    unmap,
    ctx_create,
    ctx_destroy,
    nullptr,
    nullptr,
    node,
    nullptr,
    nullptr,
};

}  // namespace
}  // namespace npu::drm

const npu_transport *npu_drm_transport() { return &npu::drm::kTable; }
