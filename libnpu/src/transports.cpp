// SPDX-License-Identifier: MIT
// Which transport: NPU_DEVICE=drm|sim|auto.
#include "libnpu/src/transports.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common/status.h"
#include "libnpu/src/internal.h"
#include "npu_beside_internal.h"

namespace npu {
namespace {

constexpr size_t kWhy = 256;

struct Sim {
  const npu_transport *table = nullptr;
  Status loaded;
};

/// Loaded once, for ever: its threads may run until the process ends.
const Sim &sim() {
  static const Sim *const loaded = [] {
    auto *s = new Sim;
    const std::string path = beside(reinterpret_cast<const void *>(&npu_device_count), "libnpu-sim.so");
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      s->loaded = Status::error(-ENODEV, "the simulator cannot be loaded: " + std::string(dlerror()));
      return s;
    }
    const auto entry = reinterpret_cast<npu_transport_entry>(dlsym(library, NPU_SIM_ENTRY));
    const npu_transport *table = entry ? entry() : nullptr;
    if (table && table->abi == kNpuTransportAbi && table->bytes >= sizeof(npu_transport)) {
      s->table = table;
    } else {
      s->loaded = Status::error(-ENODEV, path + " belongs to another version of libnpu");
    }
    return s;
  }();
  return *loaded;
}

/// Once in a process: programs must not take the simulator for a card.
void tell_of_the_simulator() {
  static std::atomic_flag told;
  const char *quiet = getenv("NPU_QUIET");
  if ((quiet && !strcmp(quiet, "1")) || told.test_and_set()) return;
  tell(NPU_LOG_WARNING,
       "no NPU card (/dev/accel/accel* of the npu driver): using the simulator; NPU_DEVICE=sim chooses it, NPU_QUIET=1 "
       "silences this");
}

}  // namespace

int choose_transport(const npu_transport **transport, int *count) {
  const char *text = getenv("NPU_DEVICE");
  const std::string wish = text && *text ? text : "auto";
  if (wish != "drm" && wish != "sim" && wish != "auto")
    return fail(-EINVAL, "NPU_DEVICE=%s: expected drm, sim or auto", wish.c_str());
  *count = 0;
  if (wish != "sim") {
    char why[kWhy] = "";
    *transport = npu_drm_transport();
    const int found = (*transport)->count(why, sizeof(why));
    if (found < 0) return fail(found, "%s", why);
    *count = found;
    if (found || wish == "drm") return 0;
  }
  const Sim &s = sim();
  if (s.table) {
    *transport = s.table;
    char why[kWhy] = "";
    *count = s.table->count(why, sizeof(why));
    if (*count < 0) return fail(*count, "%s", why);
    if (wish == "auto" && *count) tell_of_the_simulator();
    return 0;
  }
  if (wish == "sim") return fail(s.loaded.code(), "%s", s.loaded.message().c_str());
  log(NPU_LOG_DEBUG, "%s", s.loaded.message().c_str());
  return 0;
}

}  // namespace npu
